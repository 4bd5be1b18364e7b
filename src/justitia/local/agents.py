"""Load agent programs from a folder by path, typed.

An agent is a Python file with ``APPLICATION``, ``make_task`` (of a seed) and ``run``; the folder's
``agentkit.py`` gives it the ``Llm`` that it talks through. Agents are programs of the user's own
and know nothing of Justitia's packages.
"""

import importlib.util
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Protocol, Self, cast

import openai

from justitia.local.errors import LocalModeError

_KIT = "agentkit"
_AGENT_ATTRIBUTES = ("APPLICATION", "make_task", "run")


class Task(Protocol):
    """One user request to an agent."""

    @property
    def prompt(self) -> str:
        """Everything that the user sends."""


class InferenceUsage(Protocol):
    """One finished inference, with times on the event loop's clock."""

    @property
    def stage(self) -> str:
        """The agent's own name of the step that asked."""

    @property
    def prompt_tokens(self) -> int:
        """Tokens of the prompt, cached ones included."""

    @property
    def cached_tokens(self) -> int:
        """Tokens of the prompt that the engine did not compute again."""

    @property
    def output_tokens(self) -> int:
        """Tokens generated."""

    @property
    def started_at_s(self) -> float:
        """When the agent asked."""

    @property
    def finished_at_s(self) -> float:
        """When the agent had the whole answer."""


class Llm(Protocol):
    """The agent's connection to the model, which counts what it is used for."""

    @property
    def inferences(self) -> Sequence[InferenceUsage]:
        """Finished inferences so far."""

    async def __aenter__(self) -> Self:
        """Open the connection."""

    async def __aexit__(self, *exc: object) -> None:
        """Close what it opened itself."""


class LlmFactory(Protocol):
    """Makes the connection of one run; ``client`` is shared and stays open."""

    def __call__(
        self,
        *,
        base_url: str,
        model: str,
        application: str,
        run_id: str | None = ...,
        client: openai.AsyncOpenAI | None = ...,
    ) -> Llm:
        """Make one."""


@dataclass(frozen=True, slots=True)
class Agent:
    """One kind of agent, and how to connect it."""

    application: str
    make_llm: LlmFactory
    make_task: Callable[[int], Task]
    run: Callable[[Llm, Task], Awaitable[str]]

    def task(self, task_seed: int) -> Task:
        """Make the task with this seed; equal seeds give equal tasks.

        Seeds on different shelves (`justitia.predictor.recordings.shelf_of`) share no text, as far
        as the agent keeps to that.
        """
        return self.make_task(task_seed)


def load_agents(folder: Path) -> dict[str, Agent]:
    """Load every agent of ``folder``, by application; files that define none are support modules.

    Raises:
        LocalModeError: the folder has no ``agentkit.py`` or no agents, a file does not load, or two
            agents claim one application.
    """
    if not (folder / f"{_KIT}.py").is_file():
        raise LocalModeError(f"{folder} has no {_KIT}.py. Name a folder like examples/agents.")
    make_llm = cast("LlmFactory", _load(folder, _KIT).Llm)
    agents: dict[str, Agent] = {}
    for path in sorted(folder.glob("*.py")):
        module = _load(folder, path.stem)
        if not all(hasattr(module, name) for name in _AGENT_ATTRIBUTES):
            continue
        agent = Agent(module.APPLICATION, make_llm, module.make_task, module.run)
        if agent.application in agents:
            raise LocalModeError(
                f"Two agents in {folder} are named {agent.application}. Rename APPLICATION in "
                f"{path.name}."
            )
        agents[agent.application] = agent
    if not agents:
        raise LocalModeError(f"{folder} holds no agents. Name a folder like examples/agents.")
    return agents


def _load(folder: Path, name: str) -> ModuleType:
    """Import ``name`` from ``folder``, which agents also import their support modules from."""
    loaded = sys.modules.get(name)
    path = folder.resolve() / f"{name}.py"
    if loaded is not None and getattr(loaded, "__file__", None) == str(path):
        return loaded
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and the agents' own imports look here
    sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        sys.modules.pop(name, None)
        raise LocalModeError(f"{path} does not load: {error!r}. Repair or remove it.") from error
    finally:
        sys.path.remove(str(path.parent))
    return module
