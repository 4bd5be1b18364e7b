"""The tables of the nine types as Markdown, for ``docs/workloads.md``."""

from collections.abc import Iterable, Iterator

from justitia.sim.workloads.coding_sessions import STATISTICS
from justitia.sim.workloads.kind import Kind, Stage
from justitia.sim.workloads.mixes import MIXES
from justitia.sim.workloads.spread import SYNTHETIC, Spread
from justitia.sim.workloads.tables import KINDS

_STAGE_HEAD = (
    "type",
    "stage",
    "inferences",
    "waits for",
    "instructions",
    "run's text",
    "outputs read, at most",
    "own",
    "output",
    "tool before it, s",
)


def stages_table() -> str:
    """Stages of every type: median, spread and bounds of each number."""
    return _table(
        _STAGE_HEAD, (_stage_row(kind, s) for kind in KINDS.values() for s in kind.stages)
    )


def sources_table() -> str:
    """What is cited; every number that is not here is synthetic."""
    return _table(("type", "number", "value", "source"), _cited())


def mixes_table() -> str:
    """Shares of the types in each mix, in percent."""
    names = sorted(MIXES)
    rows = (
        (
            kind.name,
            kind.size_class.value,
            *(f"{100 * MIXES[n].get(kind.name, 0):.1f}" for n in names),
        )
        for kind in KINDS.values()
    )
    return _table(("type", "size", *names), rows)


def sessions_table() -> str:
    """What sessions of coding agents are drawn from."""
    rows = ((name, _shown(spread), spread.source) for name, spread in STATISTICS.items())
    return _table(("of a session", "drawn from", "source"), rows)


def _stage_row(kind: Kind, stage: Stage) -> tuple[str, ...]:
    return (
        kind.abbreviation,
        stage.name,
        "as many" if stage.count is None else _shown(stage.count),
        stage.waits.value,
        _shown(stage.instructions),
        _shown(kind.text) if stage.reads_text else "",
        str(stage.reads_output_tokens or ""),
        "" if stage.own is None else _shown(stage.own),
        _shown(stage.output),
        "–".join(f"{bound:g}" for bound in stage.pause_s) if stage.pause_s[1] else "",
    )


def _cited() -> Iterator[tuple[str, ...]]:
    for kind in KINDS.values():
        if kind.shape_source != SYNTHETIC:
            yield kind.abbreviation, "stages", kind.about, kind.shape_source
        for stage in kind.stages:
            numbers = {
                "inferences": stage.count,
                "instructions": stage.instructions,
                "own": stage.own,
                "output": stage.output,
            }
            for name, spread in numbers.items():
                if spread is not None and spread.source != SYNTHETIC:
                    yield kind.abbreviation, f"{stage.name}: {name}", _shown(spread), spread.source


def _shown(spread: Spread) -> str:
    if spread.least == spread.most:
        return str(spread.median)
    return f"{spread.median} ± {100 * spread.sigma:.0f} % ({spread.least}–{spread.most})"


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    names = tuple(head)
    lines = [f"| {' | '.join(names)} |", "|" + "---|" * len(names)]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)]) + "\n"
