"""One line of a file of readings: what is read, and what is refused with a remedy."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.observations.reading_lines import LineError, parse_line
from protos.reading import Direction, Framing, Observer, Reading

GOOD: dict[str, object] = {
    "observer": "switch",
    "link": "node1/p0",
    "direction": "egress",
    "earliest_ns": "1000",
    "latest_ns": "2000",
    "bytes": "18446744073709551615",
    "packets": "7",
    "epoch": 2,
    "framing": "l1",
    "bits": 64,
}


def line(**changed: object) -> bytes:
    body = {**GOOD, **changed}
    return json.dumps({key: value for key, value in body.items() if value != "-"}).encode()


def test_a_line_is_its_reading() -> None:
    read = parse_line(line())
    assert (read.observer, read.link, read.direction) == (Observer.SWITCH, "node1/p0", Direction.EGRESS)
    assert read.reading == Reading(1_000, 2_000, 2**64 - 1, 7, 2, Framing.L1)
    assert (read.counter, read.bits, read.window_ns) == ("traffic", 64, (1_000, 2_000))


def test_numbers_may_be_numbers_and_what_is_optional_has_a_stated_value() -> None:
    read = parse_line(line(bytes=2**64 - 1, packets="-", epoch="-", bits="-", earliest_ns=1_000, latest_ns=2_000))
    assert read.reading == Reading(1_000, 2_000, 2**64 - 1, None, 0, Framing.L1)


def test_bytes_that_are_null_are_absent_and_not_zero() -> None:
    assert parse_line(line(bytes=None)).reading is None
    assert parse_line(line(bytes="-")).reading is None  # packets without bytes


@pytest.mark.parametrize(
    ("changed", "value", "in_bytes"),
    [
        ({"bytes": "5", "packets": "-"}, 5, True),
        ({"bytes": "-", "packets": 3}, 3, False),
        ({"packets": 3}, 2**64 - 1, True),
    ],
)
def test_a_counter_of_drops_counts_bytes_or_else_packets(
    changed: dict[str, object], value: int, in_bytes: bool
) -> None:
    read = parse_line(line(counter="limiter_drops", framing="-", **changed))
    assert read.reading is not None
    assert (read.counter, read.reading.bytes, read.in_bytes) == ("limiter_drops", value, in_bytes)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"\xff{}", "not UTF-8 at byte 0"),
        (b"[1]", "not a JSON object"),
        (b"[" * 3_000, "not JSON"),
        (b"{" + b" " * 5_000 + b"}", "5002 bytes long"),
        (b'{"bytes": 1, "bytes": 2}', "key 'bytes' stands twice"),
        (line(bytes=float("nan")), "NaN is no count"),
        (line(byte="1"), "unknown key 'byte'"),
        (line(link="-"), "no 'link'"),
        (line(bytes="-", packets="-"), "no 'bytes'"),
        (line(framing="-"), "no 'framing'"),
        (line(framing="l3"), "framing 'l3' is not known"),
        (line(observer="dpu"), "observer 'dpu' is not known"),
        (line(observer=["switch"]), "is not known"),
        (line(direction="tx"), "direction 'tx' is not known"),
        (line(bytes=-1), "bytes -1 is not a whole number"),
        (line(bytes="1e3"), "is not a whole number"),
        (line(bytes=1.5), "bytes 1.5 is not a whole number"),
        (line(bytes=True), "bytes true is not a whole number"),
        (line(bytes="٣"), "is not a whole number"),
        (line(bytes=2**64), "is more than 18446744073709551615"),
        (line(bytes="9" * 400), "is more than"),
        (line(earliest_ns=2**63), "is more than"),
        (line(packets=2**64), "is more than"),
        (line(earliest_ns=2_001), "exchange them"),
        (line(bits=32), "do not fit into 32 bits"),
        (line(bits=48), "Counters have 32 or 64"),
        (line(link=" "), "is not a name"),
        (line(link="node1/\u0007"), "is not a name"),
        (line(counter="drops"), "counter 'drops' is not known"),
        (line(counter="errors", bytes="-", packets="-"), "neither 'bytes' nor 'packets'"),
    ],
    ids=lambda value: value if isinstance(value, str) else "line",
)
def test_what_is_no_reading_is_refused_with_a_remedy(text: bytes, said: str) -> None:
    with pytest.raises(LineError) as error:
        parse_line(text)
    assert said in str(error.value)
    assert ". " in str(error.value) or "(" in str(error.value)


lines = st.dictionaries(st.sampled_from(sorted(GOOD)), st.integers() | st.text() | st.none())


@given(st.binary(max_size=200) | lines.map(lambda body: json.dumps(body).encode()))
def test_no_line_raises_anything_else(text: bytes) -> None:
    with contextlib.suppress(LineError):
        assert parse_line(text).window_ns[0] >= 0
