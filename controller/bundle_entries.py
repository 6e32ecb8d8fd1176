"""The entries of a full bundle: for each, in order, its leaf, and its body or that it is not here.

==============  =====================================================================================
``leaf``        the leaf's data, which binds the body by its digest
``body``        the entry's exact bytes; or
``dropped``     empty: the body is not here (:mod:`controller.bundle_omission`)
``chunk``       some of the above, whole entries, as one .xz stream
==============  =====================================================================================

What is measured every second is nearly the same each time, so a chunk takes a fraction of what is in it. Unpacking is
bounded before it begins, in memory and in what comes out: a chunk that unpacks to more than :data:`MOST_EXPANSION`
times its size is refused, and a writer leaves such entries unpacked.
"""

from __future__ import annotations

import io
import lzma
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO

from controller.bundle_sections import CHUNK_BYTES, MAX_CHUNK_BYTES, read_line, read_section, write_section
from controller.evidence.refusal import VerificationError

MOST_EXPANSION = 1024
"""Far above what measurements reach; a bundle can fill so many times its own size of its reader's disk."""

_DICTIONARY_BYTES = 8 * 2**20
_PIECE_BYTES = 2**20
_MAX_UNPACKER_BYTES = 2 * _DICTIONARY_BYTES
# Fast, but with a memory as long as a round of questions to a large site.
_FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 1, "dict_size": _DICTIONARY_BYTES}]


def write_entries(file: BinaryIO, entries: Iterable[tuple[bytes, bytes | None]], *, packed: bool = True) -> None:
    """Write each entry's leaf and body, None for one that is not here.

    Raises:
        OperatorError: one is larger than any reader takes.
        OSError: the file cannot be written.
    """
    if not packed:
        _write_plain(file, entries)
        return
    chunk = io.BytesIO()
    for entry in entries:
        _write_plain(chunk, [entry])
        if chunk.tell() >= CHUNK_BYTES:
            _write_chunk(file, chunk.getvalue())
            chunk = io.BytesIO()
    _write_chunk(file, chunk.getvalue())


def _write_plain(file: BinaryIO, entries: Iterable[tuple[bytes, bytes | None]]) -> None:
    for leaf, body in entries:
        write_section(file, "leaf", leaf)
        write_section(file, "dropped" if body is None else "body", body or b"")


def _write_chunk(file: BinaryIO, raw: bytes) -> None:
    packed = lzma.compress(raw, filters=_FILTERS)
    if len(packed) < len(raw) <= MOST_EXPANSION * len(packed):
        write_section(file, "chunk", packed)
    else:
        file.write(raw)


def read_entries(file: BinaryIO) -> Iterator[tuple[bytes, bytes | None]]:
    """Yield the data of each leaf and its body, None for one that is not here, to the end of the file.

    Raises:
        VerificationError: what is there is not that.
    """
    while line := read_line(file):
        if line.startswith("chunk "):
            yield from _read_plain(io.BufferedReader(_Unpacked(read_section(file, "chunk", line))))
        else:
            yield _read_entry(file, line)


def _read_plain(file: BinaryIO) -> Iterator[tuple[bytes, bytes | None]]:
    while line := read_line(file):
        yield _read_entry(file, line)


def _read_entry(file: BinaryIO, line: str) -> tuple[bytes, bytes | None]:
    leaf = read_section(file, "leaf", line)
    line = read_line(file)
    if line.startswith("dropped "):
        read_section(file, "dropped", line)
        return leaf, None
    return leaf, read_section(file, "body", line)


class _Unpacked(io.RawIOBase):
    """What comes out of a chunk, unpacked as it is read."""

    def __init__(self, packed: bytes) -> None:
        self._packed, self._left = packed, min(MAX_CHUNK_BYTES, MOST_EXPANSION * len(packed))
        self._unpacker = lzma.LZMADecompressor(format=lzma.FORMAT_XZ, memlimit=_MAX_UNPACKER_BYTES)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer)
        if self._unpacker.eof:
            return 0
        try:
            data = self._unpacker.decompress(self._packed, min(len(view), _PIECE_BYTES))
        except lzma.LZMAError as error:
            raise VerificationError("a chunk of the bundle cannot be unpacked") from error
        self._packed = b""
        self._left -= len(data)
        if self._left < 0 or not (data or self._unpacker.eof) or self._unpacker.unused_data:
            raise VerificationError("a chunk of the bundle is cut short, is followed by something, or holds too much")
        view[: len(data)] = data
        return len(data)
