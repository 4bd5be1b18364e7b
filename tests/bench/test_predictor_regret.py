"""What the benchmark of the predictor's regret makes of its plays, and what its models may know."""

import math
import random
from pathlib import Path
from types import SimpleNamespace

import pytest

from justitia.core.cost import inference_cost_kvtt, run_cost_kvtt
from justitia.predictor.recordings import NUM_SHELVES, RecordedInference, RecordedRun

FOLDER = Path(__file__).resolve().parents[2] / "bench" / "predictor_regret"


@pytest.fixture(scope="module")
def program(load):
    return load("__main__")


@pytest.fixture(scope="module")
def shelves(load):
    return load("shelves")


@pytest.fixture(scope="module")
def cold_start(load):
    return load("cold_start")


def recorded(seed, application="a", tokens=100):
    inference = RecordedInference(
        stage="s", prompt_tokens=tokens, cached_tokens=0, output_tokens=20
    )
    return RecordedRun(
        application=application, task_seed=seed, prompt=f"text {seed}", inferences=(inference,)
    )


def play_of(jcts_s, references_s):
    runs = [
        SimpleNamespace(run_id=f"r{number}", jct_s=jct_s, reference_jct_s=reference_s)
        for number, (jct_s, reference_s) in enumerate(zip(jcts_s, references_s, strict=True))
    ]
    summary = SimpleNamespace(
        mean_jct_s=sum(jcts_s) / len(jcts_s),
        worst_ratio=max(run.jct_s / run.reference_jct_s for run in runs),
    )
    return SimpleNamespace(runs=runs, summarize=lambda: summary)


def test_no_model_that_speaks_of_a_run_has_seen_its_shelf_or_the_one_that_is_played(shelves):
    runs = [recorded(seed) for seed in range(2 * NUM_SHELVES)]
    asked = []

    class Models(dict):
        def __missing__(self, left_out):
            def predict(prompt):
                asked.append((left_out, int(prompt.split()[1]) % NUM_SHELVES))
                return SimpleNamespace(cost_kvtt=1.0)

            return {"a": SimpleNamespace(predict=predict)}

    shelf = shelves.Shelf(3, runs, Models())
    assert len(asked) == len(runs)
    assert all(left_out == {3, of} for left_out, of in asked)
    assert {run.shelf for run in shelf.runs} == {3}
    assert {run.shelf for run in shelf.others} == {0, 1, 2, 4}


def test_runs_arrive_in_a_quarter_of_the_time_that_serving_them_takes(shelves):
    runs = [recorded(seed, tokens=random.Random(seed).randint(50, 350)) for seed in range(200)]
    scenario = shelves.scenario_of(runs, 1)
    assert len(scenario.runs) == len(runs)
    assert scenario.runs == shelves.scenario_of(runs, 1).runs
    together = shelves.play(
        shelves.replace(
            scenario, runs=tuple(shelves.replace(run, arrival_s=0.0) for run in scenario.runs)
        ),
        "fcfs",
    )
    assert scenario.runs[-1].arrival_s == pytest.approx(together.duration_s / 4, rel=0.1)


def test_a_ratio_is_taken_to_the_reference_of_the_play_with_exact_costs(program):
    rows = program.measures(
        {"exact": play_of([1.0, 3.0], [1.0, 2.0]), "k2": play_of([1.2, 5.0], [9.0, 9.0])}, 1.5
    )
    assert rows["k2"]["mean_jct_over_exact"] == pytest.approx(6.2 / 4.0)
    assert rows["k2"]["worst_rho_ps"] == pytest.approx(2.5)
    assert rows["k2"]["share_harmed"] == pytest.approx(0.5)
    assert rows["k2"]["worst_late_over_longest"] == pytest.approx((5.0 - 2.0) / 1.5)
    unharmed = {"exact": play_of([1.2], [1.0])}
    assert program.measures(unharmed, 1.5)["exact"]["worst_late_over_longest"] == 0.0


def test_means_are_averaged_over_shelves_and_the_worst_stays_the_worst(program):
    rows = [{"k2": {"mean_jct_over_exact": m, "worst_rho_ps": w}} for m, w in ((1, 9), (2, 3))]
    seed = program.over_shelves(rows)
    assert seed == {"k2": {"mean_jct_over_exact": 1.5, "worst_rho_ps": 9}}
    other = {"k2": {"mean_jct_over_exact": 1.1, "worst_rho_ps": 2}}
    figures = program.figures_of([seed, other, other])
    assert figures["mean_jct_over_exact"] == 1.1
    assert figures["worst_rho_ps_by_seed"] == [9, 2, 2]


def test_what_is_known_of_a_new_application_comes_from_the_pool_until_its_own_count(
    cold_start,
):
    others = [recorded(seed, "b", tokens=110) for seed in range(6)]
    known = [recorded(seed, "a", tokens=70) for seed in range(5)]
    pool = cold_start.cost_of(others[0])
    own = cold_start.cost_of(known[0])
    run = recorded(9, "a", tokens=100)
    for estimate, few in ((cold_start.by_ladder, 0), (cold_start.patient, 4)):
        assert estimate(known[:few], others)(run) == pytest.approx(pool, rel=0.3)
        assert estimate(known[:few], others)(run) > 1.2 * own
        assert estimate(known[: few + 1], others)(run) == own


def test_shrinkage_counts_the_prior_as_so_many_runs(cold_start):
    others = [recorded(seed, "b", tokens=110) for seed in range(6)]
    known = [recorded(seed, "a", tokens=70) for seed in range(3)]
    run = recorded(9, "a", tokens=100)
    prior = cold_start.by_ladder([], others)(run)
    own = cold_start.cost_of(known[0])
    assert cold_start.shrunk(0)(known, others)(run) == pytest.approx(own)
    assert cold_start.shrunk(5)([], others)(run) == prior
    middle = cold_start.shrunk(1)(known, others)(run)
    assert math.log(middle) == pytest.approx((3 * math.log(own) + math.log(prior)) / 4)


def test_a_changed_application_costs_three_times_as_much_in_its_later_half(cold_start):
    runs = [recorded(seed, "a" if seed % 2 else "b") for seed in range(40)]
    scenario = cold_start.scenario_of(runs, 1)
    after, by_run = cold_start.changed(scenario, {"a": 3.0})
    assert len(by_run) == 10
    for old, new in zip(scenario.runs, after.runs, strict=True):
        factor = plan_cost(new) / plan_cost(old)
        assert factor == pytest.approx(by_run.get(old.id, 1.0), rel=0.05)
    firsts = [run.arrival_s for run in after.runs if run.application == "a"][:10]
    assert max(firsts) < min(run.arrival_s for run in after.runs if run.id in by_run)


def test_another_llm_changes_all_applications_by_factors_of_their_own(cold_start):
    *singles, (what, factors) = cold_start.changes_of(["a", "b", "c"], 1)
    assert singles == [("changed", {name: cold_start.CHANGE}) for name in "abc"]
    assert what == "new_llm"
    assert sorted(factors.values()) == [0.5, 1.0, 2.0]


def test_a_new_template_quotes_the_whole_request_and_both_models_are_asked_about_that(
    load, monkeypatch
):
    templates = load("templates")
    text = "Sum up:\n\n* one\n* two"
    assert [line[2:] for line in templates.reworded(text).splitlines() if line[:1] == ">"] == (
        text.splitlines()
    )
    learned, asked = [], []

    def trained(runs):
        learned.append({run.prompt for run in runs})
        return {"a": SimpleNamespace(predict=predict)}

    def predict(prompt):
        asked.append(prompt)
        return SimpleNamespace(cost_kvtt=1.0)

    monkeypatch.setattr("shelves.trained", trained)
    known = [recorded(seed) for seed in range(3)]
    old, new = {run.prompt for run in known}, {templates.reworded(run.prompt) for run in known}
    for make in (templates.old_model, templates.new_model):
        assert make(known)(recorded(7)) == 1.0
    assert learned == [old, new]
    assert asked == 2 * [templates.reworded("text 7")]


def plan_cost(plan):
    return run_cost_kvtt(
        inference_cost_kvtt(each.prompt_tokens, 0, each.output_tokens, step_budget_tokens=2048)
        for each in plan.inferences
    )
