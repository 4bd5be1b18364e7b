"""Shares of a whole number: how many runs of each application a mix means."""

from collections.abc import Mapping


def by_largest_remainders(shares: Mapping[str, float], number: int) -> list[str]:
    """Give each name its share of ``number`` places by largest remainders, in order of names.

    Shares are finite and >= 0, and not all are 0.
    """
    total = sum(shares.values())
    exact = {name: number * share / total for name, share in sorted(shares.items())}
    counts = {name: int(share) for name, share in exact.items()}
    by_remainder = sorted(exact, key=lambda name: counts[name] - exact[name])
    for name in by_remainder[: number - sum(counts.values())]:
        counts[name] += 1
    return [name for name, count in counts.items() for _ in range(count)]
