import datetime

from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Activation(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ACTIVATION_UNSPECIFIED: _ClassVar[Activation]
    ACTIVATION_UNLESS_WORSE: _ClassVar[Activation]
    ACTIVATION_ALWAYS: _ClassVar[Activation]
    ACTIVATION_NEVER: _ClassVar[Activation]
ACTIVATION_UNSPECIFIED: Activation
ACTIVATION_UNLESS_WORSE: Activation
ACTIVATION_ALWAYS: Activation
ACTIVATION_NEVER: Activation

class ExportSamplesRequest(_message.Message):
    __slots__ = ("pool", "application", "max_samples")
    POOL_FIELD_NUMBER: _ClassVar[int]
    APPLICATION_FIELD_NUMBER: _ClassVar[int]
    MAX_SAMPLES_FIELD_NUMBER: _ClassVar[int]
    pool: str
    application: str
    max_samples: int
    def __init__(self, pool: _Optional[str] = ..., application: _Optional[str] = ..., max_samples: _Optional[int] = ...) -> None: ...

class Sample(_message.Message):
    __slots__ = ("application", "run_id", "prompt_text", "cost_kvtt", "num_inferences", "finished_at")
    APPLICATION_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    PROMPT_TEXT_FIELD_NUMBER: _ClassVar[int]
    COST_KVTT_FIELD_NUMBER: _ClassVar[int]
    NUM_INFERENCES_FIELD_NUMBER: _ClassVar[int]
    FINISHED_AT_FIELD_NUMBER: _ClassVar[int]
    application: str
    run_id: str
    prompt_text: str
    cost_kvtt: int
    num_inferences: int
    finished_at: _timestamp_pb2.Timestamp
    def __init__(self, application: _Optional[str] = ..., run_id: _Optional[str] = ..., prompt_text: _Optional[str] = ..., cost_kvtt: _Optional[int] = ..., num_inferences: _Optional[int] = ..., finished_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class PublishModelRequest(_message.Message):
    __slots__ = ("pool", "application", "artefact", "activation", "held_out")
    POOL_FIELD_NUMBER: _ClassVar[int]
    APPLICATION_FIELD_NUMBER: _ClassVar[int]
    ARTEFACT_FIELD_NUMBER: _ClassVar[int]
    ACTIVATION_FIELD_NUMBER: _ClassVar[int]
    HELD_OUT_FIELD_NUMBER: _ClassVar[int]
    pool: str
    application: str
    artefact: bytes
    activation: Activation
    held_out: _containers.RepeatedCompositeFieldContainer[HeldOutRun]
    def __init__(self, pool: _Optional[str] = ..., application: _Optional[str] = ..., artefact: _Optional[bytes] = ..., activation: _Optional[_Union[Activation, str]] = ..., held_out: _Optional[_Iterable[_Union[HeldOutRun, _Mapping]]] = ...) -> None: ...

class HeldOutRun(_message.Message):
    __slots__ = ("run_id", "cost_kvtt", "predicted_kvtt")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    COST_KVTT_FIELD_NUMBER: _ClassVar[int]
    PREDICTED_KVTT_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    cost_kvtt: float
    predicted_kvtt: float
    def __init__(self, run_id: _Optional[str] = ..., cost_kvtt: _Optional[float] = ..., predicted_kvtt: _Optional[float] = ...) -> None: ...

class Model(_message.Message):
    __slots__ = ("application", "version", "published_at", "samples", "relative_error", "is_active", "reason", "activated_at")
    APPLICATION_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    PUBLISHED_AT_FIELD_NUMBER: _ClassVar[int]
    SAMPLES_FIELD_NUMBER: _ClassVar[int]
    RELATIVE_ERROR_FIELD_NUMBER: _ClassVar[int]
    IS_ACTIVE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    ACTIVATED_AT_FIELD_NUMBER: _ClassVar[int]
    application: str
    version: str
    published_at: _timestamp_pb2.Timestamp
    samples: int
    relative_error: float
    is_active: bool
    reason: str
    activated_at: _timestamp_pb2.Timestamp
    def __init__(self, application: _Optional[str] = ..., version: _Optional[str] = ..., published_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., samples: _Optional[int] = ..., relative_error: _Optional[float] = ..., is_active: bool = ..., reason: _Optional[str] = ..., activated_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class GetModelRequest(_message.Message):
    __slots__ = ("pool", "application", "version")
    POOL_FIELD_NUMBER: _ClassVar[int]
    APPLICATION_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    pool: str
    application: str
    version: str
    def __init__(self, pool: _Optional[str] = ..., application: _Optional[str] = ..., version: _Optional[str] = ...) -> None: ...

class GetModelResponse(_message.Message):
    __slots__ = ("model", "artefact")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    ARTEFACT_FIELD_NUMBER: _ClassVar[int]
    model: Model
    artefact: bytes
    def __init__(self, model: _Optional[_Union[Model, _Mapping]] = ..., artefact: _Optional[bytes] = ...) -> None: ...

class ListModelsRequest(_message.Message):
    __slots__ = ("pool", "application")
    POOL_FIELD_NUMBER: _ClassVar[int]
    APPLICATION_FIELD_NUMBER: _ClassVar[int]
    pool: str
    application: str
    def __init__(self, pool: _Optional[str] = ..., application: _Optional[str] = ...) -> None: ...

class ListModelsResponse(_message.Message):
    __slots__ = ("models",)
    MODELS_FIELD_NUMBER: _ClassVar[int]
    models: _containers.RepeatedCompositeFieldContainer[Model]
    def __init__(self, models: _Optional[_Iterable[_Union[Model, _Mapping]]] = ...) -> None: ...

class ActivateModelRequest(_message.Message):
    __slots__ = ("pool", "application", "version")
    POOL_FIELD_NUMBER: _ClassVar[int]
    APPLICATION_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    pool: str
    application: str
    version: str
    def __init__(self, pool: _Optional[str] = ..., application: _Optional[str] = ..., version: _Optional[str] = ...) -> None: ...

class DeactivateModelRequest(_message.Message):
    __slots__ = ("pool", "application")
    POOL_FIELD_NUMBER: _ClassVar[int]
    APPLICATION_FIELD_NUMBER: _ClassVar[int]
    pool: str
    application: str
    def __init__(self, pool: _Optional[str] = ..., application: _Optional[str] = ...) -> None: ...

class DeactivateModelResponse(_message.Message):
    __slots__ = ("version",)
    VERSION_FIELD_NUMBER: _ClassVar[int]
    version: str
    def __init__(self, version: _Optional[str] = ...) -> None: ...
