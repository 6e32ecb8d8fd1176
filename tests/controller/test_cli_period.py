"""Which period a person means."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.cli_period import format_utc, parse_instant, parse_period
from controller.crosscheck.model import Period
from controller.errors import OperatorError

SECOND = 1_000_000_000
NOW = 1_796_072_400_123_456_789  # 2026-11-30 21:00:00.123456789 UTC
NINE = 1_796_072_400 * SECOND


def period(last: str | None = None, start: str | None = None, end: str | None = None) -> Period:
    return parse_period(last=last, start=start, end=end, now_ns=NOW)


def test_the_last_minutes() -> None:
    assert period() == Period(NOW - 300 * SECOND, NOW)
    assert period(last="1h30m") == Period(NOW - 5_400 * SECOND, NOW)


def test_from_and_to() -> None:
    assert period(start="-1h") == Period(NOW - 3_600 * SECOND, NOW)
    assert period(start="-1h", end="-30m") == Period(NOW - 3_600 * SECOND, NOW - 1_800 * SECOND)
    assert period(start="2026-11-30T20:00:00Z", end="2026-11-30T21:00Z") == Period(NINE - 3_600 * SECOND, NINE)
    assert period(start="2026-11-30T20:00:00Z", end="now").to_ns == NOW


@pytest.mark.parametrize(
    "text",
    [
        "2026-11-30T21:00:00Z",
        "2026-11-30T21:00Z",
        "2026-11-30 21:00:00Z",
        "2026-11-30T21:00:00.000Z",
        "2026-11-30T21:00:00+00:00",
        "2026-11-30T21:00:00+0000",
    ],
)
def test_the_same_time_in_several_hands(text: str) -> None:
    assert parse_instant("--from", text, now_ns=0) == NINE


def test_a_time_is_exact_to_the_nanosecond() -> None:
    assert parse_instant("--to", "2026-11-30T21:00:00.123456789Z", now_ns=0) == NOW
    assert parse_instant("--to", "2026-11-30T21:00:00.5Z", now_ns=0) == NINE + SECOND // 2


@given(
    moment=st.datetimes(datetime(1970, 1, 1), datetime(2200, 1, 1)),  # noqa: DTZ001  made UTC below
    nanoseconds=st.integers(0, 999_999_999),
)
def test_what_is_printed_is_read_back(moment: datetime, nanoseconds: int) -> None:
    whole = moment.replace(microsecond=0, tzinfo=timezone.utc)
    expected = (whole - datetime(1970, 1, 1, tzinfo=timezone.utc)) // timedelta(seconds=1) * SECOND + nanoseconds
    text = f"{whole:%Y-%m-%dT%H:%M:%S}.{nanoseconds:09d}Z"
    if whole.year >= 1000:
        assert parse_instant("--from", text, now_ns=0) == expected
    assert format_utc(expected).endswith(f".{nanoseconds // 1_000_000:03d} UTC")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("2026-11-30T21:00:00", "has no zone: write UTC like 2026-11-30T21:00:00Z"),
        ("2026-11-30", "has no zone"),
        ("2026-11-30T21:00:00+01:00", "is no time; write UTC"),
        ("2026-02-30T21:00:00Z", "day is out of range|day 30 must be in range"),
        ("2026-11-30T25:00Z", "hour must be in"),
        ("2026-11-30T21:00:60Z", "second must be in"),
        ("yesterday", "is no time"),
        ("5m", "is no time"),
        ("-5", "is not a duration"),
        ("-0s", "must be more than nothing"),
        ("--5m", "is not a duration"),
        ("", "is no time"),
        ("NOW", "is no time"),
        ("٢٠٢٦-11-30T21:00:00Z", "is no time"),
    ],
)
def test_a_time_that_is_none(text: str, problem: str) -> None:
    with pytest.raises(OperatorError, match=problem) as raised:
        parse_instant("--from", text, now_ns=NOW)
    assert str(raised.value).startswith("--from")


@given(st.text(max_size=40))
def test_anything_else_is_refused_in_words(text: str) -> None:
    try:
        parse_instant("--to", text, now_ns=NOW)
    except OperatorError as error:
        assert error.exit_code == 2  # noqa: PT017  any text may be right or wrong; only this error may leave


def test_contradictions() -> None:
    for arguments, problem in (
        ({"last": "5m", "start": "-1h"}, "two different periods"),
        ({"last": "5m", "end": "now"}, "two different periods"),
        ({"end": "now"}, "--to without --from"),
        ({"start": "now"}, "the period is empty: it would begin at 2026-11-30 21:00:00.123 UTC and end at"),
        ({"start": "-1m", "end": "-2m"}, "the period is empty"),
    ):
        with pytest.raises(OperatorError, match=problem):
            period(**arguments)
