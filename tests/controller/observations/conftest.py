"""A site whose truth is known: every byte of it, when each observer counted it, and what the journal got of that.

Time here is true time on the controller's timeline. Agents' clocks are offset and drift, networks delay and are cut,
the switch serves old copies, the controller stops and starts; what of it is honest and what is not is up to a test.
"""

from __future__ import annotations

import json
import random
from bisect import bisect_right
from collections import Counter as Counts
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path

import pytest

from controller.collect.attempts import Look, LookFailed, Reason, attempt_entry
from controller.journal import Journal, JsonValue, Kind, NewEntry
from controller.site import Site, loads
from protos.buckets import Bucket, Totals, pack
from protos.reading import Direction, Framing, Missing
from protos.v1 import frame_pb2, meter_pb2, reading_pb2
from protos.wire import totals_message
from switch.ports import Agent, Poll, PortCounters, PortFault, PortIdentity, PortSample
from switch.record import encode

MS, S = 1_000_000, 1_000_000_000
START = 1_800_000_000 * S
REFRESH = 3_500 * MS

SITE = """
version: 1
site: demo
controller: {journal: journal.db, ca: pki/ca.pem, certificate: pki/controller.pem, key: pki/controller.key}
pods: [{name: pod-a, nodes: [node1]}, {name: pod-b, nodes: [node2]}]
nodes:
  - name: node1
    host: {exporter: "http://10.250.0.31:9100/metrics"}
    dpus:
      - name: node1-dpu0
        agent: "10.250.0.11:7443"
        uplinks: [{name: p0, host_port: pf0hpf, host_interface: eth0, line_rate: 10Gbit/s, mtu: 1500}]
  - name: node2
    host: {exporter: "http://10.250.0.32:9100/metrics"}
    dpus:
      - name: node2-dpu0
        agent: "10.250.0.12:7443"
        uplinks: [{name: p0, host_port: pf0hpf, host_interface: eth0, line_rate: 10Gbit/s, mtu: 1500}]
links:
  - {name: node1/p0, dpu: node1-dpu0, uplink: p0, switch: sw1, port: eth1}
  - {name: node2/p0, dpu: node2-dpu0, uplink: p0, switch: sw1, port: eth2}
switches:
  - name: sw1
    address: "10.250.0.2:161"
    snmp: {version: 3, user: weighbridge, auth: sha256, auth_key_file: s/a, privacy: aes128, privacy_key_file: s/p}
    refresh: 3.5s
    framing: l2_without_fcs
    other_ports: [{port: eth5, role: front-end}]
collection: {poll_interval: 1s, scrape_interval: 1s, clock_interval: 1s}
limits: [{scope: node, window: 10s, bytes: 10MB}]
assumptions:
  in_flight: 64kB
  late_completion: 0B
  dpu_own: 0B/s
  control: 0B/s
  largest_frame: 1514B
  required_coverage: 0.95
  largest_gap: 6s
  liars: 1
  clock_drift: 1000ppm
"""


@dataclass
class Counter:
    """A true counter: what had been counted when, in frames of one size."""

    times: list[int]
    frame_bytes: int = 1000
    base: int = 0

    def at(self, ns: int) -> int:
        """Bytes counted by then."""
        return self.base + self.frame_bytes * bisect_right(self.times, ns)

    def packets(self, ns: int) -> int:
        return bisect_right(self.times, ns)


@dataclass
class SimulatedNode:
    """One node's traffic: each observer counts a frame a little after the one before it."""

    name: str
    port: str
    sent: list[int]
    received: list[int]
    offset_ns: int
    drift_ppm: int
    hop_ns: int = 2_000
    boot_id: str = "boot-1"
    _counters: dict[tuple[str, Direction], Counter] = field(default_factory=dict)

    def counter(self, observer: str, direction: Direction) -> Counter:
        key = (observer, direction)
        if key not in self._counters:
            self._counters[key] = self._count(observer, direction)
        return self._counters[key]

    def _count(self, observer: str, direction: Direction) -> Counter:
        order = ["host", "host_port", "uplink", "switch"]
        hops = order.index(observer) if direction is Direction.EGRESS else 3 - order.index(observer)
        times = self.sent if direction is Direction.EGRESS else self.received
        return Counter([t + hops * self.hop_ns for t in times], base=5_000 + 17 * order.index(observer))

    def agent_ns(self, true_ns: int) -> int:
        gone = true_ns - START
        return self.offset_ns + gone + gone * self.drift_ppm // 1_000_000


@dataclass
class SimulatedSite:
    """Builds a journal. Stretches are ``(from, to)`` in seconds after :data:`START`."""

    rng: random.Random
    seconds: int
    nodes: list[SimulatedNode]
    stopped: list[tuple[float, float]] = field(default_factory=list)
    killed: bool = False
    cut: list[tuple[float, float]] = field(default_factory=list)
    cut_agents: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    silent_agents: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    silent_switch: list[tuple[float, float]] = field(default_factory=list)
    copies_every_ns: int = 3 * S
    lost_port: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    undeclared: dict[str, Counter] = field(default_factory=dict)
    claim: Callable[[str, int], int] = lambda _, value: value
    metered: bool = False
    meter_trouble: Callable[[str, int, meter_pb2.MeterReading], None] = lambda *_: None
    entries: list[tuple[int, NewEntry]] = field(default_factory=list)

    # ------------------------------------------------------------ building

    def build(self, path: Path) -> Journal:
        self._add(NewEntry(Kind.SITE, "demo", START, SITE.encode()))
        self._runs()
        for node in self.nodes:
            self._clocks(node)
            self._frames(node)
            self._scrapes(node)
        self._polls()
        self.entries.sort(key=lambda pair: pair[0])
        return Journal.create(path, *(entry for _, entry in self.entries))

    def _add(self, entry: NewEntry) -> None:
        self.entries.append((entry.recorded_ns, entry))

    def _runs(self) -> None:
        edges = [0.0, *(edge for stretch in self.stopped for edge in stretch), float(self.seconds)]
        for number, (start, stop) in enumerate(zip(edges[::2], edges[1::2], strict=True)):
            for kind, at in ((Kind.RUN_START, start), (Kind.RUN_STOP, stop)):
                if kind is Kind.RUN_STOP and self.killed:
                    continue
                body = {"run_id": f"run-{number}", "version": "0", "pid": 1, "reason": "test"}
                self._add(NewEntry(kind, "controller", START + int(at * S), json.dumps(body).encode()))

    def _ticks(self, period_ns: int = S) -> Iterator[int]:
        phase = self.rng.randrange(period_ns)
        yield from range(START + phase, START + self.seconds * S, period_ns)

    @staticmethod
    def _in(true_ns: int, stretches: list[tuple[float, float]]) -> bool:
        return any(START + a * S <= true_ns < START + b * S for a, b in stretches)

    def _reached(self, true_ns: int, source: str) -> bool:
        cut = [*self.cut, *self.cut_agents.get(source, [])]
        return not self._in(true_ns, cut) and not self._in(true_ns, self.stopped)

    def _delay(self) -> int:
        return int(self.rng.expovariate(1 / (2 * MS)))

    def _attempt(self, source: str, look: Look, reason: Reason, at: int) -> None:
        if not self._in(at, self.stopped):
            self._add(
                attempt_entry(
                    LookFailed(look, reason, "no answer"), source=source, first_sent_ns=at, gave_up_ns=at + S // 2
                )
            )

    def _clocks(self, node: SimulatedNode) -> None:
        source = f"{node.name}-dpu0"
        for t1 in self._ticks():
            if not self._reached(t1, source):
                self._attempt(source, Look.CLOCK, Reason.UNREACHABLE, t1)
                continue
            t2 = t1 + self._delay()
            t3 = t2 + 20_000
            t4 = t3 + self._delay()
            stamps = {"t1": t1, "t2": node.agent_ns(t2), "t3": node.agent_ns(t3), "t4": t4}
            body = {key: str(value) for key, value in stamps.items()}
            body |= {
                "boot_id": node.boot_id,
                "monotonic_raw_ns": str(node.agent_ns(t3)),
                "wall_ns": "0",
                "timeline": "c",
            }
            self._add(NewEntry(Kind.CLOCK, source, t4, json.dumps(body).encode()))

    def _frames(self, node: SimulatedNode) -> None:
        source = f"{node.name}-dpu0"
        sequence = last_arrival = 0
        told = dict.fromkeys(("pf0hpf", "p0"), node.agent_ns(START) // MS)
        for tick in self._ticks():
            at = tick + self.rng.randrange(50 * MS)
            if self._in(at, self.silent_agents.get(source, [])):
                continue
            sequence += 1
            ports = []
            for port, role, observer in (
                ("pf0hpf", "PORT_ROLE_HOST_PORT", "host_port"),
                ("p0", "PORT_ROLE_UPLINK", "uplink"),
            ):
                read = at + self.rng.randrange(200_000)
                message = reading_pb2.PortReading(
                    port=port, role=role, source="netlink", framing="FRAMING_L2_WITHOUT_FCS", epoch=1,
                    epoch_reason="first-reading",
                    earliest_ns=node.agent_ns(read - 50_000), latest_ns=node.agent_ns(read + 50_000), ifindex=2,
                )  # fmt: skip
                for direction, counters in (
                    (Direction.EGRESS, message.egress), (Direction.INGRESS, message.ingress)
                ):  # fmt: skip
                    true = node.counter(observer, direction)
                    counters.bytes, counters.packets, counters.dropped_packets = true.at(read), true.packets(read), 0
                ports.append(message)
            done = at + MS
            frame = frame_pb2.Frame(
                version=1, agent=source, sequence=sequence, ports=ports, agent_start=1,
                clock=frame_pb2.ClockStamp(boot_id=node.boot_id, monotonic_ns=node.agent_ns(done)),
            )  # fmt: skip
            if self.metered:
                for port, counted in self._meters(node, told, node.agent_ns(done) // MS - 3).items():
                    told[port] = counted.first_bucket + counted.bucket_count
                    self.meter_trouble(node.name, sequence, counted)
                    frame.meters.append(counted)
            body = frame_pb2.SignedFrame(body=frame.SerializeToString(), signature=b"-").SerializeToString()
            arrives = done + self._delay()
            while not self._reached(arrives, source):
                arrives += S // 10
            arrives = last_arrival = max(arrives, last_arrival + 1_000)
            if arrives < START + self.seconds * S:
                self._add(NewEntry(Kind.FRAME, source, arrives, body, {"received_ns": str(arrives)}, sequence))

    @staticmethod
    def _meters(node: SimulatedNode, told: dict[str, int], end: int) -> dict[str, meter_pb2.MeterReading]:
        """What the meters tell: each port's buckets from where it was told of up to ``end``."""
        found = {}
        for port, observer, direction in (
            ("pf0hpf", "host_port", Direction.EGRESS), ("p0", "uplink", Direction.INGRESS)
        ):  # fmt: skip
            counter = node.counter(observer, direction)
            size, first = counter.frame_bytes, told[port]
            buckets = Counts(node.agent_ns(at) // MS for at in counter.times)
            held = sorted((index, frames) for index, frames in buckets.items() if first <= index < end)
            before = sum(frames for index, frames in buckets.items() if index < first)
            moved = sum(frames for _, frames in held)
            found[port] = meter_pb2.MeterReading(
                port=port, since_ns=1, epoch=1, width_ns=MS, first_bucket=first, bucket_count=end - first,
                start=totals_message(Totals(before * size, before * size, before)),
                moved=totals_message(Totals(moved * size, moved * size, moved)),
                series=pack(first, [Bucket(index, Totals(n * size, n * size, n)) for index, n in held]),
                audit=meter_pb2.MeterAudit(),
            )  # fmt: skip
            found[port].audit.SetInParent()
        return found

    def _scrapes(self, node: SimulatedNode) -> None:
        for sent in self._ticks():
            if not self._reached(sent, node.name):
                self._attempt(node.name, Look.SCRAPE, Reason.UNREACHABLE, sent)
                continue
            read = sent + self._delay()
            received = read + self._delay()
            lines = ["node_boot_time_seconds 1.7e+09"]
            for word, direction in (("transmit", Direction.EGRESS), ("receive", Direction.INGRESS)):
                true = node.counter("host", direction)
                for unit, counted in (("bytes", true.at(read)), ("packets", true.packets(read))):
                    told = self.claim(node.name, counted) if direction is Direction.EGRESS else counted
                    lines.append(f'node_network_{word}_{unit}_total{{device="eth0"}} {told}')
            meta: dict[str, JsonValue] = {"first_sent_ns": str(sent), "received_ns": str(received), "status": 200}
            self._add(NewEntry(Kind.SCRAPE, node.name, received, ("\n".join(lines) + "\n").encode(), meta))

    def _polls(self) -> None:
        every = self.copies_every_ns
        phase = self.rng.randrange(every)
        copied_at = [START - phase + i * every for i in range(self.seconds * S // every + 3)]
        for number, sent in enumerate(self._ticks()):
            if not self._reached(sent, "sw1") or self._in(sent, self.silent_switch):
                self._attempt("sw1", Look.POLL, Reason.TIMEOUT, sent)
                continue
            served = sent + self._delay()
            received = served + self._delay()
            copy = copied_at[bisect_right(copied_at, served) - 1]
            ports: list[PortSample | PortFault] = []
            for node in self.nodes:
                if self._in(sent, self.lost_port.get(node.port, [])):
                    text = f"port {node.port!r}: none of the device's interfaces bears this name"
                    ports.append(PortFault(node.port, Missing.ABSENT, text, sent, received))
                    continue
                egress, ingress = (node.counter("switch", direction) for direction in Direction)
                ports.append(self._sample(node.port, (sent, copy, served, received), egress, ingress))
            for port, counter in {"eth5": Counter([]), **self.undeclared}.items():
                ports.append(self._sample(port, (sent, copy, served, received), counter, Counter([])))
            poll = Poll("sw1", sent, received, Agent("80", "sw1", "1.3.6.1.4.1.8072.3.2.10", 99), tuple(ports))
            meta: dict[str, JsonValue] = {"first_sent_ns": str(sent), "received_ns": str(received)}
            if number % 10 == 1:
                meta |= {"discovery": True, "complete": True, "text": ""}
            # A poll is recorded a moment after its last answer.
            self._add(NewEntry(Kind.POLL, "sw1", received + 2 * MS, encode(poll), meta))

    @staticmethod
    def _sample(port: str, times: tuple[int, int, int, int], into: Counter, out: Counter) -> PortSample:
        sent, copy, served, received = times

        def side(counter: Counter) -> PortCounters:
            return PortCounters(counter.at(copy), counter.packets(copy), 0, 0, 0, 0)

        index = int(port.removeprefix("eth"))
        uptime = (served - START) // 10_000_000 + 1_000_000
        return PortSample(
            port=port, identity=PortIdentity("80", port, index), first_sent_ns=sent, received_ns=received,
            refresh_ns=REFRESH, framing=Framing.L2_WITHOUT_FCS, alias="", if_type=6,
            physical_address=f"0200000000{index:02x}", oper_status=1, high_speed_mbit_per_s=10_000,
            sys_uptime_ticks=uptime, engine_boots=1, engine_time_s=uptime // 100, discontinuity_ticks=0,
            last_change_ticks=0, switch_in=side(into), switch_out=side(out),
        )  # fmt: skip


def frames_over(rng: random.Random, seconds: int, rate_per_s: float) -> list[int]:
    """Times at which frames are sent: Poisson, with idle stretches."""
    times, at = [], float(START)
    gaps = accumulate(rng.expovariate(rate_per_s) for _ in range(int(seconds * rate_per_s)))
    for gap in gaps:
        at = START + gap * S
        if int(gap) % 7 != 3:
            times.append(int(at))
    return times


@pytest.fixture
def make_site() -> Callable[..., SimulatedSite]:
    """Return a function that makes a site of two honest nodes: ``make_site(seed, seconds=60)``."""

    def make(seed: int, seconds: int = 60) -> SimulatedSite:
        rng = random.Random(seed)
        nodes = [
            SimulatedNode(
                name=f"node{number}",
                port=f"eth{number}",
                sent=frames_over(rng, seconds, 50),
                received=frames_over(rng, seconds, 50),
                offset_ns=rng.randrange(10**15),
                drift_ppm=rng.randint(-450, 450),
            )
            for number in (1, 2)
        ]
        return SimulatedSite(rng, seconds, nodes)

    return make


@pytest.fixture(scope="session")
def site() -> Site:
    return loads(SITE.encode(), Path("site.yaml"))
