"""The channel over UDP against an agent that misbehaves on the wire (SNMPv2c, which says itself insecure)."""

from __future__ import annotations

import asyncio
import random
import socket
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from pyasn1.codec.ber import decoder
from pysnmp.proto.api import v2c

from protos.reading import Framing, Missing
from switch.channel import AgentChannel
from switch.engine import SnmpStack
from switch.exchange import Exchange, NoAnswerError
from switch.interpret import Device
from switch.mib import PORT_COLUMNS, SYS_UPTIME
from switch.ports import Poll
from switch.recorded import RecordedPort
from switch.security import Endpoint, InsecureCommunity, SecurityError, Timing
from switch.snmp import SnmpSwitch

pytestmark = pytest.mark.loopback

S = 1_000_000_000
PATIENT = Timing(timeout_ns=5 * S, attempts=4, deadline_ns=60 * S)
"""For what is answered at once, on a machine that may pause."""
QUICK = Timing(timeout_ns=S // 4, attempts=2, deadline_ns=5 * S)
"""For what is not answered."""
PUBLIC = InsecureCommunity("public", insecure=True)
PORT_OIDS = [column.of(1) for column in PORT_COLUMNS]
Story = Callable[[Any, SnmpStack, AgentChannel], Any]


def run(fake_agent: Any, story: Story, *ports: RecordedPort, timing: Timing = PATIENT) -> Any:
    async def main() -> Any:
        async with fake_agent(*(ports or (RecordedPort(1, b"eth1", in_octets=2**53 + 1),))) as agent:
            stack = SnmpStack(time.monotonic_ns)
            try:
                channel = AgentChannel(stack, "sw1", Endpoint("127.0.0.1", agent.port), PUBLIC, timing)
                return await story(agent, stack, channel)
            finally:
                await stack.close()

    return asyncio.run(main())


def reader(channel: AgentChannel) -> SnmpSwitch:
    return SnmpSwitch("sw1", channel, Device(3 * S, Framing.L2_WITHOUT_FCS), time.monotonic_ns, timing=PATIENT)


async def silence(channel: AgentChannel) -> NoAnswerError:
    with pytest.raises(NoAnswerError) as caught:
        await channel.get([SYS_UPTIME])
    return caught.value


def test_a_counter_above_2_to_the_53_arrives_exactly(fake_agent: Any) -> None:
    async def story(_agent: Any, _stack: SnmpStack, channel: AgentChannel) -> Poll:
        return await reader(channel).read_ports(["eth1"])

    poll = run(fake_agent, story)
    assert poll.samples[0].switch_in.octets == 9_007_199_254_740_993
    assert poll.samples[0].identity.engine_id == ""
    assert all(exchange.datagram for exchange in poll.exchanges)


class AfterTheNext:
    """Answers each question only when the next one has come, as an agent does that is slower than the timeout."""

    def __init__(self) -> None:
        self.heard_ns: list[int] = []
        self._next: list[asyncio.Event] = []

    def install(self, agent: Any, *, until: int) -> None:
        """From question number ``until`` on, answer at once."""
        answer = agent._answer

        async def late(data: bytes, address: tuple[str, int]) -> None:
            self.heard_ns.append(time.monotonic_ns())
            for event in self._next:
                event.set()
            if len(self.heard_ns) < until:
                self._next.append(asyncio.Event())
                await self._next[-1].wait()
            await answer(data, address)

        agent._answer = late


def test_late_answer_is_dropped_and_the_answered_request_counts_from_its_first_transmission(fake_agent: Any) -> None:
    """Case 14: the answer to the first id comes when the second was sent and is not used; a later id's is."""

    async def story(agent: Any, _stack: SnmpStack, channel: AgentChannel) -> tuple[int, Exchange, list[int], list[int]]:
        slow = AfterTheNext()
        slow.install(agent, until=3)
        asked = time.monotonic_ns()
        exchange = await channel.get([SYS_UPTIME])
        return asked, exchange, slow.heard_ns, [request_id(request) for request in agent.requests]

    asked, exchange, heard_ns, ids = run(fake_agent, story, timing=replace(QUICK, attempts=20))
    assert exchange.attempts == len(heard_ns) >= 3
    assert asked <= exchange.first_sent_ns <= heard_ns[0]
    assert request_id(exchange.datagram) == ids[-1]
    assert exchange.received_ns >= heard_ns[-1]


def request_id(message: bytes) -> int:
    pdu = v2c.apiMessage.get_pdu(decoder.decode(message, asn1Spec=v2c.Message())[0])
    return int(v2c.apiPDU.get_request_id(pdu))


def test_an_agent_slower_than_the_timeout_is_named_as_such(fake_agent: Any) -> None:
    async def story(agent: Any, _stack: SnmpStack, channel: AgentChannel) -> NoAnswerError:
        AfterTheNext().install(agent, until=100)
        return await silence(channel)

    error = run(fake_agent, story, timing=replace(QUICK, attempts=4))
    assert error.reason is Missing.TIMEOUT
    assert "slower than the timeout" in error.text


def test_the_same_answer_many_times_counts_once(fake_agent: Any) -> None:
    async def story(agent: Any, _stack: SnmpStack, channel: AgentChannel) -> Poll:
        agent.bend = lambda _request, answer: [(0, answer)] * 5
        switch = reader(channel)
        await switch.read_ports(["eth1"])
        return await switch.read_ports(["eth1"])

    poll = run(fake_agent, story)
    assert len(poll.samples) == len(poll.exchanges) == 1


def test_an_answer_with_the_previous_id_is_not_taken(fake_agent: Any) -> None:
    async def story(agent: Any, _stack: SnmpStack, channel: AgentChannel) -> NoAnswerError:
        first = await channel.get([SYS_UPTIME])
        agent.bend = lambda _request, _answer: [(0, first.datagram)]
        return await silence(channel)

    assert run(fake_agent, story, timing=QUICK).reason is Missing.TIMEOUT


@pytest.mark.parametrize(
    "noise", [b"", b"\x30", b"\x30\x84\xff\xff\xff\xff", bytes(range(256)), b"\x30\x03\x02\x01\x01"]
)
def test_noise_is_survived_and_named(fake_agent: Any, noise: bytes) -> None:
    async def story(agent: Any, _stack: SnmpStack, channel: AgentChannel) -> tuple[NoAnswerError, Any]:
        agent.bend = lambda _request, _answer: [(0, noise)]
        channel.timing = QUICK
        error = await silence(channel)
        agent.bend = lambda _request, answer: [(0, noise), (0, answer)]
        channel.timing = PATIENT
        return error, await channel.get([SYS_UPTIME])

    error, exchange = run(fake_agent, story)
    assert error.reason in (Missing.MALFORMED, Missing.TIMEOUT)
    assert exchange.varbinds[0].value == 100_000


def test_a_counter64_encoded_as_a_negative_number_is_malformed_not_a_dead_agent(fake_agent: Any) -> None:
    """Some agents leave the leading zero octet out: that counter alone is void, and no guess is made of it."""

    async def story(agent: Any, _stack: SnmpStack, channel: AgentChannel) -> Poll:
        right = b"\x46\x09\x00" + b"\xff" * 7 + b"\xfe"
        wrong = b"\x46\x08" + b"\xff" * 7 + b"\xfe"

        def bend(_request: bytes, answer: bytes) -> list[tuple[float, bytes]]:
            place = answer.find(right)
            if place < 0:
                return [(0, answer)]
            return [(0, _shorten(answer, place, len(right), wrong))]

        agent.bend = bend
        return await reader(channel).read_ports(["eth1"])

    (sample,) = run(fake_agent, story, RecordedPort(1, b"eth1", in_octets=2**64 - 2, out_octets=77)).samples
    assert sample.switch_in.octets is Missing.MALFORMED
    assert sample.switch_out.octets == 77


def _shorten(message: bytes, place: int, length: int, becomes: bytes) -> bytes:
    """Replace part of a BER message by something one octet shorter, in every length around it."""
    change = len(becomes) - length
    out = bytearray(message)
    cursor, end = 0, len(out)
    while cursor < place:
        header = 2 + (out[cursor + 1] & 0x7F if out[cursor + 1] & 0x80 else 0)
        size = int.from_bytes(out[cursor + 2 : cursor + header], "big") if out[cursor + 1] & 0x80 else out[cursor + 1]
        if cursor + header <= place < cursor + header + size and out[cursor] & 0x20:
            if out[cursor + 1] & 0x80:
                out[cursor + 2 : cursor + header] = (size + change).to_bytes(header - 2, "big")
            else:
                out[cursor + 1] = size + change
            cursor += header
        else:
            cursor += header + size
        assert cursor < end
    out[place : place + length] = becomes
    return bytes(out)


def test_an_unreachable_address_is_a_timeout_with_a_sentence() -> None:
    async def story() -> Poll:
        stack = SnmpStack(time.monotonic_ns)
        try:
            channel = AgentChannel(stack, "sw1", Endpoint("127.0.0.1", 9), PUBLIC, QUICK)
            return await reader(channel).read_ports(["eth1", "eth2"])
        finally:
            await stack.close()

    poll = asyncio.run(story())
    assert {fault.reason for fault in poll.faults} == {Missing.TIMEOUT}
    assert "127.0.0.1:9" in poll.faults[0].text


def test_a_name_that_does_not_resolve_is_a_fault_not_a_crash() -> None:
    async def story() -> Poll:
        stack = SnmpStack(time.monotonic_ns)
        try:
            channel = AgentChannel(stack, "sw1", Endpoint("no-such-switch.invalid", 161), PUBLIC, QUICK)
            return await reader(channel).read_ports(["eth1"])
        finally:
            await stack.close()

    poll = asyncio.run(story())
    assert poll.faults[0].reason is Missing.TIMEOUT
    assert "no-such-switch.invalid:161" in poll.faults[0].text


def test_a_hostile_datagram_between_two_polls_does_no_harm(fake_agent: Any) -> None:
    async def story(agent: Any, _stack: SnmpStack, channel: AgentChannel) -> Poll:
        switch = reader(channel)
        first = await switch.read_ports(["eth1"])
        agent.bend = lambda _request, answer: [(0, first.exchanges[0].datagram), (0, b"\xa2" * 90), (0, answer)]
        return await switch.read_ports(["eth1"])

    assert len(run(fake_agent, story).samples) == 1


@pytest.mark.parametrize("snmp_client", ["pysnmp"], indirect=True)
def test_a_wall_clock_set_back_neither_stops_timeouts_nor_keeps_what_timed_out(
    fake_agent: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library's own timers tick on the wall clock: set back an hour, they stand still for an hour."""

    async def story(agent: Any, stack: SnmpStack, channel: AgentChannel) -> int:
        await channel.get([SYS_UPTIME])
        agent.bend = lambda _request, _answer: []
        monkeypatch.setattr(time, "time", lambda: 0.0)
        channel.timing = QUICK
        await silence(channel)
        cache = stack.engine.message_dispatcher._MsgAndPduDispatcher__cache._Cache__cacheRepository
        for _ in range(600):
            if not cache:
                break
            await asyncio.sleep(0.1)
        return len(cache)

    assert run(fake_agent, story) == 0


@pytest.mark.parametrize("snmp_client", ["pysnmp"], indirect=True)
def test_no_damaged_datagram_escapes_into_the_event_loop(fake_agent: Any) -> None:
    """2,000 mutations of a genuine answer, delivered as they would be; a few trip the library's decoder."""

    async def story(_agent: Any, stack: SnmpStack, channel: AgentChannel) -> int:
        genuine = (await channel.get([SYS_UPTIME, *PORT_OIDS])).datagram
        troubles: list[str] = []
        transport = await stack.transport(socket.AF_INET)
        transport.on_trouble = lambda _arrival, text: troubles.append(text)
        generator = random.Random(3)
        for _ in range(2_000):
            damaged = bytearray(genuine)
            for _ in range(generator.randint(1, 6)):
                place = generator.randrange(len(damaged))
                if generator.random() < 0.3:
                    del damaged[place : place + generator.randint(1, 4)]
                else:
                    damaged[place] = generator.randrange(256)
            transport.datagram_received(bytes(damaged), ("127.0.0.1", 9))
        assert (await channel.get([SYS_UPTIME])).varbinds[0].value == 100_000
        return len(troubles)

    assert run(fake_agent, story) > 0


def test_v2c_needs_the_word_insecure() -> None:
    with pytest.raises(SecurityError, match="forged"):
        InsecureCommunity("public")
