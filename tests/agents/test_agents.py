import asyncio
import itertools
import re
import zlib
from pathlib import Path

import pytest

from justitia.local.manifests import read_manifests
from justitia.local.workload import DEFAULT_MIX
from justitia.resources.application import LLMApplication
from justitia.resources.profile import PredictorProfile

ROOT = Path(__file__).parents[2]
APPLICATIONS = sorted(DEFAULT_MIX)
ANSWERS = {
    "sensible": lambda prompt: f"Yes.\n1. Read it\n2. Explain it\nThe answer is {len(prompt) % 9}.",
    "empty": lambda _: "",
    "nonsense": lambda prompt: "1.1.1.1." * 20 + chr(0x4E00 + len(prompt) % 99) + " -- \n\n* \n1)",
    "huge numbers": lambda _: "9" * 400 + " 1e999 -0 99999999999999999999",
    "hostile": lambda _: "{}%s<|im_end|>\x00\u202e no yes 0. take put go to the moon",
}


@pytest.mark.parametrize("application", APPLICATIONS)
@pytest.mark.parametrize("kind", ANSWERS)
async def test_an_agent_ends_with_a_result_whatever_the_model_answers(
    server, run_agent, application, kind
):
    server.answer = ANSWERS[kind]
    for task_seed in range(3):
        result, llm = await run_agent(application, task_seed)
        assert isinstance(result, str)
        assert 1 <= len(llm.inferences) <= 60
    if application != "map-reduce-summarization":  # its result is the last answer, as it stands
        assert result or kind == "empty"


@pytest.mark.parametrize("application", APPLICATIONS)
async def test_every_inference_names_its_run_and_application_and_bounds_its_answer(
    server, run_agent, application
):
    _, llm = await run_agent(application, 5)
    assert len(server.requests) == len(llm.inferences)
    for headers, body in server.requests:
        assert headers["x-justitia-run-id"] == "run-5"
        assert headers["x-justitia-application"] == application
        assert 1 <= body["max_tokens"] <= 200
        assert body["temperature"] == 0
        assert "seed" not in body  # it kills vLLM's CPU worker
        assert sum(len(message["content"]) for message in body["messages"]) < 6000
    assert all(usage.stage and usage.cached_tokens == 1 for usage in llm.inferences)
    assert all(usage.started_at_s <= usage.finished_at_s for usage in llm.inferences)


@pytest.mark.parametrize("application", APPLICATIONS)
async def test_equal_seeds_give_equal_tasks_and_requests(server, agents, run_agent, application):
    server.answer = lambda prompt: f"yes {zlib.crc32(prompt.encode()) % 7}"
    assert agents[application].task(3) == agents[application].task(3)
    prompts = {agents[application].task(seed).prompt for seed in range(8)}
    assert len(prompts) > 1
    bodies = []
    for _ in range(2):
        server.requests.clear()
        await run_agent(application, 3)
        bodies.append(sorted(str(body) for _, body in server.requests))
    assert bodies[0] == bodies[1]


async def test_maps_are_asked_at_once_and_reductions_after_them(server, agents, run_agent):
    num_chunks = len(agents["map-reduce-summarization"].task(2).parts)
    barrier = asyncio.Barrier(num_chunks)
    waiting = 0

    async def wait_for_all_maps():
        nonlocal waiting
        waiting += 1
        if waiting <= num_chunks:
            await barrier.wait()

    server.gate = wait_for_all_maps
    async with asyncio.timeout(10):
        _, llm = await run_agent("map-reduce-summarization", 2)
    stages = [usage.stage for usage in llm.inferences]
    assert stages[:num_chunks] == ["map"] * num_chunks
    assert "map" not in stages[num_chunks:]
    assert stages[-1] == "final"


async def test_steps_of_a_plan_are_executed_one_after_another(server, run_agent):
    server.answer = lambda _: "1. Read it\n2. Explain it\n3. Check it"
    _, llm = await run_agent("plan-and-execute", 4)
    assert [usage.stage for usage in llm.inferences][:2] == ["plan", "execute"]
    for before, after in itertools.pairwise(llm.inferences):
        assert before.finished_at_s <= after.started_at_s


async def test_the_majority_of_samples_wins(server, run_agent):
    answers = iter(["The answer is 7."] * 3 + ["The answer is 9."] * 99)
    server.answer = lambda _: next(answers)
    result, llm = await run_agent("self-consistency", 0)
    assert len(llm.inferences) > 6
    assert result.startswith(f"9 ({len(llm.inferences) - 3} of")
    assert len({str(body["messages"]) for _, body in server.requests}) == len(server.requests)


async def test_a_model_that_acts_well_reaches_the_goal_of_the_text_world(server, run_agent):
    def act_well(prompt):
        rooms, _, goal = re.search(r"row: (.*?)\. Bring the (\w+) to the (\w+)", prompt).groups()
        here = re.findall(r"You are in the (\w+)", prompt)[-1]
        actions = prompt.rsplit("Actions:", 1)[1]
        order = rooms.split(", ")
        step = 1
        if "put" in actions:
            step = order.index(goal) - order.index(here)
        if "take" in actions:
            return "take the thing"
        if step == 0:
            return next(line for line in actions.splitlines() if "put" in line)
        nearest = order.index(here) + (1 if step > 0 else -1)
        return f"I go to the {order[nearest]}."

    server.answer = act_well
    results = [(await run_agent("alfworld-interaction", seed))[0] for seed in range(12)]
    assert all("=> done" in result for result in results)


async def test_a_failed_inference_fails_the_run_and_cancels_its_siblings(server, run_agent):
    release = asyncio.Event()

    async def let_only_the_first_through():
        if len(server.requests) > 1:
            await release.wait()

    server.status = 500
    server.gate = let_only_the_first_through
    with pytest.raises(Exception, match="500"):
        await run_agent("map-reduce-summarization", 1)
    names = [task.get_coro().__qualname__ for task in asyncio.all_tasks()]
    release.set()
    assert "_summarize_chunk" not in names


@pytest.mark.parametrize("path", sorted((ROOT / "examples/agents").glob("*_*.py")), ids=str)
def test_an_agent_is_a_small_program(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) < 120


def test_every_agent_has_a_manifest_and_a_share_of_the_mix(agents):
    manifests = read_manifests(ROOT / "examples/applications")
    declared = {m.metadata.name for m in manifests if isinstance(m, LLMApplication)}
    profiles = {m.metadata.name for m in manifests if isinstance(m, PredictorProfile)}
    assert set(agents) == declared == set(DEFAULT_MIX)
    assert {
        m.spec.predictor.profile_ref.name for m in manifests if isinstance(m, LLMApplication)
    } <= profiles
