"""Record what runs of the example agents cost: ``python -m justitia.local.recorder --help``.

Plays tasks of every agent against a server that is already up. Resumable: what an earlier call
recorded is kept, unless the agent makes another task of the seed by now.
"""

import argparse
import asyncio
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, SpinnerColumn, TimeElapsedColumn

from justitia.local.agents import Agent, load_agents
from justitia.local.datasheet import write_datasheet
from justitia.local.errors import LocalModeError
from justitia.local.recordings import (
    RecordedInference,
    RecordedRun,
    read_recordings,
    write_recordings,
)
from justitia.local.workload import FIRST_TASK_SEED, Arrival, Workload, play

RECORDINGS_PATH: Final = Path("examples/recordings/runs.jsonl.gz")
AGENTS_PATH: Final = Path("examples/agents")

_Key = tuple[str, int]  # application, task seed


@dataclass(frozen=True, slots=True, kw_only=True)
class RecorderSettings:
    """What is recorded, from which server, into which file."""

    base_url: str
    model: str
    agents_path: Path = AGENTS_PATH
    output_path: Path = RECORDINGS_PATH
    runs_per_application: int = 40
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
        LocalModeError: the agents or an earlier recording cannot be read, or runs failed; what
            succeeded is written all the same.
    """
    agents = load_agents(settings.agents_path)
    recording = _Recording(settings, agents, _read_earlier(settings, agents))
    try:
        await recording.record_missing(progress)
    finally:
        recording.write()
    return [recording.runs[key] for key in sorted(recording.runs)]


class _Recording:
    def __init__(
        self,
        settings: RecorderSettings,
        agents: Mapping[str, Agent],
        runs: dict[_Key, RecordedRun],
    ) -> None:
        self.runs = runs
        self._settings = settings
        self._agents = agents

    async def record_missing(self, progress: Progress) -> None:
        wanted = list(_wanted(self._settings, self._agents))
        missing = iter([key for key in wanted if key not in self.runs])
        bar = progress.add_task("recording", total=len(wanted), completed=len(self.runs))

        async def work() -> None:
            for key in missing:  # shared: each takes the next
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
                RecordedInference(i.stage, i.prompt_tokens, i.cached_tokens, i.output_tokens)
                for i in record.inferences
            ),
        )
        if len(self.runs) % 16 == 0:
            self.write()

    def write(self) -> None:
        if self.runs:
            path = self._settings.output_path
            write_recordings(path, self.runs.values())
            write_datasheet(path.with_name("README.md"), list(self.runs.values()))


def _wanted(settings: RecorderSettings, agents: Mapping[str, Agent]) -> Iterator[_Key]:
    """Give one run of each application in turn, so that a cut recording is a balanced one."""
    for index in range(settings.runs_per_application):
        for application in sorted(agents):
            yield application, settings.first_task_seed + index


def _read_earlier(
    settings: RecorderSettings, agents: Mapping[str, Agent]
) -> dict[_Key, RecordedRun]:
    if not settings.output_path.exists():
        return {}
    return {
        (run.application, run.task_seed): run
        for run in read_recordings(settings.output_path)
        if run.model == settings.model
        and run.application in agents
        and run.prompt == agents[run.application].task(run.task_seed).prompt
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Record from the command line; return the exit status."""
    console = Console(stderr=True)
    columns = (SpinnerColumn(), *Progress.get_default_columns(), MofNCompleteColumn())
    try:
        settings = _parse(arguments)
        with Progress(*columns, TimeElapsedColumn(), console=console) as progress:
            runs = asyncio.run(record(settings, progress))
    except LocalModeError as problem:
        console.print(f"[red]error:[/red] {problem}", highlight=False)
        return 1
    except KeyboardInterrupt:
        console.print("stopped; run the same command again to go on")
        return 130
    console.print(f"{len(runs)} runs in {settings.output_path}")
    return 0


def _parse(arguments: Sequence[str] | None) -> RecorderSettings:
    parser = argparse.ArgumentParser(
        prog="python -m justitia.local.recorder", description=(__doc__ or "").split("\n\n")[1]
    )
    parser.add_argument("--base-url", required=True, help="OpenAI address, as http://HOST:PORT/v1")
    parser.add_argument("--model", default="smollm2", help="name under which it is served")
    parser.add_argument("--agents", type=Path, default=AGENTS_PATH, help="folder of agents")
    parser.add_argument("--output", type=Path, default=RECORDINGS_PATH)
    parser.add_argument("--runs-per-application", type=int, default=40)
    parser.add_argument("--max-runs-at-once", type=int, default=8)
    parser.add_argument("--first-task-seed", type=int, default=0)
    options = parser.parse_args(arguments)
    return RecorderSettings(
        base_url=options.base_url,
        model=options.model,
        agents_path=options.agents,
        output_path=options.output,
        runs_per_application=options.runs_per_application,
        max_runs_at_once=options.max_runs_at_once,
        first_task_seed=options.first_task_seed,
    )


if __name__ == "__main__":
    sys.exit(main())
