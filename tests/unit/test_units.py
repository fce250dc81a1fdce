"""Quantities with units, and what is said of those without."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_specdecode.errors import ConfigError
from pytest_specdecode.units import Bytes, Ratio, Seconds, parse_quantity, ratio, seconds


@pytest.mark.parametrize(
    ("text", "value"),
    [("250ms", 0.25), ("90s", 90), ("15min", 900), ("2h", 7200), (" 1.5 min ", 90)],
)
def test_durations(text: str, value: float) -> None:
    assert seconds(text) == value


@pytest.mark.parametrize(("text", "value"), [("5%", 0.05), ("7%", 0.07), ("0.5%", 0.005), ("30 %", 0.3)])
def test_percentages_are_the_nearest_float(text: str, value: float) -> None:
    assert ratio(text) == value


@pytest.mark.parametrize(
    ("text", "value"), [("512MiB", 512 * 2**20), ("1GiB", 2**30), ("80GB", 80 * 10**9), ("1.5kB", 1500)]
)
def test_sizes(text: str, value: int) -> None:
    assert parse_quantity(Bytes, text) == value


@pytest.mark.parametrize(
    ("kind", "value", "remedy"),
    [
        (Ratio, 5, 'write "5%"'),
        (Ratio, 0.05, 'write "5%"'),
        (Ratio, "5", 'write "5%"'),
        (Seconds, 90, 'write "90s"'),
        (Seconds, "90", 'write "90s"'),
        (Bytes, 1024, 'write "1024B"'),
    ],
)
def test_a_bare_number_is_refused_with_what_to_write(kind: type, value: object, remedy: str) -> None:
    with pytest.raises(ConfigError, match=remedy):
        parse_quantity(kind, value)


@pytest.mark.parametrize(
    "value", ["5m", "5S", "-5s", "s", "", "1e3s", "٣s", True, None, [1], "9" * 400 + "s"]
)
def test_anything_else_but_a_number_with_a_known_unit_is_refused(value: object) -> None:
    with pytest.raises(ConfigError, match="is not a duration"):
        seconds(value)


@settings(deadline=None)
@given(st.text(max_size=12) | st.floats() | st.integers() | st.none() | st.booleans())
def test_nothing_but_a_config_error_comes_of_bad_input(value: object) -> None:
    for kind in (Seconds, Ratio, Bytes):
        try:
            found = parse_quantity(kind, value)
        except ConfigError:
            continue
        assert found >= 0


@settings(deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([(Seconds, "s"), (Ratio, "%"), (Bytes, "B")]))
def test_what_is_written_is_what_is_meant(number: int, unit: tuple[type, str]) -> None:
    kind, suffix = unit
    scale = 0.01 if suffix == "%" else 1
    assert parse_quantity(kind, f"{number}{suffix}") == pytest.approx(number * scale, rel=1e-12)
