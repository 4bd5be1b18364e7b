"""Cases that several experiments play. Equal arguments make equal names, so each is played once.

The second testbed's KV cache is not known. Its data sheet (four V100-SXM2-32GB) leaves 89 GB beside
the weights at the usual 90 % of the memory: 6,805 blocks. The first testbed's 459 blocks are
3.85 GB, 4.8 % of an A100 with 80 GB, so the paper gave its cache far less than there was.
``4xv100`` gives it the same share of the four V100s, ``4xv100-full`` all of the 89 GB.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from justitia.sim.loop import PlaySettings
from justitia.sim.reproduce.experiment import Case, Play, Scale
from justitia.sim.scenario import EnginePlan, Scenario
from justitia.sim.workloads.cases import elephant_and_mice
from justitia.sim.workloads.generate import LOADS_S, PAPER_RUNS, generate
from justitia.sim.workloads.mixes import MIXES
from justitia.sim.workloads.tables import PAPER_ENGINE

PAPER_ERROR: Final = "error:0.53"
"""Estimates as wrong as those of the paper's predictor (Table II)."""
S3_ERROR: Final = "error:4.52"
"""Estimates as wrong as those of DistilBERT in the paper (Table II)."""
OWN_ERROR: Final = "error:0.2"
"""Estimates as wrong as those of our own predictor: the mean over the nine applications of the mean
errors in ``examples/recordings/README.md`` is 19 %."""

_KV_BYTES_7B: Final = 2 * 32 * 4096 * 2
_KV_BYTES_13B: Final = 2 * 40 * 5120 * 2
_A100_BYTES: Final = 80e9
_V100S_BYTES: Final = 4 * 32e9
_WEIGHTS_13B_BYTES: Final = 26.0e9
_USED_SHARE: Final = 0.9

KV_SHARE: Final = PAPER_ENGINE.kv_capacity_tokens * _KV_BYTES_7B / _A100_BYTES
"""Share of the A100's memory that the paper's first testbed gives to the KV cache."""


def _v100s(kv_bytes: float) -> EnginePlan:
    return EnginePlan(
        blocks=int(kv_bytes / _KV_BYTES_13B / PAPER_ENGINE.block_size_tokens),
        block_size_tokens=PAPER_ENGINE.block_size_tokens,
        max_model_len_tokens=PAPER_ENGINE.max_model_len_tokens,
        has_prefix_cache=False,
        step_time="4xv100-llama-13b",
    )


TESTBEDS: Final[Mapping[str, EnginePlan]] = MappingProxyType(
    {
        "a100": PAPER_ENGINE,
        "4xv100": _v100s(KV_SHARE * _V100S_BYTES),
        "4xv100-full": _v100s(_USED_SHARE * _V100S_BYTES - _WEIGHTS_13B_BYTES),
    }
)
"""The paper's testbeds by name."""

LOADS: Final = tuple(LOADS_S)
LIGHT_LOAD: Final = "0.45x"
"""A load with which one A100 is just about always busy, in 40 minutes."""
_WINDOWS_S: Final[Mapping[str, float]] = MappingProxyType({**LOADS_S, LIGHT_LOAD: 2400.0})
POLICIES: Final = ("fcfs", "sjf", "parrot", "vtc", "srjf", "justitia")
"""Those that the paper compares."""
_BLIND: Final = frozenset({"fcfs", "parrot", "vtc"})
QUICK_RUNS: Final = 120


def num_runs(scale: Scale) -> int:
    """Runs of a mix: the paper's 300, or fewer that come at the same rate."""
    return QUICK_RUNS if scale.is_quick else PAPER_RUNS


def window_s(scale: Scale, load: str) -> float:
    """Seconds within which those runs arrive."""
    return _WINDOWS_S[load] * num_runs(scale) / PAPER_RUNS


def mix_scenario(*, seed: int, load: str, testbed: str, mix: str, num_runs: int) -> Scenario:
    """Draw runs of a named mix that arrive at the rate of a named load."""
    return generate(
        MIXES[mix],
        seed=seed,
        num_runs=num_runs,
        window_s=_WINDOWS_S[load] * num_runs / PAPER_RUNS,
        engines=(TESTBEDS[testbed],),
    )


def mix(
    seed: int,
    load: str = "3x",
    *,
    testbed: str = "a100",
    mix: str = "paper",
    num_runs: int = PAPER_RUNS,
) -> Case:
    """Name the paper's evaluation: 300 runs of nine types within 18, 9 or 6 minutes."""
    return Case.of(mix_scenario, seed=seed, load=load, testbed=testbed, mix=mix, num_runs=num_runs)


def elephant(
    seed: int, num_mice: int, *, mouse_size: float = -1.0, elephant_parts: int = 64
) -> Case:
    """Name an elephant and its mice, one a second; without more, mice leave a quarter idle."""
    return Case.of(
        elephant_and_mice,
        num_mice=num_mice,
        seed=seed,
        mouse_size=mouse_size,
        elephant_parts=elephant_parts,
    )


def evaluation(
    scale: Scale,
    seed: int,
    policy: str,
    *,
    load: str = "3x",
    testbed: str = "a100",
    estimator: str = "exact",
) -> Play:
    """Name a play of the paper's evaluation; ``estimator`` counts where the policy reads it."""
    settings = PlaySettings() if policy in _BLIND else PlaySettings(estimator=estimator)
    return Play(mix(seed, load, testbed=testbed, num_runs=num_runs(scale)), policy, settings)
