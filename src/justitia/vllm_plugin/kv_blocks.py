"""Who holds which KV-cache blocks, and who pays for those that several hold.

No vLLM here: block ids come in, counts go out. A block that several inferences hold through the
prefix cache is paid by the first of them; when that one leaves, the next takes over (rule C3).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final

#: vLLM's placeholder for positions that a sliding window has given back.
NULL_BLOCK: Final = 0


class GroupKind(Enum):
    """How a KV-cache group uses its blocks."""

    FULL = auto()  # one token after the other, nothing is given back before the end
    WINDOW = auto()  # one token after the other, old blocks are given back
    STATE = auto()  # blocks hold a state of fixed size: a whole block counts


@dataclass(frozen=True, slots=True)
class KvLayout:
    """KV-cache groups of one engine. A token counts as a whole one when all groups hold it."""

    block_size_tokens: int
    groups: tuple[GroupKind, ...] = (GroupKind.FULL,)
    #: Tokens in a block, by group.
    group_block_tokens: tuple[int, ...] = ()

    #: Parts of a token, one for each group; at least 1, also without any KV cache.
    shares: int = field(init=False)
    #: Whether the blocks of an inference can be followed from the new ones alone.
    is_append_only: bool = field(init=False)

    def __post_init__(self) -> None:
        # Looked at for every inference of every step, so worked out once.
        object.__setattr__(self, "shares", max(1, len(self.groups)))
        is_append_only = all(kind is GroupKind.FULL for kind in self.groups)
        object.__setattr__(self, "is_append_only", is_append_only)

    def tokens_of_blocks(self, num_blocks: int) -> int:
        """Tokens that fit into ``num_blocks`` blocks of the pool that all groups share."""
        return num_blocks * self.block_size_tokens // self.shares

    def block_tokens(self, group: int) -> int:
        """Tokens in a block of ``group``."""
        if self.group_block_tokens:
            return self.group_block_tokens[group]
        return self.block_size_tokens


@dataclass(slots=True, eq=False)
class Holding:
    """Blocks of one inference, by group: position -> block id, null blocks left out."""

    by_group: list[dict[int, int]]
    #: Positions so far, null blocks included, by group.
    lengths: list[int]
    #: Blocks that another inference pays for, by group.
    num_foreign: list[int]
    #: (group, position) of blocks that were given back and may have a successor.
    replaced: list[tuple[int, int]] = field(default_factory=list)

    @property
    def num_blocks(self) -> int:
        """Real blocks held, in all groups."""
        return sum(map(len, self.by_group))


@dataclass(slots=True)
class BlockTable:
    """All blocks held by the inferences of one engine. Every block enters and leaves in O(1)."""

    layout: KvLayout
    _payer: dict[int, Holding] = field(default_factory=dict)
    #: Others who hold a block, in order; only blocks with more than one holder are here.
    _others: dict[int, list[Holding]] = field(default_factory=dict)
    #: Tokens in a block where there is one group that gives nothing back, as in nearly every model;
    #: else 0.
    plain_block_tokens: int = field(init=False)

    def __post_init__(self) -> None:
        is_plain = self.layout.groups == (GroupKind.FULL,)
        self.plain_block_tokens = self.layout.block_tokens(0) if is_plain else 0

    @property
    def num_paid(self) -> int:
        """Distinct blocks that somebody holds."""
        return len(self._payer)

    def new_holding(self) -> Holding:
        """Start with nothing."""
        groups = len(self.layout.groups)
        return Holding([{} for _ in range(groups)], [0] * groups, [0] * groups)

    def extend(self, holding: Holding, new_ids: Sequence[Sequence[int]]) -> None:
        """Append blocks, by group."""
        for group, ids in enumerate(new_ids):
            for block in ids:
                self._put(holding, group, holding.lengths[group], block)
                holding.lengths[group] += 1

    def give_back(self, holding: Holding, ids: Sequence[Sequence[int]]) -> None:
        """Drop what is no longer in the engine's own list; what came instead is left to ``match``.

        Of several holdings that change in one step all give back first: a block may have moved from
        one to the other, or from one group to another.
        """
        for group, now in enumerate(ids):
            held = holding.by_group[group]
            for position in [p for p, b in held.items() if p >= len(now) or now[p] != b]:
                self._take(holding, group, position)
                if position < len(now):
                    holding.replaced.append((group, position))

    def match(self, holding: Holding, ids: Sequence[Sequence[int]]) -> None:
        """Make the holding equal to the engine's own list; blocks may have been given back.

        Looks at what is held and at what is new, not at what was given back before.
        """
        self.give_back(holding, ids)
        for group, position in holding.replaced:
            self._put(holding, group, position, ids[group][position])
        holding.replaced.clear()
        for group, now in enumerate(ids):
            for position in range(holding.lengths[group], len(now)):
                self._put(holding, group, position, now[position])
            holding.lengths[group] = len(now)

    def release(self, holding: Holding) -> None:
        """Give everything back."""
        for group, held in enumerate(holding.by_group):
            for position in list(held):
                self._take(holding, group, position)
            holding.lengths[group] = 0
        holding.replaced.clear()

    def charged_shares(self, holding: Holding, computed_tokens: int) -> int:
        """Count the tokens that an inference holds and pays for, in shares of a token; at least 1.

        A group holds what has been computed so far, less what it has given back, less what others
        pay for.
        """
        total = 0
        for group, kind in enumerate(self.layout.groups):
            held = len(holding.by_group[group])
            size = self.layout.block_tokens(group)
            foreign = holding.num_foreign[group]
            if kind is GroupKind.STATE:
                total += (held - foreign) * self.layout.block_size_tokens
                continue
            length = holding.lengths[group]
            filled = min(computed_tokens, length * size) - (length - held) * size
            total += max(0, filled - foreign * size)
        return max(1, total if self.layout.groups else computed_tokens)

    def _put(self, holding: Holding, group: int, position: int, block: int) -> None:
        if block == NULL_BLOCK:
            return
        holding.by_group[group][position] = block
        payer = self._payer.setdefault(block, holding)
        if payer is not holding:
            self._others.setdefault(block, []).append(holding)
            holding.num_foreign[group] += 1

    def _take(self, holding: Holding, group: int, position: int) -> None:
        block = holding.by_group[group].pop(position)
        others = self._others.get(block)
        if self._payer[block] is not holding:
            assert others is not None
            others.remove(holding)
            holding.num_foreign[group] -= 1
        elif others:
            heir = self._payer[block] = others.pop(0)
            heir.num_foreign[group] -= 1
        else:
            del self._payer[block]
        if others is not None and not others:
            del self._others[block]
