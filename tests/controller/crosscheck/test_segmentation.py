"""A host that counts packets before they are cut into frames: honest, it is never accused; lying, it is bounded."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.crosscheck.check import crosscheck
from controller.crosscheck.model import Assumptions, Holds, Limit, LinkEvidence, LinkResult, Period, Track, Verdict
from protos.reading import Observer, Reading
from tests.controller.crosscheck.cases import cases
from tests.controller.crosscheck.scene import MS, S, Truth, link, site

HOST, HOST_PORT, UPLINK, SWITCH = Observer
HEADERS = 66
PERIOD = Period(5 * S, 40 * S)
LIMIT = Limit(10 * S, 10**9)


def host_track(counted: Truth, *, packets: bool, headers: int | None = HEADERS) -> Track:
    """What the host's own counters show, read each second."""
    readings = tuple(
        Reading(at, at + MS, counted.count(at), counted.packets(at) if packets else None) for at in range(0, 46 * S, S)
    )
    return Track(HOST, readings, unpadded=True, super_packet_header_bytes=None if headers is None else (0, headers))


def cut(segments: list[tuple[int, int, int]]) -> tuple[Truth, Truth]:
    """Packets as ``(time, payload, segment)``: what the host counts of them, and the frames that leave."""
    counted, frames = [], []
    for at, payload, segment in segments:
        counted.append((at, payload + HEADERS))
        whole, rest = divmod(payload, segment)
        parts = [segment] * whole + ([rest] if rest or not whole else [])
        frames += [(at + index, max(60, part + HEADERS)) for index, part in enumerate(parts)]
    return Truth(tuple(counted)), Truth(tuple(sorted(frames)))


def judged(
    counted: Truth,
    frames: Truth,
    *,
    packets: bool = True,
    headers: int | None = HEADERS,
    assumed: Assumptions | None = None,
) -> LinkResult:
    off_host = link(dict.fromkeys((HOST_PORT, UPLINK, SWITCH), frames), start=0, end=45 * S, limits=(LIMIT,))
    tracks = {HOST: host_track(counted, packets=packets, headers=headers), **off_host.tracks}
    evidence: LinkEvidence = replace(off_host, tracks=tracks)
    return crosscheck(site(evidence, period=PERIOD, assumptions=assumed)).links[0]


BULK = [(10 * S + index * 10 * MS, 64_000, 1_448) for index in range(500)]


def test_an_honest_host_that_segments_in_hardware_is_not_accused() -> None:
    counted, frames = cut(BULK)
    assert frames.sums[-1] > 1.04 * counted.sums[-1]
    result = judged(counted, frames)
    assert [law.law for law in result.laws if law.holds is Holds.NO] == []
    assert result.verdict is Verdict.COMPLIANT
    # Taken for a counter of frames, the same host would have been.
    assert judged(counted, frames, headers=None).verdict is Verdict.VIOLATION


def test_a_host_without_packet_counts_is_allowed_every_frames_headers() -> None:
    counted, frames = cut(BULK)
    result = judged(counted, frames, packets=False)
    assert [law.law for law in result.laws if law.holds is Holds.NO] == []
    assert result.hidden_bytes_bound is not None
    assert result.hidden_bytes_bound >= HEADERS * len(frames.frames)


@pytest.mark.parametrize("share", [0.9999, 0.999, 0.97, 0.5])
def test_a_segmenting_host_that_hides_more_than_the_padding_of_its_packets_is_found(share: float) -> None:
    counted, frames = cut(BULK)
    law = judged(counted.scaled(share), frames).laws[0]
    hides = counted.sums[-1] - counted.scaled(share).sums[-1]
    assert (law.holds is Holds.NO) is (hides > 46 * len(BULK))
    assert law.hidden_bytes_bound is not None
    assert law.holds is Holds.NO or hides <= law.hidden_bytes_bound


def test_a_host_that_counts_frames_loses_nothing_by_the_allowance_for_segments() -> None:
    _, frames = cut([(at, 14_480, 1_448) for at, _, _ in BULK])
    assumed = Assumptions(largest_frame_bytes=1_448 + HEADERS)
    assert judged(frames, frames, assumed=assumed).laws[0].hidden_bytes_bound == 0
    assert judged(frames.scaled(0.999), frames, assumed=assumed).verdict is Verdict.VIOLATION


@settings(max_examples=cases(60), deadline=None)
@given(
    st.lists(st.tuples(st.integers(8 * S, 38 * S), st.integers(0, 64_000), st.integers(536, 9_000)), max_size=30),
    st.booleans(),
)
def test_no_mix_of_packets_accuses_an_honest_host(segments: list[tuple[int, int, int]], packets: bool) -> None:
    counted, frames = cut(sorted(segments))
    result = judged(counted, frames, packets=packets)
    assert all(law.holds is not Holds.NO for law in result.laws)
    for limit in result.limits:
        assert limit.worst_at_most_bytes is None or limit.worst_at_most_bytes >= max(
            (frames.between(at - 1, at - 1 + LIMIT.window_ns) for at, _ in frames.frames), default=0
        )


@pytest.mark.parametrize("packets", [True, False])
def test_the_host_proves_a_limit_kept_only_with_the_headers_it_leaves_out(packets: bool) -> None:
    counted, frames = cut(BULK)
    # Between what the host counted and what left.
    tight = Limit(10 * S, (counted.sums[-1] + frames.sums[-1]) // 2)
    off_host = link(dict.fromkeys((HOST_PORT, UPLINK, SWITCH), frames), start=0, end=45 * S, limits=(tight,))
    tracks = {HOST: host_track(counted, packets=packets), **off_host.tracks}
    (one,) = crosscheck(site(replace(off_host, tracks=tracks), period=PERIOD)).links
    assert HOST.trust_domain not in one.limits[0].kept_by
