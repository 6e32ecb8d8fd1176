"""What was not seen: gaps and who was not looking, counters that started again, and what could have been hidden."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from controller.crosscheck.coverage import why
from controller.crosscheck.model import CrossCheck, LinkEvidence, LinkResult, SiteEvidence, Track
from controller.crosscheck.observed import Observed
from controller.crosscheck.quantity import bounds
from controller.report import places, words
from controller.report.series import LinkKey, Seen
from protos.reading import Observer


@dataclass(frozen=True, slots=True)
class Gap:
    """A stretch without a reading, the same on one or several links."""

    observer: str
    where: str
    when: str
    who: str
    passed: str


@dataclass(frozen=True, slots=True)
class Restart:
    """A counter epoch after the first, or one whose continuity is not evidenced."""

    where: str
    observer: str
    when: str
    reason: str
    proven: bool


@dataclass(frozen=True, slots=True)
class HiddenLine:
    """What could have been hidden on one link and direction."""

    link: str
    direction: str
    bound: str
    exact: str
    of_traffic: str
    of_limit: str


def gaps(of_link: Mapping[LinkKey, Seen], evidence: SiteEvidence) -> list[Gap]:
    """Return every gap of the period longer than the site allows, in order of time.

    What several links missed at about the same time for the same reason is one line; ``passed`` is then the most that
    can have passed on any one of them.
    """
    period, largest_gap_ns = evidence.period, evidence.assumptions.largest_gap_ns
    missed = [
        _Missed(from_ns, to_ns, observer, why(one.track.looked, (from_ns, to_ns)), place, _most_in(one, from_ns, to_ns))
        for place, seen in of_link.items()
        for observer, one in seen.observed.items()
        for from_ns, to_ns in seen.gaps(observer, period)
        if to_ns - from_ns > largest_gap_ns
    ]
    return [
        Gap(
            observer=together[0].observer.value,
            where=places.told([one.place for one in together], evidence.links),
            when=words.span(min(o.from_ns for o in together), max(o.to_ns for o in together), period.from_ns),
            who=words.shown(together[0].reason),
            passed=_most_passed([one.most for one in together]),
        )
        for together in _clusters(missed, largest_gap_ns)
    ]


@dataclass(frozen=True, slots=True)
class _Missed:
    """One gap of one observer on one link and direction; ``most`` bytes can have passed in it."""

    from_ns: int
    to_ns: int
    observer: Observer
    reason: str
    place: places.Place
    most: int | None


def _most_in(one: Observed, from_ns: int, to_ns: int) -> int | None:
    return bounds(one.bytes, from_ns - one.origin, to_ns - one.origin)[1] if one.usable else None


def _clusters(missed: Iterable[_Missed], apart_ns: int) -> list[list[_Missed]]:
    """Put together what began and ended at about the same time for the same reason: one outage, many links."""
    clusters: list[list[_Missed]] = []
    latest: dict[tuple[Observer, str], list[_Missed]] = {}
    for one in sorted(missed, key=lambda o: (o.from_ns, o.to_ns, o.observer.value, o.place[0], o.place[1].value)):
        cluster = latest.get((one.observer, one.reason))
        if cluster is None or max(one.from_ns - cluster[0].from_ns, abs(one.to_ns - cluster[0].to_ns)) > apart_ns:
            cluster = latest[one.observer, one.reason] = []
            clusters.append(cluster)
        cluster.append(one)
    return clusters


def _most_passed(bounds_of_links: Sequence[int | None]) -> str:
    known = [most for most in bounds_of_links if most is not None]
    if len(known) < len(bounds_of_links):
        return "not bounded"
    each = " on each" if len(known) > 1 else ""
    return f"at most {words.ceil_bytes(max(known))}{each}"


def counted(found: Sequence[Gap], restarted: Sequence[Restart]) -> str:
    """Return how many there are of both, in words."""
    said = []
    if found:
        said.append(words.counted(len(found), "gap"))
    if restarted:
        said.append(words.counted(len(restarted), "counter epoch to know of", "counter epochs to know of"))
    return words.listed(said) if said else ""


def restarts(evidence: SiteEvidence) -> list[Restart]:
    """Return the epochs a reader must know of: each after the first, and each that is not evidenced."""
    found: list[Restart] = []
    for link in evidence.links:
        for observer in Observer:
            track = link.tracks.get(observer)
            if track is not None:
                found.extend(_restarts_of(link, track, evidence.period.from_ns))
    return found


def _restarts_of(link: LinkEvidence, track: Track, day_ns: int) -> Iterator[Restart]:
    first_of: dict[int, int] = {}
    for reading in track.readings:
        first_of.setdefault(reading.epoch, reading.earliest_ns)
    for index, (epoch, at_ns) in enumerate(first_of.items()):
        proven = epoch in track.proven_epochs
        if index == 0 and proven:
            continue
        reason = track.epoch_reasons.get(epoch, "first epoch of the evidence" if index == 0 else "not recorded")
        yield Restart(
            where=f"{words.shown(link.link)} {link.direction.value}",
            observer=track.observer.value,
            when=f"{words.when(at_ns, day_ns)} UTC",
            reason=words.shown(reason),
            proven=proven,
        )


def hidden(order: Sequence[LinkResult]) -> list[HiddenLine]:
    """Return the bound of every link and direction with what it is a share of, in the given order."""
    return [_hidden_line(link) for link in order]


def _hidden_line(link: LinkResult) -> HiddenLine:
    bound = link.hidden_bytes_bound
    carried = max((i.lower for o, i in link.observers.items() if o is not Observer.HOST), default=0)
    allowed = min((limit.limit.bytes for limit in link.limits), default=0)
    return HiddenLine(
        link=words.shown(link.link),
        direction=link.direction.value,
        bound="no bound" if bound is None else words.ceil_bytes(bound),
        exact="" if bound is None else words.exact(bound),
        of_traffic=_share(bound, carried, "nothing carried"),
        of_limit=_share(bound, allowed, "no limit"),
    )


def _share(bound: int | None, whole: int, nothing: str) -> str:
    if bound is None:
        return "not known"
    return words.ceil_share(bound, whole) if whole else nothing


def hidden_fact(result: CrossCheck) -> str:
    """Return the answer in a few words, for the headline."""
    each = [link.hidden_bytes_bound for link in result.links]
    known = [bound for bound in each if bound is not None]
    if not known:
        return "no bound can be given"
    text = f"at most {words.ceil_bytes(sum(known))}"
    least_covered = min(link.coverage for link in result.links)
    if least_covered < 1:
        text += f" in what was covered ({words.floor_percent(least_covered)} of the period at worst)"
    missing = len(each) - len(known)
    return f"{text}; no bound for {missing} of {len(each)} links and directions" if missing else text


def hidden_sentence(result: CrossCheck) -> str:
    """Return the honest answer to "how much could have been hidden" in one sentence."""
    each = [link.hidden_bytes_bound for link in result.links]
    known = [bound for bound in each if bound is not None]
    missing = len(each) - len(known)
    if not known:
        return "No bound can be given: the evidence leaves no observer off the host with a closed interval."
    most = max(known)
    largest = next(link for link in result.links if link.hidden_bytes_bound == most)
    where = "over the whole period" if all(link.coverage >= 1 for link in result.links) else "in the time covered"
    sentence = (
        f"A liar who knew exactly when each counter was read could have kept at most {words.ceil_bytes(sum(known))} "
        f"from every observer {where}, at most {words.ceil_bytes(most)} on one link and direction "
        f"({words.shown(largest.link)} {largest.direction.value})."
    )
    if where == "in the time covered":
        sentence += " What can have passed while nobody was looking stands under the gaps below."
    if missing:
        others = words.counted(missing, "more link and direction", "more links and directions")
        sentence += f" For {others} no bound can be given."
    return sentence
