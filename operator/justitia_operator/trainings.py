"""What is known of each application's training beyond the objects that exist now.

A Job may be gone before anybody looked (``ttl``, somebody's clean-up). The last word on it is kept
in the profile's status, and here until that is written.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime
from typing import Final

from justitia.resources.profile_status import JobOutcome
from justitia_operator.facts import ApplicationFacts, JobFacts, JobRecord, ProfileFacts
from justitia_operator.gather import parse_time
from justitia_operator.training import Due

GONE: Final = "JobGone"


class Trainings:
    """The last training of each application, by uid. Used in one event loop."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._records: dict[str, JobRecord] = {}
        #: Jobs that were created and that no watch has told of yet.
        self._created: set[str] = set()
        self._notes: dict[str, str] = {}
        self._refusals: dict[str, str] = {}
        #: When a Job of an application was seen to have ended, on our own clock.
        self._ended_s: dict[str, float] = {}

    # -- what happened -----------------------------------------------------------------------------

    def seen(self, job: JobFacts) -> None:
        """Note a Job as it is now; an older one than the last changes nothing."""
        uid = job.application_uid
        self._created.discard(job.record.name)
        before = self._records.get(uid)
        # Other clocks than ours date Jobs: of the same Job the API server's word counts.
        is_same = before is not None and before.name == job.record.name
        if before is None or is_same or before.started_at <= job.record.started_at:
            note = self._notes.get(job.meta.uid, "")
            self._records[uid] = replace(job.record, message=note or job.record.message)
            if job.record.is_over and not (is_same and before is not None and before.is_over):
                self._ended_s[uid] = self._now_s()

    def reserve(self, name: str) -> None:
        """Count a Job that is about to be created."""
        self._created.add(name)

    def release(self, name: str) -> None:
        """Count it no longer: it was not created."""
        self._created.discard(name)

    def created(self, application: ApplicationFacts, due: Due, service_name: str, now: str) -> None:
        """Note a Job that was created, unless a watch has told of it by now."""
        uid = application.meta.uid
        self._refusals.pop(uid, None)
        last = self._records.get(uid)
        if last is None or last.name != due.name:
            self._records[uid] = JobRecord(
                application=service_name,
                name=due.name,
                trigger=due.trigger,
                newest_sample_at=due.newest_sample_at,
                started_at=now,
            )

    def gone(self, job: JobFacts) -> None:
        """Note that a Job is not there any more: what was running has ended without a word."""
        self._created.discard(job.record.name)
        self._notes.pop(job.meta.uid, None)
        last = self._records.get(job.application_uid)
        if last is not None and last.name == job.record.name and not last.is_over:
            self._records[job.application_uid] = _lost(last)

    def explain(self, job: JobFacts, note: str) -> None:
        """Note why a Job does not start or has failed; empty where nobody knows."""
        self._notes[job.meta.uid] = note
        self.seen(job)

    def is_explained(self, job: JobFacts) -> bool:
        """Whether there is a note on a Job."""
        return job.meta.uid in self._notes

    def refused(self, application: ApplicationFacts, message: str) -> None:
        """Note that the API server refuses to create a Job."""
        self._refusals[application.meta.uid] = message

    def settled(self, application: ApplicationFacts) -> None:
        """Note that no training is due any more."""
        self._refusals.pop(application.meta.uid, None)

    def forget(self, uid: str) -> None:
        """Forget an application that is gone."""
        self._records.pop(uid, None)
        self._refusals.pop(uid, None)
        self._ended_s.pop(uid, None)

    # -- what is known -----------------------------------------------------------------------------

    def last(self, application: ApplicationFacts, profile: ProfileFacts) -> JobRecord | None:
        """Find the last Job of an application: from its watch, else from the profile's status."""
        record = self._records.get(application.meta.uid)
        if record is not None:
            return record
        record = profile.records.get(application.meta.key.name)
        if record is None or _is_older(record, application.meta.created_at):
            return None
        # All Jobs that exist have been seen before this is asked; this one is not among them.
        return record if record.is_over else _lost(record)

    def ended_s(self, application: ApplicationFacts) -> float:
        """When its last Job was seen to have ended; long ago where nobody saw it."""
        return self._ended_s.get(application.meta.uid, float("-inf"))

    def refusal(self, application: ApplicationFacts) -> str:
        """Why the API server refuses to create a Job; empty where it does not."""
        return self._refusals.get(application.meta.uid, "")

    def num_running(self, jobs: Iterable[JobFacts]) -> int:
        """Count the Jobs under way, those that no watch has told of yet included."""
        running = {job.record.name for job in jobs if not job.record.is_over}
        return len(running | self._created)


def _is_older(record: JobRecord, created_at: datetime | None) -> bool:
    """Whether a record is of an application of the same name that was there before."""
    started_at = parse_time(record.started_at)
    return started_at is not None and created_at is not None and started_at < created_at


def _lost(record: JobRecord) -> JobRecord:
    return replace(
        record,
        outcome=JobOutcome.FAILED,
        reason=GONE,
        message="the Job was deleted before it ended",
    )
