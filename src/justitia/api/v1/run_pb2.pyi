import datetime

from google.protobuf import timestamp_pb2 as _timestamp_pb2
from justitia.api.v1 import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class RunState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RUN_STATE_UNSPECIFIED: _ClassVar[RunState]
    RUN_STATE_IDLE: _ClassVar[RunState]
    RUN_STATE_WAITING: _ClassVar[RunState]
    RUN_STATE_RUNNING: _ClassVar[RunState]
    RUN_STATE_ENDED: _ClassVar[RunState]
RUN_STATE_UNSPECIFIED: RunState
RUN_STATE_IDLE: RunState
RUN_STATE_WAITING: RunState
RUN_STATE_RUNNING: RunState
RUN_STATE_ENDED: RunState

class StartRunRequest(_message.Message):
    __slots__ = ("pool", "run_id", "application", "prompt_text", "cost_kvtt", "hashed_prompt", "prompt_chars")
    POOL_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    APPLICATION_FIELD_NUMBER: _ClassVar[int]
    PROMPT_TEXT_FIELD_NUMBER: _ClassVar[int]
    COST_KVTT_FIELD_NUMBER: _ClassVar[int]
    HASHED_PROMPT_FIELD_NUMBER: _ClassVar[int]
    PROMPT_CHARS_FIELD_NUMBER: _ClassVar[int]
    pool: str
    run_id: str
    application: str
    prompt_text: str
    cost_kvtt: float
    hashed_prompt: str
    prompt_chars: int
    def __init__(self, pool: _Optional[str] = ..., run_id: _Optional[str] = ..., application: _Optional[str] = ..., prompt_text: _Optional[str] = ..., cost_kvtt: _Optional[float] = ..., hashed_prompt: _Optional[str] = ..., prompt_chars: _Optional[int] = ...) -> None: ...

class EndRunRequest(_message.Message):
    __slots__ = ("pool", "run_id")
    POOL_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    pool: str
    run_id: str
    def __init__(self, pool: _Optional[str] = ..., run_id: _Optional[str] = ...) -> None: ...

class GetRunRequest(_message.Message):
    __slots__ = ("pool", "run_id")
    POOL_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    pool: str
    run_id: str
    def __init__(self, pool: _Optional[str] = ..., run_id: _Optional[str] = ...) -> None: ...

class Run(_message.Message):
    __slots__ = ("pool", "run_id", "application", "state", "weight", "virtual_start", "virtual_finish", "arrival_sequence", "estimate", "useful_kvtt", "wasted_kvtt", "num_waiting", "num_running", "num_finished", "arrived_at", "finished_at", "jct_s", "fairness_ratio")
    POOL_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    APPLICATION_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    VIRTUAL_START_FIELD_NUMBER: _ClassVar[int]
    VIRTUAL_FINISH_FIELD_NUMBER: _ClassVar[int]
    ARRIVAL_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    ESTIMATE_FIELD_NUMBER: _ClassVar[int]
    USEFUL_KVTT_FIELD_NUMBER: _ClassVar[int]
    WASTED_KVTT_FIELD_NUMBER: _ClassVar[int]
    NUM_WAITING_FIELD_NUMBER: _ClassVar[int]
    NUM_RUNNING_FIELD_NUMBER: _ClassVar[int]
    NUM_FINISHED_FIELD_NUMBER: _ClassVar[int]
    ARRIVED_AT_FIELD_NUMBER: _ClassVar[int]
    FINISHED_AT_FIELD_NUMBER: _ClassVar[int]
    JCT_S_FIELD_NUMBER: _ClassVar[int]
    FAIRNESS_RATIO_FIELD_NUMBER: _ClassVar[int]
    pool: str
    run_id: str
    application: str
    state: RunState
    weight: float
    virtual_start: _common_pb2.VirtualTime
    virtual_finish: _common_pb2.VirtualTime
    arrival_sequence: int
    estimate: _common_pb2.Estimate
    useful_kvtt: int
    wasted_kvtt: int
    num_waiting: int
    num_running: int
    num_finished: int
    arrived_at: _timestamp_pb2.Timestamp
    finished_at: _timestamp_pb2.Timestamp
    jct_s: float
    fairness_ratio: float
    def __init__(self, pool: _Optional[str] = ..., run_id: _Optional[str] = ..., application: _Optional[str] = ..., state: _Optional[_Union[RunState, str]] = ..., weight: _Optional[float] = ..., virtual_start: _Optional[_Union[_common_pb2.VirtualTime, _Mapping]] = ..., virtual_finish: _Optional[_Union[_common_pb2.VirtualTime, _Mapping]] = ..., arrival_sequence: _Optional[int] = ..., estimate: _Optional[_Union[_common_pb2.Estimate, _Mapping]] = ..., useful_kvtt: _Optional[int] = ..., wasted_kvtt: _Optional[int] = ..., num_waiting: _Optional[int] = ..., num_running: _Optional[int] = ..., num_finished: _Optional[int] = ..., arrived_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., finished_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., jct_s: _Optional[float] = ..., fairness_ratio: _Optional[float] = ...) -> None: ...

class ListRunsRequest(_message.Message):
    __slots__ = ("pool", "application", "page_size", "page_token")
    POOL_FIELD_NUMBER: _ClassVar[int]
    APPLICATION_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    pool: str
    application: str
    page_size: int
    page_token: str
    def __init__(self, pool: _Optional[str] = ..., application: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListRunsResponse(_message.Message):
    __slots__ = ("runs", "next_page_token")
    RUNS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    runs: _containers.RepeatedCompositeFieldContainer[Run]
    next_page_token: str
    def __init__(self, runs: _Optional[_Iterable[_Union[Run, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class WatchRunsRequest(_message.Message):
    __slots__ = ("pool", "application")
    POOL_FIELD_NUMBER: _ClassVar[int]
    APPLICATION_FIELD_NUMBER: _ClassVar[int]
    pool: str
    application: str
    def __init__(self, pool: _Optional[str] = ..., application: _Optional[str] = ...) -> None: ...

class RunEvent(_message.Message):
    __slots__ = ("type", "run")
    class Type(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        TYPE_UNSPECIFIED: _ClassVar[RunEvent.Type]
        TYPE_OPEN: _ClassVar[RunEvent.Type]
        TYPE_CHANGED: _ClassVar[RunEvent.Type]
        TYPE_ENDED: _ClassVar[RunEvent.Type]
        TYPE_SYNCED: _ClassVar[RunEvent.Type]
    TYPE_UNSPECIFIED: RunEvent.Type
    TYPE_OPEN: RunEvent.Type
    TYPE_CHANGED: RunEvent.Type
    TYPE_ENDED: RunEvent.Type
    TYPE_SYNCED: RunEvent.Type
    TYPE_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    type: RunEvent.Type
    run: Run
    def __init__(self, type: _Optional[_Union[RunEvent.Type, str]] = ..., run: _Optional[_Union[Run, _Mapping]] = ...) -> None: ...

class ExplainRunRequest(_message.Message):
    __slots__ = ("pool", "run_id")
    POOL_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    pool: str
    run_id: str
    def __init__(self, pool: _Optional[str] = ..., run_id: _Optional[str] = ...) -> None: ...

class ExplainRunResponse(_message.Message):
    __slots__ = ("run", "reason", "virtual_time", "num_open", "num_ahead", "ahead", "rest_in_fluid_kvtt")
    RUN_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    VIRTUAL_TIME_FIELD_NUMBER: _ClassVar[int]
    NUM_OPEN_FIELD_NUMBER: _ClassVar[int]
    NUM_AHEAD_FIELD_NUMBER: _ClassVar[int]
    AHEAD_FIELD_NUMBER: _ClassVar[int]
    REST_IN_FLUID_KVTT_FIELD_NUMBER: _ClassVar[int]
    run: Run
    reason: str
    virtual_time: _common_pb2.VirtualTime
    num_open: int
    num_ahead: int
    ahead: _containers.RepeatedCompositeFieldContainer[Run]
    rest_in_fluid_kvtt: float
    def __init__(self, run: _Optional[_Union[Run, _Mapping]] = ..., reason: _Optional[str] = ..., virtual_time: _Optional[_Union[_common_pb2.VirtualTime, _Mapping]] = ..., num_open: _Optional[int] = ..., num_ahead: _Optional[int] = ..., ahead: _Optional[_Iterable[_Union[Run, _Mapping]]] = ..., rest_in_fluid_kvtt: _Optional[float] = ...) -> None: ...
