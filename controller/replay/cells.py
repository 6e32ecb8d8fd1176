"""The texts of a recorded file's cells: values with or without units, and times.

``NaN``, ``null``, ``undefined`` and an empty cell are "not known". Infinite values, thousands separators and units that
could be read two ways are refused.
"""

from __future__ import annotations

import enum
import math
import re
from datetime import datetime, timezone
from functools import lru_cache

from protos.units import NS_PER_S

UNKNOWN = frozenset({"", "nan", "null", "none", "undefined", "-"})
_VALUE = re.compile(
    r"(?P<number>[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)\s*(?P<unit>\D.*)?", re.ASCII
)
_SEPARATED = re.compile(r"[+-]?[0-9]{1,3}(?:[,'\u00a0\u202f ][0-9]{3})+(?:[.,][0-9]+)?\s*(?:\D.*)?")
_PREFIX = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
_PREFIX |= {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50}


class Unit(enum.Enum):
    """What a column counts."""

    BYTES = "bytes"
    RATE = "bytes per second"


class CellError(ValueError):
    """A cell that cannot be read; the text says why, ``remedy`` what to do."""

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(problem)
        self.remedy = remedy


@lru_cache(maxsize=1 << 16)  # three printed digits with a unit repeat
def value(text: str) -> tuple[float | None, Unit | None, float]:
    """Return the value in bytes (a second), its unit if it has one, and half of its last digit, relative.

    Raises:
        CellError: it is no number, is infinite or negative, or its unit is unknown or can be read two ways.
    """
    text = text.strip()
    if text.lower() in UNKNOWN:
        return None, None, 0.0
    match = _VALUE.fullmatch(text)
    if match is None or (match["unit"] and match["unit"][0] in ",'\u00a0\u202f"):
        raise _no_number(text)
    number = float(match["number"])
    if not math.isfinite(number):
        raise CellError(f"{text!r} is infinite", "Remove the row, or leave the cell empty if the value is not known")
    if number < 0:
        raise CellError(f"{text!r} is negative", "Counters and rates are not; export the counter itself")
    unit, factor = (None, 1.0) if match["unit"] is None else _unit(match["unit"].strip())
    return number * factor, unit, _rounding(match["number"]) if unit is not None else 0.0


def bare(text: str) -> float | None:
    """Return a value that has no unit; raises as :func:`value`."""
    number, unit, _ = value(text)
    if unit is not None:
        raise CellError(f"{text!r} is not a number", "Values have no unit here")
    return number


def _no_number(text: str) -> CellError:
    if text.lower().lstrip("+-").startswith("inf"):
        return CellError(f"{text!r} is infinite", "Remove the row, or leave the cell empty if the value is not known")
    if _SEPARATED.fullmatch(text):
        return CellError(
            f"{text!r} has thousands separators, which another reader takes for a decimal point",
            "Export plain numbers, for example 1234567",
        )
    return CellError(f"{text!r} is not a number", "Write a number, with a unit such as `kB/s` if it has one")


def _rounding(number: str) -> float:
    digits = re.sub(r"[eE].*|[^0-9]", "", number).lstrip("0")
    return 0.5 / 10 ** (len(digits) - 1) / int(digits[0]) if digits else 0.0


@lru_cache(maxsize=256)
def _unit(text: str) -> tuple[Unit, float]:
    """Return what a unit counts, and its factor to bytes (a second)."""
    volume, slash, per = text.partition("/")
    if text.endswith(("Bps", "B/sec", "bytes/s")):
        volume, slash, per = text[:-2] if text.endswith("Bps") else volume, "/", "s"
        volume = volume.removesuffix("ytes") if volume.endswith("bytes") else volume
        volume = "B" if volume == "b" else volume
    if (slash and per not in ("s", "sec")) or not volume:
        raise CellError(
            f"the unit {text!r} is not one of volume or of volume per second", "Use for example `MB/s`, `MB`"
        )
    kind = Unit.RATE if slash else Unit.BYTES
    for suffix, divisor in (("bit", 8.0), ("B", 1.0)):
        prefix = volume.removesuffix(suffix)
        if volume.endswith(suffix) and prefix in _PREFIX:
            return kind, _PREFIX[prefix] / divisor
    if volume.endswith("b") and volume[:-1] in _PREFIX:
        raise CellError(
            f"the unit {text!r} is ambiguous, bits or bytes",
            "Export bytes (in Grafana: unit `bytes/sec(SI)`), or write `Mbit/s`",
        )
    raise CellError(
        f"the unit {text!r} is not known", "Use B, kB, MB, GB, KiB, MiB, GiB or kbit, Mbit, each with /s for rates"
    )


_MOST_DIGITS = 20
_SCALES = ((10**11, NS_PER_S), (10**14, 1_000_000), (10**17, 1_000), (10**20, 1))
_ZONED = re.compile(
    r"(?P<base>\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?)"
    r"(?P<fraction>[.,]\d{1,9})?\s?(?P<zone>Z|UTC|[+-]\d\d:?\d\d)?"
)


def time_ns(text: str) -> tuple[int, bool]:
    """Return nanoseconds since 1970, and whether a zone was given; without one UTC is taken.

    Numbers are seconds, milliseconds, microseconds or nanoseconds since 1970, told apart by their size.

    Raises:
        CellError: it is no time.
    """
    text = text.strip()
    if text.isascii() and text.isdigit() and len(text) < _MOST_DIGITS:
        whole = int(text)
        return next(whole * scale for limit, scale in _SCALES if whole < limit), True
    match = _ZONED.fullmatch(text)
    if match is not None:
        try:
            moment = datetime.fromisoformat(match["base"].replace(" ", "T"))
            offset_s = _offset_s(match["zone"])
        except ValueError as error:
            raise CellError(f"{text!r} is no time ({error})", "Use for example 2026-11-30 21:00:00") from error
        seconds = int(moment.replace(tzinfo=timezone.utc).timestamp()) - offset_s
        fraction = int((match["fraction"] or ".0")[1:].ljust(9, "0"))
        return seconds * NS_PER_S + fraction, match["zone"] is not None
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number) or number < 0 or number >= 1e19:
        raise CellError(f"{text!r} is no time", "Use for example 2026-11-30 21:00:00, or seconds since 1970")
    return round(next(number * scale for limit, scale in _SCALES if number < limit)), True


def _offset_s(zone: str | None) -> int:
    if zone in (None, "Z", "UTC"):
        return 0
    sign = -1 if zone[0] == "-" else 1
    digits = zone[1:].replace(":", "")
    return sign * (int(digits[:2]) * 3600 + int(digits[2:]) * 60)
