"""How runs are shown on a terminal."""

from typing import Final

from rich.table import Table

from justitia.api.v1 import common_pb2, run_pb2

_COLUMNS: Final = (
    "run",
    "application",
    "state",
    "waiting",
    "running",
    "done",
    "estimate, kvtt",
    "source",
    "attained, kvtt",
    "virtual finish",
)
_NUMBERS: Final = frozenset(_COLUMNS[3:]) - {"source"}


def state_name(run: run_pb2.Run) -> str:
    """Name a run's state in lower case."""
    return run_pb2.RunState.Name(run.state).removeprefix("RUN_STATE_").lower()


def source_name(run: run_pb2.Run) -> str:
    """Name who made the estimate."""
    name = common_pb2.EstimateSource.Name(run.estimate.source)
    return name.removeprefix("ESTIMATE_SOURCE_").lower()


def runs_table(title: str = "") -> Table:
    """Make an empty table of runs."""
    table = Table(title=title or None)
    for name in _COLUMNS:
        table.add_column(name, justify="right" if name in _NUMBERS else "left", overflow="fold")
    return table


def add_run(table: Table, run: run_pb2.Run) -> None:
    """Add one run to the table."""
    table.add_row(
        run.run_id,
        run.application,
        state_name(run),
        str(run.num_waiting),
        str(run.num_running),
        str(run.num_finished),
        f"{run.estimate.cost_kvtt:,}",
        source_name(run),
        f"{run.useful_kvtt:,}",
        f"{run.virtual_finish.kvtt:,.0f}",
    )
