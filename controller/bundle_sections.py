"""What a bundle is made of: sections ``NAME LENGTH NEWLINE bytes NEWLINE``, none longer than its kind may be."""

from __future__ import annotations

from typing import BinaryIO

from controller.errors import OperatorError
from controller.evidence.grammar import MAX_JSON_BYTES, decimal, utf8
from controller.evidence.note import MAX_NOTE_BYTES
from controller.evidence.refusal import VerificationError
from controller.journal_entry import MAX_BODY_BYTES
from controller.journal_leaf import MAX_LEAF_BYTES

CHUNK_BYTES = 16 * 2**20
"""A chunk is full with the entry that reaches this."""

MAX_CHUNK_BYTES = CHUNK_BYTES + MAX_BODY_BYTES + 2 * MAX_LEAF_BYTES
"""What a chunk can hold, unpacked or not."""

_MAX_LINE_BYTES = 64
_MAX_PATH_BYTES = 64 * 64

# An envelope is its payload in base64, and some signatures.
LIMITS = {
    "envelope": 2 * MAX_JSON_BYTES,
    "result": 64 * 2**20,
    "checkpoint": MAX_NOTE_BYTES,
    "report": MAX_LEAF_BYTES,
    "inclusion": _MAX_PATH_BYTES,
    "evidence": _MAX_PATH_BYTES,
    "chunk": MAX_CHUNK_BYTES,
    "leaf": MAX_LEAF_BYTES,
    "body": MAX_BODY_BYTES,
    "dropped": 0,
}
"""The most bytes of each section."""


def write_section(file: BinaryIO, name: str, data: bytes) -> None:
    """Write one section.

    Raises:
        OperatorError: it has more bytes than any reader takes.
    """
    if len(data) > LIMITS[name]:
        raise OperatorError(f"the bundle's {name} would have {len(data)} bytes, more than any reader takes.")
    file.write(f"{name} {len(data)}\n".encode())
    file.write(data)
    file.write(b"\n")


def read_line(file: BinaryIO) -> str:
    """Return the line that comes next, without its newline; empty at the end of the file.

    Raises:
        VerificationError: it is too long for one, or the file ends within it.
    """
    raw = file.readline(_MAX_LINE_BYTES)
    if raw and not raw.endswith(b"\n"):
        raise VerificationError("the bundle ends within a line, or has a line that is none of its own")
    return utf8(raw[:-1], "a line of the bundle")


def read_section(file: BinaryIO, name: str, line: str) -> bytes:
    """Return the bytes of the section ``name`` that begins with ``line``, which has been read.

    Raises:
        VerificationError: it is another section, longer than its kind may be, or cut short.
    """
    found, _, length = line.partition(" ")
    if found != name:
        raise VerificationError(f"the bundle has something else where its {name} belongs")
    count = decimal(length, f"the length of the bundle's {name}")
    if count > LIMITS[name]:
        raise VerificationError(f"the bundle's {name} is said to have more than {LIMITS[name]} bytes")
    data = file.read(count)
    if len(data) != count or file.read(1) != b"\n":
        raise VerificationError(f"the bundle ends within its {name}, or it has another length than it says")
    return data
