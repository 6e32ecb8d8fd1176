"""The class table in force: signed by the verifier, numbered, kept across restarts, never replaced by an older one.

A table is taken when all of this holds, in this order:

1. the agent was told a verifier's key, and the signature over the exact bytes is that key's;
2. it is of a version this agent knows, and made for this agent;
3. its sequence is higher than that of the table in force, or it is that very table;
4. every prefix is one, names a class that addresses can have, and stands once.

What is taken is on disk before it is in force.
"""

from __future__ import annotations

import hashlib
import ipaddress
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from google.protobuf.message import DecodeError

from dpu_agent.disk import Disk
from protos.buckets import TrafficClass
from protos.signing import SignatureRejected, SigningDomain, load_public_key, verify
from protos.v1 import agent_pb2, meter_pb2

log = logging.getLogger(__name__)

VERSION = 1
FILE = "class-table"
MAX_ENTRIES = 16_384
"""Both halves of the kernel's tables hold this many twice."""
MAX_PEERS = 4_095
"""Number 0 stands for no node; the meter's memory has room for 4,096 numbers of two tables."""
MAX_BYTES = 1 << 20
_FAMILY_BYTES = (4, 16)
_BY_ADDRESS = frozenset(TrafficClass) - {TrafficClass.UNKNOWN, TrafficClass.L2_CONTROL, TrafficClass.NON_IP}


class ClassTableRejectedError(Exception):
    """A table that is not taken; ``str()`` says why."""


@dataclass(frozen=True, slots=True)
class Prefix:
    """Addresses that begin alike: what they are, and the number of the node behind them (0: none)."""

    network: bytes
    length: int
    traffic_class: TrafficClass
    peer: int


@dataclass(frozen=True, slots=True)
class Table:
    """A table in force. ``peers`` are the nodes' names by number less one. Without entries all is unknown."""

    sequence: int = 0
    sha256: bytes = b""
    prefixes: tuple[Prefix, ...] = ()
    peers: tuple[str, ...] = ()


def read(signed: bytes, *, agent: str, verifier: bytes) -> Table:
    """Return the table in ``signed`` if it is the verifier's, for this agent.

    Raises:
        ClassTableRejectedError: it is not.
    """
    if not verifier:
        raise ClassTableRejectedError("this agent was told no verifier_public_key; add it to its configuration")
    envelope, table = agent_pb2.SignedClassTable(), meter_pb2.ClassTable()
    try:
        envelope.ParseFromString(signed)
        verify(load_public_key(verifier), SigningDomain.CLASS_TABLE, envelope.body, envelope.signature)
        table.ParseFromString(envelope.body)
    except DecodeError as error:
        raise ClassTableRejectedError(f"not a class table: {error}") from error
    except SignatureRejected as error:
        raise ClassTableRejectedError(f"the class table is not the verifier's: {error}") from error
    if table.version != VERSION:
        raise ClassTableRejectedError(f"class table of version {table.version}; this agent knows {VERSION}")
    if table.agent != agent:
        raise ClassTableRejectedError(f"the class table is for agent {table.agent!r}, this is {agent!r}")
    if table.sequence == 0:
        raise ClassTableRejectedError("a class table's sequence starts at 1")
    peers = tuple(dict.fromkeys(entry.peer for entry in table.entries if entry.peer))
    if len(table.entries) > MAX_ENTRIES or len(peers) > MAX_PEERS:
        raise ClassTableRejectedError(
            f"{len(table.entries)} prefixes of {len(peers)} nodes; at most {MAX_ENTRIES} of {MAX_PEERS} fit"
        )
    return Table(table.sequence, hashlib.sha256(envelope.body).digest(), _prefixes(table.entries, peers), peers)


def _prefixes(entries: Sequence[meter_pb2.ClassEntry], peers: tuple[str, ...]) -> tuple[Prefix, ...]:
    numbers = {peer: number for number, peer in enumerate(peers, 1)}
    found: dict[tuple[bytes, int], Prefix] = {}
    for entry in entries:
        place = f"{entry.network.hex()}/{entry.prefix_length}"
        if len(entry.network) not in _FAMILY_BYTES:
            raise ClassTableRejectedError(f"prefix {place} of the class table has neither 4 nor 16 bytes")
        try:
            ipaddress.ip_network((entry.network, entry.prefix_length))
            traffic_class = TrafficClass(entry.traffic_class)
        except ValueError as error:
            raise ClassTableRejectedError(f"prefix {place} of the class table cannot be: {error}") from error
        if traffic_class not in _BY_ADDRESS:
            raise ClassTableRejectedError(f"prefix {place}: no address is {traffic_class.title} by being in a table")
        key = (entry.network, entry.prefix_length)
        if key in found:
            raise ClassTableRejectedError(f"prefix {place} stands twice in the class table")
        found[key] = Prefix(entry.network, entry.prefix_length, traffic_class, numbers.get(entry.peer, 0))
    return tuple(found.values())


class ClassTables:
    """The table in force, and its file."""

    def __init__(self, disk: Disk, directory: Path, *, agent: str, verifier: bytes) -> None:
        """Take up the table that is stored, if it still is the verifier's.

        Raises:
            OSError: the directory cannot be read.
        """
        self._disk, self._path, self._agent, self._verifier = disk, directory / FILE, agent, verifier
        self.table = Table()
        if FILE in disk.list(directory) and verifier:
            descriptor = disk.open(self._path)
            try:
                stored = disk.read_at(descriptor, MAX_BYTES, 0)
            finally:
                disk.close(descriptor)
            try:
                self.table = read(stored, agent=agent, verifier=verifier)
            except ClassTableRejectedError as error:
                what = "every address is unknown until the controller sends a table"
                log.error("%s: %s; %s", self._path, error, what)  # noqa: TRY400 the sentence says it all

    def accept(self, signed: bytes) -> Table:
        """Put a table in force, on disk first.

        Raises:
            ClassTableRejectedError: it is not taken; the one in force stays.
            OSError: it cannot be stored; the one in force stays.
        """
        table = read(signed, agent=self._agent, verifier=self._verifier)
        if table.sha256 == self.table.sha256:
            return self.table
        if table.sequence <= self.table.sequence:
            raise ClassTableRejectedError(
                f"class table {table.sequence} is not newer than table {self.table.sequence}, which is in force"
            )
        scratch = self._path.with_name(f"{FILE}.new")
        if scratch.name in self._disk.list(self._path.parent):
            self._disk.remove(scratch)
        descriptor = self._disk.open(scratch, create=True)
        try:
            self._disk.write_at(descriptor, signed, 0)
            self._disk.flush(descriptor)
        finally:
            self._disk.close(descriptor)
        self._disk.rename(scratch, self._path)
        self._disk.flush_directory(self._path.parent)
        self.table = table
        return table
