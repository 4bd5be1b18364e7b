"""What the experiments beyond the paper ask for, and that they tell a miss as one."""

import pickle
from pathlib import Path

import pytest

from justitia.core.policies import EVERY_POLICY
from justitia.sim.loop import PlaySettings, play
from justitia.sim.reproduce.beyond import (
    EXPERIMENTS,
    preemption,
    rivals,
    scale,
    skewed_ingress,
    srpt_limit,
    steady_load,
    weights,
    workloads,
)
from justitia.sim.reproduce.beyond.tenants import PER_ENGINE, WEIGHTED_DRR, Shares, measure
from justitia.sim.reproduce.experiment import Measurement, Scale
from justitia.sim.reproduce.files import check_section
from justitia.sim.service_curve import ServiceCurves
from justitia.sim.workloads.cases import proportionate
from justitia.testing.sim_plays import play_result, run_result, with_jcts
from justitia.testing.sim_scenarios import engine, inference, run, scenario

FULL = Scale()
QUICK = Scale(seeds=(11,), is_quick=True)


def told(module, outcome_of, scale=FULL):
    """Tell what comes of planted outcomes; all of it in one text, and the section."""
    jobs = module.EXPERIMENT.jobs(scale)
    section = module.EXPERIMENT.tell(scale, {job: outcome_of(job) for job in jobs})
    check_section(section)
    return " ".join(section.paragraphs), section


def column(table, name):
    place = table.columns.index(name)
    return {row[:2]: row[place] for row in table.rows}


# -- what they ask for ----------------------------------------------------


def test_jobs_can_be_sent_to_another_process():
    for each in EXPERIMENTS:
        jobs = each.jobs(QUICK)
        assert pickle.loads(pickle.dumps(jobs)) == jobs
        assert len({job.name for job in jobs}) == len(set(jobs))


def test_only_the_experiment_that_reads_a_clock_is_timed():
    timed = {
        each.name
        for each in EXPERIMENTS
        for job in each.jobs(FULL)
        if isinstance(job, Measurement) and job.is_timed
    }
    assert timed == {"scale"}


# -- rivals ----------------------------------------------------


def planted_rivals(job):
    """Two runs: VTC 100 s, FCFS 200 s, Justitia 50 s; under SRJF 10 and 300 s."""
    if isinstance(job, Measurement):
        return [20.0, 30.0]
    known = {"vtc": (100, 100), "fcfs": (200, 200), "justitia": (50, 50), "srjf": (10, 300)}
    return with_jcts([float(jct) for jct in known.get(job.policy, (150, 150))])


def test_every_policy_has_a_row_between_the_limits():
    _, section = told(rivals, planted_rivals)
    for table in section.tables:
        names = [row[0] for row in table.rows]
        assert {*EVERY_POLICY} < {*names}
        assert names[0].startswith("clairvoyant SRPT")
        assert names[-1].startswith("ideal GPS")


def test_rivals_are_ordered_by_mean_and_compared_with_vtc():
    _, section = told(rivals, planted_rivals)
    table = section.tables[0]
    names = [row[0] for row in table.rows]
    assert names.index("justitia") < names.index("vtc") < names.index("srjf") < names.index("fcfs")
    assert column(table, "not later than VTC")["srjf", "exact"] == "50.0 %"
    assert column(table, "worst ÷ VTC")["srjf", "exact"] == "3.000"
    assert column(table, "mean JCT, s")["clairvoyant SRPT, fluid", "exact"] == "25.0"


def test_a_policy_that_is_better_than_justitia_is_named():
    def las_wins(job):
        is_las = getattr(job, "policy", "") == "las"
        return with_jcts([1.0, 1.0]) if is_las else planted_rivals(job)

    assert "a smaller mean JCT than that have las" in told(rivals, las_wins)[0]
    assert "a smaller mean JCT" not in told(rivals, planted_rivals)[0]


# -- the limits ----------------------------------------------------


def test_justitia_beyond_the_target_is_told():
    def planted(job, mean_s):
        if isinstance(job, Measurement):
            return [50.0] * 120
        jct_s = mean_s if job.policy == "justitia" else 100.0
        return with_jcts([jct_s] * 120)

    near, section = told(srpt_limit, lambda job: planted(job, 104.0), QUICK)
    far, _ = told(srpt_limit, lambda job: planted(job, 106.0), QUICK)
    assert "more than 1.05 times" not in near
    assert (
        "more than 1.05 times the mean of SRJF with exact estimates take: justitia exact 1.060"
        in far
    )
    assert [row[2] for row in section.tables[0].rows][:2] == ["2.080", "1.040"]


# -- tenants ----------------------------------------------------


def shares(**kvtt_by_tenant):
    """Two tenants' work at 0, 1 and 2 s."""
    groups = {name: (0, *kvtt) for name, kvtt in kvtt_by_tenant.items()}
    return {
        "curves": ServiceCurves((0.0, 1.0, 2.0), groups).as_json(),
        "jct_s": {tenant: [1.0, 3.0] for tenant in kvtt_by_tenant},
        "ratio": {tenant: [0.5, 1.0] for tenant in kvtt_by_tenant},
    }


def test_shares_are_counted_until_the_first_tenant_has_nearly_all():
    """Gold has 95 of 100 after 0.95 s; basic 0.95 x 40 by then."""
    found = Shares.of_json(shares(gold=(100, 100), basic=(40, 100)))
    assert found.until_s == pytest.approx(0.95)
    assert found.ratio("gold", "basic") == pytest.approx(2.5)
    assert found.ratio("gold", "basic", last=0.5) == pytest.approx(2.5)


def test_a_ratio_that_is_not_kept_is_told():
    def planted(gold):
        return lambda _: shares(basic=(500, 1000), gold=(gold, 2 * gold))

    kept, _ = told(skewed_ingress, planted(2050))
    missed, _ = told(skewed_ingress, planted(1750))
    assert "4.100 : 1, within 5% of 4 : 1" in kept
    assert "3.500 : 1, NOT within 5% of 4 : 1" in missed
    assert "does not do that alone" not in kept
    assert "the pool's serves 3.500 : 1" in missed


def test_what_is_possible_where_runs_stay_at_their_engines():
    """Four fifths each: 16 : 1 at gold's engine, 1 : 1 at basic's."""
    possible = skewed_ingress.possible_ratio
    assert possible({}) == 4
    assert possible({"gold": (0,), "basic": (1,)}) == 1
    assert possible({"gold": (0,)}) == 1
    assert possible({"basic": (1,)}) == pytest.approx(4)
    fifths = {"gold": (0, 0, 0, 0, 1), "basic": (1, 1, 1, 1, 0)}
    assert possible(fifths) == pytest.approx((16 / 17 + 1 / 2) / (1 / 17 + 1 / 2))


def test_weights_are_told_as_service_and_as_completion_times():
    def planted(job):
        del job
        return shares(bronze=(10, 20), silver=(20, 40), gold=(30, 60))

    text, section = told(weights, planted)
    assert "1 : 2.000 : 3.000 for weights 1 : 2 : 4" in text
    assert section.tables[1].rows[0][1] == "2.000"


@pytest.mark.parametrize("policy", ["justitia", PER_ENGINE, WEIGHTED_DRR])
def test_a_heavier_tenant_is_served_more_where_a_policy_knows_weights(policy):
    plan = proportionate({"basic": 1, "gold": 4}, seed=2, num_runs=6, window_s=3.0)
    outcome = measure(plan, policy, PlaySettings())
    assert Shares.of_json(outcome).ratio("gold", "basic") > 2.5
    assert {len(jcts) for jcts in outcome["jct_s"].values()} == {6}


def test_engines_apart_and_a_pool_of_one_engine_agree():
    """Alone, an engine's own virtual time is the pool's, but for the step under way."""
    plan = proportionate({"basic": 1, "gold": 4}, seed=2, num_runs=6, window_s=3.0)
    apart, pool = (measure(plan, name, PlaySettings()) for name in (PER_ENGINE, "justitia"))
    for tenant in ("basic", "gold"):
        assert apart["jct_s"][tenant] == pytest.approx(pool["jct_s"][tenant])


# -- steady load, preemption, work, scale ----------------------------------------------------


def test_the_price_of_fairness_is_told_as_it_is():
    def planted(job):
        jcts = {"justitia": 12.0, "srjf": 10.0, "vtc": 30.0}
        return play_result([run_result("r", jcts.get(job.policy, 20.0), true_kvtt=10**6)])

    text, section = told(steady_load, planted)
    assert "At a load of 0.95 Justitia's mean JCT is 1.200 of SRJF's" in text
    assert "VTC's mean is 2.500 times Justitia's" in text
    assert len(section.tables[0].rows) == 4


def test_the_watermark_with_the_smallest_mean_is_recommended():
    means = {0.0: 100.0, 0.01: 95.5, 0.05: 95.0, 0.1: 99.0}

    def planted(job):
        return with_jcts([means[dict(job.case.arguments)["watermark"]]])

    text, _ = told(preemption, planted)
    assert "Recommended: a watermark of 0.05." in text
    means[0.0] = 95.0
    assert "Recommended: a watermark of 0." in told(preemption, planted)[0]


def test_tokens_that_are_computed_again_are_counted():
    """12 blocks of 4: two of 8 + 20 tokens fill them; one loses what it had and starts anew."""
    small = engine(blocks=12, has_prefix_cache=False)
    plan = scenario(run("a", inference(8, 20)), run("b", inference(8, 20)), engines=(small,))
    played = play(plan, "fcfs")
    assert played.engines[0].preemptions == 1
    # 24 tokens each fill the cache; the 25th of the one makes the other give its 24 back.
    assert played.engines[0].recomputed_tokens == 24
    assert preemption.recomputed_share(played) == 24 / 16


def test_recorded_runs_are_left_out_where_there_are_none(monkeypatch):
    monkeypatch.setattr(workloads, "RECORDINGS", Path("nowhere.jsonl.gz"))
    text, section = told(workloads, lambda _: with_jcts([1.0]))
    assert "Recorded runs are left out" in text
    assert [row[0] for row in section.tables[0].rows][-1] == "three waves"


def test_work_on_which_justitia_gains_least_is_told():
    def planted(job):
        is_wave = "on_and_off" in job.case.name
        jct_s = {"justitia": 90.0 if is_wave else 50.0}.get(job.policy, 100.0)
        return play_result([run_result("r", jct_s)])

    text, _ = told(workloads, planted)
    assert "to 0.900 (three waves) of VTC's" in text


def test_growth_is_told_beside_n_log_n():
    def squared(job):
        size = dict(job.arguments)["num_runs"]
        numbers = dict.fromkeys(("play_mib", "scenario_mib", "peak_mib"), 1.0)
        return {"play_s": size**2 / 1e6, "inferences": size, "steps": size, **numbers}

    text, _ = told(scale, squared)
    assert "grows with the 2.000th power of the size; n log n would be 1.12" in text


def test_a_size_is_measured_in_a_process_of_its_own():
    found = scale.measure_size(num_runs=20, num_engines=2, seed=1)
    assert found["inferences"] > 20
    assert 0 < found["play_s"] < 60
    assert found["peak_mib"] > found["scenario_mib"] >= 0
