"""``shape``: what the policer passes waits in a queue on its way out, so that TCP is delayed rather than cut.

The policer stays what it is, with the lease's own rate and depth: it alone decides what may pass, exactly, at the one
hook that the host cannot go around, and it holds when the queue is gone. Beyond it stands an HTB class at the port
where the frames leave: the uplink for what the node sends, the host port for what it gets. Its rate is the lease's,
its burst the depth less what may wait (:func:`queue_for`). A queue only delays; what it is fed within rate and depth
leaves it within rate and depth (network calculus: a greedy shaper keeps arrival constraints).

The meter's program writes the class's number into ``skb->priority`` of what it passes; everything else goes into the
default class, which is not limited here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dpu_agent.limits.htb import MOST_BURST_NS, ROOT, DeviceState, Htb, Queue, is_gone
from dpu_agent.limits.order import LimitClass, LimiterError, Moments, Order, Passed
from dpu_agent.limits.police import Policer
from protos.units import NS_PER_S

LONGEST_WAIT_NS = NS_PER_S // 4
"""What waits leaves within this time of a lease's end."""
MOST_WAITING_BYTES = 64 << 20
LARGEST_PACKET_BYTES = 1 << 17
"""A class goes into debt by a packet, and a packet waits while one is sent: room for both, segmentation-offloaded."""
DEFAULT_WAITING_BYTES = 32 << 20
_CLASSES_A_PORT = 16

Key = tuple[str, LimitClass]


def queue_for(rate: int, depth: int) -> Queue:
    """Return the queue behind a policer of ``rate`` and ``depth``.

    Three quarters of the depth wait, at most a quarter of a second and 64 MiB; the rest leaves at once. So the queue
    never holds more than that, unless the burst is beyond what HTB can count (60 s of the rate): then the queue drops.
    """
    waiting = min(depth * 3 // 4, rate * LONGEST_WAIT_NS // NS_PER_S, MOST_WAITING_BYTES)
    burst_ns = min((depth - waiting) * NS_PER_S // rate, MOST_BURST_NS)
    return Queue(rate, burst_ns, waiting + LARGEST_PACKET_BYTES)


class Shaper:
    """Policers with queues behind them; :class:`dpu_agent.limits.order.Limiter` by its shape."""

    name = "shape"

    def __init__(self, policer: Policer, ways: Mapping[str, Sequence[str]], htb: Htb | None = None) -> None:
        """``ways`` says where what comes in at a port leaves.

        Raises:
            LimiterError: the kernel gives no netlink socket.
        """
        self._policer, self._ways = policer, {port: tuple(out) for port, out in ways.items()}
        self._numbers = {port: number for number, port in enumerate(sorted(self._ways), 1)}
        self._wanted: dict[Key, Queue] = {}
        self._dropped: dict[tuple[str, Key], tuple[int, int, int]] = {}
        try:
            self._htb = htb or Htb()
        except OSError as error:
            raise LimiterError(f"no netlink socket for the queues: {error}") from error

    def apply(self, orders: Sequence[Order]) -> None:
        """Make the queues, then put the orders in force.

        Raises:
            LimiterError: the kernel refuses a queue, or the policer an order.
        """
        wanted = dict(self._wanted)
        for order in orders:
            key = order.port, order.traffic_class
            if order.rate_bytes_per_s and order.traffic_class is not LimitClass.L2_CONTROL:
                wanted[key] = queue_for(order.rate_bytes_per_s, order.depth_bytes)
            else:
                wanted.pop(key, None)
        self._settle(wanted)
        self._policer.apply(orders, {key: self._number(key) | ROOT for key in wanted})
        self._wanted = wanted

    def read_back(self) -> tuple[Order, ...]:
        """Return the orders in force, without those whose queue is not there or another; those are made again.

        So a queue that went (a device that was made anew, a hand that changed it) is told of once, and is back.

        Raises:
            LimiterError: the kernel does not tell, or refuses a queue.
        """
        lacking = self._settle(self._wanted)
        return tuple(order for order in self._policer.read_back() if (order.port, order.traffic_class) not in lacking)

    def prove(self) -> tuple[Passed, ...]:
        """Return what passed the policer; what a queue dropped behind it counts among the packets dropped.

        Raises:
            LimiterError: the kernel does not tell.
        """
        dropped = self._queue_drops()
        return tuple(
            Passed(
                each.port,
                each.traffic_class,
                each.offered_bytes,
                each.passed_bytes,
                each.dropped_bytes,
                each.offered_packets,
                each.passed_packets,
                each.dropped_packets + dropped.get((each.port, each.traffic_class), 0),
            )
            for each in self._policer.prove()
        )

    def drain(self) -> tuple[Moments, ...]:
        """Return what the policer passed in each bucket of time."""
        return self._policer.drain()

    def close(self) -> None:
        """Let go; queues and orders stay."""
        self._htb.close()
        self._policer.close()

    def _number(self, key: Key) -> int:
        return self._numbers[key[0]] * _CLASSES_A_PORT + int(key[1])

    def _devices(self) -> tuple[str, ...]:
        return tuple(sorted({device for out in self._ways.values() for device in out}))

    def _look(self, device: str) -> DeviceState | None:
        try:
            return self._htb.look(device)
        except OSError as error:
            if is_gone(error):
                return None
            raise LimiterError(f"the queues of {device} cannot be read: {error}") from error

    def _settle(self, wanted: Mapping[Key, Queue]) -> frozenset[Key]:
        """Have every device hold what is wanted of it; return the keys that were not as wanted.

        A device that is not there lacks nothing: nothing leaves by it.
        """
        lacking = set()
        for device in self._devices():
            here = {key: queue for key, queue in wanted.items() if device in self._ways[key[0]]}
            if not here:
                continue
            state = self._look(device)
            try:
                if state is None and not self._htb.make_root(device, DEFAULT_WAITING_BYTES):
                    continue
                for key, queue in here.items():
                    there = None if state is None else state.classes.get(self._number(key))
                    if there is None or not _is(there.rate_bytes_per_s, there.burst_ns, queue):
                        self._htb.make_class(device, self._number(key), queue)
                        lacking.add(key)
            except OSError as error:
                if not is_gone(error):
                    raise LimiterError(f"the kernel does not make a queue at {device}: {error}") from error
        return frozenset(lacking)

    def _queue_drops(self) -> dict[Key, int]:
        """Return the packets that queues dropped, by what they belong to; a queue made anew goes on from before."""
        for device in self._devices():
            state = self._look(device)
            if state is None:
                continue
            for key in self._wanted:
                found = state.classes.get(self._number(key))
                if found is None or device not in self._ways[key[0]]:
                    continue
                ifindex, base, last = self._dropped.get((device, key), (state.ifindex, 0, 0))
                if ifindex != state.ifindex or found.dropped_packets < last:
                    base += last
                self._dropped[device, key] = state.ifindex, base, found.dropped_packets
        drops: dict[Key, int] = {}
        for (_, key), (_, base, last) in self._dropped.items():
            drops[key] = drops.get(key, 0) + base + last
        return drops


def _is(rate: int, burst_ns: int, queue: Queue) -> bool:
    return rate == queue.rate_bytes_per_s and abs(burst_ns - queue.burst_ns) < 64
