"""A file of readings as evidence: the cross-check on numbers from anywhere, without a journal or a site file.

What a site file would say is given beside it (:class:`Told`). The epochs are taken as they are numbered: whoever wrote
the file vouches that a counter ran through within each.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from controller.crosscheck.model import (
    Assumptions,
    DropCounter,
    Limit,
    LinkEvidence,
    Period,
    Silence,
    SiteEvidence,
    Track,
)
from controller.errors import OperatorError
from controller.observations.reading_lines import Line, LineError, parse_line
from protos.reading import Direction, Observer, Reading

MOST_ERRORS = 20
"""So many lines are named at once; more would not be read."""

SCOPE = "the links in the file: whether other switch ports moved bytes, and what the epochs rest on, was not asked"
_WIRE = (Observer.DPU_UPLINK, Observer.SWITCH)
_DPU = (Observer.DPU_HOST_PORT, Observer.DPU_UPLINK)


@dataclass(frozen=True, slots=True)
class Told:
    """What stands beside the readings.

    Attributes:
        period: the time asked about.
        limits: per node and direction.
        assumptions: as a site file would declare them; ``liars`` None: one, or none for a file in which no link has
            two trust domains, whose word is then all there is.
        line_rates: bytes per second, by link.
    """

    period: Period
    limits: tuple[Limit, ...] = ()
    assumptions: Assumptions = field(default_factory=Assumptions)
    liars: int | None = None
    line_rates: Mapping[str, int] = field(default_factory=dict)


def read_lines(lines: Iterable[bytes], name: str) -> list[Line]:
    """Return the readings in ``lines`` of the file ``name``; empty lines are passed over.

    Raises:
        OperatorError: a line is no reading (each is named, up to :data:`MOST_ERRORS`), or there is none at all.
    """
    found, wrong = [], []
    for number, text in enumerate(lines, 1):
        if not text.strip():
            continue
        try:
            found.append(parse_line(text))
        except LineError as error:
            wrong.append(f"{name}:{number}: {error}.")
            if len(wrong) >= MOST_ERRORS:
                break
    if wrong:
        raise OperatorError("\n".join(wrong))
    if not found:
        raise OperatorError(f"{name}: no readings in it. Write one JSON object a line, as `--help` describes.")
    return found


def evidence_of(lines: Sequence[Line], told: Told, name: str) -> SiteEvidence:
    """Return what readings prove, ready for the cross-check.

    Raises:
        OperatorError: a line rate is given for a link that has no readings, or one observer's counter has readings of
            two widths.
    """
    by_link: dict[tuple[str, Direction], list[Line]] = {}
    for line in lines:
        by_link.setdefault((line.link, line.direction), []).append(line)
    names = sorted({link for link, _ in by_link})
    for link in told.line_rates:
        if link not in names:
            raise OperatorError(f"--line-rate {link}: {name} has no readings of it. It has {', '.join(names[:10])}.")
    domains = [len({line.observer.trust_domain for line in group}) for group in by_link.values()]
    liars = told.liars if told.liars is not None else int(max(domains) > 1)
    assumptions = replace(told.assumptions, liars=liars)
    links = []
    for (link, direction), group in sorted(by_link.items(), key=lambda item: (item[0][0], item[0][1].value)):
        tracks = _tracks(group, told.line_rates.get(link), assumptions, name)
        node = link.split("/", maxsplit=1)[0]
        links.append(LinkEvidence(link, node, "", direction, tracks, told.limits))
    return SiteEvidence(
        site=name,
        period=told.period,
        assumptions=assumptions,
        links=tuple(links),
        ports=(),
        inventory_checked=True,
        scope=SCOPE,
    )


def _tracks(group: Sequence[Line], line_rate: int | None, assumptions: Assumptions, name: str) -> dict[Observer, Track]:
    """Return the tracks of one link and direction.

    The DPU is one device: where either of its ports has a counter of drops, the other is taken to have lost nothing
    that is not in it.
    """
    by_observer: dict[Observer, list[Line]] = {}
    for line in group:
        by_observer.setdefault(line.observer, []).append(line)
    tracks = {
        observer: _track(observer, by_observer[observer], line_rate, assumptions, name)
        for observer in Observer
        if observer in by_observer
    }
    both = [tracks[port] for port in _DPU if port in tracks]
    if len(both) == len(_DPU) and any(track.drop_counters for track in both):
        first = min(line.window_ns[0] for line in group)
        last = max(line.window_ns[1] for line in group)
        nothing = DropCounter((Reading(first, first, 0), Reading(last, last, 0)))
        for port in _DPU:
            if not tracks[port].drop_counters:
                tracks[port] = replace(
                    tracks[port], drop_counters=(nothing,), proven_epochs=tracks[port].proven_epochs | {0}
                )
    return tracks


def _track(
    observer: Observer, lines: Sequence[Line], line_rate: int | None, assumptions: Assumptions, name: str
) -> Track:
    traffic = [line for line in lines if line.counter == "traffic"]
    widths = sorted({line.bits for line in traffic})
    if len(widths) > 1:
        link, direction = lines[0].link, lines[0].direction.value
        raise OperatorError(
            f"{name}: {observer.value} of {link} {direction} has readings of {widths[0]} and of {widths[1]} bits. "
            "A counter has one width: keep those of one, or name the other observer's."
        )
    readings = tuple(line.reading for line in traffic if line.reading is not None)
    drops: dict[tuple[str, bool], list[Reading]] = {}
    for line in lines:
        if line.counter != "traffic" and line.reading is not None:
            drops.setdefault((line.counter, line.in_bytes), []).append(line.reading)
    rate = line_rate if observer in _WIRE else None
    over = readings[0].framing.bytes_per_frame_over_l2 if readings else 0
    return Track(
        observer=observer,
        readings=readings,
        line_rate_bytes_per_s=rate,
        step_bytes=0 if rate is None else assumptions.largest_frame_bytes + over,
        drop_counters=tuple(DropCounter(tuple(part), in_bytes) for (_, in_bytes), part in sorted(drops.items())),
        proven_epochs=frozenset(line.reading.epoch for line in lines if line.reading is not None),
        epoch_reasons=dict.fromkeys((one.epoch for one in readings), "numbered so in the file"),
        looked=tuple(_silences(traffic)),
        counter_bits=widths[0] if widths else 64,
    )


def _silences(traffic: Sequence[Line]) -> Iterable[Silence]:
    """Yield where the observer answered without a byte count: from the reading before to the one after."""
    ordered = sorted(traffic, key=lambda line: line.window_ns)
    text = "it answered without a byte count"
    for index, line in enumerate(ordered):
        if line.reading is None:
            before, after = ordered[max(0, index - 1)], ordered[min(len(ordered) - 1, index + 1)]
            yield Silence(before.window_ns[0], after.window_ns[1] + 1, "device-silent", text)
