"""The audit's judgement, and the reading of the kernel's answers it rests on."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpu_agent.meter.audit import (
    HOOK_BYPASSED,
    IN_FLIGHT_PACKETS,
    OFFLOADED,
    STALE_LOOKS,
    Audit,
    Look,
    Offloads,
    Verdict,
)
from dpu_agent.meter.drain import LaneMark, Mark
from dpu_agent.meter.hooks import Chain, Filter, Offload, chain_of, offload_of
from dpu_agent.meter.layout import MARKS_BYTES
from dpu_agent.meter.libbpf import ProgramId
from dpu_agent.meter.marks import Marks, read, write
from protos.buckets import Totals

OWN = ProgramId(42, "00112233445566ff")
INSTALLED = Filter(1, 1, "bpf", 42, "00112233445566ff", "weighbridge")
OTHER = Filter(1, 2, "bpf", 7, "ff" * 8, "other")


def chain(*filters: Filter, xdp: int = 0, tcx: tuple[int, ...] = ()) -> Chain:
    return Chain(3, xdp, tcx, filters, 0, 0)


def look(port: int, metered: int) -> Look:
    return Look(port, port * 100, Totals(metered * 100, metered * 100, metered))


def judged(found: Chain, *looks: Look) -> list[Verdict]:
    audit = Audit(look(0, 0))
    return [audit.judge(found, OWN, each) for each in looks]


@pytest.mark.parametrize(
    ("found", "findings", "installed"),
    [
        (chain(INSTALLED), (), True),
        (chain(INSTALLED, OTHER), (), True),
        (chain(OTHER, INSTALLED), (HOOK_BYPASSED,), True),
        (chain(INSTALLED, xdp=9), (HOOK_BYPASSED,), True),
        (chain(INSTALLED, xdp=-1), (HOOK_BYPASSED,), True),
        (chain(INSTALLED, tcx=(5,)), (HOOK_BYPASSED,), True),
        (chain(), (HOOK_BYPASSED,), False),
        (chain(Filter(1, 1, "bpf", 42, "ff" * 8, "weighbridge")), (HOOK_BYPASSED,), False),
        (chain(Filter(1, 1, "bpf", 41, "00112233445566ff", "weighbridge")), (HOOK_BYPASSED,), False),
        (chain(Filter(1, 1, "u32"), INSTALLED), (HOOK_BYPASSED,), True),
    ],
)
def test_the_chain(found: Chain, findings: tuple[str, ...], *, installed: bool) -> None:
    (verdict,) = judged(found, look(10, 10))
    assert (verdict.findings, verdict.installed) == (findings, installed)
    assert len(verdict.texts) == len(findings)


def test_frames_on_their_way_are_no_offload() -> None:
    looks = [look(5_000 * n + IN_FLIGHT_PACKETS, 5_000 * n) for n in range(1, 20)]
    verdicts = judged(chain(INSTALLED), *looks)
    assert all(verdict.findings == () for verdict in verdicts)


def test_few_missing_frames_are_certain_a_second_later_and_told_once() -> None:
    verdicts = judged(chain(INSTALLED), look(100, 100), look(105, 100), look(105, 100), look(105, 100))
    assert [verdict.findings for verdict in verdicts] == [(), (), (OFFLOADED,), ()]
    assert verdicts[-1].unmetered_packets == 5


def test_many_missing_frames_are_told_at_once_with_their_share() -> None:
    (verdict,) = judged(chain(INSTALLED), look(100_000, 1_000))
    assert verdict.findings == (OFFLOADED,)
    assert verdict.offloaded_ppm == 990_000


@given(st.lists(st.tuples(st.integers(0, 5_000), st.integers(0, IN_FLIGHT_PACKETS)), max_size=30))
def test_an_honest_port_is_never_accused(steps: list[tuple[int, int]]) -> None:
    """Every frame of a look has come to the hook by the next one; up to the allowance are on their way."""
    audit, port = Audit(look(0, 0)), 0
    for arrived, on_their_way in steps:
        before, port = port, port + arrived
        assert audit.judge(chain(INSTALLED), OWN, look(port, max(before, port - on_their_way))).findings == ()


# ---------------------------------------------------------------- the card's statistics: constructed, await hardware


def test_what_the_card_forwarded_by_itself_is_told_each_second_that_it_does() -> None:
    offloads = Offloads()
    looks = [(100, 100), (200, 200), (300, 300), (400, 400), (500, 500), (1_500, 600), (2_500, 700), (2_600, 800)]
    # The first certain look takes off what came to the CPU while the card's count may have been old.
    assert [offloads.grown(Offload(*each)) for each in looks] == [0, 0, 0, 0, 0, 600, 900, 0]


def test_an_offload_is_a_finding_with_its_share_and_a_doubt_of_the_second_before() -> None:
    audit, found = Audit(look(0, 0)), []
    for received, by_cpu in ((100, 100), (100, 100), (100, 100), (100, 100), (900, 100)):
        told = Chain(3, 0, (), (INSTALLED,), 0, 0, Offload(received, by_cpu))
        found.append(audit.judge(told, OWN, look(received, by_cpu)))
    assert [each.findings for each in found] == [(), (), (), (), (OFFLOADED,)]
    assert "the card forwarded at least 800 packets that never came to the CPU" in found[-1].texts
    assert found[-1].offloaded_ppm == 1_000_000


@given(st.lists(st.tuples(st.integers(0, 1_000), st.integers(0, STALE_LOOKS)), min_size=1, max_size=40))
def test_a_card_that_forwards_nothing_is_never_accused(steps: list[tuple[int, int]]) -> None:
    """Its count is that of any look of the last few, and never goes back."""
    offloads, counted, shown = Offloads(), [0], 0
    for came, age in steps:
        counted.append(counted[-1] + came)
        shown = max(shown, counted[max(0, len(counted) - 1 - age)])
        assert offloads.grown(Offload(shown, counted[-1])) == 0


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=5, max_size=40), st.integers(0, 3))
def test_never_more_is_told_than_was_offloaded_and_all_of_it_once_it_rests(
    steps: list[tuple[int, int]], age: int
) -> None:
    """Whatever is not certain in traffic is certain in a rest before and after it."""
    steps = [*[(0, 0)] * 5, *steps, *[(0, 0)] * 5]
    offloads, cpu, card, told, offloaded = Offloads(), 0, [0], 0, 0
    for to_cpu, past in steps:
        cpu, offloaded = cpu + to_cpu, offloaded + past
        card.append(card[-1] + to_cpu + past)
        told += offloads.grown(Offload(card[max(0, len(card) - 1 - age)], cpu))
        assert told <= offloaded
    assert told == offloaded


# ---------------------------------------------------------------- the kernel's answers


@given(st.lists(st.tuples(st.integers(0, 60), st.binary(max_size=80)), max_size=6))
def test_any_answers_are_a_chain_or_refused(content: list[tuple[int, bytes]]) -> None:
    link = [(16, bytes(16) + data) for _, data in content]
    filters = [(kind, bytes(20) + data) for kind, data in content]
    try:
        found = chain_of(3, link, (), filters)
    except OSError:
        return
    assert found.packets >= 0


def attribute(kind: int, value: bytes) -> bytes:
    size = 4 + len(value)
    return struct.pack("=HH", size, kind) + value + bytes(-size % 4)


def test_offload_statistics_where_the_driver_has_them() -> None:
    total, hit = (struct.pack("=24Q", packets, *range(23)) for packets in (700, 40))
    nested = attribute(4, attribute(1, hit))
    told = struct.pack("=BxxxII", 0, 3, 9) + attribute(1, total)
    assert offload_of([(92, told + nested)]) == Offload(700, 40)
    assert offload_of([(92, told)]) is None, "a veth"
    assert offload_of([(92, struct.pack("=BxxxII", 0, 3, 9) + nested)]) is None
    assert offload_of([]) is None
    assert offload_of([(92, told + attribute(4, attribute(1, b"short")))]) is None


def test_numbers_tags_and_order_of_filters() -> None:
    stats = attribute(23, struct.pack("=24Q", 5, 0, 500, *range(21)))
    xdp = attribute(43 | 0x8000, attribute(2, b"\x02") + attribute(4, struct.pack("=I", 77)))
    options = (
        attribute(11, struct.pack("=I", 42)) + attribute(10, bytes.fromhex(OWN.tag)) + attribute(7, b"weighbridge\0")
    )
    body = struct.pack("=BxxxiIII", 0, 3, 1, 0xFFFFFFF2, 1 << 16 | 0x300)
    own = body + attribute(1, b"bpf\0") + attribute(2, options)
    head = struct.pack("=BxxxiIII", 0, 3, 0, 0xFFFFFFF2, 1 << 16 | 0x300) + attribute(1, b"bpf\0")
    found = chain_of(3, [(16, bytes(16) + stats + xdp)], (8,), [(44, head), (44, own)])
    assert found == Chain(3, 77, (8,), (INSTALLED,), 5, 500)


# ---------------------------------------------------------------- marks

MARKS = Marks(4, 1, 1, "created", 1_000_000, True, 9, 3, Mark(50, (LaneMark(49, Totals(1, 2, 3)), LaneMark())))


def test_marks_of_the_newest_numbered_frame_are_taken() -> None:
    memory = memoryview(bytearray(MARKS_BYTES))
    assert read(memory, 100) is None
    write(memory, MARKS)
    newer = Marks(**{**{name: getattr(MARKS, name) for name in Marks.__slots__}, "sequence": 5})
    write(memory, newer)
    assert read(memory, 5) == newer
    assert read(memory, 4) == MARKS, "frame 5 was never numbered: its buckets are told again"
    assert read(memory, 3) is None


@given(st.integers(0, 400), st.integers(1, 255))
def test_a_place_that_was_cut_in_writing_leaves_the_other(at: int, change: int) -> None:
    memory = memoryview(bytearray(MARKS_BYTES))
    write(memory, MARKS)
    newer = Marks(**{**{name: getattr(MARKS, name) for name in Marks.__slots__}, "sequence": 5})
    write(memory, newer)
    length = struct.unpack_from("=I", memory, MARKS_BYTES // 2)[0] + 8
    place = MARKS_BYTES // 2 + at % length
    memory[place] ^= change
    assert read(memory, 9) == MARKS
