"""The spool's files: segments in a row, the one that is written to, and a spare.

A segment that is freed becomes the spare, the next one to write, so a spool that does not grow needs no new disk. The
next spare is made ahead of need: a full disk is known while there is still room. Names are put on disk before
anything counts as stored under them.
"""

from __future__ import annotations

import errno
import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dpu_agent import segment
from dpu_agent.disk import Disk
from dpu_agent.segment import Moment, Record

FULL_ERRNOS = frozenset({errno.ENOSPC, errno.EDQUOT})

_NAME = re.compile(r"([0-9]{20})\.seg", re.ASCII)
_SPARE = "spare.seg"
_NEW_SPARE = "spare.new"

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Segment:
    """A segment in memory: where its records end, its last record's sequence and moment (None: it has none)."""

    first: int
    path: Path
    size: int
    end: int = segment.HEADER_BYTES
    last: int = 0
    newest: Moment | None = None

    def took(self, record: Record) -> None:
        """Count ``record`` as this segment's last."""
        self.end, self.last, self.newest = record.end, record.sequence, record.moment


class Segments:
    """All of them, oldest first in ``row``; the last of the row is written to once it is opened."""

    def __init__(self, disk: Disk, directory: Path, max_bytes: int, segment_bytes: int) -> None:
        self._disk, self._directory = disk, directory
        self._max_bytes, self._segment_bytes = max_bytes, segment_bytes
        self.row: list[Segment] = []
        self.cannot_grow = ""
        self._spare_bytes = 0
        self._descriptor: int | None = None
        self._sealed = False
        self._names_in_doubt = False

    @property
    def disk_bytes(self) -> int:
        """Disk taken, the spare included."""
        return sum(found.size for found in self.row) + self._spare_bytes

    @property
    def at_bound(self) -> bool:
        """Whether another segment would be one too many."""
        return not self._spare_bytes and bool(self.row) and self.disk_bytes + self._segment_bytes > self._max_bytes

    # ------------------------------------------------------------------ after a start

    def load(self) -> Iterator[Record]:
        """Fill the row with what is in the directory, and yield every record whose header is whole, in order.

        Raises:
            StateError: a segment was written by a newer agent.
            OSError: the directory cannot be read.
        """
        for path, first, last in self._files():
            descriptor = self._disk.open(path)
            try:
                found = Segment(first, path, self._disk.size(descriptor))
                content = segment.read_through(self._disk, descriptor, 0, found.size)
            finally:
                self._disk.close(descriptor)
            named = segment.first_sequence(path, content)
            if named is not None and named != first:
                # Freed, and begun anew under a name that did not reach the disk: nothing in it counts as stored.
                self._disk.remove(path)
                continue
            if named is None:
                # Its name says the same, and every record has a checksum of its own.
                log.error("%s: its header is damaged; its records are read all the same", path)
            self.row.append(found)
            for record in segment.records(content[segment.HEADER_BYTES :], segment.HEADER_BYTES, first - 1):
                if record.sequence > last:
                    break
                if record.payload is not None:
                    found.took(record)
                yield record

    def _files(self) -> Iterator[tuple[Path, int, int]]:
        """Yield each segment's path with the sequences it can hold: those below the next segment's first."""
        found: list[tuple[int, Path]] = []
        for name in self._disk.list(self._directory):
            match = _NAME.fullmatch(name)
            if match is not None:
                found.append((int(match[1]), self._directory / name))
            elif name not in {_SPARE, _NEW_SPARE}:
                log.warning("%s: is no file of the spool; left alone", self._directory / name)
        for at, (first, path) in enumerate(found):
            yield path, first, found[at + 1][0] - 1 if at + 1 < len(found) else segment.MAX_SEQUENCE

    def activate(self) -> None:
        """Find the spare, and open the newest segment for writing."""
        names = self._disk.list(self._directory)
        if _NEW_SPARE in names:
            self._disk.remove(self._directory / _NEW_SPARE)
        if _SPARE in names:
            descriptor = self._disk.open(self._directory / _SPARE)
            self._spare_bytes = self._disk.size(descriptor)
            self._disk.close(descriptor)
        if not self.row:
            return
        newest = self.row[-1]
        self._descriptor = self._disk.open(newest.path)
        # What is there already, unless it was damaged.
        self._disk.write_at(self._descriptor, segment.encode_header(newest.first), 0)
        if newest.size < self._segment_bytes:
            try:
                self._disk.allocate(self._descriptor, self._segment_bytes)
                newest.size = self._segment_bytes
            except OSError as error:
                log.warning("%s: cannot be given its %d bytes (%s)", newest.path, self._segment_bytes, error)

    # ------------------------------------------------------------------ writing

    def has_room_for(self, length: int) -> bool:
        """Whether the newest segment can take a record of ``length`` bytes."""
        if self._descriptor is None or self._sealed or not self.row:
            return False
        return self.row[-1].end + length <= self.row[-1].size

    def begin(self, first: int) -> None:
        """Begin the next segment, with sequence ``first``: in the spare, or in a new file.

        Raises:
            OSError: there is no spare and none can be made; the newest segment is as it was.
        """
        if not self._spare_bytes:
            self._make_spare()
        spare = self._directory / _SPARE
        begun = Segment(first, self._directory / f"{first:020d}.seg", max(self._spare_bytes, self._segment_bytes))
        descriptor = self._disk.open(spare)
        try:
            self._disk.allocate(descriptor, begun.size)
            self._disk.write_at(descriptor, segment.encode_header(first), 0)
            self._disk.flush(descriptor)
            self._disk.rename(spare, begun.path)
        except OSError:
            self._disk.close(descriptor)
            raise
        self.close()
        self._descriptor, self._spare_bytes, self._sealed = descriptor, 0, False
        self.row.append(begun)
        self._names_in_doubt = True
        self._keep_a_spare()

    def write(self, content: bytes) -> int:
        """Put ``content`` behind the newest segment's records; return where it ends. It is on disk then.

        Raises:
            OSError: it is not, and what is there in its place is not known.
        """
        newest, descriptor = self.row[-1], self._descriptor
        if descriptor is None:
            raise OSError(errno.EBADF, "no segment is open")
        try:
            self._disk.write_at(descriptor, content, newest.end)
            self._disk.flush(descriptor)
            if self._names_in_doubt:
                self._disk.flush_directory(self._directory)
                self._names_in_doubt = False
        except OSError as error:
            # After a failed flush nobody knows what of the file is on disk; do not build on it. An empty segment is
            # tried again, else each failure would take a new one.
            self._sealed = error.errno not in FULL_ERRNOS and newest.last != 0
            raise
        return newest.end + len(content)

    def seal(self) -> None:
        """Write no more into the newest segment: what is behind a place that cannot be read cannot be read either."""
        self._sealed = True

    def free_oldest(self) -> None:
        """Make the oldest segment the spare, or remove it if there is one.

        Raises:
            OSError: it could not be freed, and is still there.
        """
        oldest = self.row[0]
        if self._spare_bytes:
            self._disk.remove(oldest.path)
        else:
            self._disk.rename(oldest.path, self._directory / _SPARE)
            self._spare_bytes = oldest.size
        if len(self.row) == 1:
            self.close()
        self.cannot_grow = ""
        del self.row[0]
        self._names_in_doubt = True

    def close(self) -> None:
        """Close the segment that is written to."""
        if self._descriptor is not None:
            self._disk.close(self._descriptor)
            self._descriptor = None

    def _keep_a_spare(self) -> None:
        self.cannot_grow = ""
        if self.disk_bytes + self._segment_bytes > self._max_bytes:
            return
        try:
            self._make_spare()
        except OSError as error:
            self.cannot_grow = f"the spool cannot grow: {error}"

    def _make_spare(self) -> None:
        scratch = self._directory / _NEW_SPARE
        if _NEW_SPARE in self._disk.list(self._directory):
            self._disk.remove(scratch)
        descriptor = self._disk.open(scratch, create=True)
        try:
            self._disk.allocate(descriptor, self._segment_bytes)
            self._disk.flush(descriptor)
        except OSError:
            self._disk.remove(scratch)
            raise
        finally:
            self._disk.close(descriptor)
        self._disk.rename(scratch, self._directory / _SPARE)
        self._names_in_doubt = True
        self._spare_bytes = self._segment_bytes

    # ------------------------------------------------------------------ reading

    def records(self, holder: Segment, offset: int, above: int, chunk_bytes: int) -> Iterator[Record]:
        """Yield the records of ``holder`` from byte ``offset`` on whose sequences rise above ``above``.

        Raises:
            OSError: the file cannot be opened.
        """
        newest = holder is self.row[-1] and self._descriptor is not None
        descriptor = self._descriptor if newest and self._descriptor is not None else self._disk.open(holder.path)
        try:
            start = -1
            while start < offset < holder.end:
                start = offset
                content = segment.read_through(self._disk, descriptor, start, min(chunk_bytes, holder.end - start))
                for record in segment.records(content, start, above):
                    offset, above = record.end, record.sequence
                    yield record
        finally:
            if not newest:
                self._disk.close(descriptor)
