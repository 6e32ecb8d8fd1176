"""The file that a stranger is handed: one line, then sections ``NAME LENGTH NEWLINE bytes NEWLINE``, in a fixed order.

``weighbridge bundle v2 full`` or ``... summary``, then

==============  =====================================================================================
``envelope``    the signed statement (DSSE)
``result``      the cross-check's JSON document, whose digest the statement names
``checkpoint``  the log's signed checkpoint, with the cosignatures that there are
``report``      the data of the leaf that the envelope is in the log
``inclusion``   the path from that leaf to the checkpoint's root, one base64 hash a line
``evidence``    the path from the tree of the evidence to the checkpoint's, likewise
==============  =====================================================================================

and in full bundles every entry of the evidence (:mod:`controller.bundle_entries`). Lengths stand before the bytes, so
that all that is hostile is refused before it is read. Nothing in a bundle is trusted for being there:
:mod:`controller.bundle_steps`. Bundles of version 1 are read for ever.
"""

from __future__ import annotations

import base64
import contextlib
import enum
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from controller.bundle_entries import write_entries
from controller.bundle_sections import read_line, read_section, write_section
from controller.errors import OperatorError
from controller.evidence.grammar import base64_bytes, utf8
from controller.evidence.refusal import VerificationError

VERSION = 2
"""What is written. Version 1 had no chunks, and no body was missing but by a journaled decision."""

_FIRST_LINE = "weighbridge bundle v"
_SECTIONS = ("envelope", "result", "checkpoint", "report", "inclusion", "evidence")


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
    version: int = VERSION


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
            file.write(f"{_FIRST_LINE}{head.version} {head.extent.value}\n".encode())
            for name in ("envelope", "result", "checkpoint", "report"):
                write_section(file, name, getattr(head, name))
            write_section(file, "inclusion", _encode_path(head.inclusion))
            write_section(file, "evidence", _encode_path(head.evidence))
            write_entries(file, entries, packed=head.version > 1)
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
    line = read_line(file)
    kinds = {f"{_FIRST_LINE}{version} {extent.value}": (version, extent) for version in (1, 2) for extent in Extent}
    if line not in kinds:
        raise VerificationError("this is not a weighbridge bundle of version 1 or 2")
    version, extent = kinds[line]
    sections = {name: read_section(file, name, read_line(file)) for name in _SECTIONS}
    return Head(
        extent,
        sections["envelope"],
        sections["result"],
        sections["checkpoint"],
        sections["report"],
        _decode_path(sections["inclusion"]),
        _decode_path(sections["evidence"]),
        version,
    )


def _encode_path(path: Sequence[bytes]) -> bytes:
    return b"".join(base64.b64encode(each) + b"\n" for each in path)


def _decode_path(raw: bytes) -> tuple[bytes, ...]:
    *lines, rest = utf8(raw, "a proof of the bundle").split("\n")
    if rest:
        raise VerificationError("a proof of the bundle does not end with a newline")
    return tuple(base64_bytes(line, "a proof of the bundle") for line in lines)
