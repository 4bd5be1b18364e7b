"""The order and the books of one engine, without vLLM: runs that end, tags, modes, names."""

import sys
import threading
from dataclasses import dataclass, field, replace

import pytest

from justitia.core.estimates import Estimate, Source
from justitia.core.limits import MAX_ID_CHARS
from justitia.vllm_plugin import wire
from justitia.vllm_plugin.controller import EngineController
from justitia.vllm_plugin.directives import Directive, RunTag
from justitia.vllm_plugin.facts import EngineLimits
from justitia.vllm_plugin.identity import NOBODY, Identity
from justitia.vllm_plugin.kv_blocks import KvLayout
from justitia.vllm_plugin.run_book import MAX_UNHEARD
from justitia.vllm_plugin.settings import Settings
from justitia.vllm_plugin.wire import EngineFacts

LIMITS = EngineLimits(
    kv_capacity_tokens=1000, step_budget_tokens=256, max_model_len_tokens=1024, max_num_seqs=8
)
FACTS = EngineFacts(
    engine_id="e-0",
    incarnation="one",
    kv_blocks=62,
    block_size_tokens=16,
    vllm_version="0.32.0",
    model="tiny",
)


@dataclass
class Engine:
    """A controller with a clock in hand."""

    settings: Settings = field(default_factory=lambda: Settings(scheduler_address="x:1"))
    now_s: float = 0.0

    def __post_init__(self):
        self.controller = EngineController(self.settings, KvLayout(16), LIMITS, lambda: self.now_s)

    def arrive(self, inference_id, run_id="", application=""):
        identity = Identity(run_id, application) if run_id else NOBODY
        return self.controller.arrive(
            inference_id, identity, prompt_tokens=100, max_output_tokens=10
        )

    def serve(self, inference_id, run_id="", *, kvtt=100, application=""):
        """Serve an inference from its arrival to its end, in one step."""
        inference = self.arrive(inference_id, run_id, application)
        self.controller.admitted(inference, 0)
        self.controller.charge_step([(inference, kvtt)])
        self.controller.ended(inference_id, is_aborted=False)
        return inference

    def step(self, after_s=0.05):
        self.now_s += after_s
        self.controller.begin_step()

    def tell(self, **parts):
        self.controller.inbox.put(Directive(self.now_s, **parts))

    def reports(self):
        """Everything that a session would say now."""
        said = []
        while wire.has_more(self.controller):
            message = wire.report(self.controller, len(said) + 1, self.now_s, is_due=False)
            said.append(message.report)
        return said

    def hello(self):
        return next(wire.hellos(self.controller, FACTS, self.now_s)).hello


def tag(run_id, finish, sequence=0):
    return RunTag(run_id, finish, 0, sequence, 1.0, Estimate(1000, Source.MODEL))


# -- many at once ----------------------------------------------------------------------------------


def test_runs_that_expire_together_are_closed_a_few_in_each_step():
    engine = Engine()
    for number in range(1000):
        engine.serve(f"q{number}", f"r{number}")
    engine.step(after_s=400)
    left = [len(engine.controller.runs)]
    while left[-1] and len(left) < 100:
        engine.step()
        left.append(len(engine.controller.runs))

    assert left == list(range(950, -1, -50))
    assert len(engine.controller.local) == 0


def test_a_run_that_is_used_again_before_its_turn_to_expire_goes_on():
    engine = Engine()
    for number in range(100):
        engine.serve(f"q{number}", f"r{number}")
    engine.step(after_s=400)
    engine.arrive("again", "r99")
    for _ in range(5):
        engine.step()

    assert [run.run_id for run in engine.controller.runs] == ["r99"]
    assert engine.controller.runs.get("r99").useful_kvtt == 100


def test_runs_that_the_service_ends_together_are_closed_a_few_in_each_step():
    engine = Engine()
    for number in range(120):
        engine.serve(f"q{number}", f"r{number}")
    engine.tell(ended_run_ids={f"r{n}": None for n in range(120)})
    left = []
    for _ in range(4):
        engine.step()
        left.append(len(engine.controller.runs))

    assert left == [70, 20, 0, 0]


def test_an_ended_id_that_comes_back_before_its_turn_is_a_new_run():
    engine = Engine()
    for number in range(120):
        engine.serve(f"q{number}", f"r{number}")
    engine.tell(ended_run_ids={f"r{n}": None for n in range(120)})
    engine.step()
    old = engine.controller.runs.get("r119")
    engine.arrive("again", "r119")
    for _ in range(3):
        engine.step()

    assert old.is_closed
    assert [run.useful_kvtt for run in engine.controller.runs] == [0]


def test_a_tag_after_an_end_keeps_the_run():
    engine = Engine()
    for number in range(120):
        engine.serve(f"q{number}", f"r{number}")
    engine.tell(ended_run_ids={f"r{n}": None for n in range(120)})
    engine.step()
    engine.tell(tags={"r119": tag("r119", 5)})
    for _ in range(4):
        engine.step()

    assert [run.run_id for run in engine.controller.runs] == ["r119"]


def test_the_tag_of_an_idle_run_counts_when_the_run_goes_on():
    engine = Engine()
    engine.serve("q", "r")
    before = engine.controller.policy.key(engine.controller.inference("other"))
    engine.tell(tags={"r": tag("r", 7, sequence=3)})
    engine.step()
    assert engine.hello().known_runs[0].virtual_finish.ticks == "7"
    engine.arrive("q2", "r")

    assert engine.controller.policy.key(engine.controller.inference("q2")) == (7, 3) != before


# -- while the service is away ---------------------------------------------------------------------


def test_runs_that_came_and_went_while_the_service_was_away_are_folded_into_totals():
    engine = Engine()
    engine.serve("kept", "r", kvtt=7)
    num_singles = MAX_UNHEARD + 3000
    for number in range(num_singles):
        engine.serve(f"q{number}")
    book = engine.controller.runs
    assert len(book.changed) <= MAX_UNHEARD + 1

    engine.hello()
    reports = engine.reports()
    closed = {run_id for report in reports for run_id in report.closed_run_ids}
    useful = {run.run_id: run.useful_kvtt for report in reports for run in report.runs}

    assert len(closed) + book.unowned_kvtt[0] // 100 == num_singles
    assert sum(useful.values()) + reports[-1].unowned_useful_kvtt == 100 * num_singles + 7
    assert useful["r"] == 7
    assert engine.hello().unowned_useful_kvtt == reports[-1].unowned_useful_kvtt
    assert book._num_kept == book._num_taken


def test_nothing_is_lost_or_counted_twice_while_the_sessions_thread_reads(monkeypatch):
    """A service that reads now and then, and comes back with a Hello in between."""
    monkeypatch.setattr("justitia.vllm_plugin.run_book.MAX_UNHEARD", 20)
    before_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    engine, said, is_over = Engine(), [], threading.Event()

    def read():
        while not is_over.is_set():
            if len(said) % 7 == 0:
                engine.hello()
            said.extend(engine.reports())
            is_over.wait(0.002)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for number in range(4000):
            engine.serve(f"q{number}", kvtt=100)
    finally:
        is_over.set()
        reader.join()
        sys.setswitchinterval(before_s)
    said.extend(engine.reports())
    useful = {run.run_id: run.useful_kvtt for report in said for run in report.runs}
    finished = [inference.run_id for report in said for inference in report.finished]
    closed = {run_id for report in said for run_id in report.closed_run_ids}
    unowned_kvtt, _ = engine.controller.runs.unowned_kvtt

    assert sum(useful.values()) + unowned_kvtt == 400_000
    assert unowned_kvtt > 0
    assert len(useful) > 100
    assert sorted(finished) == sorted(useful)
    assert closed == set(useful)


def test_a_run_that_the_service_knows_is_never_folded():
    engine = Engine()
    engine.serve("known", "r")
    engine.hello()
    for number in range(MAX_UNHEARD + 10):
        engine.serve(f"q{number}")
    engine.tell(ended_run_ids={"r": None})
    engine.step()

    assert "r" in {run_id for report in engine.reports() for run_id in report.closed_run_ids}


def test_a_run_is_reported_together_with_its_finished_inferences():
    engine = Engine()
    for number in range(2500):
        engine.serve(f"q{number}", "many" if number % 2 else f"r{number}")
    reports = engine.reports()

    for report in reports:
        listed = {run.run_id for run in report.runs}
        assert {inference.run_id for inference in report.finished} <= listed
        assert len(report.runs) <= 2000
        assert len(report.finished) <= 2000
        assert len(listed) == len(report.runs)
    assert sum(len(report.finished) for report in reports) == 2500


def test_a_quick_run_is_closed_a_report_after_it_was_announced_and_holds_nobody_up():
    engine = Engine()
    for number in range(3):
        engine.serve(f"q{number}")
    first, second = engine.reports()

    assert [run.run_id for run in first.new_runs] == ["q0", "q1", "q2"]
    assert [inference.run_id for inference in first.finished] == ["q0", "q1", "q2"]
    assert list(first.closed_run_ids) == []
    assert list(second.closed_run_ids) == ["q0", "q1", "q2"]


def test_finished_inferences_that_wait_are_bounded(monkeypatch):
    monkeypatch.setattr("justitia.vllm_plugin.run_book.MAX_FINISHED", 10)
    engine = Engine()
    for number in range(15):
        engine.serve(f"q{number}", "r")
    run = engine.controller.runs.get("r")
    assert (len(run.finished), run.num_lost_finished) == (10, 5)
    engine.reports()
    engine.serve("later", "r")

    assert len(engine.reports()[0].finished) == 1


def test_the_service_is_told_of_which_runs_finished_inferences_are_lost(monkeypatch):
    monkeypatch.setattr("justitia.vllm_plugin.run_book.MAX_FINISHED", 10)
    engine = Engine()
    for number in range(10):
        engine.serve(f"q{number}", "whole")
    for number in range(3):
        engine.serve(f"p{number}", "partly")

    lost = {run.run_id: run.num_lost_finished for run in engine.reports()[0].runs}
    assert lost == {"whole": 0, "partly": 3}

    engine.serve("later", "partly")
    assert [run.num_lost_finished for run in engine.reports()[0].runs] == [3]


def test_an_engine_on_its_own_keeps_nothing_for_a_service():
    engine = Engine(Settings())
    for number in range(100):
        engine.serve(f"q{number}", "r" if number % 2 else "")

    assert len(engine.controller.runs.changed) == 0
    assert engine.controller.runs.get("r").finished == []


def test_a_known_run_says_whether_it_ends_when_idle():
    engine = Engine()
    engine.arrive("single")
    engine.arrive("q", "r")

    known = {run.run_id: run for run in engine.hello().known_runs}

    assert {run_id: run.ends_when_idle for run_id, run in known.items()} == {
        "single": True,
        "r": False,
    }
    assert known["r"].prompt_tokens == 100


def test_a_known_run_says_what_was_estimated_and_what_was_learned():
    engine = Engine(Settings(scheduler_address="x:1", policy="srjf"))
    engine.arrive("q", "r")
    engine.tell(tags={"r": replace(tag("r", 7), learned_kvtt=77)})
    engine.step()

    (known,) = engine.hello().known_runs
    assert (known.estimate.cost_kvtt, known.learned_kvtt) == (1000, 77)
    # What counts here is what was learned.
    assert engine.controller.policy.key(engine.controller.inference("q"))[0] == 77
    assert engine.controller.local._pool.run("r").estimate.cost_kvtt == 77


# -- mode and weights ------------------------------------------------------------------------------


@pytest.mark.parametrize("pool_is_shadow", [True, False])
@pytest.mark.parametrize("mode", ["shadow", "enforce"])
def test_an_engines_own_shadow_mode_stays_and_an_enforcing_one_follows_the_pool(
    mode, pool_is_shadow
):
    engine = Engine(Settings(mode=mode, scheduler_address="x:1"))
    engine.tell(is_shadow=pool_is_shadow)
    engine.step()

    assert engine.controller.is_stock_order is (mode == "shadow" or pool_is_shadow)


def test_weights_of_applications_that_are_not_listed_any_more_are_dropped():
    engine = Engine(Settings(scheduler_address="x:1", weights="mine=3", policy="justitia"))
    engine.tell(weights={"default": 1.0, "gone": 4.0})
    engine.tell(weights={"default": 2.0})
    engine.step()
    engine.tell(tags={})
    engine.step()
    for application in ("mine", "gone", "default"):
        engine.arrive(application, f"run-{application}", application)
    finish = {
        name: engine.controller.policy.key(engine.controller.inference(name))[0]
        for name in ("mine", "gone", "default")
    }

    assert 3 * finish["mine"] == pytest.approx(finish["gone"])
    assert 2 * finish["default"] == pytest.approx(finish["gone"])


# -- names -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "inference_id",
    [
        pytest.param("chatcmpl-" + "x" * 300, id="long"),
        pytest.param("chatcmpl-\n\x00", id="unprintable"),
        pytest.param("chatcmpl-\ud800", id="half a character"),
        pytest.param(" ", id="blank"),
    ],
)
def test_an_inference_without_identity_whose_id_is_no_name_still_has_a_run(inference_id):
    engine = Engine()
    engine.serve(inference_id)
    (report, _) = engine.reports()
    (new,) = report.new_runs

    assert 1 <= len(new.run_id) <= MAX_ID_CHARS
    assert new.run_id.isprintable()
    assert not new.run_id.isspace()
    assert report.runs[0].run_id == new.run_id
    assert report.runs[0].useful_kvtt == 100


def test_copies_of_one_request_with_a_long_id_are_one_run():
    engine = Engine()
    for copy in range(3):
        engine.arrive(f"{copy}_cmpl-" + "x" * 300)

    assert [run.num_waiting for run in engine.controller.runs] == [3]


# -- times -----------------------------------------------------------------------------------------


def test_queueing_after_a_preemption_does_not_count_as_computing():
    engine = Engine()
    inference = engine.arrive("q", "r")
    engine.now_s = 5.0
    engine.controller.admitted(inference, 0)
    engine.now_s = 6.0
    engine.controller.preempted(inference)
    engine.now_s = 66.0
    engine.controller.admitted(inference, 0)
    engine.now_s = 67.5
    engine.controller.ended("q", is_aborted=False)
    engine.now_s = 70.0
    (finished,) = engine.reports()[0].finished

    assert finished.computed_s == 2.5
    ages_s = (finished.arrived_age_s, finished.started_age_s, finished.finished_age_s)
    assert ages_s == (70.0, 65.0, 2.5)


def test_an_inference_that_never_ran_computed_nothing():
    engine = Engine()
    engine.arrive("q", "r")
    engine.now_s = 5.0
    engine.controller.ended("q", is_aborted=True)
    (finished,) = engine.reports()[0].finished

    assert (finished.computed_s, finished.started_age_s) == (0.0, 0.0)
