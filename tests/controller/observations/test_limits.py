"""What frames say of limiters, held against leases: an honest limiter is never accused, one that does not hold is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from controller.crosscheck.model import Finding, FindingKind, Period
from controller.journal import Journal
from controller.loads.window import Opened, close_entry, grants_of
from controller.observations.limits import LimitFindings
from controller.observations.loads import load_budgets
from controller.site import Dpu, Endpoint, Uplink
from controller.timeline import Timeline
from protos.buckets import TrafficClass
from protos.lease import Lease, LeaseKind, LoadWindow, Revocation, Slot
from protos.leasewire import DIRECTION_TO_WIRE, KIND_TO_WIRE, load_window_body
from protos.moments import Moment, pack_moments
from protos.reading import Direction
from protos.v1 import frame_pb2, lease_pb2

S = 10**9
UPLINK = Uplink("p0", "pf0hpf", None, 10**9, 1500)
DPU = Dpu("node1-dpu0", "node1", Endpoint("192.0.2.1", 7443), None, (UPLINK,))
SLOT = Slot("pf0hpf", Direction.EGRESS, TrafficClass.OTHER_POD)
PERIOD = Period(0, 10**6 * S)
WINDOW = LoadWindow("demo", DPU.name, 1, TrafficClass.STORAGE, 1_000_000, 10_000, 600 * S)
OPENED = Opened(WINDOW, load_window_body(WINDOW), b"", "node1", "p0", 10**6, 5 * S)


def lease(sequence: int, at_s: int, slot: Slot = SLOT, rate: int = 1_000_000, depth: int = 64_000) -> Lease:
    return Lease(DPU.name, sequence, "b", slot, rate, depth, 10**12, at_s * S, 30 * S, sequence)


def frame(
    at_s: int,
    *,
    passed: int,
    in_force: Lease | None = None,
    slot: Slot = SLOT,
    dropped: int = 0,
    highest: int = 0,
    boot: str = "b",
    used: int = 0,
    trouble: str = "",
    unavailable: str = "",
    moments: Sequence[Moment] = (),
) -> frame_pb2.Frame:
    state = lease_pb2.LeaseState(
        port=slot.port, direction=DIRECTION_TO_WIRE[slot.direction], traffic_class=slot.traffic_class
    )
    if in_force is not None:
        state.sequence, state.kind = in_force.sequence, KIND_TO_WIRE[in_force.kind]
        state.rate_bytes_per_s, state.depth_bytes = in_force.rate_bytes_per_s, in_force.depth_bytes
        state.until_ns, state.used_bytes = in_force.end_ns, used
    reading = lease_pb2.LimiterReading(
        state=state,
        counters=lease_pb2.LimiterCounters(passed_bytes=passed, dropped_bytes=dropped),
        earliest_ns=at_s * S,
        latest_ns=at_s * S + 1_000,
        trouble=trouble,
    )
    if moments:
        first = at_s * 1_000 - 1_000
        reading.moments.CopyFrom(
            lease_pb2.LimiterMoments(
                width_ns=10**6, first_bucket=first, bucket_count=1_000, series=pack_moments(first, moments)
            )
        )
    return frame_pb2.Frame(
        clock=frame_pb2.ClockStamp(boot_id=boot),
        limits=lease_pb2.LimitsReading(
            backend="police",
            unavailable=unavailable,
            highest_sequence=highest or (in_force.sequence if in_force else 0),
            limiters=[reading],
        ),
    )


def found(
    frames: Sequence[tuple[int, frame_pb2.Frame]],
    given: Sequence[Lease | Revocation] = (),
    windows: Sequence[Opened] = (),
) -> list[Finding]:
    listener = LimitFindings(DPU, PERIOD, given=given, windows=windows)
    for at_s, each in frames:
        listener.take(each, at_s * S, at_s * S + S // 2)
    return listener.findings()


def test_a_limiter_that_holds_its_leases_is_not_accused_over_renewals_and_a_revocation() -> None:
    given: list[Lease | Revocation] = [lease(1, 0), lease(2, 10), lease(3, 20), Revocation(DPU.name, 4, SLOT)]
    frames = [(0, frame(0, passed=0))]
    for at_s in range(1, 30):
        current = given[at_s // 10]
        assert isinstance(current, Lease)
        frames.append((at_s, frame(at_s, passed=64_000 + 1_000_000 * at_s, in_force=current)))
    frames += [(at_s, frame(at_s, passed=64_000 + 29_000_000, highest=4)) for at_s in range(30, 40)]
    assert found(frames, given) == []


def test_more_than_any_lease_allowed_is_found_with_its_size_and_place() -> None:
    one = lease(1, 0)
    frames = [(at_s, frame(at_s, passed=2_000_000 * at_s, in_force=one)) for at_s in range(20)]
    (finding,) = found(frames, [one])
    assert finding.kind is FindingKind.LIMIT_NOT_ENFORCED
    assert finding.certain
    assert finding.bytes_at_least is not None
    assert 18_900_000 < finding.bytes_at_least < 19_000_000
    assert (finding.node, finding.direction, finding.from_ns) == ("node1", Direction.EGRESS, 0)
    assert "38.0 MB through, its leases allow 19.1 MB" in finding.text


def test_more_than_a_lease_allows_in_milliseconds_is_found_though_its_seconds_look_right() -> None:
    one = lease(1, 0)
    # Within every second less than the rate; around the turn of the third one 120 kB in 3 ms.
    quiet: list[Moment] = [(1_500, 900_000, 0)]
    spread = [(2_000 + at, 1_000, 0) for at in range(800)]
    edges = [*spread, (2_999, 59_999, 0)], [(3_001, 60_000, 5)]
    frames = [
        (1, frame(1, passed=0, in_force=one)),
        (3, frame(3, passed=859_999, in_force=one, moments=edges[0])),
        (4, frame(4, passed=919_999, in_force=one, moments=edges[1])),
    ]
    (finding,) = found(frames, [one])
    assert finding.kind is FindingKind.LIMIT_NOT_ENFORCED
    assert (finding.certain, finding.bytes_at_least) == (True, 119_999 - 64_000 - 3_000)
    assert "within 3 ms" in finding.text
    assert found([frames[0], (3, frame(3, passed=859_999, in_force=one, moments=spread)), frames[2]], [one]) == []
    # What passed before the first look is under an order that nobody knows; a deeper one in between explains it.
    assert found([(2, frame(2, passed=900_000, in_force=one, moments=quiet))], [one]) == []
    deep = lease(2, 0, depth=10**6)
    back = lease(3, 0)
    explained = [frames[0], (3, frame(3, passed=10**6, in_force=back, moments=[(2_500, 900_000, 0)]))]
    assert found(explained, [one, deep, back]) == []
    assert len(found(explained, [one, back])) == 1


def test_a_lease_that_only_the_journal_knows_explains_what_passed_between_two_frames() -> None:
    burst = lease(1, 0, rate=10_000_000, depth=1_000_000)
    frames = [(0, frame(0, passed=0)), (1, frame(1, passed=11_000_000, highest=2))]
    (finding,) = found(frames)
    assert finding.bytes_at_least == 11_000_000
    assert found(frames, [burst, Revocation(DPU.name, 2, None)]) == []


def test_counters_that_begin_anew_and_another_boot_begin_anew() -> None:
    one = lease(1, 0)
    frames = [
        (0, frame(0, passed=10**9, in_force=one)),
        (1, frame(1, passed=0, in_force=one)),
        (2, frame(2, passed=10**9, boot="c")),
        (3, frame(3, passed=10**9, boot="c")),
    ]
    assert found(frames, [one]) == []


def test_what_the_agent_itself_says_is_wrong_is_told_and_accuses_nobody() -> None:
    frames = [(at_s, frame(at_s, passed=0, trouble="the limiter holds no order for it")) for at_s in range(3)]
    frames.append((3, frame(3, passed=0, unavailable="no such backend")))
    two = found(frames)
    assert {(each.kind, each.certain) for each in two} == {(FindingKind.LIMIT_NOT_ENFORCED, False)}
    assert "in 3 frames" in two[0].text
    assert "no such backend" in two[1].text


def test_leases_that_an_agent_refused_are_told_by_reason_and_accuse_nobody() -> None:
    def refusing(at_s: int, start: int, **counts: int) -> tuple[int, frame_pb2.Frame]:
        made = frame(at_s, passed=0)
        made.agent_start = start
        for reason, count in counts.items():
            made.limits.refusals.add(reason=reason.replace("_", "-"), count=count, text=f"number {count} is old")
        return at_s, made

    # What the first frame tells may be of any time; another start counts anew.
    frames = [
        refusing(1, 7, old_sequence=5),
        refusing(2, 7, old_sequence=5),
        refusing(3, 7, old_sequence=7, bad_signature=1),
        refusing(4, 8, old_sequence=1),
    ]
    told = found(frames)
    assert {(each.kind, each.certain) for each in told} == {(FindingKind.LEASE_REFUSED, False)}
    assert {each.text.partition(",")[0] for each in told} == {
        "node1-dpu0 refused 3 for the reason old-sequence",
        "node1-dpu0 refused 1 for the reason bad-signature",
    }
    assert found(frames[:2]) == []


def loading(slot: Slot, *looks: tuple[int, int, int, bool]) -> list[tuple[int, frame_pb2.Frame]]:
    """Looks of (second, used, dropped, whether the load lease is in force)."""
    grant = next(grant for grant, _ in grants_of(OPENED, UPLINK) if grant.slot == slot)
    held = Lease(
        DPU.name, 1, "b", slot, grant.rate_bytes_per_s, grant.depth_bytes, 10**6, 5 * S, 600 * S, 1, LeaseKind.LOAD
    )
    return [
        (
            at_s,
            frame(at_s, slot=slot, passed=used, used=used, dropped=dropped, in_force=held if on else None, highest=1),
        )
        for at_s, used, dropped, on in looks
    ]


INTO = Slot("p0", Direction.INGRESS, TrafficClass.STORAGE)
BACK = Slot("pf0hpf", Direction.EGRESS, TrafficClass.STORAGE)


def test_a_load_within_its_window_is_nothing_to_tell() -> None:
    assert found(loading(INTO, (4, 0, 9, False), (6, 10, 9, True), (7, 999_999, 50, True)), windows=[OPENED]) == []
    # What is dropped before it opened, after it ended, or while its rate holds it back is no overrun.
    assert found(loading(INTO, (700, 0, 0, False), (701, 0, 10**6, False)), windows=[OPENED]) == []


def test_what_is_sent_beyond_the_budget_is_an_overrun_and_the_other_way_reverse_traffic() -> None:
    for slot, kind in ((INTO, FindingKind.LOAD_WINDOW_OVERRUN), (BACK, FindingKind.LOAD_WINDOW_REVERSE_TRAFFIC)):
        looks = loading(slot, (6, 0, 0, True), (7, 5_000, 100, True), (8, 0, 400, False), (9, 0, 900, False))
        tried = [each for each in found(looks, windows=[OPENED]) if each.kind is kind]
        assert [(each.certain, each.bytes_at_least) for each in tried] == [(False, 800)]
        volume = 1_000_000 if slot is INTO else 10_000
        passed = loading(slot, (6, 0, 0, True), (7, volume + 70, 0, True))
        over = [each for each in found(passed, windows=[OPENED]) if each.kind is kind]
        assert [(each.certain, each.bytes_at_least) for each in over] == [(True, 70)]


def test_a_load_window_counts_for_its_node_and_directions_while_it_touches_the_period(tmp_path: Path) -> None:
    _, anchor = Timeline.first()
    with Journal.create(tmp_path / "journal.db", anchor, OPENED.entry()) as journal:
        both = {("node1", Direction.INGRESS): 1_000_000, ("node1", Direction.EGRESS): 10_000}
        assert load_budgets(journal, Period(0, 5 * S)) == both
        assert load_budgets(journal, Period(604 * S, 700 * S)) == both
        assert load_budgets(journal, Period(0, 4 * S)) == load_budgets(journal, Period(605 * S, 700 * S)) == {}
        journal.append(close_entry(OPENED, 9 * S))
        assert load_budgets(journal, Period(9 * S, 700 * S)) == {}
