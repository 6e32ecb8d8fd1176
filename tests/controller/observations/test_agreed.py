"""Limits of the agreement by class and by pair, on what agents' meters counted: nobody honest is accused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from controller.agreement.document import Agreement, Limit
from controller.agreement.envelope import SignedAgreement
from controller.crosscheck.model import Finding, FindingKind, Period, Verdict
from controller.crosscheck.verdict import site_verdict
from controller.observations.agreed import AgreedFindings, InForce, agreements_in, in_force_over
from controller.observations.limits import LimitFindings
from controller.site import Dpu, Endpoint, Uplink
from protos.buckets import TrafficClass
from protos.lease import Bound
from protos.reading import Direction
from protos.v1 import frame_pb2, lease_pb2, meter_pb2

S = 10**9
DPU = Dpu("node1-dpu0", "node1", Endpoint("192.0.2.1", 7443), None, (Uplink("p0", "pf0hpf", None, 10**9, 1500),))
PERIOD = Period(0, 10**6 * S)
BOTH = frozenset(Direction)
OTHER = TrafficClass.OTHER_POD


def limit(scope: str, names: tuple[str, ...], window_s: int, size: int, of: TrafficClass = OTHER) -> Limit:
    return Limit(scope, names, of, BOTH, 1, (Bound(window_s * S, size),), f"limits[{scope}]")


def agreement(*limits: Limit) -> Agreement:
    return Agreement("demo", 1, 0, 10**20, 60 * S, limits, None)


def frame(
    at_s: int,
    *,
    peers: Mapping[str, int] | None = None,
    classes: Mapping[TrafficClass, int] | None = None,
    dropped: Mapping[TrafficClass, int] | None = None,
    port: str = "pf0hpf",
    full: bool = True,
    table: bytes = b"t",
) -> frame_pb2.Frame:
    meter = meter_pb2.MeterReading(port=port, since_ns=1, full=full)
    meter.peers.extend(meter_pb2.PeerTotals(peer=name, wire_bytes=size) for name, size in (peers or {}).items())
    for each, size in (classes or {}).items():
        meter.classes.add(traffic_class=each, total=meter_pb2.MeterTotals(wire_bytes=size))
    limits = lease_pb2.LimitsReading()
    for each, size in (dropped or {}).items():
        limits.limiters.add(
            state=lease_pb2.LeaseState(port=port, traffic_class=each),
            counters=lease_pb2.LimiterCounters(dropped_bytes=size),
        )
    stamp = frame_pb2.ClockStamp(boot_id="b", monotonic_ns=at_s * S)
    return frame_pb2.Frame(clock=stamp, meters=[meter], limits=limits, class_table_sha256=table)


def found(frames: Sequence[frame_pb2.Frame], held: Agreement, from_s: int = 0) -> list[Finding]:
    listener = AgreedFindings(DPU, PERIOD, [InForce(held, from_s * S, held.valid_to_ns)], ())
    for each in frames:
        listener.take(each, each.clock.monotonic_ns, each.clock.monotonic_ns + S // 2)
    return listener.findings()


PAIR = agreement(limit("pair", ("node1 node2",), 10, 1_000))


def test_more_to_a_peer_than_a_window_allows_is_found_and_as_much_as_it_allows_is_not() -> None:
    kept = [frame(at, peers={"node2": 100 * at, "node3": 10**6 * at}) for at in range(30)]
    assert found(kept, PAIR) == []
    # 9 s from the first stamp to the one after the last count; a window of 10 s holds eight steps for certain.
    broken = [frame(at, peers={"node2": 200 * at}) for at in range(30)]
    (finding,) = found(broken, PAIR)
    assert (finding.kind, finding.certain) == (FindingKind.LIMIT_EXCEEDED, True)
    assert finding.bytes_at_least == 9 * 200 - 1_000
    assert (finding.node, finding.direction) == ("node1", Direction.EGRESS)
    assert "node1 and node2" in finding.text
    assert found(broken, agreement(limit("pair", ("node2 node3",), 10, 1_000))) == []
    assert found(broken, agreement(limit("pair", ("*",), 10, 1_000))) != []
    assert found(broken, PAIR, from_s=25) == []


def test_what_the_limiter_dropped_did_not_pass() -> None:
    flooded = [
        frame(at, peers={"node2": 10_000 * at}, dropped={OTHER: 9_950 * at, TrafficClass.STORAGE: 7})
        for at in range(30)
    ]
    assert found(flooded, PAIR) == []
    leaking = [frame(at, peers={"node2": 10_000 * at}, dropped={OTHER: 9_000 * at}) for at in range(30)]
    (finding,) = found(leaking, PAIR)
    # Drops of one frame more are taken off: they may belong to the time before the first count.
    assert finding.bytes_at_least == 9 * 10_000 - 10 * 9_000 - 1_000 + 9_000 * (finding.from_ns == 0)


def test_a_class_of_a_node_with_all_that_counts_as_another_pod() -> None:
    held = agreement(limit("node", ("*",), 10, 1_000))
    counted = {OTHER: 0, TrafficClass.UNKNOWN: 100, TrafficClass.NON_IP: 100, TrafficClass.STORAGE: 10**6}
    frames = [frame(at, classes={each: size * at for each, size in counted.items()}) for at in range(30)]
    (finding,) = found(frames, held)
    assert finding.bytes_at_least == 9 * 200 - 1_000
    assert found(frames, agreement(limit("node", ("node2",), 10, 1_000))) == []
    assert found(frames, agreement(limit("pod", ("*",), 10, 1_000))) == []
    assert len(found(frames, agreement(limit("node", ("node1",), 10, 10**6, TrafficClass.STORAGE)))) == 1


def test_counts_that_begin_anew_or_are_not_all_told_accuse_nobody() -> None:
    held = PAIR
    assert found([frame(0, peers={"node2": 10**9}), frame(1, peers={"node2": 0}), frame(2)], held) == []
    tables = [frame(at, peers={"node2": 10**6 * at}, table=b"t%d" % at) for at in range(5)]
    assert found(tables, held) == []
    parts = [frame(0, full=False), *(frame(at, peers={"node2": 10**9}, full=False) for at in range(1, 5))]
    assert found(parts, held) == []
    gap = [frame(0, peers={"node2": 0}), frame(90, peers={"node2": 10**9}), frame(91, peers={"node2": 10**9})]
    assert found(gap, held) == []


def test_each_agreement_counts_from_its_acceptance_and_its_breach_convicts_the_site() -> None:
    one, two = agreement(limit("node", ("*",), 1, 1)), agreement(limit("node", ("*",), 1, 2))
    held = in_force_over([(at, SignedAgreement("a test", b"", each, {})) for at, each in ((5, one), (9, two))])
    assert held == [InForce(one, 5, 9), InForce(two, 9, two.valid_to_ns)]
    listener = LimitFindings(DPU, PERIOD, given=[], windows=[], agreements=[InForce(PAIR, 0, PAIR.valid_to_ns)])
    for at in range(30):
        listener.take(frame(at, peers={"node2": 200 * at}), at * S, at * S + 1)
    (finding,) = listener.findings()
    assert finding.kind is FindingKind.LIMIT_EXCEEDED
    facts = {"bytes_on_undeclared_port": False, "ports_clean": True}
    assert site_verdict([Verdict.COMPLIANT], **facts) is Verdict.COMPLIANT
    assert site_verdict([Verdict.COMPLIANT], **facts, agreement_broken=True) is Verdict.VIOLATION


def test_an_agreement_binds_nobody_outside_of_its_validity() -> None:
    def signed(valid_from_ns: int, valid_to_ns: int) -> SignedAgreement:
        return SignedAgreement("a test", b"", replace(PAIR, valid_from_ns=valid_from_ns, valid_to_ns=valid_to_ns), {})

    accepted = [(5, signed(7, 100)), (20, signed(0, 30)), (40, signed(60, 70)), (50, signed(0, 10**20))]
    held = in_force_over(accepted)
    assert [(each.from_ns, each.to_ns) for each in held] == [(7, 20), (20, 30), (50, 10**20)]
    assert [each.from_ns for each in agreements_in(accepted, Period(20, 50))] == [20]
