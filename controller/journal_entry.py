"""What stands in the journal: kinds of entries, an entry before and after it is written, and its digests.

Bodies by kind (JSON is UTF-8; 64-bit numbers in it are decimal strings):

==========  =================================================  ====================  ==================================
kind        body                                               source                meta
==========  =================================================  ====================  ==================================
SITE        the site file's exact bytes                        site name
RUN_START   JSON run_id, version, pid, reason                  ``controller``
RUN_STOP    the same                                           ``controller``
TIMELINE    JSON of :mod:`controller.timeline`                 boot id
ENROLMENT   JSON agent, public_key, bundle_sha256,             agent name
            agent_version
FRAME       the SignedFrame's exact bytes                      agent name            received_ns
CLOCK       JSON t1, t2, t3, t4, boot_id, monotonic_raw_ns,    agent name
            wall_ns
POLL        bytes of the switch's poll record                  switch name           first_sent_ns, received_ns
SCRAPE      the HTTP body                                      node name             first_sent_ns, received_ns,
                                                                                     status, content_type, url
REPORT      the DSSE envelope's exact bytes                    site name
PRUNE       JSON of :mod:`controller.journal_prune`            site name
LOG_KEY     a note: the log's new key, signed by the old and   the log's name
            the new (:mod:`controller.logrotation`)
AGREEMENT   the signed agreement's exact bytes                  site name             sha256
GRANT       JSON of :mod:`controller.leases.grant`             agent name
LEASE       the exact bytes of a SignedLease or                agent name            what, grant
            SignedLeaseRevocation, written before it is sent
LOAD_WINDOW JSON of :mod:`controller.loads.window`             agent name
CLASS_TABLE the exact bytes of a SignedClassTable, written     agent name
            before it is sent
CHALLENGE   JSON agent, nonce                                  agent name
QUOTE       JSON message_base64, signature_base64, key_pem,    agent name
            registers, refused
ATTEMPT     JSON what, reason, text, first_sent_ns,            the device
            gave_up_ns
WEIGHT      JSON link, direction, from_ns, to_ns, bytes,       link name
            packets
==========  =================================================  ====================  ==================================
"""

from __future__ import annotations

import enum
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from controller.errors import EvidenceError, InternalError
from controller.journal_leaf import Leaf
from controller.journal_schema import PRUNABLE

JsonValue = None | bool | int | float | str | list["JsonValue"] | dict[str, "JsonValue"]

MAX_BODY_BYTES = 64 * 2**20
"""Far above any frame, poll or scrape; whoever receives a body must have bounded it long before."""

MAX_INTEGER = 2**63 - 1
"""What SQLite stores: times in nanoseconds reach the year 2262."""


class Kind(enum.Enum):
    """What an entry is. A new kind needs a new format version: an old reader must not pass over it in silence."""

    SITE = "site"
    RUN_START = "run-start"
    RUN_STOP = "run-stop"
    TIMELINE = "timeline"
    ENROLMENT = "enrolment"
    FRAME = "frame"
    CLOCK = "clock"
    POLL = "poll"
    SCRAPE = "scrape"
    ATTEMPT = "attempt"
    WEIGHT = "weight"
    REPORT = "report"
    PRUNE = "prune"
    LOG_KEY = "log-key"
    AGREEMENT = "agreement"
    GRANT = "grant"
    LEASE = "lease"
    LOAD_WINDOW = "load-window"
    CLASS_TABLE = "class-table"
    CHALLENGE = "challenge"
    QUOTE = "quote"


class ConflictingEntryError(EvidenceError):
    """An entry with the same kind, source and sequence is there already, with other bytes."""

    def __init__(self, path: Path, entry: NewEntry, leaf: int) -> None:
        self.kind, self.source, self.sequence, self.leaf = entry.kind, entry.source, entry.sequence, leaf
        super().__init__(
            f"{path}: {entry.kind.value} {entry.sequence} of {entry.source} is leaf {leaf} already, with other bytes. "
            f"Two different records under one number are evidence against {entry.source}: keep both and find out why."
        )


@dataclass(frozen=True, slots=True)
class NewEntry:
    """What is to be appended.

    Attributes:
        kind: what it is.
        source: whom or what it came from (agent, switch, node...).
        recorded_ns: when the controller had it, on the timeline.
        body: the exact bytes.
        meta: what the controller adds; JSON.
        sequence: the source's own number from 1 up; (kind, source, sequence) is unique. None where there is none.
    """

    kind: Kind
    source: str
    recorded_ns: int
    body: bytes
    meta: Mapping[str, JsonValue] = field(default_factory=dict)
    sequence: int | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """What is in the journal, its digests checked. ``leaf`` is its number; see :class:`NewEntry` for the rest."""

    leaf: int
    kind: Kind
    source: str
    recorded_ns: int
    body: bytes
    meta: Mapping[str, JsonValue]
    sequence: int | None
    body_sha256: bytes


@dataclass(frozen=True, slots=True)
class Pruned:
    """An entry whose body was dropped by a journaled decision; what is left of it is still bound by its leaf."""

    leaf: int
    kind: Kind
    source: str
    recorded_ns: int
    sequence: int | None


class Row(NamedTuple):
    """One row but its body and its own digest, in the order of the columns."""

    leaf: int
    kind: str
    source: str
    sequence: int | None
    recorded_ns: int
    meta: str
    body_sha256: bytes

    def leaf_data(self) -> bytes:
        """Return the bytes that the row is in the tree; they bind all of it, and its body by digest."""
        return Leaf(*self).encode()

    def digest(self) -> bytes:
        """SHA-256 of the row, bound to this purpose."""
        return hashlib.sha256(self.leaf_data()).digest()


COLUMNS = f"{', '.join(Row._fields)}, entry_sha256, body"
"""What :func:`entry_of` takes, in this order."""


def prepare(entry: NewEntry) -> tuple[str, bytes]:
    """Return the entry's meta as it is stored and the digest of its body.

    Raises:
        EvidenceError: its source gave it an impossible number.
        InternalError: it cannot be stored, which is our own fault.
    """
    if not entry.source or len(entry.body) > MAX_BODY_BYTES:
        raise InternalError(
            f"a {entry.kind.value} entry needs a source and at most {MAX_BODY_BYTES} bytes; "
            f"this one has source {entry.source!r} and {len(entry.body)} bytes"
        )
    if entry.sequence is not None and not 1 <= entry.sequence <= MAX_INTEGER:
        raise EvidenceError(
            f"{entry.kind.value} of {entry.source}: a sequence cannot be {entry.sequence}; it was not stored. "
            f"Look into {entry.source}."
        )
    meta = json.dumps(dict(entry.meta), sort_keys=True, separators=(",", ":"), allow_nan=False)
    return meta, hashlib.sha256(entry.body).digest()


def entry_of(path: Path, columns: tuple[Any, ...]) -> Entry:
    """Return the entry in a row of the journal at ``path``.

    Raises:
        EvidenceError: a digest does not check, or the kind is unknown; the text names the leaf.
    """
    found = read_row(path, columns, pruned_stop=0)
    assert isinstance(found, Entry)  # noqa: S101  nothing before leaf 0 was dropped
    return found


def read_row(path: Path, columns: tuple[Any, ...], *, pruned_stop: int) -> Entry | Pruned:
    """Return the entry in a row of the journal at ``path``, or what is left of it.

    Args:
        path: names the journal in errors.
        columns: :data:`COLUMNS` of the row.
        pruned_stop: bodies of leaves before this one may have been dropped.

    Raises:
        EvidenceError: a digest does not check, or the kind is unknown; the text names the leaf.
    """
    row, (entry_sha256, body) = Row(*columns[:-2]), columns[-2:]
    if row.digest() != entry_sha256:
        raise _damaged(path, row, "header")
    try:
        kind = Kind(row.kind)
    except ValueError as error:
        raise EvidenceError(
            f"{path}: leaf {row.leaf} has the unknown kind {row.kind!r}. Update weighbridge on this machine."
        ) from error
    if hashlib.sha256(body).digest() != row.body_sha256:
        if body == b"" and row.leaf < pruned_stop and row.kind in PRUNABLE:
            return Pruned(row.leaf, kind, row.source, row.recorded_ns, row.sequence)
        raise _damaged(path, row, "body")
    return Entry(row.leaf, kind, row.source, row.recorded_ns, body, json.loads(row.meta), row.sequence, row.body_sha256)


def _damaged(path: Path, row: Row, what: str) -> EvidenceError:
    return EvidenceError(
        f"{path}: the {what} of leaf {row.leaf} ({row.kind} of {row.source}) is not what was "
        "recorded: its digest does not check. Restore the journal from a copy; "
        "`weighbridge journal fsck` lists every damaged leaf."
    )
