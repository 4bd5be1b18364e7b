"""Record what runs of agents cost: plays tasks of every agent against a server that is up.

Resumable: what an earlier call recorded is kept; where the agent makes another task of the seed by
now, that one takes its place once it is recorded. A file that holds anything else is refused. The
command is ``justitia record``.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.progress import Progress

from justitia.local.agents import Agent, load_agents
from justitia.local.datasheet import datasheet_path, is_foreign, write_datasheet
from justitia.local.errors import LocalModeError
from justitia.local.workload import FIRST_TASK_SEED, Arrival, Workload, play
from justitia.predictor.recordings import (
    RecordedInference,
    RecordedRun,
    Recordings,
    read_recordings,
    write_recordings,
)

RECORDINGS_PATH: Final = Path("examples/recordings/runs.jsonl.gz")
AGENTS_PATH: Final = Path("examples/agents")

_Key = tuple[str, int]  # application, task seed
_WRITE_EVERY_RUNS: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class RecorderSettings:
    """What is recorded, from which server, into which file."""

    base_url: str
    model: str
    agents_path: Path = AGENTS_PATH
    output_path: Path = RECORDINGS_PATH
    applications: tuple[str, ...] = ()  # none: all of the agents
    runs_per_application: int = 150
    max_runs_at_once: int = 8
    first_task_seed: int = 0

    def __post_init__(self) -> None:
        last_task_seed = self.first_task_seed + self.runs_per_application - 1
        if self.first_task_seed < 0 or last_task_seed >= FIRST_TASK_SEED:
            raise LocalModeError(
                f"Recordings use the task seeds 0 to {FIRST_TASK_SEED - 1}; {self.first_task_seed} "
                f"to {last_task_seed} leave them. Higher ones belong to the benchmarks."
            )


async def record(settings: RecorderSettings, progress: Progress) -> list[RecordedRun]:
    """Record what is missing, write it and its datasheet, and return everything, sorted.

    Cancelling it keeps what is recorded so far.

    Raises:
        LocalModeError: the agents or an earlier recording cannot be read, that is none of this
            model and these agents, or runs failed; what succeeded is written all the same.
    """
    agents = _agents(settings)
    recording = _Recording(settings, agents, _read_earlier(settings, agents))
    try:
        await recording.record_missing(progress)
    finally:
        recording.write()
    return [recording.runs[key] for key in sorted(recording.runs)]


def num_missing(settings: RecorderSettings) -> int:
    """Count the runs that are still to be recorded.

    Raises:
        LocalModeError: the agents or an earlier recording cannot be read, or that is none of this
            model and these agents.
    """
    agents = _agents(settings)
    there = _read_earlier(settings, agents)
    return sum(not _is_there(key, there, agents) for key in _wanted(settings, agents))


class _Recording:
    def __init__(
        self,
        settings: RecorderSettings,
        agents: Mapping[str, Agent],
        runs: dict[_Key, RecordedRun],
    ) -> None:
        self.runs = runs
        self._num_new = 0
        self._settings = settings
        self._agents = agents

    async def record_missing(self, progress: Progress) -> None:
        wanted = list(_wanted(self._settings, self._agents))
        missing = [key for key in wanted if not _is_there(key, self.runs, self._agents)]
        num_there = len(wanted) - len(missing)
        bar = progress.add_task("recording", total=len(wanted), completed=num_there)
        left = iter(missing)

        async def work() -> None:
            for key in left:  # shared: each takes the next
                await self._record_run(key)
                progress.advance(bar)

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(self._settings.max_runs_at_once):
                    group.create_task(work())
        except* LocalModeError as problems:
            raise problems.exceptions[0] from None

    async def _record_run(self, key: _Key) -> None:
        application, task_seed = key
        [record] = await play(
            Workload(0, 0.0, (Arrival(0.0, application, task_seed),)),
            base_url=self._settings.base_url,
            model=self._settings.model,
            agents=self._agents,
        )
        if record.error is not None:
            raise LocalModeError(
                f"A run of {application} (task seed {task_seed}) failed: {record.error}. Check "
                f"that {self._settings.base_url} serves the model {self._settings.model}, then "
                "run the same command again; it goes on where it stopped."
            )
        self.runs[key] = RecordedRun(
            application=application,
            task_seed=task_seed,
            model=self._settings.model,
            prompt=self._agents[application].task(task_seed).prompt,
            inferences=tuple(
                RecordedInference(
                    stage=i.stage,
                    prompt_tokens=i.prompt_tokens,
                    cached_tokens=i.cached_tokens,
                    output_tokens=i.output_tokens,
                )
                for i in record.inferences
            ),
        )
        self._num_new += 1
        if self._num_new % _WRITE_EVERY_RUNS == 0:
            self.write()

    def write(self) -> None:
        if self.runs:
            path = self._settings.output_path
            try:
                write_recordings(path, self.runs.values())
                write_datasheet(datasheet_path(path), list(self.runs.values()))
            except OSError as error:
                raise LocalModeError(
                    f"{path}: cannot be written ({error.strerror}); choose another with --output"
                ) from None


def _agents(settings: RecorderSettings) -> dict[str, Agent]:
    agents = load_agents(settings.agents_path)
    for name in settings.applications:
        if name not in agents:
            raise LocalModeError(
                f"{settings.agents_path} has no agent {name}; it has {', '.join(sorted(agents))}"
            )
    return agents


def _wanted(settings: RecorderSettings, agents: Mapping[str, Agent]) -> Iterator[_Key]:
    """Give one run of each application in turn, so that a cut recording is a balanced one."""
    for index in range(settings.runs_per_application):
        for application in sorted(settings.applications or agents):
            yield application, settings.first_task_seed + index


def _is_there(key: _Key, runs: Mapping[_Key, RecordedRun], agents: Mapping[str, Agent]) -> bool:
    """Whether a run is recorded, of the task that its agent makes of the seed by now."""
    application, task_seed = key
    return key in runs and runs[key].prompt == agents[application].task(task_seed).prompt


def _read_earlier(
    settings: RecorderSettings, agents: Mapping[str, Agent]
) -> dict[_Key, RecordedRun]:
    """Return what is there already: all of it, or the files are left alone: they are replaced."""
    path = settings.output_path
    page = datasheet_path(path)
    if is_foreign(page):
        raise LocalModeError(
            f"{page} is no datasheet of recorded runs and would become one; choose another folder"
            " with --output"
        )
    if not path.exists():
        return {}
    found = read_recordings(path)
    if found.bad_lines:
        bad = found.bad_lines[0]
        raise LocalModeError(
            f"{path}:{bad.number}: no recorded run: {bad.reason}. Restore the file, or remove it "
            "to record everything again"
        )
    runs = {(run.application, run.task_seed): run for run in found.runs}
    foreign = _foreign(settings, agents, found)
    if foreign is None and len(runs) < len(found.runs):
        foreign = f"{len(found.runs) - len(runs)} runs of the same application and task seed"
    if foreign is not None:
        raise LocalModeError(f"{path} holds {foreign}; choose another file with --output")
    return runs


def _foreign(
    settings: RecorderSettings, agents: Mapping[str, Agent], found: Recordings
) -> str | None:
    """Say what a file holds that cannot be kept; None: nothing."""
    if found.num_left_out:
        return f"{found.num_left_out} more runs than can be read at once"
    models = Counter(run.model for run in found.runs if run.model != settings.model)
    if models:
        [(model, count)] = models.most_common(1)
        return f"{count} runs of model {model}" if model else f"{count} runs that name no model"
    others = Counter(run.application for run in found.runs if run.application not in agents)
    if others:
        [(application, count)] = others.most_common(1)
        return f"{count} runs of {application}, which is no agent of {settings.agents_path}"
    return None
