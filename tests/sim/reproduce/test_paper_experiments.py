"""What the paper's experiments ask for, and that they tell a miss as one."""

import pickle

import pytest

from justitia.sim.loop import play
from justitia.sim.reproduce.cases import TESTBEDS, evaluation, mix, num_runs, window_s
from justitia.sim.reproduce.decision_load import DecisionLoad
from justitia.sim.reproduce.experiment import Play, Scale
from justitia.sim.reproduce.files import check_section
from justitia.sim.reproduce.paper import (
    EXPERIMENTS,
    completion_times,
    cost_ablation,
    elephant_and_mice,
    fair_ratios,
    overhead,
    predictor_ablation,
    three_applications,
    two_mergers,
)
from justitia.testing.sim_plays import play_result, run_result, with_jcts

FULL = Scale()
QUICK = Scale(seeds=(11,), is_quick=True)
MAX_PLAYS = 300


def told(module, outcome_of, scale=FULL):
    """Tell what comes of planted outcomes; all of it in one text, and the section."""
    jobs = module.EXPERIMENT.jobs(scale)
    section = module.EXPERIMENT.tell(scale, {job: outcome_of(job) for job in jobs})
    check_section(section)
    return " ".join(section.paragraphs), section


def num_plays(scale):
    jobs = {job for each in EXPERIMENTS for job in each.jobs(scale)}
    return sum(isinstance(job, Play) for job in jobs)


# -- what they ask for ----------------------------------------------------


def test_they_stay_within_their_budget_of_plays():
    assert num_plays(FULL) <= MAX_PLAYS
    assert num_plays(QUICK) <= MAX_PLAYS / 3


def test_jobs_can_be_sent_to_another_process():
    for each in EXPERIMENTS:
        jobs = each.jobs(QUICK)
        assert pickle.loads(pickle.dumps(jobs)) == jobs
        assert len({job.name for job in jobs}) == len(jobs)


def test_plays_of_blind_policies_are_shared_by_all_estimates():
    assert evaluation(FULL, 11, "vtc", estimator="error:0.53") == evaluation(FULL, 11, "vtc")
    assert evaluation(FULL, 11, "srjf", estimator="error:0.53") != evaluation(FULL, 11, "srjf")


def test_a_quick_mix_comes_at_the_same_rate():
    rates = {num_runs(scale) / window_s(scale, "3x") for scale in (FULL, QUICK)}
    assert rates == {300 / 360}
    scenario = mix(11, "3x", num_runs=num_runs(QUICK)).scenario()
    assert len(scenario.runs) == num_runs(QUICK)
    assert max(run.arrival_s for run in scenario.runs) <= window_s(QUICK, "3x")


def test_the_second_testbed_gives_its_cache_the_same_share_of_memory():
    kv_bytes = {
        name: TESTBEDS[name].kv_capacity_tokens * 2 * layers * hidden * 2
        for name, layers, hidden in (("a100", 32, 4096), ("4xv100", 40, 5120))
    }
    assert kv_bytes["4xv100"] / 128e9 == pytest.approx(kv_bytes["a100"] / 80e9, rel=0.01)


# -- what they tell ----------------------------------------------------


def test_completion_times_tell_how_far_below_the_mean_is():
    jcts = {"justitia": 30.0, "vtc": 100.0, "parrot": 120.0, "srjf": 29.0}
    text, section = told(completion_times, lambda job: with_jcts([jcts.get(job.policy, 150.0)]))
    assert "70.0 % below VTC's (paper: 57.5 %) and 75.0 % below Parrot's (paper: 61.1 %)" in text
    assert section.figures[-1].series[0].values == (120.0, 100.0, 29.0, 30.0)
    assert section.figures[-1].series[1].values == (770.0, 700.0, 290.0, 300.0)


def test_completion_times_of_fewer_runs_do_not_stand_beside_the_papers():
    _, section = told(completion_times, lambda _: with_jcts([10.0]), QUICK)
    assert not [each for figure in section.figures for each in figure.series if each.is_paper]
    place = section.tables[0].columns.index("paper's, s")
    assert {row[place] for row in section.tables[0].rows} == {None}


def test_fair_ratios_tell_when_the_worst_case_is_worse_than_the_papers():
    def outcome(worst):
        return lambda job: with_jcts([5.0, worst] if job.policy == "justitia" else [10.0, 10.0])

    text, section = told(fair_ratios, outcome(20.0))
    assert "50.0 % of the runs are not later" in text
    assert "worst case is not reproduced" in text
    assert section.tables[0].rows[0][2:5] == ("50.0 %", "92.0 %", "2.000")
    text, _ = told(fair_ratios, outcome(9.0))
    assert "100.0 % of the runs are not later" in text
    assert "not reproduced" not in text


@pytest.mark.parametrize(("second_s", "is_missed"), [(20.0, False), (22.0, True)])
def test_two_mergers_tell_who_is_later(second_s, is_missed):
    text, _ = told(
        two_mergers,
        lambda job: with_jcts([10.0, second_s] if job.policy == "justitia" else [20.0, 20.0]),
    )
    assert f"{100 * (1 - (10 + second_s) / 40):.1f} % below that of sharing" in text
    assert ("Not reproduced" in text) == is_missed


def test_three_applications_end_in_the_papers_order_when_really_played():
    text, _ = told(three_applications, Play.run)
    assert "in the order app-1, app-3, app-2, as in the paper; really" in text
    assert "Later than in the fluid system: nobody" in text


def test_three_applications_tell_another_order():
    text, _ = told(
        three_applications, lambda _: with_jcts({"app-1": 1.0, "app-2": 2.0, "app-3": 3.0})
    )
    assert "app-1, app-2, app-3, **not** as in the paper" in text


def test_the_elephant_has_to_wait_for_the_mice_that_equal_sharing_serves_first():
    elephant = run_result("elephant", 20.0, true_kvtt=10)
    soon, late = (
        run_result(name, 1.0, arrival_s=5.0, reference_jct_s=fair_s, true_kvtt=5)
        for name, fair_s in (("soon", 3.0), ("late", 25.0))
    )
    # 20 kvtt within 20 s; at 8 s the first mouse must be done, at 30 s the other.
    played = play_result([elephant, soon, late])
    assert elephant_and_mice.least_elephant_s(played) == pytest.approx(15.0)


def test_no_real_elephant_is_below_its_bound():
    case = elephant_and_mice.elephant(11, 20, elephant_parts=16)
    played = play(case.scenario(), "justitia")
    assert elephant_and_mice.least_elephant_s(played) <= played.runs[0].jct_s * 1.05


def test_the_elephant_tells_its_growth():
    def outcome(job):
        num_mice = dict(job.case.arguments)["num_mice"]
        jct_s = 100.0 if job.policy == "parrot" else float(num_mice)
        mouse = run_result("mouse", 1.0, size_class="mouse")
        return play_result([run_result("elephant", jct_s, true_kvtt=100), mouse])

    text, section = told(elephant_and_mice, outcome)
    assert "is 5.000 under Justitia (wanted: 1.1) and 5.000 under SRJF" in text
    assert section.tables[1].rows[-1][:4] == ("parrot", "100", "100", "1.000")


@pytest.mark.parametrize(("tokens_s", "is_missed"), [(12.0, True), (15.0, False)])
def test_the_cost_ablation_tells_whether_the_paper_is_reproduced(tokens_s, is_missed):
    jcts = {"tokens+error:0.53": tokens_s, "tokens": 11.0, "raw:tokens": 20.0}
    text, _ = told(cost_ablation, lambda job: with_jcts([jcts.get(job.settings.estimator, 10.0)]))
    assert f"the mean JCT is {tokens_s / 10:.3f} of that with KV token-time" in text
    assert "with exact lengths 1.100" in text
    assert ("not reproduced" in text) == is_missed


@pytest.mark.parametrize(("distilbert_s", "is_missed"), [(30.0, True), (60.0, False)])
def test_the_predictor_ablation_tells_what_the_error_costs(distilbert_s, is_missed):
    jcts = {"error:4.52": distilbert_s, "error:0.53": 20.0}
    text, _ = told(
        predictor_ablation,
        lambda job: with_jcts(
            [80.0 if job.policy == "parrot" else jcts.get(job.settings.estimator, 16.0)]
        ),
    )
    assert f"makes the mean JCT {distilbert_s / 20:.3f} times that with 53 % (paper: 2.427)" in text
    assert "costs 1.250 times" in text
    assert ("the 4.000 of Parrot" in text) == is_missed


def test_the_overhead_tells_the_worst_rate():
    def outcome(job):
        rate = dict(job.arguments)["runs_per_minute"]
        return {"mean": 7.0 if rate == 50 else 1.0, "median": rate / 10, "p99": 9.0}

    text, section = told(overhead, outcome)
    assert "takes 7.000 ms in the mean at the worst rate, 50 runs a minute (paper: 5.19 ms)" in text
    assert "6.667 times as long as at 15" in text
    assert section.tables[0].rows[0] == (15, 900, "1.000", "0.778", "1.500", "9.000")


# -- decisions that are timed ----------------------------------------------------


def test_a_load_keeps_its_number_of_open_runs():
    load = DecisionLoad(20, seed=1)
    for number in range(100):
        load.settle(load.decide(now_s=float(number)))
        assert len(load) in (20, 21, 22)


def test_decisions_take_time():
    assert all(job.is_timed for job in overhead.EXPERIMENT.jobs(QUICK))
    times_ms = overhead.decision_times_ms(runs_per_minute=1, seed=1)
    assert 0 < times_ms["median"] <= times_ms["p99"]
