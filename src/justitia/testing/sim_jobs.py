"""What planted jobs do in worker processes: little, fail, die, or wait. Quick to import."""

import os
import signal
import threading
from pathlib import Path
from typing import Any

from justitia.sim.scenario import EnginePlan, InferencePlan, RunPlan, Scenario, Segment


def small_scenario(seed: int) -> Scenario:
    """Make an elephant and a mouse; the seed makes the elephant larger."""
    elephant = RunPlan(
        id="big",
        application="elephant",
        arrival_s=0.0,
        inferences=tuple(_inference(f"big/{n}", 10, 40) for n in range(10 + seed)),
    )
    mouse = RunPlan(
        id="small", application="mouse", arrival_s=0.01, inferences=(_inference("small", 4, 2),)
    )
    small_engine = EnginePlan(blocks=20, block_size_tokens=4)
    return Scenario(engines=(small_engine,), runs=(elephant, mouse), seed=seed)


def _inference(stream: str, prompt_tokens: int, output_tokens: int) -> InferencePlan:
    return InferencePlan(prompt=(Segment(stream, prompt_tokens),), output_tokens=output_tokens)


def number(value: Any) -> Any:
    """Come to what was given."""
    return value


def fail(message: str) -> None:
    """Raise."""
    raise RuntimeError(message)


def is_deaf_to_ctrl_c() -> bool:
    """Tell whether this process leaves Ctrl-C to the one that started it."""
    return signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def note(file: str, value: int) -> int:
    """Come to what was given, and leave a line in a file."""
    with Path(file).open("a", encoding="utf-8") as lines:
        lines.write(f"{value}\n")
    return value


def die_once(mark: str) -> str:
    """End the process that this runs in, the first time."""
    if Path(mark).exists():
        return "alive"
    Path(mark).touch()
    os._exit(3)


def die(number: int) -> None:
    """End the process that this runs in."""
    os._exit(number)


def wait_while_piped(pipe: str) -> str:
    """Write a byte into a named pipe and hold it open for ever; come back where there is none."""
    if not Path(pipe).exists():
        return "no pipe"
    with Path(pipe).open("wb", buffering=0) as held:
        held.write(b".")
        threading.Event().wait()
    return "never"
