"""Stretches of real traffic on a rig, each between two stretches of silence so that it can be judged alone."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from controller.crosscheck.model import Period
from hil.errors import RigError
from hil.machine import PROJECT, Machine
from hil.operation import Operation
from hil.rig import Rig

# Silence inside a period, before and after the traffic.
EDGE_S = 1.0
# After a period, until every observer has surely been read past its end: the switch's refresh period (3.5 s), a poll
# interval and the poll itself (1 s each). What the next period begins with is then known exactly.
SETTLE_S = 6.0
_GENERATOR_GRACE_S = 30.0

_FRONT_END, _SECOND_NET_FRONT_END = "fe", "10.77.1.100"


@dataclass(frozen=True, slots=True)
class Generator:
    """A traffic generator inside a machine."""

    machine: str
    module: str
    arguments: tuple[str, ...]
    waited_for: bool = True


def inference(rig: Rig, seconds: int, *, seed: int) -> list[Generator]:
    """Requests from the front end to a server on every node, some tens of kB/s each."""
    addresses = {node: f"{rig.plan.machines[node].data_address}:8000" for node in rig.file.nodes()}
    serve = [
        Generator(node, "inference", ("serve", "--listen", where, "--for", f"{seconds + 4}s"), waited_for=False)
        for node, where in addresses.items()
    ]
    targets = [part for where in addresses.values() for part in ("--target", where)]
    ask = Generator(_FRONT_END, "inference", ("ask", *targets, "--for", f"{seconds}s", "--seed", str(seed)))
    return [*serve, ask]


def all_reduce(rig: Rig, nodes: Sequence[str], seconds: int, *, rate: str) -> list[Generator]:
    """A ring all-reduce between nodes, each rank sending at most ``rate``."""
    ring = ",".join(f"{rig.plan.machines[node].data_address}:9100" for node in nodes)
    return [
        Generator(
            node,
            "allreduce",
            ("--rank", str(rank), "--ring", ring, "--bytes", "4MB", "--for", f"{seconds}s", "--rate", rate),
        )
        for rank, node in enumerate(nodes)
    ]


def second_cable(node: str, interface: str, seconds: int, *, rate: str) -> list[Generator]:
    """UDP from a node's second interface to the front end."""
    target = f"{_SECOND_NET_FRONT_END}:9001"
    return [
        Generator(_FRONT_END, "blast", ("receive", "--listen", target, "--for", f"{seconds + 4}s"), waited_for=False),
        Generator(
            node,
            "blast",
            ("send", "--target", target, "--rate", rate, "--for", f"{seconds}s", "--device", interface),
        ),
    ]


@contextlib.contextmanager
def running(rig: Rig, generators: Sequence[Generator]) -> Iterator[list[subprocess.Popen[str]]]:
    """Run generators; those still running at the end are stopped."""
    started = [_start(rig.machine(each.machine), each) for each in generators]
    try:
        yield started
    finally:
        for process in started:
            if process.poll() is None:
                process.terminate()
        for process in started:
            process.communicate(timeout=_GENERATOR_GRACE_S)


def _start(machine: Machine, generator: Generator) -> subprocess.Popen[str]:
    argv = [sys.executable, "-m", f"hil.traffic.{generator.module}", *generator.arguments]
    return machine.popen(argv, cwd=PROJECT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def play(operation: Operation, generators: Sequence[Generator], *, edge_s: float = EDGE_S) -> Period:
    """Run generators between two silences and return the period, all of it read by every observer.

    1. ``edge_s`` seconds of silence, the first instant of which begins the period.
    2. The generators, until those that are waited for have ended.
    3. As much silence, which ends the period.
    4. Wait until every observer has been read past the end.

    Raises:
        RigError: a generator failed, or the rig lost frames for want of room.
    """
    begin_ns = operation.now_ns()
    time.sleep(edge_s)
    with running(operation.rig, generators) as processes:
        for generator, process in zip(generators, processes, strict=True):
            if generator.waited_for:
                _, said = process.communicate(timeout=600)
                if process.returncode != 0:
                    raise RigError(f"{generator.module} in {generator.machine} failed: {said.strip()}")
    time.sleep(edge_s)
    period = Period(begin_ns, operation.now_ns())
    operation.rig.require_lossless()
    time.sleep(SETTLE_S)
    return period
