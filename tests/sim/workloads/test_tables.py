import runpy
from pathlib import Path

import pytest

from justitia.sim.scenario import MAX_TOKENS
from justitia.sim.workloads.generate import LOADS_S, generate
from justitia.sim.workloads.kind import SizeClass, Waits
from justitia.sim.workloads.mixes import MIXES
from justitia.sim.workloads.spread import SYNTHETIC
from justitia.sim.workloads.summary import total_cost_kvtt
from justitia.sim.workloads.tables import (
    FULL_STEP_S,
    KINDS,
    MAX_CONTEXT_TOKENS,
    PAPER,
    PAPER_ENGINE,
)

ROOT = Path(__file__).resolve().parents[3]
PREFILL_S_PER_TOKEN = 63.5e-6  # of the step model a100-llama2-7b


def spreads(kind):
    yield kind.text
    for stage in kind.stages:
        yield from (s for s in (stage.count, stage.instructions, stage.own, stage.output) if s)


def test_the_papers_nine_types_are_there():
    names = {kind.abbreviation for kind in KINDS.values()}
    assert names == {"MRS", "PE", "CC", "KBQAV", "EV", "FV", "ALFWI", "DM", "SC"}


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.abbreviation)
def test_the_longest_inference_of_a_type_fits_the_context_and_the_cache(kind):
    before = 0
    for stage in kind.stages:
        own = stage.own.most if stage.own else 0
        if stage.waits is Waits.CHAIN:
            own = (stage.count.most - 1) * (own + stage.output.most)
        reads = min(stage.reads_output_tokens, before) if before else 0
        text = kind.text.most if stage.reads_text else 0
        longest = stage.instructions.most + text + own + reads + stage.output.most
        assert longest <= MAX_CONTEXT_TOKENS < PAPER_ENGINE.kv_capacity_tokens
        before = MAX_TOKENS


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.abbreviation)
def test_numbers_lie_within_their_bounds_and_name_a_source(kind):
    for spread in spreads(kind):
        assert spread.least <= spread.median <= spread.most
        assert 0 <= spread.own <= 1
        assert spread.sigma >= 0
        assert spread.source == SYNTHETIC or "arXiv" in spread.source


def test_the_papers_own_lengths_are_cited():
    cited = {
        (k.abbreviation, s.median) for k in KINDS.values() for s in spreads(k) if PAPER in s.source
    }
    assert {("FV", 340), ("FV", 30), ("MRS", 300), ("MRS", 700), ("DM", 780)} <= cited
    queries = KINDS["fact-verification"].stages[1]
    assert queries.instructions.median + queries.own.least == 360
    assert queries.instructions.median + queries.own.most == 380


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_papers_mix_overloads_its_engine_as_its_completion_times_need(seed):
    scenario = generate(seed=seed)
    steps = total_cost_kvtt(scenario) / PAPER_ENGINE.kv_capacity_tokens
    prompt_tokens = sum(i.prompt_tokens for run in scenario.runs for i in run.inferences)
    work_s = steps * FULL_STEP_S + prompt_tokens * PREFILL_S_PER_TOKEN
    assert 4 <= work_s / LOADS_S["3x"] <= 6
    assert 1.3 <= work_s / LOADS_S["1x"] <= 2


def test_every_size_has_types_and_the_hermes_mix_its_shares():
    shares = dict.fromkeys(SizeClass, 0.0)
    for name, share in MIXES["hermes"].items():
        shares[KINDS[name].size_class] += share
    assert shares == pytest.approx({"small": 0.72, "medium": 0.26, "large": 0.02})
    assert sum(MIXES["paper"].values()) == pytest.approx(1)


def test_the_document_shows_these_tables():
    """Where it does not: `tools/workload_reference`."""
    tool = runpy.run_path(str(ROOT / "tools" / "workload_reference"))
    page = (ROOT / "docs" / "workloads.md").read_text()
    assert tool["filled"](page) == page
