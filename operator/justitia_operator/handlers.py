"""What kopf does here: it watches four kinds of objects and tells of every change. Nothing else.

Only event handlers are registered, so kopf keeps no state of its own: no finalizer, no annotation,
no status, no event. Peering is off: one replica runs, and a second one would do no harm, since
writes are applied server-side and Jobs have names made from their reasons.
"""

import logging
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Final

import kopf

from justitia_operator.facts import GROUP, VERSION, Kind
from justitia_operator.gather import Body
from justitia_operator.manifests import MANAGED_BY

#: Tells of an object; the last one is whether it is gone.
Seen = Callable[[Kind, Body, bool], None]

_MAX_BACKOFF_S: Final = 15.0
_EXIT_S: Final = 20.0
_RESOURCES: Final = {
    Kind.APPLICATION: (GROUP, VERSION, "llmapplications"),
    Kind.PROFILE: (GROUP, VERSION, "predictorprofiles"),
    Kind.SERVICE: ("", "v1", "services"),
    Kind.JOB: ("batch", "v1", "jobs"),
}


class _Patience:
    """Waits between attempts at the API server: growing, and never at an end.

    With kopf's own list a watch gives up after about a minute without permission or server, and the
    whole process with it.
    """

    def __iter__(self) -> Iterator[float]:
        wait_s = 0.5
        while True:
            yield wait_s
            wait_s = min(_MAX_BACKOFF_S, wait_s * 2)


def build_registry(
    seen: Seen,
    *,
    on_start: Callable[[], Awaitable[None]],
    on_stop: Callable[[], Awaitable[None]],
) -> kopf.OperatorRegistry:
    """Register what is to be told."""
    registry = kopf.OperatorRegistry()
    kopf.on.login(registry=registry)(kopf.login_via_client)

    @kopf.on.startup(registry=registry)
    async def start(**_: Any) -> None:
        await on_start()

    @kopf.on.cleanup(registry=registry)
    async def stop(**_: Any) -> None:
        await on_stop()

    for kind, resource in _RESOURCES.items():
        _watch(registry, kind, resource, seen)
    return registry


def _watch(
    registry: kopf.OperatorRegistry, kind: Kind, resource: tuple[str, str, str], seen: Seen
) -> None:
    @kopf.on.event(*resource, registry=registry, id=f"seen-{kind.value.lower()}")
    async def tell(event: kopf.RawEvent, **_: Any) -> None:
        seen(kind, event["object"], event["type"] == "DELETED")


def build_settings(*, is_clusterwide: bool) -> kopf.OperatorSettings:
    """Set kopf up to watch quietly, patiently, and to leave quickly."""
    # It would tell of every event that was taken in.
    logging.getLogger("kopf.objects").setLevel(logging.WARNING)
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.peering.standalone = True
    settings.process.ultimate_exiting_timeout = _EXIT_S
    settings.networking.error_backoffs = _Patience()
    settings.networking.trust_env = True
    settings.networking.request_timeout = 30
    settings.networking.connect_timeout = 5
    # An event is handled in no time; workers that linger for more only delay the end.
    settings.queueing.idle_timeout = 0.5
    settings.queueing.exit_timeout = 0.5
    # Without rights on the whole cluster neither CRDs nor namespaces can be watched.
    settings.scanning.disabled = not is_clusterwide
    label, value = next(iter(MANAGED_BY.items()))
    settings.watching.label_selectors["batch", "v1", "jobs"] = f"{label}={value}"
    return settings
