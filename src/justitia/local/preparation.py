"""Gets ready what a comparison needs: model, manifests, agents, predictors, workload."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Self

from rich.console import Console

from justitia.local.agents import load_agents
from justitia.local.comparison import DEFAULT_POLICIES, ComparisonSettings
from justitia.local.engine import EngineSettings, cpu_engine, emulated_engine
from justitia.local.engine_kind import EngineKind
from justitia.local.manifests import read_manifests
from justitia.local.models import ensure_model
from justitia.local.predictors import read_samples, train_with_progress
from justitia.local.workload import make_workload
from justitia.predictor import artefact
from justitia.predictor.settings import TrainingSettings

AGENTS_DIR: Final = Path("examples/agents")
APPLICATIONS_DIR: Final = Path("examples/applications")
RECORDINGS: Final = Path("examples/recordings/runs.jsonl.gz")
_MIN_SAMPLES: Final = 20

# On the CPU the KV cache is made as small as the CPU is slow. A thousand tokens are a handful of
# inferences at once: with more of them all slow one another down and memory never binds.
_SMALL_KV: Final = {"kv_blocks": 32, "max_model_len_tokens": 1024, "watermark": 0.08}


@dataclass(frozen=True, slots=True)
class ComparisonSize:
    """How many runs arrive within how many seconds."""

    num_runs: int
    window_s: float

    @classmethod
    def of(cls, engine: EngineKind) -> Self:
        """Give about three times as much work as the engine can do while runs arrive.

        On the CPU three policies then take under 8 minutes on 2 cores.
        """
        return cls(30, 18.0) if engine is EngineKind.CPU else cls(60, 10.0)

    def changed(self, *, num_runs: int | None, window_s: float | None) -> Self:
        """Change what is given."""
        return replace(
            self,
            num_runs=self.num_runs if num_runs is None else num_runs,
            window_s=self.window_s if window_s is None else window_s,
        )


def prepare(
    *,
    policies: Sequence[str] = DEFAULT_POLICIES,
    size: ComparisonSize | None = None,
    seed: int = 1,
    engine: EngineKind = EngineKind.CPU,
    engine_changes: Mapping[str, Any] | None = None,
    cache_dir: Path = Path(".cache"),
    log_dir: Path,
) -> ComparisonSettings:
    """Fetch, read and train what is needed.

    ``engine_changes`` are fields of ``EngineSettings``; None among them means the default.

    Raises:
        LocalModeError: something is missing or broken; the message says what to do.
        ManifestError: a manifest of the examples is refused.
    """
    console = Console(stderr=True)
    size = size or ComparisonSize.of(engine)
    model_dir = ensure_model(engine, cache_dir, console)
    samples = read_samples(RECORDINGS)
    settings = TrainingSettings(min_samples=_MIN_SAMPLES)
    trained = train_with_progress(samples, settings=settings, console=console)
    changes = {k: v for k, v in (engine_changes or {}).items() if v is not None}
    return ComparisonSettings(
        policies=policies,
        workload=make_workload(seed=seed, num_runs=size.num_runs, window_s=size.window_s),
        agents=load_agents(AGENTS_DIR),
        manifests=read_manifests(APPLICATIONS_DIR),
        models={name: artefact.to_bytes(model) for name, model in trained.models.items()},
        engine=_engine_maker(engine, model_dir, changes),
        conditions=f"{size.num_runs} runs of nine applications within {size.window_s:g} s, "
        f"seed {seed}, engine {engine.value}",
        log_dir=log_dir,
    )


def _engine_maker(
    kind: EngineKind, model_dir: Path, changes: Mapping[str, Any]
) -> Callable[[str, str, int, Path], EngineSettings]:
    is_cpu = kind is EngineKind.CPU
    make = cpu_engine if is_cpu else emulated_engine
    common = {**(_SMALL_KV if is_cpu else {}), **changes}

    def engine_for(policy: str, address: str, port: int, log_path: Path) -> EngineSettings:
        facts = {"policy": policy, "scheduler_address": address, **common}
        return make(model_dir, port=port, log_path=log_path, **facts)

    return engine_for
