"""The file that a stranger is handed: one line, then sections ``NAME LENGTH NEWLINE bytes NEWLINE``, in a fixed order.

``weighbridge bundle v1 full`` or ``... summary``, then

==============  =====================================================================================
``envelope``    the signed statement (DSSE)
``result``      the cross-check's JSON document, whose digest the statement names
``checkpoint``  the log's signed checkpoint, with the cosignatures that there are
``report``      the data of the leaf that the envelope is in the log
``inclusion``   the path from that leaf to the checkpoint's root, one base64 hash a line
``evidence``    the path from the tree of the evidence to the checkpoint's, likewise
``leaf``        full bundles only, for each entry of the evidence in order: the leaf's data, and
``body``        the entry's exact bytes; or ``dropped``, empty, where a journaled decision dropped them
==============  =====================================================================================

Lengths stand before the bytes, so that nothing is searched for, escaped or unpacked, and all that is hostile is
refused before it is read. Nothing in a bundle is trusted for being there: :mod:`controller.bundle_steps`.
"""

from __future__ import annotations

import base64
import contextlib
import enum
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from controller.errors import OperatorError
from controller.evidence.grammar import MAX_JSON_BYTES, base64_bytes, decimal, utf8
from controller.evidence.leaf import MAX_LEAF_BYTES
from controller.evidence.note import MAX_NOTE_BYTES
from controller.evidence.refusal import VerificationError
from controller.journal_entry import MAX_BODY_BYTES

_FIRST_LINE = "weighbridge bundle v1 "
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
    "leaf": MAX_LEAF_BYTES,
    "body": MAX_BODY_BYTES,
    "dropped": 0,
}
"""The most bytes of each section, in the order of sections."""


class Extent(enum.Enum):
    """How much a bundle carries."""

    FULL = "full"
    SUMMARY = "summary"


@dataclass(frozen=True, slots=True)
class Head:
    """Everything in a bundle but the entries."""

    extent: Extent
    envelope: bytes
    result: bytes
    checkpoint: bytes
    report: bytes
    inclusion: tuple[bytes, ...]
    evidence: tuple[bytes, ...]


def write_bundle(path: Path, head: Head, entries: Iterable[tuple[bytes, bytes | None]]) -> None:
    """Write a bundle in one step: who reads ``path`` sees the old file or the whole new one.

    Args:
        path: where.
        head: everything but the entries.
        entries: each one's leaf and body; None for a body that was dropped.

    Raises:
        OperatorError: it cannot be written; what was there is there still.
    """
    fresh = path.with_name(f".{path.name}.new-{os.getpid()}")
    try:
        with fresh.open("wb") as file:
            file.write(f"{_FIRST_LINE}{head.extent.value}\n".encode())
            for name in ("envelope", "result", "checkpoint", "report"):
                _write(file, name, getattr(head, name))
            _write(file, "inclusion", _encode_path(head.inclusion))
            _write(file, "evidence", _encode_path(head.evidence))
            for leaf, body in entries:
                _write(file, "leaf", leaf)
                _write(file, "dropped" if body is None else "body", body or b"")
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    except OSError as error:
        raise OperatorError(
            f"{path}: cannot be written ({error.strerror}). Check the folder and its rights."
        ) from error
    finally:
        with contextlib.suppress(OSError):
            fresh.unlink()


def read_head(file: BinaryIO) -> Head:
    """Read a bundle up to its entries.

    Raises:
        VerificationError: it is no bundle.
    """
    line = _text_line(file.readline(_MAX_LINE_BYTES))
    extents = {f"{_FIRST_LINE}{extent.value}": extent for extent in Extent}
    if line not in extents:
        raise VerificationError("this is not a weighbridge bundle of version 1")
    sections = {name: _data(file, name, file.readline(_MAX_LINE_BYTES)) for name in list(LIMITS)[:6]}
    return Head(
        extents[line],
        sections["envelope"],
        sections["result"],
        sections["checkpoint"],
        sections["report"],
        _decode_path(sections["inclusion"]),
        _decode_path(sections["evidence"]),
    )


def read_entries(file: BinaryIO) -> Iterator[tuple[bytes, bytes | None]]:
    """Yield the data of each leaf and its body, None for one that was dropped, to the end of the file.

    Raises:
        VerificationError: what is there is not that.
    """
    while line := file.readline(_MAX_LINE_BYTES):
        leaf = _data(file, "leaf", line)
        line = file.readline(_MAX_LINE_BYTES)
        if line.startswith(b"dropped "):
            _data(file, "dropped", line)
            yield leaf, None
        else:
            yield leaf, _data(file, "body", line)


def _write(file: BinaryIO, name: str, data: bytes) -> None:
    if len(data) > LIMITS[name]:
        raise OperatorError(f"the bundle's {name} would have {len(data)} bytes, more than any reader takes.")
    file.write(f"{name} {len(data)}\n".encode())
    file.write(data)
    file.write(b"\n")


def _text_line(raw: bytes) -> str:
    if not raw.endswith(b"\n"):
        raise VerificationError("the bundle ends within a line, or has a line that is none of its own")
    return utf8(raw[:-1], "a line of the bundle")


def _data(file: BinaryIO, name: str, line: bytes) -> bytes:
    """Return the section ``name`` that begins with ``line``, which has been read."""
    found, _, length = _text_line(line).partition(" ")
    if found != name:
        raise VerificationError(f"the bundle has something else where its {name} belongs")
    count = decimal(length, f"the length of the bundle's {name}")
    if count > LIMITS[name]:
        raise VerificationError(f"the bundle's {name} is said to have more than {LIMITS[name]} bytes")
    data = file.read(count)
    if len(data) != count or file.read(1) != b"\n":
        raise VerificationError(f"the bundle ends within its {name}, or it has another length than it says")
    return data


def _encode_path(path: Sequence[bytes]) -> bytes:
    return b"".join(base64.b64encode(each) + b"\n" for each in path)


def _decode_path(raw: bytes) -> tuple[bytes, ...]:
    *lines, rest = utf8(raw, "a proof of the bundle").split("\n")
    if rest:
        raise VerificationError("a proof of the bundle does not end with a newline")
    return tuple(base64_bytes(line, "a proof of the bundle") for line in lines)
