"""Take JSON apart strictly: the type that is expected, in its one spelling, or a :class:`RecordError`. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, TypeVar

from protos.reading import Missing
from switch.exchange import Oid
from switch.ports import Text, Value

_UINT64 = 2**64 - 1
_INT64 = 2**63 - 1

_T = TypeVar("_T")


class RecordError(ValueError):
    """Bytes that are not a poll as :mod:`switch.record` writes it."""


def no_repeats(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object; a repeated key is an error."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise RecordError("a key is repeated")
    return found


def no_float(said: str) -> NoReturn:
    """Refuse fractions, exponents and NaN."""
    raise RecordError(f"{said} is not a whole number")


def take_object(raw: object, what: str, *keys: str) -> Mapping[str, Any]:
    """Return an object that has exactly ``keys``."""
    if not isinstance(raw, dict) or set(raw) != set(keys):
        raise RecordError(f"{what}: not an object with exactly the keys {', '.join(sorted(keys))}")
    return raw


def take_list(raw: object, what: str) -> list[Any]:
    """Return a list."""
    if not isinstance(raw, list):
        raise RecordError(f"{what}: not a list")
    return raw


def take_string(raw: object, what: str) -> str:
    """Return a string that can be encoded."""
    if not isinstance(raw, str):
        raise RecordError(f"{what}: not a text")
    try:
        raw.encode()
    except UnicodeEncodeError as error:
        raise RecordError(f"{what}: not text: {error}") from error
    return raw


def _decimal(raw: object, what: str, low: int, high: int) -> int:
    text = take_string(raw, what)
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal()) or len(digits) > 20:
        raise RecordError(f"{what}: {text[:40]!r} is not a whole number")
    value = int(text)
    if str(value) != text or not low <= value <= high:
        raise RecordError(f"{what}: {text} is not a plain number from {low} to {high}")
    return value


def take_number(raw: object, what: str) -> int:
    """Return an unsigned 64-bit number from its decimal string."""
    return _decimal(raw, what, 0, _UINT64)


def take_signed(raw: object, what: str) -> int:
    """Return a number that fits 64 bits, with or without sign."""
    return _decimal(raw, what, -_INT64 - 1, _UINT64)


def take_time(raw: object, what: str) -> int:
    """Return a signed 64-bit number of nanoseconds."""
    return _decimal(raw, what, -_INT64 - 1, _INT64)


def take_optional(raw: object, what: str) -> int | None:
    """Return a number, or None for null."""
    return None if raw is None else take_number(raw, what)


def _missing(raw: object, what: str) -> Missing | None:
    if not isinstance(raw, dict):
        return None
    return take_member(Missing, take_object(raw, what, "missing")["missing"], what)


def take_value(raw: object, what: str) -> Value:
    """Return a number, or why it is missing."""
    return _missing(raw, what) or take_number(raw, what)


def take_text(raw: object, what: str) -> Text:
    """Return a text, or why it is missing."""
    return _missing(raw, what) or take_string(raw, what)


def take_hex(raw: object, what: str) -> str:
    """Return lower-case hexadecimal with an even number of digits."""
    text = take_string(raw, what)
    if len(text) % 2 or any(character not in "0123456789abcdef" for character in text):
        raise RecordError(f"{what}: {text[:40]!r} is not lower-case hexadecimal")
    return text


def take_oid(raw: object) -> Oid:
    """Return an object identifier from its dotted form."""
    text = take_string(raw, "object identifier")
    arcs = text.split(".")
    if len(arcs) > 128:
        raise RecordError("an object identifier has at most 128 arcs (RFC 2578, section 3.5)")
    return tuple(_decimal(arc, "object identifier", 0, 2**32 - 1) for arc in arcs)


def take_member(kind: Callable[[str], _T], raw: object, what: str) -> _T:
    """Return the member of an enumeration that has this value."""
    try:
        return kind(take_string(raw, what))
    except ValueError as error:
        raise RecordError(f"{what}: {raw!r:.60} is not known") from error
