"""Replays planned runs on the real service and a real vLLM, as clients of the product do.

A run says StartRun with or without a cost, sends its inferences under its headers, each as soon as
those that it waits for have ended, and says EndRun. Prompts are random tokens, so that they are as
long as planned and share nothing; the emulator ends an output at the length that it is told.
"""

import asyncio
import contextlib
import json
import random
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx
from workload import ENGINE, workload_of

from justitia.client import AsyncClient, connect, connect_async, run_headers
from justitia.local.agents import Agent
from justitia.local.comparison import fair_ratios
from justitia.local.declare import declare
from justitia.local.engine import MODEL_NAME, EngineServer, emulated_engine, sum_samples
from justitia.local.processes import free_port
from justitia.local.records import InferenceRecord
from justitia.local.service import SchedulerService
from justitia.local.workload import play
from justitia.resources.reading import read_resource
from justitia.sim.scenario import RunPlan

#: No special tokens below, and none above in the emulator's vocabulary of 4096.
TEXT_TOKENS = range(3, 4096)
MOVES = "justitia_run_reestimates_total"


@dataclass(frozen=True, slots=True)
class ReplayTask:
    """What a run is to do, and what its client says that it will cost; None: it says nothing."""

    plan: RunPlan
    declared_kvtt: float | None

    @property
    def prompt(self):
        """The recorded request."""
        return self.plan.text


class Replay:
    """The connection of one run."""

    def __init__(self, *, base_url, model, application, run_id=None, client=None):
        del base_url
        self.run_id, self.inferences = run_id, []
        self._client, self._model = client, model
        self._headers = run_headers(run_id, application)
        self._random = random.Random(run_id)

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        """The client is shared."""

    async def replay(self, plan):
        """Send all inferences and wait for them."""
        ends = [asyncio.Event() for _ in plan.inferences]
        async with asyncio.TaskGroup() as group:
            for place, inference in enumerate(plan.inferences):
                group.create_task(self._after_others(inference, ends, place))

    async def _after_others(self, inference, ends, place):
        for other in inference.after:
            await ends[other].wait()
        await asyncio.sleep(inference.pause_s)
        await self._infer(inference)
        ends[place].set()

    async def _infer(self, inference):
        now_s = asyncio.get_running_loop().time
        started_s = now_s()
        answer = await self._client.completions.create(
            model=self._model,
            prompt=self._random.choices(TEXT_TOKENS, k=inference.prompt_tokens),
            # All that the engine knows of an output's length before it ends.
            max_tokens=ENGINE.max_model_len_tokens - inference.prompt_tokens,
            extra_headers=self._headers,
            extra_body={"vllm_xargs": {"emulated_output_tokens": inference.output_tokens}},
        )
        used = answer.usage
        got = used.prompt_tokens, used.completion_tokens
        if got != (inference.prompt_tokens, inference.output_tokens):
            raise ValueError(f"{got} tokens where {inference} was planned")
        self.inferences.append(
            InferenceRecord(
                stage="",
                prompt_tokens=used.prompt_tokens,
                cached_tokens=0,
                output_tokens=used.completion_tokens,
                started_at_s=started_s,
                finished_at_s=now_s(),
            )
        )


class Replayer:
    """Agents of recorded applications that do what is planned; keeps the service's last words."""

    def __init__(self, scheduler: AsyncClient, scenario, declared_kvtt):
        self._scheduler = scheduler
        self._tasks = [
            ReplayTask(plan, cost_kvtt)
            for plan, cost_kvtt in zip(scenario.runs, declared_kvtt, strict=True)
        ]
        self.facts: dict[str, Any] = {}
        names = [application.name for application in scenario.applications]
        self.agents = {
            name: Agent(name, Replay, lambda number: self._tasks[number], self._run)
            for name in names
        }

    async def _run(self, llm, task):
        async with self._scheduler.run(
            run_id=llm.run_id,
            application=task.plan.application,
            prompt=task.prompt,
            cost_kvtt=task.declared_kvtt,
            is_required=True,
        ) as run:
            await llm.replay(task.plan)
        self.facts[llm.run_id] = run.facts
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """What came of a play; by place of the run in the scenario, of those that ended well.

    Times are the A100's: real ones by the pace.

    ``jct_s``: from its start to its last answer, as its client saw it. ``rho``: JCT by rule R1's
    reference of this very play, as the service says; a run that it has not settled has none.
    ``believed_kvtt``, ``true_kvtt``: the service's last estimate, and what the run took.
    ``moves``: how often an F has moved (rule K2). ``late_s``: how late the latest run came.
    """

    jct_s: dict[int, float]
    rho: dict[int, float]
    believed_kvtt: dict[int, float]
    true_kvtt: dict[int, float]
    errors: list[str] = field(default_factory=list)
    duration_s: float
    steps: int
    preemptions: int
    moves: int
    late_s: float

    def paced(self, pace):
        """Turn real times into the A100's."""
        return replace(
            self,
            jct_s={number: jct_s / pace for number, jct_s in self.jct_s.items()},
            duration_s=self.duration_s / pace,
            late_s=self.late_s / pace,
        )

    @property
    def step_s(self):
        """Time of the play by the number of its steps."""
        return self.duration_s / max(1, self.steps)


class Stack:
    """A running service and engine; ``pace``: see ``Size``."""

    def __init__(self, service, scheduler, engine, pace):
        self._service, self._scheduler, self._engine = service, scheduler, engine
        self._pace = pace

    async def play(self, scenario, declared_kvtt, on_progress=None):
        """Play a scenario's runs in real time."""
        replayer = Replayer(self._scheduler, scenario, declared_kvtt)
        workload = workload_of(scenario, self._pace)
        before = await self._counters()
        records = await play(
            workload,
            base_url=self._engine.settings.base_url,
            model=MODEL_NAME,
            agents=replayer.agents,
            on_progress=on_progress,
        )
        ratios = await fair_ratios(records, {}, self._scheduler)
        rho = {number: ratio for (_, number), ratio in ratios.items()}
        after = await self._counters()
        counted = {name: int(after[name] - before[name]) for name in before}
        return _played(workload, records, replayer.facts, rho, counted).paced(self._pace)

    async def _counters(self):
        """Totals of the service and of the engine so far."""
        with connect(self._service.address) as admin:
            engines = admin.describe_pool().engines
        async with httpx.AsyncClient(trust_env=False) as client:
            page = await client.get(f"http://{self._service.metrics_address}/metrics")
        return {
            "steps": sum(engine.steps for engine in engines),
            "preemptions": sum(engine.preemptions for engine in engines),
            "moves": sum_samples(page.text).get(MOVES, 0),
        }


def _played(workload, records, facts, rho, counted):
    ended = {each.task_seed: each for each in records if each.error is None}
    first_s = min(each.arrived_at_s for each in records)
    last_s = max(each.finished_at_s for each in records)
    late_s = max(
        each.arrived_at_s - workload.arrivals[each.task_seed].arrival_s for each in records
    )
    return Played(
        jct_s={number: seen_jct_s(each) for number, each in ended.items()},
        rho=rho,
        believed_kvtt={n: facts[each.run_id].estimate.cost_kvtt for n, each in ended.items()},
        true_kvtt={n: facts[each.run_id].useful_kvtt for n, each in ended.items()},
        errors=[each.error for each in records if each.error is not None],
        duration_s=last_s - first_s,
        late_s=late_s,
        **counted,
    )


def seen_jct_s(record):
    """From a run's start to its last answer; the record's own JCT has EndRun's wait in it."""
    return max(each.finished_at_s for each in record.inferences) - record.arrived_at_s


@contextlib.asynccontextmanager
async def running_stack(model_dir: Path, log_dir: Path, applications, *, pace, is_learning):
    """Run the service with these applications, and one engine, until the end.

    ``pace``: see ``Size``.
    """
    service = SchedulerService(
        log_path=log_dir / "scheduler.log",
        more_flags={"--learning": "on" if is_learning else "off"},
    )
    async with service, connect_async(service.address) as scheduler:
        with connect(service.address) as admin:
            declare(admin, [_manifest(name) for name in applications])
        settings = emulated_engine(
            model_dir,
            port=free_port(),
            log_path=log_dir / "vllm.log",
            scheduler_address=service.address,
            kv_blocks=ENGINE.blocks,
            block_size_tokens=ENGINE.block_size_tokens,
            max_num_seqs=ENGINE.max_num_seqs,
            max_num_batched_tokens=ENGINE.max_num_batched_tokens,
            max_model_len_tokens=ENGINE.max_model_len_tokens,
            more_env={"JUSTITIA_EMULATOR": json.dumps({"scale": pace})},
        )
        async with EngineServer(settings) as engine:
            yield Stack(service, scheduler, engine, pace)


def _manifest(name):
    return read_resource(
        {
            "apiVersion": "justitia.dev/v1alpha1",
            "kind": "LLMApplication",
            "metadata": {"name": name},
            "spec": {},
        }
    )
