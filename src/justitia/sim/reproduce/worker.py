"""What happens inside a worker process: one job after the other, each outcome kept at once."""

import os
import threading
import traceback
from dataclasses import dataclass
from multiprocessing import connection, parent_process
from typing import Final

from justitia.sim.reproduce.experiment import Job
from justitia.sim.reproduce.store import OutcomeStore, entry_name

_CHANGED: Final = "its code has changed since the command began; give the command again"


@dataclass(frozen=True, slots=True)
class Failure:
    """A job that has no outcome: the error in a line, and where it happened."""

    job_name: str
    error: str
    trace: str = ""


def work(job: Job, store: OutcomeStore, entry: str) -> Failure | None:
    """Run a job and keep its outcome; None where that went well.

    ``entry``: the store's name for it in the process that wants it. It had that name before this
    process read the code; if it has another one now, it is not known which code this would run.
    """
    try:
        if entry_name(job) != entry:
            return Failure(job.name, _CHANGED)
        store.put(job, job.run())
    except Exception as error:  # noqa: BLE001 - whatever it is, the other jobs go on
        return Failure(job.name, in_a_line(error), traceback.format_exc())
    return None


def stay_with_parent() -> None:
    """End this process when the one that started it is gone, however that ended."""
    threading.Thread(target=_end_after_parent, daemon=True).start()


def _end_after_parent() -> None:
    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)


def in_a_line(error: BaseException) -> str:
    """Say an error's kind and text without line breaks."""
    return " ".join(f"{type(error).__name__}: {error}".split())
