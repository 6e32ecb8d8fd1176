"""Sites to report on: readings simulated from a known flow, judged by the cross-check."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pytest

from controller.crosscheck.check import crosscheck
from controller.crosscheck.model import (
    Assumptions,
    CrossCheck,
    KnownWeight,
    Limit,
    LinkEvidence,
    Period,
    PortEvidence,
    Silence,
    SiteEvidence,
    Track,
)
from protos.reading import Direction, Observer, Reading

S = 1_000_000_000
START = 1_780_263_484 * S + 137_000_000
SECONDS = 120
PERIOD = Period(START, START + SECONDS * S)
LIMIT = Limit(window_ns=10 * S, bytes=10_000_000)
REFRESH = 3_500_000_000
ASSUMPTIONS = Assumptions(
    in_flight_bytes=64_000, largest_frame_bytes=1_514, required_coverage=0.95, largest_gap_ns=6 * S, liars=1
)

# (from second, to second, bytes per second)
Flow = Sequence[tuple[float, float, float]]
IDLE: Flow = ()
INFERENCE: Flow = [(5, 115, 41_000)]
REPLIES: Flow = [(5, 115, 18_000)]
TRAINING: Flow = [(40, 70, 21_300_000)]


FRAME = 900
"""Every frame of these sites has one size, so that bytes and packets agree."""


def carried(flow: Flow, at: float) -> int:
    """Frames of the flow until ``at`` seconds, with a little management chatter under it."""
    chatter = 90 * max(0.0, at + 30)
    return int((chatter + sum(max(0.0, min(at, end) - start) * rate for start, end, rate in flow)) / FRAME)


@dataclass
class Case:
    """One link and direction of a scenario, before it becomes evidence and result."""

    link: str
    node: str
    pod: str
    direction: Direction
    flow: Flow
    switch_port: str
    switch: str = "sw1"
    dpu: str = ""
    host_factor: float = 1.0
    holes: Mapping[Observer, Sequence[tuple[int, int, str]]] = field(default_factory=dict)


def readings(case: Case, observer: Observer, seed: int) -> tuple[Reading, ...]:
    rng = random.Random(f"{case.link} {case.direction.value} {observer.value} {seed}")
    phase = rng.random()
    taken = []
    refreshed = -5.0
    for tick in range(-5, SECONDS + 6):
        at = tick + phase
        if any(start <= at < end for start, end, _ in case.holes.get(observer, ())):
            continue
        at_ns = START + int(at * S)
        if observer is Observer.SWITCH:
            if at - refreshed >= 3:
                refreshed = at
            frames, earliest, latest = carried(case.flow, refreshed), at_ns - REFRESH, at_ns + 4_000_000
        elif observer is Observer.HOST:
            frames, earliest, latest = int(carried(case.flow, at) * case.host_factor), at_ns, at_ns + 9_000_000
        else:
            frames, earliest, latest = carried(case.flow, at), at_ns, at_ns + 400_000
        taken.append(Reading(earliest, latest, 7_000_200 + frames * FRAME, 7_778 + frames))
    return tuple(taken)


def track(case: Case, observer: Observer) -> Track:
    silences = tuple(
        Silence(START + start * S, START + end * S, who, f"no answer from {observer.value} for {end - start} s")
        for start, end, who in case.holes.get(observer, ())
    )
    return Track(
        observer=observer,
        readings=readings(case, observer, 1),
        line_rate_bytes_per_s=1_250_000_000 if observer in (Observer.SWITCH, Observer.DPU_UPLINK) else None,
        step_bytes=1_514,
        refresh_ns=REFRESH if observer is Observer.SWITCH else 0,
        clock_width_ns=400_000 if observer.trust_domain.value == "dpu" else 0,
        looked=silences,
    )


def port(switch: str, name: str, flow: Flow, *, declared: bool, operational: bool | None = True) -> PortEvidence:
    """A switch port by itself, as the switch counts it."""
    case = Case(f"{switch} {name}", "", "", Direction.EGRESS, flow, name, switch)
    return PortEvidence(switch, name, declared, operational, readings(case, Observer.SWITCH, 2))


def build(
    cases: Sequence[Case],
    *,
    site: str = "demo",
    ports: Sequence[PortEvidence] = (),
    weights: Sequence[KnownWeight] = (),
    inventory_checked: bool = True,
) -> SiteEvidence:
    """What the observers of a site say about :data:`PERIOD`."""
    cables = {(case.switch, case.switch_port): case.flow for case in cases}
    linked = [port(switch, name, flow, declared=True) for (switch, name), flow in sorted(cables.items())]
    return SiteEvidence(
        site=site,
        period=PERIOD,
        assumptions=ASSUMPTIONS,
        links=tuple(
            LinkEvidence(
                link=case.link,
                node=case.node,
                pod=case.pod,
                direction=case.direction,
                tracks={observer: track(case, observer) for observer in Observer},
                limits=(LIMIT,),
                dpu=case.dpu,
                switch=case.switch,
                port=case.switch_port,
            )
            for case in cases
        ),
        ports=(*linked, *ports),
        inventory_checked=inventory_checked,
        known_weights=tuple(weights),
    )


FRONT_END: Flow = [(5, 115, 236_000)]


def front_end() -> PortEvidence:
    return port("sw1", "eth5", FRONT_END, declared=True)


def demo_cases(**flows: tuple[Flow, Flow]) -> list[Case]:
    cases: list[Case] = []
    for number, pod in ((1, "pod-a"), (2, "pod-a"), (3, "pod-b"), (4, "pod-b")):
        node = f"node{number}"
        egress, ingress = flows.get(node, (REPLIES, INFERENCE))
        for direction, flow in ((Direction.EGRESS, egress), (Direction.INGRESS, ingress)):
            cases.append(Case(f"{node}/p0", node, pod, direction, flow, f"eth{number}", dpu=f"{node}-dpu0"))
    return cases


WEIGHT: Flow = [(90, 92, 500_000)]


def compliant() -> SiteEvidence:
    cases = demo_cases(node2=([*REPLIES, *WEIGHT], INFERENCE))
    weight = KnownWeight("node2/p0", Direction.EGRESS, START + 90 * S, START + 92 * S, 1_000_000, 690)
    return build(cases, ports=[front_end()], weights=[weight])


def training() -> SiteEvidence:
    return build(demo_cases(node1=(TRAINING, TRAINING), node3=(TRAINING, TRAINING)), ports=[front_end()])


def lying_host() -> SiteEvidence:
    cases = demo_cases(node1=(TRAINING, TRAINING), node3=(TRAINING, TRAINING))
    cases[0] = replace(cases[0], host_factor=0.01)
    return build(cases, ports=[front_end()])


def undeclared_port() -> SiteEvidence:
    found = port("sw1", "eth7", [(60, 90, 5_000_000)], declared=False)
    return build(demo_cases(), ports=[front_end(), found])


def with_gaps() -> SiteEvidence:
    cut = {Observer.SWITCH: [(60, 84, "network-cut")]}
    silent = {Observer.DPU_HOST_PORT: [(30, 41, "device-silent")], Observer.DPU_UPLINK: [(30, 41, "device-silent")]}
    cases = [replace(case, holes=cut) for case in demo_cases()]
    cases[2] = replace(cases[2], holes={**cut, **silent})
    evidence = build(cases, ports=[front_end()])
    first = evidence.links[0]
    host = first.tracks[Observer.HOST]
    restarted = replace(
        host,
        readings=tuple(
            replace(reading, epoch=1, bytes=reading.bytes - 7_000_200, packets=(reading.packets or 0) - 7_778)
            if index > 70
            else reading
            for index, reading in enumerate(host.readings)
        ),
        epoch_reasons={1: "boot id changed from 5b0c to 9e1f"},
        proven_epochs=frozenset({0, 1}),
    )
    return replace(
        evidence,
        links=(replace(first, tracks={**first.tracks, Observer.HOST: restarted}), *evidence.links[1:]),
        inventory_checked=False,
    )


def large(nodes: int = 60) -> SiteEvidence:
    cases: list[Case] = []
    for number in range(1, nodes + 1):
        node, pod = f"gpu-{number:03d}", f"pod-{(number - 1) // 10 + 1:02d}"
        flow = TRAINING if number in (7, 31) else INFERENCE
        holes = {Observer.SWITCH: [(60, 84, "network-cut")]} if 41 <= number <= 50 else {}
        switch = f"leaf-{(number - 1) // 50 + 1}"
        cases.extend(
            Case(f"{node}/p0", node, pod, direction, flow, f"Ethernet{number}", switch, f"{node}-dpu0", holes=holes)
            for direction in Direction
        )
    return build(cases, site="hall-7")


def two_switches() -> SiteEvidence:
    """Nodes with two uplinks, each to its own switch; one switch has a port too many."""
    cases: list[Case] = []
    for number, pod in ((1, "pod-a"), (2, "pod-a"), (3, "pod-b")):
        for uplink in (0, 1):
            name = f"node{number}"
            cases.extend(
                Case(
                    f"{name}/p{uplink}",
                    name,
                    pod,
                    direction,
                    INFERENCE,
                    f"eth{number}",
                    f"sw{uplink + 1}",
                    f"{name}-dpu0",
                )
                for direction in Direction
            )
    return build(cases, site="two-rails", ports=[port("sw2", "eth9", [(10, 100, 30_000)], declared=False)])


HOSTILE_NAME = "<script>alert(1)</script>\"'&\u202egnp.exe\x1b[31m{{7*7}}"


def hostile() -> SiteEvidence:
    name = HOSTILE_NAME
    cases = [
        Case(f"{name}/p0", name, f"{name}-pod", direction, INFERENCE, f"{name}9", f"{name}sw", f"{name}dpu")
        for direction in Direction
    ]
    cases[1] = replace(cases[1], host_factor=2.0, holes={Observer.SWITCH: [(60, 84, name)]})
    weight = KnownWeight(f"{name}/p0", Direction.EGRESS, START, START + S, 1_000, None)
    found = port(f"{name}sw", f"{name}7", INFERENCE, declared=False, operational=None)
    return build(cases, site=name, ports=[found], weights=[weight])


def without_links() -> SiteEvidence:
    return build([], site="empty", inventory_checked=False)


SCENARIOS: Mapping[str, Callable[[], SiteEvidence]] = {
    "compliant": compliant,
    "training": training,
    "lying-host": lying_host,
    "undeclared-port": undeclared_port,
    "with-gaps": with_gaps,
    "large": large,
    "two-switches": two_switches,
    "hostile": hostile,
    "without-links": without_links,
}


@pytest.fixture(scope="session")
def scenarios() -> Mapping[str, tuple[CrossCheck, SiteEvidence]]:
    """Every scenario by name, each cross-checked once."""
    made = {name: make() for name, make in SCENARIOS.items()}
    return {name: (crosscheck(evidence), evidence) for name, evidence in made.items()}
