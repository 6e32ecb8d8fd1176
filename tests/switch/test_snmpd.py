"""The reader against net-snmp's own daemon over SNMPv3, and against what a network does to its answers."""

from __future__ import annotations

import asyncio
import itertools
import random
import signal
import socket
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from pyasn1.codec.ber import decoder, encoder
from pysnmp.proto import rfc1902
from pysnmp.proto.api import v2c
from pysnmp.proto.mpmod.rfc3412 import SNMPv3Message
from pysnmp.proto.secmod.rfc3414.service import UsmSecurityParameters

from controller.switchcalibration import learn
from controller.switchpoll import Target
from protos.reading import Direction, Framing, Missing
from switch.channel import AgentChannel
from switch.continuity import EpochReason
from switch.discovery import PortKind, classify
from switch.engine import SnmpStack
from switch.epochs import judge
from switch.exchange import NoAnswerError
from switch.interpret import Device
from switch.mib import SYS_UPTIME
from switch.ports import Discovery, Poll, PortFault, PortSample
from switch.record import decode, encode
from switch.security import Authentication, Endpoint, Privacy, Timing, UserSecurity
from switch.snmp import SnmpSwitch

pytestmark = pytest.mark.rig

S = 1_000_000_000
REFRESH_NS = 1_500_000_000
PATIENT = Timing(timeout_ns=3 * S, attempts=4, deadline_ns=60 * S)
"""For what is answered at once, on a machine that may pause."""
QUICK = Timing(timeout_ns=S, attempts=2, deadline_ns=10 * S)
"""For what is not answered, and where the daemon starts anew meanwhile."""
USER = UserSecurity(
    "weighbridge", Authentication.SHA256, "correct horse battery", Privacy.AES128, "staple mustard seeds"
)
PORTS = ["eth1", "eth2", "eth3"]


class Site:
    """A stack inside the daemon's namespace and a switch behind a proxy."""

    def __init__(self, stack: SnmpStack, proxy: Any, security: UserSecurity, timing: Timing) -> None:
        self.stack, self.proxy = stack, proxy
        self.channel = AgentChannel(stack, "sw1", Endpoint("127.0.0.1", proxy.port), security, timing)
        self.switch = SnmpSwitch(
            "sw1", self.channel, Device(REFRESH_NS, Framing.L2_WITHOUT_FCS), time.monotonic_ns, timing=timing
        )

    async def until_read(self) -> Poll:
        """Poll until every port is read; the daemon needs a moment after its start."""
        return await self.until(lambda poll: not poll.faults)

    async def until(self, seen: Callable[[Poll], bool]) -> Poll:
        """Poll until ``seen``; what is not seen in a minute never comes."""
        ends = time.monotonic() + 60
        while True:
            poll = await self.switch.read_ports(PORTS)
            if seen(poll):
                return poll
            assert time.monotonic() < ends, poll
            await asyncio.sleep(0.2)


def run(
    snmpd: Any,
    story: Callable[[Site], Any],
    security: UserSecurity = USER,
    timing: Timing = PATIENT,
    **options: Any,
) -> Any:
    async def main() -> Any:
        stack = SnmpStack(time.monotonic_ns, **options)
        try:
            async with snmpd.proxy() as proxy:
                return await story(Site(stack, proxy, security, timing))
        finally:
            await stack.close()

    with snmpd.inside():
        return asyncio.run(main())


@pytest.fixture
def ready(snmpd: Any) -> Any:
    """The daemon, answering."""

    async def wait(site: Site) -> None:
        await site.until_read()

    run(snmpd, wait)
    return snmpd


def send_frames(snmpd: Any, port: str, frames: int, octets: int) -> None:
    """Send Ethernet frames of a length of our choice into a switch port from its host's end."""
    with snmpd.inside(), socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as raw:
        raw.bind((port.replace("eth", "host"), 0))
        frame = b"\x02\x00\x00\x00\x00\x99" + b"\x02\x00\x00\x00\x00\x98" + b"\x88\xb5" + bytes(octets - 14)
        for _ in range(frames):
            raw.send(frame)


def octets_in(poll: Poll, port: str) -> int:
    (sample,) = [entry for entry in poll.samples if entry.port == port]
    assert isinstance(sample.switch_in.octets, int)
    return sample.switch_in.octets


@pytest.mark.parametrize("snmp_client", ["direct"], indirect=True)
def test_the_counters_are_the_kernels_to_the_byte(ready: Any) -> None:
    """1,000 frames of 1,514 octets without check sequence are 1,514,000 octets, a refresh later."""

    async def story(site: Site) -> list[Poll]:
        before = await site.until_read()
        send_frames(ready, "eth1", 1_000, 1_514)
        after = octets_in(before, "eth1") + 1_514_000
        return [before, await site.until(lambda poll: not poll.faults and octets_in(poll, "eth1") >= after)]

    before, after = run(ready, story)
    assert octets_in(after, "eth1") - octets_in(before, "eth1") == 1_514_000
    assert octets_in(after, "eth1") == ready.counters("eth1")["rx"]["bytes"]
    history = judge([poll.samples[0] for poll in (before, after)])
    assert history.proven_epochs == {0}
    first, last = history.readings(Direction.EGRESS)
    assert last.packets is not None
    assert first.packets is not None
    assert last.packets - first.packets == 1_000


@pytest.mark.parametrize("snmp_client", ["direct"], indirect=True)
def test_no_byte_is_claimed_before_it_passed(ready: Any) -> None:
    """Polls on both sides of a burst: every reading's interval holds the truth at its ends.

    The daemon is held to its refresh period and to what this machine's own pauses make of it: as late as our own polls
    ever were, its copy may be too.
    """
    period_ns = S // 4

    async def story(site: Site) -> tuple[list[Poll], int, int]:
        polls = [await site.until_read() for _ in range(3)]
        began = time.monotonic_ns()
        send_frames(ready, "eth2", 2_000, 1_000)
        ended = time.monotonic_ns()
        while polls[-1].first_sent_ns < ended + 2 * REFRESH_NS:
            await asyncio.sleep(period_ns / S)
            polls.append(await site.until_read())
        return polls, began, ended

    polls, began, ended = run(ready, story)
    starts = [poll.first_sent_ns for poll in polls]
    late_ns = max(after - before - period_ns for before, after in itertools.pairwise(starts[3:]))
    samples = [next(entry for entry in poll.samples if entry.port == "eth2") for poll in polls]
    readings = judge(samples).readings(Direction.EGRESS)
    base = readings[0].bytes
    assert {reading.epoch for reading in readings} == {0}
    for reading in readings:
        assert reading.bytes in range(base, base + 2_000_001)
        if reading.latest_ns < began:
            assert reading.bytes == base
        if reading.earliest_ns - late_ns > ended:
            assert reading.bytes == base + 2_000_000


def test_the_datagrams_are_kept_as_they_came(ready: Any) -> None:
    async def story(site: Site) -> tuple[Poll, list[bytes]]:
        await site.until_read()
        site.proxy.sent.clear()
        return await site.switch.read_ports(PORTS), list(site.proxy.sent)

    poll, sent = run(ready, story)
    assert [exchange.datagram for exchange in poll.exchanges] == sent
    assert all(len(datagram) <= 1_400 for datagram in sent)
    assert decode(encode(poll)) == poll
    assert poll.samples[0].identity.engine_id == poll.agent.engine_id != ""
    assert poll.samples[0].engine_boots == poll.exchanges[0].engine_boots


def test_three_ports_take_two_questions_and_no_more(ready: Any) -> None:
    async def story(site: Site) -> tuple[int, Poll]:
        await site.until_read()
        site.proxy.requests.clear()
        poll = await site.switch.read_ports(PORTS)
        return len(site.proxy.requests), poll

    requests, poll = run(ready, story)
    assert len(poll.exchanges) == 2
    assert requests == sum(exchange.attempts for exchange in poll.exchanges)


@pytest.mark.parametrize("snmp_client", ["pysnmp"], indirect=True)
def test_knowledge_of_a_peer_outlasts_the_librarys_300_seconds(ready: Any) -> None:
    """Unhindered, pysnmp forgets boots, time and engine id 300 s after learning them: each poll costs double."""

    async def story(site: Site) -> tuple[int, Poll]:
        await site.until_read()
        for _ in range(1_300):
            site.stack.engine._SnmpEngine__receive_timer_tick_callback(0)
        site.proxy.requests.clear()
        poll = await site.switch.read_ports(PORTS)
        return len(site.proxy.requests), poll

    requests, poll = run(ready, story)
    assert requests == sum(exchange.attempts for exchange in poll.exchanges) == len(poll.exchanges)


def test_discovery_names_every_interface_and_what_it_is(ready: Any) -> None:
    async def story(site: Site) -> Discovery:
        await site.until_read()
        return await site.switch.discover()

    found = run(ready, story)
    assert found.complete, found.text
    agent = replace(found.poll.agent, management_if_index=_index(found.poll, "mgmt0"))
    kinds = {port: what.kind for port, what in classify(found.poll.ports, agent).items()}
    assert kinds["lo"] is PortKind.LOOPBACK
    assert kinds["br0"] is PortKind.BRIDGE
    assert kinds["mgmt0"] is PortKind.MANAGEMENT
    assert {kinds[port] for port in PORTS} == {PortKind.PHYSICAL}
    assert found.poll.agent.object_id == "1.3.6.1.4.1.8072.3.2.10"


def _index(poll: Poll, port: str) -> int:
    return next(entry.identity.if_index for entry in poll.samples if entry.port == port)


def test_the_management_port_is_the_one_that_holds_the_polled_address(ready: Any) -> None:
    async def main() -> Discovery:
        stack = SnmpStack(time.monotonic_ns)
        try:
            channel = AgentChannel(stack, "sw1", Endpoint("10.250.0.2"), USER, QUICK)
            device = Device(REFRESH_NS, Framing.L2_WITHOUT_FCS)
            return await SnmpSwitch("sw1", channel, device, time.monotonic_ns).discover()
        finally:
            await stack.close()

    with ready.inside():
        found = asyncio.run(main())
    kinds = classify(found.poll.ports, found.poll.agent)
    assert [port for port, what in kinds.items() if what.kind is PortKind.MANAGEMENT] == ["mgmt0"]


def test_the_agent_is_read_over_ipv6(ready: Any) -> None:
    async def main() -> Poll:
        stack = SnmpStack(time.monotonic_ns)
        try:
            channel = AgentChannel(stack, "sw1", Endpoint("::1"), USER, QUICK)
            device = Device(REFRESH_NS, Framing.L2_WITHOUT_FCS)
            return await SnmpSwitch("sw1", channel, device, time.monotonic_ns).read_ports(["eth1"])
        finally:
            await stack.close()

    with ready.inside():
        assert len(asyncio.run(main()).samples) == 1


def test_sha_512_and_aes_256(ready: Any) -> None:
    async def story(site: Site) -> Poll:
        return await site.switch.read_ports(PORTS)

    strong = replace(USER, user="weighbridge-strong", authentication=Authentication.SHA512, privacy=Privacy.AES256)
    assert not run(ready, story, strong).faults


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"authentication_phrase": "not the pass phrase"}, "authentication pass phrase"),
        ({"user": "nobody"}, "does not know this user"),
        ({"privacy_phrase": "not the pass phrase"}, "privacy pass phrase"),
        ({"authentication": Authentication.SHA512}, "authentication pass phrase"),
    ],
)
def test_wrong_credentials_are_denied_with_what_to_check(ready: Any, wrong: dict[str, Any], says: str) -> None:
    async def story(site: Site) -> Poll:
        return await site.switch.read_ports(PORTS)

    poll = run(ready, story, replace(USER, **wrong), QUICK)
    assert {fault.reason for fault in poll.faults} == {Missing.DENIED}
    assert says in poll.faults[0].text


def test_one_wrong_password_does_not_spoil_the_right_one(ready: Any) -> None:
    """The library keeps keys by user name; two devices may have one user with two pass phrases."""

    async def story(site: Site) -> tuple[Poll, Poll]:
        wrong = replace(USER, authentication_phrase="not the pass phrase")
        other = Site(site.stack, site.proxy, wrong, QUICK)
        other.channel.device = "sw2"
        good = await site.switch.read_ports(PORTS)
        return good, await other.switch.read_ports(PORTS)

    good, shared = run(ready, story)
    assert not good.faults
    assert shared.faults[0].reason is Missing.MALFORMED  # both claim one engine id
    assert "sw1" in shared.faults[0].text
    assert "own engine id" in shared.faults[0].text


def test_thirty_percent_loss_costs_time_and_no_truth(ready: Any) -> None:
    async def story(site: Site) -> list[Poll]:
        await site.until_read()
        site.proxy.lose_requests = 0.3
        return [await site.switch.read_ports(PORTS) for _ in range(12)]

    polls = run(ready, story, timing=Timing(timeout_ns=S // 5, attempts=3, deadline_ns=5 * S))
    assert any(len(poll.samples) == len(PORTS) for poll in polls)
    assert {fault.reason for poll in polls for fault in poll.faults} <= {Missing.TIMEOUT}
    retried = [exchange for poll in polls for exchange in poll.exchanges if exchange.attempts > 1]
    assert retried
    assert all(exchange.received_ns - exchange.first_sent_ns > S // 5 for exchange in retried)


def test_the_same_answer_three_times_and_late_counts_once(ready: Any) -> None:
    async def story(site: Site) -> list[Poll]:
        await site.until_read()
        site.proxy.answers = lambda _request, answer: [(0, answer), (0, answer), (0.01, answer)]
        return [await site.switch.read_ports(PORTS) for _ in range(5)]

    polls = run(ready, story)
    assert all(len(poll.samples) == 3 and len(poll.exchanges) == 2 for poll in polls)


def test_a_flipped_bit_is_never_a_value(ready: Any) -> None:
    generator = random.Random(7)

    async def story(site: Site) -> tuple[list[Poll], Poll]:
        good = await site.until_read()

        def flip(_request: bytes, answer: bytes) -> list[tuple[float, bytes]]:
            damaged = bytearray(answer)
            damaged[generator.randrange(len(damaged))] ^= 1 << generator.randrange(8)
            return [(0, bytes(damaged))]

        site.proxy.answers = flip
        damaged = [await site.switch.read_ports(["eth3"]) for _ in range(25)]
        site.proxy.answers = lambda _request, answer: [(0, answer)]
        assert (await site.until_read()).samples
        return damaged, good

    polls, _good = run(ready, story, timing=Timing(timeout_ns=S // 10, attempts=1, deadline_ns=5 * S))
    assert all(poll.faults for poll in polls)
    reasons = {fault.reason for poll in polls for fault in poll.faults}
    assert Missing.MALFORMED in reasons
    assert reasons <= {Missing.MALFORMED, Missing.TIMEOUT}


def test_an_answer_from_before_is_never_taken_again(ready: Any) -> None:
    async def story(site: Site) -> Poll:
        await site.until_read()
        old = site.proxy.sent[-1]
        site.proxy.answers = lambda _request, _answer: [(0, old)]
        return await site.switch.read_ports(PORTS)

    poll = run(ready, story, timing=Timing(timeout_ns=S // 5, attempts=2, deadline_ns=5 * S))
    assert {fault.reason for fault in poll.faults} == {Missing.TIMEOUT}


def test_an_answer_in_clear_text_to_a_protected_question_is_not_believed(ready: Any) -> None:
    """A forger who sees the message id can name it, but cannot authenticate: level noAuthNoPriv is refused."""

    async def story(site: Site) -> Poll:
        await site.until_read()
        forger = _Forger()
        site.proxy.answers = lambda request, answer: [(0, forger.forge(request, answer))]
        poll = await site.switch.read_ports(["eth1"])
        assert forger.forged
        return poll

    poll = run(ready, story, timing=Timing(timeout_ns=S // 4, attempts=1, deadline_ns=5 * S))
    assert poll.faults
    assert poll.faults[0].reason in (Missing.TIMEOUT, Missing.MALFORMED)


@pytest.mark.parametrize("engine_id", [b"", b"\x80", b"\x80\x00\x00\x01", b"\x80" * 33, b"\x80" * 200])
def test_an_impossible_engine_id_from_an_unauthenticated_discovery_is_survived(ready: Any, engine_id: bytes) -> None:
    async def story(site: Site) -> tuple[Poll, Poll]:
        site.proxy.answers = lambda _request, answer: [(0, _with_engine_id(answer, engine_id))]
        forged = await site.switch.read_ports(["eth1"])
        site.proxy.answers = lambda _request, answer: [(0, answer)]
        return forged, await site.until_read()

    forged, genuine = run(ready, story, timing=Timing(timeout_ns=S // 4, attempts=1, deadline_ns=5 * S))
    assert forged.faults[0].reason in (Missing.MALFORMED, Missing.TIMEOUT)
    assert genuine.samples


def _with_engine_id(report: bytes, engine_id: bytes) -> bytes:
    message, _ = decoder.decode(report, asn1Spec=SNMPv3Message())
    usm, _ = decoder.decode(bytes(message[2]), asn1Spec=UsmSecurityParameters())
    usm[0] = engine_id
    message[2] = encoder.encode(usm)
    return bytes(encoder.encode(message))


def test_a_forged_discovery_does_not_take_anothers_engine_id_away(ready: Any) -> None:
    """Only who authenticates with an engine id claims it."""

    async def story(site: Site) -> tuple[Poll, Poll]:
        thief = Site(site.stack, site.proxy, replace(USER, authentication_phrase="no such pass phrase"), QUICK)
        thief.channel.device = "sw0"
        denied = await thief.switch.read_ports(["eth1"])
        return denied, await site.switch.read_ports(["eth1"])

    denied, genuine = run(ready, story)
    assert denied.faults[0].reason is Missing.DENIED
    assert genuine.samples


class _Forger:
    """Makes an unprotected response with the header of the genuine one."""

    def __init__(self) -> None:
        self.forged = 0

    def forge(self, _request: bytes, answer: bytes) -> bytes:
        message, _ = decoder.decode(answer, asn1Spec=SNMPv3Message())
        usm, _ = decoder.decode(bytes(message[2]), asn1Spec=UsmSecurityParameters())
        usm[4] = usm[5] = b""
        pdu = v2c.GetResponsePDU()
        v2c.apiPDU.set_defaults(pdu)
        v2c.apiPDU.set_varbinds(pdu, [(SYS_UPTIME, rfc1902.TimeTicks(1))])
        forged = SNMPv3Message()
        forged[0] = message[0]
        forged[1] = message[1]
        forged[1][2] = b"\x00"
        forged[2] = encoder.encode(usm)
        scoped = forged.setComponentByPosition(3).getComponentByPosition(3)
        scoped = scoped.setComponentByPosition(0).getComponentByPosition(0)
        scoped.setComponentByPosition(0, usm[0])
        scoped.setComponentByPosition(1, b"")
        scoped.setComponentByPosition(2).getComponentByPosition(2).setComponentByType(
            pdu.tagSet, pdu, verifyConstraints=False, matchTags=False, matchConstraints=False
        )
        self.forged += 1
        return bytes(encoder.encode(forged))


def test_small_messages_are_agreed_on_and_cost_only_questions(ready: Any) -> None:
    """Case 11: a path of 484 octets; the agent is told, says too big, and less is asked for."""

    async def story(site: Site) -> Poll:
        await site.until_read()
        return await site.switch.read_ports(PORTS)

    poll = run(ready, story, message_octets=700)
    assert len(poll.samples) == 3
    assert all(len(exchange.datagram) <= 700 for exchange in poll.exchanges)
    assert poll.samples[0].switch_in.octets == ready.counters("eth1")["rx"]["bytes"]


def test_a_stopped_agent_is_a_timeout_and_collection_recovers_by_itself(ready: Any) -> None:
    async def story(site: Site) -> tuple[Poll, Poll, Poll]:
        before = await site.until_read()
        ready.signal(signal.SIGSTOP)
        try:
            stopped = await site.switch.read_ports(PORTS)
        finally:
            ready.signal(signal.SIGCONT)
        return before, stopped, await site.until_read()

    before, stopped, after = run(ready, story, timing=Timing(timeout_ns=S // 2, attempts=2, deadline_ns=5 * S))
    assert {fault.reason for fault in stopped.faults} == {Missing.TIMEOUT}
    assert len(judge([before.samples[0], after.samples[0]]).epochs) == 1


@pytest.mark.parametrize("snmp_client", ["direct"], indirect=True)
def test_the_framing_of_snmpd_is_learnt_from_frames_of_known_length(ready: Any) -> None:
    target = Target("sw1", Endpoint("127.0.0.1"), USER, Device(REFRESH_NS, Framing.L2_WITHOUT_FCS))
    told: list[str] = []

    def say(text: str) -> None:
        told.append(text)
        if text.startswith("send"):
            send_frames(ready, "eth2", 1_000, 1_000)

    with ready.inside():
        found = learn(target, "eth2", frames=1_000, frame_bytes=1_000, wait_ns=20 * S, say=say)
    assert found is not None, told
    assert (found.framing, found.direction, found.octets) == (Framing.L2_WITHOUT_FCS, Direction.EGRESS, 1_000_000)


# The tests below change the daemon; each leaves it running.


def test_restart_of_the_agent_is_seen_by_its_boots_and_polling_goes_on(ready: Any) -> None:
    """Case 16: the first message after it is refused as not in time window, and sent again with what was learnt."""

    async def story(site: Site) -> list[Poll]:
        polls = [await site.until_read()]
        ready.stop()
        ready.start()
        polls.append(await site.until_read())
        return polls

    before, after = run(ready, story, timing=QUICK)
    history = judge([before.samples[0], after.samples[0]])
    assert [epoch.reason for epoch in history.epochs][1] in (EpochReason.REBOOT, EpochReason.ENGINE_RESTARTED)
    assert after.samples[0].engine_boots == before.samples[0].engine_boots + 1
    assert after.agent.engine_id == before.agent.engine_id


@pytest.mark.parametrize("step_s", [1_000, -1_000])
def test_a_step_of_the_controllers_wall_clock_costs_no_answer(
    ready: Any, step_s: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case 16, NTP step of more than 150 s: reckoned on the wall clock, each answer would be out of its time window."""

    async def story(site: Site) -> Poll:
        await site.until_read()
        wall = time.time
        monkeypatch.setattr(time, "time", lambda: wall() + step_s)
        return await site.switch.read_ports(PORTS)

    poll = run(ready, story)
    assert not poll.faults
    assert {exchange.attempts for exchange in poll.exchanges} == {1}


@pytest.mark.parametrize("snmp_client", ["pysnmp"], indirect=True)
def test_an_agent_whose_engine_time_stands_still_is_refused_once_at_the_most(
    ready: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case 16, frozen engineTime: 200 s pass here and none there, so what it says leaves the window; not for ever."""

    async def story(site: Site) -> list[Poll]:
        await site.until_read()
        passed = time.monotonic
        monkeypatch.setattr("switch.engine.MonotonicSeconds.time", lambda: passed() + 200)
        return [await site.switch.read_ports(PORTS) for _ in range(3)]

    polls = run(ready, story)
    assert {fault.reason for fault in polls[0].faults} <= {Missing.MALFORMED}
    assert not polls[1].faults
    assert not polls[2].faults


def test_agent_with_a_new_engine_id_is_discovered_anew(ready: Any) -> None:
    async def story(site: Site) -> list[Poll]:
        polls = [await site.until_read()]
        ready.stop()
        ready.start("other state")
        polls.append(await site.until_read())
        ready.stop()
        ready.start()
        polls.append(await site.until_read())
        return polls

    first, other, back = run(ready, story, timing=QUICK)
    assert first.samples[0].identity.engine_id != other.samples[0].identity.engine_id
    assert back.samples[0].identity.engine_id == first.samples[0].identity.engine_id
    assert len(judge([poll.samples[0] for poll in (first, other, back)]).epochs) == 3


@pytest.mark.parametrize("snmp_client", ["direct"], indirect=True)
def test_interface_recreated_inside_one_refresh_is_a_new_epoch_without_a_rate(ready: Any) -> None:
    def moved(polls: list[Poll]) -> bool:
        return len({entry.identity.if_index for poll in polls for entry in poll.samples if entry.port == "eth1"}) > 1

    async def story(site: Site) -> list[Poll]:
        send_frames(ready, "eth1", 100, 1_514)
        await asyncio.sleep(REFRESH_NS / S)
        polls = [await site.until_read()]
        ready.inside_ip("link", "del", "eth1")
        ready.add_port(1)
        ends = time.monotonic() + 60
        while ends > time.monotonic() and not moved(polls):
            await asyncio.sleep(0.3)
            polls.append(await site.switch.read_ports(PORTS))
        return [
            *polls,
            await site.switch.read_ports(PORTS),
            await Site(site.stack, site.proxy, USER, QUICK).until_read(),
        ]

    polls = run(ready, story, timing=QUICK)
    samples: list[PortSample] = [entry for poll in polls for entry in poll.samples if entry.port == "eth1"]
    history = judge(samples)
    assert [epoch.reason for epoch in history.epochs] == [EpochReason.FIRST, EpochReason.BINDING_CHANGED]
    assert samples[0].identity.if_index != samples[-1].identity.if_index
    assert samples[-1].operational
    readings = history.readings(Direction.EGRESS)
    for earlier, later in itertools.pairwise(readings):
        assert earlier.epoch != later.epoch or later.bytes >= earlier.bytes
    assert all(fault.port == "eth1" or fault.reason is Missing.TIMEOUT for poll in polls for fault in poll.faults)


@pytest.mark.parametrize("snmp_client", ["direct"], indirect=True)
def test_a_port_that_goes_away_is_absent(ready: Any) -> None:
    def entry(poll: Poll) -> PortSample | PortFault:
        return next(entry for entry in poll.ports if entry.port == "eth3")

    def gone(poll: Poll) -> bool:
        found = entry(poll)
        return isinstance(found, PortFault) or found.operational is False

    async def story(site: Site) -> tuple[Poll, Poll]:
        await site.until_read()
        ready.inside_ip("link", "del", "eth3")
        without = await site.until(gone)
        ready.add_port(3)
        return without, await site.until_read()

    without, back = run(ready, story)
    found = entry(without)
    # The daemon keeps the row of a young interface, down.
    assert isinstance(found, PortSample) or found.reason is Missing.ABSENT
    assert len(back.samples) == 3


def test_silence_has_no_exception(ready: Any) -> None:
    async def story(site: Site) -> NoAnswerError:
        site.proxy.lose_requests = 1.0
        with pytest.raises(NoAnswerError) as caught:
            await site.channel.get([SYS_UPTIME])
        assert (await site.switch.read_ports(PORTS)).failure is not None
        return caught.value

    error = run(ready, story, timing=Timing(timeout_ns=S // 10, attempts=2, deadline_ns=S))
    assert error.reason is Missing.TIMEOUT
    assert "no answer" in error.text
