"""Act in a small text world, turn by turn: find a thing and put it where it belongs."""

import random
from dataclasses import dataclass, field

from agentkit import Llm, Task, draw_on_shelf, last_number, main

APPLICATION = "alfworld-interaction"

_PLACES = ("kitchen", "hall", "bedroom", "study", "garden", "cellar", "attic")
_THINGS = ("apple", "book", "lamp", "mug", "key", "plate", "cloth")
_SYSTEM = "You play a text game. Answer with the number of one action."


def make_task(seed: int) -> Task:
    return draw_on_shelf(seed, _draw_task)


def _draw_task(rng: random.Random) -> Task:
    places = tuple(rng.sample(_PLACES, rng.randint(2, 5)))  # a row of rooms
    thing = rng.choice(_THINGS)
    source, goal = rng.sample(range(len(places)), 2)
    # The user sees the house and the wish, not where the thing lies.
    prompt = f"The rooms in a row: {', '.join(places)}. Bring the {thing} to the {places[goal]}."
    return Task(prompt=prompt, parts=places, question=f"{thing} {source} {goal}")


@dataclass
class _World:
    places: tuple[str, ...]
    thing: str
    thing_at: int
    goal: int
    at: int = 0
    holds: bool = False
    tried: set[tuple[int, bool, str]] = field(default_factory=set)

    @property
    def is_solved(self) -> bool:
        return self.thing_at == self.goal and not self.holds

    def actions(self) -> list[str]:
        near = [i for i in (self.at - 1, self.at + 1) if 0 <= i < len(self.places)]
        moves = [f"go to the {self.places[i]}" for i in near]
        if self.holds:
            return [*moves, f"put the {self.thing} down"]
        return [*moves, f"take the {self.thing}"] if self.thing_at == self.at else moves

    def act(self, action: str) -> str:
        self.tried.add((self.at, self.holds, action))
        if action.startswith("go"):
            self.at = self.places.index(action.removeprefix("go to the "))
            self.thing_at = self.at if self.holds else self.thing_at
            sees = self.thing if self.thing_at == self.at and not self.holds else "nothing new"
            return f"You are in the {self.places[self.at]} and see {sees}."
        self.holds = action.startswith("take")
        self.tried.clear()  # what led nowhere before may help now
        return "You hold it." if self.holds else "It lies on the floor."


async def run(llm: Llm, task: Task) -> str:
    thing, source, goal = task.question.split()
    world = _World(task.parts, thing, int(source), int(goal))
    history = [f"You are in the {world.places[0]}."]
    for _ in range(2 * len(world.places) + 2):
        if world.is_solved:
            break
        actions = world.actions()
        listing = "\n".join(f"{i}. {action}" for i, action in enumerate(actions, 1))
        reply = await llm.chat(
            f"{task.prompt}\n" + "\n".join(history) + f"\nActions:\n{listing}\nYour action:",
            max_tokens=4,
            stage="act",
            system=_SYSTEM,
        )
        action = _choose(reply, actions, world)
        history.append(f"> {action}\n{world.act(action)}")
    outcome = "done" if world.is_solved else "given up"
    return "\n".join([*history, f"=> {outcome} after {len(history) - 1} turns"])


def _choose(reply: str, actions: list[str], world: _World) -> str:
    """Read the action out of the reply; a repeated or unreadable one gives way to an untried."""
    number = last_number(reply)
    named = [action for action in actions if action in reply]
    numbered = actions[int(number) - 1 :][:1] if number and 1 <= number <= len(actions) else []
    fresh = [a for a in actions if (world.at, world.holds, a) not in world.tried]
    fallback = sorted(fresh, key=lambda a: ("take", "go", "put").index(a.split()[0]))
    wished = (named or numbered)[:1]
    return next((a for a in [*wished, *fallback] if a in fresh), (wished or actions)[0])


if __name__ == "__main__":
    main(APPLICATION, make_task, run)
