"""Strict grammars: each value has one spelling, and every other spelling is refused.

Python's own are too kind for evidence: ``int()`` takes ``"+1"``, ``" 1"``, ``"1_000"`` and ``"01"``; ``b64decode``
takes junk and, with ``validate=True``, still padding bits that are not zero; ``json.loads`` takes duplicate keys
(the last one wins) and NaN. Two readers that disagree about a value are an attack.
"""

from __future__ import annotations

import base64
import json
import re
from typing import Any, Union

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from controller.evidence.refusal import VerificationError
from protos.signing import SignatureRejected, load_public_key

Json = Union[None, bool, int, str, list["Json"], dict[str, "Json"]]  # noqa: UP007  recursive, on 3.10
"""No floats: what is measured is whole, and a fraction has many spellings."""

MAX_JSON_BYTES = 2**20
"""One envelope's payload; bulk travels beside it as bytes, so that little of what is hostile is ever parsed."""

MAX_JSON_INTEGER = 2**53 - 1
"""Above it JavaScript rounds in silence; counters and times are decimal strings."""

MAX_DECIMAL = 2**63 - 1
"""What every reader of the formats holds; ``tlog-cosignature`` bounds times by it."""


def decimal(text: str, what: str) -> int:
    """Return the number in ``text``: ASCII digits without sign or leading zero, at most :data:`MAX_DECIMAL`."""
    if not re.fullmatch(r"0|[1-9][0-9]{0,18}", text) or int(text) > MAX_DECIMAL:
        raise VerificationError(f"{what} is not a plain decimal number up to {MAX_DECIMAL}")
    return int(text)


def base64_bytes(text: str, what: str, *, url_safe: bool = False) -> bytes:
    """Return the bytes in ``text``: RFC 4648 section 4 (or 5), padded, unused bits zero, nothing else in it."""
    alphabet = b"-_" if url_safe else None
    try:
        data = base64.b64decode(text, alphabet)
    except ValueError as error:
        raise VerificationError(f"{what} is not base64") from error
    if base64.b64encode(data, alphabet) != text.encode("ascii"):
        raise VerificationError(f"{what} is not strict base64")
    return data


def sha256_hex(text: str, what: str) -> bytes:
    """Return the digest in ``text``: 64 lower-case hexadecimal digits."""
    if not re.fullmatch(r"[0-9a-f]{64}", text):
        raise VerificationError(f"{what} is not a SHA-256 in lower-case hexadecimal")
    return bytes.fromhex(text)


def public_key(raw: bytes, what: str) -> Ed25519PublicKey:
    """Return the Ed25519 key in ``raw``: 32 bytes, canonical, and not of low order, which fits every message."""
    try:
        return load_public_key(raw)
    except SignatureRejected as error:
        raise VerificationError(f"{what}: {error}") from error


def utf8(raw: bytes, what: str) -> str:
    """Return the text in ``raw``."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise VerificationError(f"{what} is not UTF-8") from error


def json_object(raw: bytes, what: str) -> dict[str, Json]:
    """Return the JSON object in ``raw``, which has no duplicate key, no fraction and no integer beyond 2^53-1."""
    if len(raw) > MAX_JSON_BYTES:
        raise VerificationError(f"{what} has {len(raw)} bytes; at most {MAX_JSON_BYTES} are read")

    def refuse(literal: str) -> Any:
        raise VerificationError(f"{what} holds the number {literal[:20]!r}; only plain integers up to 2^53-1 are read")

    def integer(literal: str) -> int:
        if not re.fullmatch(r"-?[1-9][0-9]{0,15}|0", literal) or abs(int(literal)) > MAX_JSON_INTEGER:
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
    """Return the string under ``key``."""
    value = table.get(key)
    if not isinstance(value, str):
        raise VerificationError(f"{what} has no text under {key!r}")
    return value
