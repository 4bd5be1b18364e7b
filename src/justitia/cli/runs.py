"""``justitia runs``: what is open, in the order of service."""

from typing import Annotated

import typer
from rich.console import Console

from justitia.cli.options import DEFAULT_ADDRESS, Address, Pool, TlsCa, TlsCert, TlsKey, connected


def runs(
    *,
    application: Annotated[
        str, typer.Option("--application", "-a", help="only this application's runs")
    ] = "",
    watch: Annotated[bool, typer.Option("--watch", "-w", help="print every change")] = False,
    limit: Annotated[int, typer.Option(min=1, help="show at most this many")] = 100,
    address: Address = DEFAULT_ADDRESS,
    pool: Pool = "",
    tls_ca: TlsCa = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
) -> None:
    """List open runs in the order in which they are served."""
    from justitia.api.v1 import run_pb2
    from justitia.cli.show import add_run, runs_table, state_name

    console = Console(highlight=False)
    with connected(address, tls_ca, cert=tls_cert, key=tls_key) as client:
        if watch:
            for event in client.watch_runs(pool=pool, application=application):
                if event.type != run_pb2.RunEvent.TYPE_SYNCED:
                    run = event.run
                    console.print(
                        f"{run.run_id} {run.application} {state_name(run)} "
                        f"waiting={run.num_waiting} running={run.num_running} "
                        f"done={run.num_finished}",
                        markup=False,
                        soft_wrap=True,
                    )
            return
        table = runs_table()
        for number, run in enumerate(client.list_runs(pool=pool, application=application)):
            if number == limit:
                console.print(f"(the first {limit}; --limit shows more)")
                break
            add_run(table, run)
    console.print(table if table.row_count else "no open runs")
