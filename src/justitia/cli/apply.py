"""``justitia apply``: declare applications to a scheduler service without a cluster."""

from rich.console import Console

from justitia.cli.options import DEFAULT_ADDRESS, Address, Manifests, TlsCa, connected


def apply(*, file: Manifests, address: Address = DEFAULT_ADDRESS, tls_ca: TlsCa = None) -> None:
    """Declare the applications of a manifest, or replace what was declared."""
    from justitia.local.declare import declare
    from justitia.local.manifests import LLMApplication, read_manifests

    manifests = read_manifests(file)
    with connected(address, tls_ca) as client:
        declare(client, manifests)
    console = Console(highlight=False)
    for manifest in manifests:
        name = f"{manifest.kind.lower()}/{manifest.metadata.name}"
        note = (
            "applied" if isinstance(manifest, LLMApplication) else "read (used by justitia train)"
        )
        console.print(f"{name} {note}")
