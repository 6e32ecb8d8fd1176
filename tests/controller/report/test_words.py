from __future__ import annotations

import unicodedata
from decimal import Decimal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from controller.report import words

UNITS = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "PB": 10**15}
BYTES = st.one_of(st.integers(0, 2_000), st.integers(0, 2**64 - 1))


def value_of(text: str, unit: str | None = None) -> Decimal:
    digits, _, own = text.strip().partition(" ")
    return Decimal(digits.replace(",", "")) * UNITS[own or unit or "B"]


@example(999_000_000_000_000_001)
@given(BYTES)
def test_a_lower_bound_is_never_rounded_up_and_an_upper_never_down(value: int) -> None:
    assert value_of(words.floor_bytes(value)) <= value <= value_of(words.ceil_bytes(value))


@given(BYTES)
def test_three_digits_are_kept(value: int) -> None:
    assert value_of(words.floor_bytes(value)) * 100 >= value * 99
    assert value_of(words.ceil_bytes(value)) * 99 <= value * 100


@given(BYTES, BYTES)
def test_an_interval_is_written_outwards(one: int, other: int) -> None:
    lower, upper = sorted((one, other))
    text = words.interval(lower, upper)
    if lower == upper:
        assert value_of(text) == lower
        return
    low, high = text.split("\N{EN DASH}")
    unit = high.strip().split(" ")[1]
    assert value_of(low, unit) <= lower
    assert value_of(high) >= upper


@given(BYTES, st.integers(1, 10_000))
def test_a_narrow_interval_keeps_both_ends_apart(lower: int, width: int) -> None:
    assert words.interval(lower, lower + width).count("\N{EN DASH}") == 1


@pytest.mark.parametrize(
    ("lower", "upper", "cell", "prose"),
    [
        (214_783_210, 214_792_412, "214.783\N{EN DASH}214.793 MB", "between 214.783 MB and 214.793 MB"),
        (1_234, 1_240, "1.234\N{EN DASH}1.240 kB", "between 1.234 kB and 1.240 kB"),
        (0, 0, "0 B", "exactly 0 B"),
        (0, 1_500, "0\N{EN DASH}1.50 kB", "at most 1.50 kB"),
        (1_200_000, 270_123_456, "1.20 MB \N{EN DASH} 271 MB", "between 1.20 MB and 271 MB"),
        (20_000_000, None, "at least 20.0 MB", "at least 20.0 MB"),
        (0, None, "no bound", "at least 0 B"),
    ],
)
def test_intervals_as_a_person_reads_them(lower: int, upper: int | None, cell: str, prose: str) -> None:
    assert words.interval(lower, upper) == cell
    assert words.between(lower, upper) == prose


def test_a_rounded_up_bound_takes_the_next_unit() -> None:
    assert words.ceil_bytes(999_999) == "1.00 MB"
    assert words.floor_bytes(999_999) == "999 kB"


@given(BYTES)
def test_an_agreed_number_loses_no_digit(value: int) -> None:
    assert value_of(words.declared_bytes(value)) == value


def test_an_agreed_number_is_written_as_people_agree_on_it() -> None:
    assert words.declared_bytes(10_000_000) == "10 MB"
    assert words.declared_bytes(1_500) == "1.5 kB"


@given(st.floats(0, 1))
def test_coverage_is_never_overstated(share: float) -> None:
    text = words.floor_percent(share)
    assert float(text.removesuffix(" %")) <= share * 100 + 1e-9
    assert (text == "100 %") == (share >= 1)


@given(st.integers(0, 10**12), st.integers(1, 10**12))
def test_a_hidden_share_is_never_understated(part: int, whole: int) -> None:
    text = words.ceil_share(part, whole).removesuffix(" %").replace(",", "")
    assert Decimal(text) * whole >= Decimal(part) * 100


@given(st.text(max_size=40))
def test_no_invisible_character_of_a_name_survives(name: str) -> None:
    assert not [c for c in words.shown(name) if unicodedata.category(c) in {"Cc", "Cf", "Cs", "Zl", "Zp"}]


def test_a_name_that_would_turn_the_line_around_is_written_out() -> None:
    assert words.shown("a\u202eb\x1b[31m") == r"a\u202eb\x1b[31m"
    assert words.shown("größe-1 µ") == "größe-1 µ"


@given(st.text(min_size=1, max_size=60), st.integers(3, 30))
def test_a_shortened_name_fits(name: str, longest: int) -> None:
    assert len(words.shortened(name, longest)) <= longest


def test_names_sort_as_people_count() -> None:
    assert sorted(["node10", "node2", "node1"], key=words.natural) == ["node1", "node2", "node10"]


def test_times_carry_a_date_only_when_the_day_changes() -> None:
    day = 1_780_263_484_500_000_000
    assert words.span(day, day + 10_000_000_000, day) == "21:38:04.5 to 21:38:14.5 UTC (10 s)"
    assert words.when(day + 86_400_000_000_000, day) == "2026-06-01 21:38:04.5"
    assert words.period(day, day + 120_000_000_000) == "2026-05-31, 21:38:04.5 to 21:40:04.5 UTC (2 min)"


def test_lists_and_counts() -> None:
    assert words.listed(["a"]) == "a"
    assert words.listed(["a", "b"]) == "a and b"
    assert words.listed(list("abcdefg"), most=4) == "a, b, c and 4 more"
    assert [words.counted(n, "link") for n in (0, 1, 2_000)] == ["no links", "1 link", "2,000 links"]


@pytest.mark.parametrize(
    ("least", "allowed", "said"),
    [
        (10_000_042, 10_000_000, "42 B over the limit"),
        (13_490_000, 10_000_000, "1.3 times the limit"),
        (191_508_810, 10_000_000, "19 times the limit"),
        (5, 0, "5 B over the limit"),
    ],
)
def test_an_excess_is_said_in_the_words_that_fit_its_size(least: int, allowed: int, said: str) -> None:
    assert words.excess(least, allowed, "the limit") == said
