"""The rig against the planner: an all-reduce, and training that computes and synchronises in turn, under real limits.

Two nodes, the real policer with its queue on both ports (what a node sends and what it gets), TCP, sums really
computed. The planner predicts from bytes, limit, depth and headers, and from what the same synchronisation takes
without a limit (sums, copies, round trips: the machine's own), which it calls latency.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from controller.planner.training import TrainingPlan, plan_training
from dpu_agent.limits.order import LimitClass, Order
from dpu_agent.limits.police import MAX_RATE_BYTES_PER_S, Policer
from dpu_agent.limits.shape import Shaper, queue_for
from hil.bench.figure import Figure
from hil.bench.metered_path import DPU, FAR, FAR_ADDRESS, HOST, HOST_ADDRESS, HOST_PORT, UPLINK, MeteredPath
from protos.units import NS_PER_S

LIMITS = (1_000_000, 10_000_000)
DEPTHS_A_SECOND = 2
"""The bucket is half a second deep: half of it waits in the queue, so that TCP is delayed and not cut."""
VECTOR_S = 6
"""An all-reduce carries so many seconds of the limit."""
ROUNDS = 3
COMPUTE_S = 2
WITHIN = 0.15
FREE_DEPTH = 1 << 30
OVERHEAD = "99/1448"
"""Ethernet, IP and TCP with time stamps, 66 bytes for a packet of 1448; and for every two of the other direction an
acknowledgement, which is 66 bytes as well."""


@dataclass(frozen=True, slots=True)
class Run:
    """What two ranks took: seconds of the median synchronisation, and of the whole run."""

    sync_s: float
    whole_s: float


class LimitedPair:
    """Two nodes with a limiter between them."""

    def __init__(self, path: MeteredPath) -> None:
        self._path, self._meters = path, path.meters()
        with path.inside(DPU):
            policer = Policer([HOST_PORT, UPLINK], bpf_file_system=path.bpf)
            self._shaper = Shaper(policer, {HOST_PORT: [UPLINK], UPLINK: [HOST_PORT]})

    def limit(self, rate: int, depth: int) -> None:
        """Limit both directions."""
        orders = [Order(port, LimitClass.OTHER_POD, rate, depth, None, None, 0, 0) for port in (HOST_PORT, UPLINK)]
        with self._path.inside(DPU):
            self._shaper.prove()
            self._shaper.apply(orders)

    def run(self, vector_bytes: int, rounds: int, compute_s: int = 0, pacing: int | None = None) -> Run:
        """Let both nodes reduce a vector so often, each time after so much computing.

        With ``pacing`` (bytes/s) the senders' kernels do not burst beyond it: what a policer drops of a burst is not
        the limit's doing but the transport's, and takes time that the limit did not ask for.
        """
        ring = f"{HOST_ADDRESS}:9100,{FAR_ADDRESS}:9100"
        command = [sys.executable, "-m", "hil.traffic.allreduce", "--ring", ring, "--bytes", f"{vector_bytes}B"]
        command += ["--for", "10m", "--iterations", str(rounds)]
        command += ["--compute", f"{compute_s}s"] if compute_s else []
        command += ["--pacing", f"{pacing}B/s"] if pacing else []
        ranks = [self._path.start(place, [*command, "--rank", str(at)]) for at, place in enumerate((HOST, FAR))]
        said = [json.loads(rank.communicate(timeout=600)[0]) for rank in ranks]
        sync_ns = max(each["detail"]["median_iteration_ns"] for each in said)
        whole_ns = max(each["detail"]["iterations_ns"] for each in said)
        return Run(float(sync_ns) / NS_PER_S, whole_ns / NS_PER_S)

    def close(self) -> None:
        """Let go."""
        self._shaper.close()
        self._meters.close()


def at_once_bytes(limit: int) -> int:
    """Return what leaves the queue at once after a rest: its burst. The rest of the depth waits in it."""
    queue = queue_for(limit, limit // DEPTHS_A_SECOND)
    return limit * queue.burst_ns // NS_PER_S


def predicted(vector_bytes: int, limit: int, compute_s: int, free_s: float) -> TrainingPlan:
    """Return what the planner says of reducing a vector of 32-bit numbers between two nodes."""
    return plan_training(
        {
            "method": "diloco",
            "params": str(vector_bytes // 4),
            "nodes": "2",
            "bits": "32",
            "sync-steps": "1",
            "step-time": f"{compute_s}s",
            "limit": f"{limit}B/s",
            "depth": f"{at_once_bytes(limit)}B",
            "framing-overhead": OVERHEAD,
            "latency": f"{free_s:.6f}s",
        }
    )


def figures() -> Iterator[Figure]:
    """Predict and measure at every limit."""
    with MeteredPath(mtu=1500) as path:
        pair = LimitedPair(path)
        try:
            for limit in LIMITS:
                yield from _at(pair, limit)
        finally:
            pair.close()


def _at(pair: LimitedPair, limit: int) -> Iterator[Figure]:
    vector = limit * VECTOR_S
    pair.limit(MAX_RATE_BYTES_PER_S, FREE_DEPTH)
    free = pair.run(vector, ROUNDS, COMPUTE_S)
    pair.limit(limit, limit // DEPTHS_A_SECOND)
    one = pair.run(vector, 1, pacing=limit * 5 // 4)
    run = pair.run(vector, ROUNDS, COMPUTE_S, pacing=limit * 5 // 4)
    plain = pair.run(vector, 1)
    plan = predicted(vector, limit, COMPUTE_S, free.sync_s)
    name = f"planner.rig.{limit}Bps"
    expected = float(plan.transfer_s)
    yield _off(f"{name}.all_reduce", one.sync_s, expected, f"{vector} B between two nodes")
    note = (
        f"measured {plain.sync_s:.3f} s, times what is predicted; senders without pacing, whatever TCP the kernel has"
    )
    yield Figure(f"{name}.all_reduce_unpaced", round(plain.sync_s / expected, 3), "1", note=note)
    yield _off(f"{name}.sync", run.sync_s, expected, f"median of {ROUNDS}, each after {COMPUTE_S} s of computing")
    yield _off(f"{name}.run", run.whole_s, ROUNDS * (COMPUTE_S + expected), f"{ROUNDS} rounds")
    slower, promised = run.whole_s / (ROUNDS * COMPUTE_S), float(plan.slowdown.blocking)
    note = f"times slower than computing alone; without a limit a synchronisation took {free.sync_s:.3f} s"
    yield _off(f"{name}.slowdown", slower, promised, note)


def _off(name: str, measured: float, expected: float, note: str) -> Figure:
    text = f"measured {measured:.3f}, predicted {expected:.3f}; {note}"
    return Figure(name, round(abs(measured / expected - 1), 4), "1", WITHIN, note=text)
