"""``justitia apply``: declare applications to a scheduler service without a cluster."""

from rich.console import Console

from justitia.cli.options import DEFAULT_ADDRESS, Address, Manifests, TlsCa, connected, warn


def apply(*, file: Manifests, address: Address = DEFAULT_ADDRESS, tls_ca: TlsCa = None) -> None:
    """Declare the applications of a manifest, or replace what was declared."""
    from justitia.local.declare import declare, unhonoured
    from justitia.local.manifests import read_manifests
    from justitia.resources.application import LLMApplication

    manifests = read_manifests(file)
    with connected(address, tls_ca) as client:
        declare(client, manifests)
    console = Console(highlight=False)
    for manifest in manifests:
        if isinstance(manifest, LLMApplication):
            console.print(f"llmapplication/{manifest.metadata.name} applied")
    warn(unhonoured(manifests))
