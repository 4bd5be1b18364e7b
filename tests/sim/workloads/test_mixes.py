from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from justitia.core.errors import InvalidValueError
from justitia.sim.workloads.mixes import MIXES, apportion, parse_mix

SHARES = st.dictionaries(st.text(min_size=1, max_size=3), st.floats(0.01, 100), min_size=1)


@given(SHARES, st.integers(0, 300))
def test_shares_are_exact_to_one_run(shares, num_runs):
    counts = Counter(apportion(shares, num_runs))
    assert sum(counts.values()) == num_runs
    total = sum(shares.values())
    for name, share in shares.items():
        assert abs(counts[name] - num_runs * share / total) < 1 + 1e-6


def test_a_mix_is_named_or_written_out():
    assert parse_mix("hermes") is MIXES["hermes"]
    assert parse_mix("SC=3, document-merging=1") == {"self-consistency": 3, "document-merging": 1}


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("papper", "must be one of hermes, paper"),
        ("XX=1", "knows no type 'XX'"),
        ("SC=-1", "mix: SC: must be a share >= 0"),
        ("SC=nan", "mix: SC"),
        ("SC=many", "got 'many'"),
    ],
)
def test_a_bad_mix_is_refused_with_its_part(text, part):
    with pytest.raises(InvalidValueError, match=part):
        parse_mix(text)


@pytest.mark.parametrize("mix", [{"a": 0.0}, {"a": -1.0, "b": 2.0}, {"a": float("inf")}])
def test_shares_that_mean_nothing_are_refused(mix):
    with pytest.raises(InvalidValueError):
        apportion(mix, 3)
