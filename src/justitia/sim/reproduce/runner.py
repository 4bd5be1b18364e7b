"""Runs jobs in worker processes. What they came to is in the store, not in memory."""

import multiprocessing
import signal
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Final, Protocol

from justitia.sim.reproduce.experiment import Job, Measurement
from justitia.sim.reproduce.store import OutcomeStore, entry_name
from justitia.sim.reproduce.worker import Failure, in_a_line, stay_with_parent, work

_DIED: Final = "the process that ran it ended; the machine may have run out of memory"


class Watcher(Protocol):
    """Is told what goes on."""

    def started(self, job: Job) -> None:
        """A job has begun."""

    def ended(self, job: Job, failure: Failure | None) -> None:
        """A job has an outcome, or has failed."""


def run_jobs(
    jobs: Sequence[Job], store: OutcomeStore, *, num_workers: int, watcher: Watcher
) -> dict[str, Failure]:
    """Run jobs side by side, then those that read a clock one by one; return failures by name.

    When this is interrupted its processes are ended, and what is in the store stays there.
    """
    failures: dict[str, Failure] = {}

    def end(job: Job, failure: Failure | None) -> None:
        if failure is not None:
            failures[job.name] = failure
        watcher.ended(job, failure)

    timed = [job for job in jobs if _is_timed(job)]
    others = [job for job in jobs if not _is_timed(job)]
    for batch, width in ((others, num_workers), (timed, 1)):
        waiting = deque(batch)
        while waiting:
            for suspect in _until_death(waiting, store, width, watcher.started, end):
                # One of those that ran when a process died is to blame: alone, it dies again.
                if _until_death(deque([suspect]), store, 1, watcher.started, end):
                    end(suspect, Failure(suspect.name, _DIED))
    return failures


def _is_timed(job: Job) -> bool:
    return isinstance(job, Measurement) and job.is_timed


def _until_death(
    waiting: deque[Job],
    store: OutcomeStore,
    num_workers: int,
    start: Callable[[Job], None],
    end: Callable[[Job, Failure | None], None],
) -> list[Job]:
    """Run what waits until nothing does or a worker dies; return what ran when one died."""
    running: dict[Future[Failure | None], Job] = {}
    with _workers(min(num_workers, max(1, len(waiting)))) as executor:
        while waiting or running:
            while waiting and len(running) < num_workers:
                job = waiting.popleft()
                start(job)
                try:
                    running[_submit(executor, job, store)] = job
                except BrokenProcessPool:
                    return [job, *running.values()]
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            if any(isinstance(future.exception(), BrokenProcessPool) for future in done):
                return list(running.values())
            for future in done:
                end(job := running.pop(future), _failure(job, future))
    return []


def _failure(job: Job, future: Future[Failure | None]) -> Failure | None:
    error = future.exception()
    if error is None:
        return future.result()
    # The job, or what it raised, could not be sent from one process to the other.
    return Failure(job.name, in_a_line(error))


@contextmanager
def _workers(num_workers: int) -> Iterator[ProcessPoolExecutor]:
    """Have worker processes; whatever happens, none is left behind."""
    before = set(multiprocessing.active_children())
    executor = ProcessPoolExecutor(
        num_workers,
        mp_context=multiprocessing.get_context("spawn"),
        initializer=stay_with_parent,
    )
    try:
        yield executor
    except BaseException:
        for child in set(multiprocessing.active_children()) - before:
            child.terminate()
        raise
    finally:
        executor.shutdown(wait=True, cancel_futures=True)


def _submit(executor: ProcessPoolExecutor, job: Job, store: OutcomeStore) -> Future[Failure | None]:
    """Hand over a job. A process that this starts inherits the mask: Ctrl-C is the parent's."""
    entry = entry_name(job)
    held = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        return executor.submit(work, job, store, entry)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, held)
