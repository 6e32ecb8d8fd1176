"""The agent at work: a frame every interval, and the service beside it, until it is told to stop."""

from __future__ import annotations

import contextlib
import logging
import signal
import threading
from collections.abc import Callable

import grpc

from dpu_agent import credentials, home
from dpu_agent.classtable import ClassTables
from dpu_agent.clock import Clock, SystemClock
from dpu_agent.config import AgentConfig
from dpu_agent.counters import CounterSource
from dpu_agent.disk import Disk
from dpu_agent.errors import AgentError
from dpu_agent.limiting import Limiting
from dpu_agent.limits.start import limiting_of
from dpu_agent.meter.meters import Meters
from dpu_agent.metering import Metering
from dpu_agent.netlink import NetlinkCounters
from dpu_agent.recorder import Recorder
from dpu_agent.release import this_release
from dpu_agent.revocation import NAME, Revocations
from dpu_agent.service import AgentService, serve
from dpu_agent.sources.hardware import Sources

log = logging.getLogger(__name__)

# The management address may come up after the agent, or another process may hold the port a moment longer.
_LISTEN_RETRY_S = 2.0
# Calls in progress may finish this long after the stop was asked for.
_STOP_GRACE_S = 1.0


def run(config: AgentConfig) -> None:
    """Run the agent until SIGTERM or SIGINT.

    1. Check certificate and key: what is wrong with them is said before anything is changed.
    2. Take the state directory's lock; no second agent runs on it. Settle what the last start left.
    3. Put a meter at each port, where that is possible; no second agent meters them. Put the floors and the leases that
       still live in force.
    4. Read the ports once, so that the first answer is not empty, then serve. An address that cannot be listened on
       yet is tried again beside the metering, which does not wait for it.
    5. A frame every interval.

    Raises:
        AgentError: the agent cannot start; the message says why and what to do.
    """
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    clock, release = SystemClock(config.clock_offset_ns), this_release()
    identity = credentials.load(config, credentials.utc_now())
    with contextlib.ExitStack() as closing:
        closing.callback(home.DirectoryLock(config.state_directory).release)
        recorder = home.open_recorder(
            Disk(),
            config.state_directory,
            agent=config.agent,
            version=release.version,
            clock=clock,
            limits=config.spool,
        )
        closing.callback(recorder.close)
        source = Sources(NetlinkCounters(clock.monotonic_ns), clock.monotonic_ns)
        closing.callback(source.close)
        tables = ClassTables(Disk(), config.state_directory, agent=config.agent, verifier=config.verifier_public_key)
        metering = Meters(config, tables, last_sequence=recorder.last_sequence)
        closing.callback(metering.close)
        limiting = limiting_of(config, Disk(), clock)
        closing.callback(limiting.close)
        recorder.record(source.read(config.ports), metering, limiting)
        service = AgentService(
            config=config,
            release=release,
            public_key=recorder.public_key,
            clock=clock,
            recorder=recorder,
            site=identity.site,
            revoked=Revocations(config.ca.with_name(NAME)),
            metering=metering,
            limiting=limiting,
        )
        closing.callback(service.close)
        listener = Listener(lambda: serve(service, identity, config.listen))
        closing.callback(listener.close)
        log.info("agent %s %s; certificate valid until %s", config.agent, release.version, identity.not_after)
        record_until(
            stop,
            config=config,
            clock=clock,
            source=source,
            recorder=recorder,
            metering=metering,
            limiting=limiting,
        )
        log.info("agent %s stops", config.agent)


class Listener:
    """Starts the server, again and again until its address can be listened on, on a thread of its own."""

    def __init__(self, start: Callable[[], grpc.Server], retry_s: float = _LISTEN_RETRY_S) -> None:
        self._start, self._retry_s = start, retry_s
        self._stop = threading.Event()
        self._server: grpc.Server | None = None
        self._thread = threading.Thread(target=self._run, name="listener", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the calls in progress and stop listening."""
        self._stop.set()
        self._thread.join()
        if self._server is not None:
            self._server.stop(_STOP_GRACE_S).wait()

    def _run(self) -> None:
        said = ""
        while not self._stop.is_set() and (why := self._try()):
            if why != said:
                log.error("%s Metering goes on; trying again every %g s", why, self._retry_s)
            said = why
            self._stop.wait(self._retry_s)

    def _try(self) -> str:
        """Start the server; return why that failed, or nothing."""
        try:
            self._server = self._start()
        except AgentError as error:
            return str(error)
        return ""


def record_until(
    stop: threading.Event,
    *,
    config: AgentConfig,
    clock: Clock,
    source: CounterSource,
    recorder: Recorder,
    metering: Metering | None = None,
    limiting: Limiting | None = None,
    wait: Callable[[float], bool] | None = None,
) -> None:
    """Record a frame every interval until ``stop`` is set. ``wait`` is the event's own, unless a test gives another.

    The schedule is on the monotonic clock and does not drift. A tick that was missed is skipped, not made up for:
    readings say when they were made, and a burst of late ones would say nothing new.
    """
    wait = wait or stop.wait
    due_ns = clock.monotonic_ns() + config.frame_interval_ns
    while not wait(max(0, due_ns - clock.monotonic_ns()) / 1e9):
        recorder.record(source.read(config.ports), metering, limiting)
        due_ns = next_due_ns(due_ns, clock.monotonic_ns(), config.frame_interval_ns)


def next_due_ns(due_ns: int, now_ns: int, interval_ns: int) -> int:
    """Return the first instant of the schedule through ``due_ns`` that is still to come."""
    return due_ns + interval_ns * max(1, -((due_ns - now_ns) // interval_ns))
