from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from dpu_agent import config as configuration
from dpu_agent.errors import AgentError
from dpu_agent.memory_disk import MemoryDisk
from dpu_agent.run import Listener, next_due_ns, record_until

if TYPE_CHECKING:
    from tests.dpu_agent.conftest import Agent, Installation

_S = 1_000_000_000


@given(due=st.integers(0, 10**12), late=st.integers(0, 10**12), interval=st.integers(1, 10**11))
def test_the_schedule_does_not_drift_and_does_not_bunch(due: int, late: int, interval: int) -> None:
    then = next_due_ns(due, due + late, interval)
    assert (then - due) % interval == 0
    assert then > due
    assert due + late <= then < due + late + interval or then == due + interval


def test_missed_ticks_are_skipped(start_agent: Callable[..., Agent], installation: Installation) -> None:
    """The third frame takes 3.5 s: the next two ticks are left out, the one after comes at its time."""
    agent = start_agent(MemoryDisk())
    config = configuration.load(installation.config)
    start = agent.clock.monotonic_ns()
    times: list[float] = []

    def wait(seconds: float) -> bool:
        agent.clock.advance(round(seconds * _S))
        if len(times) == 6:
            return True
        times.append((agent.clock.monotonic_ns() - start) / _S)
        # What reading and storing takes.
        agent.clock.advance(3 * _S + _S // 2 if len(times) == 3 else _S // 100)
        return False

    record_until(
        threading.Event(),
        config=config,
        clock=agent.clock,
        source=agent.counters,
        recorder=agent.recorder,
        wait=wait,
    )
    assert times == [1, 2, 3, 7, 8, 9]
    assert agent.recorder.snapshot()[0].sequence == 6


class Server:
    def __init__(self) -> None:
        self.stopped = threading.Event()

    def stop(self, _grace: float) -> threading.Event:
        self.stopped.set()
        return self.stopped


def test_an_address_that_comes_up_later_is_listened_on_then() -> None:
    tries, server, up = [], Server(), threading.Event()

    def start() -> Server:
        tries.append(time.monotonic())
        if not up.is_set():
            raise AgentError("10.0.0.1:1: cannot be listened on.")
        return server

    listener = Listener(start, retry_s=0.01)  # type: ignore[arg-type]  # all a listener does with it is stop it
    _until(lambda: len(tries) > 3)
    up.set()
    _until(lambda: listener._server is not None)
    listener.close()
    assert server.stopped.is_set()


def test_a_listener_that_never_could_is_closed_at_once() -> None:
    def start() -> Server:
        raise AgentError("no")

    listener = Listener(start, retry_s=3_600)  # type: ignore[arg-type]
    started = time.monotonic()
    listener.close()
    assert time.monotonic() - started < 1_800


def _until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.005)
