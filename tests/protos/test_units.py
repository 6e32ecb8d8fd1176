from __future__ import annotations

import re
import time
from collections.abc import Callable
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protos import units
from protos.units import (
    UnitError,
    format_bytes,
    format_duration,
    format_rate,
    parse_bytes,
    parse_duration_ns,
    parse_rate,
    parse_rate_bytes_per_s,
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0B", 0),
        ("10MB", 10_000_000),
        ("10 MB", 10_000_000),
        (" 1kB ", 1_000),
        ("1GiB", 2**30),
        ("1.5kB", 1_500),
        ("0.001kB", 1),
        ("1e3MB", 10**9),
        ("8bit", 1),
        ("10Mbit", 1_250_000),
        ("1Kibit", 128),
        ("18446744073709551615B", 2**64 - 1),
    ],
)
def test_sizes(text: str, value: int) -> None:
    assert parse_bytes(text) == value


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("10Mb", "is ambiguous: write 'Mbit' for bits or 'MB' for bytes"),
        ("1Kb", "is ambiguous: write 'kbit' for bits or 'kB' for bytes"),
        ("1mb", "is ambiguous: write 'Mbit' for bits or 'MB' for bytes"),
        ("1gb", "is ambiguous: write 'Gbit' for bits or 'GB' for bytes"),
        ("1Mib", "is ambiguous: write 'Mibit' for bits or 'MiB' for bytes"),
        ("1b", "is ambiguous: write 'bit' for bits or 'B' for bytes"),
        ("10M", "does not say what it counts"),
        ("1KB", "unknown unit 'KB'"),
        ("1MBit", "unknown unit"),
        ("1EB", "unknown unit"),
        ("1", "is not a size"),
        ("", "is not a size"),
        ("MB", "is not a size"),
        ("-1B", "is not a size"),
        ("+1B", "is not a size"),
        ("1_000B", "is not a size"),
        (".5MB", "is not a size"),
        ("5.MB", "is not a size"),
        ("1,5MB", "is not a size"),
        ("\uff11MB", "is not a size"),
        ("1MB2", "is not a size"),
        ("1e100000B", "is not a size"),
        ("0.5B", "is not a whole number of bytes"),
        ("4bit", "is not a whole number of bytes"),
        ("18446744073709551616B", "is more than any counter"),
        ("1e30B", "is more than any counter"),
    ],
)
def test_sizes_that_two_readers_could_take_two_ways_are_refused(text: str, says: str) -> None:
    with pytest.raises(UnitError, match=re.escape(says)):
        parse_bytes(text)


@pytest.mark.parametrize("unit", ["kb", "Kb", "mb", "Mb", "gb", "Gb", "tb", "Tb", "Kib", "Mib", "k", "M", "Gi"])
def test_a_remedy_names_units_that_are_accepted(unit: str) -> None:
    with pytest.raises(UnitError) as refused:
        parse_bytes(f"8{unit}")
    offered = re.findall(r"'([A-Za-z]+)' for", str(refused.value))
    assert len(offered) == 2
    assert all(parse_bytes(f"8{name}") > 0 for name in offered)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1MB/s", Fraction(10**6)),
        ("10Mbit/s", Fraction(1_250_000)),
        ("2GB/h", Fraction(2 * 10**9, 3_600)),
        ("60MB/min", Fraction(10**6)),
        ("1MB/d", Fraction(10**6, 86_400)),
        ("1MB / s", Fraction(10**6)),
        ("1B/ms", Fraction(1000)),
        ("4bit/s", Fraction(1, 2)),
    ],
)
def test_rates(text: str, value: Fraction) -> None:
    assert parse_rate(text) == value


@pytest.mark.parametrize(
    "text", ["1MB", "1MB/", "/s", "5m/s", "1MB/m", "1Mb/s", "1MB/S", "1MB//s", "1MB/1s", "1e1000000B/s", "1e90MB/s"]
)
def test_rates_that_are_refused(text: str) -> None:
    with pytest.raises(UnitError):
        parse_rate(text)


def test_a_whole_rate() -> None:
    assert parse_rate_bytes_per_s("3.6GB/h") == 10**6
    with pytest.raises(UnitError, match="not a whole number of bytes per second"):
        parse_rate_bytes_per_s("2GB/h")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("300s", 300 * 10**9),
        ("3.5s", 3_500_000_000),
        ("1h30m", 5_400 * 10**9),
        ("1h 30m", 5_400 * 10**9),
        ("1d1ns", 86_400 * 10**9 + 1),
        ("5m", 300 * 10**9),
        ("5min", 300 * 10**9),
        ("0s", 0),
        ("250us", 250_000),
    ],
)
def test_durations(text: str, value: int) -> None:
    assert parse_duration_ns(text) == value


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is not a duration"),
        ("5", "is not a duration"),
        ("1.5", "is not a duration"),
        ("1h30", "is not a duration"),
        ("s", "is not a duration"),
        ("1H", "is not a duration"),
        ("1s,2s", "is not a duration"),
        ("-1s", "is not a duration"),
        ("\uff11s", "is not a duration"),
        ("1fortnight", "unknown time unit 'fortnight'"),
        ("1s1s", "name each time unit once"),
        ("1m2min", "name each time unit once"),
        ("30m1h", "the largest first"),
        ("0.1ns", "is not a whole number of nanoseconds"),
        ("999999d", "is more than any counter or clock can hold"),
        ("106751d24h", "is more than any counter or clock can hold"),
    ],
)
def test_durations_that_are_refused(text: str, says: str) -> None:
    with pytest.raises(UnitError, match=re.escape(says)):
        parse_duration_ns(text)


@given(st.text(alphabet="0123456789.e kKMGTPibBt/smhdnu-+_", max_size=40) | st.text(max_size=20))
def test_nothing_but_a_number_in_range_or_a_unit_error_comes_out_and_soon(text: str) -> None:
    started = time.thread_time()
    parsers: list[tuple[Callable[[str], int | Fraction], int]] = [
        (parse_bytes, units.MAX_BYTES),
        (parse_rate, units.MAX_BYTES),
        (parse_duration_ns, units.MAX_NS),
    ]
    for parse, most in parsers:
        try:
            value = parse(text)
        except UnitError:
            continue
        assert Fraction(value).numerator >= 0
        assert Fraction(value) <= most
    assert time.thread_time() - started < 1


@given(st.integers(0, 2**64 - 1))
def test_bytes_are_shown_to_three_digits(value: int) -> None:
    shown = format_bytes(value)
    number, unit = shown.split()
    back = Fraction(number) * {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "PB": 10**15}[unit]
    assert abs(back - value) <= Fraction(value, 199)
    assert len(number.replace(".", "")) <= 3 or unit == "PB"
    assert format_bytes(-value) == (f"-{shown}" if value else shown)


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0, "0 B"), (999, "999 B"), (1_000, "1.00 kB"), (9_995, "10.0 kB"), (999_499, "999 kB"), (999_500, "1.00 MB")],
)
def test_bytes_shown(value: int, shown: str) -> None:
    assert format_bytes(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "0 ns"),
        (999, "999 ns"),
        (1_500, "1.5 us"),
        (999_600, "1 ms"),
        (12_000_000, "12 ms"),
        (999_600_000, "1 s"),
        (3_500_000_000, "3.5 s"),
        (119_400_000_000, "119 s"),
        (119_600_000_000, "2 min"),
        (185 * 10**9, "3 min 5 s"),
        (3_599_600_000_000, "1 h"),
        (7_500 * 10**9, "2 h 5 min"),
        (72 * 3_600 * 10**9, "72 h"),
        (-3_500_000_000, "-3.5 s"),
    ],
)
def test_durations_shown(value: int, shown: str) -> None:
    assert format_duration(value) == shown


@given(st.integers(0, 10**17))
def test_a_shown_duration_is_read_back_as_nearly_the_same(value: int) -> None:
    shown = format_duration(value)
    assert "e" not in shown
    parts = re.findall(r"([0-9.]+) ([a-z]+)", shown)
    back = sum((Fraction(number) * units._DURATION_NS[unit] for number, unit in parts), Fraction(0))
    assert abs(back - value) <= max(Fraction(value, 100), Fraction(1))


def test_rates_shown() -> None:
    assert format_rate(10**6) == "1.00 MB/s"
    assert format_rate(Fraction(5, 2)) == "2 B/s"
