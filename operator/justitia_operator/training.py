"""When a predictor is trained: at most one Job for each reason (FK8). Pure.

A Job's name is made from its reason: application, profile, how the model is built, and what set the
training off. Creating it a second time is refused by the API server, also after a restart. When the
Job itself is gone (``ttl``, somebody's clean-up) the profile's status still remembers the last one,
and an attempt that led to no model is repeated only for a new reason: twice as many samples, the
next time of the schedule, or another spec.
"""

import hashlib
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from cronsim import CronSim, CronSimError

from justitia.core.privacy import Privacy
from justitia.resources.profile import ProfileSpec
from justitia.resources.profile_status import JobOutcome, JobTrigger
from justitia_operator.facts import ApplicationFacts, Figures, JobRecord, ModelFacts, ProfileFacts
from justitia_operator.gather import parse_time

#: Runs that a model must have given the estimate for before its error counts.
MIN_JUDGED_RUNS: Final = 20
_ALIASES: Final = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
}
_MINUTE: Final = timedelta(minutes=1)
_DIGEST_CHARS: Final = 8
_MAX_NAME_CHARS: Final = 40


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingFacts:
    """All that a decision on one application's training needs.

    ``model``: the active one. ``last``: the newest Job, also one that is gone. ``figures`` None:
    the service has not told yet.
    """

    application: ApplicationFacts
    profile: ProfileFacts
    figures: Figures | None
    model: ModelFacts | None
    last: JobRecord | None
    now: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class Due:
    """A training that is due. ``why`` is for people."""

    trigger: JobTrigger
    name: str
    why: str


def decide_training(facts: TrainingFacts) -> Due | None:
    """Say which training is due now, if any; the first trigger that applies."""
    spec, figures = facts.profile.spec, facts.figures
    if spec is None or figures is None or facts.application.meta.is_deleting:
        return None
    if facts.last is not None and not facts.last.is_over:
        return None
    if is_withheld(facts.application) and spec.samples.recorded is not None:
        return None
    if not has_enough(spec, figures):
        return None
    for trigger in TRIGGERS:
        due = trigger(facts, spec, figures)
        if due is not None:
            return due
    return None


def is_withheld(application: ApplicationFacts) -> bool:
    """Whether the service keeps no prompt of the application to learn from."""
    return application.spec is not None and application.spec.predictor.privacy is Privacy.NONE


def has_enough(spec: ProfileSpec, figures: Figures) -> bool:
    """Whether there is enough to train from; what a volume holds only the Job can count."""
    return spec.samples.recorded is None or figures.samples >= spec.training.min_samples


def build_digest(spec: ProfileSpec) -> str:
    """Digest what decides how a model comes out, and not when or where it is trained."""
    parts = spec.model_dump(mode="json", by_alias=True, include={"features", "model", "samples"})
    training = spec.training.model_dump(mode="json", exclude={"schedule", "retrain_when"})
    return _digest(parts, training)


def job_name(facts: TrainingFacts, spec: ProfileSpec, *reason: object) -> str:
    """Make a Job's name: the application's, then what the model is built from, then the reason."""
    identity = (facts.application.meta.uid, facts.profile.meta.uid, *reason)
    name = facts.application.meta.key.name.replace(".", "-")[:_MAX_NAME_CHARS].rstrip("-")
    return f"{name}-{build_digest(spec)}-{_digest(*identity)}"


# -- triggers --------------------------------------------------------------------------------------


def _first(facts: TrainingFacts, spec: ProfileSpec, figures: Figures) -> Due | None:
    if facts.model is not None:
        return None
    due = _first_due(facts, spec, figures)
    return due if _may_follow(facts, JobTrigger.FIRST, due.name) else None


def _first_after_failure(facts: TrainingFacts, spec: ProfileSpec, figures: Figures) -> Due | None:
    """Go on after another trigger's Job has failed: without a model nothing else might, ever.

    The last of all triggers: its Job may be there from before, and must not keep others away.
    """
    last = facts.last
    if facts.model is not None or last is None or last.outcome is not JobOutcome.FAILED:
        return None
    return None if last.trigger is JobTrigger.FIRST else _first_due(facts, spec, figures)


def _first_due(facts: TrainingFacts, spec: ProfileSpec, figures: Figures) -> Due:
    growth = _doublings(figures.samples, spec.training.min_samples)
    why = "there is no model yet"
    if spec.samples.recorded is not None:
        why += f" and at least {spec.training.min_samples} samples"
    name = job_name(facts, spec, JobTrigger.FIRST, growth)
    return Due(trigger=JobTrigger.FIRST, name=name, why=why)


def _requested(facts: TrainingFacts, spec: ProfileSpec, figures: Figures) -> Due | None:
    del figures
    asked, created = facts.application.training_requested_at, facts.application.meta.created_at
    # A copied or restored application carries a request that was the original's.
    if asked is None or asked > facts.now or (created is not None and asked < created):
        return None
    if _has_begun_since(facts, asked):
        return None
    return Due(
        trigger=JobTrigger.REQUESTED,
        name=job_name(facts, spec, JobTrigger.REQUESTED, asked.isoformat()),
        why=f"a training was asked for at {asked.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}",
    )


def _spec_changed(facts: TrainingFacts, spec: ProfileSpec, figures: Figures) -> Due | None:
    del figures
    if facts.last is None or _digest_of(facts.last.name) == build_digest(spec):
        return None
    return Due(
        trigger=JobTrigger.SPEC_CHANGED,
        name=job_name(facts, spec, JobTrigger.SPEC_CHANGED, _version(facts)),
        why="the profile builds its model in another way than the last training did",
    )


def _scheduled(facts: TrainingFacts, spec: ProfileSpec, figures: Figures) -> Due | None:
    del figures
    created = facts.profile.meta.created_at
    slot = previous_slot(spec.training.schedule, facts.now)
    if slot is None or (created is not None and slot <= created):
        return None
    if _has_begun_since(facts, slot):
        return None
    return Due(
        trigger=JobTrigger.SCHEDULE,
        name=job_name(facts, spec, JobTrigger.SCHEDULE, slot.isoformat()),
        why=f"the schedule {spec.training.schedule!r} came due at {slot:%Y-%m-%dT%H:%MZ}",
    )


def _new_samples(facts: TrainingFacts, spec: ProfileSpec, figures: Figures) -> Due | None:
    when = spec.training.retrain_when
    wanted = None if when is None else when.new_samples
    if facts.model is None or wanted is None or figures.samples_since_model < wanted:
        return None
    growth = _doublings(figures.samples_since_model, wanted)
    name = job_name(facts, spec, JobTrigger.NEW_SAMPLES, _version(facts), growth)
    if not _may_follow(facts, JobTrigger.NEW_SAMPLES, name):
        return None
    return Due(
        trigger=JobTrigger.NEW_SAMPLES,
        name=name,
        why=f"at least {wanted} runs have finished since the active model was trained",
    )


def _relative_error(facts: TrainingFacts, spec: ProfileSpec, figures: Figures) -> Due | None:
    when = spec.training.retrain_when
    limit = None if when is None else when.relative_error_above
    if facts.model is None or limit is None or figures.model_relative_error <= limit:
        return None
    if figures.model_judged_runs < MIN_JUDGED_RUNS or _is_attempted(facts):
        return None
    return Due(
        trigger=JobTrigger.RELATIVE_ERROR,
        name=job_name(facts, spec, JobTrigger.RELATIVE_ERROR, _version(facts)),
        why=f"the relative error of the active model is above {limit}",
    )


_Trigger = Callable[[TrainingFacts, ProfileSpec, Figures], Due | None]
#: In this order; the first that applies gives the Job its reason.
TRIGGERS: Final[tuple[_Trigger, ...]] = (
    _first,
    _requested,
    _spec_changed,
    _scheduled,
    _new_samples,
    _relative_error,
    _first_after_failure,
)


def _has_begun_since(facts: TrainingFacts, moment: datetime) -> bool:
    """Whether the last Job began at a moment or later."""
    begun = None if facts.last is None else parse_time(facts.last.started_at)
    return begun is not None and begun >= moment


def is_without_effect(last: JobRecord | None, model: ModelFacts | None) -> bool:
    """Whether the last Job began after the active model was published, and so did not make it."""
    if last is None:
        return False
    begun = parse_time(last.started_at)
    published = None if model is None else parse_time(model.published_at)
    return begun is None or published is None or begun >= published


def _is_attempted(facts: TrainingFacts) -> bool:
    return is_without_effect(facts.last, facts.model)


def _may_follow(facts: TrainingFacts, trigger: JobTrigger, name: str) -> bool:
    """Whether a trigger may act: first, or again for the same cause with twice the samples."""
    if not _is_attempted(facts) or facts.last is None:
        return True
    return facts.last.trigger is trigger and facts.last.name != name


def _doublings(samples: int, base: int) -> int:
    return max(0, math.floor(math.log2(max(1, samples) / base)))


def _version(facts: TrainingFacts) -> str:
    return "" if facts.model is None else facts.model.version


def previous_slot(schedule: str | None, now: datetime) -> datetime | None:
    """Find the last time up to ``now`` that a schedule names, in UTC; None: there is none."""
    if schedule is None:
        return None
    minute = now.astimezone(UTC).replace(second=0, microsecond=0)
    try:
        slots = CronSim(_ALIASES.get(schedule, schedule), minute, reverse=True)
        # The iterator begins before its start; a slot of this very minute counts.
        this = next(CronSim(_ALIASES.get(schedule, schedule), minute - _MINUTE))
        return this if this <= minute else next(slots)
    except (CronSimError, StopIteration):
        return None


def _digest(*parts: object) -> str:
    text = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGEST_CHARS]


def _digest_of(name: str) -> str:
    return name.rpartition("-")[0].rpartition("-")[2]
