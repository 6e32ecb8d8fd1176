"""The agent at work: a frame every interval, and the service beside it, until it is told to stop."""

from __future__ import annotations

import contextlib
import logging
import signal
import threading
from collections.abc import Callable

from dpu_agent import credentials, home
from dpu_agent.clock import Clock, SystemClock
from dpu_agent.config import AgentConfig
from dpu_agent.counters import CounterSource
from dpu_agent.disk import Disk
from dpu_agent.netlink import NetlinkCounters
from dpu_agent.recorder import Recorder
from dpu_agent.release import this_release
from dpu_agent.service import AgentService, serve

log = logging.getLogger(__name__)

# Calls in progress may finish this long after the stop was asked for.
_STOP_GRACE_S = 1.0


def run(config: AgentConfig) -> None:
    """Run the agent until SIGTERM or SIGINT.

    1. Take the state directory's lock; no second agent runs on it.
    2. Check certificate and key; settle what the last start left.
    3. Read the ports once, so that the first answer is not empty, then serve.
    4. A frame every interval.

    Raises:
        AgentError: the agent cannot start; the message says why and what to do.
    """
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    clock, release = SystemClock(config.clock_offset_ns), this_release()
    lock = home.DirectoryLock(config.state_directory)
    with contextlib.ExitStack() as closing:
        closing.callback(lock.release)
        identity = credentials.load(config, credentials.utc_now())
        recorder = home.open_recorder(
            Disk(),
            config.state_directory,
            agent=config.agent,
            version=release.version,
            clock=clock,
            limits=config.spool,
        )
        closing.callback(recorder.close)
        source = NetlinkCounters(clock.monotonic_ns)
        closing.callback(source.close)
        recorder.record(source.read(config.ports))
        service = AgentService(
            config=config,
            release=release,
            public_key=recorder.public_key,
            clock=clock,
            recorder=recorder,
            site=identity.site,
        )
        server = serve(service, identity, config.listen)
        closing.callback(lambda: server.stop(_STOP_GRACE_S).wait())
        log.info("agent %s %s serves at %s", config.agent, release.version, config.listen)
        record_until(stop, config=config, clock=clock, source=source, recorder=recorder)
        log.info("agent %s stops", config.agent)


def record_until(
    stop: threading.Event,
    *,
    config: AgentConfig,
    clock: Clock,
    source: CounterSource,
    recorder: Recorder,
    wait: Callable[[float], bool] | None = None,
) -> None:
    """Record a frame every interval until ``stop`` is set. ``wait`` is the event's own, unless a test gives another.

    The schedule is on the monotonic clock and does not drift. A tick that was missed is skipped, not made up for:
    readings say when they were made, and a burst of late ones would say nothing new.
    """
    wait = wait or stop.wait
    due_ns = clock.monotonic_ns() + config.frame_interval_ns
    while not wait(max(0, due_ns - clock.monotonic_ns()) / 1e9):
        recorder.record(source.read(config.ports))
        due_ns = next_due_ns(due_ns, clock.monotonic_ns(), config.frame_interval_ns)


def next_due_ns(due_ns: int, now_ns: int, interval_ns: int) -> int:
    """Return the first instant of the schedule through ``due_ns`` that is still to come."""
    return due_ns + interval_ns * max(1, -((due_ns - now_ns) // interval_ns))
