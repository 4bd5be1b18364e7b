"""The cold start ladder (rule E1) and what an estimate may be (rule K3)."""

import math

import pytest

from justitia.core.errors import InvalidValueError
from justitia.core.estimates import (
    MIN_PEER_RUNS,
    Estimate,
    Ladder,
    Source,
    clamp_cost_kvtt,
    require_cost_kvtt,
)
from justitia.core.units import MAX_COST_KVTT

NAN, INF = float("nan"), float("inf")
THOUSANDS_OF_DIGITS = pytest.param(10**5000, id="1e5000")


def make_ladder(*, own=0, peers=0):
    ladder = Ladder(default_cost_kvtt=7)
    for _ in range(own):
        ladder.learn("app", prompt_length=None, cost_kvtt=30)
    for _ in range(peers):
        ladder.learn("other", prompt_length=100, cost_kvtt=40)
    return ladder


FULL = {"client_kvtt": 10.0, "model_kvtt": 20.0, "model_version": "v1", "fallback_kvtt": 50.0}


@pytest.mark.parametrize(
    ("missing", "own", "peers", "expected"),
    [
        ((), 5, 5, Estimate(10, Source.CLIENT)),
        (("client",), 5, 5, Estimate(20, Source.MODEL, "v1")),
        (("client", "model"), 1, 5, Estimate(30, Source.HISTORY)),
        (("client", "model"), 0, 5, Estimate(40, Source.POOL)),
        (("client", "model"), 0, 4, Estimate(50, Source.DEFAULT)),
        (("client", "model", "fallback"), 0, 0, Estimate(7, Source.DEFAULT)),
    ],
)
def test_each_step_of_the_ladder_is_taken_when_those_above_are_missing(
    missing, own, peers, expected
):
    answers = {
        name: (None if name.removesuffix("_kvtt") in missing else value)
        for name, value in FULL.items()
        if name != "model_version"
    }
    ladder = make_ladder(own=own, peers=peers)
    estimate = ladder.estimate("app", prompt_length=100, model_version="v1", **answers)
    assert estimate == expected
    assert MIN_PEER_RUNS == 5


@pytest.mark.parametrize("answer", [NAN, INF, -INF, 0.0, -5.0])
@pytest.mark.parametrize("whose", ["client_kvtt", "model_kvtt", "fallback_kvtt"])
def test_an_unusable_answer_is_passed_over_whoever_gives_it(whose, answer):
    estimate = make_ladder().estimate("app", prompt_length=None, **{whose: answer})
    assert estimate == Estimate(7, Source.DEFAULT)


@pytest.mark.parametrize(
    ("raw", "kvtt"), [(1e-9, 1), (0.4, 1), (2.6, 3), (1e300, 1000), (999, 999)]
)
def test_an_estimate_is_a_whole_number_within_what_is_possible(raw, kvtt):
    ladder = Ladder(default_cost_kvtt=7, max_cost_kvtt=1000)
    assert ladder.estimate("app", prompt_length=None, model_kvtt=raw).cost_kvtt == kvtt


def test_the_pools_prior_is_for_prompts_of_that_length():
    ladder = make_ladder(peers=5)
    assert ladder.estimate("app", prompt_length=127).source is Source.POOL
    assert ladder.estimate("app", prompt_length=64).source is Source.POOL
    assert ladder.estimate("app", prompt_length=128).source is Source.DEFAULT
    assert ladder.estimate("app", prompt_length=None).source is Source.DEFAULT


def test_open_runs_look_otherwise_after_the_first_end_and_whenever_their_number_has_doubled():
    ladder = make_ladder()
    news = [ladder.learn("app", prompt_length=None, cost_kvtt=cost) for cost in range(10, 210, 10)]
    at = {number: each.cost_kvtt for number, each in enumerate(news, start=1) if each is not None}
    assert at == {1: 10, 2: 15, 4: 25, 8: 45, 16: 85}
    assert {each.source for each in news if each is not None} == {Source.HISTORY}


def test_only_what_client_and_model_say_is_not_provisional():
    provisional = {source for source in Source if source.is_provisional}
    assert provisional == {Source.HISTORY, Source.POOL, Source.DEFAULT}


def test_a_mean_is_exact_for_huge_costs():
    ladder = Ladder(default_cost_kvtt=7)
    for cost in (10**18, 10**18, 10**18 - 3, 10**18, 10**18):
        ladder.learn("app", prompt_length=None, cost_kvtt=cost)
    assert ladder.history()[0] == {"app": (5, 5 * 10**18 - 3)}


def test_the_ladder_remembers_the_applications_seen_last():
    ladder = Ladder(default_cost_kvtt=7, max_applications=2)
    for name in ("a", "b", "a", "c"):
        ladder.learn(name, prompt_length=None, cost_kvtt=1)
    assert sorted(ladder.history()[0]) == ["a", "c"]
    ladder.forget("a")
    ladder.forget("never seen")
    assert sorted(ladder.history()[0]) == ["c"]


def test_history_survives_a_restart():
    before, after = make_ladder(own=6, peers=9), Ladder(default_cost_kvtt=7)
    after.restore(*before.history())
    assert after == before


@pytest.mark.parametrize(
    "value", [NAN, INF, -INF, 0, -1, 1e19, 10**18 + 1, 10**400, THOUSANDS_OF_DIGITS]
)
def test_claims_of_a_cost_that_are_refused(value):
    with pytest.raises(InvalidValueError) as caught:
        require_cost_kvtt("estimate.cost_kvtt", value)
    assert caught.value.field == "estimate.cost_kvtt"
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    ("value", "kvtt"),
    [(1, 1), (0.001, 1), (10**18, MAX_COST_KVTT), (1e18, MAX_COST_KVTT), (2.5, 2)],
)
def test_claims_of_a_cost_that_are_taken(value, kvtt):
    assert require_cost_kvtt("cost", value) == kvtt


def test_clamping_knows_infinity():
    assert clamp_cost_kvtt(math.inf) == MAX_COST_KVTT
    assert clamp_cost_kvtt(-1e300) == 1
