"""Which share of the runs each type has."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from justitia.apportionment import by_largest_remainders
from justitia.core.errors import InvalidValueError, shown
from justitia.sim.workloads.kind import SizeClass
from justitia.sim.workloads.tables import KINDS


def _by_size(shares: Mapping[SizeClass, float]) -> dict[str, float]:
    """Divide each size's share equally among its types."""
    num = {size: sum(kind.size_class is size for kind in KINDS.values()) for size in SizeClass}
    return {kind.name: shares[kind.size_class] / num[kind.size_class] for kind in KINDS.values()}


MIXES: Final[Mapping[str, Mapping[str, float]]] = MappingProxyType(
    {
        # The paper does not tell its shares; equal ones assume least.
        "paper": MappingProxyType({name: 1 / len(KINDS) for name in KINDS}),
        # Small, medium and large as in Hermes (arXiv 2506.14851), which shares authors.
        "hermes": MappingProxyType(
            _by_size({SizeClass.SMALL: 0.72, SizeClass.MEDIUM: 0.26, SizeClass.LARGE: 0.02})
        ),
    }
)
"""Named mixes."""


def parse_mix(text: str) -> Mapping[str, float]:
    """Read the name of a mix, or shares such as ``self-consistency=3,document-merging=1``.

    Raises:
        InvalidValueError: no mix or type has such a name, or a share is no number >= 0.
    """
    if text in MIXES:
        return MIXES[text]
    shares: dict[str, float] = {}
    for part in text.split(","):
        name, equals, share = (word.strip() for word in part.partition("="))
        if not equals:
            known = ", ".join(sorted(MIXES))
            raise InvalidValueError(
                "mix", f"must be one of {known}, or TYPE=SHARE,...; got {shown(text)}"
            )
        shares[_kind_name(name)] = _share(name, share)
    return shares


def apportion(mix: Mapping[str, float], num_runs: int) -> list[str]:
    """Give each name its share of ``num_runs`` by largest remainders, in order of names.

    Raises:
        InvalidValueError: a share is below 0 or no finite number, or all are 0.
    """
    total = sum(mix.values())
    if not 0 < total < float("inf") or min(mix.values()) < 0:
        raise InvalidValueError("mix", f"must have shares >= 0, not all 0, got {shown(dict(mix))}")
    return by_largest_remainders(mix, num_runs)


def _kind_name(name: str) -> str:
    for kind in KINDS.values():
        if name in (kind.name, kind.abbreviation):
            return kind.name
    raise InvalidValueError("mix", f"knows no type {shown(name)}; there are {', '.join(KINDS)}")


def _share(name: str, text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = -1.0
    if not 0 <= share < float("inf"):
        raise InvalidValueError(f"mix: {name}", f"must be a share >= 0, got {shown(text)}")
    return share
