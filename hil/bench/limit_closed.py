"""Fail closed: what still came after each thing that can end a lease, and what a renewal looks like from inside."""

from __future__ import annotations

import contextlib
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from dpu_agent.limits.order import LimitClass, Order
from dpu_agent.limits.police import Policer
from hil.bench.figure import Figure, Goal
from hil.bench.limit_scene import AGENT, DEPTH, NS, OWN_DEPTH, RATE, Scene, scene
from hil.bench.metered_path import DPU, FAR, HOST_PORT, UPLINK, MeteredPath
from protos.lease import most_bytes

ANEW_TIMES = 10
_FRAME = b"\xff" * 6 + b"\x02\x00\x00\x00\x00\x01\x88\xb5" + bytes(986)


def closed() -> Iterator[Figure]:
    """Run one rig through everything; and a port that is made anew under traffic, again and again."""
    with tempfile.TemporaryDirectory(prefix="weighbridge-limits-") as folder, scene(Path(folder)) as found:
        yield from _renewal(found)
        yield from _ends(found)
    yield from _made_anew()


def _renewal(found: Scene) -> Iterator[Figure]:
    """Leases of 30 s, renewed every 10 s; the controller is started anew in the second of them."""
    operation = found.operation
    operation.start()
    found.grant("30s")
    began_ns, began_wall_ns = time.monotonic_ns(), operation.now_ns()
    time.sleep(12)
    operation.stop()
    operation.start()
    time.sleep(max(0.0, 36 - (time.monotonic_ns() - began_ns) / NS))
    came, took_ns = found.passed(began_ns, time.monotonic_ns())
    time.sleep(2)
    refused_ns, told = found.longest_refusal_ns(began_wall_ns, operation.now_ns())
    note = f"longest stretch with drops only, of {told} ms that were told, over renewals and a controller's restart"
    yield Figure("limits.renewal.longest_refusal", refused_ns, "ns", 5_000_000, note=note)
    note = f"of the rate, in {took_ns / NS:.0f} s, at the far node's interface"
    yield Figure("limits.renewal.goodput", came / most_bytes(RATE, 0, took_ns), "1", 0.95, Goal.AT_LEAST, note)


def _ends(found: Scene) -> Iterator[Figure]:
    """Each thing in turn: the worst window while the lease lives, and how long after its end something still came."""
    operation, agent = found.operation, found.agent

    def controller_back() -> None:
        operation.start()

    def agent_back() -> None:
        agent.supervise("start", AGENT)

    cases: tuple[tuple[str, Callable[[], None], Callable[[], None]], ...] = (
        ("partition", lambda: found.cut_management(cut=True), lambda: found.cut_management(cut=False)),
        ("controller_stopped", operation.stop, controller_back),
        ("agent_killed", found.kill_agent, agent_back),
    )
    found.grant("6s")
    for name, do, undo in cases:
        opened = found.wait_until_open()
        began_ns = time.monotonic_ns()
        time.sleep(2)
        do()
        done_ns = time.monotonic_ns()
        end_ns = found.last_lease_end_ns()
        found.wait_for_end(end_ns)
        last_ns = found.last_traffic_ns(done_ns) if opened else None
        after = None if last_ns is None else max(0, last_ns - end_ns)
        note = "after the end of the last lease, by the far node's interface"
        yield Figure(f"limits.closed.{name}.still_came", after, "ns", NS, note=note)
        worst = found.worst_window(began_ns, time.monotonic_ns())
        yield Figure(f"limits.closed.{name}.worst_window", worst, "1", 1, note="of depth and the network's own frames")
        undo()
    found.wait_until_open()
    rebooted_ns = time.monotonic_ns()
    operation.kill()
    operation.rig.reboot(agent.name)
    time.sleep(8)
    came, took_ns = found.passed(rebooted_ns + NS // 10, time.monotonic_ns())
    note = (
        f"came in the {took_ns / NS:.1f} s from a reboot on, nobody renewing; the network's own frames have {OWN_DEPTH}"
    )
    yield Figure("limits.closed.reboot.bytes", came, "B", OWN_DEPTH, note=note)


def _made_anew() -> Iterator[Figure]:
    """Take the host's port away and make it again under a flood, with the agent's parts alive, and once when dead."""
    stop = threading.Event()
    with MeteredPath() as path:
        meters = path.meters()
        with path.inside(DPU):
            policer = Policer([HOST_PORT, UPLINK], bpf_file_system=path.bpf, gated=True)
        policer.apply([Order(HOST_PORT, LimitClass.OTHER_POD, RATE, DEPTH, None, None, 0, 0)])

        def flood() -> None:
            while not stop.is_set():
                with contextlib.suppress(OSError), path.raw_socket() as sender:
                    while not stop.is_set():
                        for _ in range(50):
                            sender.send(_FRAME)
                        time.sleep(0.0005)

        flooding = threading.Thread(target=flood, daemon=True)
        before, began_ns = path.counters(FAR, "eth0")["rx_bytes"], time.monotonic_ns()
        flooding.start()
        try:
            for _ in range(ANEW_TIMES):
                path.unplug_host()
                path.plug_host()
                time.sleep(0.2)
            came = path.counters(FAR, "eth0")["rx_bytes"] - before
            took_ns = time.monotonic_ns() - began_ns
            note = f"{came} B came while the port was made anew {ANEW_TIMES} times; of rate and depth"
            yield Figure("limits.closed.port_made_anew", came / most_bytes(RATE, DEPTH, took_ns), "1", 1, note=note)
            policer.close()
            meters.close()
            path.unplug_host()
            before = path.counters(FAR, "eth0")["rx_bytes"]
            path.plug_host()
            time.sleep(0.5)
            came = path.counters(FAR, "eth0")["rx_bytes"] - before
            yield Figure("limits.closed.port_made_anew.agent_dead", came, "B", 0, Goal.EXACTLY, "in half a second")
        finally:
            stop.set()
            flooding.join()
