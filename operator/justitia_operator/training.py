"""When a predictor is trained: at most one Job for each reason (FK8). Pure.

A Job's name is made from its reason: application, profile, how the model is built, and what set the
training off. Creating it a second time is refused by the API server, also after a restart. When the
Job itself is gone (``ttl``, somebody's clean-up) the profile's status still remembers the last one.

An attempt that led to no active model, because it failed or its model was refused, is followed by
another one only for a new reason: the samples have grown by half since, the next time of the
schedule, a request, or another spec. Grown are those since the active model, or all: a third of
them are newer than what the attempt has seen. So it also shows where old samples make room for new
ones and their number stands still.
"""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
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
#: By no more than this do the clocks of the API server and of the service differ.
_CLOCKS_DIFFER: Final = timedelta(minutes=5)
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
    """A training that is due. ``why`` is for people.

    ``newest_sample_at``: when the newest sample that there is finished, on the service's clock;
    empty: there is none.
    """

    trigger: JobTrigger
    name: str
    why: str
    newest_sample_at: str = ""


def decide_training(facts: TrainingFacts) -> Due | None:
    """Say which training is due now, if any; the first trigger that applies."""
    spec, figures = facts.profile.spec, facts.figures
    if spec is None or figures is None or facts.application.meta.is_deleting:
        return None
    if facts.last is not None and not facts.last.is_over:
        return None
    if is_withheld(facts.application):
        return None
    if not has_enough(spec, figures):
        return None
    for trigger in TRIGGERS:
        due = trigger(facts, spec, figures)
        if due is not None:
            return replace(due, newest_sample_at=_text(figures.newest_sample_at))
    return None


def is_withheld(application: ApplicationFacts) -> bool:
    """Whether no model may predict: no prompts are there to learn from, and none would be seen."""
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
    if facts.model is not None or not _may_follow(facts, figures):
        return None
    return _first_due(facts, spec)


def _first_after_failure(facts: TrainingFacts, spec: ProfileSpec, figures: Figures) -> Due | None:
    """Go on after another trigger's Job has failed: without a model nothing else might, ever.

    The last of all triggers: its Job may be there from before, and must not keep others away.
    """
    del figures
    last = facts.last
    if facts.model is not None or last is None or last.outcome is not JobOutcome.FAILED:
        return None
    return None if last.trigger is JobTrigger.FIRST else _first_due(facts, spec)


def _first_due(facts: TrainingFacts, spec: ProfileSpec) -> Due:
    why = "there is no model yet"
    if spec.samples.recorded is not None:
        why += f" and at least {spec.training.min_samples} samples"
    name = job_name(facts, spec, JobTrigger.FIRST, _followed(facts))
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
    if not _may_follow(facts, figures):
        return None
    return Due(
        trigger=JobTrigger.NEW_SAMPLES,
        name=job_name(facts, spec, JobTrigger.NEW_SAMPLES, _version(facts), _followed(facts)),
        why=f"at least {wanted} runs have finished since the active model was trained",
    )


def _relative_error(facts: TrainingFacts, spec: ProfileSpec, figures: Figures) -> Due | None:
    when = spec.training.retrain_when
    limit = None if when is None else when.relative_error_above
    if facts.model is None or limit is None or figures.model_relative_error <= limit:
        return None
    if figures.model_judged_runs < MIN_JUDGED_RUNS or not _may_follow(facts, figures):
        return None
    return Due(
        trigger=JobTrigger.RELATIVE_ERROR,
        name=job_name(facts, spec, JobTrigger.RELATIVE_ERROR, _version(facts), _followed(facts)),
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
    """Whether the last Job came after the active model was published, and so did not make it.

    What the Job has seen and the model are dated by the service's clock: a model that is older than
    a run that the Job could learn from is not the Job's. Else the API server's time of the Job's
    begin tells: where the service knew of a run, only by more than clocks may differ.
    """
    if last is None:
        return False
    published = None if model is None else parse_time(model.published_at)
    if published is None:
        return True
    seen = parse_time(last.newest_sample_at)
    begun = parse_time(last.started_at)
    if seen is None:
        return begun is None or begun >= published
    if seen.replace(microsecond=0) > published:  # which is in whole seconds
        return True
    return begun is not None and begun >= published + _CLOCKS_DIFFER


def _may_follow(facts: TrainingFacts, figures: Figures) -> bool:
    """Whether samples may start a training: none was in vain, or they have grown by half since."""
    attempt = _in_vain(facts)
    if attempt is None:
        return True
    # On the service's clock; the API server's, which dates the Job, may be another.
    seen = parse_time(attempt.newest_sample_at) or parse_time(attempt.started_at)
    third_from = figures.newest_third_from
    return seen is not None and third_from is not None and third_from > seen


def _followed(facts: TrainingFacts) -> str:
    """Name the attempt in vain that a training follows: each has one follower for a trigger."""
    attempt = _in_vain(facts)
    return "" if attempt is None else attempt.name


def _in_vain(facts: TrainingFacts) -> JobRecord | None:
    """Find the last Job where it did not make the active model."""
    return facts.last if is_without_effect(facts.last, facts.model) else None


def _text(moment: datetime | None) -> str:
    return "" if moment is None else moment.astimezone(UTC).isoformat()


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
