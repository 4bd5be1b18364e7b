from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class EstimateSource(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ESTIMATE_SOURCE_UNSPECIFIED: _ClassVar[EstimateSource]
    ESTIMATE_SOURCE_CLIENT: _ClassVar[EstimateSource]
    ESTIMATE_SOURCE_MODEL: _ClassVar[EstimateSource]
    ESTIMATE_SOURCE_HISTORY: _ClassVar[EstimateSource]
    ESTIMATE_SOURCE_POOL: _ClassVar[EstimateSource]
    ESTIMATE_SOURCE_DEFAULT: _ClassVar[EstimateSource]

class PoolMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    POOL_MODE_UNSPECIFIED: _ClassVar[PoolMode]
    POOL_MODE_ENFORCE: _ClassVar[PoolMode]
    POOL_MODE_SHADOW: _ClassVar[PoolMode]
ESTIMATE_SOURCE_UNSPECIFIED: EstimateSource
ESTIMATE_SOURCE_CLIENT: EstimateSource
ESTIMATE_SOURCE_MODEL: EstimateSource
ESTIMATE_SOURCE_HISTORY: EstimateSource
ESTIMATE_SOURCE_POOL: EstimateSource
ESTIMATE_SOURCE_DEFAULT: EstimateSource
POOL_MODE_UNSPECIFIED: PoolMode
POOL_MODE_ENFORCE: PoolMode
POOL_MODE_SHADOW: PoolMode

class Estimate(_message.Message):
    __slots__ = ("cost_kvtt", "source", "model_version")
    COST_KVTT_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    MODEL_VERSION_FIELD_NUMBER: _ClassVar[int]
    cost_kvtt: int
    source: EstimateSource
    model_version: str
    def __init__(self, cost_kvtt: _Optional[int] = ..., source: _Optional[_Union[EstimateSource, str]] = ..., model_version: _Optional[str] = ...) -> None: ...

class VirtualTime(_message.Message):
    __slots__ = ("ticks", "kvtt")
    TICKS_FIELD_NUMBER: _ClassVar[int]
    KVTT_FIELD_NUMBER: _ClassVar[int]
    ticks: str
    kvtt: float
    def __init__(self, ticks: _Optional[str] = ..., kvtt: _Optional[float] = ...) -> None: ...
