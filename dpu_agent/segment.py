r"""One file of the spool: the format, reading it after any accident, and writing one record.

A segment is a file of fixed size, its disk allocated when it is made::

    header   8 bytes "WBSPOOL\0", u32 format version, u64 first sequence, u32 CRC-32 of those
    record   u32 length, u32 flags, u64 sequence, u64 monotonic ns, u64 boot, u32 CRC-32 of the payload,
             u32 CRC-32 of those; then the payload
    ...

all big-endian. Sequence numbers rise. Files are used again, so behind the last record lie older ones: a sequence
that does not rise ends the segment. The record's own header has a CRC of its own, so that a damaged payload costs one
frame and not the rest of the file. ``boot`` is a hash of the boot id: ages are told apart by boot without parsing
frames.
"""

from __future__ import annotations

import errno
import hashlib
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dpu_agent.disk import Disk
from dpu_agent.errors import StateError

FORMAT_VERSION = 1
# A frame of 64 ports is some 8 kB; millisecond series some 6 kB a port pair when saturated.
MAX_PAYLOAD_BYTES = 256 * 1024
MAX_SEQUENCE = 2**64 - 1
FLAG_LOSSES = 1
_PAGE_BYTES = 4096

_MAGIC = b"WBSPOOL\0"
_HEADER = struct.Struct(">8sIQ")
_CRC = struct.Struct(">I")
_RECORD = struct.Struct(">IIQQQI")
HEADER_BYTES = _HEADER.size + _CRC.size
RECORD_BYTES = _RECORD.size + _CRC.size


@dataclass(frozen=True, slots=True)
class Moment:
    """When a frame was made: the boot, hashed, and the monotonic clock in it."""

    boot: int
    monotonic_ns: int


@dataclass(frozen=True, slots=True)
class Record:
    """One record as found. ``payload`` is None where its CRC does not hold; ``end`` is where the next begins."""

    sequence: int
    moment: Moment
    flags: int
    payload: bytes | None
    end: int


def boot_tag(boot_id: str) -> int:
    """Return the number that stands for a boot in records."""
    return int.from_bytes(hashlib.sha256(boot_id.encode()).digest()[:8], "big")


def encode_header(first: int) -> bytes:
    """Return the header of a segment that begins with sequence ``first``."""
    header = _HEADER.pack(_MAGIC, FORMAT_VERSION, first)
    return header + _CRC.pack(zlib.crc32(header))


def first_sequence(path: Path, header: bytes) -> int | None:
    """Return the sequence a segment begins with, None where there is no whole header.

    Raises:
        StateError: written by a newer agent.
    """
    if len(header) < HEADER_BYTES or header[: len(_MAGIC)] != _MAGIC:
        return None
    _, version, first = _HEADER.unpack_from(header)
    (crc,) = _CRC.unpack_from(header, _HEADER.size)
    if crc != zlib.crc32(header[: _HEADER.size]):
        return None
    if version > FORMAT_VERSION:
        raise StateError(
            f"{path}: was written by a newer agent (format {version}, this one knows {FORMAT_VERSION}); "
            "install that agent's release again"
        )
    return int(first)


def encode_record(sequence: int, moment: Moment, flags: int, payload: bytes) -> bytes:
    """Return one record.

    Raises:
        ValueError: the payload is larger than any frame should be.
    """
    if not 0 < len(payload) <= MAX_PAYLOAD_BYTES:
        raise ValueError(f"a spool record holds 1 to {MAX_PAYLOAD_BYTES} bytes, not {len(payload)}")
    fixed = _RECORD.pack(len(payload), flags, sequence, moment.monotonic_ns, moment.boot, zlib.crc32(payload))
    return fixed + _CRC.pack(zlib.crc32(fixed)) + payload


def records(content: bytes, start: int, above: int) -> Iterator[Record]:
    """Yield the records in ``content`` (a segment from byte ``start`` on) whose sequences rise above ``above``.

    Ends at the first that is not whole, whose header is damaged, or whose sequence does not rise.
    """
    at = 0
    while at + RECORD_BYTES <= len(content):
        length, flags, sequence, monotonic_ns, boot, payload_crc = _RECORD.unpack_from(content, at)
        (crc,) = _CRC.unpack_from(content, at + _RECORD.size)
        body = at + RECORD_BYTES
        if crc != zlib.crc32(content[at : at + _RECORD.size]) or sequence <= above or body + length > len(content):
            return
        payload: bytes | None = content[body : body + length]
        if payload is not None and zlib.crc32(payload) != payload_crc:
            payload = None
        at = body + length
        above = sequence
        yield Record(sequence, Moment(boot, monotonic_ns), flags, payload, start + at)


def read_through(disk: Disk, descriptor: int, start: int, size: int) -> bytes:
    """Return up to ``size`` bytes from ``start``; pages the disk cannot read (EIO) are zeros.

    Raises:
        OSError: anything but EIO.
    """
    try:
        return disk.read_at(descriptor, size, start)
    except OSError as error:
        if error.errno != errno.EIO:
            raise
    pages = []
    end = min(start + size, disk.size(descriptor))
    for at in range(start, end, _PAGE_BYTES):
        length = min(_PAGE_BYTES, end - at)
        try:
            pages.append(disk.read_at(descriptor, length, at))
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            pages.append(bytes(length))
    return b"".join(pages)
