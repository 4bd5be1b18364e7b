"""``justitia top``: a pool at a glance: its engines, its applications, and how fairly they fare."""

from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from justitia.cli.options import (
    DEFAULT_ADDRESS,
    Address,
    Pool,
    TlsCa,
    TlsCert,
    TlsKey,
    connected,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from justitia.api.v1 import admin_pb2


def top(
    *,
    address: Address = DEFAULT_ADDRESS,
    pool: Pool = "",
    tls_ca: TlsCa = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
) -> None:
    """Show a pool's engines and applications."""
    from justitia.api.v1 import common_pb2

    with connected(address, tls_ca, cert=tls_cert, key=tls_key) as client:
        described = client.describe_pool(pool)
        applications = client.list_applications(pool=described.name)
    console = Console(highlight=False)
    mode = common_pb2.PoolMode.Name(described.mode).removeprefix("POOL_MODE_").lower()
    served = described.useful_kvtt + described.wasted_kvtt
    wasted = described.wasted_kvtt / served if served else 0.0
    console.print(
        f"pool {described.name} ({mode}): {described.open_runs} open runs,"
        f" {described.waiting_runs} waiting; {wasted:.1%} of its service wasted",
        markup=False,
        soft_wrap=True,
    )
    console.print(_engines(described) if described.engines else "no engine is connected")
    console.print(_applications(applications) if applications else "no application is declared")


def _engines(pool: "admin_pb2.Pool") -> Table:
    table = _table("engine", "model", "policy", "KV used", "running", "waiting", "preempted")
    for engine in pool.engines:
        capacity = engine.kv_capacity_tokens
        table.add_row(
            engine.engine_id,
            engine.model,
            engine.policy,
            f"{engine.kv_used_tokens / capacity:.0%}" if capacity else "-",
            str(engine.num_running),
            str(engine.num_waiting),
            str(engine.preemptions),
        )
    return table


def _applications(applications: "Iterable[admin_pb2.Application]") -> Table:
    table = _table(
        "application", "weight", "active", "ended", "share", "ρ p50", "ρ p99", "JCT mean", "error"
    )
    for application in sorted(applications, key=lambda a: a.name):
        status = application.status
        has_ended = status.completed_runs > 0
        table.add_row(
            application.name,
            f"{application.weight:g}",
            str(status.active_runs),
            str(status.completed_runs),
            f"{status.weighted_share:.0%}",
            f"{status.fairness_ratio_p50:.2f}" if has_ended else "-",
            f"{status.fairness_ratio_p99:.2f}" if has_ended else "-",
            f"{status.jct_mean_s:.1f} s" if has_ended else "-",
            f"{status.prediction_relative_error:.0%}" if has_ended else "-",
        )
    return table


def _table(*columns: str) -> Table:
    table = Table()
    names = {"engine", "model", "policy", "application"}
    for column in columns:
        table.add_column(column, justify="left" if column in names else "right", overflow="fold")
    return table
