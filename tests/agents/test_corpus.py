import importlib
import itertools

import pytest

from justitia.local.workload import DEFAULT_MIX
from justitia.predictor.recordings import NUM_SHELVES, shelf_of

APPLICATIONS = sorted(DEFAULT_MIX)
TEXT_APPLICATIONS = [
    "document-merging",
    "fact-verification",
    "map-reduce-summarization",
    "plan-and-execute",
]


@pytest.fixture(scope="module")
def corpus(agents):
    """The module that the loaded agents use."""
    assert agents
    return importlib.import_module("corpus")


@pytest.fixture(scope="module")
def shelves(corpus):
    return [corpus.shelf(seed) for seed in range(NUM_SHELVES)]


def test_the_agents_and_the_recordings_mean_the_same_shelves(corpus, shelves):
    assert corpus.NUM_SHELVES == NUM_SHELVES
    assert corpus.shelf(7 * NUM_SHELVES + 3) is shelves[shelf_of(7 * NUM_SHELVES + 3)]
    assert len(set(map(id, shelves))) == NUM_SHELVES


def test_no_text_stands_on_two_shelves_or_twice_on_one(shelves):
    for texts_of in (
        lambda shelf: shelf.sentences,
        lambda shelf: shelf.functions,
        lambda shelf: [summary for _, summary in shelf.facts],
    ):
        texts = [text for shelf in shelves for text in texts_of(shelf)]
        assert len(texts) == len(set(texts))


def test_shelves_hold_enough_and_about_equally_much(shelves):
    for texts in ([s.sentences for s in shelves], [s.functions for s in shelves]):
        assert min(map(len, texts)) >= 100
        assert max(map(len, texts)) < 2 * min(map(len, texts))
    assert all(len(shelf.facts) >= 40 for shelf in shelves)


@pytest.mark.parametrize("application", APPLICATIONS)
def test_prompts_of_two_shelves_are_never_equal(agents, application):
    prompts = [
        {agents[application].task(seed).prompt for seed in range(shelf, 300, NUM_SHELVES)}
        for shelf in range(NUM_SHELVES)
    ]
    for left, right in itertools.combinations(prompts, 2):
        assert left.isdisjoint(right)
    assert all(len(shelf) >= 25 for shelf in prompts)


@pytest.mark.parametrize("application", TEXT_APPLICATIONS)
def test_a_prompt_quotes_its_own_shelf_alone(agents, shelves, application):
    for seed in range(2 * NUM_SHELVES):
        prompt = agents[application].task(seed).prompt
        quoted = [
            sum(sentence in prompt for sentence in shelf.sentences if len(sentence) > 60)
            for shelf in shelves
        ]
        assert quoted.pop(shelf_of(seed)) > 0
        assert not any(quoted)


def test_a_checked_function_and_a_knowledge_base_are_of_the_tasks_shelf(agents, shelves):
    for seed in range(2 * NUM_SHELVES):
        shelf = shelves[shelf_of(seed)]
        assert agents["code-checking"].task(seed).question in shelf.functions
        summaries = {f"Which function does this: {summary}" for _, summary in shelf.facts}
        assert set(agents["kbqa-verification"].task(seed).parts) <= summaries
