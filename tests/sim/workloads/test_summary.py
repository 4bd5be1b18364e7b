from dataclasses import replace

import pytest

from justitia.sim.scenario import EnginePlan, InferencePlan, RunPlan, Scenario, Segment
from justitia.sim.workloads.generate import generate
from justitia.sim.workloads.summary import describe

TEN = (Segment("a", 10),)


def run(number, at_s=0.0, prompt=TEN, output_tokens=5, application="app"):
    inference = InferencePlan(prompt=tuple(prompt), output_tokens=output_tokens)
    return RunPlan(
        id=f"r{number}", application=application, arrival_s=at_s, inferences=(inference,)
    )


def scenario(*runs, **more):
    return Scenario(engines=(EnginePlan(blocks=100),), runs=runs, **more)


def test_it_counts_span_rate_and_tokens():
    found = describe(scenario(run(0), run(1, 2.0), run(2, 4.0), about="three"))
    assert (found.num_runs, found.num_inferences, found.span_s) == (3, 3, 4.0)
    assert found.runs_per_s == 0.5
    assert found.prompt_tokens.mean == 10
    assert found.output_tokens.largest == 5
    assert found.cost_kvtt == 3 * (10 + 11 + 12 + 13 + 14)
    assert found.full_cache_steps == found.cost_kvtt / 1600
    text = "\n".join(found.lines())
    assert "three" in text
    assert "3 within 4.0 s, 0.5 runs/s" in text
    assert found.warnings == ()


def test_what_an_earlier_prompt_holds_is_shared():
    first = (Segment("sys", 10), Segment("x", 10))
    second = (Segment("sys", 10), Segment("y", 10))  # 10 shared
    third = (Segment("sys", 6), Segment("x", 14))  # 6 shared: then it is another stream's place
    fourth = (Segment("sys", 10), Segment("x", 4), Segment("z", 6))  # 14 shared
    runs = [run(n, prompt=p) for n, p in enumerate((first, second, third, fourth))]
    assert describe(scenario(*runs)).shared_share == (10 + 6 + 14) / 80


def many(rate):
    return scenario(*(run(n, n / rate) for n in range(120)))


@pytest.mark.parametrize("rate", [300.0, 0.003])
def test_an_implausible_rate_warns(rate):
    assert "is the unit of time right?" in describe(many(rate)).warnings[0]


@pytest.mark.parametrize("rate", [100.0, 0.05])
def test_a_plausible_rate_does_not(rate):
    assert describe(many(rate)).warnings == ()


def test_many_engines_may_get_many_runs():
    crowd = replace(many(300.0), engines=(EnginePlan(blocks=100),) * 10)
    assert describe(crowd).warnings == ()


def test_everything_at_once_warns():
    assert "all runs at one moment" in describe(scenario(*map(run, range(120)))).warnings[0]


def test_times_in_buckets_warn():
    runs = (run(n, float(3 * (n // 10))) for n in range(200))
    assert "180 runs arrive at the same time" in describe(scenario(*runs)).warnings[0]


def test_what_does_not_fit_and_what_has_no_output_warns():
    found = describe(scenario(run(0, prompt=[Segment("a", 1600)]), run(1, output_tokens=0)))
    assert "1 inferences fit no engine" in found.warnings[0]
    assert "1 inferences have no output" in found.warnings[1]


def test_an_application_that_is_forgotten_warns_and_so_does_nothing_at_all():
    listed = generate(seed=1, num_runs=9)
    assert describe(listed).warnings == ()
    short = replace(listed, applications=listed.applications[1:])
    assert "1 applications are not listed" in describe(short).warnings[0]
    assert describe(scenario()).warnings == ("there are no runs",)
    assert describe(scenario()).lines()
