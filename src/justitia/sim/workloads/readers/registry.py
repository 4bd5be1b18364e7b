"""The formats that can be read, what each declares, and the way from a file to a scenario."""

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Final

from justitia.core.errors import InvalidValueError, shown
from justitia.sim.scenario import ApplicationPlan, RunPlan, Scenario, in_order
from justitia.sim.workloads.arrivals import Poisson, scaled
from justitia.sim.workloads.readers.aiperf import read_aiperf
from justitia.sim.workloads.readers.chats import read_chats, read_prompts
from justitia.sim.workloads.readers.csv_requests import read_azure, read_burstgpt
from justitia.sim.workloads.readers.files import find_files
from justitia.sim.workloads.readers.mooncake import read_mooncake
from justitia.sim.workloads.readers.options import IdScope, ReadOptions, RunIs, TimeUnit
from justitia.sim.workloads.readers.reading import BadRow, Reading
from justitia.sim.workloads.readers.sessions import Session, runs_of, with_pauses_up_to
from justitia.sim.workloads.readers.tracelab import read_tracelab
from justitia.sim.workloads.readers.weka import read_weka
from justitia.sim.workloads.readers.weka_csv import read_weka_csv


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """A format and what it declares; None: it has none.

    ``run_is``: what a run is unless an option says otherwise. ``times``: what its times are where
    they have no unit. ``source`` documents the format.
    """

    name: str
    about: str
    source: str
    read: Callable[[Reading, Iterable[Path]], Iterator[Session]]
    suffixes: tuple[str, ...] = (".jsonl",)
    times: str = ""
    time_unit: TimeUnit | None = None
    block_size_tokens: int | None = None
    id_scope: IdScope | None = None
    run_is: RunIs = RunIs.REQUEST


FORMATS: Final = {
    each.name: each
    for each in (
        Format(
            name="mooncake",
            about="Mooncake's JSONL: requests with ids of prefix blocks",
            source="github.com/kvcache-ai/Mooncake",
            read=read_mooncake,
            time_unit=TimeUnit.MILLISECONDS,
            block_size_tokens=512,
            id_scope=IdScope.GLOBAL,
        ),
        Format(
            name="azure",
            about="Azure's LLM inference traces of 2023 and 2024, CSV",
            source="github.com/Azure/AzurePublicDataset",
            read=read_azure,
            suffixes=(".csv",),
            times="dates",
        ),
        Format(
            name="burstgpt",
            about="BurstGPT, CSV",
            source="github.com/HPMLL/BurstGPT",
            read=read_burstgpt,
            suffixes=(".csv",),
            time_unit=TimeUnit.SECONDS,
        ),
        Format(
            name="weka",
            about="coding agents' sessions of Weka's kv-cache-tester, a JSON file each",
            source="github.com/callanjfox/kv-cache-tester",
            read=read_weka,
            suffixes=(".json",),
            time_unit=TimeUnit.SECONDS,
            id_scope=IdScope.FILE,
            run_is=RunIs.TURN,
        ),
        Format(
            name="weka-csv",
            about="the same as one CSV, a row a request",
            source="derived from github.com/callanjfox/kv-cache-tester",
            read=read_weka_csv,
            suffixes=(".csv",),
            time_unit=TimeUnit.SECONDS,
            block_size_tokens=64,
            run_is=RunIs.TURN,
        ),
        Format(
            name="tracelab",
            about="coding agents' sessions of TraceLab, JSONL, a row a call",
            source="github.com/uw-syfi/TraceLab",
            read=read_tracelab,
            times="dates",
            run_is=RunIs.TURN,
        ),
        Format(
            name="sharegpt",
            about="conversations as text, JSON or JSONL",
            source="docs.vllm.ai, benchmarking",
            read=read_chats,
            suffixes=(".json", ".jsonl"),
            times="none",
            run_is=RunIs.TURN,
        ),
        Format(
            name="vllm-bench",
            about="prompts of vLLM's custom data set, JSONL",
            source="docs.vllm.ai, benchmarking",
            read=read_prompts,
            times="none",
        ),
        Format(
            name="aiperf",
            about="inputs of NVIDIA's AIPerf, JSONL",
            source="docs.nvidia.com/aiperf",
            read=read_aiperf,
            time_unit=TimeUnit.MILLISECONDS,
            block_size_tokens=512,
            id_scope=IdScope.GLOBAL,
            run_is=RunIs.TURN,
        ),
    )
}
"""Formats by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """A scenario and how it came about; ``lines`` writes the latter out."""

    scenario: Scenario
    format_name: str
    declared: tuple[str, ...]
    num_files: int
    num_rows: int
    num_failed: int
    num_bad: int
    bad_rows: tuple[BadRow, ...]
    notes: tuple[str, ...]

    def lines(self) -> list[str]:
        """Write out what was assumed and what was left out."""
        shown_bad = [f"bad row: {row}" for row in self.bad_rows[:5]]
        return [
            f"format         {self.format_name}; {'; '.join(self.declared)}",
            f"read           {self.num_rows:,} rows of {self.num_files:,} files",
            f"left out       {self.num_bad:,} bad rows, {self.num_failed:,} failed requests",
            *shown_bad,
            *(f"note: {note}" for note in self.notes),
        ]


def read_trace(format_name: str, path: Path, options: ReadOptions | None = None) -> Imported:
    """Read a file, or the files of a folder, as a scenario.

    Raises:
        InvalidValueError: there is no such format or file, an option is missing that the file
            needs, or nothing usable is in it.
    """
    options = options or ReadOptions()
    chosen = _format(format_name)
    paths = find_files(path, chosen.suffixes)
    reading = Reading(
        options=options,
        format_name=chosen.name,
        run_is=options.run_is or chosen.run_is,
        time_unit=options.time_unit or chosen.time_unit,
        block_size_tokens=options.block_size_tokens or chosen.block_size_tokens,
        id_scope=options.id_scope or chosen.id_scope,
    )
    runs = list(islice(_runs(reading, chosen.read(reading, paths)), options.max_runs))
    if not runs:
        first = f"; the first bad one: {reading.bad_rows[0]}" if reading.bad_rows else ""
        raise InvalidValueError(
            str(path), f"holds nothing usable in {reading.num_rows} rows{first}"
        )
    runs = _arranged(runs, options, is_scaled=not reading.has_drawn_times)
    return Imported(
        scenario=Scenario(
            engines=options.engines,
            runs=in_order(runs),
            applications=tuple(
                ApplicationPlan(name=name) for name in sorted({run.application for run in runs})
            ),
            seed=options.seed,
            about=f"{path.name}, {chosen.name}: a run is a {reading.run_is.value}",
        ),
        format_name=chosen.name,
        declared=tuple(_declared(reading, chosen)),
        num_files=len(paths),
        num_rows=reading.num_rows,
        num_failed=reading.num_failed,
        num_bad=reading.num_bad,
        bad_rows=tuple(reading.bad_rows),
        notes=tuple(reading.notes),
    )


def _format(name: str) -> Format:
    if name not in FORMATS:
        raise InvalidValueError("format", f"must be one of {', '.join(FORMATS)}; got {shown(name)}")
    return FORMATS[name]


def _runs(reading: Reading, sessions: Iterable[Session]) -> Iterator[RunPlan]:
    """Cut sessions into runs; those without a time of their own get one in the window."""
    options = reading.options
    seen: Counter[str] = Counter()
    for found in sessions:
        seen[found.name] += 1
        times = seen[found.name]
        session = found if times == 1 else replace(found, name=f"{found.name}#{times}")
        begins_at_s = session.begins_at_s
        if begins_at_s is None:
            begins_at_s = _drawn_time_s(reading, session.name)
        yield from runs_of(
            with_pauses_up_to(session, options.max_pause_s),
            reading.run_is,
            begins_at_s=begins_at_s,
            application=options.application or reading.format_name,
        )


def _drawn_time_s(reading: Reading, session_name: str) -> float:
    window_s = reading.options.window_s
    if window_s is None:
        raise InvalidValueError(
            "window_s", "must be given: the file does not tell when its sessions began"
        )
    reading.has_drawn_times = True
    reading.note(f"sessions begin at times drawn evenly from {window_s:g} s")
    rng = random.Random(f"{reading.options.seed}/{session_name}")  # noqa: S311 - repeatable
    return Poisson().times_s(rng, 1, window_s)[0]


def _arranged(runs: list[RunPlan], options: ReadOptions, *, is_scaled: bool) -> list[RunPlan]:
    """Spread buckets, begin at 0, and scale to the window where that was asked for."""
    rng = random.Random(f"{options.seed}/buckets")  # noqa: S311 - repeatable
    jittered_s = [run.arrival_s + options.bucket_s * rng.random() for run in runs]
    order = sorted(range(len(runs)), key=jittered_s.__getitem__)
    times_s = [jittered_s[place] for place in order]
    if options.window_s is None or not is_scaled:
        arrivals_s = [at - times_s[0] for at in times_s]
    else:
        arrivals_s = scaled(times_s, options.window_s)
    return [
        replace(runs[place], arrival_s=round(at, 6))
        for place, at in zip(order, arrivals_s, strict=True)
    ]


def _declared(reading: Reading, chosen: Format) -> Iterator[str]:
    yield f"a run is a {reading.run_is.value}"
    unit = reading.time_unit
    yield f"times: {chosen.times}" if unit is None else f"times in {unit.value}"
    if reading.block_size_tokens is not None:
        yield f"blocks of {reading.block_size_tokens} tokens"
    if reading.id_scope is not None:
        yield f"ids valid {'everywhere' if reading.id_scope is IdScope.GLOBAL else 'in a file'}"
    if reading.options.chars_per_token is not None:
        yield f"{reading.options.chars_per_token:g} characters a token"
