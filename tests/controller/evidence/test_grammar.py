"""Strict grammars: what Python's own parsers let pass is refused before anything else is looked at."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.evidence.grammar import (
    MAX_DECIMAL,
    MAX_JSON_BYTES,
    base64_bytes,
    decimal,
    json_object,
    sha256_hex,
)
from controller.evidence.refusal import VerificationError


@pytest.mark.parametrize("text", ["+1", " 1", "1 ", "1_000", "01", "-1", "", "٣", "1.0", "0x1", "1\n", str(2**63)])
def test_a_number_that_int_would_take(text: str) -> None:
    with pytest.raises(VerificationError, match="plain decimal"):
        decimal(text, "it")


@given(st.integers(0, MAX_DECIMAL))
def test_every_number_has_one_spelling(number: int) -> None:
    assert decimal(str(number), "it") == number


@pytest.mark.parametrize(
    "text",
    ["QQ", "QQ=", "QQ==\n", "Q Q==", "QR==", "QQ===", "=QQ=", "QQ==QQ==", "*QQ==", "é===", "-_==", "\ud800"],
)
def test_base64_that_b64decode_would_take(text: str) -> None:
    with pytest.raises(VerificationError, match="base64"):
        base64_bytes(text, "it")


@given(st.binary(max_size=100))
def test_base64_round_trip(data: bytes) -> None:
    assert base64_bytes(base64.b64encode(data).decode(), "it") == data
    assert base64_bytes(base64.urlsafe_b64encode(data).decode(), "it", url_safe=True) == data


@pytest.mark.parametrize(
    "raw",
    [
        b'{"a":1,"a":1}',
        b'{"x":{"a":1,"\\u0061":2}}',
        b'{"a":NaN}',
        b'{"a":Infinity}',
        b'{"a":-Infinity}',
        b'{"a":1.0}',
        b'{"a":1e3}',
        b'{"a":-0}',
        b'{"a":9007199254740992}',
        b'{"a":-9007199254740992}',
        b'{"a":' + b"9" * 5000 + b"}",
        b'{"a":"\\ud800"}',
        b'{"\\udfff":1}',
        b'\xef\xbb\xbf{"a":1}',
        b'{"a":"\xff"}',
        b'{"a":1} {"b":2}',
        b'{"a":01}',
        b"[1]",
        b'"text"',
        b"",
        b"[" * 200_000,
        b'{"a":' * 100_000,
    ],
)
def test_json_that_two_readers_would_read_differently(raw: bytes) -> None:
    with pytest.raises(VerificationError):
        json_object(raw, "it")


def test_json_up_to_the_edges() -> None:
    assert json_object(b'{"a":9007199254740991,"b":-1,"c":0,"d":null,"e":[true]}', "it") == {
        "a": 2**53 - 1,
        "b": -1,
        "c": 0,
        "d": None,
        "e": [True],
    }


@given(st.text(max_size=50))
def test_json_text_round_trip(text: str) -> None:
    assert json_object(json.dumps({"t": text}).encode(), "it") == {"t": text}


@pytest.mark.parametrize("item", [b"1,", b"[],", b'"",', b'{"":0},', b"[[1]],"])
def test_as_much_json_as_is_read_costs_little_more_than_reading_it(item: bytes) -> None:
    raw = b'{"a":[' + item * ((MAX_JSON_BYTES - 20) // len(item)) + b"0]}"
    assert _spent(raw) < 0.1 + 100 * _spent(raw, json.loads), "no text makes the checks more than linear"


def test_too_much_json_is_not_even_parsed() -> None:
    raw = b'{"a":[' + b"1," * MAX_JSON_BYTES + b"0]}"
    began = time.process_time()
    with pytest.raises(VerificationError, match="at most"):
        json_object(raw, "it")
    assert time.process_time() - began < _spent(raw, json.loads) / 2


def _spent(raw: bytes, read: Callable[[bytes], object] = lambda raw: json_object(raw, "it")) -> float:
    began = time.process_time()
    read(raw)
    return time.process_time() - began


@pytest.mark.parametrize("text", ["A" * 64, "a" * 63, "a" * 65, "g" * 64, "", " " + "a" * 63, "a" * 64 + "\n"])
def test_a_digest_in_another_spelling(text: str) -> None:
    with pytest.raises(VerificationError):
        sha256_hex(text, "it")
