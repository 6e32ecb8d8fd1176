"""What people say beside a file of readings: limits, line rates, assumptions, in the site file's names and units.

Pure: text in, values out, and an error that says what to write instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from controller.crosscheck.model import Assumptions, Limit
from controller.errors import OperatorError
from protos.units import UnitError, parse_bytes, parse_duration_ns, parse_rate_bytes_per_s

MOST_LIARS = 2


def parse_limit(text: str) -> Limit:
    """Return the limit that ``300s:300MB`` names.

    Raises:
        OperatorError: it names none.
    """
    window, colon, volume = text.partition(":")
    if not colon:
        raise OperatorError(f"--limit {text!r}: write a window and the most bytes in it, for example 300s:300MB")
    return Limit(_value("--limit", window, _positive_duration), _value("--limit", volume, _bytes))


def parse_line_rates(texts: Sequence[str]) -> dict[str, int]:
    """Return bytes per second by link, from ``LINK=1Gbit/s``.

    Raises:
        OperatorError: one is not of that form, or a link has two.
    """
    rates: dict[str, int] = {}
    for text in texts:
        link, equals, rate = text.rpartition("=")
        if not equals or not link:
            raise OperatorError(f"--line-rate {text!r}: write a link and its rate, for example node1/p0=1Gbit/s")
        if link in rates:
            raise OperatorError(f"--line-rate {link} is given twice: keep one")
        rates[link] = _value("--line-rate", rate, parse_rate_bytes_per_s)
        if rates[link] == 0:
            raise OperatorError(f"--line-rate {text!r}: a line that carries nothing is no line; leave it out")
    return rates


def parse_assumptions(texts: Sequence[str], in_flight: str | None) -> tuple[Assumptions, int | None]:
    """Return the assumptions that ``NAME=VALUE`` change, and how many liars are assumed, None if nobody said.

    Raises:
        OperatorError: a name is not known, stands twice, or its value cannot be read.
    """
    given = [*texts, *([] if in_flight is None else [f"in_flight={in_flight}"])]
    values: dict[str, Any] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or name not in _ASSUMPTIONS:
            raise OperatorError(
                f"--assume {text!r}: write NAME=VALUE, for example in_flight=2MB. Names: {', '.join(_ASSUMPTIONS)}"
            )
        attribute, read = _ASSUMPTIONS[name]
        if attribute in values:
            raise OperatorError(f"{name} is assumed twice: keep one")
        values[attribute] = _value(name, value, read)
    return replace(Assumptions(), **values), values.get("liars")


def _value(option: str, text: str, read: Callable[[str], Any]) -> Any:
    try:
        return read(text)
    except UnitError as error:
        raise OperatorError(f"{option}: {error}") from error


def _bytes(text: str) -> int:
    # Nothing is nothing in any unit.
    return 0 if text.strip() == "0" else parse_bytes(text)


def _rate(text: str) -> int:
    return 0 if text.strip() == "0" else parse_rate_bytes_per_s(text)


def _positive_bytes(text: str) -> int:
    count = parse_bytes(text)
    if count == 0:
        raise UnitError(f"{text!r} must be more than nothing")
    return count


def _positive_duration(text: str) -> int:
    length = parse_duration_ns(text)
    if length == 0:
        raise UnitError(f"{text!r} must be more than nothing")
    return length


def _share(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = 0.0
    if not 0 < share <= 1:
        raise UnitError(f"{text!r} is not a share: write a number above 0 and up to 1, for example 0.95")
    return share


def _liars(text: str) -> int:
    if text.strip() not in map(str, range(MOST_LIARS + 1)):
        raise UnitError(f"{text!r}: of the trust domains host, DPU and switch 0, 1 or 2 may lie at once")
    return int(text)


_ASSUMPTIONS: Mapping[str, tuple[str, Callable[[str], Any]]] = {
    "in_flight": ("in_flight_bytes", _bytes),
    "late_completion": ("late_completion_bytes", _bytes),
    "dpu_own": ("dpu_own_bytes_per_s", _rate),
    "control": ("control_bytes_per_s", _rate),
    "largest_frame": ("largest_frame_bytes", _positive_bytes),
    "required_coverage": ("required_coverage", _share),
    "largest_gap": ("largest_gap_ns", _positive_duration),
    "liars": ("liars", _liars),
}
"""By their names in the site file, and what they are here."""
