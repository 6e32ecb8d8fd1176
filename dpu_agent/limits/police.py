"""``police``: the limiter in the meter's own program, one exact token bucket a class at each port's ingress.

The meter stands where nothing that the host sends can go around it, so its policer does too. Orders and buckets lie in
the meter's pinned maps: they outlive the agent, a new program is loaded over them, and an interface that is made anew
gets the same program with the same orders. What an order says (rate, depth, volume, end, floor) is enforced there.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from dpu_agent.limits.gate import Gate
from dpu_agent.limits.judged import JudgedRing
from dpu_agent.limits.order import LimitClass, LimiterError, Moments, Order, Passed
from dpu_agent.meter.errors import MeterUnavailableError
from dpu_agent.meter.layout import ORDER, POLICED
from dpu_agent.meter.libbpf import LibBpf
from dpu_agent.meter.maps import BPF_FILE_SYSTEM, JUDGED_MAP, ORDERS, PINS, POLICED_MAP

NONE = (1 << 64) - 1
"""All ones: no ceiling, no end."""
MAX_RATE_BYTES_PER_S = 1 << 40
"""1.1 TB/s; the program's arithmetic is exact in 64 bits up to here."""
MAX_DEPTH_BYTES = 1 << 50
_REMEDY = "the meter of a port must run before its limiter; see `weighbridge agents status`"


class Policer:
    """The policers of an agent's ports; :class:`dpu_agent.limits.order.Limiter` by its shape."""

    name = "police"

    def __init__(
        self,
        ports: Sequence[str],
        *,
        bpf_file_system: Path = BPF_FILE_SYSTEM,
        load_library: Callable[[], LibBpf] = LibBpf,
        kernel_ns: Callable[[], int] = time.monotonic_ns,
        bucket_ns: int = 1_000_000,
        gated: bool = False,
    ) -> None:
        """Open the maps of the meters, which must be there; ``bucket_ns`` is the width of their buckets.

        With ``gated``, frames leave by a port only if they came past a policer (:mod:`dpu_agent.limits.gate`).

        Raises:
            LimiterError: a port has no meter, or the kernel refuses.
        """
        self._maps: dict[str, tuple[int, int]] = {}
        self._rings: dict[str, JudgedRing] = {}
        self._passed: dict[tuple[str, LimitClass], int] = {}
        self._unplaced: dict[tuple[str, LimitClass], int] = {}
        self._kernel_ns = kernel_ns
        self._gate: Gate | None = None
        try:
            self._library = load_library()
            for port in ports:
                folder = bpf_file_system / PINS / port
                self._maps[port] = (
                    self._library.pinned(str(folder / ORDERS)),
                    self._library.pinned(str(folder / POLICED_MAP)),
                )
                self._rings[port] = JudgedRing(self._library, folder / JUDGED_MAP, bucket_ns, kernel_ns())
            if gated:
                self._gate = Gate(ports, self._library, bpf_file_system=bpf_file_system)
        except LimiterError:
            self.close()
            raise
        except (MeterUnavailableError, OSError) as error:
            self.close()
            raise LimiterError(f"{error}; {_REMEDY}") from error

    def apply(self, orders: Sequence[Order], queued: Mapping[tuple[str, LimitClass], int] | None = None) -> None:
        """Put ``orders`` in force, each as a whole.

        ``queued`` says in which class of a queue what passes is to wait on its way out, where it is to
        (:mod:`dpu_agent.limits.shape`).

        Raises:
            LimiterError: one is beyond the arithmetic or names no port of ours (then nothing was changed), or the
                kernel refuses one.
        """
        classes = queued or {}
        packed = [(order, self._packed(order, classes.get((order.port, order.traffic_class), 1))) for order in orders]
        try:
            for order, value in packed:
                self._library.update_locked(self._maps[order.port][0], _key(order.traffic_class), value)
        except OSError as error:
            raise LimiterError(f"an order cannot be put in force: {error}") from error

    def read_back(self) -> tuple[Order, ...]:
        """Return the orders in force, volumes as what is left of them; without those whose gate was not there.

        A gate that went is told of so once, and is back.

        Raises:
            LimiterError: the kernel does not tell.
        """
        ungated = self._check_gate()
        passed = {(each.port, each.traffic_class): each.passed_bytes for each in self.prove()}
        found = []
        for port, traffic_class, value in self._values(0, ORDER.size):
            active, rate, depth, ceiling, until_ns, floor_rate, floor_depth = ORDER.unpack(value)
            if active and port not in ungated:
                found.append(
                    Order(
                        port=port,
                        traffic_class=traffic_class,
                        rate_bytes_per_s=rate,
                        depth_bytes=depth,
                        volume_bytes=None if ceiling == NONE else max(0, ceiling - passed[port, traffic_class]),
                        until_ns=None if until_ns == NONE else until_ns,
                        floor_rate_bytes_per_s=floor_rate,
                        floor_depth_bytes=floor_depth,
                    )
                )
        return tuple(found)

    def prove(self) -> tuple[Passed, ...]:
        """Return what passed, each class's counters of one moment.

        Raises:
            LimiterError: the kernel does not tell.
        """
        found = []
        for port, traffic_class, value in self._values(1, POLICED.size):
            *_, offered, passed, dropped, offered_segments, passed_segments, dropped_segments, unplaced = (
                POLICED.unpack(value)
            )
            self._passed[port, traffic_class] = passed
            self._unplaced[port, traffic_class] = unplaced
            found.append(
                Passed(
                    port, traffic_class, offered, passed, dropped, offered_segments, passed_segments, dropped_segments
                )
            )
        return tuple(found)

    def drain(self) -> tuple[Moments, ...]:
        """Return what passed and was dropped in each bucket that is over since the last call."""
        now_ns = self._kernel_ns()
        return tuple(
            Moments(port, each, ring.width_ns, first, count, buckets, self._unplaced.get((port, each), 0))
            for port, ring in self._rings.items()
            for first, count, moved in (ring.drain(now_ns),)
            for each, buckets in moved.items()
        )

    def close(self) -> None:
        """Let go of the maps; the pins keep them, and the program goes on by them."""
        if self._gate is not None:
            self._gate.close()
            self._gate = None
        for ring in self._rings.values():
            ring.close()
        self._rings = {}
        for pair in self._maps.values():
            for descriptor in pair:
                with contextlib.suppress(OSError):
                    os.close(descriptor)
        self._maps = {}

    def _check_gate(self) -> tuple[str, ...]:
        try:
            return self._gate.check() if self._gate is not None else ()
        except OSError as error:
            raise LimiterError(f"the gates cannot be looked after: {error}") from error

    def _packed(self, order: Order, active: int) -> bytes:
        if order.port not in self._maps:
            raise LimiterError(f"there is no limiter at {order.port!r}")
        rates = order.rate_bytes_per_s, order.floor_rate_bytes_per_s
        depths = order.depth_bytes, order.floor_depth_bytes
        if not 0 <= min(rates) <= max(rates) <= MAX_RATE_BYTES_PER_S or max(depths) > MAX_DEPTH_BYTES:
            raise LimiterError(
                f"{order.port}: {max(rates)} B/s with a depth of {max(depths)} B is beyond what the policer counts "
                f"with: {MAX_RATE_BYTES_PER_S} B/s, {MAX_DEPTH_BYTES} B"
            )
        ceiling = NONE
        if order.volume_bytes is not None:
            if (order.port, order.traffic_class) not in self._passed:
                self.prove()
            ceiling = min(NONE - 1, self._passed[order.port, order.traffic_class] + order.volume_bytes)
        return ORDER.pack(
            active,
            order.rate_bytes_per_s,
            order.depth_bytes,
            ceiling,
            NONE if order.until_ns is None else order.until_ns,
            order.floor_rate_bytes_per_s,
            order.floor_depth_bytes,
        )

    def _values(self, which: int, size: int) -> list[tuple[str, LimitClass, bytes]]:
        try:
            return [
                (port, each, self._library.look_up_locked(pair[which], _key(each), size))
                for port, pair in self._maps.items()
                for each in LimitClass
            ]
        except OSError as error:
            raise LimiterError(f"the policers cannot be read: {error}") from error


def _key(traffic_class: LimitClass) -> bytes:
    return int(traffic_class).to_bytes(4, "little")
