"""Experiments say what they want, and tell; one that cannot spoils no other."""

import pytest

from justitia.core.errors import InvalidValueError
from justitia.sim.reproduce.catalogue import CATALOGUE, choose, every
from justitia.sim.reproduce.chapters import distinct, plan_jobs, tell
from justitia.sim.reproduce.experiment import Measurement, Scale, Section, Table
from justitia.sim.reproduce.files import check_section
from justitia.sim.reproduce.store import OutcomeStore
from justitia.sim.reproduce.worker import Failure
from justitia.testing.sim_experiments import JCT, PLANTED, experiment
from justitia.testing.sim_jobs import number

ONE, TWO = (Measurement.of(number, value=value) for value in (1, 2))


@pytest.fixture
def store(tmp_path):
    kept = OutcomeStore(tmp_path)
    kept.put(ONE, 10)
    return kept


def told(made, store, failures=None):
    (plan,) = plan_jobs([made], Scale())
    return tell(plan, Scale(), store, failures or {}, check_section)


def test_every_experiment_has_a_name_and_plans_at_both_scales():
    names = [each.name for each in every(CATALOGUE)]
    assert len(set(names)) == len(names)
    for scale in (Scale(), Scale(seeds=(11,), is_quick=True)):
        assert [plan for plan in plan_jobs(every(CATALOGUE), scale) if plan.error] == []


def test_experiments_are_chosen_by_name_in_the_order_of_the_catalogue():
    assert choose(PLANTED, []) == PLANTED
    (part,) = choose(PLANTED, ["jct"])
    assert part.experiments == (JCT,)
    with pytest.raises(InvalidValueError, match=r"jtc: is no experiment; there are: jct$"):
        choose(PLANTED, ["jtc"])


def test_a_job_that_two_experiments_want_is_run_once():
    plans = plan_jobs([experiment("a", ONE, TWO), experiment("b", TWO, ONE)], Scale())
    assert distinct(plans) == [ONE, TWO]


def test_an_experiment_tells_what_its_jobs_came_to(store):
    chapter = told(experiment("a", ONE), store)
    assert chapter.error == ""
    assert chapter.section.tables[0].rows == ((ONE.name, "10"),)


def test_a_failed_job_is_named(store):
    failures = {TWO.name: Failure(TWO.name, "OSError: full")}
    chapter = told(experiment("a", ONE, TWO), store, failures)
    assert chapter.error == f"1 of 2 jobs failed; {TWO.name}: OSError: full"
    assert told(experiment("b", ONE), store, failures).error == ""


def test_an_experiment_that_cannot_say_or_tell_is_shown_as_failed(store):
    def blow(*_):
        raise ZeroDivisionError("by\nzero")

    def ragged(*_):
        return Section(tables=(Table(title="T", columns=("a",), rows=((1, 2),)),))

    assert told(experiment("a", jobs=blow), store).error == "ZeroDivisionError: by zero"
    assert told(experiment("a", ONE, tell=blow), store).error == "ZeroDivisionError: by zero"
    assert "2 cells in a row" in told(experiment("a", ONE, tell=ragged), store).error
    assert "no outcome is kept of" in told(experiment("a", TWO), store).error
