"""Training: samples of one application in, a model with its measured error out.

The error is measured honestly: prompts are split so that the same text is never on both sides, a
model that has not seen the held-out part is judged on it, and only then the model to serve learns
from everything; a network for as many steps as were best before.
"""

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from justitia.core.units import MAX_COST_KVTT
from justitia.predictor.learner import best_num_steps, learn
from justitia.predictor.metrics import measure_errors
from justitia.predictor.model import MIN_COST_KVTT, TrainedModel
from justitia.predictor.samples import Sample, num_without_prompt
from justitia.predictor.settings import TrainingSettings

_NUM_FITS = 3


class DeclineReason(StrEnum):
    """Why there is no model."""

    NO_SAMPLES = "no_samples"
    TOO_FEW_SAMPLES = "too_few_samples"


class TrainingDeclined(Exception):  # noqa: N818 - an answer rather than an error
    """The samples do not suffice for a model; the message says what is missing."""

    def __init__(self, reason: DeclineReason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingProgress:
    """How far the training of an application is: ``fraction`` grows from 0 to 1."""

    application: str
    fraction: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Judged:
    """A run that was held out, and what the trial model, which had not seen it, said of it."""

    run_id: str
    cost_kvtt: float
    predicted_kvtt: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Trained:
    """A model, and the runs that its measured error comes from."""

    model: TrainedModel
    held_out: tuple[Judged, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingReport:
    """Models by application, and why the other applications have none.

    ``held_out``: what each model's error was measured on; the service compares models on it.
    """

    models: dict[str, TrainedModel] = field(default_factory=dict)
    held_out: dict[str, tuple[Judged, ...]] = field(default_factory=dict)
    declined: dict[str, TrainingDeclined] = field(default_factory=dict)


ProgressListener = Callable[[TrainingProgress], None]


def train_all(
    samples_by_application: Mapping[str, Sequence[Sample]],
    *,
    settings: TrainingSettings,
    on_progress: ProgressListener | None = None,
) -> TrainingReport:
    """Train every application, one after the other, on the calling thread."""
    report = TrainingReport()
    for application, samples in samples_by_application.items():
        try:
            trained = train_and_judge(samples, settings=settings, on_progress=on_progress)
            report.models[application] = trained.model
            report.held_out[application] = trained.held_out
        except TrainingDeclined as declined:
            report.declined[application] = declined
    return report


def train(
    samples: Sequence[Sample],
    *,
    settings: TrainingSettings,
    on_progress: ProgressListener | None = None,
) -> TrainedModel:
    """Train a model from the samples of one application; see `train_and_judge`."""
    return train_and_judge(samples, settings=settings, on_progress=on_progress).model


def train_and_judge(
    samples: Sequence[Sample],
    *,
    settings: TrainingSettings,
    on_progress: ProgressListener | None = None,
) -> Trained:
    """Train a model from the samples of one application, whatever their texts and costs.

    Samples without a prompt, or whose cost is not finite or out of bounds, are dropped and counted.
    Costs or prompts that are all equal give a constant model: the geometric mean. Blocks its thread
    for some seconds (two or three for a hundred samples): never call it on an event loop.
    ``on_progress`` is called on the same thread; what it raises ends the training.

    Raises:
        TrainingDeclined: there are too few usable samples.
        ValueError: the samples belong to several applications.
    """
    started_s = time.perf_counter()
    usable = _usable_samples(samples, settings)
    notify = _Notifier(usable[0].application, settings.max_steps, on_progress)
    known, held_out = split_by_prompt(usable, settings=settings, purpose="held out")
    learnt, validation = split_by_prompt(known, settings=settings, purpose="validation")
    num_steps = best_num_steps(learnt, validation or learnt, settings, notify.of_fit(0))
    trial = learn(known, settings, num_steps, notify.of_fit(1))
    model = learn(usable, settings, num_steps, notify.of_fit(2))
    notify.done()
    metrics = replace(
        measure_errors(trial, held_out),
        num_samples=len(usable),
        num_dropped=len(samples) - len(usable),
    )
    model = replace(model, metrics=metrics, train_s=time.perf_counter() - started_s)
    return Trained(model=model, held_out=tuple(_judged(trial, sample) for sample in held_out))


def _judged(trial: TrainedModel, sample: Sample) -> Judged:
    return Judged(
        run_id=sample.run_id,
        cost_kvtt=sample.cost_kvtt,
        predicted_kvtt=trial.predict(sample.prompt).cost_kvtt,
    )


def split_by_prompt(
    samples: Sequence[Sample], *, settings: TrainingSettings, purpose: str
) -> tuple[list[Sample], list[Sample]]:
    """Split into (known, held out) so that equal prompts stay together.

    The prompts with the smallest digests, keyed by seed and purpose, are held out: at least one,
    but none if all prompts are equal. The choice does not depend on the order of the samples.
    """
    key = f"{settings.seed}/{purpose}/"
    digests = {
        prompt: hashlib.sha256((key + prompt).encode("utf-8", "surrogatepass")).digest()
        for prompt in {sample.prompt for sample in samples}
    }
    if len(digests) < 2:  # noqa: PLR2004 - a single prompt cannot be split
        return list(samples), []
    num_held_out = max(1, int(len(digests) * settings.validation_fraction))
    held_out = set(sorted(digests, key=digests.__getitem__)[:num_held_out])
    return (
        [sample for sample in samples if sample.prompt not in held_out],
        [sample for sample in samples if sample.prompt in held_out],
    )


def _usable_samples(samples: Sequence[Sample], settings: TrainingSettings) -> list[Sample]:
    """Return the last ``max_samples`` samples with a prompt and a usable cost, unless too few.

    Runs without a prompt have nothing in common: learnt from as runs of an empty one they would be
    held out together, and blame the model for what it was not told.
    """
    if not samples:
        raise TrainingDeclined(DeclineReason.NO_SAMPLES, "there are no samples")
    applications = sorted({sample.application for sample in samples})
    if len(applications) > 1:
        raise ValueError(f"samples of several applications: {', '.join(applications[:3])}")
    usable = [s for s in samples if s.prompt and MIN_COST_KVTT <= s.cost_kvtt <= MAX_COST_KVTT]
    if len(usable) < settings.min_samples:
        num_blank = num_without_prompt(samples)
        raise TrainingDeclined(
            DeclineReason.TOO_FEW_SAMPLES,
            f"application {applications[0]!r} has {len(usable)} usable samples of {len(samples)} "
            f"({num_blank} without a prompt, {len(samples) - len(usable) - num_blank} with an "
            f"unusable cost), at least {settings.min_samples} are needed",
        )
    return usable[-settings.max_used_samples :]


class _Notifier:
    """Turns the steps of the fits into one growing fraction."""

    def __init__(self, application: str, max_steps: int, listener: ProgressListener | None) -> None:
        self._application = application
        self._max_steps = max_steps
        self._listener = listener

    def of_fit(self, index: int) -> Callable[[int], None]:
        return lambda step: self._tell((index + min(1.0, step / self._max_steps)) / _NUM_FITS)

    def done(self) -> None:
        self._tell(1.0)

    def _tell(self, fraction: float) -> None:
        if self._listener is not None:
            self._listener(TrainingProgress(application=self._application, fraction=fraction))
