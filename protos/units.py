"""Quantities as people type them, and as integers inside.

Inside, bytes and bytes per second are integers, time is integer nanoseconds. People may type
``10MB``, ``1GiB``, ``1MB/s``, ``10Mbit/s``, ``2GB/h``, ``300s``, ``1h30m``. A unit that two readers
could take two ways is refused: ``10Mb`` (megabit or megabyte?), ``10M``, ``5m/s``, a bare number.
"""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction

NS_PER_S = 1_000_000_000

_DURATION_NS = {
    "ns": 1,
    "us": 1_000,
    "ms": 1_000_000,
    "s": NS_PER_S,
    "m": 60 * NS_PER_S,
    "min": 60 * NS_PER_S,
    "h": 3_600 * NS_PER_S,
    "d": 86_400 * NS_PER_S,
}
# SI prefixes are decimal; IEC prefixes (KiB) are binary. 'k' is SI's kilo; 'K' alone would be ambiguous.
_PREFIX = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15}
_PREFIX |= {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50}

# No quantity of ours needs more digits; without a bound "1e9999999B" takes minutes to become a number.
_NUMBER = r"(?P<number>[0-9]{1,30}(?:\.[0-9]{1,30})?(?:e[0-9]{1,2})?)"
# What the 64-bit counters and nanosecond times on the wire can hold.
MAX_BYTES = 2**64 - 1
MAX_NS = 2**63 - 1
_QUANTITY = re.compile(rf"{_NUMBER}\s*(?P<unit>[A-Za-z]+)", re.ASCII)
_DURATION_PART = re.compile(r"([0-9]{1,30}(?:\.[0-9]{1,30})?)\s*([a-z]+)", re.ASCII)
# Prefixes as people mistype them, so that a remedy never names a unit that is refused as well.
_MEANT = {"K": "k", "m": "M", "g": "G", "t": "T", "p": "P"}


class UnitError(ValueError):
    """A quantity that cannot be read, or that two readers could take two ways."""


def _scaled(text: str, number: str, factor: Fraction, unit: str, most: int) -> int:
    value = Fraction(Decimal(number)) * factor
    if value.denominator != 1:
        raise UnitError(f"{text!r} is not a whole number of {unit}")
    if value > most:
        raise UnitError(f"{text!r} is more than any counter or clock can hold ({most} {unit})")
    return int(value)


def _bytes_factor(text: str, unit: str) -> Fraction:
    for suffix, divisor in (("bit", 8), ("B", 1)):
        prefix = unit.removesuffix(suffix)
        if unit.endswith(suffix) and prefix in _PREFIX:
            return Fraction(_PREFIX[prefix], divisor)
    if unit.endswith("b") and (unit[:-1] in _PREFIX or unit[:-1].lower() in ("k", "m", "g", "t", "p")):
        stem = _MEANT.get(unit[:-1], unit[:-1])
        raise UnitError(f"{text!r} is ambiguous: write '{stem}bit' for bits or '{stem}B' for bytes")
    if unit in _PREFIX:
        raise UnitError(f"{text!r} does not say what it counts: write '{unit}B' for bytes or '{unit}bit' for bits")
    raise UnitError(f"{text!r}: unknown unit {unit!r}; use B, kB, MB, GB, KiB, MiB, GiB or kbit, Mbit, Gbit")


def parse_bytes(text: str) -> int:
    """Return the bytes that ``text`` names, for example ``10MB`` (10,000,000) or ``1GiB``.

    Raises:
        UnitError: the text has no unit, an unknown or an ambiguous one, is not a whole number of bytes, or is more
            than 64 bits hold.
    """
    match = _QUANTITY.fullmatch(text.strip())
    if match is None:
        raise UnitError(f"{text!r} is not a size: write a number and a unit, for example '10MB'")
    return _scaled(text, match["number"], _bytes_factor(text, match["unit"]), "bytes", MAX_BYTES)


def parse_rate(text: str) -> Fraction:
    """Return the bytes per second that ``text`` names, exactly, for example ``2GB/h`` or ``10Mbit/s``.

    Raises:
        UnitError: no ``/``, either side cannot be read without doubt, or it is more than 64 bits of bytes a second.
    """
    volume, slash, per = text.strip().partition("/")
    if not slash:
        raise UnitError(f"{text!r} is not a rate: write a volume per time, for example '1MB/s' or '2GB/h'")
    match = _QUANTITY.fullmatch(volume.strip())
    if match is None:
        raise UnitError(f"{text!r} is not a rate: {volume!r} is not a number with a unit")
    per = per.strip()
    if per not in _DURATION_NS or per == "m":
        raise UnitError(f"{text!r}: {per!r} is not a time unit of a rate; use /s, /min, /h or /d")
    factor = _bytes_factor(text, match["unit"])
    rate = Fraction(Decimal(match["number"])) * factor * NS_PER_S / _DURATION_NS[per]
    if rate > MAX_BYTES:
        raise UnitError(f"{text!r} is more than {MAX_BYTES} bytes per second")
    return rate


def parse_rate_bytes_per_s(text: str) -> int:
    """Like :func:`parse_rate`, but refuses a rate that is not a whole number of bytes per second."""
    rate = parse_rate(text)
    if rate.denominator != 1:
        raise UnitError(f"{text!r} is not a whole number of bytes per second ({float(rate):.3f})")
    return int(rate)


def parse_duration_ns(text: str) -> int:
    """Return the nanoseconds that ``text`` names, for example ``300s``, ``3.5s``, ``1h30m``.

    Raises:
        UnitError: the text has no unit, an unknown one, one twice or a larger one after a smaller one, is not a
            whole number of nanoseconds, or is more than 292 years.
    """
    stripped = text.strip()
    total, position, smallest = 0, 0, MAX_NS
    for match in _DURATION_PART.finditer(stripped):
        if stripped[position : match.start()].strip():
            break
        number, unit = match.groups()
        if unit not in _DURATION_NS:
            raise UnitError(f"{text!r}: unknown time unit {unit!r}; use ns, us, ms, s, m, h or d")
        if _DURATION_NS[unit] >= smallest:
            raise UnitError(f"{text!r}: name each time unit once, the largest first, for example '1h30m'")
        smallest = _DURATION_NS[unit]
        total += _scaled(text, number, Fraction(smallest), "nanoseconds", MAX_NS - total)
        position = match.end()
    if position == 0 or stripped[position:].strip():
        raise UnitError(f"{text!r} is not a duration: write a number and a unit, for example '300s' or '1h30m'")
    return total


def format_bytes(value: int) -> str:
    """Return ``value`` bytes for a person: three significant digits, decimal prefix, a space."""
    sign, rest = ("-", -value) if value < 0 else ("", value)
    for prefix, factor in (("kB", 10**3), ("MB", 10**6), ("GB", 10**9), ("TB", 10**12), ("PB", 10**15)):
        number = Fraction(rest, factor)
        # What rounds to 1000 of this prefix is 1.00 of the next.
        if rest >= 1_000 and (number < Fraction(9_995, 10) or prefix == "PB"):
            return f"{sign}{_three_digits(number)} {prefix}"
    return f"{sign}{rest} B"


def format_rate(bytes_per_s: Fraction | float) -> str:
    """Return a rate for a person, for example ``1.00 MB/s``."""
    return f"{format_bytes(round(bytes_per_s))}/s"


def format_duration(value_ns: int) -> str:
    """Return a duration for a person, for example ``3.5 s``, ``12 ms``, ``2 h 5 min``."""
    sign, rest = ("-", -value_ns) if value_ns < 0 else ("", value_ns)
    # Rounded first: what rounds to 60 minutes is an hour, what rounds to 120 s is two minutes.
    seconds = (rest + NS_PER_S // 2) // NS_PER_S
    if seconds >= 3_600:
        minutes = (seconds + 30) // 60
        return f"{sign}{minutes // 60} h" + (f" {minutes % 60} min" if minutes % 60 else "")
    if seconds >= 120:
        return f"{sign}{seconds // 60} min" + (f" {seconds % 60} s" if seconds % 60 else "")
    for unit, factor in (("us", 10**3), ("ms", 10**6), ("s", NS_PER_S)):
        number = Fraction(rest, factor)
        if rest >= 1_000 and (number < Fraction(9_995, 10) or unit == "s"):
            return f"{sign}{float(number):.3g} {unit}"
    return f"{sign}{rest} ns"


def _three_digits(value: Fraction) -> str:
    number = float(value)
    if number >= 99.95:
        return f"{number:.0f}"
    return f"{number:.1f}" if number >= 9.995 else f"{number:.2f}"
