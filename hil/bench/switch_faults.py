"""A real snmpd under load, and everything that happens to agents: each ends as the right reason and heals by itself.

The collector of a run polls two ports twice a second while frames pass through one of them and a second client walks
the agent without a pause. Then something happens. What is judged afterwards is the journal alone: which reasons it
gives, whether readings came again, and whether the bytes that were truly sent are inside the bytes it states.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import signal
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field, replace
from io import StringIO
from pathlib import Path

from controller.collect.narrator import Narrator
from controller.collect.recorder import Recorder
from controller.collect.switches import SwitchCollector
from controller.collect.writer import GroupWriter
from controller.crosscheck.account import Account
from controller.crosscheck.epochs import epochs_of
from controller.crosscheck.quantity import bounds
from controller.journal import Journal, Kind
from hil.bench.figure import Figure, Goal
from hil.bench.switch_lab import ADDRESS, FRAME_BYTES, Lab, lab
from protos.reading import Direction, Framing
from switch.connect import SnmpClients
from switch.continuity import EpochReason
from switch.epochs import PortHistory, judge
from switch.interpret import Device
from switch.ports import Poll, PortSample
from switch.record import decode
from switch.security import Endpoint, Timing

REFRESH_NS = 3_500_000_000
PORT, INNOCENT = "eth1", "eth2"
_S = 1_000_000_000
_INTERVAL_NS = _S // 2
_TIMING = Timing(timeout_ns=_S, attempts=2, deadline_ns=5 * _S)
_FRAMES_A_SECOND = 2_000
_MOST_S = 120
"""Whatever is waited for comes by then, or never."""
STOPPED_S = 20


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that happens to an agent.

    Attributes:
        name: what.
        happens: does it, and takes it back.
        reasons: of which the journal must give at least one: words of failed looks and of the epochs of the port.
        also: which others it may give.
        resets: whether the counters begin anew.
    """

    name: str
    happens: Callable[[Lab, Scene], Awaitable[None]]
    reasons: frozenset[str]
    also: frozenset[str] = frozenset()
    resets: bool = False


@dataclass(slots=True)
class Scene:
    """What the journal holds so far, asked while it is written: each entry is read once."""

    journal: Journal
    _polls: list[Poll] = field(default_factory=list)
    _words: set[str] = field(default_factory=set)
    _next_leaf: int = 0

    def samples(self, port: str) -> list[PortSample]:
        """Return the samples of ``port``."""
        self._read()
        return [sample for poll in self._polls for sample in poll.samples if sample.port == port]

    def reasons(self) -> set[str]:
        """Return the words of failed looks and of ports that were asked for and not read."""
        self._read()
        return set(self._words)

    def _read(self) -> None:
        for entry in self.journal.entries(kinds=[Kind.POLL, Kind.ATTEMPT], from_leaf=self._next_leaf):
            self._next_leaf = entry.leaf + 1
            if entry.kind is Kind.ATTEMPT:
                self._words.add(str(json.loads(entry.body)["reason"]))
                continue
            poll = decode(entry.body)
            self._words |= {fault.reason.value for fault in poll.faults}
            self._polls.append(replace(poll, exchanges=()))

    async def until(self, seen: Callable[[Scene], bool]) -> bool:
        """Wait until ``seen``; return whether it was."""
        ends = time.monotonic() + _MOST_S
        while not seen(self):
            if time.monotonic() > ends:
                return False
            await asyncio.sleep(0.25)
        return True

    async def until_read_after(self, at_ns: int) -> bool:
        """Wait until both ports were read by a request of after ``at_ns``; return whether they were."""
        return await self.until(
            lambda scene: all(
                (found := scene.samples(port)) and found[-1].earliest_ns > at_ns for port in (PORT, INNOCENT)
            )
        )


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a fault.

    Attributes:
        healed_s: from its end until both ports were read again; None if they never were.
        reasons: every word that the journal gives for what it does not know.
        as_expected: whether these are the fault's.
        sent: bytes that were truly sent through the port.
        least: bytes that were certainly sent, by the journal.
        most: bytes that were at the most; None if that is not bounded.
        spared: whether the other port's counter went on through what happened to this one's.
    """

    healed_s: float | None
    reasons: frozenset[str]
    as_expected: bool
    sent: int
    least: int
    most: int | None
    spared: bool

    @property
    def true(self) -> bool:
        """Whether what was sent is inside what is stated."""
        return self.least <= self.sent and (self.most is None or self.sent <= self.most)


class Sender(threading.Thread):
    """Sends frames into the port, evenly, until told to stop."""

    def __init__(self, made: Lab) -> None:
        super().__init__(daemon=True)
        self._lab, self._done = made, threading.Event()
        self.frames = 0
        self._port = PORT

    def run(self) -> None:
        """Send in small groups; a port that is gone takes none, one that is back is found again."""
        while not self._done.is_set():
            try:
                with self._lab.sender(self._port) as send:
                    while not self._done.wait(0.01):
                        taken = send(_FRAMES_A_SECOND // 100)
                        self.frames += taken
                        if not taken:
                            break
            except OSError:
                self._done.wait(0.05)

    def stop(self) -> None:
        """Send no more."""
        self._done.set()
        self.join()


def series(made: Lab, fault: Fault) -> Outcome:
    """Let one fault happen to a lab and return what the journal says of it."""
    with tempfile.TemporaryDirectory() as folder, Journal.create(Path(folder) / "j.db") as journal, made.inside():
        return asyncio.run(_series(made, fault, Scene(journal)))


async def _series(made: Lab, fault: Fault, scene: Scene) -> Outcome:
    """Wait for a quiet port, send through the fault, and wait for a quiet port again."""
    async with _collecting(made, scene.journal), _walking(made):
        if not await scene.until_read_after(time.monotonic_ns()):
            raise RuntimeError("the lab's agent was never read")
        sender, began_ns = Sender(made), time.monotonic_ns()
        sender.start()
        try:
            await scene.until_read_after(began_ns + _S)
            await fault.happens(made, scene)
            ended_ns = time.monotonic_ns()
            healed = await scene.until_read_after(ended_ns)
        finally:
            sender.stop()
        quiet_ns = time.monotonic_ns()
        await scene.until_read_after(quiet_ns)
    history, other = judge(scene.samples(PORT)), judge(scene.samples(INNOCENT))
    least, most = _stated(history, began_ns, quiet_ns)
    reasons = scene.reasons() | {epoch.reason.value for epoch in history.epochs[1:]}
    # Both ends of the veth live in one namespace: what was sent is what the port received, but for what it lost.
    first = next((s.received_ns for s in scene.samples(PORT) if s.first_sent_ns > ended_ns), None)
    return Outcome(
        healed_s=None if first is None or not healed else round((first - ended_ns) / _S, 1),
        reasons=frozenset(reasons),
        as_expected=bool(reasons & fault.reasons) and reasons <= fault.reasons | fault.also,
        sent=sender.frames * FRAME_BYTES,
        least=least,
        most=None if fault.resets else most,
        spared=len(other.epochs) == 1 or fault.name in _WHOLE_AGENT,
    )


def _stated(history: PortHistory, from_ns: int, to_ns: int) -> tuple[int, int | None]:
    readings = history.readings(Direction.EGRESS)
    epochs = epochs_of(readings, origin=from_ns, proven=history.proven_epochs, starts={})
    return bounds(Account(epochs, None), 0, to_ns - from_ns)


@contextlib.asynccontextmanager
async def _collecting(made: Lab, journal: Journal) -> AsyncIterator[None]:
    clients = SnmpClients(time.monotonic_ns)
    reader = clients.connect(
        "lab", Endpoint(*ADDRESS), made.user, Device(REFRESH_NS, Framing.L2_WITHOUT_FCS), timing=_TIMING
    )
    async with GroupWriter(journal) as writer:
        narrator = Narrator(time.monotonic_ns, StringIO())
        recorder = Recorder(writer, narrator, time.monotonic_ns, random.Random(1))
        declared = {PORT: None, INNOCENT: None}
        collector = SwitchCollector(reader, declared, recorder=recorder, interval_ns=_INTERVAL_NS)
        running = asyncio.ensure_future(collector.run())
        try:
            yield
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            await clients.close()


@contextlib.asynccontextmanager
async def _walking(made: Lab) -> AsyncIterator[None]:
    """Load the agent: list its ports over and over."""
    clients = SnmpClients(time.monotonic_ns)
    reader = clients.connect("load", Endpoint(*ADDRESS), made.user, Device(REFRESH_NS, Framing.L2_WITHOUT_FCS))

    async def walk() -> None:
        while True:
            await reader.discover()
            await asyncio.sleep(0.1)

    walking = asyncio.ensure_future(walk())
    try:
        yield
    finally:
        walking.cancel()
        await asyncio.gather(walking, return_exceptions=True)
        await clients.close()


# ---------------------------------------------------------------- what happens


async def _recreated(made: Lab, scene: Scene, *, keeps_index: bool) -> None:
    before = made.link(PORT)
    made.ip("link", "del", PORT)
    kept = (before["ifindex"], before["address"]) if keeps_index else (None, None)
    made.add_port(1, index=kept[0], address=kept[1])
    # Seen once the agent has looked again; whatever it serves until then is of the port that was.
    began_ns = time.monotonic_ns()
    await scene.until_read_after(began_ns)


async def _same_row(made: Lab, scene: Scene) -> None:
    await _recreated(made, scene, keeps_index=True)


async def _new_row(made: Lab, scene: Scene) -> None:
    await _recreated(made, scene, keeps_index=False)


async def _restarted(made: Lab, scene: Scene) -> None:
    made.stop()
    made.start()
    await scene.until_read_after(time.monotonic_ns())


async def _boots(made: Lab, scene: Scene) -> None:
    made.stop()
    made.start(boots=1_000)
    await scene.until_read_after(time.monotonic_ns())


async def _stopped(made: Lab, _scene: Scene) -> None:
    made.signal(signal.SIGSTOP)
    try:
        await asyncio.sleep(STOPPED_S)
    finally:
        made.signal(signal.SIGCONT)


async def _wrong_pass_phrase(made: Lab, scene: Scene) -> None:
    made.stop()
    made.start(user=made.wrong_user())
    await scene.until(lambda now: "auth" in now.reasons())
    made.stop()
    made.start()


async def _lossy(made: Lab, scene: Scene) -> None:
    rules = [f"udp {way} 161 numgen random mod 100 < 30 drop" for way in ("dport", "sport")]
    chain = ["type filter hook output priority 0", *rules]
    made.nft("table inet loss {\n chain out {\n" + "".join(f"{line};\n" for line in chain) + "}\n}\n")
    try:
        await asyncio.sleep(STOPPED_S)
        await scene.until(lambda now: "timeout" in now.reasons())
    finally:
        made.nft("delete table inet loss")


_ENGINE = frozenset({EpochReason.REBOOT.value, EpochReason.ENGINE_RESTARTED.value})
_SILENCE = frozenset({"timeout", "unreachable"})
_RESET = frozenset(
    {
        EpochReason.COUNTER_DECREASED.value,
        EpochReason.IMPLAUSIBLE_FRAMES.value,
        EpochReason.IMPLAUSIBLE_RATE.value,
        EpochReason.DISCONTINUITY.value,
    }
)
_MOVED = frozenset({EpochReason.BINDING_CHANGED.value})
_GONE = frozenset({"absent", "missing-ports"})
_WHOLE_AGENT = frozenset({"agent_restarted", "engine_boots_changed", "wrong_pass_phrase"})

FAULTS = (
    Fault("recreated_under_its_index", _same_row, _RESET | _MOVED, _GONE, resets=True),
    Fault("recreated_under_a_new_index", _new_row, _MOVED, _GONE | _RESET, resets=True),
    Fault("agent_restarted", _restarted, _ENGINE, _SILENCE | _GONE),
    Fault("engine_boots_changed", _boots, _ENGINE, _SILENCE | _GONE),
    Fault("agent_stopped_20s", _stopped, _SILENCE),
    Fault("wrong_pass_phrase", _wrong_pass_phrase, frozenset({"auth"}), _SILENCE | _ENGINE | _GONE),
    Fault("loss_of_30_percent", _lossy, _SILENCE, frozenset({"malformed"})),
)


def figures() -> Iterator[Figure]:
    """Yield what comes of each fault, each in a lab of its own."""
    for fault in FAULTS:
        with tempfile.TemporaryDirectory() as folder, lab(Path(folder)) as made:
            outcome = series(made, fault)
        name = f"switch.faults.{fault.name}"
        note = f"the journal says {', '.join(sorted(outcome.reasons)) or 'nothing'}"
        yield Figure(f"{name}.reason_is_right", int(outcome.as_expected), "1", 1, Goal.EXACTLY, note)
        most = "unbounded" if outcome.most is None else f"{outcome.most}"
        note = f"sent {outcome.sent} B, stated at least {outcome.least} and at most {most}"
        yield Figure(f"{name}.truth_inside", int(outcome.true), "1", 1, Goal.EXACTLY, note)
        yield Figure(f"{name}.other_port_spared", int(outcome.spared), "1", 1, Goal.EXACTLY)
        note = "" if outcome.healed_s is not None else "it never was read again"
        yield Figure(f"{name}.healed_after", outcome.healed_s, "s", _MOST_S, Goal.AT_MOST, note)
