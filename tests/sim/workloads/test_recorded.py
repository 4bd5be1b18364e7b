from collections import Counter
from pathlib import Path

import pytest

from justitia.core.errors import InvalidValueError
from justitia.predictor.recordings import RecordedInference, RecordedRun, write_recordings
from justitia.sim.workloads.recorded import CHAINED, recorded_scenario, run_plan
from justitia.sim.workloads.summary import describe

RECORDINGS = Path(__file__).resolve().parents[3] / "examples" / "recordings" / "runs.jsonl.gz"


def recorded(*inferences, application="app"):
    return RecordedRun(
        application=application,
        prompt="do it",
        inferences=tuple(
            RecordedInference(stage=stage, prompt_tokens=p, cached_tokens=s, output_tokens=d)
            for stage, p, s, d in inferences
        ),
    )


def test_stages_wait_for_one_another_and_chains_for_themselves():
    run = recorded(("map", 9, 0, 1), ("map", 9, 0, 2), ("map", 9, 0, 3), ("final", 30, 0, 4))
    plan = run_plan(run, run_id="r")
    assert [each.after for each in plan.inferences] == [(), (), (), (0, 1, 2)]
    assert plan.text == "do it"
    chain = recorded(
        ("plan", 9, 0, 1), ("execute", 9, 0, 1), ("execute", 20, 0, 1), ("end", 9, 0, 1)
    )
    assert [each.after for each in run_plan(chain, run_id="r").inferences] == [
        (),
        (0,),
        (1,),
        (1, 2),
    ]
    pairs = recorded(
        ("answer", 9, 0, 1), ("answer", 9, 0, 1), ("verify", 9, 0, 1), ("verify", 9, 0, 1)
    )
    assert [each.after for each in run_plan(pairs, run_id="r").inferences] == [(), (), (0,), (1,)]


def test_cached_tokens_are_a_shared_prefix(shared_tokens):
    plan = run_plan(
        recorded(("map", 40, 32, 1), ("map", 50, 16, 1), ("map", 16, 16, 1)), run_id="r"
    )
    first, second, third = (each.prompt for each in plan.inferences)
    assert shared_tokens(first, second) == 16
    assert shared_tokens(first, third) == 15
    chain = run_plan(recorded(("act", 74, 0, 4), ("act", 98, 64, 4)), run_id="r")
    assert shared_tokens(*(each.prompt for each in chain.inferences)) == 64


def test_the_agents_own_recordings_are_a_scenario_with_texts():
    scenario = recorded_scenario(RECORDINGS, seed=1, num_runs=225, window_s=60.0)
    counts = Counter(run.application for run in scenario.runs)
    assert len(counts) == 9
    assert max(counts.values()) - min(counts.values()) <= 2  # as even as the recordings
    assert all(run.text for run in scenario.runs)
    assert len({run.text for run in scenario.runs if run.application == "self-consistency"}) > 20
    assert scenario == recorded_scenario(RECORDINGS, seed=1, num_runs=225, window_s=60.0)
    assert describe(scenario).warnings == ()


def test_the_agents_have_the_stages_that_are_taken_for_chains():
    agents = RECORDINGS.parents[1] / "agents"
    sources = "".join(path.read_text() for path in agents.glob("*.py"))
    assert all(f'stage="{name}"' in sources for name in CHAINED)


def test_a_mix_may_be_given_and_what_it_lacks_is_named():
    mix = {"self-consistency": 1.0, "code-checking": 1.0}
    scenario = recorded_scenario(RECORDINGS, seed=1, num_runs=60, window_s=9.0, mix=mix)
    assert Counter(run.application for run in scenario.runs) == dict.fromkeys(mix, 30)
    with pytest.raises(InvalidValueError, match="has no runs of poetry"):
        recorded_scenario(RECORDINGS, seed=1, num_runs=6, window_s=9.0, mix={"poetry": 1.0})


def test_a_bad_file_is_refused_by_line(tmp_path):
    path = tmp_path / "runs.jsonl.gz"
    write_recordings(path, [])
    with pytest.raises(InvalidValueError, match="holds no recorded runs"):
        recorded_scenario(path, seed=1, num_runs=6, window_s=9.0)
    path.write_text("\nnonsense\n")
    with pytest.raises(InvalidValueError, match=r"runs\.jsonl\.gz:2"):
        recorded_scenario(path, seed=1, num_runs=6, window_s=9.0)
