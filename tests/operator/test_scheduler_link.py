"""The scheduler service's side against the real service over gRPC."""

from dataclasses import replace
from datetime import UTC

import pytest

from justitia_operator.facts import Program, Reach
from justitia_operator.program import Slot, is_same
from justitia_operator.scheduler import GRACE_S, AwayError, RefusedError, SchedulerLink

PROGRAM = Program(
    pool="team-a/llama",
    name="chat",
    declared_by="justitia-operator:team-a/chat#uid-1",
    weight=0.25,
    fallback_cost_kvtt=5000.0,
    privacy="Text",
    idle_timeout_s=90.0,
    max_duration_s=3600.0,
    max_concurrent_runs=7,
    objective_max_ratio=1.5,
    objective_for_s=0.0,
)
SLOT = Slot("team-a/llama", "chat")


@pytest.fixture
def now():
    return [1000.0]


@pytest.fixture
async def link(scheduler, now):
    link = SchedulerLink(scheduler.address, None, now_s=lambda: now[0])
    yield link
    await link.close()


async def test_fk4_the_service_holds_exactly_what_it_was_told(link):
    await link.load()
    answer = await link.apply(PROGRAM)
    assert is_same(PROGRAM, answer.program)
    view = await link.load()
    assert is_same(PROGRAM, view.held[SLOT].program)
    assert view.held[SLOT].program.declared_by == PROGRAM.declared_by
    assert view.held[SLOT].figures.verdict == "too_few_runs"


async def test_applications_of_all_pools_are_listed(link, scheduler):
    await scheduler.declare(name="by-hand", pool="other")
    await link.apply(PROGRAM)
    view = await link.load()
    assert set(view.held) == {SLOT, Slot("other", "by-hand")}
    assert set(view.pools) == {"team-a/llama", "other"}
    assert view.held[Slot("other", "by-hand")].program.declared_by == ""


async def test_what_is_deleted_is_gone_and_twice_is_no_error(link):
    await link.load()
    await link.apply(PROGRAM)
    for _ in range(2):
        await link.delete(SLOT)
    assert link.view.held == {}
    assert (await link.load()).held == {}


async def test_engines_and_mode_of_a_pool_are_seen(link, scheduler):
    await link.apply(PROGRAM)
    await scheduler.join(policy="fcfs")
    view = await link.load()
    assert view.pools["team-a/llama"].policies == {"engine-0": "fcfs"}
    assert not view.pools["team-a/llama"].is_shadow
    await link.set_mode("team-a/llama", is_shadow=True)
    assert link.view.pools["team-a/llama"].is_shadow
    assert (await link.describe("team-a/llama")).is_shadow


async def test_a_published_model_is_seen_with_its_date_and_error(link, scheduler, artefact):
    await link.apply(PROGRAM)
    await scheduler.publish("chat", artefact)
    model = (await link.load()).models[SLOT]
    assert model.samples == 50
    assert model.published_at.endswith("Z")
    assert link.view.held[SLOT].figures.model_version == model.version


async def test_models_are_asked_for_only_when_there_is_a_new_one(link, scheduler, artefact):
    await link.apply(PROGRAM)
    await scheduler.publish("chat", artefact)
    calls = []
    real = link._call

    async def counted(stub, method, request):
        calls.append(method)
        return await real(stub, method, request)

    link._call = counted
    for _ in range(3):
        await link.load()
    assert calls.count("ListModels") == 1


async def test_samples_are_counted_all_and_since_the_model(link, scheduler, until, artefact):
    await link.apply(PROGRAM)
    scheduler.record_samples(3)

    async def samples():
        return (await link.load()).held[SLOT].figures

    async def is_counted():
        return (await samples()).samples == 3

    await until(is_counted)
    before = await samples()
    assert before.samples_since_model == 3
    assert before.newest_third_from.tzinfo is UTC
    await scheduler.publish("chat", artefact)
    after = await samples()
    assert (after.samples_since_model, after.newest_third_from) == (0, None)


async def test_a_refusal_carries_the_services_own_words(link):
    with pytest.raises(RefusedError, match="max_concurrent_runs"):
        await link.apply(replace(PROGRAM, max_concurrent_runs=-1))
    assert link.reach is Reach.YES


async def test_fk5_a_service_that_is_away_is_told_from_one_that_is_gone(
    link, scheduler, now, until
):
    await link.load()
    assert link.reach is Reach.YES
    await scheduler.stop()
    with pytest.raises(AwayError):
        await link.load()
    assert link.reach is Reach.BRIEFLY_NOT
    assert link.view is not None  # what was known still stands
    now[0] += GRACE_S
    assert link.reach is Reach.NO
    await scheduler.start()

    async def is_back():
        try:
            return await link.load()
        except AwayError:
            return None

    await until(is_back)
    assert link.reach is Reach.YES


async def test_an_operator_that_starts_first_gives_the_service_time(now):
    link = SchedulerLink("127.0.0.1:1", None, now_s=lambda: now[0])
    with pytest.raises(AwayError):
        await link.load()
    assert link.reach is Reach.BRIEFLY_NOT
    now[0] += GRACE_S
    assert link.reach is Reach.NO
    await link.close()
