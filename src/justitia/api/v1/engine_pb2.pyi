from justitia.api.v1 import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class EngineMessage(_message.Message):
    __slots__ = ("hello", "report")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    REPORT_FIELD_NUMBER: _ClassVar[int]
    hello: Hello
    report: Report
    def __init__(self, hello: _Optional[_Union[Hello, _Mapping]] = ..., report: _Optional[_Union[Report, _Mapping]] = ...) -> None: ...

class Hello(_message.Message):
    __slots__ = ("pool", "engine_id", "incarnation", "kv_blocks", "block_size_tokens", "max_num_seqs", "max_num_batched_tokens", "max_model_len_tokens", "vllm_version", "plugin_version", "policy", "model", "known_runs", "last_virtual_time", "more_follows", "steps", "unowned_useful_kvtt", "unowned_wasted_kvtt")
    POOL_FIELD_NUMBER: _ClassVar[int]
    ENGINE_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    KV_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    BLOCK_SIZE_TOKENS_FIELD_NUMBER: _ClassVar[int]
    MAX_NUM_SEQS_FIELD_NUMBER: _ClassVar[int]
    MAX_NUM_BATCHED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    MAX_MODEL_LEN_TOKENS_FIELD_NUMBER: _ClassVar[int]
    VLLM_VERSION_FIELD_NUMBER: _ClassVar[int]
    PLUGIN_VERSION_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    KNOWN_RUNS_FIELD_NUMBER: _ClassVar[int]
    LAST_VIRTUAL_TIME_FIELD_NUMBER: _ClassVar[int]
    MORE_FOLLOWS_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    UNOWNED_USEFUL_KVTT_FIELD_NUMBER: _ClassVar[int]
    UNOWNED_WASTED_KVTT_FIELD_NUMBER: _ClassVar[int]
    pool: str
    engine_id: str
    incarnation: str
    kv_blocks: int
    block_size_tokens: int
    max_num_seqs: int
    max_num_batched_tokens: int
    max_model_len_tokens: int
    vllm_version: str
    plugin_version: str
    policy: str
    model: str
    known_runs: _containers.RepeatedCompositeFieldContainer[KnownRun]
    last_virtual_time: _common_pb2.VirtualTime
    more_follows: bool
    steps: int
    unowned_useful_kvtt: int
    unowned_wasted_kvtt: int
    def __init__(self, pool: _Optional[str] = ..., engine_id: _Optional[str] = ..., incarnation: _Optional[str] = ..., kv_blocks: _Optional[int] = ..., block_size_tokens: _Optional[int] = ..., max_num_seqs: _Optional[int] = ..., max_num_batched_tokens: _Optional[int] = ..., max_model_len_tokens: _Optional[int] = ..., vllm_version: _Optional[str] = ..., plugin_version: _Optional[str] = ..., policy: _Optional[str] = ..., model: _Optional[str] = ..., known_runs: _Optional[_Iterable[_Union[KnownRun, _Mapping]]] = ..., last_virtual_time: _Optional[_Union[_common_pb2.VirtualTime, _Mapping]] = ..., more_follows: bool = ..., steps: _Optional[int] = ..., unowned_useful_kvtt: _Optional[int] = ..., unowned_wasted_kvtt: _Optional[int] = ...) -> None: ...

class KnownRun(_message.Message):
    __slots__ = ("run_id", "application", "virtual_finish", "virtual_start", "arrival_sequence", "useful_kvtt", "wasted_kvtt", "num_waiting", "num_running", "age_s", "weight", "estimate", "ends_when_idle", "prompt_tokens", "learned_kvtt")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    APPLICATION_FIELD_NUMBER: _ClassVar[int]
    VIRTUAL_FINISH_FIELD_NUMBER: _ClassVar[int]
    VIRTUAL_START_FIELD_NUMBER: _ClassVar[int]
    ARRIVAL_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    USEFUL_KVTT_FIELD_NUMBER: _ClassVar[int]
    WASTED_KVTT_FIELD_NUMBER: _ClassVar[int]
    NUM_WAITING_FIELD_NUMBER: _ClassVar[int]
    NUM_RUNNING_FIELD_NUMBER: _ClassVar[int]
    AGE_S_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    ESTIMATE_FIELD_NUMBER: _ClassVar[int]
    ENDS_WHEN_IDLE_FIELD_NUMBER: _ClassVar[int]
    PROMPT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    LEARNED_KVTT_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    application: str
    virtual_finish: _common_pb2.VirtualTime
    virtual_start: _common_pb2.VirtualTime
    arrival_sequence: int
    useful_kvtt: int
    wasted_kvtt: int
    num_waiting: int
    num_running: int
    age_s: float
    weight: float
    estimate: _common_pb2.Estimate
    ends_when_idle: bool
    prompt_tokens: int
    learned_kvtt: int
    def __init__(self, run_id: _Optional[str] = ..., application: _Optional[str] = ..., virtual_finish: _Optional[_Union[_common_pb2.VirtualTime, _Mapping]] = ..., virtual_start: _Optional[_Union[_common_pb2.VirtualTime, _Mapping]] = ..., arrival_sequence: _Optional[int] = ..., useful_kvtt: _Optional[int] = ..., wasted_kvtt: _Optional[int] = ..., num_waiting: _Optional[int] = ..., num_running: _Optional[int] = ..., age_s: _Optional[float] = ..., weight: _Optional[float] = ..., estimate: _Optional[_Union[_common_pb2.Estimate, _Mapping]] = ..., ends_when_idle: bool = ..., prompt_tokens: _Optional[int] = ..., learned_kvtt: _Optional[int] = ...) -> None: ...

class Report(_message.Message):
    __slots__ = ("sequence", "steps", "kv_used_tokens", "runs", "finished", "new_runs", "closed_run_ids", "preemptions", "num_waiting", "num_running", "unidentified_inferences", "malformed_identities", "tag_delay_s", "unowned_useful_kvtt", "unowned_wasted_kvtt")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    KV_USED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    RUNS_FIELD_NUMBER: _ClassVar[int]
    FINISHED_FIELD_NUMBER: _ClassVar[int]
    NEW_RUNS_FIELD_NUMBER: _ClassVar[int]
    CLOSED_RUN_IDS_FIELD_NUMBER: _ClassVar[int]
    PREEMPTIONS_FIELD_NUMBER: _ClassVar[int]
    NUM_WAITING_FIELD_NUMBER: _ClassVar[int]
    NUM_RUNNING_FIELD_NUMBER: _ClassVar[int]
    UNIDENTIFIED_INFERENCES_FIELD_NUMBER: _ClassVar[int]
    MALFORMED_IDENTITIES_FIELD_NUMBER: _ClassVar[int]
    TAG_DELAY_S_FIELD_NUMBER: _ClassVar[int]
    UNOWNED_USEFUL_KVTT_FIELD_NUMBER: _ClassVar[int]
    UNOWNED_WASTED_KVTT_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    steps: int
    kv_used_tokens: int
    runs: _containers.RepeatedCompositeFieldContainer[RunProgress]
    finished: _containers.RepeatedCompositeFieldContainer[FinishedInference]
    new_runs: _containers.RepeatedCompositeFieldContainer[NewRun]
    closed_run_ids: _containers.RepeatedScalarFieldContainer[str]
    preemptions: int
    num_waiting: int
    num_running: int
    unidentified_inferences: int
    malformed_identities: int
    tag_delay_s: float
    unowned_useful_kvtt: int
    unowned_wasted_kvtt: int
    def __init__(self, sequence: _Optional[int] = ..., steps: _Optional[int] = ..., kv_used_tokens: _Optional[int] = ..., runs: _Optional[_Iterable[_Union[RunProgress, _Mapping]]] = ..., finished: _Optional[_Iterable[_Union[FinishedInference, _Mapping]]] = ..., new_runs: _Optional[_Iterable[_Union[NewRun, _Mapping]]] = ..., closed_run_ids: _Optional[_Iterable[str]] = ..., preemptions: _Optional[int] = ..., num_waiting: _Optional[int] = ..., num_running: _Optional[int] = ..., unidentified_inferences: _Optional[int] = ..., malformed_identities: _Optional[int] = ..., tag_delay_s: _Optional[float] = ..., unowned_useful_kvtt: _Optional[int] = ..., unowned_wasted_kvtt: _Optional[int] = ...) -> None: ...

class RunProgress(_message.Message):
    __slots__ = ("run_id", "useful_kvtt", "wasted_kvtt", "num_waiting", "num_running", "num_lost_finished")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    USEFUL_KVTT_FIELD_NUMBER: _ClassVar[int]
    WASTED_KVTT_FIELD_NUMBER: _ClassVar[int]
    NUM_WAITING_FIELD_NUMBER: _ClassVar[int]
    NUM_RUNNING_FIELD_NUMBER: _ClassVar[int]
    NUM_LOST_FINISHED_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    useful_kvtt: int
    wasted_kvtt: int
    num_waiting: int
    num_running: int
    num_lost_finished: int
    def __init__(self, run_id: _Optional[str] = ..., useful_kvtt: _Optional[int] = ..., wasted_kvtt: _Optional[int] = ..., num_waiting: _Optional[int] = ..., num_running: _Optional[int] = ..., num_lost_finished: _Optional[int] = ...) -> None: ...

class NewRun(_message.Message):
    __slots__ = ("run_id", "application", "prompt_tokens", "age_s", "ends_when_idle")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    APPLICATION_FIELD_NUMBER: _ClassVar[int]
    PROMPT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    AGE_S_FIELD_NUMBER: _ClassVar[int]
    ENDS_WHEN_IDLE_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    application: str
    prompt_tokens: int
    age_s: float
    ends_when_idle: bool
    def __init__(self, run_id: _Optional[str] = ..., application: _Optional[str] = ..., prompt_tokens: _Optional[int] = ..., age_s: _Optional[float] = ..., ends_when_idle: bool = ...) -> None: ...

class FinishedInference(_message.Message):
    __slots__ = ("run_id", "prompt_tokens", "cached_tokens", "output_tokens", "preemptions", "useful_kvtt", "is_aborted", "arrived_age_s", "started_age_s", "finished_age_s", "computed_s")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    PROMPT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    CACHED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    PREEMPTIONS_FIELD_NUMBER: _ClassVar[int]
    USEFUL_KVTT_FIELD_NUMBER: _ClassVar[int]
    IS_ABORTED_FIELD_NUMBER: _ClassVar[int]
    ARRIVED_AGE_S_FIELD_NUMBER: _ClassVar[int]
    STARTED_AGE_S_FIELD_NUMBER: _ClassVar[int]
    FINISHED_AGE_S_FIELD_NUMBER: _ClassVar[int]
    COMPUTED_S_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int
    preemptions: int
    useful_kvtt: int
    is_aborted: bool
    arrived_age_s: float
    started_age_s: float
    finished_age_s: float
    computed_s: float
    def __init__(self, run_id: _Optional[str] = ..., prompt_tokens: _Optional[int] = ..., cached_tokens: _Optional[int] = ..., output_tokens: _Optional[int] = ..., preemptions: _Optional[int] = ..., useful_kvtt: _Optional[int] = ..., is_aborted: bool = ..., arrived_age_s: _Optional[float] = ..., started_age_s: _Optional[float] = ..., finished_age_s: _Optional[float] = ..., computed_s: _Optional[float] = ...) -> None: ...

class EngineDirective(_message.Message):
    __slots__ = ("tags", "ended_run_ids", "mode", "virtual_time", "total_weight", "default_cost_kvtt", "weights")
    TAGS_FIELD_NUMBER: _ClassVar[int]
    ENDED_RUN_IDS_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    VIRTUAL_TIME_FIELD_NUMBER: _ClassVar[int]
    TOTAL_WEIGHT_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_COST_KVTT_FIELD_NUMBER: _ClassVar[int]
    WEIGHTS_FIELD_NUMBER: _ClassVar[int]
    tags: _containers.RepeatedCompositeFieldContainer[Tag]
    ended_run_ids: _containers.RepeatedScalarFieldContainer[str]
    mode: _common_pb2.PoolMode
    virtual_time: _common_pb2.VirtualTime
    total_weight: float
    default_cost_kvtt: int
    weights: _containers.RepeatedCompositeFieldContainer[ApplicationWeight]
    def __init__(self, tags: _Optional[_Iterable[_Union[Tag, _Mapping]]] = ..., ended_run_ids: _Optional[_Iterable[str]] = ..., mode: _Optional[_Union[_common_pb2.PoolMode, str]] = ..., virtual_time: _Optional[_Union[_common_pb2.VirtualTime, _Mapping]] = ..., total_weight: _Optional[float] = ..., default_cost_kvtt: _Optional[int] = ..., weights: _Optional[_Iterable[_Union[ApplicationWeight, _Mapping]]] = ...) -> None: ...

class ApplicationWeight(_message.Message):
    __slots__ = ("application", "weight")
    APPLICATION_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    application: str
    weight: float
    def __init__(self, application: _Optional[str] = ..., weight: _Optional[float] = ...) -> None: ...

class Tag(_message.Message):
    __slots__ = ("run_id", "virtual_finish", "virtual_start", "arrival_sequence", "estimate", "weight", "learned_kvtt")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    VIRTUAL_FINISH_FIELD_NUMBER: _ClassVar[int]
    VIRTUAL_START_FIELD_NUMBER: _ClassVar[int]
    ARRIVAL_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    ESTIMATE_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    LEARNED_KVTT_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    virtual_finish: _common_pb2.VirtualTime
    virtual_start: _common_pb2.VirtualTime
    arrival_sequence: int
    estimate: _common_pb2.Estimate
    weight: float
    learned_kvtt: int
    def __init__(self, run_id: _Optional[str] = ..., virtual_finish: _Optional[_Union[_common_pb2.VirtualTime, _Mapping]] = ..., virtual_start: _Optional[_Union[_common_pb2.VirtualTime, _Mapping]] = ..., arrival_sequence: _Optional[int] = ..., estimate: _Optional[_Union[_common_pb2.Estimate, _Mapping]] = ..., weight: _Optional[float] = ..., learned_kvtt: _Optional[int] = ...) -> None: ...
