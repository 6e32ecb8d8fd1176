"""Frames that were counted by another class table than the agent was given, as findings.

Every frame carries the hash of the table by which its traffic was counted by class and by node. The journal has every
table before it is sent. So, from signed frames and the journal alone:

1. A hash that is of none of the agent's journaled tables: somebody else gave it one, or it made one up.
2. A table older than one it had counted by, or none after one: an agent never goes back by itself.

What only the controller saw (an agent that said one table and counted by another that it had been given, too) it
journaled as a failed look when it saw it; that is told as well.
"""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import dataclass, replace

from google.protobuf.message import DecodeError

from controller.collect.attempts import Look, Reason
from controller.crosscheck.model import Finding, FindingKind, Period
from controller.errors import EvidenceError
from controller.journal import Entry, Journal, Kind
from protos.v1 import agent_pb2, frame_pb2
from protos.wire import WireError, parse_signed_frame

_LATE_ATTEMPT_NS = 60_000_000_000
"""A look that began in the period may be given up, and so journaled, this much after it."""
_SHOWN_DIGITS = 16


@dataclass(frozen=True, slots=True)
class _Seen:
    from_ns: int
    to_ns: int
    frames: int
    text: str


class TableFindings:
    """Takes in an agent's frames in order; neighbouring frames of which the same is to be said are one finding."""

    def __init__(self, journal: Journal, agent: str, node: str, period: Period) -> None:
        """Read which tables the agent was given.

        Raises:
            EvidenceError: a journaled table cannot be read.
        """
        self._journal, self._agent, self._node, self._period = journal, agent, node, period
        entries = journal.entries(kinds=[Kind.CLASS_TABLE], source=agent)
        self._given = {_sha256(journal, entry): entry.sequence or 0 for entry in entries}
        self._newest = 0
        self._told: set[int] = set()
        self._open: _Seen | None = None
        self._closed: list[_Seen] = []

    def take(self, frame: frame_pb2.Frame, from_ns: int, to_ns: int) -> None:
        """Take in which table ``frame`` names; it was made after ``from_ns`` and received by ``to_ns``."""
        wrong = self._wrong(frame.class_table_sha256)
        if to_ns <= self._period.from_ns or from_ns > self._period.to_ns:
            return
        if self._open is not None and self._open.text != wrong:
            self._closed.append(self._open)
            self._open = None
        if wrong:
            self._told.add(frame.sequence)
            self._open = (
                _Seen(from_ns, to_ns, 1, wrong)
                if self._open is None
                else replace(self._open, to_ns=to_ns, frames=self._open.frames + 1)
            )

    def _wrong(self, sha256: bytes) -> str:
        """What is to be said of a frame with this hash; empty if nothing."""
        if not sha256:
            return f"no class table, after table {self._newest} had been in force" if self._newest else ""
        number = self._given.get(sha256)
        if number is None:
            return f"class table {sha256.hex()[:_SHOWN_DIGITS]}, which it was never given"
        if number < self._newest:
            return f"class table {number}, after table {self._newest} had been in force"
        self._newest = number
        return ""

    def findings(self) -> list[Finding]:
        """Return them in order of time. None is certain: bounds and laws rest on the ports' totals."""
        seen = [*self._closed, *([self._open] if self._open is not None else []), *self._looks()]
        return [
            Finding(
                FindingKind.OTHER_CLASS_TABLE,
                certain=False,
                text=(
                    f"{self._agent} counted by {each.text}; in {each.frames} frame{'' if each.frames == 1 else 's'}. "
                    "Its counts by class and by node of that time are not by the site file; the ports' totals stand"
                ),
                node=self._node,
                from_ns=each.from_ns,
                to_ns=each.to_ns,
            )
            for each in sorted(seen, key=lambda one: one.from_ns)
        ]

    def _looks(self) -> list[_Seen]:
        """What the controller journaled as it saw it, of frames that do not show it by themselves."""
        found = []
        to_ns = self._period.to_ns + _LATE_ATTEMPT_NS
        for entry in self._journal.entries(
            kinds=[Kind.ATTEMPT], source=self._agent, from_ns=self._period.from_ns, to_ns=to_ns
        ):
            body = json.loads(entry.body)
            if (body["what"], body["reason"]) != (Look.CLASS_TABLE.value, Reason.OTHER_TABLE.value):
                continue
            frame = _frame(body.get("evidence_base64"))
            first_ns = int(body["first_sent_ns"])
            if first_ns <= self._period.to_ns and (frame is None or frame.sequence not in self._told):
                which = "another class table than it said"
                if frame is not None:
                    which += f" ({self._given.get(frame.class_table_sha256) or 'none'}, in frame {frame.sequence})"
                found.append(_Seen(first_ns, int(body["gave_up_ns"]), 1, which))
        return found


def _sha256(journal: Journal, entry: Entry) -> bytes:
    signed = agent_pb2.SignedClassTable()
    try:
        signed.ParseFromString(entry.body)
    except DecodeError as error:
        raise EvidenceError(
            f"{journal.path}: leaf {entry.leaf} is not a class table this program can read. "
            "Update weighbridge on this machine, or restore the journal from a copy."
        ) from error
    return hashlib.sha256(signed.body).digest()


def _frame(evidence: object) -> frame_pb2.Frame | None:
    """The frame that was journaled with a look; None if there is none, or it cannot be read."""
    if not isinstance(evidence, str):
        return None
    try:
        return parse_signed_frame(base64.b64decode(evidence, validate=True))[1]
    except (ValueError, WireError):
        return None
