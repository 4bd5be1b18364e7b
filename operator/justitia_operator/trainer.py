"""Starts trainings that are due, and says how training stands."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import structlog

from justitia.resources.profile_status import JobOutcome
from justitia_operator.apply import Cluster, ClusterError
from justitia_operator.checks import Inputs
from justitia_operator.conditions import Reason
from justitia_operator.events import NORMAL, Event
from justitia_operator.facts import (
    ApplicationFacts,
    Figures,
    JobRecord,
    Kind,
    ModelFacts,
    ProfileFacts,
)
from justitia_operator.manifests import TrainerOptions, build_job
from justitia_operator.metrics import Metrics
from justitia_operator.program import service_name
from justitia_operator.programmer import slot_of
from justitia_operator.scheduler import SchedulerLink
from justitia_operator.status import Trained
from justitia_operator.training import Due, TrainingFacts, decide_training
from justitia_operator.trainings import Trainings
from justitia_operator.world import World
from justitia_operator.writing import Clock, Writer

_log = structlog.get_logger()


@dataclass(frozen=True, kw_only=True, slots=True)
class Trainer:
    """See the module. ``max_jobs``: see ``settings``."""

    cluster: Cluster
    link: SchedulerLink
    world: World
    trainings: Trainings
    writer: Writer
    metrics: Metrics
    clock: Clock
    #: Asked for each Job: certificates are renewed.
    options: Callable[[], TrainerOptions]
    max_jobs: int

    async def train(self, inputs: Inputs, profile: ProfileFacts) -> Inputs:
        """Start the training that is due, and add how training stands."""
        application, trainings = inputs.application, self.trainings
        last = self._shown(application, trainings.last(application, profile))
        facts = TrainingFacts(
            application=application,
            profile=profile,
            figures=inputs.figures,
            model=self.model(application, inputs.figures),
            last=last,
            now=self.clock.now(),
        )
        due = None if profile.meta.is_deleting else decide_training(facts)
        if due is None:
            trainings.settled(application)
        elif self._has_free_slot() and await self._start(due, application, profile):
            due = None
        return replace(
            inputs,
            due=due,
            last_job=self._shown(application, trainings.last(application, profile)),
            model=facts.model,
            job_refusal=trainings.refusal(application),
        )

    def trained(
        self, profile: ProfileFacts, applications: Iterable[ApplicationFacts]
    ) -> list[Trained]:
        """Say what training did for every application that refers to a profile."""
        return [
            Trained(
                name=application.meta.key.name,
                service_name=service_name(application),
                model=self.model(application),
                last=self.trainings.last(application, profile),
            )
            for application in applications
            if application.profile == profile.meta.key
        ]

    def model(
        self, application: ApplicationFacts, figures: Figures | None = None
    ) -> ModelFacts | None:
        """Find the active model of an application."""
        slot = slot_of(application)
        if slot is None or self.link.view is None:
            return None
        model = self.link.view.models.get(slot)
        if model is None and figures is not None and figures.model_version:
            # Published a moment ago: the next listing tells the rest.
            return ModelFacts(
                version=figures.model_version, published_at="", samples=0, relative_error=0.0
            )
        return model

    def _shown(self, application: ApplicationFacts, last: JobRecord | None) -> JobRecord | None:
        """Call a Job ended only once a listing since then could show its model."""
        is_early = self.trainings.ended_s(application) > self.link.loaded_s
        if last is not None and last.outcome is JobOutcome.SUCCEEDED and is_early:
            return replace(last, outcome=JobOutcome.RUNNING)
        return last

    def _has_free_slot(self) -> bool:
        return self.trainings.num_running(self.world.jobs()) < self.max_jobs

    async def _start(self, due: Due, application: ApplicationFacts, profile: ProfileFacts) -> bool:
        """Create the Job; says whether nothing is due any more."""
        self.trainings.reserve(due.name)
        try:
            is_new = await self.cluster.create_job(
                build_job(due, application, profile, self.options())
            )
        except ClusterError as error:
            self.metrics.cluster_errors.labels(str(error.status)).inc()
            self.trainings.release(due.name)
            self.trainings.refused(application, str(error))
            return False
        if not is_new:
            # It was made before for the same reason, which needs no other one; or it is not ours.
            self.trainings.release(due.name)
            if not any(known.record.name == due.name for known in self.world.jobs()):
                self.trainings.refused(application, f"there is a Job {due.name} that is not ours")
            return True
        self.trainings.created(application, due, service_name(application), self.clock.text())
        self.metrics.training_jobs.labels(due.trigger.value).inc()
        _log.info("training", application=str(application.meta.key), job=due.name, why=due.why)
        message = f"Job {due.name}: {due.why}"
        event = Event(type=NORMAL, reason=Reason.JOB_CREATED, message=message, since=due.name)
        await self.writer.post(Kind.APPLICATION, application.meta, event)
        return True
