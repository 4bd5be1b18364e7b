"""The engine's session against a scheduler service in the same process, over a real channel."""

import socket
import threading
import time
from concurrent import futures

import grpc
import pytest

from justitia.api.v1 import common_pb2, engine_pb2, engine_pb2_grpc
from justitia.core.engines import EngineAccount, EngineReport, RunReport
from justitia.vllm_plugin import wire
from justitia.vllm_plugin.controller import EngineController
from justitia.vllm_plugin.facts import EngineLimits
from justitia.vllm_plugin.identity import Identity
from justitia.vllm_plugin.kv_blocks import KvLayout
from justitia.vllm_plugin.session import EngineSession
from justitia.vllm_plugin.settings import Settings
from justitia.vllm_plugin.wire import EngineFacts

FACTS = EngineFacts(
    engine_id="e-0",
    incarnation="one",
    kv_blocks=459,
    block_size_tokens=16,
    vllm_version="0.32.0",
    model="tiny",
)
LIMITS = EngineLimits(
    kv_capacity_tokens=7344, step_budget_tokens=2048, max_model_len_tokens=4096, max_num_seqs=64
)


class Service(engine_pb2_grpc.EngineServiceServicer):
    """A scheduler service that tags every new run by its number and remembers what it heard."""

    def __init__(self, *, is_silent=False):
        self.hellos = []
        self.reports = []
        self.report_times_s = []
        self.is_silent = is_silent
        self.tags = {}
        self.num_streams = 0
        self.changed = threading.Condition()
        self.stop = threading.Event()

    def Session(self, requests, context):  # noqa: N802
        self.num_streams += 1
        context.add_callback(self.stop.set)
        if not self.is_silent:
            yield engine_pb2.EngineDirective(
                mode=common_pb2.POOL_MODE_ENFORCE,
                virtual_time=common_pb2.VirtualTime(ticks="1000"),
                default_cost_kvtt=77,
            )
        for message in requests:
            new = self.take(message)
            if new and not self.is_silent:
                yield engine_pb2.EngineDirective(tags=[self.tag(run) for run in new])

    def take(self, message):
        with self.changed:
            if message.HasField("hello"):
                self.hellos.append(message.hello)
                new = [k for k in message.hello.known_runs if not k.HasField("virtual_finish")]
            else:
                self.reports.append(message.report)
                self.report_times_s.append(time.monotonic())
                new = message.report.new_runs
            self.changed.notify_all()
            return list(new)

    def tag(self, run):
        number = self.tags.setdefault(run.run_id, len(self.tags) + 1)
        return engine_pb2.Tag(
            run_id=run.run_id,
            virtual_finish=common_pb2.VirtualTime(ticks=str(number * 2**70)),
            arrival_sequence=number,
            estimate=common_pb2.Estimate(cost_kvtt=5, source=1),
            weight=1.0,
        )

    def wait_for(self, condition, timeout_s=10.0):
        with self.changed:
            assert self.changed.wait_for(lambda: condition(self), timeout_s)


@pytest.fixture
def serve():
    """Start a service on a port, by default a free one."""
    servers = []

    def start(service, port=0):
        server = grpc.server(futures.ThreadPoolExecutor(8), options=[("grpc.so_reuseport", 0)])
        engine_pb2_grpc.add_EngineServiceServicer_to_server(service, server)
        bound = server.add_insecure_port(f"127.0.0.1:{port}")
        assert bound
        server.start()
        servers.append(server)
        return server, bound

    yield start
    for server in servers:
        server.stop(0).wait()


@pytest.fixture
def connect():
    """Make a controller with a session."""
    sessions = []

    def start(port, **settings):
        settings.setdefault("run_idle_timeout_s", 1000.0)
        controller = EngineController(
            Settings(scheduler_address=f"127.0.0.1:{port}", **settings),
            KvLayout(16),
            LIMITS,
            time.monotonic,
        )
        session = EngineSession(controller, FACTS)
        controller.kick = session.kick
        session.start()
        sessions.append(session)
        return controller, session

    yield start
    for session in sessions:
        session.close()


def wait_until(condition, timeout_s=10.0):
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(0.005)


def arrive(controller, inference_id, run_id, application=""):
    return controller.arrive(
        inference_id, Identity(run_id, application), prompt_tokens=100, max_output_tokens=10
    )


def serve_once(controller, inference, computed_tokens):
    controller.begin_step()
    if not inference.is_running:
        controller.admitted(inference, 0)
        controller.ledger.blocks.extend(inference.holding, [range(1, 20)])
    controller.charge_step([(inference, computed_tokens)])


def test_the_engine_introduces_itself_and_reports_without_any_step(serve, connect):
    service = Service()
    _, port = serve(service)
    connect(port, pool="llama", policy="vtc")

    service.wait_for(lambda s: len(s.reports) >= 1)

    hello = service.hellos[0]
    assert (hello.pool, hello.engine_id, hello.incarnation) == ("llama", "e-0", "one")
    assert (hello.kv_blocks, hello.block_size_tokens) == (459, 16)
    assert (hello.max_num_seqs, hello.policy, hello.model) == (64, "vtc", "tiny")
    assert not hello.HasField("last_virtual_time")


def test_a_new_run_is_announced_at_once_and_its_tag_takes_effect_in_the_next_step(serve, connect):
    service = Service()
    _, port = serve(service)
    controller, _ = connect(port, report_period_s=5.0)
    wait_until(lambda: controller.inbox._waiting is not None)
    arrive(controller, "q", "r", "app")
    local_key = controller.policy.key(controller.inference("q"))

    wait_until(lambda: "r" in (controller.inbox._waiting.tags if controller.inbox._waiting else ()))
    assert controller.policy.key(controller.inference("q")) == local_key
    controller.begin_step()

    assert controller.policy.key(controller.inference("q")) == (2**70, 1)
    assert controller.service_value == 1000
    new = next(n for r in service.reports for n in r.new_runs)
    assert (new.run_id, new.application, new.prompt_tokens) == ("r", "app", 100)


def test_counters_are_totals_and_finished_inferences_come_once(serve, connect):
    service = Service()
    _, port = serve(service)
    controller, _ = connect(port)
    inference = arrive(controller, "q", "r")
    for computed in (100, 101, 102):
        serve_once(controller, inference, computed)
    controller.charge_output([(inference, 3)])
    controller.ended("q", is_aborted=False)

    service.wait_for(lambda s: any(r.finished for r in s.reports))
    finished = [f for r in service.reports for f in r.finished]
    progress = [p for r in service.reports for p in r.runs if p.run_id == "r"]

    assert [(f.run_id, f.prompt_tokens, f.output_tokens) for f in finished] == [("r", 100, 3)]
    assert finished[0].useful_kvtt == 303
    assert finished[0].arrived_age_s >= finished[0].started_age_s >= finished[0].finished_age_s >= 0
    assert [p.useful_kvtt for p in progress] == sorted(p.useful_kvtt for p in progress)
    assert (progress[-1].useful_kvtt, progress[-1].num_running) == (303, 0)
    assert [r.sequence for r in service.reports] == sorted({r.sequence for r in service.reports})


def test_a_run_that_ends_is_closed_after_its_last_counters(serve, connect):
    service = Service()
    _, port = serve(service)
    controller, _ = connect(port)
    inference = arrive(controller, "q", "")
    serve_once(controller, inference, 100)
    controller.ended("q", is_aborted=False)

    service.wait_for(lambda s: any(r.closed_run_ids for r in s.reports))
    closing = next(r for r in service.reports if r.closed_run_ids)

    assert list(closing.closed_run_ids) == ["q"]
    assert closing.runs[0].useful_kvtt == 100
    assert service.reports[-1].unidentified_inferences == 1


def test_reports_keep_to_their_rate(serve, connect):
    service = Service()
    _, port = serve(service)
    controller, session = connect(port)
    inference = arrive(controller, "q", "r")
    begin_s = time.monotonic()
    computed = 100
    while time.monotonic() < begin_s + 0.5:
        computed += 1
        serve_once(controller, inference, computed)
        session.kick()  # far too often
        time.sleep(0.001)

    assert 5 <= session.num_reports <= 30


def test_the_service_comes_back_and_hears_what_happened_meanwhile(serve, connect):
    first = Service()
    server, port = serve(first)
    controller, session = connect(port)
    inference = arrive(controller, "q", "r", "app")
    serve_once(controller, inference, 100)
    wait_until(lambda: "r" in (controller.inbox._waiting.tags if controller.inbox._waiting else ()))
    controller.begin_step()
    server.stop(0).wait()
    wait_until(lambda: not session.is_connected)

    serve_once(controller, inference, 101)
    arrive(controller, "q2", "late")
    assert controller.policy.key(controller.inference("q2"))[0] > 1000  # a local tag, after V
    second = Service()
    serve(second, port)
    second.wait_for(lambda s: s.reports)

    known = {k.run_id: k for k in second.hellos[0].known_runs}
    assert known["r"].useful_kvtt == 201
    assert known["r"].virtual_finish.ticks == str(2**70)
    assert known["r"].estimate.cost_kvtt == 5
    assert not known["late"].HasField("virtual_finish")
    assert second.hellos[0].last_virtual_time.ticks == "1000"
    wait_until(
        lambda: "late" in (controller.inbox._waiting.tags if controller.inbox._waiting else ())
    )


def test_what_a_broken_stream_swallowed_is_made_up_by_the_totals():
    """Reports may be lost: the account that hears only every other one ends up the same."""
    whole = EngineAccount("e", "one", 100)
    gappy = EngineAccount("e", "one", 100)
    delivered = 0
    for number in range(1, 11):
        report = EngineReport("e", "one", number, number, (RunReport("r", 10 * number),))
        whole.accept(report)
        if number % 2 == 0:
            delivered += gappy.accept(report).useful_kvtt_by_run["r"]

    assert delivered == whole.useful_kvtt_by_run["r"] == 100


def test_many_runs_are_introduced_in_several_messages():
    controller = EngineController(
        Settings(scheduler_address="x:1"), KvLayout(16), LIMITS, time.monotonic
    )
    for number in range(wire.MAX_RUNS_PER_HELLO * 2 + 1):
        arrive(controller, f"q{number}", f"r{number}")

    hellos = [m.hello for m in wire.hellos(controller, FACTS, time.monotonic())]

    assert [len(h.known_runs) for h in hellos] == [5000, 5000, 1]
    assert [h.more_follows for h in hellos] == [True, True, False]


def test_a_report_is_bounded_and_the_rest_follows():
    controller = EngineController(
        Settings(scheduler_address="x:1"), KvLayout(16), LIMITS, time.monotonic
    )
    for number in range(4500):
        arrive(controller, f"q{number}", f"r{number}")
        controller.ended(f"q{number}", is_aborted=True)

    sizes = []
    while wire.has_more(controller):
        report = wire.report(controller, 1, time.monotonic(), is_due=False).report
        sizes.append((len(report.runs), len(report.finished)))

    assert sizes == [(2000, 2000), (2000, 2000), (500, 500)]


def test_a_run_that_is_closed_and_comes_back_never_shares_a_report_with_itself():
    controller = EngineController(
        Settings(scheduler_address="x:1"), KvLayout(16), LIMITS, time.monotonic
    )
    serve_once(controller, arrive(controller, "q", "r"), 100)
    controller._end_run("r", 0.0)
    controller.ended("q", is_aborted=False)
    arrive(controller, "q2", "r")

    said = []
    while wire.has_more(controller):
        report = wire.report(controller, 1, time.monotonic(), is_due=False).report
        new = [run.run_id for run in report.new_runs]
        said.append(([p.useful_kvtt for p in report.runs], new, list(report.closed_run_ids)))

    assert said == [([100], ["r"], []), ([100], [], ["r"]), ([0], ["r"], [])]


def test_one_bad_part_of_a_directive_is_refused_alone():
    tag = engine_pb2.Tag(run_id="good", virtual_finish=common_pb2.VirtualTime(ticks="5"))
    message = engine_pb2.EngineDirective(
        tags=[
            engine_pb2.Tag(run_id="", virtual_finish=common_pb2.VirtualTime(ticks="5")),
            engine_pb2.Tag(run_id="a", virtual_finish=common_pb2.VirtualTime(ticks="-5")),
            engine_pb2.Tag(run_id="b", virtual_finish=common_pb2.VirtualTime(ticks="9" * 101)),
            engine_pb2.Tag(run_id="c"),
            engine_pb2.Tag(run_id="d", virtual_finish=tag.virtual_finish, learned_kvtt=-1),
            tag,
        ],
        weights=[
            engine_pb2.ApplicationWeight(application="x", weight=float("nan")),
            engine_pb2.ApplicationWeight(application="y", weight=2.0),
        ],
        virtual_time=common_pb2.VirtualTime(ticks="soon"),
    )

    directive = wire.read_directive(message, 0.0)

    assert list(directive.tags) == ["good"]
    assert directive.weights == {"y": 2.0}
    assert directive.value is None
    assert directive.num_refused == 7


def test_a_start_below_zero_is_read_after_a_weight_was_lowered():
    tag = engine_pb2.Tag(
        run_id="r",
        virtual_finish=common_pb2.VirtualTime(ticks="7"),
        virtual_start=common_pb2.VirtualTime(ticks="-5"),
    )

    directive = wire.read_directive(engine_pb2.EngineDirective(tags=[tag]), 0.0)

    assert (directive.tags["r"].start, directive.tags["r"].finish) == (-5, 7)
    assert directive.num_refused == 0


# -- closing -----------------------------------------------------------------------------------


def close_s(session):
    begin_s = time.monotonic()
    session.close()
    return time.monotonic() - begin_s


def test_closing_is_fast_with_the_service_up(serve, connect):
    service = Service()
    _, port = serve(service)
    _, session = connect(port)
    service.wait_for(lambda s: s.reports)

    assert close_s(session) < 0.5
    assert service.stop.wait(5)


def test_closing_is_fast_with_the_service_refusing(connect):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        _, session = connect(probe.getsockname()[1])
        time.sleep(0.3)

        assert close_s(session) < 0.5


def test_closing_is_fast_with_a_service_that_accepts_and_says_nothing(connect):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        _, session = connect(listener.getsockname()[1])
        time.sleep(0.3)

        assert close_s(session) < 0.5


def test_closing_is_fast_with_a_service_that_never_answers(serve, connect):
    service = Service(is_silent=True)
    _, port = serve(service)
    _, session = connect(port)
    service.wait_for(lambda s: s.reports)

    assert close_s(session) < 0.5


def test_a_service_that_is_away_is_complained_about_once(connect, caplog):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        connect(probe.getsockname()[1])
        wait_until(lambda: caplog.messages)
        time.sleep(0.8)

    assert len([m for m in caplog.messages if "is away" in m]) == 1
