"""``make demo``: the main job on real traffic, in four phases, each with the verdict expected of it.

Everything it makes is under ``build/demo/``: ``result.json``, one report a phase, the logs and the rig's state.
The exit code is 0 only if every verdict is right. Nothing is left running.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from controller.crosscheck.model import Period
from controller.errors import WeighbridgeError
from hil import judging, phases, rigfile
from hil.operation import Operation
from hil.rig import Rig

_TRAINERS = ("node1", "node3")
_TRAINING_LINKS = tuple(f"{node}/p0" for node in _TRAINERS)
_TRAINING_RATE = "25MB/s"
_LIAR, _LIE_FACTOR = "node1", 100
_CABLE_RATE, _CABLE_BYTES_PER_S = "5MB/s", 5_000_000
_SECONDS = 15  # of traffic a phase


@dataclass(frozen=True)
class Phase:
    """One phase: what it is called, what is expected in words, its traffic, and its judge."""

    name: str
    title: str
    expected: str
    play: Callable[[Operation], Period]
    judge: judging.Judge


@dataclass(frozen=True)
class Outcome:
    """What became of a phase."""

    phase: Phase
    judgement: judging.Judgement
    report: Path

    def as_json(self) -> dict[str, object]:
        """Return the phase's entry in ``result.json``."""
        return {
            "name": self.phase.name,
            "expected": self.phase.expected,
            "seen": self.judgement.seen,
            "ok": self.judgement.ok,
            "report": self.report.name,
        }


def _honest(operation: Operation) -> Period:
    return phases.play(operation, phases.inference(operation.rig, _SECONDS, seed=1))


def _training(operation: Operation) -> Period:
    return phases.play(operation, phases.all_reduce(operation.rig, _TRAINERS, _SECONDS, rate=_TRAINING_RATE))


def _lying(operation: Operation) -> Period:
    operation.rig.lie(_LIAR, factor=_LIE_FACTOR)
    period = _training(operation)
    operation.rig.stop_lying(_LIAR)
    return period


def _undeclared(operation: Operation) -> Period:
    cable = operation.rig.add_cable("node2")
    time.sleep(_NOTICED)
    generators = phases.second_cable("node2", cable.near.port, _SECONDS, rate=_CABLE_RATE)
    return phases.play(operation, generators, edge_s=_BARE_EDGE_S)


# Counters that jump back to the truth belong to no phase's period.
_SETTLE = 6.0
# A new port is in the switch's table within its refresh period (3 s), and in the collector's list at the next discovery
# (every 10 s). It is known to the byte once it was read so late that the reading cannot be older than the period: after
# the declared refresh period (3.5 s) and a poll. The traffic begins after both.
_NOTICED = 10.0
_BARE_EDGE_S = 5.0


def the_phases(undeclared_port: str, switch: str) -> list[Phase]:
    """Return the four phases; ``undeclared_port`` is where the second cable will be plugged in."""
    return [
        Phase(
            "honest-inference",
            "honest inference",
            "compliant on every link",
            _honest,
            judging.honest,
        ),
        Phase(
            "training",
            f"training between {' and '.join(_TRAINERS)}",
            f"limit-exceeded, certain, on {', '.join(_TRAINING_LINKS)} and no other",
            _training,
            lambda result: judging.training(result, _TRAINING_LINKS),
        ),
        Phase(
            "lying-host",
            f"the same, and {_LIAR}'s host reports a hundredth",
            f"also host-under-reports, certain, on {_LIAR}/p0 only",
            _lying,
            lambda result: judging.lying(result, _TRAINING_LINKS, f"{_LIAR}/p0"),
        ),
        Phase(
            "undeclared-cable",
            "a second cable that no one declared",
            f"undeclared-port {undeclared_port} with its bytes; the site in violation",
            _undeclared,
            lambda result: judging.undeclared(result, switch, undeclared_port, _CABLE_BYTES_PER_S * (_SECONDS - 1)),
        ),
    ]


def run(folder: Path, console: Console) -> bool:
    """Run the demo into ``folder``; return whether every verdict is right."""
    started = time.monotonic()

    def say(text: str) -> None:
        console.print(f"[dim]{time.monotonic() - started:5.0f} s[/dim]  {text}", highlight=False)

    _empty(folder)
    outcomes: list[Outcome] = []
    rig_file = rigfile.load(rigfile.find("demo"))
    say("bringing up the rig: 2 pods of 2 nodes, one switch, a front end")
    with Rig.up(rig_file, folder / "rig", name="demo") as rig:
        operation = Operation(rig, folder / "logs")
        say("making the journal and deploying the agents over SSH")
        operation.prepare()
        operation.start()
        say("collecting: four agents, one switch, four host exporters")
        time.sleep(_SETTLE)
        try:
            # Declared cables end at the switch's first ports; the next one is free.
            free_port = f"eth{sum(cable.far.machine == rig_file.switch.name for cable in rig.plan.cables) + 1}"
            for number, phase in enumerate(the_phases(free_port, rig_file.switch.name), start=1):
                say(f"phase {number}: {phase.title}")
                outcomes.append(_one(operation, folder, number, phase))
                mark = "[green]as expected[/green]" if outcomes[-1].judgement.ok else "[red]not as expected[/red]"
                say(f"         {mark}: {outcomes[-1].judgement.seen}")
            operation.stop()
        finally:
            operation.kill()
        say("tearing down")
    ok = all(outcome.judgement.ok for outcome in outcomes)
    result = {"phases": [outcome.as_json() for outcome in outcomes], "ok": ok}
    (folder / "result.json").write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    _print_table(outcomes, folder, console)
    return ok


def _one(operation: Operation, folder: Path, number: int, phase: Phase) -> Outcome:
    period = phase.play(operation)
    result = operation.crosscheck(period.from_ns, period.to_ns)
    stem = f"phase{number}-{phase.name}"
    (folder / f"{stem}.json").write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    report = folder / f"{stem}.html"
    operation.write_report(period.from_ns, period.to_ns, report)
    return Outcome(phase, phase.judge(result), report)


def _empty(folder: Path) -> None:
    """Make ``folder`` anew; what an earlier demo left in it goes."""
    for child in folder.iterdir() if folder.is_dir() else ():
        if child.name == "rig":
            continue  # Rig.up empties its own state directory, and keeps it while a rig is up
        shutil.rmtree(child) if child.is_dir() else child.unlink()
    folder.mkdir(parents=True, exist_ok=True)


def _print_table(outcomes: Sequence[Outcome], folder: Path, console: Console) -> None:
    table = Table(show_lines=True)
    for heading in ("phase", "expected", "seen", ""):
        table.add_column(heading)
    for outcome in outcomes:
        mark = "ok" if outcome.judgement.ok else "WRONG"
        table.add_row(outcome.phase.title, outcome.phase.expected, outcome.judgement.seen, mark)
    console.print(table)
    for outcome in outcomes:
        console.print(f"report: {outcome.report}", soft_wrap=True, highlight=False)
    console.print(f"result: {folder / 'result.json'}", soft_wrap=True, highlight=False)


def main() -> int:
    """Run the demo in ``build/demo``; return the exit code."""
    console = Console()
    try:
        return 0 if run(Path("build/demo"), console) else 1
    except WeighbridgeError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
