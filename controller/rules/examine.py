"""All detectors over one record: what each flow shows, what they show together, and when it could first be said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from controller.rules.bursts import find_bursts
from controller.rules.detectors.constant import constant_rate
from controller.rules.detectors.equal_bursts import periodic_equal_bursts
from controller.rules.detectors.repeats import load_shaped_repeats
from controller.rules.detectors.symmetric import symmetric_flow
from controller.rules.detectors.together import rotating_load, synchronous_bursts
from controller.rules.finding import SHAPES, Finding, Kind, Severity
from controller.rules.limits import VolumeLimit, over_limit
from controller.rules.resemblance import Label, Resemblance, resemblance
from controller.rules.series import Flow
from controller.rules.shape import Shape

MOMENTS = 240
"""So many moments of a record are looked back from, to find when a finding could first be made."""


@dataclass(frozen=True, slots=True, eq=False)
class Examined:
    """One flow: what it resembles, its findings, and by key when each could first be noted, and be an alarm."""

    flow: Flow
    resembles: Resemblance
    findings: tuple[Finding, ...]
    noted_ns: dict[tuple[str, str, tuple[str, ...]], int]
    alarm_ns: dict[tuple[str, str, tuple[str, ...]], int]
    active_ns: int


def shapes(flow: Flow, shape: Shape, *, spectrum: bool = True) -> list[Finding]:
    """Return what the shape detectors find in one flow, as known at its end."""
    found: list[Finding | None] = []
    bursts = {}
    for series in (flow.outward, flow.inward):
        if series is not None:
            bursts[series.name] = find_bursts(series)
            found.append(periodic_equal_bursts(flow, series, bursts[series.name], shape, spectrum=spectrum))
    found.append(symmetric_flow(flow, bursts[flow.main.name], shape))
    found.append(constant_rate(flow, shape))
    if flow.inward is not None:
        found.append(load_shaped_repeats(flow, bursts[flow.inward.name], shape))
    return [each for each in found if each is not None]


def examine(flow: Flow, shape: Shape, limits: Sequence[VolumeLimit]) -> Examined:
    """Return everything that is to say about one recorded flow.

    1. The findings at its end, with their spectra, and of each limit the first window over it.
    2. What the whole resembles.
    3. Looking back from moments all along the record: when each finding could first be made, as loud as it is at last.
    """
    findings = shapes(flow, shape)
    for series in (flow.outward, flow.inward):
        if series is not None:
            found = (over_limit(series, limit) for limit in limits)
            findings.extend(each for each in found if each is not None)
    bursts = find_bursts(flow.main)
    label = resemblance(flow, bursts, findings, shape)
    if label.label is Label.TRAINING_CONTINUOUS and not any(each.kind in SHAPES for each in findings):
        findings.append(_continuous(flow, label))
    noted, alarm = _first_moments(flow, shape, findings)
    starts = [burst.start_ns for burst in bursts.found]
    return Examined(flow, label, tuple(findings), noted, alarm, min(starts, default=flow.main.start_ns))


def _continuous(flow: Flow, label: Resemblance) -> Finding:
    """Return a note for a flow too short for a detector whose null needs a day; only level and steadiness speak."""
    main = flow.main
    text = f"{main.name}: {label.why}. Shorter than the day that an alarm of this kind needs"
    return Finding(
        Kind.CONSTANT_RATE, (main.name,), text, main.start_ns, main.end_ns, Severity.NOTE, numbers=dict(label.numbers)
    )


_Moments = dict[tuple[str, str, tuple[str, ...]], int]


def _first_moments(flow: Flow, shape: Shape, findings: Sequence[Finding]) -> tuple[_Moments, _Moments]:
    """Return when each finding could first be noted, and when it first was an alarm."""
    noted = {finding.key: finding.to_ns for finding in findings}
    alarm = {finding.key: finding.to_ns for finding in findings if finding.severity is not Severity.NOTE}
    tested = {finding.key for finding in findings if "chance" in finding.numbers}
    first_noted: _Moments = {}
    first_alarm: _Moments = {}
    main = flow.main
    every = max(1, len(main.rate) // MOMENTS)
    for end in range(every, len(main.rate) + 1, every):
        if len(first_noted) == len(tested) and len(first_alarm) == len(tested & alarm.keys()):
            break
        now_ns = main.start_ns + end * main.step_ns
        for finding in shapes(flow.between(main.start_ns, now_ns), shape, spectrum=False):
            if finding.key in tested:
                first_noted.setdefault(finding.key, now_ns)
                if finding.severity is not Severity.NOTE and finding.key in alarm:
                    first_alarm.setdefault(finding.key, now_ns)
    return noted | first_noted, alarm | first_alarm


def together(flows: Sequence[Flow], shape: Shape) -> list[Finding]:
    """Return what several flows of one record show together."""
    if len(flows) < 2:
        return []
    bursts = {flow.name: find_bursts(flow.main) for flow in flows}
    found = synchronous_bursts(flows, bursts, shape)
    turning = rotating_load(flows, bursts, shape)
    return found if turning is None else [*found, turning]
