"""Honest worlds through the door of a readings file: what is written and read again proves the same, and truly."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import replace

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from controller.crosscheck.check import crosscheck
from controller.crosscheck.model import DropCounter, LinkEvidence, Track
from controller.observations.offline import Told, evidence_of, read_lines
from protos.reading import Observer, Reading
from tests.controller.crosscheck.world import World, build


def written(link: LinkEvidence) -> Iterator[bytes]:
    for observer, track in link.tracks.items():
        for reading in track.readings:
            yield line(link, observer, reading, framing=reading.framing.value, packets=reading.packets)
        for dropped in track.drop_packets:
            yield line(link, observer, dropped, counter="discards", bytes=None, packets=dropped.bytes)


def line(link: LinkEvidence, observer: Observer, reading: Reading, **more: object) -> bytes:
    body = {
        "observer": observer.value,
        "link": link.link,
        "direction": link.direction.value,
        "earliest_ns": str(reading.earliest_ns),
        "latest_ns": str(reading.latest_ns),
        "bytes": str(reading.bytes),
        "epoch": reading.epoch,
    }
    return json.dumps(body | more).encode()


def world_of(seed: int) -> World:
    """One whose epochs have no known starts and whose lines have no rate, as a file without options says it."""
    world = build(random.Random(seed))
    # Times in a file are not before 1970.
    return (
        world
        if world.start > 10**12 and all(_provable(track) for track in world.link.tracks.values())
        else world_of(seed + 1)
    )


def _provable(track: Track) -> bool:
    return bool(track.proven_epochs)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_what_is_written_and_read_again_proves_the_same(seed: int) -> None:
    world = world_of(seed)
    link = world.link
    told = Told(world.evidence.period, link.limits, world.evidence.assumptions, world.evidence.assumptions.liars)
    read = evidence_of(read_lines(written(link), "f"), told, "f")
    # An observer of whom nothing was read is not in a file.
    assume(read.links and set(read.links[0].tracks) == set(link.tracks))
    plain = {
        observer: replace(
            track,
            line_rate_bytes_per_s=None,
            step_bytes=0,
            epoch_starts={},
            drop_packets=(),
            drop_counters=(DropCounter(tuple(track.drop_packets)),) if track.drop_packets else (),
            proven_epochs=frozenset(reading.epoch for reading in (*track.readings, *track.drop_packets)),
        )
        for observer, track in link.tracks.items()
    }
    direct = crosscheck(replace(world.evidence, links=(replace(link, tracks=plain),)))
    through = crosscheck(read)
    assert through.links[0].observers == direct.links[0].observers
    assert [(law.law, law.holds, law.hidden_bytes_bound) for law in through.links[0].laws] == [
        (law.law, law.holds, law.hidden_bytes_bound) for law in direct.links[0].laws
    ]
    assert [limit.holds for limit in through.links[0].limits] == [limit.holds for limit in direct.links[0].limits]
    for observer, interval in through.links[0].observers.items():
        true = world.truth[observer].between(world.start, world.end)
        assert interval.lower <= true
        assert interval.upper is None or true <= interval.upper
