"""Damaged answers to the switch reader: none is ever taken for a value, none escapes, none makes it wait for ever.

The answers are a real snmpd's over SNMPv3, damaged octet by octet (values changed, octets left out, doubled, added).
Most are delivered in this process while their question is open, the others over UDP. And since an agent that may
speak can speak nonsense, lists of bindings are damaged too, and what is read of them is held against pysnmp's decoder.
"""

from __future__ import annotations

import asyncio
import random
import resource
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyasn1.codec.ber import decoder
from pyasn1.error import PyAsn1Error
from pysnmp.proto import rfc1902, rfc1905

from hil.bench.figure import Figure, Goal
from hil.bench.switch_lab import Between, Lab, lab
from switch import varbinds
from switch.ber import BerError
from switch.channel import AgentChannel
from switch.direct import DirectChannel, DirectStack
from switch.engine import SnmpStack
from switch.exchange import Exchange, NoAnswerError, ValueType, VarBind
from switch.mib import SYS_UPTIME, Column
from switch.security import Endpoint, Timing

IN_PROCESS, OVER_UDP, LISTS = 100_000, 2_000, 20_000
_BATCH = 250
"""Mutants to one open question in this process."""
_FEW = 5
"""Mutants to one question over UDP, the genuine answer behind them."""
MOST_GROWTH_KB = 65_536
_S = 1_000_000_000
_PATIENT = Timing(timeout_ns=5 * _S, attempts=3, deadline_ns=20 * _S)
_BRIEF = Timing(timeout_ns=_S // 5, attempts=1, deadline_ns=2 * _S)
_LOST_AFTER_S = 60
"""A question that has not ended so long after its time is one that hangs."""
OIDS = (SYS_UPTIME, *(column.of(2) for column in Column))


def mutant(genuine: bytes, generator: random.Random) -> bytes:
    """Return ``genuine`` with some octets changed, left out, doubled or added; never itself."""
    damaged = bytearray(genuine)
    for _ in range(generator.randint(1, 5)):
        place = generator.randrange(len(damaged)) if damaged else 0
        kind = generator.randrange(4)
        if kind == 0 and damaged:
            damaged[place] ^= 1 << generator.randrange(8)
        elif kind == 1 and damaged:
            damaged[place] = generator.randrange(256)
        elif kind == 2:
            del damaged[place : place + generator.randint(1, 4)]
        else:
            damaged[place:place] = damaged[place : place + generator.randint(1, 8)] or b"\x00"
    return bytes(damaged) if damaged != genuine else genuine[:-1]


@dataclass(slots=True)
class Tally:
    """What came of mutants.

    Attributes:
        mutants: delivered.
        questions: asked meanwhile; of damaged lists those that pysnmp reads too.
        taken: questions that ended with something else than the genuine answer.
        escaped: mutants that raised something out of the reader.
        hung: questions that did not end in their time.
        spoiled: questions that a mutant ended early, with a reason and no value.
    """

    mutants: int = 0
    questions: int = 0
    taken: int = 0
    escaped: int = 0
    hung: int = 0
    spoiled: int = 0


class Client:
    """A client with one channel, and a way to hand it a datagram as if it had come over the network."""

    def __init__(self, name: str, lab: Lab, port: int, timing: Timing) -> None:
        self.name = name
        endpoint = Endpoint("127.0.0.1", port)
        self.channel: AgentChannel | DirectChannel
        self._stack: SnmpStack | DirectStack
        if name == "pysnmp":
            self._stack = SnmpStack(time.monotonic_ns)
            self.channel = AgentChannel(self._stack, "fuzz", endpoint, lab.user, timing)
        else:
            self._stack = DirectStack(time.monotonic_ns)
            self.channel = DirectChannel(self._stack, "fuzz", endpoint, lab.user, timing)
        self._sender = ("127.0.0.1", port)

    async def deliverer(self) -> Callable[[bytes], None]:
        """Return what delivers a datagram."""
        if isinstance(self._stack, DirectStack):
            stack = self._stack
            return lambda datagram: stack.received(datagram, self._sender)
        transport = await self._stack.transport(socket.AF_INET)
        return lambda datagram: transport.datagram_received(datagram, self._sender)

    async def close(self) -> None:
        """Close its sockets."""
        await self._stack.close()


async def ask(channel: AgentChannel | DirectChannel) -> Exchange | NoAnswerError:
    """Return what one question comes to."""
    try:
        return await channel.get(OIDS)
    except NoAnswerError as error:
        return error


async def until_answered(channel: AgentChannel | DirectChannel) -> None:
    """Ask until there is an answer: the daemon starts, or the client recovers.

    Raises:
        TimeoutError: there is none in a minute.
    """
    ends = time.monotonic() + _LOST_AFTER_S
    while isinstance(outcome := await ask(channel), NoAnswerError):
        if time.monotonic() > ends:
            raise TimeoutError(outcome.text)
        await asyncio.sleep(0.1)


async def in_process(name: str, lab: Lab, mutants: int, generator: random.Random) -> Tally:
    """Deliver mutants of a withheld answer while its question is open, then the answer itself."""
    tally = Tally()
    async with Between.standing() as between:
        client = Client(name, lab, between.port, _PATIENT)
        try:
            await until_answered(client.channel)
            deliver = await client.deliverer()
            withheld: asyncio.Queue[bytes] = asyncio.Queue()

            def withhold(genuine: bytes) -> tuple[bytes, ...]:
                withheld.put_nowait(genuine)
                return ()

            while tally.mutants < mutants:
                between.answer = withhold
                question = asyncio.ensure_future(ask(client.channel))
                genuine = await withheld.get()
                tally.questions += 1
                for _ in range(min(_BATCH, mutants - tally.mutants)):
                    tally.mutants += 1
                    try:
                        deliver(mutant(genuine, generator))
                    except Exception:  # noqa: BLE001  whatever it is, it must not come out
                        tally.escaped += 1
                between.answer = lambda genuine: (genuine,)
                deliver(genuine)
                await _settle(question, genuine, tally)
                await until_answered(client.channel)
        finally:
            await client.close()
    return tally


async def _settle(question: asyncio.Future[Exchange | NoAnswerError], genuine: bytes, tally: Tally) -> None:
    done, _ = await asyncio.wait({question}, timeout=0.05)
    if not done:  # a mutant made the client drop what it knew of its question: it asks again when its time is up
        done, _ = await asyncio.wait({question}, timeout=_PATIENT.deadline_ns / _S + _LOST_AFTER_S)
    if not done:
        tally.hung += 1
        question.cancel()
        return
    outcome = question.result()
    tally.spoiled += isinstance(outcome, NoAnswerError)
    # A question that was asked again has an answer of its own, which nobody damaged.
    tally.taken += isinstance(outcome, Exchange) and outcome.attempts == 1 and outcome.datagram != genuine


async def over_udp(name: str, lab: Lab, mutants: int, generator: random.Random) -> Tally:
    """Send some mutants of each answer over UDP, and the answer behind them."""
    tally = Tally()
    genuine: set[bytes] = set()

    def answers(answer: bytes) -> list[bytes]:
        genuine.add(answer)
        tally.mutants += _FEW
        return [*(mutant(answer, generator) for _ in range(_FEW)), answer]

    async with Between.standing() as between:
        client = Client(name, lab, between.port, _BRIEF)
        try:
            await until_answered(client.channel)
            between.answer = answers
            while tally.mutants < mutants:
                tally.questions += 1
                try:
                    outcome = await asyncio.wait_for(ask(client.channel), _LOST_AFTER_S)
                except asyncio.TimeoutError:
                    tally.hung += 1
                    break
                tally.spoiled += isinstance(outcome, NoAnswerError)
                tally.taken += isinstance(outcome, Exchange) and outcome.datagram not in genuine
            between.answer = lambda answer: (answer,)
            await until_answered(client.channel)
        finally:
            await client.close()
    return tally


def damaged_lists(count: int, generator: random.Random) -> Tally:
    """Damage lists of bindings and read them; ``taken`` are values that pysnmp's decoder does not read there too."""
    tally = Tally()
    for _ in range(count):
        raw = mutant(_list(generator), generator)
        tally.mutants += 1
        try:
            found = varbinds.decode(raw, 0, len(raw))
        except BerError:
            continue
        except Exception:  # noqa: BLE001  as above
            tally.escaped += 1
            continue
        theirs = _read_by_pysnmp(raw)
        if theirs is not None:  # what only one of the two refuses is no wrong value
            tally.questions += 1
            tally.taken += not _agree(found, theirs)
    return tally


_MAKERS: tuple[Callable[[random.Random], Any], ...] = (
    lambda rng: rfc1902.Counter64(rng.getrandbits(64)),
    lambda rng: rfc1902.Counter32(rng.getrandbits(32)),
    lambda rng: rfc1902.Gauge32(rng.getrandbits(32)),
    lambda rng: rfc1902.TimeTicks(rng.getrandbits(32)),
    lambda rng: rfc1902.Integer32(rng.getrandbits(31)),
    lambda rng: rfc1902.OctetString(rng.randbytes(rng.randrange(40))),
    lambda rng: rfc1902.ObjectIdentifier((1, 3, *(rng.getrandbits(20) for _ in range(5)))),
    lambda _: rfc1905.noSuchInstance,
)


def _list(rng: random.Random) -> bytes:
    from pyasn1.codec.ber import encoder  # noqa: PLC0415  only here

    bindings = rfc1905.VarBindList()
    for place in range(rng.randint(1, 6)):
        binding = rfc1905.VarBind()
        binding.setComponentByPosition(
            0, rfc1902.ObjectName((1, 3, 6, 1, 2, 1, rng.getrandbits(16), rng.getrandbits(8)))
        )
        binding.setComponentByPosition(1, rng.choice(_MAKERS)(rng), verifyConstraints=False, matchTags=False)
        bindings.setComponentByPosition(place, binding)
    return bytes(encoder.encode(bindings))


def _read_by_pysnmp(raw: bytes) -> list[tuple[Any, Any]] | None:
    try:
        read, _ = decoder.decode(raw, asn1Spec=rfc1905.VarBindList())
        return [(binding[0], binding[1]) for binding in read]
    except PyAsn1Error:
        return None


def _agree(found: tuple[VarBind, ...], theirs: list[tuple[Any, Any]]) -> bool:
    """Whether pysnmp reads the same values wherever we read any."""
    if len(theirs) != len(found):
        return False
    for ours, (name, value) in zip(found, theirs, strict=True):
        if ours.oid != name.asTuple():
            return False
        inner = value
        while hasattr(inner, "getComponent"):
            inner = inner.getComponent()
        if isinstance(ours.value, int) and int(inner) != ours.value:
            return False
        if ours.type is ValueType.OCTETS and inner.asOctets() != ours.value:
            return False
    return True


def figures() -> Iterator[Figure]:
    """Yield what :data:`IN_PROCESS` mutants in this process, :data:`OVER_UDP` over UDP and damaged lists come to."""
    with tempfile.TemporaryDirectory() as folder, lab(Path(folder), ports=1) as made:
        for name in ("pysnmp", "direct"):
            generator = random.Random(name)
            with made.inside():
                asyncio.run(in_process(name, made, _BATCH, generator))  # what is loaded and kept once
                before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
                inside = asyncio.run(in_process(name, made, IN_PROCESS // 2, generator))
                grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
                outside = asyncio.run(over_udp(name, made, OVER_UDP // 2, generator))
            yield from _told(f"switch.fuzz.in_process.{name}", inside)
            yield Figure(f"switch.fuzz.in_process.{name}.memory_grown", grown, "kB", MOST_GROWTH_KB)
            yield from _told(f"switch.fuzz.udp.{name}", outside)
    read = damaged_lists(LISTS, random.Random(5))
    note = f"{read.mutants} damaged lists of bindings, {read.questions} of them readable for both decoders"
    yield Figure("switch.fuzz.lists.wrong_values", read.taken, "1", 0, Goal.EXACTLY, note)
    yield Figure("switch.fuzz.lists.escaped", read.escaped, "1", 0, Goal.EXACTLY)


def _told(name: str, tally: Tally) -> Iterator[Figure]:
    note = f"{tally.mutants} mutants, {tally.questions} questions, {tally.spoiled} ended without a value"
    yield Figure(f"{name}.wrong_values", tally.taken, "1", 0, Goal.EXACTLY, note)
    yield Figure(f"{name}.escaped", tally.escaped, "1", 0, Goal.EXACTLY)
    yield Figure(f"{name}.past_the_deadline", tally.hung, "1", 0, Goal.EXACTLY)
