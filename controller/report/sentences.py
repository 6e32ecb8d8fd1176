"""What the report says in words: the headline, what it rests on, what each kind of finding means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from controller.crosscheck.model import CrossCheck, Finding, FindingKind, Limit, Verdict
from controller.report import words
from protos.reading import Direction

VERDICT_WORDS: Mapping[Verdict, str] = {
    Verdict.COMPLIANT: "compliant",
    Verdict.VIOLATION: "violation",
    Verdict.INCONCLUSIVE: "inconclusive",
}


class Passage(NamedTuple):
    """A heading and what is to be said under it."""

    heading: str
    text: str


@dataclass(frozen=True, slots=True)
class KindWords:
    """How findings of one kind are told."""

    title: str
    by_whom: str
    meaning: str


KINDS: Mapping[FindingKind, KindWords] = {
    FindingKind.LIMIT_EXCEEDED: KindWords(
        "Limit exceeded",
        "more trust domains than may lie, at least one of them off the host",
        "The readings leave no other possibility: at least one window of the agreed length held more than the limit.",
    ),
    FindingKind.LIMIT_POSSIBLY_EXCEEDED: KindWords(
        "Limit possibly exceeded",
        "nobody for certain: the readings allow it and do not prove it",
        "The limit may have been kept. The readings are too far apart, or too few observers saw the link, to prove it.",
    ),
    FindingKind.HOST_UNDER_REPORTS: KindWords(
        "The host reports too little",
        "the DPU and the switch, two independent trust domains, against the host",
        "Bytes arrived at the DPU that the host says it never sent. Its claim is wrong: it is false, or it was taken "
        "from a counter that does not see all of the traffic (a kernel's interface counters do not see RDMA).",
    ),
    FindingKind.HOST_OVER_REPORTS: KindWords(
        "The host reports too much",
        "the DPU and the switch, two independent trust domains, against the host",
        "The host claims bytes that neither its DPU nor the switch carried. The claim is false, or the host has "
        "another path to the network.",
    ),
    FindingKind.OBSERVERS_DISAGREE: KindWords(
        "Two observers disagree",
        "two neighbouring observers, each against the other",
        "What the two say cannot both be true. With two trust domains the disagreement names nobody; "
        "a third would be needed to decide.",
    ),
    FindingKind.UNDECLARED_PORT: KindWords(
        "Undeclared port carries traffic",
        "the switch, in its own list of ports and their counters",
        "A port that is not in the site file is up and moves bytes: a path that no limit and no meter covers.",
    ),
    FindingKind.COVERAGE_GAP: KindWords(
        "Nobody was looking",
        "the controller's own record of its questions and their answers",
        "For this stretch the observer gave no reading. Bytes are not lost by it, the counter went on; "
        "what is lost is when they moved.",
    ),
    FindingKind.COUNTER_RESET: KindWords(
        "A counter started again",
        "the observer's own evidence of its counter epoch",
        "What passed between the last reading before and the first after is known only as a bound.",
    ),
    FindingKind.COUNTER_STALE: KindWords(
        "The switch's counters are older than declared",
        "the DPU at the other end of the cable, which had counted bytes that the switch showed only later",
        "The bounds rest on how old a counter may be. This switch did not keep what is declared, so all its readings "
        "are taken to be as old as it was seen to serve them; they prove less, and nothing that is not true.",
    ),
    FindingKind.MISCABLED_LINK: KindWords(
        "A cable is not where it is declared",
        "the switch, in what its neighbours say of themselves over the cable (LLDP)",
        "The port's bytes may be another link's. Correct the cable or the site file; a neighbour's word is not signed, "
        "so this convicts nobody.",
    ),
    FindingKind.UNDECLARED_NEIGHBOUR: KindWords(
        "A neighbour nobody declared",
        "the switch, in what its neighbours say of themselves over the cable (LLDP)",
        "Something on the cable introduces itself that the site file does not know at that port.",
    ),
    FindingKind.LINK_FLAP: KindWords(
        "A link went down and came up",
        "the switch, in when the port's state last changed (ifLastChange)",
        "A cable was unplugged or failed for a moment. What was plugged in meanwhile, no counter tells.",
    ),
    FindingKind.HOOK_BYPASSED: KindWords(
        "Something stands in front of a meter",
        "the DPU's agent, in the kernel's own list of what a received frame meets",
        "Frames can have been taken before the millisecond meter saw them. The port's totals count them all the same; "
        "find out who put the program there.",
    ),
    FindingKind.OFFLOADED_TRAFFIC_UNMETERED: KindWords(
        "A port carried more than its meter saw",
        "the DPU's agent, in the port's own counter against its meter's",
        "Hardware, or a program before the meter, forwarded frames. The millisecond series of that time is not all "
        "that passed; the port's totals are.",
    ),
    FindingKind.OTHER_CLASS_TABLE: KindWords(
        "An agent counted by another class table",
        "the DPU's agent, in the hash that each of its signed frames carries, against the tables in the journal",
        "Which traffic was whose, and of which class, was not decided by the site file in that time. Find out who gave "
        "the agent its table; the port's totals count every byte all the same.",
    ),
    FindingKind.AGENT_CLOCK_SET: KindWords(
        "A DPU's wall clock was set",
        "the DPU's agent, in its wall clock against its monotonic one",
        "No time in the report follows a device's wall clock, so nothing moves. But somebody or something set it: that "
        "DPU's logs, and the certificates it checks, go by it.",
    ),
    FindingKind.LIMIT_NOT_ENFORCED: KindWords(
        "A limiter did not hold",
        "the DPU's agent, in the limiter's own counters against the leases it was given",
        "More passed than the leases allow, or what the agent ordered is not in force. The limit on paper was none in "
        "that time; what passed, the port's totals tell.",
    ),
    FindingKind.LOAD_WINDOW_OVERRUN: KindWords(
        "A load window was not enough",
        "the DPU's agent, in what its limiter passed and dropped in the window",
        "More was sent towards the node than the window's budget. What the limiter dropped did not arrive: ask what "
        "was loaded, and whether it was what was declared.",
    ),
    FindingKind.LOAD_WINDOW_REVERSE_TRAFFIC: KindWords(
        "A load window carried traffic back",
        "the DPU's agent, in what its limiter passed and dropped against the window's direction",
        "A load needs acknowledgements, and little else goes back. More than the window's bound was sent the other "
        "way.",
    ),
    FindingKind.LEASE_REFUSED: KindWords(
        "An agent refused a lease",
        "the DPU's agent, in its signed frames: how often, and why",
        "Nothing passed by it. An old number or another boot can be a message that came late; a signature that is not "
        "the verifier's, or another agent's lease, is somebody trying.",
    ),
    FindingKind.BYTES_UNACCOUNTED: KindWords(
        "Bytes that nobody says came out",
        "sums over all ports of a switch, or over all hosts' claims",
        "Every byte that a node receives from a peer left another node. More went in than can be found again: a host "
        "or the network dropped it uncounted, or somebody leaves it out. It names nobody; it says how much.",
    ),
    FindingKind.SCALE_OFF: KindWords(
        "A known weight was not shown",
        "the declared transfer, against an observer that certainly counted less",
        "Somebody sent a declared number of bytes over the link, and an observer on the way did not show them. Either "
        "that scale is off, or the weight was not sent as declared: until one is known, no verdict can rest on it.",
    ),
}

# The gravest first: this is the order of the headline and of the cards.
KIND_ORDER: Sequence[FindingKind] = (
    FindingKind.LIMIT_EXCEEDED,
    FindingKind.HOST_UNDER_REPORTS,
    FindingKind.UNDECLARED_PORT,
    FindingKind.HOST_OVER_REPORTS,
    FindingKind.OBSERVERS_DISAGREE,
    FindingKind.LIMIT_POSSIBLY_EXCEEDED,
    FindingKind.SCALE_OFF,
    FindingKind.BYTES_UNACCOUNTED,
    FindingKind.LIMIT_NOT_ENFORCED,
    FindingKind.LOAD_WINDOW_OVERRUN,
    FindingKind.LOAD_WINDOW_REVERSE_TRAFFIC,
    FindingKind.LEASE_REFUSED,
    FindingKind.MISCABLED_LINK,
    FindingKind.UNDECLARED_NEIGHBOUR,
    FindingKind.HOOK_BYPASSED,
    FindingKind.OFFLOADED_TRAFFIC_UNMETERED,
    FindingKind.OTHER_CLASS_TABLE,
    FindingKind.AGENT_CLOCK_SET,
    FindingKind.COUNTER_STALE,
    FindingKind.LINK_FLAP,
    FindingKind.COVERAGE_GAP,
    FindingKind.COUNTER_RESET,
)
VIOLATING = frozenset(KIND_ORDER[:5])
"""Kinds that make a verdict ``violation`` when they are certain (design section 4)."""


def ordered(findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings, those that convict first, then by kind, size and place."""
    return sorted(
        findings,
        key=lambda f: (
            not (f.certain and f.kind in VIOLATING),
            KIND_ORDER.index(f.kind),
            -(f.bytes_at_least or 0),
            words.natural(f.link or ""),
            f.direction.value if f.direction else "",
            f.switch or "",
            words.natural(f.port or ""),
            f.from_ns or 0,
        ),
    )


def headline(result: CrossCheck) -> str:
    """Return the verdict as one sentence a person would say."""
    if result.verdict is Verdict.COMPLIANT:
        has_limit = any(link.limits for link in result.links)
        return "This site stayed within its agreed limit." if has_limit else "Every observer of this site agrees."
    if result.verdict is Verdict.INCONCLUSIVE:
        return "The evidence does not decide."
    told = violations(result)
    return told[0] if told else "This site broke a law of the cross-check."


def violations(result: CrossCheck) -> list[str]:
    """Return one sentence for each kind of certain violation, the gravest first."""
    told = []
    for kind in KIND_ORDER:
        of_kind = [finding for finding in result.findings if finding.certain and finding.kind is kind]
        if kind in VIOLATING and of_kind:
            told.append(_VIOLATION_SENTENCES[kind](of_kind, result))
    return told


def _nodes(findings: Sequence[Finding], result: CrossCheck) -> list[str]:
    node_of = {link.link: link.node for link in result.links}
    # What is about the sum of a node's links names no link.
    names = {node_of.get(finding.link or "", finding.node or finding.link or "") for finding in findings}
    return [words.shown(name) for name in sorted(names, key=words.natural)]


def _limit_sentence(findings: Sequence[Finding], result: CrossCheck) -> str:
    directions = {finding.direction for finding in findings}
    verb = {
        frozenset({Direction.EGRESS}): "sent",
        frozenset({Direction.INGRESS}): "received",
    }.get(frozenset(d for d in directions if d is not None), "moved")
    return f"{words.listed(_nodes(findings, result))} {verb} more than the agreed limit."


def _under_sentence(findings: Sequence[Finding], result: CrossCheck) -> str:
    nodes = _nodes(findings, result)
    hosts, counts = ("host", "its DPU and switch port") if len(nodes) == 1 else ("hosts", "their DPUs and switch ports")
    return f"The {hosts} {words.listed(nodes)} reported fewer bytes than {counts} counted."


def _over_sentence(findings: Sequence[Finding], result: CrossCheck) -> str:
    nodes = _nodes(findings, result)
    hosts, counts = ("host", "its DPU and switch port") if len(nodes) == 1 else ("hosts", "their DPUs and switch ports")
    return f"The {hosts} {words.listed(nodes)} reported more bytes than {counts} counted."


def _port_sentence(findings: Sequence[Finding], result: CrossCheck) -> str:
    del result
    ports = list(dict.fromkeys(f"{words.shown(f.port or '?')} of {words.shown(f.switch or '?')}" for f in findings))
    one = len(ports) == 1
    return (
        f"{'A port that is' if one else 'Ports that are'} not in the site file carried traffic: {words.listed(ports)}."
    )


def _disagree_sentence(findings: Sequence[Finding], result: CrossCheck) -> str:
    del result
    links = list(dict.fromkeys(words.shown(finding.link or "?") for finding in findings))
    return f"Observers of {words.listed(links)} contradict each other."


_VIOLATION_SENTENCES = {
    FindingKind.LIMIT_EXCEEDED: _limit_sentence,
    FindingKind.HOST_UNDER_REPORTS: _under_sentence,
    FindingKind.UNDECLARED_PORT: _port_sentence,
    FindingKind.HOST_OVER_REPORTS: _over_sentence,
    FindingKind.OBSERVERS_DISAGREE: _disagree_sentence,
}


def rests_on(result: CrossCheck) -> str:
    """Return the paragraph under the headline: why this is the verdict."""
    if result.verdict is Verdict.COMPLIANT:
        return (
            "On every link and in every window the readings leave no possibility of more than the limit, no law "
            "between neighbouring observers is broken, and no port outside the site file moved bytes."
        )
    if result.verdict is Verdict.VIOLATION:
        return (
            "This is certain under the assumptions listed below: no polling phase, no device cache and no clock error "
            "within them explains the readings otherwise. Each finding says how wrong an assumption would have to be."
        )
    return (
        "Nothing convicts this site and not everything acquits it. Lack of evidence is never taken for compliance; "
        "below stands what would decide it."
    )


def limit_text(limit: Limit) -> str:
    """Return a limit as people agree on it."""
    return f"{words.declared_bytes(limit.bytes)} in any {words.lasting(limit.window_ns)}"


CANNOT_SEE: Sequence[Passage] = (
    Passage(
        "Training inside one pod",
        "The limit stands at the pod's boundary. What a pod can train by itself, it can train unseen.",
    ),
    Passage(
        "Steganography in tokens",
        "Bytes are counted, not read. Information hidden in honest-looking answers has the size of honest answers.",
    ),
    Passage(
        "Physical side channels",
        "A wire, a disk or a radio that passes neither the DPU nor the switch is not metered.",
    ),
    Passage(
        "Low-communication training below the limit",
        "Methods that synchronise rarely, with strong compression, can fit under a limit that inference needs. "
        "The report shows the volume; it cannot tell what the volume was for.",
    ),
)

HOW_TO_READ: Sequence[Passage] = (
    Passage(
        "A number is an interval",
        "A counter read over a network was true at some time between the question and the answer, less the time the "
        "device may have kept it in a cache. So the report says between which two numbers the bytes of a period "
        "certainly lie. Lower ends are rounded down and upper ends up; the exact integers appear when you point at "
        "a number, and stand in the link's own section.",
    ),
    Passage(
        "A disagreement is a proof",
        "Two neighbours on a wire must count the same bytes, but for what is in flight between them. If their "
        "intervals cannot both hold, one of them is wrong for certain. The margin says how wrong an assumption, such "
        "as the cache time of the switch, would have to be for the disagreement to vanish.",
    ),
    Passage(
        "A limit holds over every window",
        "Not only over windows that start at a full minute. The plots show, for each time, the most bytes that any "
        "window ending there held: at least the lower curve, at most the upper.",
    ),
    Passage(
        "Inconclusive is not guilty",
        "It says that the evidence leaves both possibilities, and what would decide between them.",
    ),
)

GLOSSARY: Sequence[tuple[str, str]] = (
    ("agreed limit", "no more than so many bytes in any window of so many seconds, per node and direction"),
    ("assumption", "a number declared in the site file that bounds and laws rest on"),
    ("counter epoch", "a stretch in which a counter surely was not reset, with the evidence for it"),
    ("coverage", "the share of the period in which DPU and switch both bound the counter closely enough"),
    ("direction", "egress leaves the node, ingress enters it; the same word at every observer"),
    ("finding", "one law broken, one limit exceeded or one gap, with what it rests on"),
    ("known weight", "a declared number of bytes sent over a link that every observer must show"),
    ("law", "what must hold between two neighbouring observers, because bytes do not appear or vanish on a wire"),
    ("link", "node, DPU, cable and switch port; every link is judged in both directions"),
    ("margin", "how wrong an assumption would have to be for a finding to dissolve"),
    ("observer", "one of the four along a link: host (untrusted), dpu.host_port, dpu.uplink, switch"),
    ("trust domain", "observers that fall together: both ports of one DPU are one domain"),
    ("window", "the length of time a limit speaks of; it may start at any moment"),
)
