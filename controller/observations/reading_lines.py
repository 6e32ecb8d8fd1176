"""One line of a file of readings: strict, so that what was misspelt is never taken for something else.

Pure. The format is described in ``docs/reference/readings-file.md``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from protos.reading import Direction, Framing, Observer, Reading

MAX_LINE_BYTES = 4_096
"""A line of every key with 20 digits each is 300 bytes long."""
MAX_COUNTER = 2**64 - 1
MAX_TIME_NS = 2**63 - 1
"""The year 2262; what clocks and journals here hold."""
MAX_EPOCH = 2**31 - 1

DROP_COUNTERS = ("limiter_drops", "queue_drops", "steering_drops", "discards", "errors")
"""Counters of what was lost at a place: our own limiter's, a queue's, those of steering rules, the device's own."""
_COUNTERS = ("traffic", *DROP_COUNTERS)
_ALWAYS = frozenset({"observer", "link", "direction", "earliest_ns", "latest_ns"})
_ALLOWED = _ALWAYS | {"bytes", "bytes_slack", "packets", "epoch", "framing", "bits", "counter"}
_BITS = (32, 64)


class LineError(ValueError):
    """A line that is not a reading: what is wrong with it, and what to write instead."""


@dataclass(frozen=True, slots=True)
class Line:
    """One reading and whose it is.

    Attributes:
        counter: ``traffic``, or one of :data:`DROP_COUNTERS`.
        reading: None if the observer answered without a byte count (``"bytes": null``). Of a counter of drops,
            ``bytes`` holds what it counts.
        in_bytes: False for a counter of drops that counts packets.
        bits: the counter begins again at 2 to this power.
    """

    observer: Observer
    link: str
    direction: Direction
    counter: str
    reading: Reading | None
    window_ns: tuple[int, int]
    in_bytes: bool
    bits: int


def parse_line(text: bytes) -> Line:
    """Return the reading in one line.

    Raises:
        LineError: it is none.
    """
    body = _object(text)
    unknown, lacking = sorted(body.keys() - _ALLOWED), sorted(_ALWAYS - body.keys())
    if unknown:
        raise LineError(f"unknown key {unknown[0]!r}. Known are {', '.join(sorted(_ALLOWED))}")
    if lacking:
        raise LineError(f"no {lacking[0]!r}. Every line has {', '.join(sorted(_ALWAYS))}")
    counter = _one_of(body, "counter", _COUNTERS) if "counter" in body else "traffic"
    bits = _bits(body)
    counts = _counts(body, counter, bits)
    reading, window = _reading(body, counter, counts)
    return Line(
        observer=Observer(_one_of(body, "observer", [each.value for each in Observer])),
        link=_link(body["link"]),
        direction=Direction(_one_of(body, "direction", [each.value for each in Direction])),
        counter=counter,
        reading=reading,
        window_ns=window,
        in_bytes="bytes" in counts,
        bits=bits,
    )


def _reading(
    body: Mapping[str, Any], counter: str, counts: Mapping[str, int]
) -> tuple[Reading | None, tuple[int, int]]:
    """Return the reading, None without a count of what is asked for, and the window of time it speaks of."""
    earliest, latest = (_whole(body, key, MAX_TIME_NS) for key in ("earliest_ns", "latest_ns"))
    if earliest > latest:
        raise LineError(
            f"earliest_ns {earliest} is after latest_ns {latest}. A value was true between the two: exchange them"
        )
    framing = Framing.L2_WITHOUT_FCS
    if "framing" in body:
        framing = Framing(_one_of(body, "framing", [each.value for each in Framing]))
    elif counter == "traffic":
        known = ", ".join(each.value for each in Framing)
        raise LineError(f"no 'framing'. Say which bytes of a frame are counted: {known}")
    epoch = _whole(body, "epoch", MAX_EPOCH) if "epoch" in body else 0
    drops = counter != "traffic"
    value = counts.get("bytes", counts.get("packets") if drops else None)
    if value is None:
        return None, (earliest, latest)
    return Reading(earliest, latest, value, None if drops else counts.get("packets"), epoch, framing), (
        earliest,
        latest,
    )


def _counts(body: Mapping[str, Any], counter: str, bits: int) -> dict[str, int]:
    """Return the counts that are there."""
    counts = {key: _whole(body, key, MAX_COUNTER) for key in ("bytes", "packets") if body.get(key) is not None}
    if counter == "traffic" and "bytes" not in body and "packets" not in counts:
        raise LineError("no 'bytes'. Write \"bytes\": null where the observer answered without a byte count")
    if counter != "traffic" and not counts:
        raise LineError(f"neither 'bytes' nor 'packets'. A line of {counter} counts one of them")
    if counts.get("bytes", 0) >> bits:
        raise LineError(f"bytes {counts['bytes']} do not fit into {bits} bits. Correct one of the two")
    return counts


def _bits(body: Mapping[str, Any]) -> int:
    bits = _whole(body, "bits", MAX_COUNTER) if "bits" in body else 64
    if bits not in _BITS:
        raise LineError(f"bits {bits}. Counters have 32 or 64")
    return bits


def _link(value: Any) -> str:
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise LineError(f'link {value!r} is not a name. Write it like "node1/p0": the node, a slash, the port')
    return value


def _object(text: bytes) -> Mapping[str, Any]:
    if len(text) > MAX_LINE_BYTES:
        raise LineError(f"{len(text)} bytes long. A reading needs {MAX_LINE_BYTES} at the most: one object a line")
    try:
        body = json.loads(text.decode(), object_pairs_hook=_once, parse_constant=_no_number, parse_int=str)
    except UnicodeDecodeError as error:
        raise LineError(f"not UTF-8 at byte {error.start}. Write the file in UTF-8") from error
    except (json.JSONDecodeError, RecursionError) as error:
        raise LineError(f"not JSON ({error}). Write one JSON object a line") from error
    if not isinstance(body, dict):
        raise LineError("not a JSON object. Write one JSON object a line")
    return body


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    body = dict(pairs)
    if len(body) < len(pairs):
        twice = next(key for index, (key, _) in enumerate(pairs) if key in dict(pairs[:index]))
        raise LineError(f"key {twice!r} stands twice. Keep one of them")
    return body


def _no_number(text: str) -> Any:
    raise LineError(f"{text} is no count. Write whole numbers, or null for a value that is not there")


def _whole(body: Mapping[str, Any], key: str, most: int) -> int:
    """Return an exact integer: a JSON integer, which the parser keeps as its digits, or a string of digits."""
    value = body[key]
    if not isinstance(value, str) or not value.isascii() or not value.isdigit():
        shown = json.dumps(value) if not isinstance(value, str) else value
        raise LineError(f"{key} {shown[:40]} is not a whole number from 0. Write its digits, as a string or a number")
    if len(value) > 20 or int(value) > most:
        raise LineError(f"{key} {value[:40]} is more than {most}. No counter or clock here holds it")
    return int(value)


def _one_of(body: Mapping[str, Any], key: str, known: list[str] | tuple[str, ...]) -> str:
    value = body[key]
    if value not in known:
        raise LineError(f"{key} {value!r} is not known. Write one of {', '.join(known)}")
    return str(value)
