"""What a reading is: a counter's value with the time window in which it was true.

A counter ``C(t)`` never decreases within a counter epoch. ``Reading(earliest, latest, v)`` asserts
``C(earliest) <= v <= C(latest)`` and nothing more. Everything the controller concludes rests on that.
Absent, unsupported and zero are three different things: a value that is not there is a :class:`Missing`.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Direction(enum.Enum):
    """Seen from the node, the same word at every observer."""

    EGRESS = "egress"
    INGRESS = "ingress"


class TrustDomain(enum.Enum):
    """Observers that fall together: one compromise forges all of a domain's readings."""

    HOST = "host"
    DPU = "dpu"
    SWITCH = "switch"


class Observer(enum.Enum):
    """The four who stand along a link, in order from the node to the switch."""

    HOST = "host"
    DPU_HOST_PORT = "dpu.host_port"
    DPU_UPLINK = "dpu.uplink"
    SWITCH = "switch"

    @property
    def trust_domain(self) -> TrustDomain:
        """The domain this observer falls with."""
        return _DOMAINS[self]


_DOMAINS = {
    Observer.HOST: TrustDomain.HOST,
    Observer.DPU_HOST_PORT: TrustDomain.DPU,
    Observer.DPU_UPLINK: TrustDomain.DPU,
    Observer.SWITCH: TrustDomain.SWITCH,
}


class Framing(enum.Enum):
    """Which bytes of a frame a counter counts."""

    L2_WITHOUT_FCS = "l2_without_fcs"
    L2_WITH_FCS = "l2_with_fcs"
    L1 = "l1"

    @property
    def bytes_per_frame_over_l2(self) -> int:
        """Bytes counted per frame beyond the frame without its check sequence.

        The FCS is 4 bytes; preamble, start delimiter and gap are 20 more (IEEE 802.3, clause 4.4.2).
        """
        return {Framing.L2_WITHOUT_FCS: 0, Framing.L2_WITH_FCS: 4, Framing.L1: 24}[self]


class Missing(enum.Enum):
    """Why a value is not there. The words are stable: journals, lines and scripts rest on them."""

    ABSENT = "absent"
    UNSUPPORTED = "unsupported"
    MALFORMED = "malformed"
    TRUNCATED = "truncated"
    TIMEOUT = "timeout"
    DENIED = "auth"  # user, pass phrase or right refused

    @classmethod
    def _missing_(cls, value: object) -> Missing | None:
        """Return what an older journal says with another word."""
        return cls.DENIED if value == "denied" else None


@dataclass(frozen=True, slots=True)
class Reading:
    """One cumulative counter value: ``C(earliest_ns) <= bytes <= C(latest_ns)``.

    Attributes:
        earliest_ns: earliest time the value can have been true, on the timeline of the reader.
        latest_ns: latest time the value can have been true.
        bytes: the counter's value; with ``bytes_slack``, the least it can have been.
        packets: the packet counter read with it, or None where the source has none.
        epoch: the counter epoch; values are never compared across epochs.
        framing: which bytes of a frame ``bytes`` counts.
        bytes_slack: the value is known only to ``[bytes, bytes + bytes_slack]`` (floats, printed digits).
    """

    earliest_ns: int
    latest_ns: int
    bytes: int
    packets: int | None = None
    epoch: int = 0
    framing: Framing = Framing.L2_WITHOUT_FCS
    bytes_slack: int = 0

    def __post_init__(self) -> None:
        if self.earliest_ns > self.latest_ns:
            raise ValueError(f"reading's earliest {self.earliest_ns} ns is after its latest {self.latest_ns} ns")
        if self.bytes < 0 or self.bytes_slack < 0 or (self.packets is not None and self.packets < 0):
            raise ValueError(f"counter values cannot be negative: {self}")
