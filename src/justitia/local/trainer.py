"""Trains predictors while ``justitia up`` runs, when their PredictorProfiles say so.

When a training is due, and when a failed one is tried again, is decided by the operator's own rules
(``justitia_operator.training``) from what this machine's service holds. A Job is a child process
here (`Child`), and what was tried is known for as long as this process lives.
"""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Protocol

from justitia.local.errors import LocalModeError
from justitia.local.processes import ChildProcess
from justitia.local.profiles import trained_applications
from justitia.resources.application import LLMApplication
from justitia.resources.profile import PredictorProfile
from justitia.resources.profile_status import JobOutcome
from justitia.resources.reading import Resource
from justitia_operator.facts import ApplicationFacts, JobRecord, Key, Meta, ProfileFacts
from justitia_operator.program import Slot
from justitia_operator.scheduler import AwayError, RefusedError, SchedulerLink, View
from justitia_operator.training import Due, TrainingFacts, decide_training

LOOK_PERIOD_S: Final = 10.0
#: Before the first repetition of a failed training; it doubles each time, as between a Job's pods.
_FIRST_PAUSE_S: Final = 10.0
_MAX_PAUSE_S: Final = 360.0
_MAX_MESSAGE_CHARS: Final = 1000
#: The service of local mode is not the one that the user's variables speak of.
_NO_TLS: Final = dict.fromkeys(("JUSTITIA_TLS_CA", "JUSTITIA_TLS_CERT", "JUSTITIA_TLS_KEY"), "")


class TrainingFailedError(LocalModeError):
    """A training ended without a model; the message is its last word."""


class Service(Protocol):
    """Where samples are and models go (``justitia_operator.scheduler.SchedulerLink``)."""

    async def load(self) -> View:
        """List what the service holds; raises AwayError or RefusedError."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Trainee:
    """An application, and the profile that it is trained by."""

    application: LLMApplication
    profile: PredictorProfile

    @property
    def slot(self) -> Slot:
        """Where the service keeps it."""
        return Slot(self.application.spec.pool_ref.name, self.application.metadata.name)


#: Trains one application, and returns what became of the model; raises TrainingFailedError.
Train = Callable[[Trainee], Awaitable[str]]


def trainees(manifests: Sequence[Resource], *, recordings: Path | None) -> list[Trainee]:
    """List what can be trained here: of applications with a profile, those with samples to read."""
    return [
        Trainee(application=application, profile=profile)
        for application, profile in trained_applications(manifests)
        if recordings is not None or profile.spec.samples.recorded is not None
    ]


class Trainer:
    """Looks every ten seconds which training is due, and has one done at a time.

    One that waits to be repeated holds up no other.
    """

    def __init__(
        self,
        listed: Sequence[Trainee],
        service: Service,
        train: Train,
        *,
        tell: Callable[[str], None],
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._service = service
        self._train = train
        self._tell = tell
        self._now = now
        begun = now()
        self._trainees = [(trainee, *_facts(trainee, begun)) for trainee in listed]
        self._last: dict[Slot, JobRecord] = {}
        #: A training's name is made from its reason: the same reason never starts another one.
        self._begun: set[str] = set()
        self._turn = asyncio.Lock()

    async def run(self) -> None:
        """Train what is due, until cancelled."""
        async with asyncio.TaskGroup() as trainings:
            while True:
                await self.look(trainings)
                await asyncio.sleep(LOOK_PERIOD_S)

    async def look(self, trainings: asyncio.TaskGroup) -> None:
        """Begin to train what is due now."""
        try:
            view = await self._service.load()
        except (AwayError, RefusedError):
            return  # a service that does not come back ends the whole, by its own watcher
        for trainee, application, profile in self._trainees:
            held = view.held.get(trainee.slot)
            due = decide_training(
                TrainingFacts(
                    application=application,
                    profile=profile,
                    figures=None if held is None else held.figures,
                    model=view.models.get(trainee.slot),
                    last=self._last.get(trainee.slot),
                    now=self._now(),
                )
            )
            if due is not None and due.name not in self._begun:
                self._begun.add(due.name)
                self._last[trainee.slot] = started = self._record(trainee, due)
                trainings.create_task(self._do(trainee, due, started))

    def _record(self, trainee: Trainee, due: Due) -> JobRecord:
        return JobRecord(
            application=trainee.slot.name,
            name=due.name,
            trigger=due.trigger,
            newest_sample_at=due.newest_sample_at,
            started_at=_text(self._now()),
        )

    async def _do(self, trainee: Trainee, due: Due, started: JobRecord) -> None:
        name = trainee.slot.name
        self._tell(f"training {name}: {due.why}")
        outcome, message = await self._attempt(trainee)
        if outcome is JobOutcome.FAILED:
            message = f"the training of {name} failed: {message}"
        self._last[trainee.slot] = replace(
            started,
            outcome=outcome,
            message=message[:_MAX_MESSAGE_CHARS],
            finished_at=_text(self._now()),
        )
        self._tell(message)

    async def _attempt(self, trainee: Trainee) -> tuple[JobOutcome, str]:
        deadline_s = trainee.profile.spec.job.active_deadline_s
        try:
            async with asyncio.timeout(deadline_s) as limit:
                return JobOutcome.SUCCEEDED, await self._repeat(trainee, limit)
        except LocalModeError as error:
            return JobOutcome.FAILED, str(error)
        except TimeoutError:
            return JobOutcome.FAILED, f"it took longer than job.activeDeadline, {deadline_s:g} s"

    async def _repeat(self, trainee: Trainee, limit: asyncio.Timeout) -> str:
        pause_s = _FIRST_PAUSE_S
        for _ in range(trainee.profile.spec.job.backoff_limit):
            try:
                return await self._in_turn(trainee, limit)
            except TrainingFailedError:
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, _MAX_PAUSE_S)
        return await self._in_turn(trainee, limit)

    async def _in_turn(self, trainee: Trainee, limit: asyncio.Timeout) -> str:
        """Train once, after those that asked before; that wait is not held against it."""
        ends_at_s, asked_at_s = limit.when(), asyncio.get_running_loop().time()
        limit.reschedule(None)
        async with self._turn:
            if ends_at_s is not None:
                waited_s = asyncio.get_running_loop().time() - asked_at_s
                limit.reschedule(ends_at_s + waited_s)
            return await self._train(trainee)


@dataclass(frozen=True, kw_only=True, slots=True)
class Child:
    """Trains by ``justitia train`` in a child process, with a log of its own."""

    manifests: Path
    recordings: Path | None
    address: str
    log_dir: Path

    async def train(self, trainee: Trainee) -> str:
        """Train, publish, and return what the service made of the model.

        Raises:
            TrainingFailedError: it ended badly, or could not be started.
            LocalModeError: its log cannot be written.
        """
        name = trainee.slot.name
        log_path = self.log_dir / f"train-{name}.log"
        child = ChildProcess(
            f"the training of {name}", self.command(trainee), log_path=log_path, env=_NO_TLS
        )
        try:
            async with child:
                status = await child.wait()
            lines = log_path.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        except OSError as error:
            raise TrainingFailedError(f"it could not be run: {error.strerror}") from None
        if status != 0:
            said = lines[-1].removeprefix("error: ") if lines else f"status {status}"
            raise TrainingFailedError(f"{said} (log: {log_path})")
        verdicts = [line for line in lines if line.startswith("published ")]
        return verdicts[-1] if verdicts else f"trained {name} (log: {log_path})"

    def command(self, trainee: Trainee) -> list[str]:
        """Build the command line; the profile is read again from the manifests."""
        flags = {
            "--profile": self.manifests,
            "--application": trainee.slot.name,
            "--pool": trainee.slot.pool,
            "--address": self.address,
        }
        if self.recordings is not None and trainee.profile.spec.samples.recorded is None:
            flags["--recordings"] = self.recordings
        given = [f"{flag}={value}" for flag, value in flags.items()]
        return [sys.executable, "-m", "justitia", "train", "--publish", *given]


async def train_when_due(
    listed: Sequence[Trainee], child: Child, *, tell: Callable[[str], None]
) -> None:
    """Have children train what is due, until cancelled; then none is left."""
    link = SchedulerLink(child.address, None, now_s=time.monotonic)
    try:
        await Trainer(listed, link, child.train, tell=tell).run()
    finally:
        await link.close()


def _facts(trainee: Trainee, begun: datetime) -> tuple[ApplicationFacts, ProfileFacts]:
    """Put manifests into the form that the operator decides from.

    The profile is as old as this process: times of a schedule before it are not made up for.
    """
    return (
        ApplicationFacts(meta=_meta(trainee.application), spec=trainee.application.spec),
        ProfileFacts(
            meta=replace(_meta(trainee.profile), created_at=begun), spec=trainee.profile.spec
        ),
    )


def _meta(manifest: Resource) -> Meta:
    metadata = manifest.metadata
    return Meta(key=Key(metadata.namespace, metadata.name), uid=metadata.name)


def _text(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
