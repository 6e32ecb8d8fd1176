"""The result as JSON and as CSV rows: counters, bytes and times as decimal strings, unbounded as null.

64-bit numbers are strings because JavaScript and RFC 8785 readers round integers above 2^53.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from typing import Union

from controller.crosscheck.model import (
    AgreementInForce,
    Assumptions,
    ByteInterval,
    CrossCheck,
    Finding,
    LawResult,
    LimitResult,
    LinkResult,
    NodePair,
    PortResult,
    SumResult,
    WindowWitness,
)

Json = Union[None, bool, int, float, str, list["Json"], dict[str, "Json"]]  # noqa: UP007 - recursive, on 3.10

CSV_HEADER = (
    "link",
    "node",
    "pod",
    "direction",
    "verdict",
    "coverage",
    "hidden_bytes_bound",
    "observer",
    "lower_bytes",
    "upper_bytes",
)


def to_json(result: CrossCheck) -> dict[str, Json]:
    """Return the whole result in the shape that ``weighbridge crosscheck --format json`` prints."""
    return {
        "site": result.site,
        "period": {
            "from_ns": str(result.period.from_ns),
            "to_ns": str(result.period.to_ns),
            "evidence_from_ns": _number(result.evidence_from_ns),
        },
        "links": [_link(link) for link in result.links],
        "ports": [_port(port) for port in result.ports],
        "findings": [_finding(finding) for finding in result.findings],
        "known_weights": [
            {
                "link": weight.link,
                "direction": weight.direction.value,
                "from_ns": str(weight.from_ns),
                "to_ns": str(weight.to_ns),
                "bytes": str(weight.bytes),
                "packets": _number(weight.packets),
                "shown": shown,
                "text": text,
            }
            for weight, shown, text in result.known_weights
        ],
        "sums": [_sum(one) for one in result.sums],
        "node_pairs": {
            "counted_by": "ebpf-meter",
            "layer": "l2_without_fcs",
            "unit": "bytes",
            "rows": [_pair(pair) for pair in result.pairs],
        },
        "agreements": [_agreement(one) for one in result.agreements],
        "assumptions": _assumptions(result.assumptions),
        "scope": result.scope or None,
        "verdict": result.verdict.value,
    }


def csv_rows(result: CrossCheck) -> Iterator[tuple[str, ...]]:
    """Yield a header and one row for each link, direction and observer; unbounded is an empty field."""
    yield CSV_HEADER
    for link in result.links:
        for observer, interval in link.observers.items():
            yield (
                link.link,
                link.node,
                link.pod,
                link.direction.value,
                link.verdict.value,
                f"{_share(link.coverage):.6f}",
                _number(link.hidden_bytes_bound) or "",
                observer.value,
                str(interval.lower),
                _number(interval.upper) or "",
            )


def _share(share: float) -> float:
    """Return a share in six decimals, rounded down: what is short of the required coverage must not read as it."""
    return math.floor(share * 1_000_000 + 1e-6) / 1_000_000


def _number(value: int | None) -> str | None:
    return None if value is None else str(value)


def _interval(interval: ByteInterval) -> dict[str, Json]:
    return {"lower_bytes": str(interval.lower), "upper_bytes": _number(interval.upper)}


def _link(link: LinkResult) -> dict[str, Json]:
    return {
        "link": link.link,
        "node": link.node,
        "pod": link.pod,
        "direction": link.direction.value,
        "verdict": link.verdict.value,
        "coverage": _share(link.coverage),
        "hidden_bytes_bound": _number(link.hidden_bytes_bound),
        "observers": {observer.value: _interval(interval) for observer, interval in link.observers.items()},
        "agreed": _interval(link.agreed),
        "epochs": {observer.value: count for observer, count in link.epochs.items()},
        "laws": [_law(law) for law in link.laws],
        "limits": [_limit(limit) for limit in link.limits],
        "undecided": list(link.undecided),
    }


def _law(law: LawResult) -> dict[str, Json]:
    return {
        "law": law.law,
        "holds": law.holds.value,
        "gap_at_least_bytes": str(law.gap_at_least_bytes),
        "margin": law.margin,
        "margin_ns": _number(law.margin_ns),
        "text": law.text,
        "unknown_because": None if law.unknown_because is None else law.unknown_because.value,
        "hidden_bytes_bound": _number(law.hidden_bytes_bound),
        "from_ns": _number(law.from_ns),
        "to_ns": _number(law.to_ns),
    }


def _limit(limit: LimitResult) -> dict[str, Json]:
    return {
        "window_ns": str(limit.limit.window_ns),
        "limit_bytes": str(limit.limit.bytes),
        "kept": limit.holds.value,
        "worst_at_least_bytes": str(limit.worst_at_least_bytes),
        "worst_at_most_bytes": _number(limit.worst_at_most_bytes),
        "worst_from_ns": _number(limit.worst_from_ns),
        "exceeded_by": [domain.value for domain in limit.exceeded_by],
        "kept_by": [domain.value for domain in limit.kept_by],
        "witnesses": [_window_witness(witness, limit.limit.window_ns) for witness in limit.witnesses],
        "text": limit.text,
    }


def _window_witness(witness: WindowWitness, window_ns: int) -> dict[str, Json]:
    from_ns = witness.from_ns
    return {
        "observer": witness.observer.value,
        "at_least_bytes": str(witness.least),
        "at_least_by": witness.least_by.value,
        "at_most_bytes": _number(witness.most),
        "at_most_by": witness.most_by.value,
        "from_ns": _number(from_ns),
        "to_ns": _number(None if from_ns is None else from_ns + window_ns),
        "exact_to_ns": str(witness.exact_to_ns),
        "bucket_share": _share(witness.bucket_share),
    }


def _sum(one: SumResult) -> dict[str, Json]:
    return {
        "of": one.of.value,
        "switch": one.switch,
        "nodes": list(one.nodes),
        "left": _interval(one.left),
        "right": _interval(one.right),
        **_law(one.result),
    }


def _pair(pair: NodePair) -> dict[str, Json]:
    return {
        "node": pair.node,
        "dpu": pair.dpu,
        "port": pair.port,
        "direction": pair.direction.value,
        "peer": pair.peer,
        **_interval(pair.bytes),
    }


def _agreement(agreement: AgreementInForce) -> dict[str, Json]:
    return {
        "number": str(agreement.number),
        "sha256": agreement.sha256.hex(),
        "from_ns": str(agreement.from_ns),
        "to_ns": str(agreement.to_ns),
        "signed": agreement.signed.decode(),
    }


def _port(port: PortResult) -> dict[str, Json]:
    return {
        "switch": port.switch,
        "port": port.port,
        "declared": port.declared,
        "lower_bytes": str(port.lower_bytes),
        "upper_bytes": _number(port.upper_bytes),
        "operational": port.operational,
    }


def finding_id(finding: Finding) -> str:
    """Return a finding's name: its kind and eight digits that follow from all it says.

    Judged again from the same evidence it has the same name.
    """
    about = (
        finding.kind.value,
        finding.link,
        finding.node,
        None if finding.direction is None else finding.direction.value,
        finding.switch,
        finding.port,
        _number(finding.bytes_at_least),
        _number(finding.from_ns),
        _number(finding.to_ns),
        finding.text,
    )
    return f"{finding.kind.value}-{hashlib.sha256(repr(about).encode()).hexdigest()[:8]}"


def _finding(finding: Finding) -> dict[str, Json]:
    return {
        "id": finding_id(finding),
        "kind": finding.kind.value,
        "link": finding.link,
        "node": finding.node,
        "direction": None if finding.direction is None else finding.direction.value,
        "switch": finding.switch,
        "port": finding.port,
        "certain": finding.certain,
        "bytes_at_least": _number(finding.bytes_at_least),
        "from_ns": _number(finding.from_ns),
        "to_ns": _number(finding.to_ns),
        "margin": finding.margin,
        "text": finding.text,
    }


def _assumptions(assumptions: Assumptions) -> dict[str, Json]:
    return {
        "in_flight_bytes": str(assumptions.in_flight_bytes),
        "late_completion_bytes": str(assumptions.late_completion_bytes),
        "dpu_own_bytes_per_s": str(assumptions.dpu_own_bytes_per_s),
        "control_bytes_per_s": str(assumptions.control_bytes_per_s),
        "largest_frame_bytes": str(assumptions.largest_frame_bytes),
        "required_coverage": assumptions.required_coverage,
        "largest_gap_ns": str(assumptions.largest_gap_ns),
        "liars": assumptions.liars,
    }
