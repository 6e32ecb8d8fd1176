"""What ``weighbridge rules replay`` says of records: as values for JSON, and as lines of text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from controller.replay.record import Record
from controller.rules.examine import Examined, examine, together
from controller.rules.finding import Finding, Severity
from controller.rules.limits import VolumeLimit
from controller.rules.series import Series
from controller.rules.shape import Shape
from controller.rules.wording import duration
from protos.units import NS_PER_S


def answer(records: Sequence[Record], shape: Shape, limits: Sequence[VolumeLimit]) -> dict[str, Any]:
    """Return the whole answer.

    ``series`` has one entry for each column; two directions of one place share what they resemble. ``together`` is
    what the flows of one file show together. Times are seconds since 1970 and seconds; volumes are decimal strings.
    """
    series: list[dict[str, Any]] = []
    jointly: list[dict[str, Any]] = []
    for record in records:
        for flow in record.flows:
            examined = examine(flow, shape, limits)
            sides = (("outward", flow.outward), ("inward", flow.inward))
            series += [_series(record, examined, side, one) for side, one in sides if one is not None]
        jointly += [_finding(finding) for finding in together(record.flows, shape)]
    return {"series": series, "together": jointly, "notes": [_note(record) for record in records if record.notes]}


def _note(record: Record) -> dict[str, Any]:
    return {"file": str(record.path), "notes": list(record.notes)}


def _series(record: Record, examined: Examined, side: str, one: Series) -> dict[str, Any]:
    """A flow's findings stand at the series they name, or at both where they name the flow."""
    flow = examined.flow
    findings = [
        _finding(finding) | _moments(examined, finding)
        for finding in examined.findings
        if finding.places in ((one.name,), (flow.name,))
    ]
    return {
        "name": one.name,
        "file": str(record.path),
        "direction": side,
        "resembles": examined.resembles.label.value,
        "why": examined.resembles.why,
        "numbers": {key: _plain(each) for key, each in examined.resembles.numbers.items()},
        "from_s": one.start_ns / NS_PER_S,
        "to_s": one.end_ns / NS_PER_S,
        "step_s": one.step_s,
        "averaged_over_s": one.window_ns / NS_PER_S,
        "findings": findings,
    }


def _moments(examined: Examined, finding: Finding) -> dict[str, Any]:
    noted, alarm = examined.noted_ns.get(finding.key), examined.alarm_ns.get(finding.key)
    return {
        "time_to_detect_s": None if noted is None else max(0.0, (noted - examined.active_ns) / NS_PER_S),
        "time_to_alarm_s": None if alarm is None else max(0.0, (alarm - examined.active_ns) / NS_PER_S),
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "kind": finding.kind.value,
        "severity": finding.severity.value,
        "alarm": finding.severity is not Severity.NOTE,
        "rule": finding.rule or finding.kind.value,
        "places": list(finding.places),
        "text": finding.text,
        "from_s": finding.from_ns / NS_PER_S,
        "to_s": finding.to_ns / NS_PER_S,
        "numbers": {key: _plain(each) for key, each in finding.numbers.items()},
    }


def told_finding(finding: Finding, resolved_ns: int | None) -> dict[str, Any]:
    """Return a finding of the streaming evaluation: its id, and since when it is over, None while it goes on."""
    resolved_s = None if resolved_ns is None else resolved_ns / NS_PER_S
    return {"id": finding.id, **_finding(finding), "resolved_s": resolved_s}


def _plain(number: object) -> object:
    """Volumes are integers here and decimal strings in JSON."""
    return str(number) if isinstance(number, int) and abs(number) >= 1 << 31 else number


def lines(found: dict[str, Any]) -> Iterator[str]:
    """Yield the answer as text: a line a series, and a line a finding below it."""
    for one in found["series"]:
        yield f"{one['name']}: {one['resembles']} - {one['why']}"
        for finding in one["findings"]:
            yield f"  {finding['severity']}: {finding['kind']} ({finding['rule']}): {finding['text']}"
            detect, alarm = finding["time_to_detect_s"], finding["time_to_alarm_s"]
            told = f"noted {duration(detect * NS_PER_S)} after the activity began" if detect is not None else ""
            if alarm is not None:
                told += f"{', ' if told else ''}an alarm after {duration(alarm * NS_PER_S)}"
            yield f"    {told}"
    for finding in found.get("findings", ()):
        over = "goes on" if finding["resolved_s"] is None else f"over after {_lasted(finding)}"
        yield f"{finding['severity']}: {finding['id']} ({finding['rule']}): {finding['text']}; {over}"
    for finding in found["together"]:
        yield f"together: {finding['severity']}: {finding['kind']}: {finding['text']}"


def _lasted(finding: dict[str, Any]) -> str:
    return duration((finding["resolved_s"] - finding["to_s"]) * NS_PER_S)
