"""What 10,000 links cost in steady state: frames into the streaming evaluation, every window and ring full.

Measured in a process of its own: what it has grown by is the evaluation's memory. A frame a second and a link is the
usual rhythm; the time for one second of all links is the share of a core.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from controller.journal import Kind, NewEntry
from controller.rules.evaluator import Evaluator
from controller.rules.moved import Moved
from controller.rules.shapestream import EVERY_BINS, MEMORY_BINS, STEP_NS
from controller.rules_intake import Intake, places_of
from controller.rulesfile import load_rules
from controller.site import Dpu, Endpoint, Link, Node, Site, Uplink
from controller.site_build import build_from
from hil.bench.figure import Figure
from protos.reading import Direction
from protos.units import NS_PER_S
from protos.v1 import frame_pb2, reading_pb2

LINKS = 10_000
SECONDS = 20
BEGIN_NS = 29_933_340 * STEP_NS
"""A minute's beginning."""
_SITE = b"""
version: 1
site: fleet
controller: {journal: j.db, ca: ca.pem, certificate: c.pem, key: c.key}
pods: [{name: pod, nodes: [n]}]
nodes:
- name: n
  dpus: [{name: d, agent: "192.0.2.1:1", uplinks: [{name: p0, host_port: h, line_rate: unlimited, mtu: 1500}]}]
links: [{name: n/p0, dpu: d, uplink: p0, switch: s, port: e}]
switches:
- name: s
  address: "192.0.2.2:161"
  snmp: {version: 3, user: u, auth: sha256, auth_key_file: a, privacy: aes128, privacy_key_file: p}
  refresh: 3s
  framing: l2_without_fcs
limits: []
"""


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds of processor time and bytes."""

    frame_s: float
    evaluation_s: float
    look_s: float
    together_s: float
    memory_bytes: int


def figures() -> Iterator[Figure]:
    """Yield memory and processor time."""
    with ProcessPoolExecutor(1) as alone:
        cost = alone.submit(_measure).result()
    name = f"rules.links_{LINKS}"
    note = f"{LINKS} links, default rules, two days of minutes both ways, all of it in use"
    yield Figure(
        f"{name}.memory", cost.memory_bytes, "B", note=f"{note}; {cost.memory_bytes / LINKS / 1e3:.1f} kB a link"
    )
    yield Figure(
        f"{name}.rules_share_of_a_core",
        round(cost.evaluation_s, 3),
        "1",
        note="sums and rules, a frame a second a link",
    )
    yield Figure(
        f"{name}.frames_share_of_a_core",
        round(cost.frame_s, 3),
        "1",
        note="reading those frames and placing them, beside it",
    )
    looks = cost.look_s * LINKS / (EVERY_BINS * STEP_NS / NS_PER_S)
    note = f"detectors, each link every half hour; {cost.look_s * 1e3:.2f} ms a look"
    yield Figure(f"{name}.detectors_share_of_a_core", round(looks, 3), "1", note=note)
    yield Figure(
        f"{name}.together",
        round(cost.together_s, 2),
        "s",
        note="links against links, every half hour, a thousand of them busy",
    )
    total = cost.evaluation_s + cost.frame_s + looks + cost.together_s / (EVERY_BINS * STEP_NS / NS_PER_S)
    yield Figure(f"{name}.share_of_a_core", round(total, 3), "1", 1.0, note="all of it: one core keeps up")


def _fleet() -> Site:
    """Return a site of so many nodes with a link each."""
    pattern = build_from(_SITE, Path("site.yaml"))
    uplink = Uplink("p0", "h", None, None, 1500)
    names = [f"n{number}" for number in range(LINKS)]
    nodes = tuple(
        Node(name, f"pod{at % 100}", None, (Dpu(f"{name}-d", name, Endpoint("192.0.2.1", 1 + at), None, (uplink,)),))
        for at, name in enumerate(names)
    )
    links = tuple(
        Link(f"{node.name}/p0", node.name, node.pod, f"{node.name}-d", uplink, "s", node.name) for node in nodes
    )
    return Site(
        pattern.path,
        pattern.content,
        pattern.name,
        pattern.controller,
        pattern.pods,
        nodes,
        links,
        pattern.switches,
        pattern.collection,
        (),
        pattern.assumptions,
    )


def _measure() -> Cost:
    site = _fleet()
    rules = load_rules(None)
    before = _resident()
    evaluator = Evaluator(rules, places_of(site))
    intake = Intake(site, evaluator)
    _fill(evaluator, site)
    # Frames as agents send them, the same for every agent but for its name.
    at = BEGIN_NS + STEP_NS
    for link in site.links:
        intake.take(NewEntry(Kind.CLOCK, link.dpu, at, b'{"t1":"0","t2":"0","t3":"0","t4":"0","boot_id":"b"}'))
        intake.take(_frame(link.dpu, 1, at))
    seconds = [
        [_frame(link.dpu, 2 + number, at + (1 + number) * NS_PER_S) for link in site.links] for number in range(SECONDS)
    ]
    begin = time.process_time()
    for frames in seconds:
        for frame in frames:
            intake.take(frame)
    whole_s = (time.process_time() - begin) / SECONDS
    grown = _resident() - before
    until = at + (1 + SECONDS) * NS_PER_S
    moved = [
        [
            Moved(link.name, side, until + n * NS_PER_S, until + (n + 1) * NS_PER_S, 50_000, 50)
            for link in site.links
            for side in Direction
        ]
        for n in range(SECONDS)
    ]
    begin = time.process_time()
    for each in moved:
        evaluator.feed_rules(each)
    evaluation_s = (time.process_time() - begin) / SECONDS
    shapes = evaluator._shapes  # noqa: SLF001  what no caller needs alone
    assert shapes is not None  # noqa: S101  it was asked for
    sample = [link.name for link in site.links[:: LINKS // 500]]
    end = (until - 1) // STEP_NS
    begin = time.process_time()
    for name in sample:
        list(shapes._look(name, end))  # noqa: SLF001
    look_s = (time.process_time() - begin) / len(sample)
    shapes._reached = end - EVERY_BINS  # noqa: SLF001
    begin = time.process_time()
    list(shapes._reach(end // EVERY_BINS * EVERY_BINS))  # noqa: SLF001
    return Cost(max(0.0, whole_s - evaluation_s), evaluation_s, look_s, time.process_time() - begin, grown)


def _fill(evaluator: Evaluator, site: Site) -> None:
    """Two days of minutes in both directions; a tenth of the links has bursts."""
    rng = np.random.default_rng(1)
    first = BEGIN_NS - MEMORY_BINS * STEP_NS
    shapes = evaluator._shapes  # noqa: SLF001  two days of 10,000 links, fed one by one, would take an hour
    assert shapes is not None  # noqa: S101
    for at, link in enumerate(site.links):
        for side in Direction:
            list(shapes.feed(Moved(link.name, side, first, first + STEP_NS, 60_000)))
            ring = shapes._sides[link.name][side]  # noqa: SLF001
            rates = rng.gamma(4.0, 5_000.0, MEMORY_BINS)
            if at % 10 == 0:
                rates[rng.random(MEMORY_BINS) < 0.02] += rng.gamma(2.0, 1e6)
            ring._rates[:] = rates  # noqa: SLF001
            ring.newest = BEGIN_NS // STEP_NS


def _frame(agent: str, number: int, at_ns: int) -> NewEntry:
    counted = reading_pb2.Counters(bytes=50_000 * number, packets=50 * number)
    ports = [
        reading_pb2.PortReading(
            port=port,
            role=role,
            source="netlink-stats64",
            framing=reading_pb2.FRAMING_L2_WITHOUT_FCS,
            epoch=1,
            earliest_ns=at_ns,
            latest_ns=at_ns,
            egress=counted,
            ingress=counted,
        )
        for port, role in (("h", reading_pb2.PORT_ROLE_HOST_PORT), ("p0", reading_pb2.PORT_ROLE_UPLINK))
    ]
    clock = frame_pb2.ClockStamp(boot_id="b", monotonic_ns=at_ns)
    frame = frame_pb2.Frame(version=1, agent=agent, sequence=number, clock=clock, ports=ports)
    raw = frame_pb2.SignedFrame(body=frame.SerializeToString(), signature=bytes(64)).SerializeToString()
    return NewEntry(Kind.FRAME, agent, at_ns, raw)


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
