"""``justitia explain RUN``: why a run stands where it stands."""

from typing import Annotated

import typer
from rich.console import Console

from justitia.cli.options import DEFAULT_ADDRESS, Address, Pool, TlsCa, TlsCert, TlsKey, connected


def explain(
    run_id: Annotated[str, typer.Argument(metavar="RUN", help="its id, as in `justitia runs`")],
    *,
    address: Address = DEFAULT_ADDRESS,
    pool: Pool = "",
    tls_ca: TlsCa = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
) -> None:
    """Say why a run waits, who is ahead of it, and what its virtual finish is made of."""
    from justitia.cli.show import add_run, runs_table, source_name, state_name

    with connected(address, tls_ca, cert=tls_cert, key=tls_key) as client:
        answer = client.explain_run(run_id, pool=pool)
    run = answer.run
    console = Console(highlight=False)
    version = f" {run.estimate.model_version[:12]}" if run.estimate.model_version else ""
    lines = (
        f"{run.run_id} of {run.application}: {state_name(run)}",
        answer.reason,
        "",
        f"virtual start S    {run.virtual_start.kvtt:,.0f}",
        f"estimate C         {run.estimate.cost_kvtt:,} kvtt, from {source_name(run)}{version}",
        f"weight w           {run.weight:g}",
        f"virtual finish F   {run.virtual_finish.kvtt:,.0f}  = S + C/w",
        f"virtual time V     {answer.virtual_time.kvtt:,.0f}",
        f"attained           {run.useful_kvtt:,} kvtt useful, {run.wasted_kvtt:,} wasted",
        f"ahead              {answer.num_ahead} of {answer.num_open} open runs",
    )
    console.print("\n".join(lines), markup=False, soft_wrap=True)
    if answer.ahead:
        table = runs_table("served first")
        for other in answer.ahead:
            add_run(table, other)
        console.print(table)
