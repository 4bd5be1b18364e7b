"""Values of fields: quantities, durations, schedules and numbers as Kubernetes means them (FK4)."""

import math
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from justitia.resources.duration import DurationRange, parse_duration_s
from justitia.resources.numbers import decimal_text
from justitia.resources.quantity import QuantityRange, parse_quantity, quantity_text
from justitia.resources.schedule import read_schedule


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("2", 2),
        ("0.5", "0.5"),
        (".5", "0.5"),
        ("5.", 5),
        ("+7", 7),
        ("-1", -1),
        ("500m", "0.5"),
        ("1e6", 10**6),
        ("1E6", 10**6),
        ("1e+06", 10**6),
        ("25e-1", "2.5"),
        ("1E", 10**18),
        ("4Ki", 4096),
        ("1.5Ki", 1536),
        ("3k", 3000),
        ("1n", "1e-9"),
        (7, 7),
        (2.0, 2),
        (1e18, 10**18),
        (float(2**60), 1152921504606847000),
        (10**18, 10**18),
    ],
)
def test_quantities_mean_what_kubernetes_means(written, value):
    assert parse_quantity(written) == Decimal(value)


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("1e-10", "1e-9"),
        ("-1e-10", "-1e-9"),
        ("1e-999999", "1e-9"),
        ("0.1n", "1e-9"),
        ("1.0000000001", "1.000000001"),
    ],
)
def test_fractions_below_a_nano_are_rounded_away_from_zero(written, value):
    assert parse_quantity(written) == Decimal(value)


@pytest.mark.parametrize(
    "written",
    [
        *(
            "",
            " 1",
            "x",
            "1 000",
            "nan",
            "inf",
            "--1",
            "1mm",
            "1..2",
            ".",
            "1K",
            "1e3Ki",
            "1e",
            "٣",
        ),
        *("٣", "1" * 33, 10**400, 0.5, math.nan, math.inf, 1e300, True, None, [1]),
    ],
)
def test_other_quantities_are_refused(written):
    with pytest.raises(ValueError, match="must be a quantity"):
        parse_quantity(written)


@given(st.decimals(min_value=0, max_value=10**18, places=9))
def test_a_written_quantity_is_read_as_it_was(number):
    assert parse_quantity(quantity_text(number)) == number


@pytest.mark.parametrize(("low", "admits_low"), [("0", False), ("1n", True)])
def test_a_range_of_quantities_ends_where_it_says(low, admits_low):
    weights = QuantityRange(low, "1G", is_low_excluded=not admits_low)
    assert weights.read("1n") == Decimal("1e-9")
    assert weights.read("1G") == 10**9
    for outside in ("-1n", "0", "1000000001", "1e400"):
        with pytest.raises(ValueError, match=f"at most 1G|to 1G.*, got '{outside}'"):
            weights.read(outside)


@pytest.mark.parametrize(
    ("written", "seconds"),
    [("90s", 90), ("1h30m", 5400), ("500ms", 0.5), ("1.5h", 5400), ("0s", 0), ("1m1m", 120)],
)
def test_durations_are_read_as_seconds(written, seconds):
    assert parse_duration_s(written) == seconds


@pytest.mark.parametrize(
    "written", ["", "90", "-5s", "1 h", "1d", "1h 30m", "s", "1.s", "123456s", "1s" * 5, 90, None]
)
def test_other_durations_are_refused(written):
    with pytest.raises(ValueError, match="must be a duration"):
        parse_duration_s(written)


def test_a_range_of_durations_ends_where_it_says():
    deadlines = DurationRange("10s", "1h")
    assert (deadlines.read("10s"), deadlines.read("60m")) == (10, 3600)
    for outside in ("9999ms", "1h1ms"):
        with pytest.raises(ValueError, match=f"from 10s to 1h, .*got '{outside}'"):
            deadlines.read(outside)


@pytest.mark.parametrize(
    "written", ["0 3 * * 1", "*/5 0-6,22 1,15 JAN-MAR SUN", "59 23 31 12 7", "@daily"]
)
def test_schedules_are_kept_as_they_were_written(written):
    assert read_schedule(written) == written


@pytest.mark.parametrize(
    "written",
    [
        *("", "* * * *", "* * * * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * 32 * *"),
        *("* * * 13 *", "* * * * 8", "*/0 * * * *", "5- * * * *", "@reboot", "0 3 * * 1 "),
        "0," * 60 + "0 * * * *",
    ],
)
def test_other_schedules_are_refused(written):
    with pytest.raises(ValueError, match="must be a cron expression of five fields"):
        read_schedule(written)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (1.0, "1"),
        (1.2549, "1.25"),
        (0.0333333, "0.0333"),
        (1234.5, "1230"),
        (9.999, "10"),
        (5e-9, "0.000000005"),
        (1e-12, "0"),
        (-1.0, "0"),
        (math.inf, "1000000000000000"),
        (math.nan, None),
    ],
)
def test_measurements_are_shown_with_three_digits(value, text):
    assert decimal_text(value) == text


@given(st.floats(min_value=1e-6, max_value=1e9))
def test_a_shown_measurement_is_within_half_a_percent(value):
    assert float(decimal_text(value)) == pytest.approx(value, rel=5e-3)
