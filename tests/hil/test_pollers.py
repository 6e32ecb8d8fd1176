"""Many pollers of one run: honest, nobody is accused; lying, whoever hides more than the printed bound is found."""

from __future__ import annotations

import random
from itertools import accumulate
from pathlib import Path

import pytest

from hil.pollerproof import LIES, judge, record
from hil.pollers import MS, Poller, Recording, S, Sample, evidence
from hil.rig import Rig
from hil.watch import rows
from protos.reading import Observer

FRAME = 1_400
POLLERS = 5
EPOCH = 1_790_000_000 * S


def recorded(seed: int, length_s: int = 60) -> Recording:
    """A run as it would be read each 10 ms: bursts from 14 s to 14 s before the end, a delay from place to place."""
    rng = random.Random(seed)
    steps = length_s * 100
    per_step = [0] * steps
    for _ in range(12):
        begin = rng.randint(1_400, steps - 1_700)
        rate = rng.choice([40, 140, 280])
        for step in range(begin, min(begin + rng.randint(50, 300), steps - 1_400)):
            per_step[step] += rate
    samples = {}
    for delay, observer in enumerate(Observer):
        counts = list(accumulate([0] * delay + per_step[: steps - delay]))
        samples[observer] = tuple(
            Sample(EPOCH + step * 10 * MS, EPOCH + step * 10 * MS + 200_000, count * FRAME, count, 0)
            for step, count in enumerate(counts)
        )
    return Recording(samples, EPOCH + 3 * S, EPOCH + (length_s - 3) * S)


@pytest.mark.parametrize("seed", range(2))
def test_pollers_of_a_minute(seed: int) -> None:
    recording = recorded(seed)
    outcome = judge(recording, [Poller.some(100 * seed + number) for number in range(POLLERS)])
    assert outcome.problems == []
    assert outcome.false_accusations == 0
    assert outcome.lies == POLLERS * 3 * len(LIES)
    assert (outcome.missed_above_bound, outcome.missed_large, outcome.falsely_named) == (0, 0, 0)
    assert outcome.above_bound > 20
    # What is below the bound can go unseen: were all found, the bound would be no bound.
    assert outcome.found < outcome.lies
    assert outcome.late_refresh_broken == outcome.late_refresh_explained > 0
    assert outcome.holds


def test_pollers_are_not_alike() -> None:
    pollers = [Poller.some(seed) for seed in range(200)]
    assert len({poller.interval_ns for poller in pollers}) > 150
    assert max(abs(poller.offset_ns) for poller in pollers) > 3_500 * S
    assert {bool(poller.refresh_ns) for poller in pollers} == {True, False}


def test_a_poller_loses_a_fifth_and_is_wrong_about_nothing() -> None:
    """Each reading says only what is true: the count at its earliest, and at its latest, enclose it."""
    recording = recorded(9)
    asked = 0
    for seed in range(10):
        poller = Poller.some(seed)
        (link,) = evidence(recording, poller).links
        for observer, track in link.tracks.items():
            samples = recording.samples[observer]
            asked += 60 * S // poller.interval_ns
            for reading in track.readings:
                first, last = (at - poller.offset_ns for at in (reading.earliest_ns, reading.latest_ns))
                before = max((one.bytes for one in samples if one.after_ns <= first), default=0)
                after = min((one.bytes for one in samples if one.before_ns >= last), default=reading.bytes)
                assert before <= reading.bytes <= after
    kept = sum(
        len(track.readings)
        for seed in range(10)
        for track in evidence(recording, Poller.some(seed)).links[0].tracks.values()
    )
    assert 0.7 < kept / asked < 0.9


def test_a_liar_who_is_not_looked_for_would_fail_the_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("controller.crosscheck.judging.greatest_breach", lambda *_: None)
    outcome = judge(recorded(1), [Poller.some(1)])
    assert not outcome.holds
    assert outcome.missed_large > 0
    assert outcome.missed_above_bound > 0


def test_the_kernels_table_is_read() -> None:
    table = "Inter-| x\n face | y\n  eth0: 10 2 0 3 0 0 0 0 20 4 0 5 0 0 0 0\n    lo:1 1 0 0 0 0 0 0 1 1 0 0 0 0 0 0\n"
    assert dict(rows(table)) == {"eth0": (10, 2, 3, 20, 4, 5), "lo": (1, 1, 0, 1, 1, 0)}


@pytest.mark.rig
def test_pollers_of_a_rigs_real_counters(pair: Rig, tmp_path: Path) -> None:
    """A short one of ``python -m hil.pollerproof``."""
    recording = record(pair, tmp_path, 33.0, 7)
    assert recording.total(Observer.SWITCH) > 1_000_000
    outcome = judge(recording, [Poller.some(number) for number in range(4)])
    assert outcome.problems == []
    assert outcome.false_accusations == 0
    assert (outcome.missed_above_bound, outcome.falsely_named) == (0, 0)
    assert outcome.above_bound > 0
