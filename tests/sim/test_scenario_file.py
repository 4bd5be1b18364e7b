"""Scenarios as files."""

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings

from justitia.sim.scenario import Segment
from justitia.sim.scenario_file import ScenarioFileError, read_scenario, write_scenario
from justitia.testing.sim_scenarios import engine, inference, run, scenario, scenarios

HEADER = {"justitia_scenario": 1, "engines": [{"blocks": 100}]}
RUN = {"id": "a", "app": "x", "at": 1.5, "calls": [{"p": 20, "d": 3}]}


@pytest.fixture
def file_of(tmp_path):
    def write(*lines):
        path = tmp_path / "scenario.jsonl"
        path.write_text(
            "\n".join(each if isinstance(each, str) else json.dumps(each) for each in lines)
        )
        return path

    return write


@settings(derandomize=True, deadline=None, max_examples=25, database=None)
@given(plan=scenarios())
def test_what_is_written_is_read(plan, tmp_path_factory):
    path = tmp_path_factory.mktemp("scenarios") / "s.jsonl.gz"
    write_scenario(path, plan)
    assert read_scenario(path) == plan


def test_pins_names_and_streams_survive(tmp_path):
    call = inference((Segment("s", 3), Segment("t", 4)), 5, output_stream="o", pause_s=0.25)
    plan = scenario(
        replace(run("a", call, inference(7, 2, after=(0,)), application="ρ"), priority=-3),
        engines=(engine(), engine(blocks=9)),
        engine_of_run={"a": 1},
        seed=7,
        about="two turns",
    )
    path = tmp_path / "s.jsonl"
    write_scenario(path, plan)
    assert read_scenario(path) == plan
    assert '"p":7' not in path.read_text(), "this prompt has a stream of another name"


def test_a_short_file_written_by_hand_is_enough(file_of):
    plan = read_scenario(file_of(HEADER, "", RUN))
    assert plan.engines[0].block_size_tokens == 16
    assert plan.runs[0].inferences[0].prompt == (Segment("a/0", 20),)


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ((), "line 1: justitia_scenario: is missing"),
        (({"justitia_scenario": 2},), "line 1: justitia_scenario: must be 1"),
        (([1],), "line 1: must be a JSON object"),
        (
            (HEADER | {"engines": [{"blocks": 0}]},),
            r"line 1: engines\[0\].blocks: must be at least",
        ),
        ((HEADER | {"engines": [{"block": 1}]},), r"engines\[0\].blocks: is missing"),
        ((HEADER | {"engines": [{"blocks": 1, "rack": 1}]},), r"engines\[0\].rack: is unknown"),
        (
            (HEADER | {"applications": [{"name": "x", "weight": 0}]},),
            r"applications\[0\]: weight: must be a number from 1e-9",
        ),
        ((HEADER, "{"), "line 2: is not JSON"),
        ((HEADER, RUN, RUN | {"at": "soon"}), "line 3: at: has the wrong type: 'soon'"),
        ((HEADER, RUN | {"calls": [{"p": 20}]}), r"line 2: calls\[0\].d: is missing"),
        ((HEADER, RUN | {"calls": [{"p": [["s"]], "d": 1}]}), r"calls\[0\].p: must list"),
        ((HEADER, RUN | {"calls": []}), "line 2: run a: must have at least one inference"),
        ((HEADER, RUN | {"calls": [{"p": 1, "d": 1, "after": [0]}]}), "must name earlier"),
        ((HEADER, RUN | {"calls": [{"p": 0, "d": 1}]}), "segments of 1 or more tokens"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(file_of, lines, problem):
    with pytest.raises(ScenarioFileError, match=problem):
        read_scenario(file_of(*lines))
