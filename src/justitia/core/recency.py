"""Maps that remember only what was used last."""

from collections import OrderedDict
from typing import TypeVar

_K = TypeVar("_K")
_V = TypeVar("_V")


def use(kept: OrderedDict[_K, _V], key: _K, new: _V, *, most: int) -> _V:
    """Take what is kept under a key, or the new one; the one used longest ago goes beyond most."""
    value = kept.setdefault(key, new)
    kept.move_to_end(key)
    if len(kept) > most:
        kept.popitem(last=False)
    return value
