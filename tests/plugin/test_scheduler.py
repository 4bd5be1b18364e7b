"""Single behaviours of the scheduler hooks, on vLLM's real scheduler."""

import random

import pytest
from vllm.v1.request import RequestStatus

from justitia.core.cost import inference_cost_kvtt
from justitia.core.estimates import Estimate, Source
from justitia.testing.vllm_harness import Driver, EngineShape, abort, build, make_request
from justitia.vllm_plugin.directives import Directive, RunTag
from justitia.vllm_plugin.settings import Settings, SettingsError

KINDS = [pytest.param(False, id="sync"), pytest.param(True, id="async")]


def tag(scheduler, **finish_by_run):
    tags = {
        run_id: RunTag(run_id, finish, 0, 0, 1.0, Estimate(1000, Source.MODEL))
        for run_id, finish in finish_by_run.items()
    }
    scheduler.justitia.inbox.put(Directive(0.0, tags=tags))


def add(scheduler, run_id, count, *, prompt=100, output=60, application="", start=0):
    for number in range(start, start + count):
        scheduler.add_request(
            make_request(
                f"{run_id}-{number}", prompt, output, run_id=run_id, application=application
            )
        )


def random_load(scheduler, seed, *, num_steps=500):
    """Requests with identities and priorities, and aborts; the same for every scheduler."""
    rng = random.Random(seed)
    driver = Driver(scheduler)
    num_arrived = 0
    for step in range(num_steps):
        if rng.random() < 0.2:
            num_arrived += 1
            scheduler.add_request(
                make_request(
                    f"q{num_arrived}",
                    rng.randrange(20, 300),
                    rng.randrange(1, 120),
                    run_id=f"run{rng.randrange(4)}",
                    arrival_time=step * 0.01,
                    priority=rng.randrange(-5, 5),
                )
            )
        victim = f"q{rng.randrange(max(1, num_arrived))}"
        if rng.random() < 0.03 and victim in scheduler.requests:
            abort(scheduler, victim)
        if driver.is_busy:
            driver.step()
    driver.run()
    return driver


@pytest.mark.parametrize("is_async", KINDS)
@pytest.mark.parametrize("settings", [Settings(policy="fcfs"), Settings(mode="shadow")])
def test_fcfs_and_shadow_are_step_for_step_the_stock_order(tiny_model, settings, is_async):
    shape = EngineShape(is_async=is_async)
    stock = random_load(build(shape, tiny_model), 11)

    mine = random_load(build(shape, tiny_model, settings), 11)

    assert mine.steps == stock.steps
    assert mine.preempted == stock.preempted
    assert len(stock.preempted) > 20


def test_justitia_does_not_serve_in_stock_order(tiny_model):
    stock = random_load(build(EngineShape(), tiny_model), 11)

    mine = random_load(build(EngineShape(), tiny_model, Settings()), 11)

    assert mine.steps != stock.steps


@pytest.mark.parametrize("is_async", KINDS)
def test_a_later_run_with_a_smaller_finish_overtakes(tiny_model, is_async):
    scheduler = build(EngineShape(max_num_seqs=2, is_async=is_async), tiny_model, Settings())
    driver = Driver(scheduler)
    add(scheduler, "a", 5)
    tag(scheduler, a=2**100)
    for _ in range(5):
        driver.step()
    add(scheduler, "b", 5)
    tag(scheduler, b=2**90)
    driver.run()

    assert driver.finished[:7] == ["a-0", "a-1", "b-0", "b-1", "b-2", "b-3", "b-4"]


def test_a_tag_that_comes_before_its_run_counts_when_the_run_comes(tiny_model):
    scheduler = build(EngineShape(max_num_seqs=1), tiny_model, Settings())
    driver = Driver(scheduler)
    add(scheduler, "a", 3)
    tag(scheduler, a=2**100, b=1)
    driver.step()
    add(scheduler, "b", 1)
    driver.run()

    assert driver.finished == ["a-0", "b-0", "a-1", "a-2"]


def test_the_mode_changes_at_runtime_in_both_directions(tiny_model):
    scheduler = build(EngineShape(max_num_seqs=1), tiny_model, Settings())
    scheduler.justitia.inbox.put(Directive(0.0, is_shadow=True))
    scheduler.justitia.begin_step()
    driver = Driver(scheduler)
    add(scheduler, "a", 3)
    add(scheduler, "b", 3)
    tag(scheduler, a=100, b=1)
    driver.step()
    scheduler.justitia.inbox.put(Directive(0.0, is_shadow=False))
    while len(driver.finished) < 2:
        driver.step()
    scheduler.justitia.inbox.put(Directive(0.0, is_shadow=True))
    driver.run()

    assert driver.finished == ["a-0", "b-0", "a-1", "a-2", "b-1", "b-2"]


def test_equal_ids_of_two_applications_are_two_runs(tiny_model):
    scheduler = build(EngineShape(), tiny_model, Settings())
    for number, application in enumerate(["x", "y", "", "x"]):
        scheduler.add_request(
            make_request(f"q{number}", 50, 5, run_id="1", application=application)
        )

    names = {run.run_id: (run.application, run.num_waiting) for run in scheduler.justitia.runs}

    assert names == {"1": ("x", 2), "1@y": ("y", 1), "1@": ("", 1)}


def test_copies_of_an_unidentified_request_are_one_run_that_ends_with_them(tiny_model):
    scheduler = build(EngineShape(), tiny_model, Settings())
    for copy in range(3):
        scheduler.add_request(make_request(f"{copy}_cmpl-abc-0-12345678", 50, 5))
    runs = [run.run_id for run in scheduler.justitia.runs]
    Driver(scheduler).run()

    assert runs == ["cmpl-abc-0-12345678"]
    assert len(scheduler.justitia.runs) == 0
    assert len(scheduler.justitia.local) == 0
    assert scheduler.justitia.gauges.unidentified_inferences == 3


def test_the_clients_own_session_id_is_put_back(tiny_model):
    scheduler = build(EngineShape(), tiny_model, Settings())
    request = make_request("q", 50, 5, run_id="r")
    scheduler.add_request(request)

    assert request.session_id is None


# -- attained cost -----------------------------------------------------------------------------


@pytest.mark.parametrize("is_async", KINDS)
@pytest.mark.parametrize("has_prefix_cache", [False, True])
def test_useful_cost_is_the_closed_form_whatever_is_preempted(
    tiny_model, is_async, has_prefix_cache
):
    shape = EngineShape(
        blocks=60,
        max_batched_tokens=4096,
        is_async=is_async,
        has_prefix_cache=has_prefix_cache,
    )
    scheduler = build(shape, tiny_model, Settings(scheduler_address="127.0.0.1:1"))
    scheduler.justitia_session.close()
    rng = random.Random(4)
    expected = {}
    driver = Driver(scheduler)
    for number in range(40):
        prompt, output = rng.randrange(5, 250), rng.randrange(1, 150)
        expected[f"r{number}"] = inference_cost_kvtt(prompt, 0, output, step_budget_tokens=4096)
        add(scheduler, f"r{number}", 1, prompt=prompt, output=output)
    driver.run()
    finished = {f.run_id: f for run in scheduler.justitia.runs for f in run.finished}

    assert {run_id: f.useful_kvtt for run_id, f in finished.items()} == expected
    assert sum(f.num_preemptions for f in finished.values()) > 10


def test_recomputing_in_several_steps_is_wasted_and_not_charged_as_useful(tiny_model):
    shape = EngineShape(blocks=15, max_batched_tokens=64, has_prefix_cache=False)
    scheduler = build(shape, tiny_model, Settings())
    driver = Driver(scheduler)
    add(scheduler, "front", 1, prompt=60, output=60)
    add(scheduler, "back", 1, prompt=60, output=60)
    tag(scheduler, front=1, back=2)
    driver.run()
    runs = {run.run_id: run for run in scheduler.justitia.runs}
    closed_form = inference_cost_kvtt(60, 0, 60, step_budget_tokens=64)

    assert set(driver.preempted) == {"back-0"}
    assert (runs["front"].useful_kvtt, runs["front"].wasted_kvtt) == (closed_form, 0)
    assert runs["back"].wasted_kvtt == 64  # the first of the two steps that compute it again


def test_a_shared_prefix_is_charged_once_and_handed_on(tiny_model):
    scheduler = build(EngineShape(), tiny_model, Settings())
    driver = Driver(scheduler)
    prefix = list(range(3, 3 + 64))
    scheduler.add_request(make_request("first", [*prefix, 100], 10, run_id="a"))
    driver.step()
    scheduler.add_request(make_request("second", [*prefix, 200], 20, run_id="b"))
    driver.step()
    ledger = scheduler.justitia.ledger

    assert ledger.get("second").useful_shares == 1  # 65 tokens held, 64 of them paid by the first
    abort(scheduler, "first")
    driver.step()
    assert ledger.get("second").useful_shares == 1 + 66


@pytest.mark.parametrize("is_async", KINDS)
def test_resetting_the_prefix_cache_under_load_closes_all_books(tiny_model, is_async):
    scheduler = build(EngineShape(is_async=is_async), tiny_model, Settings())
    driver = Driver(scheduler)
    add(scheduler, "a", 6)
    for _ in range(10):
        driver.step()
    scheduler.reset_prefix_cache(reset_running_requests=True)
    driver.run()

    assert sorted(driver.finished) == [f"a-{n}" for n in range(6)]
    assert scheduler.justitia.gauges.internal_errors == 0
    assert len(scheduler.justitia.ledger) == scheduler.justitia.ledger.blocks.num_paid == 0


def test_streaming_input_that_stops_and_goes_on_keeps_one_set_of_books(tiny_model):
    scheduler = build(EngineShape(), tiny_model, Settings())
    driver = Driver(scheduler)
    scheduler.add_request(make_request("s", 50, 5, run_id="a", is_resumable=True))
    for _ in range(8):
        driver.step()
    run = scheduler.justitia.runs.get("a")
    assert (run.num_waiting, run.num_running) == (1, 0)
    assert scheduler.justitia.ledger.get("s").holding.num_blocks > 0
    scheduler.add_request(make_request("s", 20, 5, run_id="a", is_resumable=True))
    for _ in range(8):
        driver.step()
    abort(scheduler, "s")
    driver.run()

    assert run.is_idle
    assert scheduler.justitia.gauges.internal_errors == 0
    assert len(scheduler.justitia.ledger) == scheduler.justitia.ledger.blocks.num_paid == 0


@pytest.mark.parametrize("moment", ["waiting", "running", "preempted", "twice"])
def test_an_abort_at_any_moment_closes_the_books_once(tiny_model, moment):
    scheduler = build(EngineShape(blocks=14, max_num_seqs=2), tiny_model, Settings())
    driver = Driver(scheduler)
    add(scheduler, "a", 3)
    if moment != "waiting":
        driver.step()
    while moment == "preempted" and not driver.preempted:
        driver.step()
    target = {"waiting": "a-2", "preempted": driver.preempted[-1] if driver.preempted else ""}
    request_id = target.get(moment, "a-0")
    for _ in range(2 if moment == "twice" else 1):
        abort(scheduler, request_id)
    driver.run()

    assert len(driver.finished) == 2
    assert len(scheduler.justitia.ledger) == scheduler.justitia.ledger.blocks.num_paid == 0
    assert scheduler.justitia.runs.get("a").is_idle


def test_finishing_everything_at_once_closes_all_books(tiny_model):
    scheduler = build(EngineShape(), tiny_model, Settings())
    driver = Driver(scheduler)
    add(scheduler, "a", 20)
    driver.step()
    scheduler.finish_requests(None, RequestStatus.FINISHED_ABORTED)

    assert len(scheduler.justitia.ledger) == scheduler.justitia.ledger.blocks.num_paid == 0
    assert scheduler.justitia.ledger.num_running == 0


def test_the_books_stay_small_over_many_runs(tiny_model):
    now = [0.0]
    scheduler = build(EngineShape(), tiny_model, Settings(run_idle_timeout_s=10.0))
    scheduler.justitia_clock = lambda: now[0]
    driver = Driver(scheduler)
    for number in range(300):
        add(scheduler, f"run{number}", 1, prompt=20, output=2)
        for _ in range(3):
            driver.step()
        now[0] += 1.0
    driver.run()
    controller = scheduler.justitia

    assert len(controller.runs) < 15
    assert len(controller.local) < 15
    assert len(controller.policy._key) < 15
    assert len(controller.local._pool._engines["local"].useful_kvtt_by_run) < 15
    assert len(controller.runs.changed) == 0


# -- trouble of our own ------------------------------------------------------------------------


@pytest.mark.parametrize("broken", ["charge_step", "arrive", "ended", "rank", "begin_step"])
def test_an_error_of_ours_never_ends_the_engine(tiny_model, broken, monkeypatch, caplog):
    scheduler = build(EngineShape(max_num_seqs=2), tiny_model, Settings())
    driver = Driver(scheduler)
    add(scheduler, "a", 3)
    driver.step()

    def fail(*_args, **_kwargs):
        raise RuntimeError("planted")

    monkeypatch.setattr(type(scheduler.justitia), broken, fail)
    add(scheduler, "b", 3)
    driver.run()

    assert len(driver.finished) == 6
    assert scheduler.justitia.is_degraded
    assert scheduler.justitia.gauges.internal_errors > 0
    assert sum("Justitia failed inside" in line for line in caplog.messages) == 1


def test_an_error_in_the_policy_leaves_arrival_order(tiny_model, monkeypatch):
    scheduler = build(EngineShape(max_num_seqs=1), tiny_model, Settings())
    driver = Driver(scheduler)
    add(scheduler, "a", 3)
    tag(scheduler, a=100)
    driver.step()

    def fail(*_args):
        raise RuntimeError("planted")

    monkeypatch.setattr(type(scheduler.justitia.policy), "key", fail)
    add(scheduler, "b", 2)
    driver.run()

    assert driver.finished == ["a-0", "a-1", "a-2", "b-0", "b-1"]


# -- start -------------------------------------------------------------------------------------


def test_a_contradicting_flag_is_refused_in_one_sentence():
    from justitia.vllm_plugin import contract

    class Config:
        class scheduler_config:  # noqa: N801
            policy = "priority"

    with pytest.raises(SettingsError, match=r"--scheduling-policy priority .* remove one"):
        contract.check_flags(Config)


@pytest.mark.parametrize("version", ["0.32.0", "0.32.1rc1", "0.32.0+cu130", "0.32.2.dev3+gabc"])
def test_tested_versions_are_accepted_whatever_their_suffix(version):
    from justitia.vllm_plugin import contract

    contract.check_version(version, Settings())


@pytest.mark.parametrize("version", ["0.31.0", "0.33.0", "1.0.0", "dev", ""])
def test_untested_versions_are_refused_unless_asked_for(version):
    from justitia.vllm_plugin import contract

    with pytest.raises(SettingsError, match="JUSTITIA_ALLOW_UNTESTED_VLLM=1"):
        contract.check_version(version, Settings())
    contract.check_version(version, Settings(allow_untested_vllm=True))
