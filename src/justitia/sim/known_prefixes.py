"""Which prompts begin with tokens that have been in an engine before: a cache without limits."""

from dataclasses import dataclass, field

from justitia.sim.scenario import InferencePlan, Segment


@dataclass(slots=True)
class _Node:
    """Streams that go on from here: the most tokens seen, and what follows whole stretches."""

    most: dict[str, int] = field(default_factory=dict)
    then: "dict[Segment, _Node]" = field(default_factory=dict)


class KnownPrefixes:
    """All prompts so far, and the answers that followed them, by their beginnings."""

    def __init__(self) -> None:
        self._root = _Node()

    def cached(self, plan: InferencePlan, block_size_tokens: int) -> int:
        """Count the tokens in whole blocks that a prompt begins with and that were here before.

        Of a prompt that is known as a whole the last token is left: it is always computed.
        """
        node: _Node | None = self._root
        known = 0
        for segment in plan.prompt:
            if node is None:
                break
            known += min(segment.tokens, node.most.get(segment.stream, 0))
            node = node.then.get(segment)
        return min(known, plan.prompt_tokens - 1) // block_size_tokens * block_size_tokens

    def add(self, plan: InferencePlan) -> None:
        """An inference has been served: its prompt is known, and its answer where it has a name."""
        node = self._root
        for segment in plan.prompt:
            node.most[segment.stream] = max(segment.tokens, node.most.get(segment.stream, 0))
            node = node.then.setdefault(segment, _Node())
        if plan.output_stream:
            known = node.most.get(plan.output_stream, 0)
            node.most[plan.output_stream] = max(plan.output_tokens, known)
