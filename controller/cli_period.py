"""Which period a person means: ``--last 5m``, ``--from 2026-11-30T21:00:00Z --to now``. Pure: now is an argument.

Times are UTC and must say so; a time without a zone would be read two ways. On the timeline UTC is known up to the
clock error that reports print.
"""

from __future__ import annotations

import re
from datetime import datetime, timezone

from controller.crosscheck.model import Period
from controller.errors import OperatorError
from protos.units import NS_PER_S, UnitError, parse_duration_ns

_INSTANT = re.compile(
    r"(?P<date>\d{4}-\d{2}-\d{2})[T ](?P<minute>\d{2}:\d{2})(?::(?P<second>\d{2})(?:\.(?P<fraction>\d{1,9}))?)?"
    r"(?:Z|\+00:?00)",
    re.ASCII,
)
_FORMS = "write UTC like 2026-11-30T21:00:00Z, `now`, or a time before now like -5m"


def parse_period(*, last: str | None, start: str | None, end: str | None, now_ns: int) -> Period:
    """Return the period that the options name; with none of them, the last 5 minutes.

    Args:
        last: ``--last``: a duration up to now.
        start: ``--from``.
        end: ``--to``; now when absent.
        now_ns: now, on the timeline.

    Raises:
        OperatorError: an option cannot be read, two contradict each other, or the period is empty.
    """
    if last is not None and (start is not None or end is not None):
        raise OperatorError("--last and --from/--to say two different periods: give one of them")
    if start is None:
        if end is not None:
            raise OperatorError("--to without --from: say where the period begins, for example --from -1h")
        length = _duration("--last", "5m" if last is None else last)
        return Period(now_ns - length, now_ns)
    period = Period(parse_instant("--from", start, now_ns=now_ns), parse_instant("--to", end or "now", now_ns=now_ns))
    if period.from_ns >= period.to_ns:
        raise OperatorError(
            f"the period is empty: it would begin at {format_utc(period.from_ns)} and end at {format_utc(period.to_ns)}"
        )
    return period


def parse_instant(option: str, text: str, *, now_ns: int) -> int:
    """Return the nanoseconds since 1970 UTC that ``text`` names.

    Raises:
        OperatorError: it names none, or not without doubt.
    """
    if text == "now":
        return now_ns
    if text.startswith("-"):
        return now_ns - _duration(option, text[1:])
    match = _INSTANT.fullmatch(text)
    if match is None:
        zone = " has no zone:" if re.fullmatch(r"\d{4}-\d{2}-\d{2}([T ][\d:.]+)?", text, re.ASCII) else " is no time;"
        raise OperatorError(f"{option} {text!r}{zone} {_FORMS}")
    try:
        whole = datetime.fromisoformat(f"{match['date']}T{match['minute']}:{match['second'] or '00'}")
    except ValueError as error:
        raise OperatorError(f"{option} {text!r}: {error}; {_FORMS}") from error
    # Integers throughout: a float of this size is only good to a few hundred nanoseconds.
    seconds = int((whole - datetime(1970, 1, 1)).total_seconds())  # noqa: DTZ001  both are UTC without saying so
    return seconds * NS_PER_S + int((match["fraction"] or "").ljust(9, "0"))


def format_utc(time_ns: int) -> str:
    """Return a time as ``2026-11-30 21:00:00.123 UTC``."""
    seconds, rest = divmod(time_ns, NS_PER_S)
    whole = datetime.fromtimestamp(seconds, timezone.utc)
    return f"{whole:%Y-%m-%d %H:%M:%S}.{rest // 1_000_000:03d} UTC"


def _duration(option: str, text: str) -> int:
    try:
        length = parse_duration_ns(text)
    except UnitError as error:
        raise OperatorError(f"{option}: {error}") from error
    if length <= 0:
        raise OperatorError(f"{option} {text!r}: must be more than nothing")
    return length
