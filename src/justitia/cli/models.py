"""``justitia models``: an application's trained models, and which of them predicts."""

from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from justitia.cli.options import DEFAULT_ADDRESS, Address, Pool, TlsCa, TlsCert, TlsKey, connected

if TYPE_CHECKING:
    from justitia.api.v1 import training_pb2

models = typer.Typer(
    name="models",
    help="List trained models, go back to an earlier one, or do without.",
    no_args_is_help=True,
)

Application = Annotated[str, typer.Argument(metavar="APPLICATION", help="its name")]
Version = Annotated[
    str, typer.Argument(metavar="VERSION", help="of a stored model; its first 8 characters do")
]
_SHOWN_CHARS = 12


@models.command("list")
def list_models(
    *,
    application: Annotated[
        str, typer.Option("--application", "-a", help="only this application's")
    ] = "",
    address: Address = DEFAULT_ADDRESS,
    pool: Pool = "",
    tls_ca: TlsCa = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
) -> None:
    """List the stored models, oldest first, with why each is or is not active."""
    console = Console(highlight=False)
    with connected(address, tls_ca, cert=tls_cert, key=tls_key) as client:
        found = client.list_models(pool=pool, application=application)
    if not found:
        console.print("no models; `justitia train --publish` makes them")
        return
    table = Table()
    for name in ("application", "version", "published", "samples", "relative error", "", "why"):
        table.add_column(name, justify="right" if name in {"samples", "relative error"} else "left")
    for model in found:
        table.add_row(*_row(model))
    console.print(table)


@models.command("activate")
def activate(
    application: Application,
    version: Version,
    *,
    address: Address = DEFAULT_ADDRESS,
    pool: Pool = "",
    tls_ca: TlsCa = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
) -> None:
    """Have a stored model predict from now on, without a comparison: the way back."""
    with connected(address, tls_ca, cert=tls_cert, key=tls_key) as client:
        model = client.activate_model(application, version, pool=pool)
    typer.echo(f"{application}: model {model.version} is active")


@models.command("deactivate")
def deactivate(
    application: Application,
    *,
    address: Address = DEFAULT_ADDRESS,
    pool: Pool = "",
    tls_ca: TlsCa = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
) -> None:
    """Have no model predict: estimates come from finished runs. The models stay stored."""
    with connected(address, tls_ca, cert=tls_cert, key=tls_key) as client:
        version = client.deactivate_model(application, pool=pool)
    if version:
        typer.echo(f"{application}: model {version} is not active any more")
    else:
        typer.echo(f"{application}: no model was active")


def _row(model: "training_pb2.Model") -> tuple[str, ...]:
    return (
        model.application,
        model.version[:_SHOWN_CHARS],
        f"{model.published_at.ToDatetime():%Y-%m-%d %H:%M}",
        str(model.samples),
        f"{model.relative_error:.0%}" if model.relative_error else "-",
        "active" if model.is_active else "",
        model.reason,
    )
