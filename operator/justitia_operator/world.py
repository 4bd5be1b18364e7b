"""What the watches have said so far, and whether they still say anything.

A watch that died without a word looks like a cluster in which nothing happens. So what is here is
compared now and then with a listing: what goes on differing in the same way was missed, the watch
of that kind is deaf, and what it missed is put right from the listing.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from justitia_operator.facts import (
    ApplicationFacts,
    JobFacts,
    Key,
    Kind,
    PoolObject,
    ProfileFacts,
)
from justitia_operator.gather import Body, Facts, key_of, read_object

Version = tuple[str, str]

#: So long a watch may take to deliver, reconnecting included.
DEAF_S: Final = 15.0


@dataclass(frozen=True, slots=True)
class _Seen:
    facts: Facts
    version: Version


class World:
    """The objects of all watched kinds, as facts. Used in one event loop."""

    def __init__(self) -> None:
        self._objects: dict[Kind, dict[Key, _Seen]] = {kind: {} for kind in Kind}
        #: What a listing showed that no watch has told, and since when it does.
        self._suspects: dict[Kind, dict[Key, tuple[Version | None, float]]] = {}
        self._deaf: set[Kind] = set()

    # -- feeding -----------------------------------------------------------------------------------

    def put(self, kind: Kind, body: Body) -> tuple[Facts | None, Facts]:
        """Take in an object; returns what was known of it before, and now."""
        objects, key = self._objects[kind], key_of(body)
        before = objects.get(key)
        facts = read_object(kind, body)
        objects[key] = _Seen(facts, _version(body))
        return None if before is None else before.facts, facts

    def drop(self, kind: Kind, key: Key) -> Facts | None:
        """Forget an object that is gone; returns what was known of it."""
        seen = self._objects[kind].pop(key, None)
        return None if seen is None else seen.facts

    def heard(self, kind: Kind) -> None:
        """Note that the watch of a kind delivered something."""
        self._deaf.discard(kind)

    # -- comparing ---------------------------------------------------------------------------------

    def missed(self, kind: Kind, listed: Mapping[Key, Version], now_s: float) -> list[Key]:
        """Compare with a listing; returns the objects whose change was missed.

        A difference that is not ``DEAF_S`` old yet is a watch that is about to deliver.
        """
        objects = self._objects[kind]
        differing = {
            key: listed.get(key)
            for key in {*objects, *listed}
            if listed.get(key) != (objects[key].version if key in objects else None)
        }
        before = self._suspects.get(kind, {})
        suspects = {
            key: before[key] if key in before and before[key][0] == seen else (seen, now_s)
            for key, seen in differing.items()
        }
        self._suspects[kind] = suspects
        missed = [key for key, (_, since_s) in suspects.items() if now_s - since_s >= DEAF_S]
        if missed:
            self._deaf.add(kind)
        return sorted(missed)

    @property
    def deaf(self) -> frozenset[Kind]:
        """Kinds whose watch has missed changes and has not been heard of since."""
        return frozenset(self._deaf)

    # -- reading -----------------------------------------------------------------------------------

    def application(self, key: Key) -> ApplicationFacts | None:
        """Look up an application."""
        facts = self._get(Kind.APPLICATION, key)
        return facts if isinstance(facts, ApplicationFacts) else None

    def profile(self, key: Key) -> ProfileFacts | None:
        """Look up a profile."""
        facts = self._get(Kind.PROFILE, key)
        return facts if isinstance(facts, ProfileFacts) else None

    def pool(self, key: Key) -> PoolObject | None:
        """Look up a pool's Service."""
        facts = self._get(Kind.SERVICE, key)
        return facts if isinstance(facts, PoolObject) else None

    def applications(self) -> Iterator[ApplicationFacts]:
        """All applications."""
        return self._all(Kind.APPLICATION)

    def profiles(self) -> Iterator[ProfileFacts]:
        """All profiles."""
        return self._all(Kind.PROFILE)

    def jobs(self) -> Iterator[JobFacts]:
        """All training Jobs of ours."""
        return self._all(Kind.JOB)

    def has_all(self, kind: Kind, listed: Mapping[Key, Version]) -> bool:
        """Whether every listed object has been heard of, in whatever version."""
        return listed.keys() <= self._objects[kind].keys()

    def count(self, kind: Kind) -> int:
        """How many objects of a kind there are."""
        return len(self._objects[kind])

    def _get(self, kind: Kind, key: Key) -> Facts | None:
        seen = self._objects[kind].get(key)
        return None if seen is None else seen.facts

    def _all(self, kind: Kind) -> Iterator[Any]:
        return iter([seen.facts for seen in self._objects[kind].values()])


def _version(body: Body) -> Version:
    metadata = body.get("metadata") or {}
    return str(metadata.get("uid") or ""), str(metadata.get("resourceVersion") or "")
