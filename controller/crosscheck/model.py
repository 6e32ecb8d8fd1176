"""What the cross-check takes and what it returns: values only, no clock, no file, no socket.

Times are nanoseconds on the controller's timeline; bytes and packets are exact integers; ``None`` is
"unbounded" or "not known", never zero. The JSON of a result (design section 4) is made in
``controller/crosscheck/json_form.py``; this module is its meaning.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from controller.crosscheck.exact import Ints
from protos.reading import Direction, Observer, Reading, TrustDomain


class Verdict(enum.Enum):
    """For a link, a site and a period. Lack of evidence is never ``COMPLIANT``."""

    COMPLIANT = "compliant"
    VIOLATION = "violation"
    INCONCLUSIVE = "inconclusive"


class Holds(enum.Enum):
    """Whether a law holds: a proof either way, or neither."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


class Unknown(enum.Enum):
    """Why a law could not be tested. Only ``BY_DESIGN`` leaves ``compliant`` possible."""

    BY_DESIGN = "by-design"
    MISSING_EVIDENCE = "missing-evidence"
    CONTRADICTION = "contradiction"


class FindingKind(enum.Enum):
    """Stable names; scripts rely on them."""

    HOST_UNDER_REPORTS = "host-under-reports"
    HOST_OVER_REPORTS = "host-over-reports"
    OBSERVERS_DISAGREE = "observers-disagree"
    UNDECLARED_PORT = "undeclared-port"
    LIMIT_EXCEEDED = "limit-exceeded"
    LIMIT_POSSIBLY_EXCEEDED = "limit-possibly-exceeded"
    COVERAGE_GAP = "coverage-gap"
    COUNTER_RESET = "counter-reset"
    COUNTER_STALE = "counter-stale"
    MISCABLED_LINK = "miscabled-link"
    UNDECLARED_NEIGHBOUR = "undeclared-neighbour"
    LINK_FLAP = "link-flap"
    HOOK_BYPASSED = "hook-bypassed"
    OFFLOADED_TRAFFIC_UNMETERED = "offloaded-traffic-unmetered"
    LIMIT_NOT_ENFORCED = "limit-not-enforced"
    LOAD_WINDOW_OVERRUN = "load-window-overrun"
    LOAD_WINDOW_REVERSE_TRAFFIC = "load-window-reverse-traffic"
    LEASE_REFUSED = "lease-refused"
    SCALE_OFF = "scale-off"
    BYTES_UNACCOUNTED = "bytes-unaccounted"
    OTHER_CLASS_TABLE = "other-class-table"
    AGENT_CLOCK_SET = "agent-clock-set"


# ---------------------------------------------------------------- what goes in


@dataclass(frozen=True, slots=True)
class Period:
    """The time asked about, ``(from_ns, to_ns]`` on the controller's timeline."""

    from_ns: int
    to_ns: int


@dataclass(frozen=True, slots=True)
class Limit:
    """No more than ``bytes`` in any window of ``window_ns``, per node and direction."""

    window_ns: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Assumptions:
    """What laws and bounds rest on; declared in the site file, printed in every report.

    Attributes:
        in_flight_bytes: Q, most bytes between two neighbouring observers at any instant.
        late_completion_bytes: most bytes the host's counter may lag behind what its DPU received.
        dpu_own_bytes_per_s: the DPU's own traffic on its uplink, at most, per direction.
        control_bytes_per_s: frames that switch or DPU make themselves on the link (LLDP, pause), at most.
        largest_frame_bytes: M, without FCS.
        required_coverage: share of the period that must be covered for ``compliant``.
        largest_gap_ns: neighbouring readings further apart than this do not cover the time between.
        liars: f, how many trust domains may lie at once (bounds.md 13).
    """

    in_flight_bytes: int = 0
    late_completion_bytes: int = 0
    dpu_own_bytes_per_s: int = 0
    control_bytes_per_s: int = 0
    largest_frame_bytes: int = 9_216
    required_coverage: float = 0.95
    largest_gap_ns: int = 15_000_000_000
    liars: int = 1


@dataclass(frozen=True, slots=True)
class EpochStart:
    """A counter epoch that is proven to have begun, when, and from what.

    A start from zero is worth a reading of zero (bounds.md 2, 12): it bounds what the epoch counted before
    its first reading, and what was lost with the epoch before it.

    Attributes:
        by_ns: the reset had happened by this time; None: only known to be before the epoch's first reading.
        not_before_ns: the reset had not happened before this time; None: only known to be after the last
            reading of the epoch before.
    """

    by_ns: int | None = None
    not_before_ns: int | None = None


@dataclass(frozen=True, slots=True)
class DropCounter:
    """One more counter of what was dropped at a place, cumulative: ``bytes`` of its readings holds what it counts.

    ``in_bytes``: it counts bytes, as a limiter of our own does; else packets, each of which was at most the largest
    frame.
    """

    readings: tuple[Reading, ...]
    in_bytes: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class BucketRun:
    """Buckets in a row of one port, all of which are known and vouched for by the meter's audit.

    Attributes:
        clock: whose buckets they are; buckets of one index of runs with the same clock and width are one time.
        width_ns: of a bucket, on the device's clock.
        drift_ppm: most by which the device's clock is fast or slow.
        first: index of the first bucket.
        count: how many there are, the empty ones included.
        at: which of them are not empty, counted from ``first``, in order.
        bytes: what each of those held, as frames without FCS.
        unplaced: ``(first bucket, how many, bytes)``: bytes that are in some of these buckets besides.
        knots: ``(bucket, earliest, latest)``: when, on the timeline, that bucket began; in order, the first bucket and
            the one after the last among them.
    """

    clock: str
    width_ns: int
    drift_ppm: int
    first: int
    count: int
    at: Ints
    bytes: Ints
    unplaced: tuple[tuple[int, int, int], ...]
    knots: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True)
class Track:
    """All that one observer of a link said about one direction.

    Attributes:
        readings: in order of ``earliest_ns``; several epochs may follow each other.
        line_rate_bytes_per_s: of the port, or None (infinite) where it is not a wire port.
        step_bytes: beta, the largest step the counter makes at once.
        refresh_ns: R, already subtracted in ``earliest_ns``; kept for margins.
        clock_width_ns: width of the clock offset interval, already in the readings; kept for margins.
        drop_packets: cumulative packets dropped here in this direction, as readings of their own
            (``bytes`` holds packets); empty when this observer cannot count drops.
        drop_counters: further counters of what was dropped here; all of them are added up.
        epoch_reasons: why each epoch after the first began, by epoch number.
        proven_epochs: the epochs whose continuity is evidenced (boot id, engine boots, no decrease...);
            in any other, upper bounds are void (bounds.md 3).
        looked: intervals in which the collector looked but got nothing, and why (for ``coverage-gap``).
        epoch_starts: the epochs proven to have begun at zero, by epoch number; an epoch that is not here may
            have begun at any value.
        unpadded: short frames are counted without the padding that the wire adds (bounds.md 10).
        super_packet_header_bytes: ``(least, most)`` header bytes that segmentation repeats in each further
            frame where this counter counts super-packets (bounds.md 10); None where it counts frames.
        counter_bits: the counter begins again at 2 to this power. Below 64 it is followed as far as the line rate
            allows (bounds.md 12), and its packets are left aside.
        buckets: the same bytes in buckets of a millisecond, where its meter told of them and its audit found nothing.
    """

    observer: Observer
    readings: Sequence[Reading]
    line_rate_bytes_per_s: int | None = None
    step_bytes: int = 0
    refresh_ns: int = 0
    clock_width_ns: int = 0
    drop_packets: Sequence[Reading] = ()
    epoch_reasons: Mapping[int, str] = field(default_factory=dict)
    proven_epochs: frozenset[int] = frozenset({0})
    looked: tuple[Silence, ...] = ()
    epoch_starts: Mapping[int, EpochStart] = field(default_factory=dict)
    unpadded: bool = False
    super_packet_header_bytes: tuple[int, int] | None = None
    counter_bits: int = 64
    drop_counters: tuple[DropCounter, ...] = ()
    buckets: tuple[BucketRun, ...] = ()


@dataclass(frozen=True, slots=True)
class Silence:
    """A stretch in which an observer gave no reading, and who was not looking.

    ``who`` is one of ``controller-stopped``, ``network-cut``, ``device-silent``, ``not-polled``.
    """

    from_ns: int
    to_ns: int
    who: str
    text: str


@dataclass(frozen=True, slots=True)
class LinkEvidence:
    """One link in one direction, as the observers tell it.

    ``dpu``, ``switch`` and ``port`` name the two ends of its cable for the report's drawing; no bound or law uses them.
    ``load_bytes`` is what load windows that touch the period let the node move in this direction beside its limits.
    """

    link: str
    node: str
    pod: str
    direction: Direction
    tracks: Mapping[Observer, Track]
    limits: tuple[Limit, ...] = ()
    dpu: str | None = None
    switch: str | None = None
    port: str | None = None
    load_bytes: int = 0


@dataclass(frozen=True, slots=True)
class PortEvidence:
    """A switch port, declared or not, as the switch counts it. ``readings`` sum both directions."""

    switch: str
    port: str
    declared: bool
    operational: bool | None
    readings: tuple[Reading, ...]
    proven_epochs: frozenset[int] = frozenset({0})
    epoch_starts: Mapping[int, EpochStart] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SharedTraffic:
    """What a node's meters count of one peer, or of its own pod: what it sent there, or received from there.

    Attributes:
        node: whose meters.
        direction: egress: by destination; ingress: by source.
        peer: the other node; None: all of the node's own pod.
        parts: of each of its ports readings of the count, wire bytes, and the epochs whose continuity is evidenced; a
            port whose meter does not tell has none.
    """

    node: str
    direction: Direction
    peer: str | None
    parts: tuple[tuple[Sequence[Reading], frozenset[int]], ...]


@dataclass(frozen=True, slots=True)
class KnownWeight:
    """A declared transfer over a link that every observer must show."""

    link: str
    direction: Direction
    from_ns: int
    to_ns: int
    bytes: int
    packets: int | None


@dataclass(frozen=True, slots=True)
class NodePair:
    """What a port's in-kernel meter counted of one peer of its node, in the period.

    ``bytes`` are frame bytes without FCS, VLAN tags included, packets that are cut later as the frames they become; by
    the class table that says which addresses are whose. ``direction`` is the node's: at the host port egress.
    """

    node: str
    dpu: str
    port: str
    direction: Direction
    peer: str
    bytes: ByteInterval


@dataclass(frozen=True, slots=True)
class AgreementInForce:
    """An agreement that held at some time of the period, as both parties signed it.

    ``signed`` is its file, whose signatures whoever reads the result can check; ``sha256`` is of the document in it.
    It held from ``from_ns``, when it was accepted and valid, to ``to_ns``, when the next one was or its validity ended.
    """

    number: int
    sha256: bytes
    from_ns: int
    to_ns: int
    signed: bytes


@dataclass(frozen=True, slots=True)
class SiteEvidence:
    """Everything one cross-check looks at.

    ``about_switches`` are findings made where polls become readings: they are about a switch and its wiring, and need
    no law to be seen. ``about_meters`` are what the agents found in the way of their own meters. ``scope`` says what
    is not asked about; empty: the whole site is.
    """

    site: str
    period: Period
    assumptions: Assumptions
    links: tuple[LinkEvidence, ...]
    ports: tuple[PortEvidence, ...]
    inventory_checked: bool
    known_weights: tuple[KnownWeight, ...] = ()
    about_switches: tuple[Finding, ...] = ()
    about_meters: tuple[Finding, ...] = ()
    scope: str = ""
    shared: tuple[SharedTraffic, ...] = ()
    pairs: tuple[NodePair, ...] = ()
    agreements: tuple[AgreementInForce, ...] = ()


# ---------------------------------------------------------------- what comes out


@dataclass(frozen=True, slots=True)
class ByteInterval:
    """Bytes certainly at least ``lower`` and, unless None, certainly at most ``upper``."""

    lower: int
    upper: int | None


@dataclass(frozen=True, slots=True)
class LawResult:
    """One law on one link and direction.

    ``YES``: tested over the whole period (at least the required coverage of it) at all start and end times
    at once, and nowhere broken, so that no more than ``hidden_bytes_bound`` can be missing. ``NO``: broken
    for certain. ``UNKNOWN``: ``unknown_because`` says why, ``text`` says what is missing.

    ``gap_at_least_bytes`` is the certain size of the breach (0 unless ``holds`` is NO); ``margin`` says in
    words how wrong an assumption would have to be for the breach to dissolve; ``margin_ns`` is the timing error,
    at both ends of every reading's window, that still leaves it standing. It is None where no error shorter than
    the evidence would dissolve it, and where nothing is broken.
    """

    law: str
    holds: Holds
    gap_at_least_bytes: int
    margin: str
    margin_ns: int | None = None
    text: str = ""
    unknown_because: Unknown | None = None
    hidden_bytes_bound: int | None = None
    """Most bytes that can be missing from this law in the period without it being broken (bounds.md 11)."""
    from_ns: int | None = None
    to_ns: int | None = None
    """Where the breach is largest."""


class SumOf(enum.Enum):
    """What a law over several links is about."""

    SWITCH = "switch"
    POD = "pod"
    NODE_PAIR = "node-pair"


@dataclass(frozen=True, slots=True)
class SumResult:
    """One law over the links of a switch, of a pod, or between two nodes.

    ``left_bytes`` and ``right_bytes`` are what the two sides certainly and possibly moved in the period, without
    drops and allowances. That it is broken is certain; whose fault it is is not: devices may drop uncounted.
    """

    of: SumOf
    name: str
    switch: str | None
    nodes: tuple[str, ...]
    left: ByteInterval
    right: ByteInterval
    result: LawResult


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing seen, with what it rests on. ``port`` is set instead of ``link`` for switch ports.

    A limit of a node with several links is about their sum: ``node`` is set, ``link`` is not.

    ``certain`` means proof that leaves no honest explanation; gaps and resets accuse nobody and never are.
    """

    kind: FindingKind
    certain: bool
    text: str
    link: str | None = None
    direction: Direction | None = None
    switch: str | None = None
    port: str | None = None
    node: str | None = None
    bytes_at_least: int | None = None
    from_ns: int | None = None
    to_ns: int | None = None
    margin: str = ""


class WindowsBy(enum.Enum):
    """What a bound of the fullest window rests on."""

    BUCKETS = "millisecond-buckets"
    READINGS = "readings"
    BOTH = "buckets-and-readings"


@dataclass(frozen=True, slots=True)
class WindowWitness:
    """What one observer shows of the fullest window of a limit, on the cable.

    Attributes:
        observer: who.
        least, most: bytes that some window certainly held, and that any can have held; None: not bounded.
        least_by, most_by: what they rest on.
        from_ns: when the window with ``least`` begins; None: it is one of several, or there is none.
        exact_to_ns: ``from_ns`` is the earliest time; it is no later than this much after. 0 by readings, whose times
            are the controller's.
        bucket_share: share of all windows that millisecond buckets cover, 0 to 1.
    """

    observer: Observer
    least: int
    most: int | None
    least_by: WindowsBy
    most_by: WindowsBy
    from_ns: int | None
    exact_to_ns: int
    bucket_share: float


@dataclass(frozen=True, slots=True)
class LimitResult:
    """One limit on the node of a link, in its direction, over every sliding window: the sum over the node's links.

    ``worst_at_least_bytes`` is the most any window certainly held, ``worst_at_most_bytes`` the most any
    can have held; the window is ``(worst_from_ns, worst_from_ns + window]`` of the former, if any.
    """

    limit: Limit
    holds: Holds
    worst_at_least_bytes: int
    worst_at_most_bytes: int | None
    worst_from_ns: int | None
    text: str
    exceeded_by: tuple[TrustDomain, ...] = ()
    """The trust domains whose own evidence proves an excess."""
    kept_by: tuple[TrustDomain, ...] = ()
    """The trust domains whose own evidence proves the limit kept."""
    witnesses: tuple[WindowWitness, ...] = ()
    """What each observer shows by itself, from buckets or readings; the bounds above are what several vouch for."""


@dataclass(frozen=True, slots=True)
class LinkResult:
    """The cross-check of one link and direction."""

    link: str
    node: str
    pod: str
    direction: Direction
    verdict: Verdict
    coverage: float
    hidden_bytes_bound: int | None
    observers: Mapping[Observer, ByteInterval]
    laws: tuple[LawResult, ...]
    limits: tuple[LimitResult, ...]
    undecided: tuple[str, ...] = ()
    """What would decide it, when the verdict is inconclusive."""
    agreed: ByteInterval = ByteInterval(0, None)
    """What is true of the bytes in the period with up to ``assumptions.liars`` domains lying (bounds.md 13)."""
    epochs: Mapping[Observer, int] = field(default_factory=dict)
    """Counter epochs each observer showed; many of them make the hidden bytes a larger share."""


@dataclass(frozen=True, slots=True)
class PortResult:
    """What one switch port moved in the period, both directions."""

    switch: str
    port: str
    declared: bool
    lower_bytes: int
    upper_bytes: int | None
    operational: bool | None


@dataclass(frozen=True, slots=True)
class CrossCheck:
    """The result for a site and period."""

    site: str
    period: Period
    evidence_from_ns: int | None
    assumptions: Assumptions
    links: tuple[LinkResult, ...]
    ports: tuple[PortResult, ...]
    findings: tuple[Finding, ...]
    verdict: Verdict
    known_weights: tuple[tuple[KnownWeight, bool, str], ...] = ()
    """Each weight in the period, whether every observer showed it, and the sentence that says so."""
    scope: str = ""
    """What the verdict is not about; empty: it is about the whole site and period."""
    sums: tuple[SumResult, ...] = ()
    """Laws over several links; none of them convicts anybody, so the verdict does not rest on them."""
    pairs: tuple[NodePair, ...] = ()
    """Which node pair moved how much, as the meters counted; no verdict rests on it."""
    agreements: tuple[AgreementInForce, ...] = ()
    """What both parties had signed, for whoever checks the result; empty: only the site file's limits were held."""
