"""A ring all-reduce over TCP: the traffic of data-parallel training, with the sums really computed.

``python -m hil.traffic.allreduce --rank 0 --ring 10.77.0.1:9100,10.77.0.3:9100 --bytes 4MB --for 15s [--rate 20MB/s]``
``... --pacing 1MB/s``: the kernel spreads what it sends over time (SO_MAX_PACING_RATE), as one that knows its limit.
``... --compute 3s``: each iteration begins with so long a pause, as training that synchronises now and then computes.

Every rank runs the same command with its own ``--rank``. In each iteration:

1. A token goes round the ring; in it rank 0 says whether there is another iteration.
2. Reduce-scatter: the vector is cut into N parts; N-1 times each rank sends a part to the next rank and adds the one
   that it gets from the previous.
3. All-gather: N-1 times each rank passes a finished part on. So each sends 2 (N-1)/N of the vector.
4. Every element must be the sum over all ranks; a wrong sum ends the run with an error.

``--rate`` is what each rank sends at most.
"""

from __future__ import annotations

import argparse
import queue
import socket
import statistics
import sys
import threading
import time
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from hil.traffic.outcome import Outcome, Pace, address, duration, rate, size
from hil.traffic.transfer import connect
from protos.units import NS_PER_S

_GO, _STOP = b"\x01", b"\x00"
_PIECE = 64 * 1024
_START_NS = 20 * NS_PER_S  # all ranks must have started within
_STALL_S = 30.0
_SO_MAX_PACING_RATE = 47  # asm-generic/socket.h; Python has no name for it

Vector = NDArray[np.float32]


@dataclass
class _Ring:
    """The connections to the next and from the previous rank. A thread of its own sends, so that no two ranks wait."""

    following: socket.socket
    preceding: socket.socket
    pace: Pace
    sent: int = 0
    received: int = 0
    outbox: queue.Queue[bytes | None] = field(default_factory=queue.Queue)
    failure: list[OSError] = field(default_factory=list)

    def pump(self) -> None:
        try:
            while (data := self.outbox.get()) is not None:
                view = memoryview(data)
                for start in range(0, len(view), _PIECE):
                    piece = view[start : start + _PIECE]
                    self.following.sendall(piece)
                    self.sent += len(piece)
                    self.pace.sent(len(piece))
        except OSError as error:
            self.failure.append(error)

    def put(self, data: bytes) -> None:
        if self.failure:
            raise self.failure[0]
        self.outbox.put(data)

    def get(self, length: int) -> bytes:
        data = bytearray(length)
        view = memoryview(data)
        while view:
            got = self.preceding.recv_into(view)
            if got == 0:
                raise ConnectionError("the previous rank went away")
            self.received += got
            view = view[got:]
        return bytes(data)


def all_reduce(ring: _Ring, vector: Vector, rank: int, ranks: int) -> Vector:
    """Return the sum of all ranks' vectors; steps 2 and 3 of the module."""
    parts = np.array_split(vector.copy(), ranks)
    for step in range(ranks - 1):
        ring.put(parts[(rank - step) % ranks].tobytes())
        target = (rank - step - 1) % ranks
        parts[target] = parts[target] + np.frombuffer(ring.get(parts[target].nbytes), dtype=np.float32)
    for step in range(ranks - 1):
        ring.put(parts[(rank - step + 1) % ranks].tobytes())
        target = (rank - step) % ranks
        parts[target] = np.frombuffer(ring.get(parts[target].nbytes), dtype=np.float32)
    return np.concatenate(parts)


def run(
    rank: int,
    addresses: list[tuple[str, int]],
    *,
    vector_bytes: int,
    for_ns: int,
    most_iterations: int | None,
    rate_bytes_per_s: int | None,
    compute_ns: int = 0,
    pacing_bytes_per_s: int | None = None,
) -> Outcome:
    """Take part in the ring as ``rank``.

    Raises:
        OSError: a neighbour does not come or goes away.
        ArithmeticError: a sum came out wrong.
    """
    ranks = len(addresses)
    with socket.create_server(addresses[rank], backlog=1) as server:
        server.settimeout(_START_NS / NS_PER_S)
        following = connect(addresses[(rank + 1) % ranks], _START_NS)
        preceding, _ = server.accept()
    with following, preceding:
        for connection in (following, preceding):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.settimeout(_STALL_S)
        if pacing_bytes_per_s is not None:
            following.setsockopt(socket.SOL_SOCKET, _SO_MAX_PACING_RATE, pacing_bytes_per_s)
        ring = _Ring(following, preceding, Pace(rate_bytes_per_s))
        sender = threading.Thread(target=ring.pump, daemon=True)
        sender.start()
        start_ns = time.monotonic_ns()
        most = sys.maxsize if most_iterations is None else most_iterations
        times, looped_ns = _iterate(ring, (rank, ranks), vector_bytes // 4, (start_ns + for_ns, most, compute_ns))
        ring.outbox.put(None)
        sender.join()
        following.shutdown(socket.SHUT_WR)
    end_ns = time.monotonic_ns()
    detail = {
        "iterations": len(times),
        "median_iteration_ns": int(statistics.median(times)) if times else None,
        "iterations_ns": looped_ns,
        "longest_iteration_ns": max(times, default=None),
        "ranks": ranks,
    }
    return Outcome("allreduce", f"rank {rank}", start_ns, end_ns, ring.sent, ring.received, None, None, {**detail})


def _iterate(ring: _Ring, place: tuple[int, int], elements: int, extent: tuple[int, int, int]) -> tuple[list[int], int]:
    """Return how long each iteration took, and all of them with what lies between."""
    rank, ranks = place
    end_ns, most_iterations, compute_ns = extent
    times: list[int] = []
    gradient = np.arange(elements, dtype=np.float32) % 1024 + rank
    # Small whole numbers: float32 adds them exactly, in whatever order.
    expected = (np.arange(elements, dtype=np.float32) % 1024) * ranks + ranks * (ranks - 1) / 2
    first_ns = time.monotonic_ns()
    while True:
        began_ns = time.monotonic_ns()
        if rank == 0:
            more = began_ns < end_ns and len(times) < most_iterations
            token = _GO if more else _STOP
            ring.put(token)
            ring.get(1)
        else:
            token = ring.get(1)
            ring.put(token)
        if token == _STOP:
            return times, time.monotonic_ns() - first_ns
        if compute_ns:
            time.sleep(compute_ns / NS_PER_S)
            began_ns = time.monotonic_ns()
        if not np.array_equal(all_reduce(ring, gradient, rank, ranks), expected):
            raise ArithmeticError(f"iteration {len(times)}: the sum is wrong")
        times.append(time.monotonic_ns() - began_ns)


def main(arguments: list[str] | None = None) -> int:
    """Run one rank; return the exit code."""
    parser = argparse.ArgumentParser(prog="hil.traffic.allreduce", description="A ring all-reduce over TCP.")
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--ring", required=True, help="every rank's HOST:PORT in order, separated by commas")
    parser.add_argument("--bytes", type=size, required=True, help="of the vector, for example 4MB")
    parser.add_argument("--for", dest="for_ns", type=duration, required=True)
    parser.add_argument("--iterations", type=int, default=None)
    parser.add_argument("--rate", type=rate, default=None)
    parser.add_argument("--pacing", type=rate, default=None)
    parser.add_argument("--compute", dest="compute_ns", type=duration, default=0)
    chosen = parser.parse_args(arguments)
    try:
        ring = [address(text) for text in chosen.ring.split(",")]
    except argparse.ArgumentTypeError as error:
        parser.error(str(error))
    if len(ring) < 2 or not 0 <= chosen.rank < len(ring):
        parser.error(f"rank {chosen.rank} is not in a ring of {len(ring)}")
    if chosen.bytes % 4 or chosen.bytes < 4 * len(ring):
        parser.error("--bytes must hold 4-byte numbers, at least one for each rank")
    try:
        outcome = run(
            chosen.rank,
            ring,
            vector_bytes=chosen.bytes,
            for_ns=chosen.for_ns,
            most_iterations=chosen.iterations,
            rate_bytes_per_s=chosen.rate,
            compute_ns=chosen.compute_ns,
            pacing_bytes_per_s=chosen.pacing,
        )
    except (OSError, ArithmeticError) as error:
        print(f"error: rank {chosen.rank}: {error}", file=sys.stderr)
        return 1
    outcome.print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
