"""Two agents for tests over UDP: one of ours that misbehaves on order, and a real snmpd in its own namespace.

``fake_agent`` serves SNMPv2c on 127.0.0.1 and bends its answers. ``snmpd`` is net-snmp's daemon behind SNMPv3;
``Proxy`` stands between it and the reader and loses, delays, repeats and forges datagrams.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from pyasn1.codec.ber import decoder, encoder
from pyroute2 import netns
from pysnmp.proto import rfc1902
from pysnmp.proto.api import v2c

from switch.channel import AgentChannel
from switch.direct import DirectChannel, DirectStack
from switch.engine import SnmpStack
from switch.exchange import Exchange, ValueType, VarBind
from switch.recorded import RecordedAgent, RecordedPort, device_rows

CLIENTS = {"pysnmp": (SnmpStack, AgentChannel), "direct": (DirectStack, DirectChannel)}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Whatever a module shows of an agent over UDP, it shows with each client; but where a test names its own."""
    named = [mark for mark in metafunc.definition.iter_markers("parametrize") if mark.args[0] == "snmp_client"]
    if hasattr(metafunc.module, "SnmpStack"):
        if "snmp_client" not in metafunc.fixturenames:
            metafunc.fixturenames.append("snmp_client")
        if not named:
            metafunc.parametrize("snmp_client", CLIENTS, indirect=True)


@pytest.fixture
def snmp_client(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The client that the test's module uses now: its two names stand for it."""
    stack, channel = CLIENTS[request.param]
    monkeypatch.setattr(request.module, "SnmpStack", stack)
    monkeypatch.setattr(request.module, "AgentChannel", channel)
    return str(request.param)


Reply = tuple[float, bytes]
"""A datagram and how long it waits, in seconds."""
Bend = Callable[[bytes, bytes], Sequence[Reply]]
"""From the request and the right answer to what is sent instead."""

_VALUES: dict[ValueType, Callable[[Any], Any]] = {
    ValueType.INTEGER: rfc1902.Integer32,
    ValueType.COUNTER32: rfc1902.Counter32,
    ValueType.GAUGE32: rfc1902.Gauge32,
    ValueType.TIMETICKS: rfc1902.TimeTicks,
    ValueType.COUNTER64: rfc1902.Counter64,
    ValueType.OCTETS: rfc1902.OctetString,
    ValueType.OID: rfc1902.ObjectIdentifier,
    ValueType.NO_SUCH_OBJECT: lambda _: v2c.NoSuchObject(""),
    ValueType.NO_SUCH_INSTANCE: lambda _: v2c.NoSuchInstance(""),
    ValueType.END_OF_MIB_VIEW: lambda _: v2c.EndOfMibView(""),
}


class FakeAgent(asyncio.DatagramProtocol):
    """An SNMPv2c agent over UDP whose answers pass through ``bend``."""

    def __init__(self, rows: Sequence[VarBind]) -> None:
        self.inner = RecordedAgent(rows, time.monotonic_ns)
        self.bend: Bend = lambda _request, answer: [(0, answer)]
        self.requests: list[bytes] = []
        self.port = 0
        self._transport: asyncio.DatagramTransport | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.DatagramTransport", transport)
        self.port = transport.get_extra_info("sockname")[1]

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        self.requests.append(data)
        task = asyncio.get_running_loop().create_task(self._answer(data, addr))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, data: bytes, address: tuple[str, int]) -> None:
        message, _ = decoder.decode(data, asn1Spec=v2c.Message())
        request = v2c.apiMessage.get_pdu(message)
        oids = [name.asTuple() for name, _ in v2c.apiPDU.get_varbinds(request)]
        if request.isSameTypeWith(v2c.GetBulkRequestPDU()):
            exchange = await self.inner.get_bulk(oids, int(v2c.apiBulkPDU.get_max_repetitions(request)))
        else:
            exchange = await self.inner.get(oids)
        for delay, datagram in self.bend(data, encoder.encode(_response(message, request, exchange))):
            await asyncio.sleep(delay)
            if self._transport is not None and not self._transport.is_closing():
                self._transport.sendto(datagram, address)

    async def stop(self) -> None:
        for task in tuple(self._tasks):
            task.cancel()
        if self._transport is not None:
            self._transport.close()
        await asyncio.sleep(0)


def _response(message: Any, request: Any, exchange: Exchange) -> Any:
    answer = v2c.apiMessage.get_response(message)
    pdu = v2c.apiMessage.get_pdu(answer)
    bindings = [(binding.oid, _VALUES[binding.type](binding.value)) for binding in exchange.varbinds]
    if exchange.error_status:
        bindings = v2c.apiPDU.get_varbinds(request)
    v2c.apiPDU.set_varbinds(pdu, bindings)
    v2c.apiPDU.set_error_status(pdu, exchange.error_status)
    return answer


@contextlib.asynccontextmanager
async def _fake_agent(*ports: RecordedPort) -> AsyncIterator[FakeAgent]:
    rows = [*device_rows(100_000), *(row for port in ports for row in port.rows())]
    loop = asyncio.get_running_loop()
    _, agent = await loop.create_datagram_endpoint(lambda: FakeAgent(rows), local_addr=("127.0.0.1", 0))
    try:
        yield agent
    finally:
        await agent.stop()


@pytest.fixture
def fake_agent() -> Callable[..., contextlib.AbstractAsyncContextManager[FakeAgent]]:
    return _fake_agent


class Proxy(asyncio.DatagramProtocol):
    """Stands between the reader and an agent; ``answers`` bends what the agent says."""

    def __init__(self, agent: tuple[str, int]) -> None:
        self._agent = agent
        self.answers: Bend = lambda _request, answer: [(0, answer)]
        self.lose_requests = 0.0
        self.random = random.Random(1)
        self.requests: list[bytes] = []
        self.sent: list[bytes] = []
        self.port = 0
        self._transport: asyncio.DatagramTransport | None = None
        self._client: tuple[str, int] = ("", 0)
        self._tasks: set[asyncio.Task[None]] = set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.DatagramTransport", transport)
        self.port = transport.get_extra_info("sockname")[1]

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        assert self._transport is not None
        if addr != self._agent:
            self._client = addr
            self.requests.append(data)
            if self.random.random() >= self.lose_requests:
                self._transport.sendto(data, self._agent)
            return
        task = asyncio.get_running_loop().create_task(self._answer(data))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, data: bytes) -> None:
        for delay, datagram in self.answers(self.requests[-1], data):
            await asyncio.sleep(delay)
            if self._transport is not None and not self._transport.is_closing():
                self.sent.append(datagram)
                self._transport.sendto(datagram, self._client)

    async def stop(self) -> None:
        for task in tuple(self._tasks):
            task.cancel()
        if self._transport is not None:
            self._transport.close()
        await asyncio.sleep(0)


USER, AUTHENTICATION, PRIVACY = "weighbridge", "correct horse battery", "staple mustard seeds"
STRONG_USER = "weighbridge-strong"
AGENT = ("127.0.0.1", 161)
NS_CACHE_TIMEOUT = "1.3.6.1.4.1.8072.1.5.3.1.2.1.3.6.1.2.1.2.2"
"""nsCacheTimeout of ifTable: the daemon's refresh period in seconds."""


class Snmpd:
    """A real snmpd in a network namespace with three switch ports on a bridge, and a host behind each."""

    def __init__(self, folder: Path) -> None:
        self.namespace = f"wbswitch{os.getpid()}"
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self.ip("netns", "add", self.namespace)
        self.inside_ip("link", "set", "lo", "up")
        self.inside_ip("link", "add", "br0", "type", "bridge", "mcast_snooping", "0")
        for number in (1, 2, 3):
            self.add_port(number)
        self.inside_ip("link", "set", "br0", "up")
        self.inside_ip("link", "add", "mgmt0", "type", "veth", "peer", "name", "far0")
        self.inside_ip("addr", "add", "10.250.0.2/24", "dev", "mgmt0")
        for name in ("mgmt0", "far0"):
            self.inside_ip("link", "set", name, "up")
        self.start()

    def ip(self, *arguments: str) -> str:
        done = subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)
        return done.stdout

    def inside_ip(self, *arguments: str) -> str:
        return self.ip("-n", self.namespace, *arguments)

    def add_port(self, number: int) -> None:
        self.inside_ip("link", "add", f"eth{number}", "type", "veth", "peer", "name", f"host{number}")
        for name in (f"eth{number}", f"host{number}"):
            self.inside_ip("link", "set", name, "addrgenmode", "none")
            self.inside_ip("link", "set", name, "up")
        self.inside_ip("link", "set", f"eth{number}", "master", "br0")

    def counters(self, port: str) -> dict[str, Any]:
        """What the kernel counts at a port, as ``ip`` tells it."""
        (link,) = json.loads(self.inside_ip("-s", "-j", "link", "show", "dev", port))
        found: dict[str, Any] = link["stats64"]
        return found

    def start(self, persistent: str = "state") -> None:
        (self._folder / persistent).mkdir(exist_ok=True)
        configuration = self._folder / "snmpd.conf"
        configuration.write_text(
            f"agentAddress udp:161,udp6:161\n"
            f'createUser {USER} SHA-256 "{AUTHENTICATION}" AES "{PRIVACY}"\n'
            f'createUser {STRONG_USER} SHA-512 "{AUTHENTICATION}" AES-256 "{PRIVACY}"\n'
            f"rouser {USER} authPriv\n"
            f"rouser {STRONG_USER} authPriv\n"
            "rwcommunity refresh 127.0.0.1\n"
        )
        environment = os.environ | {
            "MIBS": "",
            "SNMPCONFPATH": f"{self._folder}:{self._folder / persistent}",
            "SNMP_PERSISTENT_DIR": str(self._folder / persistent),
        }
        self._process = subprocess.Popen(
            [
                *("ip", "netns", "exec", self.namespace, "snmpd", "-f", "-m", ":"),
                *("-Lf", str(self._folder / "snmpd.log"), "-p", str(self._folder / "snmpd.pid")),
                *("-I", "-smux,mteTrigger,mteTriggerConf"),
            ],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

        self._refresh_every_second()

    def _refresh_every_second(self) -> None:
        """Let it copy the kernel's counters each second instead of every three: what is waited for comes sooner."""
        asked = ["ip", "netns", "exec", self.namespace, "snmpset", "-v2c", "-c", "refresh", "-t", "1", "-r", "0"]
        asked += ["-m", "", AGENT[0], NS_CACHE_TIMEOUT, "i", "1"]
        ends = time.monotonic() + 60
        while subprocess.run(asked, check=False, capture_output=True, env=os.environ | {"MIBS": ""}).returncode:
            assert time.monotonic() < ends, "snmpd does not answer"
            time.sleep(0.1)

    def stop(self) -> None:
        if self._process is not None:
            self.signal(signal.SIGCONT)
            self._process.terminate()
            self._process.wait(10)
            self._process = None

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def close(self) -> None:
        self.stop()
        self.ip("netns", "del", self.namespace)

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        """Sockets that this thread opens meanwhile are of the namespace."""
        with Path("/proc/self/ns/net").open("rb") as home:
            netns.setns(self.namespace)
            try:
                yield
            finally:
                netns.setns(home.fileno())

    @contextlib.asynccontextmanager
    async def proxy(self) -> AsyncIterator[Proxy]:
        loop = asyncio.get_running_loop()
        _, proxy = await loop.create_datagram_endpoint(lambda: Proxy(AGENT), local_addr=("127.0.0.1", 0))
        try:
            yield proxy
        finally:
            await proxy.stop()


@pytest.fixture(scope="module")
def snmpd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Snmpd]:
    daemon = Snmpd(tmp_path_factory.mktemp("snmpd"))
    try:
        yield daemon
    finally:
        daemon.close()
