"""Claims of the main job, tried on a rig. The end-to-end tests and the figures run the same ones."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from controller.journal import Journal, Kind
from hil import phases
from hil.errors import RigError
from hil.operation import Operation
from hil.phases import Generator
from hil.plan import dpu_of
from hil.rig import Rig
from protos.units import NS_PER_S
from protos.wire import parse_signed_frame

AGENT_SERVICE = "weighbridge-agent"
_DAY_NS = 86_400 * NS_PER_S


# ---------------------------------------------------------------- honest and lying hosts


@dataclass(frozen=True, slots=True)
class Watched:
    """One run of an honest stretch and one in which a host lies, under conditions drawn at random."""

    seed: int
    honest_findings: tuple[str, ...]
    lie_found: bool
    accused: tuple[str, ...]
    hidden_bytes: int
    found_bytes: int


def watched_run(operation: Operation, seed: int) -> Watched:
    """Watch an honest stretch, then one in which the first node's host reports a hundredth.

    1. New clock offsets for every agent, up to a day, and new phases for every poller.
    2. Honest traffic of random shape below the limit: what is found for certain is a false alarm.
    3. An all-reduce between the first node and another while the first lies about it.
    """
    rng = random.Random(seed)
    rig = operation.rig
    _shift_clocks(operation, rng)
    operation.start()
    try:
        time.sleep(phases.SETTLE_S + rng.random())
        honest = operation.crosscheck(*_times(phases.play(operation, _honest_traffic(rig, rng))))
        liar, other = rig.file.nodes()[0], rng.choice(rig.file.nodes()[1:])
        rig.lie(liar, factor=100)
        training = phases.all_reduce(rig, [liar, other], rng.randint(6, 10), rate=f"{rng.randint(20, 30)}MB/s")
        lying = operation.crosscheck(*_times(phases.play(operation, training)))
        rig.stop_lying(liar)
    finally:
        operation.stop()
    lies = [found for found in _certain(lying) if found["kind"] == "host-under-reports"]
    shown = {(each["link"], each["direction"]): each["observers"] for each in lying["links"]}
    told = shown[f"{liar}/p0", "egress"]
    return Watched(
        seed=seed,
        honest_findings=tuple(found["text"] for found in _certain(honest)),
        lie_found=any((found["link"], found["direction"]) == (f"{liar}/p0", "egress") for found in lies),
        accused=tuple(sorted(f"{found['link']} {found['direction']}" for found in lies)),
        hidden_bytes=int(told["dpu.host_port"]["lower_bytes"]) - int(told["host"]["upper_bytes"]),
        found_bytes=max((int(found["bytes_at_least"]) for found in lies), default=0),
    )


def _honest_traffic(rig: Rig, rng: random.Random) -> list[Generator]:
    """Inference, and one transfer between two nodes that stays below 10 MB in 10 s."""
    seconds = rng.randint(8, 12)
    sender, receiver = rng.sample(rig.file.nodes(), 2)
    where = f"{rig.plan.machines[receiver].data_address}:9000"
    volume = f"{rng.randint(1_000, 6_000)}kB"
    return [
        *phases.inference(rig, seconds, seed=rng.randrange(10**6)),
        Generator(receiver, "transfer", ("receive", "--listen", where), waited_for=False),
        Generator(sender, "transfer", ("send", "--target", where, "--bytes", volume, "--rate", "4MB/s")),
    ]


def _shift_clocks(operation: Operation, rng: random.Random) -> None:
    """Give every agent another clock offset, through the site file, and restart it with that."""
    yaml = YAML()
    site = yaml.load(operation.site_file)
    for node in site["nodes"]:
        for dpu in node["dpus"]:
            dpu["agent_settings"] = {"clock_offset_ns": rng.randrange(_DAY_NS)}
    yaml.dump(site, operation.site_file)
    operation.deploy()


# ---------------------------------------------------------------- kills


@dataclass(frozen=True, slots=True)
class Kills:
    """What the journal holds after kills, summed over the agents."""

    controller_kills: int
    agent_kills: int
    frames: int
    missing: int
    doubled: int


def kill_run(operation: Operation, *, controller_kills: int, agent_kills: int, seed: int) -> Kills:
    """Kill the controller and one agent again and again while traffic flows; then look at every frame's number.

    1. Inference runs all the while.
    2. Each kill is SIGKILL at a random moment; the controller is started again, the agent's supervisor starts it again.
    3. In the end the controller collects until every agent's spool has nothing that it has not got.
    4. Count the numbers between each agent's first and last frame that are missing, or there more than once.
    """
    rng = random.Random(seed)
    rig = operation.rig
    moments = ["controller"] * controller_kills + ["agent"] * agent_kills
    rng.shuffle(moments)
    victim = dpu_of(rig.file.nodes()[0])
    with phases.running(rig, phases.inference(rig, 3600, seed=seed)):
        operation.start()
        for moment in moments:
            time.sleep(rng.uniform(0.2, 2.0))
            if moment == "controller":
                operation.kill()
                operation.start()
            else:
                _kill_agent(rig, victim)
        time.sleep(3)
    _collect_the_rest(operation)
    operation.stop()
    frames = missing = doubled = 0
    for agent in (dpu_of(node) for node in rig.file.nodes()):
        numbers = sorted(sequences(operation.journal, agent))
        frames += len(numbers)
        missing += numbers[-1] - numbers[0] + 1 - len(set(numbers))
        doubled += len(numbers) - len(set(numbers))
    return Kills(controller_kills, agent_kills, frames, missing, doubled)


def sequences(journal: Path, agent: str) -> Iterator[int]:
    """Yield the number inside every frame of an agent that the journal holds, in the order of the journal."""
    with Journal.open(journal, read_only=True) as opened:
        for entry in opened.entries(kinds=[Kind.FRAME], source=agent):
            yield parse_signed_frame(entry.body)[1].sequence


def _kill_agent(rig: Rig, dpu: str) -> None:
    machine = rig.machine(dpu)
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        for service in machine.supervise("status", AGENT_SERVICE):
            if service["pid"]:
                machine.run(["kill", f"-{signal.SIGKILL:d}", str(service["pid"])])
                return
        time.sleep(0.1)  # it was just killed; its supervisor starts it again in a moment
    raise RigError(f"{dpu}: {AGENT_SERVICE} does not run")


def _collect_the_rest(operation: Operation) -> None:
    """Return when every agent's newest frame of this moment is in the journal."""
    agents = [dpu_of(node) for node in operation.rig.file.nodes()]
    wanted = {agent["name"]: int(agent["last_sequence"]) for agent in operation.agent_status()}
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        with Journal.open(operation.journal, read_only=True) as journal:
            if all(journal.last_sequence(Kind.FRAME, agent) >= wanted[agent] for agent in agents):
                return
        time.sleep(0.2)
    raise RigError(f"not every frame was collected within 30 s; wanted {wanted}")


# ---------------------------------------------------------------- exactness


@dataclass(frozen=True, slots=True)
class Exactness:
    """What the four observers prove of one transfer, against what crossed the wire.

    ``widths_bytes`` and ``contains_truth`` are by observer; ``truth_bytes`` is counted at the cable's two ends in
    the rig's plant, where no observer stands.
    """

    link: str
    direction: str
    truth_bytes: int
    intervals: Mapping[str, tuple[int, int | None]]

    @property
    def widest_bytes(self) -> int | None:
        """The widest observer's width; None if one is unbounded."""
        widths = [None if upper is None else upper - lower for lower, upper in self.intervals.values()]
        return None if None in widths else max(width for width in widths if width is not None)

    @property
    def containing_truth(self) -> int:
        """How many observers' intervals contain what crossed the wire."""
        return sum(
            lower <= self.truth_bytes and (upper is None or self.truth_bytes <= upper)
            for lower, upper in self.intervals.values()
        )


def exact_transfer(operation: Operation, volume: str = "100MB") -> tuple[Exactness, Exactness]:
    """Send ``volume`` over TCP with idle before and after; return both directions of the sender's link.

    The collector must be running. The period begins and ends in silence long enough for the switch's refresh.
    """
    rig = operation.rig
    sender, receiver = rig.file.nodes()[0], rig.file.nodes()[-1]
    where = f"{rig.plan.machines[receiver].data_address}:9000"
    generators = [
        Generator(receiver, "transfer", ("receive", "--listen", where), waited_for=False),
        Generator(sender, "transfer", ("send", "--target", where, "--bytes", volume)),
    ]
    cable = rig.cable(dpu_of(sender), "p0")
    time.sleep(phases.SETTLE_S)
    before = rig.wire_count(cable)
    # The silence must hold the time in which the switch's readings before and after are true.
    period = phases.play(operation, generators, edge_s=phases.SETTLE_S)
    after = rig.wire_count(cable)
    truth = {
        "egress": after.forward_bytes - before.forward_bytes,
        "ingress": after.backward_bytes - before.backward_bytes,
    }
    result = operation.crosscheck(period.from_ns, period.to_ns)
    found = {
        each["direction"]: Exactness(
            each["link"],
            each["direction"],
            truth[each["direction"]],
            {name: _interval(value) for name, value in each["observers"].items()},
        )
        for each in result["links"]
        if each["link"] == f"{sender}/p0"
    }
    return found["egress"], found["ingress"]


def _interval(value: Mapping[str, Any]) -> tuple[int, int | None]:
    upper = value["upper_bytes"]
    return int(value["lower_bytes"]), None if upper is None else int(upper)


def _certain(result: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [finding for finding in result["findings"] if finding["certain"]]


def _times(period: Any) -> tuple[int, int]:
    return period.from_ns, period.to_ns
