"""The lease keeper at work: keeps its state on the disk and its decisions in the limiter. The thin shell.

What is taken is on the disk before it is in force, and in force before the caller hears of it. Whatever fails, fails
towards the floor: a state that cannot be written takes no lease, an order that cannot be carried out closes its slot.
The limiter ends leases and volumes by itself, so nothing here is needed in time.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Mapping
from dataclasses import replace

from dpu_agent import keeper
from dpu_agent.clock import Clock
from dpu_agent.keeper import KeeperState
from dpu_agent.leasechecks import LeaseRefusedError, Refused, Terms
from dpu_agent.leasestore import Counted, LeaseStore, Remembered
from dpu_agent.limits.order import LimitClass, Limiter, LimiterError, Moments, Order, Passed
from dpu_agent.limits.report import Refusals, limits_message
from dpu_agent.limits.settings import CLOSED, Floor
from dpu_agent.twoslots import TooLargeError
from protos.lease import Slot, most_bytes
from protos.v1 import lease_pb2

log = logging.getLogger(__name__)


class Leases:
    """Leases and limiter of one agent; threads may share it."""

    def __init__(
        self,
        *,
        terms: Terms,
        floors: Mapping[LimitClass, Floor],
        limiter: Limiter,
        store: LeaseStore,
        remembered: Remembered,
        clock: Clock,
        clock_offset_ns: int = 0,
    ) -> None:
        """Put in force what holds now: the floors, and leases of this boot that are still alive.

        ``clock_offset_ns`` is what the agent's clock shows beyond the kernel's.

        Raises:
            LimiterError: the floors cannot be put in force.
            OSError: the state cannot be written.
        """
        self._terms, self._floors, self._limiter, self._store = terms, floors, limiter, store
        self._clock, self._clock_offset_ns = clock, clock_offset_ns
        self._lock = threading.Lock()
        self._refusals: dict[str, Refusals] = {}
        self._ordered: dict[tuple[str, LimitClass], Order] = {}
        self._leased: dict[Slot, bytes] = {}
        self._trouble = ""
        self._counted = dict(remembered.counted)
        self._state = keeper.restore(self._charge_lost(remembered), terms)
        found = self._charged(limiter.prove())
        self._state = keeper.tick(found, clock.boot_id, clock.monotonic_ns())
        self._give([*self._fixed(), *(self._order(slot, self._state) for slot in terms.slots())])
        self._leased = {slot: _signed(self._state, slot) for slot in terms.slots()}
        self._note_counts(limiter.prove())
        self._write(self._state)

    def apply(self, signed: bytes) -> None:
        """Put a lease in force: see :mod:`dpu_agent.keeper` for what is taken.

        Raises:
            LeaseRefusedError: it is not taken.
        """
        with self._lock, self._refusing():
            self._advance()
            self._take(keeper.offer(self._state, self._terms, signed, self._clock.monotonic_ns()))

    def revoke(self, signed: bytes) -> None:
        """End leases before their time.

        Raises:
            LeaseRefusedError: the revocation is not taken.
        """
        with self._lock, self._refusing():
            self._advance()
            self._take(keeper.revoke(self._state, self._terms, signed))

    def read(self) -> lease_pb2.LimitsReading:
        """Say what :meth:`describe` says, and what passed in each bucket of time since the last call."""
        return self._read(drain=True)

    def describe(self) -> lease_pb2.LimitsReading:
        """Charge what passed, end what is over, compare what is in force with what was ordered, and say it all."""
        return self._read(drain=False)

    def _read(self, *, drain: bool) -> lease_pb2.LimitsReading:
        with self._lock:
            earliest_ns = self._clock.monotonic_ns()
            passed: tuple[Passed, ...] = ()
            deviations: Mapping[tuple[str, LimitClass], str] = {}
            moments: tuple[Moments, ...] = ()
            try:
                passed = self._advance()
                deviations = self._deviations()
                moments = self._limiter.drain() if drain else ()
                self._say_trouble("")
            except LimiterError as error:
                self._say_trouble(str(error))
            self._keep_use()
            return limits_message(
                backend=self._limiter.name,
                unavailable=self._trouble,
                state=self._state,
                orders=self._ordered,
                passed={(each.port, each.traffic_class): each for each in passed},
                deviations=deviations,
                moments={(each.port, each.traffic_class): each for each in moments},
                refusals=self._refusals,
                slots=self._terms.slots(),
                read_ns=(earliest_ns, self._clock.monotonic_ns()),
                clock_offset_ns=self._clock_offset_ns,
            )

    def close(self) -> None:
        """Put what was used on the disk and let go; the limits stay in force."""
        with self._lock:
            try:
                self._advance()
            except LimiterError as error:
                self._say_trouble(str(error))
            self._keep_use()
            self._store.close()
            self._limiter.close()

    # ------------------------------------------------------------ inside, under the lock

    def _advance(self) -> tuple[Passed, ...]:
        """Charge what passed and let time pass; slots that went to their floor are ordered so."""
        passed = self._limiter.prove()
        charged = self._charged(passed)
        self._note_counts(passed)
        self._enforce(keeper.tick(charged, self._clock.boot_id, self._clock.monotonic_ns()))
        return passed

    def _take(self, state: KeeperState) -> None:
        """Put ``state`` on the disk, then in force.

        Raises:
            LeaseRefusedError: one of the two cannot be done; what held before holds, or less.
        """
        if state is self._state:
            return
        try:
            self._write(state)
        except (OSError, TooLargeError) as error:
            raise LeaseRefusedError(Refused.NOT_STORED, f"it cannot be stored: {error}") from error
        before = self._state
        try:
            self._enforce(state)
        except LimiterError as error:
            self._state = replace(before, highest_sequence=state.highest_sequence)
            self._keep_use()
            raise LeaseRefusedError(Refused.NOT_ENFORCED, f"it cannot be put in force: {error}") from error

    def _enforce(self, state: KeeperState) -> None:
        """Order what ``state`` says where that is news; raises LimiterError, and then ``state`` does not hold."""
        changed = [slot for slot in self._terms.slots() if _signed(state, slot) != self._leased.get(slot, b"")]
        if changed:
            self._give([self._order(slot, state) for slot in changed])
            self._leased |= {slot: _signed(state, slot) for slot in changed}
        self._state = state

    def _give(self, orders: list[Order]) -> None:
        self._limiter.apply(orders)
        self._ordered |= {(order.port, order.traffic_class): order for order in orders}

    def _order(self, slot: Slot, state: KeeperState) -> Order:
        found = state.in_force(slot)
        limit_class = LimitClass(slot.traffic_class)
        floor = self._floors.get(limit_class, CLOSED)
        order = Order(slot.port, limit_class, floor.rate_bytes_per_s, floor.depth_bytes, None, None, *_pair(floor))
        if found is not None and found[1].held is not None:
            lease = found[1].held.lease
            order = replace(
                order,
                rate_bytes_per_s=lease.rate_bytes_per_s,
                depth_bytes=lease.depth_bytes,
                volume_bytes=lease.volume_bytes - found[1].used_bytes,
                until_ns=max(0, lease.end_ns - self._clock_offset_ns),
            )
        return order

    def _fixed(self) -> list[Order]:
        """Orders that no lease changes: control frames have their own budget."""
        floor = self._floors.get(LimitClass.L2_CONTROL, CLOSED)
        return [
            Order(port, LimitClass.L2_CONTROL, *_pair(floor), None, None, *_pair(floor)) for port in self._terms.ports
        ]

    def _charged(self, passed: Iterable[Passed]) -> KeeperState:
        """Return the state with what passed since the last look charged to the leases in force.

        Totals that went back were begun anew; what passed in between is charged as the most that the lease allowed.
        """
        state, now_ns = self._state, self._clock.monotonic_ns()
        totals = {(each.port, each.traffic_class): each.passed_bytes for each in passed}
        for slot in self._terms.slots():
            total = totals.get((slot.port, LimitClass(slot.traffic_class)))
            before = self._counted.get(slot)
            if total is None or before is None:
                continue
            if total >= before.passed_bytes:
                state = keeper.charge(state, slot, total - before.passed_bytes)
            else:
                state = keeper.charge(state, slot, total + _most(state, slot, now_ns - before.at_ns))
        return state

    def _charge_lost(self, remembered: Remembered) -> KeeperState:
        """Return what was remembered, where a reboot came in between charged with the most that may have passed."""
        state = remembered.keeper
        if not state.boot_id or state.boot_id == self._clock.boot_id:
            return state
        for slot in self._terms.slots():
            found, before = state.in_force(slot), remembered.counted.get(slot)
            if found is not None and found[1].held is not None and before is not None:
                state = keeper.charge(state, slot, _most(state, slot, found[1].held.lease.end_ns - before.at_ns))
        self._counted = {}
        return state

    def _note_counts(self, passed: Iterable[Passed]) -> None:
        now_ns = self._clock.monotonic_ns()
        totals = {(each.port, each.traffic_class): each.passed_bytes for each in passed}
        for slot in self._terms.slots():
            total = totals.get((slot.port, LimitClass(slot.traffic_class)))
            if total is not None:
                self._counted[slot] = Counted(total, now_ns)

    def _deviations(self) -> dict[tuple[str, LimitClass], str]:
        """Return where the limiter does not hold what was ordered; the volume counts down by itself."""
        there = {(order.port, order.traffic_class): order for order in self._limiter.read_back()}
        found = {}
        for key, order in self._ordered.items():
            held = there.get(key)
            if held is None:
                found[key] = "the limiter holds no order for it"
            elif replace(held, volume_bytes=order.volume_bytes) != order:
                found[key] = f"ordered {order}, the limiter holds {held}"
        return found

    def _write(self, state: KeeperState) -> None:
        self._store.write(Remembered(state, dict(self._counted)))

    def _keep_use(self) -> None:
        try:
            self._write(self._state)
        except (OSError, TooLargeError) as error:
            self._say_trouble(f"what was used of the leases cannot be stored: {error}")

    def _say_trouble(self, trouble: str) -> None:
        if trouble and trouble != self._trouble:
            log.error("limits: %s", trouble)
        self._trouble = trouble

    def _refusing(self) -> _Refusing:
        return _Refusing(self._refusals, self._clock)


class _Refusing:
    """Counts refusals by their reason on the way out."""

    def __init__(self, refusals: dict[str, Refusals], clock: Clock) -> None:
        self._refusals, self._clock = refusals, clock

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, LimiterError):
            error = LeaseRefusedError(Refused.NOT_ENFORCED, f"the limiter cannot be used: {error}")
            self._count(error)
            raise error
        if isinstance(error, LeaseRefusedError):
            self._count(error)

    def _count(self, error: LeaseRefusedError) -> None:
        before = self._refusals.get(error.reason.value)
        count = 1 if before is None else before.count + 1
        self._refusals[error.reason.value] = Refusals(count, str(error), self._clock.monotonic_ns())


def _signed(state: KeeperState, slot: Slot) -> bytes:
    found = state.in_force(slot)
    return found[1].held.signed if found is not None and found[1].held is not None else b""


def _pair(floor: Floor) -> tuple[int, int]:
    return floor.rate_bytes_per_s, floor.depth_bytes


def _most(state: KeeperState, slot: Slot, elapsed_ns: int) -> int:
    found = state.in_force(slot)
    if found is None or found[1].held is None:
        return 0
    lease = found[1].held.lease
    return most_bytes(lease.rate_bytes_per_s, lease.depth_bytes, max(0, elapsed_ns))
