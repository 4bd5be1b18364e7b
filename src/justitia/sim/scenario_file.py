"""Reading and writing scenarios as JSON lines; the format is documented in docs/simulator.md.

Line by line in both directions: what is held in memory is the scenario itself.
"""

import gzip
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, Final, TextIO

from justitia.core.errors import InvalidValueError, shown
from justitia.core.units import parse_weight
from justitia.sim.scenario import (
    ApplicationPlan,
    EnginePlan,
    InferencePlan,
    RunPlan,
    Scenario,
    Segment,
)

VERSION: Final = 1
_VERSION_KEY: Final = "justitia_scenario"


class ScenarioFileError(InvalidValueError):
    """A scenario file is refused; the message names the file, the line and the field."""


def write_scenario(path: Path, scenario: Scenario) -> None:
    """Write a scenario; compressed if the name ends in ".gz"."""
    with _opened(path, "wt") as file:
        _put(file, _header(scenario))
        for run in scenario.runs:
            _put(file, _run_line(run, scenario.engine_of_run.get(run.id)))


def read_scenario(path: Path) -> Scenario:
    """Read a scenario.

    Raises:
        ScenarioFileError: it is not one; the message names the line and the field.
        OSError: the file cannot be read.
    """
    with _opened(path, "rt") as file:
        lines = _objects(path, file)
        header = _Object(path, 1, next(lines, (1, {}))[1])
        if header.get(_VERSION_KEY, int) != VERSION:
            raise header.error(_VERSION_KEY, f"must be {VERSION}: this is no scenario file")
        engines = tuple(_engine(each) for each in header.objects("engines"))
        applications = tuple(_application(each) for each in header.objects("applications", ()))
        seed, about = header.get("seed", int, 0), header.get("about", str, "")
        header.end()
        pinned: dict[str, int] = {}
        runs = tuple(_run(_Object(path, number, line), pinned) for number, line in lines)
    return Scenario(
        engines=engines,
        runs=runs,
        applications=applications,
        seed=seed,
        about=about,
        engine_of_run=pinned,
    )


# -- writing ----------------------------------------------------


@contextmanager
def _opened(path: Path, mode: str) -> Iterator[TextIO]:
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, mode, encoding="utf-8") as file:
        yield file  # type: ignore[misc] # opened as text in both cases


def _put(file: TextIO, line: dict[str, Any]) -> None:
    file.write(json.dumps(line, ensure_ascii=False, separators=(",", ":")))
    file.write("\n")


def _header(scenario: Scenario) -> dict[str, Any]:
    return {
        _VERSION_KEY: VERSION,
        "engines": [asdict(engine) for engine in scenario.engines],
        "applications": [asdict(each) for each in scenario.applications],
        "seed": scenario.seed,
        "about": scenario.about,
    }


def _run_line(run: RunPlan, engine: int | None) -> dict[str, Any]:
    line: dict[str, Any] = {"id": run.id, "app": run.application, "at": run.arrival_s}
    if run.text:
        line["text"] = run.text
    if run.size_class:
        line["size"] = run.size_class
    if run.priority:
        line["priority"] = run.priority
    if engine is not None:
        line["engine"] = engine
    line["calls"] = [
        _call(inference, f"{run.id}/{place}") for place, inference in enumerate(run.inferences)
    ]
    return line


def _call(inference: InferencePlan, own_stream: str) -> dict[str, Any]:
    prompt = inference.prompt
    is_own = len(prompt) == 1 and prompt[0].stream == own_stream
    call: dict[str, Any] = {
        "p": prompt[0].tokens if is_own else [[s.stream, s.tokens] for s in prompt],
        "d": inference.output_tokens,
    }
    if inference.after:
        call["after"] = list(inference.after)
    if inference.pause_s:
        call["pause"] = inference.pause_s
    if inference.output_stream:
        call["out"] = inference.output_stream
    return call


# -- reading ----------------------------------------------------


class _Object:
    """One JSON object of a line; every complaint names the line and the field."""

    def __init__(self, path: Path, number: int, values: object, prefix: str = "") -> None:
        self._path = path
        self._number = number
        self._prefix = prefix
        if not isinstance(values, dict):
            raise self.error("", f"must be a JSON object, got {shown(values)}")
        self._values = dict(values)

    def error(self, field: str, problem: str) -> ScenarioFileError:
        """Make a complaint."""
        name = f"{self._prefix}{field}" if field else self._prefix.rstrip(".")
        where = f"{self._path}: line {self._number}"
        return ScenarioFileError(f"{where}: {name}" if name else where, problem)

    def get(self, field: str, kind: type | tuple[type, ...], default: Any = None) -> Any:
        """Take a field out; without a default it must be there."""
        value = self._values.pop(field, default)
        if value is None:
            raise self.error(field, "is missing")
        if isinstance(value, bool) or not isinstance(value, kind):
            raise self.error(field, f"has the wrong type: {shown(value)}")
        return value

    def flag(self, field: str, *, default: bool) -> bool:
        """Take out a field that is true or false."""
        value = self._values.pop(field, default)
        if not isinstance(value, bool):
            raise self.error(field, f"must be true or false, got {shown(value)}")
        return value

    def objects(self, field: str, default: Any = None) -> "list[_Object]":
        """Take out a list of objects."""
        values = self.get(field, (list, tuple), default)
        return [
            _Object(self._path, self._number, each, f"{self._prefix}{field}[{place}].")
            for place, each in enumerate(values)
        ]

    def has(self, field: str) -> bool:
        """Whether a field is there."""
        return field in self._values

    def end(self) -> None:
        """Complain of what nobody has asked for."""
        for field in self._values:
            raise self.error(field, "is unknown")

    def build(self, make: Callable[[], Any]) -> Any:
        """Make a value that may refuse what it is given."""
        try:
            return make()
        except InvalidValueError as error:
            raise self.error("", str(error)) from None


def _objects(path: Path, file: TextIO) -> Iterator[tuple[int, object]]:
    for number, text in enumerate(file, start=1):
        if not text.strip():
            continue
        try:
            yield number, json.loads(text)
        except (ValueError, RecursionError):
            raise ScenarioFileError(
                f"{path}: line {number}", f"is not JSON: {shown(text.strip())}"
            ) from None


#: Numbers of an engine and the least that they may be.
_LEAST: Final = {
    "blocks": 1,
    "block_size_tokens": 1,
    "max_num_seqs": 1,
    "max_num_batched_tokens": 1,
    "max_model_len_tokens": 1,
}


def _engine(given: _Object) -> EnginePlan:
    defaults = {item.name: item.default for item in fields(EnginePlan)}
    values: dict[str, Any] = {}
    for name, least in _LEAST.items():
        default = None if name == "blocks" else defaults[name]
        values[name] = given.get(name, int, default)
        if values[name] < least:
            raise given.error(name, f"must be at least {least}, got {values[name]}")
    values["watermark"] = float(given.get("watermark", (int, float), defaults["watermark"]))
    if not 0 <= values["watermark"] < 1:
        raise given.error("watermark", f"must be from 0 to below 1, got {values['watermark']}")
    values["has_prefix_cache"] = given.flag("has_prefix_cache", default=True)
    values["step_time"] = given.get("step_time", str, defaults["step_time"])
    given.end()
    return EnginePlan(**values)


def _application(given: _Object) -> ApplicationPlan:
    name = given.get("name", str)
    weight = given.get("weight", (int, float), 1.0)
    given.end()
    given.build(lambda: parse_weight(weight))
    return ApplicationPlan(name=name, weight=float(weight))


def _run(given: _Object, pinned: dict[str, int]) -> RunPlan:
    run_id = given.get("id", str)
    if given.has("engine"):
        pinned[run_id] = given.get("engine", int)
    application = given.get("app", str)
    at_s = float(given.get("at", (int, float)))
    text, size_class = given.get("text", str, ""), given.get("size", str, "")
    priority = given.get("priority", int, 0)
    calls = tuple(
        _inference(call, f"{run_id}/{place}") for place, call in enumerate(given.objects("calls"))
    )
    given.end()
    run: RunPlan = given.build(
        lambda: RunPlan(
            id=run_id,
            application=application,
            arrival_s=at_s,
            inferences=calls,
            text=text,
            size_class=size_class,
            priority=priority,
        )
    )
    return run


def _inference(given: _Object, own_stream: str) -> InferencePlan:
    prompt = given.get("p", (int, list))
    after = given.get("after", list, [])
    if not all(isinstance(place, int) and not isinstance(place, bool) for place in after):
        raise given.error("after", f"must list places of calls, got {shown(after)}")
    inference = InferencePlan(
        prompt=_prompt(given, prompt, own_stream),
        output_tokens=given.get("d", int),
        after=tuple(after),
        pause_s=float(given.get("pause", (int, float), 0.0)),
        output_stream=given.get("out", str, ""),
    )
    given.end()
    return inference


def _prompt(given: _Object, prompt: int | list[Any], own_stream: str) -> tuple[Segment, ...]:
    if isinstance(prompt, int):
        return (Segment(own_stream, prompt),)
    segments = []
    for pair in prompt:
        match pair:
            case [str() as stream, int() as tokens] if not isinstance(tokens, bool):
                segments.append(Segment(stream, tokens))
            case _:
                raise given.error("p", f"must list [stream, tokens], got {shown(pair)}")
    return tuple(segments)
