"""Jobs in worker processes: real ones, some of which fail or die."""

import multiprocessing

import pytest

from justitia.sim.reproduce.experiment import Case, Measurement, Play
from justitia.sim.reproduce.runner import run_jobs
from justitia.sim.reproduce.store import OutcomeStore, entry_name
from justitia.sim.reproduce.worker import work
from justitia.testing.sim_jobs import (
    die,
    die_once,
    fail,
    is_deaf_to_ctrl_c,
    number,
    small_scenario,
)


class Events:
    """Keeps what it is told. ``interrupt_at``: as if Ctrl-C came when so many have ended."""

    def __init__(self, interrupt_at=None):
        self.told = []
        self.interrupt_at = interrupt_at

    def started(self, job):
        self.told.append(("started", job.name))

    def ended(self, job, _):
        self.told.append(("ended", job.name))
        if len([1 for what, _ in self.told if what == "ended"]) == self.interrupt_at:
            raise KeyboardInterrupt


def test_every_job_has_an_outcome_or_a_failure_though_workers_die(tmp_path):
    play = Play(Case.of(small_scenario, seed=1), "justitia")
    timed = [Measurement.timed(number, value=value) for value in ("t1", "t2")]
    weak = Measurement.of(die_once, mark=str(tmp_path / "mark"))
    deadly = Measurement.of(die, number=3)
    unlucky = Measurement.of(fail, message="no such\nluck")
    unsendable = Measurement.of(number, value=lambda: 1)
    unkeepable = Measurement.of(number, value={1})
    jobs = [timed[0], play, unlucky, weak, unsendable, deadly, unkeepable, timed[1]]
    store, events = OutcomeStore(tmp_path / "store"), Events()

    failures = run_jobs(jobs, store, num_workers=2, watcher=events)

    assert store.get(play) == play.run()
    assert store.get(weak) == "alive"
    assert [store.get(job) for job in timed] == ["t1", "t2"]
    assert failures.keys() == {job.name for job in (deadly, unlucky, unsendable, unkeepable)}
    assert failures[unlucky.name].error == "RuntimeError: no such luck"
    assert "in fail" in failures[unlucky.name].trace
    assert "memory" in failures[deadly.name].error
    assert "pickle" in failures[unsendable.name].error
    assert "set is not JSON serializable" in failures[unkeepable.name].error
    ended = [name for what, name in events.told if what == "ended"]
    assert sorted(ended) == sorted(job.name for job in jobs)
    # What is timed comes last and alone.
    alone = [(what, job.name) for job in timed for what in ("started", "ended")]
    assert events.told[-4:] == alone
    assert multiprocessing.active_children() == []


def test_an_interruption_leaves_no_process_and_keeps_what_is_done(tmp_path):
    jobs = [
        Measurement.of(is_deaf_to_ctrl_c),
        *(Measurement.of(number, value=value) for value in range(2)),
    ]
    store = OutcomeStore(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        run_jobs(jobs, store, num_workers=1, watcher=Events(interrupt_at=1))
    assert multiprocessing.active_children() == []
    assert store.get(jobs[0]) is True
    assert not store.has(jobs[2])


def test_a_job_whose_code_has_changed_meanwhile_is_not_run(tmp_path):
    store, job = OutcomeStore(tmp_path), Measurement.of(number, value=1)
    failure = work(job, store, "the name that it had before")
    assert "code has changed" in failure.error
    assert not store.has(job)
    assert work(job, store, entry_name(job)) is None
    assert store.get(job) == 1


def test_nothing_to_do_starts_no_process(tmp_path):
    assert run_jobs([], OutcomeStore(tmp_path), num_workers=2, watcher=Events()) == {}
