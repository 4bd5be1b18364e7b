"""The same runs of the same agents on the same real engine, under one policy after another."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from openai import AsyncOpenAI

from justitia.client import AsyncClient, SchedulerError, connect, connect_async
from justitia.local.agents import Agent
from justitia.local.declare import declare
from justitia.local.engine import MODEL_NAME, EngineServer, EngineSettings
from justitia.local.processes import free_port
from justitia.local.records import RunRecord
from justitia.local.results import PolicyOutcome, run_key
from justitia.local.service import SchedulerService
from justitia.local.workload import Workload, play
from justitia.resources.reading import Resource

DEFAULT_POLICIES: Final = ("fcfs", "vtc", "justitia")
_SETTLE_S: Final = 3.0
_POLL_S: Final = 0.1


class Progress(Protocol):
    """Where a comparison tells how far it is."""

    def phase(self, policy: str, what: str) -> None:
        """Tell what goes on under a policy."""

    def done(self, policy: str, num_done: int, num_all: int) -> None:
        """Tell how many runs have ended."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ComparisonSettings:
    """What is compared. ``engine`` makes settings for (policy, service address, port, log)."""

    policies: Sequence[str] = DEFAULT_POLICIES
    workload: Workload
    agents: Mapping[str, Agent]
    manifests: Sequence[Resource]
    models: Mapping[str, bytes]
    engine: Callable[[str, str, int, Path], EngineSettings]
    conditions: str
    log_dir: Path


async def compare(
    settings: ComparisonSettings,
    progress: Progress,
    on_outcome: Callable[[PolicyOutcome], None] = lambda _outcome: None,
) -> list[PolicyOutcome]:
    """Play the workload under each policy, each on a fresh service and a fresh engine.

    ``on_outcome`` receives each policy's outcome as soon as it is there: what is kept there stays,
    whatever ends the rest.
    """
    outcomes = []
    for policy in settings.policies:
        outcomes.append(await _play_under(policy, settings, progress))
        on_outcome(outcomes[-1])
    return outcomes


async def _play_under(
    policy: str, settings: ComparisonSettings, progress: Progress
) -> PolicyOutcome:
    progress.phase(policy, "starting the scheduler service and vLLM")
    async with running_stack(policy, settings) as (engine, client):
        progress.phase(policy, "warming up")
        await _warm_up(engine)
        progress.phase(policy, "playing")
        clock = asyncio.get_running_loop().time
        started_s, calls = clock(), _RunCalls(client)
        records = await play(
            settings.workload,
            base_url=engine.settings.base_url,
            model=MODEL_NAME,
            agents=settings.agents,
            hooks=calls,
            on_progress=lambda done, total: progress.done(policy, done, total),
        )
        duration_s = clock() - started_s
        ratios = await fair_ratios(records, calls.pool_by_run, client)
        return await _gather_outcome(policy, records, ratios, duration_s, engine)


@contextlib.asynccontextmanager
async def running_stack(
    policy: str, settings: ComparisonSettings
) -> AsyncIterator[tuple[EngineServer, AsyncClient]]:
    """Run the scheduler service with the applications and models, and one engine, until the end."""
    service = SchedulerService(log_path=settings.log_dir / f"scheduler-{policy}.log")
    async with service, connect_async(service.address) as client:
        with connect(service.address) as admin:
            declare(admin, settings.manifests)
            for application, artefact in settings.models.items():
                admin.publish_model(application, artefact)
        log_path = settings.log_dir / f"vllm-{policy}.log"
        async with EngineServer(
            settings.engine(policy, service.address, free_port(), log_path)
        ) as engine:
            yield engine, client


class _RunCalls:
    """Says StartRun and EndRun for each run, as an agent that knows Justitia would."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client
        self.pool_by_run: dict[str, str] = {}

    async def on_start(self, run_id: str, application: str, prompt: str) -> None:
        run = await self._client.start_run(run_id=run_id, application=application, prompt=prompt)
        self.pool_by_run[run_id] = run.pool

    async def on_end(self, run_id: str) -> None:
        await self._client.end_run(run_id, pool=self.pool_by_run.get(run_id, ""))


async def _warm_up(engine: EngineServer) -> None:
    """Let the first-request costs (kernels, tokenizer, template) fall outside the measurement."""
    async with AsyncOpenAI(base_url=engine.settings.base_url, api_key="none") as openai:
        await asyncio.gather(
            *(
                openai.chat.completions.create(
                    model=MODEL_NAME,
                    messages=[{"role": "user", "content": f"Count to {n}."}],
                    max_tokens=16,
                )
                for n in range(4)
            )
        )


async def _gather_outcome(
    policy: str,
    records: Sequence[RunRecord],
    ratio_by_run: Mapping[tuple[str, int], float],
    duration_s: float,
    engine: EngineServer,
) -> PolicyOutcome:
    with connect(engine.settings.scheduler_address) as admin:
        pool = admin.describe_pool()
    vllm = await engine.metrics()
    return PolicyOutcome(
        policy=policy,
        records=tuple(records),
        ratio_by_run=ratio_by_run,
        preemptions=int(vllm.get("vllm:num_preemptions_total", 0)),
        useful_kvtt=pool.useful_kvtt,
        wasted_kvtt=pool.wasted_kvtt,
        duration_s=duration_s,
    )


async def fair_ratios(
    records: Sequence[RunRecord], pool_by_run: Mapping[str, str], client: AsyncClient
) -> dict[tuple[str, int], float]:
    """Fetch each run's fair ratio, for ``_SETTLE_S``; it settles when the last reports are in.

    A run that the service cannot tell of has none: what was played is worth more than its loss.
    """
    ratios: dict[tuple[str, int], float] = {}
    waiting = [r for r in records if r.error is None]
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_SETTLE_S):
            while waiting:
                for record in waiting:
                    with contextlib.suppress(SchedulerError):
                        pool = pool_by_run.get(record.run_id, "")
                        run = await client.get_run(record.run_id, pool=pool)
                        if run.HasField("fairness_ratio"):
                            ratios[run_key(record)] = run.fairness_ratio
                waiting = [r for r in waiting if run_key(r) not in ratios]
                await asyncio.sleep(_POLL_S)
    return ratios
