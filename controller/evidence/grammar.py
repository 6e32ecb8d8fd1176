"""Strict grammars: each value has one spelling, and every other spelling is refused.

Python's own are too kind for evidence: ``int()`` takes ``"+1"``, ``" 1"``, ``"1_000"`` and ``"01"``; ``b64decode``
takes junk and, with ``validate=True``, still padding bits that are not zero; ``json.loads`` takes duplicate keys
(the last one wins) and NaN. Two readers that disagree about a value are an attack.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from typing import Any, Union

from controller.evidence.refusal import VerificationError

Json = Union[None, bool, int, str, list["Json"], dict[str, "Json"]]  # noqa: UP007  recursive, on 3.10
"""No floats: what is measured is whole, and a fraction has many spellings."""

MAX_JSON_BYTES = 2**20
"""One envelope's payload; bulk travels beside it as bytes, so that little of what is hostile is ever parsed."""

MAX_JSON_INTEGER = 2**53 - 1
"""Above it JavaScript rounds in silence; counters and times are decimal strings."""

MAX_DECIMAL = 2**63 - 1
"""What every reader of the formats holds; ``tlog-cosignature`` bounds times by it."""

_DECIMAL = re.compile(r"0|[1-9][0-9]{0,18}", re.ASCII)
_HEX_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)
_JSON_INTEGER = re.compile(r"-?[1-9][0-9]{0,15}|0", re.ASCII)


def decimal(text: str, what: str) -> int:
    """Return the number in ``text``: ASCII digits without sign or leading zero, at most :data:`MAX_DECIMAL`.

    Raises:
        VerificationError: it is spelt otherwise.
    """
    if not _DECIMAL.fullmatch(text) or int(text) > MAX_DECIMAL:
        raise VerificationError(f"{what} is not a plain decimal number up to {MAX_DECIMAL}")
    return int(text)


def base64_bytes(text: str, what: str, *, url_safe: bool = False) -> bytes:
    """Return the bytes in ``text``: RFC 4648 section 4 (or 5), padded, unused bits zero, nothing else in it.

    Raises:
        VerificationError: it is spelt otherwise.
    """
    decode, encode = (
        (base64.urlsafe_b64decode, base64.urlsafe_b64encode) if url_safe else (base64.b64decode, base64.b64encode)
    )
    try:
        raw = text.encode("ascii")
        data = decode(raw)
    except (ValueError, binascii.Error):
        data, raw = b"", b"?"
    if encode(data) != raw:
        raise VerificationError(f"{what} is not strict base64")
    return data


def utf8(raw: bytes, what: str) -> str:
    """Return the text in ``raw``.

    Raises:
        VerificationError: it is not UTF-8.
    """
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise VerificationError(f"{what} is not UTF-8") from error


def json_object(raw: bytes, what: str) -> dict[str, Json]:
    """Return the JSON object in ``raw``, which has no duplicate key, no fraction and no integer beyond 2^53-1.

    Raises:
        VerificationError: it is too long or too deep, not JSON, no object, or has one of these.
    """
    if len(raw) > MAX_JSON_BYTES:
        raise VerificationError(f"{what} has {len(raw)} bytes; at most {MAX_JSON_BYTES} are read")

    def refuse(literal: str) -> Any:
        raise VerificationError(f"{what} holds the number {literal[:20]!r}; only plain integers up to 2^53-1 are read")

    def integer(literal: str) -> int:
        if not _JSON_INTEGER.fullmatch(literal) or abs(int(literal)) > MAX_JSON_INTEGER:
            refuse(literal)
        return int(literal)

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            raise VerificationError(f"{what} has the same key twice in one object")
        return found

    try:
        value = json.loads(
            utf8(raw, what), object_pairs_hook=once, parse_float=refuse, parse_constant=refuse, parse_int=integer
        )
        # Half a surrogate pair is no character: it can be escaped in JSON and then written nowhere.
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except (ValueError, RecursionError) as error:
        raise VerificationError(f"{what} is not JSON that can be read") from error
    if not isinstance(value, dict):
        raise VerificationError(f"{what} is not a JSON object")
    return value


def text_of(table: dict[str, Json], key: str, what: str) -> str:
    """Return the string under ``key``.

    Raises:
        VerificationError: there is none.
    """
    value = table.get(key)
    if not isinstance(value, str):
        raise VerificationError(f"{what} has no text under {key!r}")
    return value


def sha256_hex(text: str, what: str) -> bytes:
    """Return the digest in ``text``: 64 lower-case hexadecimal digits.

    Raises:
        VerificationError: it is spelt otherwise.
    """
    if not _HEX_SHA256.fullmatch(text):
        raise VerificationError(f"{what} is not a SHA-256 in lower-case hexadecimal")
    return bytes.fromhex(text)
