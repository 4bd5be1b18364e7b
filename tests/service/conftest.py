import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import grpc
import pytest

from justitia.api.v1 import (
    admin_pb2,
    admin_pb2_grpc,
    engine_pb2,
    engine_pb2_grpc,
    run_pb2,
    run_pb2_grpc,
    training_pb2,
    training_pb2_grpc,
)
from justitia.core.errors import UnknownRunError
from justitia.predictor import artefact
from justitia_scheduler.clocks import Clocks
from justitia_scheduler.pools import PoolOptions
from justitia_scheduler.server import GrpcServer
from justitia_scheduler.service import SchedulerService
from justitia_scheduler.sqlite_store import SqliteStore


@dataclass
class ManualClock:
    """Time that moves when a test says so; wall and monotonic time apart."""

    now_s: float = 1000.0
    wall_offset_s: float = 1_700_000_000.0

    def clocks(self) -> Clocks:
        return Clocks(
            monotonic_s=lambda: self.now_s, wall_s=lambda: self.now_s + self.wall_offset_s
        )

    def advance(self, by_s: float) -> None:
        self.now_s += by_s


@dataclass
class FakeEngine:
    """The engine's end of a session: cumulative counters and lists, as the plugin reports them."""

    stub: engine_pb2_grpc.EngineServiceStub
    engine_id: str = "engine-0"
    incarnation: str = "start-1"
    sequence: int = 0
    steps: int = 0
    tags: dict = field(default_factory=dict)
    ended: list = field(default_factory=list)
    directives: list = field(default_factory=list)
    weights: dict = field(default_factory=dict)
    mode: int = 0
    last_ticks: int = 0

    def hello(self, *, known=(), pool="default", more_follows=False):
        value = None
        if self.last_ticks:
            value = {"ticks": str(self.last_ticks)}
        return engine_pb2.EngineMessage(
            hello=engine_pb2.Hello(
                pool=pool,
                engine_id=self.engine_id,
                incarnation=self.incarnation,
                kv_blocks=1000,
                block_size_tokens=16,
                known_runs=known,
                last_virtual_time=value,
                more_follows=more_follows,
                steps=self.steps,
            )
        )

    async def join(self, *, known=(), pool="default"):
        self.call = self.stub.Session()
        await self.call.write(self.hello(known=known, pool=pool))
        await self.hear()

    async def hear(self):
        """Read one directive."""
        directive = await asyncio.wait_for(self.call.read(), 5)
        assert directive is not grpc.aio.EOF, await self.call.details()
        self.directives.append(directive)
        for tag in directive.tags:
            self.tags[tag.run_id] = tag
        self.ended.extend(directive.ended_run_ids)
        self.weights.update({item.application: item.weight for item in directive.weights})
        self.mode = directive.mode or self.mode
        ticks = int(directive.virtual_time.ticks)
        assert ticks >= self.last_ticks, "V went back"
        self.last_ticks = ticks
        return directive

    async def status(self):
        """Read what is left of a session that ends: before, gRPC tells no status."""
        with contextlib.suppress(grpc.aio.AioRpcError):
            while await asyncio.wait_for(self.call.read(), 5) is not grpc.aio.EOF:
                pass
        return await self.call.code()

    async def hear_tag(self, run_id):
        while run_id not in self.tags:
            await self.hear()
        return self.tags[run_id]

    async def report(self, *runs, finished=(), new=(), closed=(), **totals):
        self.sequence += 1
        self.steps += 1
        message = engine_pb2.Report(
            sequence=self.sequence,
            steps=self.steps,
            runs=[
                progress if not isinstance(progress, dict) else engine_pb2.RunProgress(**progress)
                for progress in runs
            ],
            finished=finished,
            new_runs=new,
            closed_run_ids=closed,
            **totals,
        )
        await self.call.write(engine_pb2.EngineMessage(report=message))


def done(run_id, *, age_s=0.0, computed_s=0.5, waited_s=0.5, is_aborted=False):
    """A finished inference."""
    return engine_pb2.FinishedInference(
        run_id=run_id,
        prompt_tokens=10,
        output_tokens=5,
        is_aborted=is_aborted,
        finished_age_s=age_s,
        started_age_s=age_s + computed_s,
        arrived_age_s=age_s + computed_s + waited_s,
    )


@dataclass
class Bench:
    """A whole service in this process, with stubs and hands on its clock."""

    service: SchedulerService
    clock: ManualClock
    server: GrpcServer
    channel: grpc.aio.Channel

    def __post_init__(self):
        self.runs = run_pb2_grpc.RunServiceStub(self.channel)
        self.admin = admin_pb2_grpc.AdminServiceStub(self.channel)
        self.training = training_pb2_grpc.TrainingServiceStub(self.channel)

    @property
    def pool(self):
        return self.service.parts("default").pool

    def engine(self, **kwargs) -> FakeEngine:
        return FakeEngine(engine_pb2_grpc.EngineServiceStub(self.channel), **kwargs)

    async def declare(self, name, **fields):
        request = admin_pb2.ApplyApplicationRequest(
            application=admin_pb2.Application(name=name, **fields)
        )
        return await self.admin.ApplyApplication(request)

    async def publish(self, model, **fields):
        request = training_pb2.PublishModelRequest(
            application=model.application, artefact=artefact.to_bytes(model), **fields
        )
        return await self.training.PublishModel(request)

    async def start(self, run_id="", application="", **fields):
        request = run_pb2.StartRunRequest(run_id=run_id, application=application, **fields)
        return await self.runs.StartRun(request)

    async def end(self, run_id):
        return await self.runs.EndRun(run_pb2.EndRunRequest(run_id=run_id), timeout=5)

    async def end_after_grace(self, run_id):
        """End an idle run while engines are connected that have nothing more to report."""
        ending = asyncio.ensure_future(self.end(run_id))
        await self.until(lambda: self.pool.facts[run_id].ending is not None)
        self.clock.advance(0.1)
        return await ending

    async def get(self, run_id):
        return await self.runs.GetRun(run_pb2.GetRunRequest(run_id=run_id))

    async def describe(self):
        return await self.admin.DescribePool(admin_pb2.DescribePoolRequest())

    async def until(self, condition):
        """Let the service work until something is so; fails after 5 s of real time.

        What is said of a run that is not there is not so, yet.
        """
        async with asyncio.timeout(5):
            while True:
                with contextlib.suppress(UnknownRunError):
                    if condition():
                        return
                await asyncio.sleep(0.001)

    def metric(self, name, **labels):
        return self.service.metrics.registry.get_sample_value(name, labels or None)


async def open_bench(path=None, *, clock=None, **pool_options) -> Bench:
    clock = clock or ManualClock()
    service = SchedulerService(
        SqliteStore(path), pool_options=PoolOptions(**pool_options), clocks=clock.clocks()
    )
    await service.start()
    server = GrpcServer(service)
    port = await server.start("127.0.0.1:0")
    return Bench(service, clock, server, grpc.aio.insecure_channel(f"127.0.0.1:{port}"))


async def close_bench(bench: Bench) -> None:
    await bench.channel.close()
    await bench.server.drain(0)
    await bench.service.stop()


async def crash_bench(bench: Bench) -> None:
    """End a service without its last words: nothing is flushed, as with kill -9."""
    await bench.channel.close()
    for task in bench.service._tasks:
        task.cancel()
    await asyncio.gather(*bench.service._tasks, return_exceptions=True)
    await bench.service.journal.call(bench.service._store.close)
    bench.service.sessions.close_all()
    await bench.server._server.stop(0)


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    bench = await open_bench()
    yield bench
    await close_bench(bench)


@pytest.fixture
def open_service():
    return open_bench


@pytest.fixture
def close_service():
    return close_bench


@pytest.fixture
def crash_service():
    return crash_bench


@pytest.fixture
def finished():
    return done


@pytest.fixture
def manual_clock():
    return ManualClock
