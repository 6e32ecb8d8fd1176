"""What agents say of their limiters, held against the leases they were given: findings about limits and load windows.

Every look at a limiter becomes a :class:`controller.crosscheck.enforcement.Look`; the leases and revocations that came
between two looks are those the journal holds under the numbers between. A limiter that counts anew, or another boot,
begins anew.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from controller.agreement.inforce import accepted
from controller.crosscheck.enforcement import Allowed, Look, excess
from controller.crosscheck.model import Finding, FindingKind, Period
from controller.journal import Entry, Journal, Kind
from controller.loads.window import Opened, windows_in
from controller.observations.agreed import AgreedFindings, InForce, in_force_over
from controller.observations.limitbuckets import BucketScan
from controller.observations.loads import LoadFindings
from controller.observations.meters import MeterFindings
from controller.observations.pairs import PairCounts
from controller.observations.refusals import RefusalFindings
from controller.observations.shares import Shares
from controller.observations.tables import TableFindings
from controller.site import Dpu
from protos.lease import Lease, Revocation, Slot
from protos.leasewire import LeaseFaultError, parse_lease, parse_revocation, slot_of
from protos.units import format_bytes, format_duration
from protos.v1 import frame_pb2, lease_pb2

MAX_TEXTS = 3
AROUND_NS = 3_600_000_000_000
"""A lease is journaled before it is sent; one that takes longer than an hour to arrive has expired on its way."""


def limit_findings(journal: Journal, dpu: Dpu, period: Period) -> LimitFindings:
    """Return what listens to the frames of ``dpu`` about its limits.

    Raises:
        EvidenceError: a journaled load window or agreement cannot be read.
    """
    entries = journal.entries(
        kinds=[Kind.LEASE], source=dpu.name, from_ns=period.from_ns - AROUND_NS, to_ns=period.to_ns + AROUND_NS
    )
    given = [each for each in map(_given, entries) if each is not None]
    windows = windows_in(journal.entries(kinds=[Kind.LOAD_WINDOW], source=dpu.name))
    return LimitFindings(dpu, period, given=given, windows=windows, agreements=in_force_over(accepted(journal)))


def _given(entry: Entry) -> Lease | Revocation | None:
    try:
        if entry.meta.get("what") == "revocation":
            return parse_revocation(lease_pb2.SignedLeaseRevocation.FromString(entry.body).body)
        return parse_lease(lease_pb2.SignedLease.FromString(entry.body).body)
    except LeaseFaultError:
        # Written by a later version: what it allowed is not known here, and nobody is accused over it.
        return None


@dataclass(slots=True)
class _Series:
    """The looks at one limiter since it last began to count; and what was odd about it."""

    boot_id: str
    looks: list[Look] = field(default_factory=list)
    highest: int = 0
    times: list[tuple[int, int]] = field(default_factory=list)
    chain: tuple[Allowed, ...] = ()
    scan: BucketScan | None = None
    scanned: list[BucketScan] = field(default_factory=list)


class LimitFindings:
    """Takes in frames in order."""

    def __init__(
        self,
        dpu: Dpu,
        period: Period,
        *,
        given: Sequence[Lease | Revocation],
        windows: Sequence[Opened],
        agreements: Sequence[InForce] = (),
    ) -> None:
        """``given`` is what was issued to the agent around the period, ``windows`` its load windows."""
        self._agent, self._node, self._period = dpu.name, dpu.node, period
        self._given = sorted(given, key=lambda each: each.sequence)
        self._numbers = [each.sequence for each in self._given]
        self._open: dict[Slot, _Series] = {}
        self._done: list[tuple[Slot, _Series]] = []
        self._troubles: dict[str, tuple[int, int, int]] = {}
        self._loads = LoadFindings(dpu, period, windows)
        self._agreed = AgreedFindings(dpu, period, agreements, windows)
        self._refusals = RefusalFindings(dpu, period)

    def take(self, frame: frame_pb2.Frame, from_ns: int, to_ns: int) -> None:
        """Take in what ``frame`` says of limits; it was made after ``from_ns`` and received by ``to_ns``."""
        self._agreed.take(frame, from_ns, to_ns)
        self._refusals.take(frame, from_ns, to_ns)
        if to_ns <= self._period.from_ns or from_ns > self._period.to_ns or not frame.HasField("limits"):
            return
        if frame.limits.unavailable:
            self._trouble(f"its limiter cannot be used: {frame.limits.unavailable}", from_ns, to_ns)
        for reading in frame.limits.limiters:
            try:
                slot = slot_of(reading.state)
            except LeaseFaultError:
                continue
            if reading.trouble:
                self._trouble(f"{slot}: {reading.trouble}", from_ns, to_ns)
            if reading.HasField("counters"):
                self._look(frame, slot, reading, (from_ns, to_ns))
                self._loads.take(slot, reading, from_ns, to_ns)

    def findings(self) -> list[Finding]:
        """Return them in order of time."""
        found = [
            finding
            for slot, series in [*self._done, *self._open.items()]
            if (finding := self._excess(slot, series) or self._burst(slot, series)) is not None
        ]
        found += [
            Finding(
                FindingKind.LIMIT_NOT_ENFORCED,
                certain=False,
                text=f"{self._agent}: {text}; in {frames} frames",
                node=self._node,
                from_ns=from_ns,
                to_ns=to_ns,
            )
            for text, (from_ns, to_ns, frames) in list(self._troubles.items())[:MAX_TEXTS]
        ]
        listeners = (self._loads, self._agreed, self._refusals)
        found += [finding for each in listeners for finding in each.findings()]
        return sorted(found, key=lambda each: each.from_ns or 0)

    def _trouble(self, text: str, from_ns: int, to_ns: int) -> None:
        began_ns, _, frames = self._troubles.get(text, (from_ns, to_ns, 0))
        self._troubles[text] = (began_ns, to_ns, frames + 1)

    def _look(
        self, frame: frame_pb2.Frame, slot: Slot, reading: lease_pb2.LimiterReading, times: tuple[int, int]
    ) -> None:
        series = self._open.get(slot)
        passed = reading.counters.passed_bytes
        if series is None or series.boot_id != frame.clock.boot_id or passed < series.looks[-1].passed_bytes:
            if series is not None:
                self._done.append((slot, series))
            series = self._open[slot] = _Series(frame.clock.boot_id)
            changes: tuple[Allowed, ...] = ()
            # What was in force before the first look is not known, so its buckets are not judged.
            judged = False
        else:
            changes = self._between(slot, series.highest, frame.limits.highest_sequence, reading)
            judged = True
        chain = (*changes, _order(reading))
        if judged and reading.HasField("moments"):
            self._scan(series, reading.moments, (*series.chain, *chain), times)
        # The newest buckets of a frame are told by the next one, whose chain may not hold their order any more.
        series.chain = chain
        series.looks.append(Look(reading.earliest_ns, reading.latest_ns, passed, _order(reading), changes))
        series.times.append(times)
        series.highest = frame.limits.highest_sequence

    @staticmethod
    def _scan(
        series: _Series, moments: lease_pb2.LimiterMoments, chain: tuple[Allowed, ...], times: tuple[int, int]
    ) -> None:
        """Go on with the scan of buckets, or begin anew where another bound holds or the buckets go back."""
        rate = max(max(each.rate_bytes_per_s, each.floor_rate_bytes_per_s) for each in chain)
        depth = max(max(each.depth_bytes, each.floor_depth_bytes) for each in chain)
        scan = series.scan
        if scan is None or not scan.goes_on(rate, depth, moments):
            scan = series.scan = BucketScan(rate, depth, moments, times[0])
            series.scanned.append(scan)
        scan.take(moments, times[1])

    def _between(self, slot: Slot, after: int, up_to: int, reading: lease_pb2.LimiterReading) -> tuple[Allowed, ...]:
        floor = reading.floor_rate_bytes_per_s, reading.floor_depth_bytes
        found = []
        for each in self._given[bisect_right(self._numbers, after) : bisect_right(self._numbers, up_to)]:
            if each.slot not in {None, slot}:
                continue
            if isinstance(each, Revocation):
                found.append(Allowed(*floor))
            else:
                own = (each.rate_bytes_per_s, each.depth_bytes, each.not_before_ns, each.end_ns)
                found.append(Allowed(*own, *floor))
        return tuple(found)

    def _excess(self, slot: Slot, series: _Series) -> Finding | None:
        found = excess(series.looks)
        if found is None:
            return None
        at: Mapping[int, tuple[int, int]] = dict(
            zip([look.earliest_ns for look in series.looks], series.times, strict=True)
        )
        ends = {look.latest_ns: times for look, times in zip(series.looks, series.times, strict=True)}
        length = format_duration(found.to_ns - found.from_ns)
        return Finding(
            FindingKind.LIMIT_NOT_ENFORCED,
            certain=True,
            text=(
                f"{self._agent}, {slot}: within {length} the limiter let {format_bytes(found.passed_bytes)} through, "
                f"its leases allow {format_bytes(found.allowed_bytes)} at most"
            ),
            node=self._node,
            direction=slot.direction,
            bytes_at_least=found.bytes,
            from_ns=at[found.from_ns][0],
            to_ns=ends[found.to_ns][1],
        )

    def _burst(self, slot: Slot, series: _Series) -> Finding | None:
        """Return the worst excess within the milliseconds, which the totals of each second cannot show."""
        scan = max(series.scanned, key=lambda each: each.excess_bytes, default=None)
        if scan is None or scan.excess_bytes == 0:
            return None
        window = scan.window
        length_ns = (window.last - window.first + 1) * scan.width_ns
        allowed = window.bytes - scan.excess_bytes
        return Finding(
            FindingKind.LIMIT_NOT_ENFORCED,
            certain=True,
            text=(
                f"{self._agent}, {slot}: within {format_duration(length_ns)} the limiter let "
                f"{format_bytes(window.bytes)} through, its leases allow {format_bytes(allowed)} at most"
            ),
            node=self._node,
            direction=slot.direction,
            bytes_at_least=scan.excess_bytes,
            from_ns=scan.from_ns,
            to_ns=scan.to_ns,
        )


class Heard:
    """Several that listen to the same frames; those in ``finding`` have findings to tell."""

    def __init__(
        self, *finding: MeterFindings | LimitFindings | TableFindings, pairs: PairCounts, shares: Shares
    ) -> None:
        self._finding, self._pairs, self._shares = finding, pairs, shares

    def take(self, frame: frame_pb2.Frame, from_ns: int, to_ns: int) -> None:
        """Let each take it."""
        for each in (*self._finding, self._pairs, self._shares):
            each.take(frame, from_ns, to_ns)

    def findings(self) -> list[Finding]:
        """Return what each found."""
        return [finding for each in self._finding for finding in each.findings()]


def _order(reading: lease_pb2.LimiterReading) -> Allowed:
    state = reading.state
    return Allowed(
        rate_bytes_per_s=state.rate_bytes_per_s,
        depth_bytes=state.depth_bytes,
        until_ns=state.until_ns if state.HasField("until_ns") else None,
        floor_rate_bytes_per_s=reading.floor_rate_bytes_per_s,
        floor_depth_bytes=reading.floor_depth_bytes,
    )
