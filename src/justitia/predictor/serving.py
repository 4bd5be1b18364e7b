"""Predictions from the active models: at once, or from an event loop under a deadline.

A prediction is CPU work. From an event loop it runs on one thread of its own, and the loop waits no
longer than the deadline, however long that thread takes. What is queued for the thread is bounded:
beyond the bound the answer is "no prediction" at once. Callers then go down the ladder of rule E1.
"""

import asyncio
import math
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from queue import SimpleQueue
from types import MappingProxyType
from typing import Protocol

from justitia.predictor.artefact import ArtefactError
from justitia.predictor.model import Prediction

DEFAULT_DEADLINE_S = 0.005
MAX_DEADLINE_S = 60.0

DEFAULT_MAX_PENDING = 16
"""Predictions that wait or run: at some 0.3 ms each, more could not all meet the deadline."""


class CostModel(Protocol):
    """What the service needs of a model; `justitia.predictor.model.TrainedModel` is one."""

    @property
    def application(self) -> str:
        """The application whose runs it knows."""

    @property
    def probe_prompt(self) -> str:
        """A text that it must be able to answer."""

    def predict(self, prompt: str) -> Prediction:
        """Return the prediction for a text; called from any thread."""


class Outcome(StrEnum):
    """How a call ended; only the first two gave a prediction."""

    PREDICTED = "predicted"
    UNKNOWN_TEXT = "unknown_text"
    NO_MODEL = "no_model"
    DEADLINE = "deadline"
    BUSY = "busy"
    FAILED = "failed"
    CLOSED = "closed"


_Answer = tuple[Prediction | None, Outcome]


class PredictorService:
    """Holds the active model of each application and answers from them. Thread-safe.

    ``max_pending`` bounds the predictions that wait for, or run on, the thread.
    """

    def __init__(self, *, max_pending: int = DEFAULT_MAX_PENDING) -> None:
        self._model_by_application: Mapping[str, CostModel] = {}
        self._outcomes: Counter[Outcome] = Counter()
        self._lock = threading.Lock()
        self._worker = _Worker(self._answer, max_pending)

    @property
    def models(self) -> Mapping[str, CostModel]:
        """The active models by application, as of now."""
        return MappingProxyType(self._model_by_application)

    def outcomes(self) -> dict[Outcome, int]:
        """Return how many calls ended how; all outcomes are there, the numbers only grow."""
        with self._lock:
            return {outcome: self._outcomes[outcome] for outcome in Outcome}

    def activate(self, model: CostModel) -> None:
        """Make a model the one of its application, in one step, once it answers its test prompt.

        Raises:
            ArtefactError: it does not; the model before it stays.
        """
        try:
            cost_kvtt = model.predict(model.probe_prompt).cost_kvtt
        except Exception as error:
            raise ArtefactError(f"the model fails on its test prompt: {error}") from error
        if not _is_cost(cost_kvtt):
            raise ArtefactError(f"the model answers its test prompt with {cost_kvtt} kvtt")
        with self._lock:
            # A new mapping: whoever reads the old one meanwhile sees one consistent state.
            self._model_by_application = {**self._model_by_application, model.application: model}

    def deactivate(self, application: str) -> None:
        """Forget the model of an application, if there is one."""
        with self._lock:
            self._model_by_application = {
                name: model
                for name, model in self._model_by_application.items()
                if name != application
            }

    def predict(self, application: str, prompt: str) -> Prediction | None:
        """Return the prediction, computed on the calling thread, or None. Never raises."""
        return self._counted(self._answer(application, prompt))

    async def predict_within(
        self, application: str, prompt: str, *, deadline_s: float = DEFAULT_DEADLINE_S
    ) -> Prediction | None:
        """Return the prediction, or None if it is not there ``deadline_s`` seconds from now.

        Never raises, but for its own cancellation. A deadline that is not > 0 has passed already;
        the longest one is `MAX_DEADLINE_S`.
        """
        if application not in self._model_by_application:
            return self._counted((None, Outcome.NO_MODEL))
        if not deadline_s > 0:
            return self._counted((None, Outcome.DEADLINE))
        loop = asyncio.get_running_loop()
        job = _Job(application=application, prompt=prompt, loop=loop, answer=loop.create_future())
        refusal = self._worker.offer(job)
        if refusal is not None:
            return self._counted((None, refusal))
        too_late: _Answer = (None, Outcome.DEADLINE)
        timer = loop.call_later(min(deadline_s, MAX_DEADLINE_S), job.settle, too_late)
        try:
            return self._counted(await job.answer)
        finally:
            timer.cancel()
            job.is_abandoned = True

    def close(self, *, timeout_s: float = 1.0) -> None:
        """End the thread, waiting at most ``timeout_s``; later calls under a deadline get None."""
        self._worker.close(timeout_s)

    def _counted(self, answer: _Answer) -> Prediction | None:
        prediction, outcome = answer
        with self._lock:
            self._outcomes[outcome] += 1
        return prediction

    def _answer(self, application: str, prompt: str) -> _Answer:
        model = self._model_by_application.get(application)
        if model is None:
            return None, Outcome.NO_MODEL
        try:
            prediction = model.predict(prompt)
            is_cost = _is_cost(prediction.cost_kvtt)
        except Exception:  # noqa: BLE001 - whatever a model does, its caller goes on without it
            return None, Outcome.FAILED
        if not is_cost:
            return None, Outcome.FAILED
        return prediction, Outcome.UNKNOWN_TEXT if prediction.is_unknown else Outcome.PREDICTED


def _is_cost(cost_kvtt: float) -> bool:
    return math.isfinite(cost_kvtt) and cost_kvtt > 0


@dataclass(kw_only=True, eq=False)
class _Job:
    """One prediction that a loop waits for, until it abandons it."""

    application: str
    prompt: str
    loop: asyncio.AbstractEventLoop
    answer: asyncio.Future[_Answer]
    is_abandoned: bool = False

    def deliver(self, answer: _Answer) -> None:
        """Hand the answer over from the worker's thread; a loop that is gone needs none."""
        try:
            self.loop.call_soon_threadsafe(self.settle, answer)
        except RuntimeError:
            self.is_abandoned = True

    def settle(self, answer: _Answer) -> None:
        """Answer the caller, on its loop's thread, unless it is answered already."""
        if not self.answer.done():
            self.answer.set_result(answer)


class _Worker:
    """One daemon thread that answers jobs in order.

    A daemon, unlike the threads of an executor, so that a stuck model cannot hold up the end of the
    process. A job counts as pending until the thread is done with it, abandoned or not: otherwise
    the queue behind a stuck model would grow without bound.
    """

    def __init__(self, answer: Callable[[str, str], _Answer], max_pending: int) -> None:
        self._answer = answer
        self._max_pending = max_pending
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._num_pending = 0
        self._is_closed = False
        self._thread: threading.Thread | None = None

    def offer(self, job: _Job) -> Outcome | None:
        """Queue a job, or return why not."""
        with self._lock:
            if self._is_closed:
                return Outcome.CLOSED
            if self._num_pending >= self._max_pending:
                return Outcome.BUSY
            self._num_pending += 1
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="predictor", daemon=True)
                self._thread.start()
        self._jobs.put(job)
        return None

    def close(self, timeout_s: float) -> None:
        with self._lock:
            self._is_closed = True
            thread = self._thread
        self._jobs.put(None)
        if thread is not None:
            thread.join(timeout_s)

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            if not job.is_abandoned:
                job.deliver(self._answer(job.application, job.prompt))
            with self._lock:
                self._num_pending -= 1
            del job  # or the last prompt would be held until the next one comes
