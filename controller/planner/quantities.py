"""Quantities as people give them to the planner, exact: every one becomes a :class:`~fractions.Fraction`.

Sizes, rates and durations need their unit (:mod:`protos.units` refuses an ambiguous one); counts and ratios have none.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from controller.planner.marks import PlanError
from protos.units import NS_PER_S, UnitError, parse_bytes, parse_duration_ns, parse_rate

_NUMBER = re.compile(r"[0-9]{1,30}(?:\.[0-9]{1,30})?(?:e\+?[0-9]{1,2}|e-[0-9]{1,2})?", re.ASCII)
_LARGEST = 10**30


@dataclass(frozen=True, slots=True)
class Quantity:
    """A kind of quantity: how it is read and written back.

    Attributes:
        read: the value of a text; raises :class:`PlanError` or :class:`~protos.units.UnitError`.
        write: a text that :attr:`read` takes, exact for counts, else rounded.
        example: for messages.
    """

    read: Callable[[str], Fraction]
    write: Callable[[Fraction], str]
    example: str


def _number(text: str) -> Fraction:
    stripped = text.strip()
    if not _NUMBER.fullmatch(stripped):
        if re.fullmatch(r"-.*", stripped):
            raise PlanError(f"{text!r} is negative")
        if re.fullmatch(r"[0-9.]+\s*[kKMGTPB]\w*", stripped):
            raise PlanError(f"{text!r} has a unit or a prefix; write the plain number, for example 8e9")
        raise PlanError(f"{text!r} is not a number")
    value = Fraction(Decimal(stripped))
    if value > _LARGEST:
        raise PlanError(f"{text!r} is beyond anything that can be built")
    return value


def _ratio(text: str) -> Fraction:
    above, slash, below = text.partition("/")
    value = _number(above)
    if slash:
        under = _number(below)
        if under == 0:
            raise PlanError(f"{text!r} divides by zero")
        value /= under
    return value


def _positive(value: Fraction, text: str) -> Fraction:
    if value <= 0:
        raise PlanError(f"{text!r} must be more than zero")
    return value


def _count(text: str) -> Fraction:
    value = _positive(_number(text), text)
    if value.denominator != 1:
        raise PlanError(f"{text!r} is not a whole number")
    return value


def _share(text: str) -> Fraction:
    value = _positive(_ratio(text), text)
    if value > 1:
        raise PlanError(f"{text!r} is a share: more than 0, at most 1")
    return value


def _bits(text: str) -> Fraction:
    value = _positive(_ratio(text), text)
    if value > 64:
        raise PlanError(f"{text!r}: no number is sent in more than 64 bits")
    return value


def _at_least_one(text: str) -> Fraction:
    value = _ratio(text)
    if value < 1:
        raise PlanError(f"{text!r} would make it larger: a compression factor is 1 or more")
    return value


def _seconds(text: str) -> Fraction:
    return Fraction(parse_duration_ns(text), NS_PER_S)


def _decimal(value: Fraction) -> str:
    return f"{Decimal(value.numerator) / Decimal(value.denominator):.9f}".rstrip("0").rstrip(".")


def _whole(value: Fraction) -> str:
    return str(round(value))


def _written_rate(value: Fraction) -> str:
    """Whole bytes from a thousand a second on: a sweep's points are none the worse for it."""
    return f"{round(value)}B/s" if value >= 1_000 else f"{_decimal(value)}B/s"


MODEL = Quantity(_count, _whole, "8e9")
COUNT = Quantity(_count, _whole, "8")
NUMBER = Quantity(lambda text: _positive(_ratio(text), text), _decimal, "1.5")
FLOPS = Quantity(lambda text: _positive(_ratio(text), text), _decimal, "7.9e15")
AT_LEAST_ZERO = Quantity(_ratio, _decimal, "0.05")
SHARE = Quantity(_share, _decimal, "64/4096")
BITS = Quantity(_bits, _decimal, "16")
FACTOR = Quantity(_at_least_one, _decimal, "16")
SECONDS = Quantity(lambda text: _positive(_seconds(text), text), lambda value: f"{_decimal(value)}s", "40s")
LATENCY = Quantity(_seconds, lambda value: f"{_decimal(value)}s", "100ms")
SIZE = Quantity(lambda text: _positive(Fraction(parse_bytes(text)), text), lambda value: f"{round(value)}B", "108MB")
DEPTH = Quantity(lambda text: Fraction(parse_bytes(text)), lambda value: f"{round(value)}B", "64kB")
RATE = Quantity(lambda text: _positive(parse_rate(text), text), _written_rate, "1MB/s")


def read(quantity: Quantity, name: str, text: str) -> Fraction:
    """Return the value of ``text``, given as ``--name``.

    Raises:
        PlanError: it cannot be read, or is impossible; the message names the parameter.
    """
    try:
        return quantity.read(text)
    except (PlanError, UnitError) as error:
        raise PlanError(f"--{name}: {error}. Write for example `--{name} {quantity.example}`") from error
