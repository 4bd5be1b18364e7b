"""``kubectl justitia``: the same commands against a release in a cluster.

kubectl runs a program named ``kubectl-justitia`` for it. Each command finds the release's scheduler
service, forwards a port to it with the user's own kubectl, and then is the one of ``justitia``.
"""

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from justitia.cli import explain as explain_command
from justitia.cli import models as models_command
from justitia.cli import top as top_command
from justitia.cli import train as train_command
from justitia.cli.main import run_app
from justitia.cli.options import TlsCa, TlsCert, TlsKey, warn
from justitia.cli.port_forward import Kubectl, KubectlError, find_scheduler, forwarded
from justitia.cli.training_request import fetch_profile, request_training

app = typer.Typer(
    name="kubectl justitia",
    help="Look into Justitia's pools in a cluster.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
models = typer.Typer(help=models_command.models.info.help, no_args_is_help=True)
app.add_typer(models, name="models")

Namespace = Annotated[str, typer.Option("--namespace", "-n", help="of the release")]
Context = Annotated[str, typer.Option("--context", help="of the kubeconfig")]
Kubeconfig = Annotated[Path | None, typer.Option("--kubeconfig", help="file to use")]
Release = Annotated[str, typer.Option("--release", help="where a namespace has several")]
Pool = Annotated[
    str, typer.Option("--pool", "-p", help="name, or namespace/name; empty: the default pool")
]
Address = Annotated[
    str, typer.Option("--address", help="host:port of the scheduler service, without kubectl")
]


@app.command("top")
def top(
    *,
    pool: Pool = "",
    namespace: Namespace = "",
    context: Context = "",
    kubeconfig: Kubeconfig = None,
    release: Release = "",
    address: Address = "",
    tls_ca: TlsCa = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
) -> None:
    """Show a pool's engines and applications."""
    kubectl = Kubectl(namespace=namespace, context=context, kubeconfig=kubeconfig)
    given = {"address": address, "tls_ca": tls_ca, "tls_cert": tls_cert, "tls_key": tls_key}
    with _connection(kubectl, release, pool, given) as connection:
        top_command.top(**connection)


@app.command("explain")
def explain(
    run_id: Annotated[str, typer.Argument(metavar="RUN", help="its id, as the client gave it")],
    *,
    pool: Pool = "",
    namespace: Namespace = "",
    context: Context = "",
    kubeconfig: Kubeconfig = None,
    release: Release = "",
    address: Address = "",
    tls_ca: TlsCa = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
) -> None:
    """Say why a run waits, who is ahead of it, and what its virtual finish is made of."""
    kubectl = Kubectl(namespace=namespace, context=context, kubeconfig=kubeconfig)
    given = {"address": address, "tls_ca": tls_ca, "tls_cert": tls_cert, "tls_key": tls_key}
    with _connection(kubectl, release, pool, given) as connection:
        explain_command.explain(run_id, **connection)


@app.command("train")
def train(
    application: Annotated[str, typer.Argument(metavar="APPLICATION", help="its name")],
    *,
    job: Annotated[
        bool,
        typer.Option("--job", help="have the cluster do it now: a Job of the PredictorProfile"),
    ] = False,
    publish: Annotated[
        bool, typer.Option("--publish", help="make the model active in the service, unless worse")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="with --publish: active, also if worse")
    ] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="folder for the model's files")
    ] = None,
    profile: Annotated[
        Path | None,
        typer.Option(
            help="file with a PredictorProfile, as `kubectl get predprof -o yaml` prints, in place "
            "of the one that the application names"
        ),
    ] = None,
    recordings: Annotated[
        Path | None,
        typer.Option(help="file or folder in place of the profile's ConfigMap or volume"),
    ] = None,
    pool: Pool = "",
    namespace: Namespace = "",
    context: Context = "",
    kubeconfig: Kubeconfig = None,
    release: Release = "",
    address: Address = "",
    tls_ca: TlsCa = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
) -> None:
    """Train a predictor here, from the samples that the cluster's service has recorded.

    By the PredictorProfile that the application of that name in --namespace names; without one, and
    with --address, by the defaults. With --job the cluster trains, and a profile is needed.
    """
    kubectl = Kubectl(namespace=namespace, context=context, kubeconfig=kubeconfig)
    if job:
        if any((publish, force, output, profile, recordings, address)):
            raise typer.BadParameter(
                "--job takes neither --publish nor --force nor --output nor --profile"
                " nor --recordings nor --address"
            )
        typer.echo(request_training(kubectl, application))
        return
    given = {"address": address, "tls_ca": tls_ca, "tls_cert": tls_cert, "tls_key": tls_key}
    with (
        _connection(kubectl, release, pool, given) as connection,
        tempfile.TemporaryDirectory(prefix="justitia-") as folder,
    ):
        if profile is None and not address:
            profile = _profile_in_cluster(kubectl, application, Path(folder))
        try:
            train_command.train(
                application=application,
                profile=profile,
                recordings=recordings,
                publish=publish,
                force=force,
                output=output,
                **connection,
            )
        except ModuleNotFoundError as error:
            raise KubectlError(
                f"{error.name} is not installed; training needs: pip install 'justitia[predictor]'"
            ) from None


def _profile_in_cluster(kubectl: Kubectl, application: str, folder: Path) -> Path | None:
    """Fetch the profile to train by, and say which; where it cannot be had, say that."""
    try:
        path = fetch_profile(kubectl, application, folder)
    except KubectlError as error:
        warn(f"the defaults are trained by, as no PredictorProfile could be read: {error}")
        return None
    if path is not None:
        typer.echo(f"by PredictorProfile {path.stem}", err=True)
    return path


@models.command("list")
def list_models(
    *,
    application: Annotated[
        str, typer.Option("--application", "-a", help="only this application's")
    ] = "",
    pool: Pool = "",
    namespace: Namespace = "",
    context: Context = "",
    kubeconfig: Kubeconfig = None,
    release: Release = "",
    address: Address = "",
    tls_ca: TlsCa = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
) -> None:
    """List the stored models, oldest first, with why each is or is not active."""
    kubectl = Kubectl(namespace=namespace, context=context, kubeconfig=kubeconfig)
    given = {"address": address, "tls_ca": tls_ca, "tls_cert": tls_cert, "tls_key": tls_key}
    with _connection(kubectl, release, pool, given) as connection:
        models_command.list_models(application=application, **connection)


@models.command("activate")
def activate_model(
    application: models_command.Application,
    version: models_command.Version,
    *,
    pool: Pool = "",
    namespace: Namespace = "",
    context: Context = "",
    kubeconfig: Kubeconfig = None,
    release: Release = "",
    address: Address = "",
    tls_ca: TlsCa = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
) -> None:
    """Have a stored model predict from now on, without a comparison: the way back."""
    kubectl = Kubectl(namespace=namespace, context=context, kubeconfig=kubeconfig)
    given = {"address": address, "tls_ca": tls_ca, "tls_cert": tls_cert, "tls_key": tls_key}
    with _connection(kubectl, release, pool, given) as connection:
        models_command.activate(application, version, **connection)


@models.command("deactivate")
def deactivate_model(
    application: models_command.Application,
    *,
    pool: Pool = "",
    namespace: Namespace = "",
    context: Context = "",
    kubeconfig: Kubeconfig = None,
    release: Release = "",
    address: Address = "",
    tls_ca: TlsCa = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
) -> None:
    """Have no model predict: estimates come from finished runs. The models stay stored."""
    kubectl = Kubectl(namespace=namespace, context=context, kubeconfig=kubeconfig)
    given = {"address": address, "tls_ca": tls_ca, "tls_cert": tls_cert, "tls_key": tls_key}
    with _connection(kubectl, release, pool, given) as connection:
        models_command.deactivate(application, **connection)


@contextlib.contextmanager
def _connection(
    kubectl: Kubectl, release: str, pool: str, given: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    """Give the options of a command of ``justitia``: those that were given, or a port forward's."""
    if given["address"]:
        yield given | {"pool": pool}
        return
    scheduler = find_scheduler(kubectl, release)
    key = f"{scheduler.namespace}/{pool}" if pool and "/" not in pool else pool
    with forwarded(kubectl, scheduler) as (address, tls):
        files = {
            "tls_ca": given["tls_ca"] or (tls and tls.ca),
            "tls_cert": given["tls_cert"] or (tls and tls.cert),
            "tls_key": given["tls_key"] or (tls and tls.key),
        }
        yield {"address": address, "pool": key, **files}


def main() -> NoReturn:
    """Run the command; exit codes are those of ``justitia``."""
    run_app(app)
