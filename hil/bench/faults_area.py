"""Kills, failing system calls, full disks and flipped bits: what of the evidence was lost, and whether fsck named it.

About ten minutes on two processors, each of which does its share.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from random import Random

from controller import journal_file
from hil.bench import damage, faults
from hil.bench.faults import Run
from hil.bench.figure import Figure, Goal

KILLS = 200
WHEN = ("1", "2", "3", "5", "8", "13", "2+3", "4+")
"""On which calls a system call fails: one, every third from the second on, all from the fourth on."""

FLIP_STEP = 8
"""One flipped bit in so many bytes of the database and its log; in every byte of the keys."""

DISKS_BYTES = (700_000, 900_000, 1_100_000)
_WORKS = ("cosign", "write", "rotate")
_KILLS_OF_ONE_JOURNAL = 20
_MOST_FLIPS_AT_ONCE = 1000


def figures() -> Iterator[Figure]:
    """Yield every figure of this area."""
    begin = time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="weighbridge-faults-") as name,
        ProcessPoolExecutor(os.cpu_count()) as workers,
    ):
        folder = Path(name)
        yield _kills(workers, folder)
        yield from _failing(workers, folder)
        yield _full(workers, folder)
        yield from _flips(workers, folder / "flipped")
    yield Figure("faults.duration", round(time.monotonic() - begin), "s", 720, note="of all of the above, in one run")


def _kills(workers: ProcessPoolExecutor, folder: Path) -> Figure:
    shards = range(KILLS // _KILLS_OF_ONE_JOURNAL)
    journals = list(workers.map(_killed, [folder / f"killed-{n}" for n in shards], shards))
    runs = [run for some in journals for run in some]
    promised = sum(some[-1].promised for some in journals)
    note = f"{len(runs)} kills of three writers at work on {len(journals)} journals, {promised} entries promised"
    return _figure("kills", runs, note)


def _killed(folder: Path, seed: int) -> list[Run]:
    # A journal goes on after each kill, but not for ever: the checks would take longer and longer.
    rng = Random(seed)
    return [faults.killed(folder, rng, ("append", "cosign", "write")) for _ in range(_KILLS_OF_ONE_JOURNAL)]


def _failing(workers: ProcessPoolExecutor, folder: Path) -> Iterator[Figure]:
    jobs = [workers.submit(_failed, folder / f"failing-{n}", *call) for n, call in enumerate(faults.CALLS)]
    for (call, error), job in zip(faults.CALLS, jobs, strict=True):
        runs = job.result()
        note = f"{len(runs)} runs, {sum(run.failures for run in runs)} failures told"
        yield _figure(f"{call.split(',')[0]}_{error.lower()}", runs, note)


def _failed(folder: Path, call: str, error: str) -> list[Run]:
    return [faults.failing(faults.fresh(folder), work, call, error, when) for work in _WORKS for when in WHEN]


def _full(workers: ProcessPoolExecutor, folder: Path) -> Figure:
    jobs = [
        workers.submit(faults.full_disk, folder / f"full-{work}-{size}", work, size)
        for work in _WORKS
        for size in DISKS_BYTES
    ]
    runs = [job.result() for job in jobs]
    note = f"{len(runs)} disks, {sum(run.failures for run in runs)} failures told"
    return _figure("full_disk", runs, note)


def _figure(name: str, runs: list[Run], note: str) -> Figure:
    wrong = [text for run in runs for text in run.wrong]
    note = f"{note}; {'; '.join(wrong[:3]) or 'fsck passes after each, nothing promised is lost'}"
    return Figure(f"faults.{name}.wrong", len(wrong), "1", 0, Goal.EXACTLY, note)


def _flips(workers: ProcessPoolExecutor, folder: Path) -> Iterator[Figure]:
    damage.build(folder)
    flips = list(damage.all_over(folder, Random(1), step=FLIP_STEP))
    shards = [flips[at : at + _MOST_FLIPS_AT_ONCE] for at in range(0, len(flips), _MOST_FLIPS_AT_ONCE)]
    found: Counter[tuple[str, damage.Outcome]] = Counter()
    for some in workers.map(_flipped, [folder] * len(shards), shards):
        found.update(some)
    for file in damage.files(folder):
        named, harmless, missed = (found[str(file), outcome] for outcome in damage.Outcome)
        note = f"{named + harmless + missed} flips: {named} named, {harmless} without effect"
        # A retired key is named by its id, which is another one each time.
        name = "retired.vkey" if file.name.startswith("retired-") else file.name
        yield Figure(f"faults.flipped.{name}.missed", missed, "1", 0, Goal.EXACTLY, note)


def _flipped(folder: Path, flips: list[damage.Flip]) -> Counter[tuple[str, damage.Outcome]]:
    journal_file.BETWEEN_LOOKS_S = 0.0  # nobody writes to these files
    return Counter((flip.file, outcome) for flip, outcome in damage.judge(folder, flips))
