"""The netlink source without a kernel: directions, and why there is no answer."""

from __future__ import annotations

import asyncio
import errno
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyroute2.netlink import NLM_F_REQUEST
from pyroute2.netlink.exceptions import NetlinkError
from pyroute2.netlink.rtnl import RTM_GETLINK

from dpu_agent import netlink
from dpu_agent.clock import ManualClock
from dpu_agent.config import PortConfig
from dpu_agent.counters import CounterValues
from protos.reading import Direction, Framing, Missing, Observer

_STATS = {
    "rx_bytes": 1000,
    "rx_packets": 10,
    "rx_dropped": 3,
    "rx_missed_errors": 2,
    "rx_errors": 4,
    "tx_bytes": 2000,
    "tx_packets": 20,
    "tx_dropped": 5,
    "tx_errors": 6,
}
_RECEIVED = CounterValues(1000, 10, 5, 4)
_SENT = CounterValues(2000, 20, 5, 6)


def test_what_the_host_port_receives_left_the_node() -> None:
    assert netlink.by_direction(_STATS, Observer.DPU_HOST_PORT) == {
        Direction.EGRESS: _RECEIVED,
        Direction.INGRESS: _SENT,
    }


def test_what_the_uplink_sends_left_the_node() -> None:
    assert netlink.by_direction(_STATS, Observer.DPU_UPLINK) == {Direction.EGRESS: _SENT, Direction.INGRESS: _RECEIVED}


class Link(dict[str, int]):
    """An answer as pyroute2 gives it."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(index=7)
        self._attributes = attributes

    def get_attr(self, name: str) -> Any:
        return self._attributes.get(name)


class Netlink:
    """Answers as told; time passes while it does."""

    def __init__(self, answer: Callable[[], Any]) -> None:
        self.answer, self.closed = answer, False
        self.asked: list[str] = []

    async def setup_endpoint(self) -> None:
        pass

    async def link(self, command: tuple[int, int], ifname: str) -> Any:
        assert command == (RTM_GETLINK, NLM_F_REQUEST)
        self.asked.append(ifname)
        answer = self.answer()
        if answer is None:
            await asyncio.sleep(10)
        return answer

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(10**9)


@pytest.fixture
def source(clock: ManualClock, tmp_path: Path) -> Iterator[netlink.NetlinkCounters]:
    made = netlink.NetlinkCounters(clock.monotonic_ns, tmp_path)
    yield made
    made.close()


def _install(source: netlink.NetlinkCounters, answer: Callable[[], Any]) -> Netlink:
    fake = Netlink(answer)
    source._netlink = fake
    return fake


def test_a_reading_lies_between_the_stamps_and_is_as_old_as_the_driver_may_make_it(
    source: netlink.NetlinkCounters, clock: ManualClock, tmp_path: Path
) -> None:
    def answer() -> list[Link]:
        clock.advance(5_000)
        return [Link(IFLA_STATS64=_STATS, IFLA_MTU=9000)]

    fake = _install(source, answer)
    (tmp_path / "p0").mkdir()
    (tmp_path / "p0" / "speed").write_text("10000\n")
    fresh, cached = source.read(
        [PortConfig("p0", Observer.DPU_UPLINK), PortConfig("pf0hpf", Observer.DPU_HOST_PORT, refresh_ns=700)]
    )
    assert fake.asked == ["p0", "pf0hpf"]
    assert (fresh.earliest_ns, fresh.latest_ns, fresh.ifindex) == (10**9, 10**9 + 5_000, 7)
    assert (cached.earliest_ns, cached.latest_ns) == (10**9 + 5_000 - 700, 10**9 + 10_000)
    assert (fresh.mtu_bytes, fresh.speed_bytes_per_s) == (9000, 1_250_000_000)
    assert cached.speed_bytes_per_s is None
    assert fresh.source.framing is Framing.L2_WITHOUT_FCS
    assert fresh.counters[Direction.EGRESS] == _SENT
    assert cached.counters[Direction.EGRESS] == _RECEIVED


@pytest.mark.parametrize("speed", ["-1\n", "", "fast\n"])
def test_a_speed_that_is_none_is_none(source: netlink.NetlinkCounters, tmp_path: Path, speed: str) -> None:
    _install(source, lambda: [Link(IFLA_STATS64=_STATS)])
    (tmp_path / "p0").mkdir()
    (tmp_path / "p0" / "speed").write_text(speed)
    (sample,) = source.read([PortConfig("p0", Observer.DPU_UPLINK)])
    assert sample.speed_bytes_per_s is None
    assert sample.missing is None


def _raiser(error: Exception) -> Callable[[], Any]:
    def answer() -> Any:
        raise error

    return answer


@pytest.mark.parametrize(
    ("answer", "missing"),
    [
        (_raiser(NetlinkError(errno.ENODEV)), Missing.ABSENT),
        (_raiser(NetlinkError(errno.EPERM)), Missing.DENIED),
        (_raiser(NetlinkError(errno.EOPNOTSUPP)), Missing.UNSUPPORTED),
        (_raiser(NetlinkError(errno.EINVAL)), Missing.MALFORMED),
        (_raiser(OSError(errno.EACCES, "denied")), Missing.DENIED),
        (_raiser(OSError(errno.ENOBUFS, "no room")), Missing.TIMEOUT),
        (list, Missing.MALFORMED),
        (lambda: [Link()], Missing.UNSUPPORTED),
        (lambda: None, Missing.TIMEOUT),
    ],
)
def test_no_answer_is_a_reason_and_never_zero(
    source: netlink.NetlinkCounters,
    answer: Callable[[], Any],
    missing: Missing,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(netlink, "REPLY_TIMEOUT_S", 0.02)
    fake = _install(source, answer)
    (sample,) = source.read([PortConfig("p0", Observer.DPU_UPLINK)])
    assert sample.missing is missing
    assert sample.counters == {}
    assert fake.closed == (missing is Missing.TIMEOUT or isinstance(_error(answer), OSError))


def _error(answer: Callable[[], Any]) -> Exception | None:
    try:
        answer()
    except (NetlinkError, OSError) as error:
        return error
    return None


_READ_FOR_LONG = """
import time
from dpu_agent.config import PortConfig
from dpu_agent.netlink import NetlinkCounters
from protos.reading import Observer

def resident_kb():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))

source = NetlinkCounters(time.monotonic_ns)
ports = [PortConfig("lo", Observer.DPU_HOST_PORT), PortConfig("lo", Observer.DPU_UPLINK)]
for _ in range(500):
    source.read(ports)
before = resident_kb()
for _ in range(2_000):
    source.read(ports)
print(resident_kb() - before)
source.close()
"""


@pytest.mark.loopback
@pytest.mark.slow
def test_reading_for_long_leaves_nothing_behind() -> None:
    """An agent runs for months. With the acknowledgement asked for, these reads left 6 MB in the library's queue."""
    grown_kb = int(subprocess.check_output([sys.executable, "-c", _READ_FOR_LONG], text=True, timeout=300))
    assert grown_kb < 3_000
