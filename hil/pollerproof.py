"""Honest runs accuse nobody, and no lie above the printed bound goes unseen: shown on a rig's real counters.

``python -m hil.pollerproof [--runs 10] [--seconds 60] [--pollers 10]`` brings up a rig, sends frames in bursts that
start and end idle, reads all four observers of the sender's link as often as can be, and lets pollers watch. It prints
one JSON line a run and one in the end; exit code 1 if anything did not hold.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from controller.crosscheck.check import crosscheck
from controller.crosscheck.laws import LAWS
from controller.crosscheck.model import Holds, SiteEvidence
from hil import rigfile
from hil.errors import RigError
from hil.machine import PROJECT
from hil.pollers import Poller, Recording, S, Sample, evidence, lying
from hil.rig import Rig
from protos.reading import Direction, Observer, TrustDomain

PLACES = {
    Observer.HOST: ("node1", "eth0", "sent"),
    Observer.DPU_HOST_PORT: ("node1-dpu0", "pf0hpf", "received"),
    Observer.DPU_UPLINK: ("node1-dpu0", "p0", "sent"),
    Observer.SWITCH: ("sw1", "eth1", "received"),
}
LIES = (0.5, 0.1, 0.02, 0.01, 0.001, 0.0001)
LARGE_LIE = 0.01
"""Of runs that start and end idle every lie from here on has to be found."""
IDLE_S = 14.0
"""At either end, so that the slowest poller, with the oldest copies and some polls lost, reads it idle."""
EDGE_S = 3.0
"""Of it lies outside of the period, so that every poller has a reading before and after."""
FRAME = 1_400
RATES = ("5MB/s", "20MB/s", "40MB/s")
LONGEST_BURST_S = 3


@dataclass(slots=True)
class Outcome:
    """What one run showed, over all pollers.

    Attributes:
        carried_bytes: by the link.
        hidden_bytes_bounds: smallest and largest that the pollers printed, honest.
        false_accusations: certain findings while everybody was honest.
        lies: told to all pollers.
        found: lies of which some law is broken.
        above_bound: times a lie was above the bound that a law printed; each has to break it.
        missed_above_bound: those that did not.
        missed_large: lies of :data:`LARGE_LIE` or more that broke nothing.
        falsely_named: times a broken law did not name the liar.
        late_refresh_broken: pollers whose switch kept copies three times as long as declared, and that broke a law.
        late_refresh_explained: of those, the margins that name the refresh period.
    """

    carried_bytes: int = 0
    hidden_bytes_bounds: tuple[int, int] = (0, 0)
    false_accusations: int = 0
    lies: int = 0
    found: int = 0
    above_bound: int = 0
    missed_above_bound: int = 0
    missed_large: int = 0
    falsely_named: int = 0
    late_refresh_broken: int = 0
    late_refresh_explained: int = 0
    problems: list[str] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        """Whether nobody honest was accused and no lie above its bound was missed."""
        wrong = (self.false_accusations, self.missed_above_bound, self.missed_large, self.falsely_named)
        return not any(wrong) and not self.problems


def judge(recording: Recording, pollers: Sequence[Poller]) -> Outcome:
    """Let pollers watch a run: honest, with each domain lying by each share, and with a switch slower than declared."""
    outcome = Outcome(carried_bytes=recording.total(Observer.SWITCH))
    bounds = []
    for poller in pollers:
        told = evidence(recording, poller)
        honest = crosscheck(told)
        (link,) = honest.links
        outcome.false_accusations += sum(finding.certain for finding in honest.findings)
        outcome.problems += [text for text in link.undecided if "contradicts" in text]
        if link.hidden_bytes_bound is None:
            outcome.problems.append(f"poller {poller.seed} could test no law")
            continue
        bounds.append(link.hidden_bytes_bound)
        for domain in TrustDomain:
            for share in LIES:
                _lie(outcome, recording, lying(told, domain, share), domain, share)
        _late(outcome, recording, poller)
    outcome.hidden_bytes_bounds = (min(bounds, default=0), max(bounds, default=0))
    return outcome


def _lie(outcome: Outcome, recording: Recording, told: SiteEvidence, liar: TrustDomain, share: float) -> None:
    (link,) = crosscheck(told).links
    by_name = {law.name: law for law in LAWS[Direction.EGRESS]}
    outcome.lies += 1
    broken = [law for law in link.laws if law.holds is Holds.NO]
    outcome.found += bool(broken)
    outcome.falsely_named += sum(liar not in by_name[law.law].domains for law in broken)
    for law in link.laws:
        sides = by_name[law.law]
        if sides.right.trust_domain is not liar or sides.left.trust_domain is liar or law.hidden_bytes_bound is None:
            continue
        # It starts and ends idle: what is missing in all is missing between the first and the last reading.
        missing = int(recording.total(sides.left) * share)
        if missing > law.hidden_bytes_bound:
            outcome.above_bound += 1
            outcome.missed_above_bound += law.holds is not Holds.NO
    outcome.missed_large += share >= LARGE_LIE and not broken


def _late(outcome: Outcome, recording: Recording, poller: Poller) -> None:
    """A switch that keeps copies for 9 s and is declared with 3 s."""
    late = Poller(poller.seed, poller.interval_ns, 9 * S, poller.offset_ns, 3 * S)
    (link,) = crosscheck(evidence(recording, late)).links
    for law in link.laws:
        if law.holds is Holds.NO:
            outcome.late_refresh_broken += 1
            outcome.late_refresh_explained += "refreshes more than" in law.margin
            return


def record(rig: Rig, folder: Path, seconds: float, seed: int) -> Recording:
    """Send bursts over a rig's first link within ``seconds``, idle at either end, and read its observers all the while.

    Raises:
        RigError: the rig is not up, or a reader ended early.
    """
    watch_s = seconds
    places = sorted({(machine, port) for machine, port, _ in PLACES.values()})
    # Into files: a pipe that nobody empties would stop the watching.
    outputs = {place: folder / f"{'-'.join(place)}.txt" for place in places}
    watchers = []
    for (machine, port), path in outputs.items():
        with path.open("w", encoding="ascii") as file:
            # Only the machine's network: its disk may not have this program.
            inside = ["ip", "netns", "exec", rig.machine(machine).namespace]
            command = [*inside, sys.executable, "-m", "hil.watch", "--for", f"{watch_s:g}s", port]
            watchers.append(subprocess.Popen(command, cwd=PROJECT, stdin=subprocess.DEVNULL, stdout=file))
    time.sleep(IDLE_S)
    start = time.time_ns()
    rng = random.Random(seed)
    to = rig.machine("node2").run(["cat", "/sys/class/net/eth0/address"]).stdout.strip()
    while time.time_ns() - start < (seconds - 2 * IDLE_S - LONGEST_BURST_S) * S:
        rate = rng.choice(RATES)
        count = int(rate.removesuffix("MB/s")) * 1_000_000 // FRAME * rng.randint(1, LONGEST_BURST_S)
        frames = ("--count", str(count), "--length", str(FRAME), "--rate", rate)
        send = [sys.executable, "-m", "hil.traffic.frames", "send", "--device", "eth0", "--to", to, *frames]
        rig.machine("node1").run(send, cwd=PROJECT, timeout_s=60)
        time.sleep(rng.random() * 2)
    for watcher in watchers:
        if watcher.wait(watch_s + 60) != 0:
            raise RigError(f"a watcher ended with {watcher.returncode}; see what it wrote above")
    texts = {place: path.read_text(encoding="ascii") for place, path in outputs.items()}
    samples = {
        observer: tuple(_samples(texts[machine, port], sent=side == "sent"))
        for observer, (machine, port, side) in PLACES.items()
    }
    first = max(found[0].after_ns for found in samples.values())
    last = min(found[-1].before_ns for found in samples.values())
    return Recording(samples, first + int(EDGE_S * S), last - int(EDGE_S * S))


def _samples(text: str, *, sent: bool) -> Iterator[Sample]:
    for line in text.splitlines():
        before, after, _, *counters = line.split()
        received, sends = [int(each) for each in counters[:3]], [int(each) for each in counters[3:]]
        count, packets, _ = sends if sent else received
        yield Sample(int(before), int(after), count, packets, received[2] + sends[2])


def main(
    runs: Annotated[int, typer.Option("--runs", help="How many runs.")] = 10,
    seconds: Annotated[float, typer.Option("--seconds", help="How long each is, with 14 s idle at either end.")] = 60.0,
    pollers: Annotated[int, typer.Option("--pollers", help="How many watch each run.")] = 10,
) -> None:
    """Bring up a rig, run, judge, print; exit code 1 if anything did not hold."""
    outcomes = []
    with TemporaryDirectory() as folder:
        state = Path(folder) / "state"
        with Rig.up(rigfile.load(rigfile.find("pair")), state, name=f"proof_{os.getpid()}") as rig:
            for run in range(runs):
                recording = record(rig, Path(folder), seconds, run)
                outcome = judge(recording, [Poller.some(100 * run + number) for number in range(pollers)])
                outcomes.append(outcome)
                print(json.dumps({"run": run, "holds": outcome.holds, **asdict(outcome)}), flush=True)
    counted = (
        "false_accusations",
        "lies",
        "found",
        "above_bound",
        "missed_above_bound",
        "missed_large",
        "falsely_named",
    )
    total = {name: sum(getattr(outcome, name) for outcome in outcomes) for name in counted}
    late = {name: sum(getattr(o, name) for o in outcomes) for name in ("late_refresh_broken", "late_refresh_explained")}
    print(json.dumps({"runs": runs, "pollers": pollers, "seconds": seconds, **total, **late}))
    raise typer.Exit(0 if all(outcome.holds for outcome in outcomes) else 1)


if __name__ == "__main__":
    typer.run(main)
