"""What the experiments behind the product's defaults ask for and tell, also of other outcomes."""

import pickle
from dataclasses import replace

import pytest

from justitia.core.pool import Clock
from justitia.sim.reproduce.decisions import EXPERIMENTS, clock, cost_unit, prefix_cost
from justitia.sim.reproduce.decisions.bounds import ENGINES, bound_scenario
from justitia.sim.reproduce.experiment import Scale
from justitia.sim.reproduce.files import check_section
from justitia.testing.sim_plays import play_result, run_result, with_jcts

FULL = Scale()
QUICK = Scale(seeds=(11,), is_quick=True)
OWN = (clock, cost_unit, prefix_cost)
MAX_PLAYS = 200


def told(module, outcome_of, scale=FULL):
    """Tell what comes of planted outcomes; all of it in one text, and the first table's rows."""
    outcomes = {job: outcome_of(job) for job in module.EXPERIMENT.jobs(scale)}
    section = module.EXPERIMENT.tell(scale, outcomes)
    check_section(section)
    return " ".join(section.paragraphs), section.tables[0]


def column(table, name, last=False):
    """Cells of a column by the first two of each row."""
    places = [place for place, each in enumerate(table.columns) if each == name]
    return {row[:2]: row[places[-1 if last else 0]] for row in table.rows}


def test_they_stay_within_their_budget_of_plays():
    jobs = {job for module in OWN for job in module.EXPERIMENT.jobs(FULL)}
    assert len(jobs) <= MAX_PLAYS + 20, "and those of the mix are shared with others"
    assert len({job for module in OWN for job in module.EXPERIMENT.jobs(QUICK)}) <= MAX_PLAYS / 5
    assert {module.EXPERIMENT for module in OWN} <= set(EXPERIMENTS)


@pytest.mark.parametrize("module", OWN)
@pytest.mark.parametrize("scale", [FULL, QUICK])
def test_jobs_can_be_sent_to_another_process(module, scale):
    jobs = module.EXPERIMENT.jobs(scale)
    assert pickle.loads(pickle.dumps(jobs)) == jobs
    assert len({job.name for job in set(jobs)}) == len(set(jobs))


# -- the clock ----------------------------------------------------


@pytest.mark.parametrize(("capacity_s", "better", "worse"), [(8.0, 9, 0), (12.0, 0, 9)])
def test_the_clock_with_the_lower_mean_is_counted_as_such(capacity_s, better, worse):
    def outcome(job):
        if job.policy == "vtc":
            return with_jcts([10.0, 20.0])
        is_capacity = job.settings.clock is Clock.CAPACITY
        return with_jcts([capacity_s if is_capacity else 10.0, 10.0])

    text, table = told(clock, outcome)
    assert f"under every seed in {better}, the higher one under every seed in {worse}" in text
    shares = column(table, "capacity")
    assert set(shares.values()) == {"100.0 %" if better else "50.0 %"}


def test_the_clocks_are_held_against_one_reference():
    """Each clock's own reference is another one: where V is fast, everything is late."""
    slow = play_result([run_result("a", 30.0, reference_jct_s=100.0)])
    delivered = play_result([run_result("a", 30.0, reference_jct_s=10.0)])
    assert clock.late_ratio(slow, delivered) == 3.0


def test_engines_that_something_else_binds_have_room_in_the_cache():
    kv = ENGINES["kv"].blocks
    assert [ENGINES[name].blocks for name in ("places", "budget")] == [10 * kv, 10 * kv]
    drawn = bound_scenario(bound="places", seed=3, num_runs=30, has_weights=True)
    assert {each.weight for each in drawn.applications} == {1.0, 2.0, 4.0}
    assert drawn.engines == (ENGINES["places"],)
    assert max(run.arrival_s for run in drawn.runs) <= 36


# -- the unit of cost ----------------------------------------------------


def test_the_unit_with_the_lower_mean_shows():
    jcts = {"exact": 10.0, "error:0.53": 20.0, "tokens": 9.0, "tokens+error:0.53": 30.0}

    def outcome(job):
        if job.policy == "vtc":
            return with_jcts([10.0])
        return with_jcts([jcts.get(job.settings.estimator, 11.0)])

    text, table = told(cost_unit, outcome)
    assert "p + 2d has 1.500 of the mean JCT in kvtt with the same errors" in text
    assert "where the KV cache binds: paper's p d + d²/2 1.100" in text
    assert "where 48 tokens a step bind" in text
    quotients = [row[3] for row in table.rows if row[1] == "p + 2d"]
    assert quotients == ["0.900", "1.500", "0.900", "0.900"]
    late = [row[5] for row in table.rows if row[2] == 53]
    assert set(late) == {"0.0 %"}, "with errors all are later than VTC here"


# -- prefix-aware cost ----------------------------------------------------


def cached_outcome(job, cached_s=8.0):
    jcts = {"cached": cached_s, "history": 25.0, "seconds": 9.0, "cached:seconds": 7.0}
    seconds = 20.0 if job.policy == "vtc" else jcts.get(job.settings.estimator, 10.0)
    if job.settings.learning is not None:
        seconds = 12.0
    played = with_jcts([seconds])
    kvtt = 75 if job.settings.estimator == "cached" else 100
    runs = tuple(replace(run, predicted_kvtt=kvtt, true_kvtt=80) for run in played.runs)
    return replace(played, runs=runs)


def test_prefix_aware_cost_is_told_with_what_it_saves_and_what_it_brings():
    text, table = told(prefix_cost, cached_outcome)
    assert "what the cache will hold is 25.0 % of the estimated cost" in text
    assert "Prefix-aware estimates have 0.800 of the mean JCT" in text
    assert "in seconds the sessions have 0.900 of it, 0.700 if that is prefix-aware" in text
    assert "it is 2.500, 1.200 where K2 learns inside the run" in text
    assert "the mean JCT is 0.500 of VTC's" in text
    errors = column(table, "estimates' mean error")
    assert errors["coding sessions", "Justitia, nothing cached"] == "25.0 %"
    assert errors["coding sessions", "Justitia, prefix-aware"] == "6.2 %"
    assert errors["coding sessions", "DLPM"] is None
    text, _ = told(prefix_cost, lambda job: cached_outcome(job, 15.0))
    assert "Prefix-aware estimates have 1.500 of the mean JCT" in text


def test_the_trace_itself_is_played_where_the_environment_names_it(monkeypatch):
    monkeypatch.setenv(prefix_cost.TRACE_VARIABLE, "/data/weka.csv")
    names = {job.case.name for job in prefix_cost.EXPERIMENT.jobs(FULL)}
    assert any("recorded_sessions(path='/data/weka.csv', seed=12)" in name for name in names)
    monkeypatch.delenv(prefix_cost.TRACE_VARIABLE)
    assert not [job for job in prefix_cost.EXPERIMENT.jobs(FULL) if "weka" in job.case.name]


def test_the_mix_has_a_prefix_cache_there():
    drawn = prefix_cost.mix_with_cache(seed=11, num_runs=9)
    assert [each.has_prefix_cache for each in drawn.engines] == [True]
