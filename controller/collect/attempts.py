"""A look that failed: its typed reason, its sentence, and the journal entry that keeps both.

A gap in the evidence is explained by these entries: they say that the controller looked, when, and what came of it.
"""

from __future__ import annotations

import base64
import enum
import json
from dataclasses import dataclass

from controller.errors import DeviceError
from controller.journal import Entry, Kind, NewEntry


class Look(enum.Enum):
    """What the controller tried to do."""

    CONNECT = "connect"
    CLOCK = "clock"
    FRAMES = "frames"
    POLL = "poll"
    SCRAPE = "scrape"
    LEASE = "lease"
    CLASS_TABLE = "class-table"


class Reason(enum.Enum):
    """Why a look failed. Stable names: they are journaled and reports count them."""

    UNREACHABLE = "unreachable"  # nothing answered: no route, or silence until the deadline
    CONNECTION_REFUSED = "connection-refused"  # the machine is there, nothing listens
    TIMEOUT = "timeout"  # it was there, but the answer did not come in time
    AUTH = "auth"  # a switch answered, and refused the user, a pass phrase or a view; older journals: denied
    DENIED = "denied"  # an agent answered, and refused us: authentication or permission
    CERTIFICATE_EXPIRED = "certificate-expired"
    CERTIFICATE_REJECTED = "certificate-rejected"  # one end does not trust or recognise the other's
    NOT_ENROLLED = "not-enrolled"  # no enrolment of this agent's key is journaled
    OTHER_KEY = "other-key"  # it shows or uses another key than the one enrolled
    BAD_SIGNATURE = "bad-signature"
    BROKEN_CHAIN = "broken-chain"  # a frame does not follow from the one before
    OTHER_TABLE = "other-table"  # it counts by another class table than it was sent
    CONFLICT = "conflict"  # two different records under one number
    FRAMES_MISSING = "frames-missing"  # numbers were passed over; the frames in between never came
    SILENT = "silent"  # reachable, but it sends nothing
    MALFORMED = "malformed"  # an answer that is not what it should be
    TOO_LARGE = "too-large"
    REFUSED = "refused"  # it answered with an error of its own, such as an HTTP status
    MISSING_PORTS = "missing-ports"  # it answered, but not for every port asked for


MAX_EVIDENCE_BYTES = 2**18
"""Far above any frame; an agent that sends worse loses its say."""

NOT_REACHED = frozenset({Reason.UNREACHABLE, Reason.TIMEOUT})
"""The reasons that leave open whether the device or the way to it failed."""


class LookFailed(DeviceError):  # noqa: N818  named for what happened, like the entry it becomes
    """A look that failed; ``str()`` says what was wrong, where, and what to do."""

    def __init__(self, look: Look, reason: Reason, text: str, *, evidence: bytes | None = None) -> None:
        """``evidence`` is what was received and refused, where it is signed and so proves something."""
        super().__init__(text)
        self.look, self.reason, self.text, self.evidence = look, reason, text, evidence


def attempt_entry(failure: LookFailed, *, source: str, first_sent_ns: int, gave_up_ns: int) -> NewEntry:
    """Return the journal entry of a look at ``source`` that began and was given up at these times (timeline ns)."""
    body = {
        "what": failure.look.value,
        "reason": failure.reason.value,
        "text": failure.text,
        "first_sent_ns": str(first_sent_ns),
        "gave_up_ns": str(gave_up_ns),
    }
    if failure.evidence is not None and len(failure.evidence) <= MAX_EVIDENCE_BYTES:
        body["evidence_base64"] = base64.b64encode(failure.evidence).decode()
    encoded = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
    return NewEntry(kind=Kind.ATTEMPT, source=source, recorded_ns=gave_up_ns, body=encoded)


@dataclass(frozen=True, slots=True)
class Attempt:
    """A failed look as the journal keeps it. ``look`` and ``reason`` are text: a later version may know more."""

    source: str
    look: str
    reason: str
    text: str
    first_sent_ns: int
    gave_up_ns: int

    @classmethod
    def of(cls, entry: Entry) -> Attempt:
        """Return what an ATTEMPT entry says."""
        body = json.loads(entry.body)
        return cls(
            source=entry.source,
            look=body["what"],
            reason=body["reason"],
            text=body["text"],
            first_sent_ns=int(body["first_sent_ns"]),
            gave_up_ns=int(body["gave_up_ns"]),
        )
