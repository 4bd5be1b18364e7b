"""Weights as people write them, and ticks."""

import contextlib
from decimal import Decimal, localcontext

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from justitia.core.errors import CoreError, InvalidValueError
from justitia.core.units import (
    MAX_WEIGHT,
    MIN_WEIGHT,
    TICKS_PER_KVTT,
    UNIT_WEIGHT,
    NanoWeight,
    parse_weight,
    service_ticks,
    ticks_to_kvtt,
    weight_to_float,
)


@pytest.mark.parametrize(
    ("written", "nano"),
    [
        (1, UNIT_WEIGHT),
        ("1", UNIT_WEIGHT),
        (1.0, UNIT_WEIGHT),
        ("1e9", MAX_WEIGHT),
        (10**9, MAX_WEIGHT),
        (1e-9, MIN_WEIGHT),
        ("1e-9", MIN_WEIGHT),
        ("0.5", 500_000_000),
        ("500m", 500_000_000),
        ("2k", 2_000 * UNIT_WEIGHT),
        ("1n", MIN_WEIGHT),
        ("3u", 3_000),
        ("1G", MAX_WEIGHT),
        ("1Ki", 1024 * UNIT_WEIGHT),
        (" 2 ", 2 * UNIT_WEIGHT),
        (Decimal("0.1"), 100_000_000),
        (0.1, 100_000_000),
        ("1.0000000005", UNIT_WEIGHT),
        ("1.0000000015", UNIT_WEIGHT + 2),
        ("123456789.123456789", 123_456_789_123_456_789),
    ],
)
def test_weights_that_are_taken(written, nano):
    assert parse_weight(written) == nano


@pytest.mark.parametrize(
    "written",
    [
        *("nan", "sNaN", "inf", "-inf", float("nan"), float("inf"), float("-inf")),
        *(0, "0", -1, "-0.5", -0.0, "1e-10", 9e-10, "9.99e-10", "1e10", "1000000001", 10**9 + 1),
        *("abc", "", " ", "1,5", "1 2", "0x10", "m", "1mm", "1T", "2G", "--1", "1e", None, True),
        *("1e999999999999", "1e-999999999999", "9" * 5000, "1" + "0" * 10**5, 10**5000),
    ],
    ids=lambda value: repr(value)[:20] if not isinstance(value, int) else f"int{value % 10**9}",
)
def test_weights_that_are_refused_name_field_and_value_shortly(written):
    with pytest.raises(InvalidValueError) as caught:
        parse_weight(written, field="spec.weight")
    assert caught.value.field == "spec.weight"
    assert str(caught.value).startswith("spec.weight: must be a number from 1e-9 to 1e9, got ")
    assert len(str(caught.value)) < 200
    assert isinstance(caught.value, CoreError)
    assert isinstance(caught.value, ValueError)


def test_a_weight_means_the_same_whatever_decimal_context_the_host_has_set():
    with localcontext() as context:
        context.prec = 3
        assert parse_weight("1234.56789") == 1_234_567_890_000


@settings(derandomize=True, deadline=None, max_examples=200, database=None)
@given(st.integers(MIN_WEIGHT, MAX_WEIGHT))
def test_every_weight_survives_being_written_down(nano):
    assert parse_weight(Decimal(nano).scaleb(-9)) == nano
    assert parse_weight(f"{nano}n") == nano
    assert weight_to_float(NanoWeight(nano)) == nano / 1e9


@settings(derandomize=True, deadline=None, max_examples=200, database=None)
@given(st.text(alphabet="019+-.eE_ numkKMGix٣∞", max_size=12))
def test_no_text_ends_in_another_error(text):
    with contextlib.suppress(InvalidValueError):
        assert MIN_WEIGHT <= parse_weight(text) <= MAX_WEIGHT


@settings(derandomize=True, deadline=None, max_examples=200, database=None)
@given(st.integers(1, 10**18), st.integers(MIN_WEIGHT, MAX_WEIGHT))
def test_service_takes_c_over_w_rounded_up_to_a_tick(cost, weight):
    ticks = service_ticks(cost, NanoWeight(weight))
    exact = cost * TICKS_PER_KVTT * 10**9
    assert (ticks - 1) * weight < exact <= ticks * weight


def test_ticks_are_shown_as_kvtt():
    assert ticks_to_kvtt(3 * TICKS_PER_KVTT // 2) == 1.5
    assert ticks_to_kvtt(service_ticks(10**18, MIN_WEIGHT)) == 1e27
