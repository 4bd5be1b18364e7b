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

class Privacy(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PRIVACY_UNSPECIFIED: _ClassVar[Privacy]
    PRIVACY_TEXT: _ClassVar[Privacy]
    PRIVACY_HASHED: _ClassVar[Privacy]
    PRIVACY_NONE: _ClassVar[Privacy]

class ObjectiveVerdict(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OBJECTIVE_VERDICT_UNSPECIFIED: _ClassVar[ObjectiveVerdict]
    OBJECTIVE_VERDICT_NO_OBJECTIVE: _ClassVar[ObjectiveVerdict]
    OBJECTIVE_VERDICT_TOO_FEW_RUNS: _ClassVar[ObjectiveVerdict]
    OBJECTIVE_VERDICT_MET: _ClassVar[ObjectiveVerdict]
    OBJECTIVE_VERDICT_MISSED: _ClassVar[ObjectiveVerdict]
PRIVACY_UNSPECIFIED: Privacy
PRIVACY_TEXT: Privacy
PRIVACY_HASHED: Privacy
PRIVACY_NONE: Privacy
OBJECTIVE_VERDICT_UNSPECIFIED: ObjectiveVerdict
OBJECTIVE_VERDICT_NO_OBJECTIVE: ObjectiveVerdict
OBJECTIVE_VERDICT_TOO_FEW_RUNS: ObjectiveVerdict
OBJECTIVE_VERDICT_MET: ObjectiveVerdict
OBJECTIVE_VERDICT_MISSED: ObjectiveVerdict

class Application(_message.Message):
    __slots__ = ("name", "pool", "weight", "fallback_cost_kvtt", "privacy", "idle_timeout_s", "max_duration_s", "max_concurrent_runs", "objective_max_ratio", "status", "declared_by", "objective_for_s")
    NAME_FIELD_NUMBER: _ClassVar[int]
    POOL_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    FALLBACK_COST_KVTT_FIELD_NUMBER: _ClassVar[int]
    PRIVACY_FIELD_NUMBER: _ClassVar[int]
    IDLE_TIMEOUT_S_FIELD_NUMBER: _ClassVar[int]
    MAX_DURATION_S_FIELD_NUMBER: _ClassVar[int]
    MAX_CONCURRENT_RUNS_FIELD_NUMBER: _ClassVar[int]
    OBJECTIVE_MAX_RATIO_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    DECLARED_BY_FIELD_NUMBER: _ClassVar[int]
    OBJECTIVE_FOR_S_FIELD_NUMBER: _ClassVar[int]
    name: str
    pool: str
    weight: float
    fallback_cost_kvtt: float
    privacy: Privacy
    idle_timeout_s: float
    max_duration_s: float
    max_concurrent_runs: int
    objective_max_ratio: float
    status: ApplicationStatus
    declared_by: str
    objective_for_s: float
    def __init__(self, name: _Optional[str] = ..., pool: _Optional[str] = ..., weight: _Optional[float] = ..., fallback_cost_kvtt: _Optional[float] = ..., privacy: _Optional[_Union[Privacy, str]] = ..., idle_timeout_s: _Optional[float] = ..., max_duration_s: _Optional[float] = ..., max_concurrent_runs: _Optional[int] = ..., objective_max_ratio: _Optional[float] = ..., status: _Optional[_Union[ApplicationStatus, _Mapping]] = ..., declared_by: _Optional[str] = ..., objective_for_s: _Optional[float] = ...) -> None: ...

class ApplicationStatus(_message.Message):
    __slots__ = ("active_runs", "completed_runs", "weighted_share", "fairness_ratio_p50", "fairness_ratio_p99", "jct_mean_s", "jct_p90_s", "prediction_source", "model_version", "prediction_relative_error", "samples", "samples_since_model", "objective_verdict", "fairness_ratio_recent_p90", "model_relative_error", "model_judged_runs", "model_expected_relative_error", "newest_sample_at", "newest_third_from")
    ACTIVE_RUNS_FIELD_NUMBER: _ClassVar[int]
    COMPLETED_RUNS_FIELD_NUMBER: _ClassVar[int]
    WEIGHTED_SHARE_FIELD_NUMBER: _ClassVar[int]
    FAIRNESS_RATIO_P50_FIELD_NUMBER: _ClassVar[int]
    FAIRNESS_RATIO_P99_FIELD_NUMBER: _ClassVar[int]
    JCT_MEAN_S_FIELD_NUMBER: _ClassVar[int]
    JCT_P90_S_FIELD_NUMBER: _ClassVar[int]
    PREDICTION_SOURCE_FIELD_NUMBER: _ClassVar[int]
    MODEL_VERSION_FIELD_NUMBER: _ClassVar[int]
    PREDICTION_RELATIVE_ERROR_FIELD_NUMBER: _ClassVar[int]
    SAMPLES_FIELD_NUMBER: _ClassVar[int]
    SAMPLES_SINCE_MODEL_FIELD_NUMBER: _ClassVar[int]
    OBJECTIVE_VERDICT_FIELD_NUMBER: _ClassVar[int]
    FAIRNESS_RATIO_RECENT_P90_FIELD_NUMBER: _ClassVar[int]
    MODEL_RELATIVE_ERROR_FIELD_NUMBER: _ClassVar[int]
    MODEL_JUDGED_RUNS_FIELD_NUMBER: _ClassVar[int]
    MODEL_EXPECTED_RELATIVE_ERROR_FIELD_NUMBER: _ClassVar[int]
    NEWEST_SAMPLE_AT_FIELD_NUMBER: _ClassVar[int]
    NEWEST_THIRD_FROM_FIELD_NUMBER: _ClassVar[int]
    active_runs: int
    completed_runs: int
    weighted_share: float
    fairness_ratio_p50: float
    fairness_ratio_p99: float
    jct_mean_s: float
    jct_p90_s: float
    prediction_source: _common_pb2.EstimateSource
    model_version: str
    prediction_relative_error: float
    samples: int
    samples_since_model: int
    objective_verdict: ObjectiveVerdict
    fairness_ratio_recent_p90: float
    model_relative_error: float
    model_judged_runs: int
    model_expected_relative_error: float
    newest_sample_at: _timestamp_pb2.Timestamp
    newest_third_from: _timestamp_pb2.Timestamp
    def __init__(self, active_runs: _Optional[int] = ..., completed_runs: _Optional[int] = ..., weighted_share: _Optional[float] = ..., fairness_ratio_p50: _Optional[float] = ..., fairness_ratio_p99: _Optional[float] = ..., jct_mean_s: _Optional[float] = ..., jct_p90_s: _Optional[float] = ..., prediction_source: _Optional[_Union[_common_pb2.EstimateSource, str]] = ..., model_version: _Optional[str] = ..., prediction_relative_error: _Optional[float] = ..., samples: _Optional[int] = ..., samples_since_model: _Optional[int] = ..., objective_verdict: _Optional[_Union[ObjectiveVerdict, str]] = ..., fairness_ratio_recent_p90: _Optional[float] = ..., model_relative_error: _Optional[float] = ..., model_judged_runs: _Optional[int] = ..., model_expected_relative_error: _Optional[float] = ..., newest_sample_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., newest_third_from: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class ApplyApplicationRequest(_message.Message):
    __slots__ = ("application",)
    APPLICATION_FIELD_NUMBER: _ClassVar[int]
    application: Application
    def __init__(self, application: _Optional[_Union[Application, _Mapping]] = ...) -> None: ...

class DeleteApplicationRequest(_message.Message):
    __slots__ = ("pool", "name")
    POOL_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    pool: str
    name: str
    def __init__(self, pool: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class DeleteApplicationResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListApplicationsRequest(_message.Message):
    __slots__ = ("pool", "all_pools")
    POOL_FIELD_NUMBER: _ClassVar[int]
    ALL_POOLS_FIELD_NUMBER: _ClassVar[int]
    pool: str
    all_pools: bool
    def __init__(self, pool: _Optional[str] = ..., all_pools: bool = ...) -> None: ...

class ListApplicationsResponse(_message.Message):
    __slots__ = ("applications",)
    APPLICATIONS_FIELD_NUMBER: _ClassVar[int]
    applications: _containers.RepeatedCompositeFieldContainer[Application]
    def __init__(self, applications: _Optional[_Iterable[_Union[Application, _Mapping]]] = ...) -> None: ...

class DescribePoolRequest(_message.Message):
    __slots__ = ("pool",)
    POOL_FIELD_NUMBER: _ClassVar[int]
    pool: str
    def __init__(self, pool: _Optional[str] = ...) -> None: ...

class SetPoolModeRequest(_message.Message):
    __slots__ = ("pool", "mode")
    POOL_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    pool: str
    mode: _common_pb2.PoolMode
    def __init__(self, pool: _Optional[str] = ..., mode: _Optional[_Union[_common_pb2.PoolMode, str]] = ...) -> None: ...

class Pool(_message.Message):
    __slots__ = ("name", "mode", "virtual_time", "total_weight", "open_runs", "waiting_runs", "useful_kvtt", "wasted_kvtt", "engines", "clock")
    NAME_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    VIRTUAL_TIME_FIELD_NUMBER: _ClassVar[int]
    TOTAL_WEIGHT_FIELD_NUMBER: _ClassVar[int]
    OPEN_RUNS_FIELD_NUMBER: _ClassVar[int]
    WAITING_RUNS_FIELD_NUMBER: _ClassVar[int]
    USEFUL_KVTT_FIELD_NUMBER: _ClassVar[int]
    WASTED_KVTT_FIELD_NUMBER: _ClassVar[int]
    ENGINES_FIELD_NUMBER: _ClassVar[int]
    CLOCK_FIELD_NUMBER: _ClassVar[int]
    name: str
    mode: _common_pb2.PoolMode
    virtual_time: _common_pb2.VirtualTime
    total_weight: float
    open_runs: int
    waiting_runs: int
    useful_kvtt: int
    wasted_kvtt: int
    engines: _containers.RepeatedCompositeFieldContainer[Engine]
    clock: str
    def __init__(self, name: _Optional[str] = ..., mode: _Optional[_Union[_common_pb2.PoolMode, str]] = ..., virtual_time: _Optional[_Union[_common_pb2.VirtualTime, _Mapping]] = ..., total_weight: _Optional[float] = ..., open_runs: _Optional[int] = ..., waiting_runs: _Optional[int] = ..., useful_kvtt: _Optional[int] = ..., wasted_kvtt: _Optional[int] = ..., engines: _Optional[_Iterable[_Union[Engine, _Mapping]]] = ..., clock: _Optional[str] = ...) -> None: ...

class Engine(_message.Message):
    __slots__ = ("engine_id", "incarnation", "kv_capacity_tokens", "kv_used_tokens", "steps", "vllm_version", "plugin_version", "policy", "model", "num_waiting", "num_running", "preemptions")
    ENGINE_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    KV_CAPACITY_TOKENS_FIELD_NUMBER: _ClassVar[int]
    KV_USED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    VLLM_VERSION_FIELD_NUMBER: _ClassVar[int]
    PLUGIN_VERSION_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    NUM_WAITING_FIELD_NUMBER: _ClassVar[int]
    NUM_RUNNING_FIELD_NUMBER: _ClassVar[int]
    PREEMPTIONS_FIELD_NUMBER: _ClassVar[int]
    engine_id: str
    incarnation: str
    kv_capacity_tokens: int
    kv_used_tokens: int
    steps: int
    vllm_version: str
    plugin_version: str
    policy: str
    model: str
    num_waiting: int
    num_running: int
    preemptions: int
    def __init__(self, engine_id: _Optional[str] = ..., incarnation: _Optional[str] = ..., kv_capacity_tokens: _Optional[int] = ..., kv_used_tokens: _Optional[int] = ..., steps: _Optional[int] = ..., vllm_version: _Optional[str] = ..., plugin_version: _Optional[str] = ..., policy: _Optional[str] = ..., model: _Optional[str] = ..., num_waiting: _Optional[int] = ..., num_running: _Optional[int] = ..., preemptions: _Optional[int] = ...) -> None: ...
