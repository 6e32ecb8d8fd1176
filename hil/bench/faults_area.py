"""Kills, failing system calls, full disks and flipped bits: what of the evidence was lost, and whether fsck named it.

About a quarter of an hour, most of it for the bits of a small journal's files.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

from controller import journal_file
from hil.bench import damage, faults
from hil.bench.figure import Figure, Goal

KILLS = 200
WHEN = ("1", "2", "3", "5", "8", "13", "2+3", "4+")
"""On which calls a system call fails: one, every third from the second on, all from the fourth on."""

FLIP_STEP = 8
"""One flipped bit in so many bytes of the database and its log; in every byte of the keys."""

DISKS_BYTES = (700_000, 900_000, 1_100_000)
_WORKS = ("cosign", "write", "rotate")


def figures() -> Iterator[Figure]:
    """Yield every figure of this area."""
    with tempfile.TemporaryDirectory(prefix="weighbridge-faults-") as name:
        folder = Path(name)
        yield from _kills(folder / "killed")
        yield from _failing(folder / "failing")
        yield from _full(folder / "full")
        yield from _flips(folder / "flipped")


def _kills(folder: Path) -> Iterator[Figure]:
    rng = Random(1)
    runs = []
    for number in range(KILLS):
        if number % 20 == 0:
            faults.fresh(folder)  # so that the checks do not take longer and longer
        runs.append(faults.killed(folder, rng, ("append", "cosign", "write")))
    wrong = [text for run in runs for text in run.wrong]
    note = f"{KILLS} kills of three writers at work; {'; '.join(wrong[:3]) or 'fsck passes after each'}"
    yield Figure("faults.kills.wrong", len(wrong), "1", 0, Goal.EXACTLY, note)


def _failing(folder: Path) -> Iterator[Figure]:
    for call, error in faults.CALLS:
        runs = [faults.failing(faults.fresh(folder), work, call, error, when) for work in _WORKS for when in WHEN]
        wrong = [text for run in runs for text in run.wrong]
        told = sum(run.failures for run in runs)
        note = f"{len(runs)} runs, {told} failures told; {'; '.join(wrong[:3]) or 'fsck passes after each'}"
        yield Figure(f"faults.{call.split(',')[0]}_{error.lower()}.wrong", len(wrong), "1", 0, Goal.EXACTLY, note)


def _full(folder: Path) -> Iterator[Figure]:
    runs = [faults.full_disk(faults.fresh(folder), work, size) for work in _WORKS for size in DISKS_BYTES]
    wrong = [text for run in runs for text in run.wrong]
    told = sum(run.failures for run in runs)
    note = f"{len(runs)} disks, {told} failures told; {'; '.join(wrong[:3]) or 'fsck passes after each'}"
    yield Figure("faults.full_disk.wrong", len(wrong), "1", 0, Goal.EXACTLY, note)


def _flips(folder: Path) -> Iterator[Figure]:
    journal_file.BETWEEN_LOOKS_S = 0.0  # nobody writes to these files
    damage.build(folder)
    found: Counter[tuple[str, damage.Outcome]] = Counter()
    for flip, outcome in damage.judge(folder, damage.all_over(folder, Random(1), step=FLIP_STEP)):
        found[flip.file, outcome] += 1
    for file in damage.files(folder):
        named, harmless, missed = (found[str(file), outcome] for outcome in damage.Outcome)
        note = f"{named + harmless + missed} flips: {named} named, {harmless} without effect"
        yield Figure(f"faults.flipped.{file.name}.missed", missed, "1", 0, Goal.EXACTLY, note)
