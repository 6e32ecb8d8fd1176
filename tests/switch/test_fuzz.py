"""Mutations of a genuine SNMPv3 answer, delivered while its question is open: none is ever taken for the answer."""

from __future__ import annotations

import asyncio
import random
import time
from typing import Any

import pytest

from switch.channel import AgentChannel
from switch.engine import SnmpStack
from switch.exchange import Exchange, NoAnswerError
from switch.mib import SYS_UPTIME
from switch.security import Authentication, Endpoint, Privacy, Timing, UserSecurity

pytestmark = pytest.mark.rig

MS = 1_000_000
USER = UserSecurity(
    "weighbridge", Authentication.SHA256, "correct horse battery", Privacy.AES128, "staple mustard seeds"
)
QUESTIONS, MUTANTS = 40, 5
TIMING = Timing(timeout_ns=150 * MS, attempts=1, deadline_ns=1_000 * MS)


def mutant(genuine: bytes, generator: random.Random) -> bytes:
    """A datagram with some octets changed, left out, doubled or added; never the same."""
    damaged = bytearray(genuine)
    for _ in range(generator.randint(1, 5)):
        place = generator.randrange(len(damaged))
        kind = generator.randrange(4)
        if kind == 0:
            damaged[place] ^= 1 << generator.randrange(8)
        elif kind == 1:
            damaged[place] = generator.randrange(256)
        elif kind == 2:
            del damaged[place : place + generator.randint(1, 4)]
        else:
            damaged[place:place] = damaged[place : place + generator.randint(1, 8)] or b"\x00"
    return bytes(damaged) if damaged != genuine else genuine[:-1]


async def ask(channel: AgentChannel) -> Exchange | NoAnswerError:
    try:
        return await channel.get([SYS_UPTIME])
    except NoAnswerError as error:
        return error


async def until_answered(channel: AgentChannel) -> Exchange:
    while True:
        outcome = await ask(channel)
        if isinstance(outcome, Exchange):
            return outcome
        await asyncio.sleep(0.1)


def test_no_mutant_is_ever_an_answer_and_the_reader_recovers(snmpd: Any) -> None:
    generator = random.Random(11)
    genuine: set[bytes] = set()

    def answers(_request: bytes, answer: bytes) -> list[tuple[float, bytes]]:
        genuine.add(answer)
        return [*((0.0, mutant(answer, generator)) for _ in range(MUTANTS)), (0.0, answer)]

    async def main() -> tuple[list[Exchange | NoAnswerError], Exchange]:
        stack = SnmpStack(time.monotonic_ns)
        try:
            async with snmpd.proxy() as proxy:
                channel = AgentChannel(stack, "sw1", Endpoint("127.0.0.1", proxy.port), USER, TIMING)
                await until_answered(channel)
                proxy.answers = answers
                found: list[Exchange | NoAnswerError] = []
                found += [await ask(channel) for _ in range(QUESTIONS)]
                proxy.answers = lambda _request, answer: [(0.0, answer)]
                return found, await until_answered(channel)
        finally:
            await stack.close()

    with snmpd.inside():
        outcomes, after = asyncio.run(main())
    accepted = [outcome for outcome in outcomes if isinstance(outcome, Exchange)]
    assert all(outcome.datagram in genuine for outcome in accepted)
    assert all(outcome.varbinds[0].oid == SYS_UPTIME for outcome in accepted)
    assert len(outcomes) == QUESTIONS
    assert after.varbinds[0].oid == SYS_UPTIME
