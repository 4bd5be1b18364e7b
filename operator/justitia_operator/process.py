"""The operator as a process: puts the parts together, runs until a signal, leaves quickly."""

import asyncio
from datetime import UTC, datetime
from typing import Any, Final

import kopf
import structlog

from justitia.client.connection import TlsFiles
from justitia.flags import split_address
from justitia_operator.apply import KubernetesCluster, load_client
from justitia_operator.comparison import Comparison
from justitia_operator.facts import Kind, Reach
from justitia_operator.handlers import build_registry, build_settings
from justitia_operator.manifests import TrainerOptions
from justitia_operator.metrics import Metrics
from justitia_operator.pages import Pages
from justitia_operator.reconciler import Reconciler, ReconcilerOptions
from justitia_operator.scheduler import SchedulerLink
from justitia_operator.settings import Settings, SettingsError
from justitia_operator.writing import Clock

#: Looks at a time; each may wait for a call of the API server and one of the service.
NUM_WORKERS: Final = 8

_log = structlog.get_logger()


class Process:
    """One operator. ``stop`` ends it as a signal does."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._stop = asyncio.Event()
        self._failure: BaseException | None = None
        self._background: asyncio.Task[None] | None = None
        self._loop = asyncio.get_running_loop()
        clock = Clock(now=lambda: datetime.now(UTC), now_s=self._loop.time)
        self.metrics = Metrics()
        self._cluster = KubernetesCluster(load_client(), settings.namespaces)
        self._link = SchedulerLink(
            settings.scheduler_address, tls_files(settings), now_s=clock.now_s
        )
        self.reconciler = Reconciler(
            self._cluster, self._link, _options(settings), self.metrics, clock
        )
        self._comparison = Comparison(
            self.reconciler, namespaces=settings.namespaces, resync_s=settings.resync_s
        )
        self.metrics.read_from(
            queue_length=lambda: len(self.reconciler.wakeups),
            objects=self.reconciler.world.count,
            is_deaf=lambda kind: kind in self.reconciler.world.deaf,
            is_scheduler_up=lambda: self._link.reach is Reach.YES,
        )
        self.port = 0

    def stop(self) -> None:
        """Ask it to end; may be called from any thread."""
        self._loop.call_soon_threadsafe(self._stop.set)

    async def run(self) -> None:
        """Run until a signal or ``stop``.

        Raises:
            ListenError: the HTTP port cannot be used.
            Exception: what made the operator give up.
        """
        pages = Pages(
            self.metrics.registry,
            ailment=self._comparison.ailment,
            unreadiness=self._comparison.unreadiness,
        )
        self.port = await pages.start(*split_address("http_address", self._settings.http_address))
        namespaces = self._settings.namespaces
        _log.info(
            "started",
            scheduler=self._settings.scheduler_address,
            namespaces=", ".join(namespaces) or "all",
            http_port=self.port,
        )
        try:
            await kopf.operator(
                registry=build_registry(
                    self._seen, on_start=self._start, on_stop=self._end_background
                ),
                settings=build_settings(is_clusterwide=not namespaces),
                clusterwide=not namespaces,
                namespaces=namespaces,
                standalone=True,
                # kopf would look up the user's name, which an arbitrary user id does not have.
                identity="justitia-operator",  # type: ignore[arg-type]  # a NewType of its own
                stop_flag=self._stop,
            )
        finally:
            await self._end_background()
            await pages.stop()
            await self._link.close()
            self._cluster.close()
        if self._failure is not None:
            raise self._failure
        _log.info("stopped")

    def _seen(self, kind: Kind, body: Any, is_gone: bool) -> None:
        self.reconciler.world.heard(kind)
        self.reconciler.seen(kind, body, is_gone=is_gone)

    async def _start(self) -> None:
        self._background = asyncio.create_task(self._work(), name="operator")
        self._background.add_done_callback(self._note_end)

    async def _work(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._comparison.run(), name="comparison")
            await self._comparison.wait_begun()
            for number in range(NUM_WORKERS):
                group.create_task(self.reconciler.work(), name=f"worker {number}")

    def _note_end(self, task: "asyncio.Task[None]") -> None:
        """A part that ends by itself ends all: a new process is better than half of one."""
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failure = error
            self._stop.set()

    async def _end_background(self) -> None:
        if not self._stop.is_set():
            _log.info("stopping")
        self._stop.set()  # kopf waits 5 s for its waiter of this flag where a signal ended it
        task, self._background = self._background, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def tls_files(settings: Settings) -> TlsFiles | None:
    """Name the TLS files, where encryption is on."""
    if settings.tls_ca is None:
        return None
    return TlsFiles(ca=settings.tls_ca, cert=settings.tls_cert, key=settings.tls_key)


def _options(settings: Settings) -> ReconcilerOptions:
    trainer_options(settings)  # a file that cannot be read is told at the start
    return ReconcilerOptions(
        owner=settings.owner,
        figures_s=settings.figures_s,
        max_training_jobs=settings.max_training_jobs,
        trainer=lambda: trainer_options(settings),
    )


def trainer_options(settings: Settings) -> TrainerOptions:
    """Say what training Jobs share.

    Raises:
        SettingsError: the authority's file cannot be read.
    """
    ca_pem = ""
    if settings.tls_ca is not None:
        try:
            ca_pem = settings.tls_ca.read_text(encoding="ascii")
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(f"tls_ca: {settings.tls_ca} cannot be read: {error}") from error
    return TrainerOptions(
        image=settings.training_image,
        scheduler_address=settings.training_scheduler_address or settings.scheduler_address,
        ca_pem=ca_pem,
        client_secret=settings.training_client_secret,
    )
