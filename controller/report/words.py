"""How the report writes numbers, times and names: for people, rounded so that a bound stays a bound.

A lower bound is always rounded down and an upper bound up, so that no printed interval is narrower than the
evidence. Every number has a unit. The exact integer stands beside it (in HTML on hover and in the link's details).
"""

from __future__ import annotations

import unicodedata
from datetime import datetime, timedelta, timezone

from protos.units import NS_PER_S, format_duration

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_UNITS = (("PB", 10**15), ("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 10**3), ("B", 1))
_MOST_DIGITS = 6
"""More digits than these are in the exact number beside it; a row of four observers must fit a page."""
_DASH = "\N{EN DASH}"
# Characters that are invisible or reorder what stands around them: a name from a device may hold them.
_HIDDEN_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def shown(name: str) -> str:
    r"""Return ``name`` with every invisible or reordering character written out, for example ``\u202e``."""
    return "".join(
        character
        if unicodedata.category(character) not in _HIDDEN_CATEGORIES
        else character.encode("unicode_escape").decode("ascii")
        for character in name
    )


def shortened(name: str, longest: int) -> str:
    """Return ``name`` cut in the middle to ``longest`` characters: ends tell names of one site apart."""
    if len(name) <= longest:
        return name
    head = (longest - 1) // 2
    return f"{name[:head]}\N{HORIZONTAL ELLIPSIS}{name[len(name) - (longest - 1 - head) :]}"


def natural(name: str) -> list[tuple[int, int, str]]:
    """Return a sorting key that puts node2 before node10."""
    parts: list[tuple[int, int, str]] = []
    digits = ""
    for character in f"{name}\0":
        if character.isascii() and character.isdigit():
            digits += character
            continue
        if digits:
            parts.append((0, int(digits), ""))
            digits = ""
        parts.append((1, 0, character))
    return parts


# ---------------------------------------------------------------- bytes


def exact(value: int) -> str:
    """Return every digit, for example ``214,783,210 B``."""
    return f"{value:,} B"


def exact_interval(lower: int, upper: int | None) -> str:
    """Return both ends with every digit."""
    if upper is None:
        return f"at least {exact(lower)}, no upper bound"
    return exact(lower) if lower == upper else f"{lower:,} to {upper:,} B"


def floor_bytes(value: int) -> str:
    """Return ``value`` bytes in three or four digits, never more than it is."""
    return _scaled_with_unit(value, up=False)


def ceil_bytes(value: int) -> str:
    """Return ``value`` bytes in three or four digits, never less than it is."""
    return _scaled_with_unit(value, up=True)


def declared_bytes(value: int) -> str:
    """Return a value that people agreed on as they would write it, ``10 MB``; digits that matter are all kept."""
    unit, factor = _unit_of(value)
    whole, rest = divmod(value, factor)
    if rest == 0:
        return f"{whole:,} {unit}"
    decimals = f"{rest:0{len(str(factor)) - 1}d}".rstrip("0")
    return f"{whole:,}.{decimals} {unit}"


def interval(lower: int, upper: int | None) -> str:
    """Return the interval as a table cell, both ends in one unit and with as many decimals as tell them apart.

    Rounded outwards; ``214.783-214.793 MB`` with an en dash, ``at least 20.0 MB`` without an upper bound.
    """
    if upper is None:
        return f"at least {floor_bytes(lower)}" if lower else "no bound"
    if lower == upper:
        return exact(lower)
    if lower * 20 < upper:
        low = floor_bytes(lower) if lower else "0"
        return f"{low}{_DASH}{ceil_bytes(upper)}" if lower == 0 else f"{low} {_DASH} {ceil_bytes(upper)}"
    unit, factor, decimals = _common_scale(lower, upper)
    low, high = _scaled(lower, factor, decimals, up=False), _scaled(upper, factor, decimals, up=True)
    return f"{low}{_DASH}{high} {unit}"


def brief(lower: int, upper: int | None) -> str:
    """Return the interval for a narrow column: ``214 MB`` where both ends read alike, else ``191-341 MB``.

    Three digits: the lower end is rounded down and the upper up, and they read alike only if nothing was lost
    by more than the last digit.
    """
    if upper is None:
        return f">= {floor_bytes(lower)}"
    low, high = floor_bytes(lower), ceil_bytes(upper)
    if low == high or (upper - lower) * 200 < upper:
        return low if low == high else f"~{low}"
    low_digits, low_unit = low.split(" ")
    high_digits, high_unit = high.split(" ")
    return f"{low_digits}-{high}" if low_unit == high_unit or lower == 0 else f"{low}-{high_digits} {high_unit}"


def between(lower: int, upper: int | None) -> str:
    """Return the interval in prose: ``between 1.234 MB and 1.240 MB``."""
    if upper is None:
        return f"at least {floor_bytes(lower)}"
    if lower == upper:
        return f"exactly {exact(lower)}"
    if lower == 0:
        return f"at most {ceil_bytes(upper)}"
    if lower * 20 < upper:
        return f"between {floor_bytes(lower)} and {ceil_bytes(upper)}"
    unit, factor, decimals = _common_scale(lower, upper)
    low, high = _scaled(lower, factor, decimals, up=False), _scaled(upper, factor, decimals, up=True)
    return f"between {low} {unit} and {high} {unit}"


def _common_scale(lower: int, upper: int) -> tuple[str, int, int]:
    unit, factor = _unit_of(upper)
    decimals = max(0, _decimals_for_three_digits(upper, factor))
    whole_digits = len(str(upper // factor))
    while factor > 1 and whole_digits + decimals < _MOST_DIGITS and factor // 10**decimals > upper - lower:
        decimals += 1
    return unit, factor, 0 if factor == 1 else decimals


def _unit_of(value: int) -> tuple[str, int]:
    return next(((unit, factor) for unit, factor in _UNITS if value >= factor), _UNITS[-1])


def _decimals_for_three_digits(value: int, factor: int) -> int:
    return 3 - len(str(value // factor)) if factor > 1 else 0


def _scaled_with_unit(value: int, *, up: bool) -> str:
    unit, factor = _unit_of(value)
    decimals = max(0, _decimals_for_three_digits(value, factor))
    text = _scaled(value, factor, decimals, up=up)
    if text == "1,000" and 1 < factor < _UNITS[0][1]:  # rounding up reached the next unit, which there is
        return _scaled_with_unit(1_000 * factor, up=up)
    return f"{text} {unit}"


def _scaled(value: int, factor: int, decimals: int, *, up: bool) -> str:
    step = 10**decimals
    scaled = -(-value * step // factor) if up else value * step // factor
    whole, rest = divmod(scaled, step)
    return f"{whole:,}.{rest:0{decimals}d}" if decimals else f"{whole:,}"


# ---------------------------------------------------------------- shares


def floor_percent(share: float) -> str:
    """Return a share that must not be overstated (coverage): ``100 %`` only when it is all."""
    return "100 %" if share >= 1 else f"{int(share * 1000) / 10:.1f} %"


def ceil_share(part: int, whole: int) -> str:
    """Return ``part`` of ``whole`` as a percentage that must not be understated; ``whole`` is not 0."""
    basis_points = -(-part * 10_000 // whole)
    if basis_points < 1_000:
        return f"{basis_points / 100:.2f} %"
    return f"{-(-part * 100 // whole):,} %"


def excess(least: int, allowed: int, what: str) -> str:
    """Return by how much ``least`` exceeds ``allowed``: ``19 times the limit``, close above it ``42 B over the limit``.

    Rounded down; ``what`` is the words for ``allowed``.
    """
    if allowed == 0 or least * 10 < allowed * 11:
        return f"{floor_bytes(least - allowed)} over {what}"
    tenths = least * 10 // allowed
    return f"{tenths / 10:.1f} times {what}" if tenths < 100 else f"{tenths // 10:,} times {what}"


# ---------------------------------------------------------------- times


def moment(at_ns: int) -> datetime:
    """Return the UTC time of a nanosecond count, cut to microseconds."""
    return _EPOCH + timedelta(microseconds=at_ns // 1_000)


def date_of(at_ns: int) -> str:
    """Return the UTC date, for example ``2026-03-02``."""
    return moment(at_ns).strftime("%Y-%m-%d")


def clock_of(at_ns: int) -> str:
    """Return the UTC time of day with the decimals it needs: ``21:28:04``, ``21:28:04.5``."""
    time = moment(at_ns)
    text = time.strftime("%H:%M:%S")
    milliseconds = time.microsecond // 1_000
    return f"{text}.{milliseconds:03d}".rstrip("0") if milliseconds else text


def when(at_ns: int, day_of_ns: int) -> str:
    """Return a UTC time; the date only if it is another than that of ``day_of_ns``."""
    clock = clock_of(at_ns)
    return clock if date_of(at_ns) == date_of(day_of_ns) else f"{date_of(at_ns)} {clock}"


def span(from_ns: int, to_ns: int, day_of_ns: int) -> str:
    """Return ``21:28:04 to 21:28:14 UTC (10 s)``."""
    first, last = when(from_ns, day_of_ns), when(to_ns, from_ns)
    return f"{first} to {last} UTC ({lasting(to_ns - from_ns)})"


def period(from_ns: int, to_ns: int) -> str:
    """Return the period with its dates, for the headline."""
    last = when(to_ns, from_ns)
    return f"{date_of(from_ns)}, {clock_of(from_ns)} to {last} UTC ({lasting(to_ns - from_ns)})"


def lasting(value_ns: int) -> str:
    """Return a duration for a person with a plain-ASCII microsecond."""
    if value_ns > 0 and value_ns % NS_PER_S == 0 and value_ns < 3_600 * NS_PER_S and value_ns // NS_PER_S < 120:
        return f"{value_ns // NS_PER_S} s"
    return format_duration(value_ns)


# ---------------------------------------------------------------- lists and plurals


def listed(names: list[str], *, most: int = 4) -> str:
    """Return ``a, b and c``; past ``most``, ``a, b, c and 17 more``."""
    if len(names) > most:
        names = [*names[: most - 1], f"{len(names) - most + 1} more"]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def counted(count: int, one: str, many: str | None = None) -> str:
    """Return ``1 link``, ``4 links``, ``no links``."""
    word = one if count == 1 else (many if many is not None else f"{one}s")
    return f"{'no' if count == 0 else f'{count:,}'} {word}"
