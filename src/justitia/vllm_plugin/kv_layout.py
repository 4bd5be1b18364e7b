"""Reads the layout of vLLM's KV cache: which groups there are and how each uses its blocks."""

from collections.abc import Sequence
from typing import Any

from justitia.vllm_plugin.kv_blocks import GroupKind, KvLayout

# Names, not classes: they come and go between versions of vLLM.
_FULL = frozenset({"FullAttentionSpec", "MLAAttentionSpec"})
_STATE = frozenset({"MambaSpec", "CrossAttentionSpec", "CircularBufferSpec"})


def layout_of(scheduler: Any) -> KvLayout:
    """Describe the KV cache of a scheduler.

    A kind of group that is not known is followed block by block, which is right for all that keep
    one token after the other.
    """
    specs = [_innermost(group.kv_cache_spec) for group in scheduler.kv_cache_config.kv_cache_groups]
    kinds = tuple(_kind_of(spec) for spec in specs)
    if getattr(scheduler.kv_cache_manager.coordinator, "enable_partial_hash_hits", False):
        # A partly shared last block is replaced by a copy: full groups, too, have to be looked at.
        kinds = tuple(GroupKind.WINDOW if kind is GroupKind.FULL else kind for kind in kinds)
    sizes = tuple(spec.block_size for spec in specs)
    token_sizes = [
        size for size, kind in zip(sizes, kinds, strict=True) if kind is not GroupKind.STATE
    ]
    # As in vLLM's own figure for the capacity: the groups' blocks are of equal bytes, and the
    # smallest number of tokens in one says how many tokens fit.
    return KvLayout(min(token_sizes, default=scheduler.block_size), kinds, sizes)


def _innermost(spec: Any) -> Any:
    """Layers of one type but of different sizes are wrapped."""
    inner = getattr(spec, "kv_cache_specs", None)
    return next(iter(inner.values())) if inner else spec


def _kind_of(spec: Any) -> GroupKind:
    name = type(spec).__name__
    if name in _FULL:
        return GroupKind.FULL
    return GroupKind.STATE if name in _STATE else GroupKind.WINDOW


class _Ids(Sequence[int]):
    """Ids of a list of blocks, without a copy: most positions are never looked at."""

    def __init__(self, blocks: Sequence[Any]) -> None:
        self._blocks = blocks

    def __len__(self) -> int:
        return len(self._blocks)

    def __getitem__(self, position: Any) -> Any:
        block = self._blocks[position]
        return 0 if block.is_null else block.block_id


def block_ids_of(kv_cache_manager: Any, request_id: str) -> list[_Ids]:
    """What the manager says an inference holds, by group.

    0 stands for a block that was given back.
    """
    return [_Ids(blocks) for blocks in kv_cache_manager.get_blocks(request_id).blocks]
