"""The assumptions of a site, each with its value and what it means, for the report's table."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from controller.crosscheck.model import Assumptions, LinkEvidence, Track
from controller.report import words
from protos.reading import Observer
from protos.units import format_rate


@dataclass(frozen=True, slots=True)
class Assumption:
    """One line of the table; ``key`` is the word of the site file."""

    key: str
    value: str
    meaning: str


def declared(assumptions: Assumptions) -> list[Assumption]:
    """Return the site file's ``assumptions:`` in its own words."""
    a = assumptions
    return [
        Assumption(
            "in_flight",
            words.exact(a.in_flight_bytes),
            "Most bytes on the way between two neighbouring observers at any instant. If more can queue, a law could "
            "seem broken by that much.",
        ),
        Assumption(
            "late_completion",
            words.exact(a.late_completion_bytes),
            "Most bytes by which the host's counter may lag behind what its DPU has already received.",
        ),
        Assumption(
            "dpu_own",
            format_rate(a.dpu_own_bytes_per_s),
            "Most traffic the DPU itself adds on its uplink, in each direction.",
        ),
        Assumption(
            "control",
            format_rate(a.control_bytes_per_s),
            "Most traffic that switch and DPU make themselves on the link, such as LLDP and pause frames.",
        ),
        Assumption(
            "largest_frame",
            words.exact(a.largest_frame_bytes),
            "Largest frame without check sequence. A drop or error counted in packets may stand for up to this many "
            "bytes each.",
        ),
        Assumption(
            "required_coverage",
            f"{a.required_coverage * 100:g} %",
            "Share of the period that must be covered before a link can be called compliant.",
        ),
        Assumption(
            "largest_gap",
            words.lasting(a.largest_gap_ns),
            "Neighbouring readings further apart than this do not cover the time between them.",
        ),
        Assumption(
            "liars",
            words.counted(a.liars, "trust domain"),
            "How many of the trust domains host, DPU and switch may lie at once; a limit is judged in spite of them.",
        ),
    ]


@dataclass(frozen=True, slots=True)
class Timing:
    """How closely in time one kind of observer is read: what the width of its intervals comes from."""

    observer: str
    refresh: str
    clock: str
    line_rate: str
    step: str
    longest_gap: str


def timings(links: Iterable[LinkEvidence]) -> list[Timing]:
    """Return one line per observer, each cell a value or the range of values over the links."""
    of_observer: dict[Observer, list[Track]] = {}
    for link in links:
        for observer, track in link.tracks.items():
            of_observer.setdefault(observer, []).append(track)
    return [_timing(observer, of_observer[observer]) for observer in Observer if observer in of_observer]


def _timing(observer: Observer, tracks: list[Track]) -> Timing:
    rates = [track.line_rate_bytes_per_s for track in tracks]
    known = [rate for rate in rates if rate is not None]
    return Timing(
        observer=observer.value,
        refresh=_spread((track.refresh_ns for track in tracks), words.lasting),
        clock=_spread((track.clock_width_ns for track in tracks), words.lasting),
        line_rate=_spread(known, format_rate) if len(known) == len(rates) else "not used",
        step=_spread((track.step_bytes for track in tracks), words.exact),
        longest_gap=_spread(_longest_gaps(tracks), words.lasting),
    )


def _longest_gaps(tracks: Iterable[Track]) -> Iterator[int]:
    for track in tracks:
        ends = [reading.latest_ns for reading in track.readings]
        yield max((later - earlier for earlier, later in itertools.pairwise(ends)), default=0)


def _spread(values: Iterable[int], say: Callable[[int], str]) -> str:
    of_all = list(values)
    if not of_all:
        return "no readings"
    low, high = say(min(of_all)), say(max(of_all))
    return low if low == high else f"{low} to {high}"
