"""Checks the journal's file below its rows: its header, what it is made of, and the write-ahead log beside it.

SQLite's own check sees tables and indexes. It does not see that a trigger is not the one that was made, and when a bit
of the write-ahead log is flipped, SQLite reads the log up to there and says nothing: whole transactions are gone.

The write-ahead log (sqlite.org/fileformat2.html, section 4) is 32 bytes and frames of 24 bytes and a page. Each frame
carries the salts of its log and a checksum over it and all frames before. A frame that does not check is the ordinary
end of the log, what a killed writer or an earlier log left there, unless a frame that ends a transaction stands at
or behind it: that transaction was written to its end.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from controller.errors import WeighbridgeError
from controller.journal import Journal
from controller.journal_schema import SCHEMA_QUERY, expected_schema

_HEADER_BYTES = 100
_MAGIC = b"SQLite format 3\x00"
# Offset, length, value: what is the same in every journal (sqlite.org/fileformat2.html, section 1.3). Counters, sizes
# and the version of SQLite that wrote last are not; application and format version were looked at when it was opened.
_FIXED = (
    (0, 16, _MAGIC),
    (18, 6, bytes((2, 2, 0, 64, 32, 32))),
    (44, 4, (4).to_bytes(4, "big")),
    (48, 4, bytes(4)),
    (52, 4, bytes(4)),
    (56, 4, (1).to_bytes(4, "big")),
    (64, 4, bytes(4)),
    (72, 20, bytes(20)),
)

_WAL_HEADER, _FRAME_HEADER = 32, 24
_WAL_MAGIC = {0x377F0682: "<", 0x377F0683: ">"}
_LOOKS = 3
BETWEEN_LOOKS_S = 0.2
"""A writer at work may be in the middle of a frame: what is wrong must be so each time."""


def file_faults(journal: Journal) -> Iterator[str]:
    """Yield what is wrong with the file of ``journal``; it may be written to meanwhile."""
    path = journal.path
    with path.open("rb") as file:
        header = file.read(_HEADER_BYTES)
    if any(header[at : at + length] != value for at, length, value in _FIXED):
        yield f"{path}: the first {_HEADER_BYTES} bytes are not those of a journal"
    yield from _schema_faults(journal)
    yield from _wal_faults(path.with_name(f"{path.name}-wal"))


def _schema_faults(journal: Journal) -> Iterator[str]:
    try:
        version = journal.rows("PRAGMA user_version")[0][0]
        found = {(str(kind), str(name), sql) for kind, name, sql in journal.rows(SCHEMA_QUERY)}
    except WeighbridgeError as error:
        yield str(error)
        return
    for kind, name, _ in sorted(expected_schema(version) ^ found, key=str):
        yield f"{journal.path}: the {kind} {name} is not as this program made it"


class _Frame(NamedTuple):
    page: int
    pages_after_commit: int
    salts: bytes
    sums: tuple[int, int]


def _wal_faults(path: Path) -> Iterator[str]:
    seen: set[str] | None = None
    for look in range(_LOOKS):
        if look:
            time.sleep(BETWEEN_LOOKS_S)
        try:
            raw = path.read_bytes()
        except FileNotFoundError:
            return
        now = set(_damage(path, raw))
        seen = now if seen is None else seen & now
        if not seen:
            return
    yield from sorted(seen or ())


def _damage(path: Path, raw: bytes) -> Iterator[str]:
    if not raw:
        return
    fields = struct.unpack(">8I", raw[:_WAL_HEADER].ljust(_WAL_HEADER, b"\0"))
    order = _WAL_MAGIC.get(fields[0])
    page_bytes = fields[2]
    if order is None or fields[1] != 3007000 or _sums(order, raw[:24], (0, 0)) != fields[6:]:
        yield f"{path}: the write-ahead log's header is damaged; SQLite reads nothing of it"
        return
    salts = raw[16:24]
    before = (fields[6], fields[7])
    bad: int | None = None
    frame_bytes = _FRAME_HEADER + page_bytes
    for number, at in enumerate(range(_WAL_HEADER, len(raw) - frame_bytes + 1, frame_bytes)):
        frame = _frame(raw[at : at + _FRAME_HEADER])
        data = raw[at + _FRAME_HEADER : at + frame_bytes]
        if bad is None:
            head = raw[at : at + 8]
            if frame.salts == salts and _sums(order, data, _sums(order, head, before)) == frame.sums:
                before = frame.sums
                continue
            bad = number
            if _one_bit_off(order, raw[at : at + _FRAME_HEADER], data, before, salts):
                break
        if frame.salts == salts and frame.pages_after_commit:
            break
    else:
        return
    yield (
        f"{path}: frame {bad} of the write-ahead log is damaged, and SQLite reads nothing from there on: "
        "entries are missing that were on the disk"
    )


def _one_bit_off(order: str, header: bytes, data: bytes, before: tuple[int, int], salts: bytes) -> bool:
    """Return whether one bit of the header makes the frame whole and the end of a transaction."""
    for bit in range(8 * _FRAME_HEADER):
        flipped = bytearray(header)
        flipped[bit // 8] ^= 1 << bit % 8
        frame = _frame(bytes(flipped))
        ends = frame.page > 0 and frame.pages_after_commit > 0 and frame.salts == salts
        if ends and _sums(order, data, _sums(order, bytes(flipped[:8]), before)) == frame.sums:
            return True
    return False


def _frame(header: bytes) -> _Frame:
    page, pages_after_commit, salts, first, second = struct.unpack(">2I8s2I", header)
    return _Frame(page, pages_after_commit, salts, (first, second))


def _sums(order: str, data: bytes, start: tuple[int, int]) -> tuple[int, int]:
    """Return the checksum of ``data``, a multiple of 8 bytes, going on from ``start``."""
    first, second = start
    for left, right in struct.iter_unpack(f"{order}2I", data):
        first = (first + left + second) & 0xFFFFFFFF
        second = (second + right + first) & 0xFFFFFFFF
    return first, second
