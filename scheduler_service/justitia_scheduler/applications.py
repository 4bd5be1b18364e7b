"""Declared applications of a pool and what became of their runs."""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Self

from justitia.core.errors import InvalidValueError
from justitia.core.estimates import Estimate, require_cost_kvtt
from justitia.core.privacy import Privacy
from justitia.core.runs import EndedRun, RunState
from justitia.core.units import UNIT_WEIGHT, NanoWeight, parse_weight
from justitia_scheduler.limits import require_id
from justitia_scheduler.objectives import DEFAULT_FOR_S
from justitia_scheduler.windows import Window

DEFAULT_IDLE_TIMEOUT_S: Final = 60.0
_MAX_DURATION_S: Final = 366 * 86400.0
_WINDOW_RUNS: Final = 1000


@dataclass(frozen=True, kw_only=True, slots=True)
class Application:
    """What was declared of one application; every value is within its limits.

    ``fallback_cost_kvtt`` None: the pool's default. ``max_duration_s``, ``max_concurrent_runs`` and
    ``objective_max_ratio`` 0: none. ``declared_by``: who keeps it declared; empty: nobody.
    """

    name: str
    weight: NanoWeight = UNIT_WEIGHT
    fallback_cost_kvtt: int | None = None
    privacy: Privacy = Privacy.TEXT
    idle_timeout_s: float = DEFAULT_IDLE_TIMEOUT_S
    max_duration_s: float = 0.0
    max_concurrent_runs: int = 0
    objective_max_ratio: float = 0.0
    declared_by: str = ""
    objective_for_s: float = DEFAULT_FOR_S

    def to_record(self) -> dict[str, Any]:
        """Write it down for the journal."""
        return asdict(self)

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        """Read what ``to_record`` wrote."""
        return cls(**{**record, "privacy": Privacy(record["privacy"].capitalize())})


def declare(
    *,
    name: str,
    weight: float,
    fallback_cost_kvtt: float | None,
    privacy: Privacy,
    idle_timeout_s: float,
    max_duration_s: float,
    max_concurrent_runs: int,
    objective_max_ratio: float,
    declared_by: str = "",
    objective_for_s: float = DEFAULT_FOR_S,
) -> Application:
    """Check a declaration as it came in; zeros mean defaults (see the proto).

    Raises:
        InvalidValueError: names the first field that is out of its range.
    """
    if max_concurrent_runs < 0:
        raise InvalidValueError("max_concurrent_runs", f"must be >= 0, got {max_concurrent_runs}")
    fallback = fallback_cost_kvtt
    return Application(
        name=require_id("application.name", name),
        weight=parse_weight(weight or 1, field="application.weight"),
        fallback_cost_kvtt=None
        if fallback is None
        else require_cost_kvtt("application.fallback_cost_kvtt", fallback),
        privacy=privacy,
        idle_timeout_s=_duration("idle_timeout_s", idle_timeout_s) or DEFAULT_IDLE_TIMEOUT_S,
        max_duration_s=_duration("max_duration_s", max_duration_s),
        max_concurrent_runs=max_concurrent_runs,
        objective_max_ratio=_ratio("objective_max_ratio", objective_max_ratio),
        declared_by=declared_by and require_id("application.declared_by", declared_by),
        objective_for_s=_duration("objective_for_s", objective_for_s),
    )


def _duration(name: str, value_s: float) -> float:
    if not 0 <= value_s <= _MAX_DURATION_S:  # NaN fails both comparisons
        raise InvalidValueError(
            f"application.{name}", f"must be from 0 to {_MAX_DURATION_S:g} seconds, got {value_s!r}"
        )
    return value_s


def _ratio(name: str, value: float) -> float:
    if value != 0 and not (math.isfinite(value) and value >= 1):
        raise InvalidValueError(f"application.{name}", f"must be 0 or >= 1, got {value!r}")
    return value


@dataclass(slots=True)
class Track:
    """What became of an application's runs since the start; windows hold the last 1000."""

    num_by_state: Counter[RunState] = field(default_factory=Counter)
    num_completed: int = 0
    jct_s: Window = field(default_factory=lambda: Window(_WINDOW_RUNS))
    ratios: Window = field(default_factory=lambda: Window(_WINDOW_RUNS))
    relative_errors: Window = field(default_factory=lambda: Window(_WINDOW_RUNS))
    last_estimate: Estimate | None = None

    def note_end(self, ended: EndedRun) -> None:
        """Count a run that did something and is over."""
        self.num_completed += 1
        self.jct_s.append(ended.jct_s)
        self.relative_errors.append(ended.relative_error)

    @property
    def num_open(self) -> int:
        """Open runs of the application."""
        return self.num_by_state.total()

    @property
    def jct_mean_s(self) -> float:
        """Mean over the window; 0 where nothing was measured."""
        return self.jct_s.mean

    @property
    def relative_error(self) -> float:
        """Mean over the window; 0 where nothing was measured."""
        return self.relative_errors.mean
