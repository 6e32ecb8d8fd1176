"""A period cross-checked from the journal: one part for each site file that was in force in it.

The journal's site file counts, not the one on disk: links and limits are what was agreed then. Where it changed, the
period is judged in parts, and the whole is no better than its worst part.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Protocol

from controller.crosscheck.check import crosscheck
from controller.crosscheck.json_form import to_json
from controller.crosscheck.model import CrossCheck, Period, SiteEvidence, Verdict
from controller.crosscheck.seam import Seam, common_limits, joined, judge_seam
from controller.errors import OperatorError
from controller.journal import Journal, Kind
from controller.observations import end_of_evidence_ns, evidence, inventories
from controller.site import Link, Site, loads
from protos.units import format_duration

EXIT_CODES = {Verdict.COMPLIANT: 0, Verdict.VIOLATION: 1, Verdict.INCONCLUSIVE: 3}
"""The exit code that each verdict gives."""


class Judged(Protocol):
    """Evidence and what the cross-check made of it, from wherever it came."""

    @property
    def evidence(self) -> SiteEvidence:
        """What was looked at."""

    @property
    def result(self) -> CrossCheck:
        """What was found."""


@dataclass(frozen=True, slots=True)
class Part:
    """The cross-check of the part of a period in which one site file was in force."""

    site: Site
    evidence: SiteEvidence
    result: CrossCheck


def judge_period(journal: Journal, period: Period) -> tuple[Part, ...]:
    """Cross-check ``period`` from what ``journal`` holds.

    1. Find the site files in force over the period.
    2. For each, put its evidence together and cross-check it; windows across a change belong to the part after it.

    Raises:
        OperatorError: no site file was ever journaled; or what was recorded then was dropped.
        EvidenceError: an entry is damaged or cannot be read by this program.
    """
    stop, before_ns = journal.pruned()
    if before_ns is not None and period.from_ns < before_ns:
        raise OperatorError(
            f"what was recorded before {_utc(before_ns)}, up to entry {stop}, was dropped by a journaled decision, and "
            "the period begins before. Begin it there; reports that were made of earlier times are in the log."
        )
    found = inventories(journal, period)
    if not found:
        raise OperatorError(
            f"{journal.path} holds no site file that was in force then. "
            "Make journals with `weighbridge init`, which journals the site file."
        )
    parts: list[Part] = []
    for inventory in found:
        site = loads(inventory.content, f"{journal.path}, leaf {inventory.leaf}")
        gathered = evidence(journal, site, Period(inventory.from_ns, inventory.to_ns))
        result = crosscheck(gathered)
        if parts:
            result = joined(result, _seams(journal, period, (parts[-1].site, site), inventory.from_ns))
        parts.append(Part(site, gathered, result))
    return tuple(parts)


def _seams(journal: Journal, period: Period, sites: tuple[Site, Site], at_ns: int) -> list[Seam]:
    """Judge the windows across a change of the site file, as far as the longest of them reaches on both sides."""
    before, after = sites
    limits = common_limits(before.limits, after.limits)
    if not limits:
        return []
    reach = max(limit.window_ns for limit in limits)
    around = Period(max(period.from_ns, at_ns - reach), min(period.to_ns, at_ns + reach))
    cables = [_cables(site) for site in sites]
    same = {node: cables[0].get(node) == links for node, links in cables[1].items()}
    return judge_seam(evidence(journal, after, around), limits, at_ns, same)


def _cables(site: Site) -> dict[str, list[Link]]:
    """Return the links of each node, all that says whose counters they are."""
    found: dict[str, list[Link]] = {}
    for link in site.links:
        found.setdefault(link.node, []).append(link)
    return found


def _utc(time_ns: int) -> str:
    return f"{datetime.fromtimestamp(-(-time_ns // 10**9), timezone.utc):%Y-%m-%dT%H:%M:%SZ}"


def worst(parts: Sequence[Judged]) -> Verdict:
    """Return the verdict of the whole: a violation in any part is one; all must be compliant for compliance."""
    verdicts = {part.result.verdict for part in parts}
    for verdict in (Verdict.VIOLATION, Verdict.INCONCLUSIVE):
        if verdict in verdicts:
            return verdict
    return Verdict.COMPLIANT


def json_text(parts: Sequence[Judged]) -> str:
    """Return the result as a JSON document: the one part's, or all parts with the verdict of the whole."""
    results = [to_json(part.result) for part in parts]
    if len(results) == 1:
        return json.dumps(results[0], indent=2) + "\n"
    whole = {
        "site": parts[0].result.site,
        "period": {
            "from_ns": str(parts[0].result.period.from_ns),
            "to_ns": str(parts[-1].result.period.to_ns),
        },
        "parts": results,
        "verdict": worst(parts).value,
    }
    return json.dumps(whole, indent=2) + "\n"


def in_force(journal: Journal) -> Site:
    """Return the site as it is in force now.

    Raises:
        OperatorError: no site file was ever journaled.
    """
    entry = journal.last(Kind.SITE)
    if entry is None:
        raise OperatorError(f"{journal.path} holds no site file. Make journals with `weighbridge init`.")
    return loads(entry.body, f"{journal.path}, leaf {entry.leaf}")


def end_of_now_ns(journal: Journal, site: Site, now_ns: int) -> int:
    """Return where a period that ends "now" ends: as far as every observer that still looks has looked.

    If nobody has for longer than the site lets pass as covered, it ends now indeed: the silence belongs to the period,
    and what was seen long ago must not pass for the present.
    """
    end = end_of_evidence_ns(journal, site)
    oldest_refresh = max((switch.refresh_ns for switch in site.switches), default=0)
    allowed = site.assumptions.crosscheck.largest_gap_ns + oldest_refresh
    return now_ns if end is None or end < now_ns - allowed else min(end, now_ns)


def differs(site: Site, journal: Journal) -> str | None:
    """Return a sentence if the site file on disk is not the one in force, or None."""
    entry = journal.last(Kind.SITE)
    if entry is None or entry.body == site.content:
        return None
    ours, theirs = (hashlib.sha256(content).hexdigest()[:12] for content in (site.content, entry.body))
    return (
        f"{site.path} ({ours}) is not the site file in force ({theirs}, leaf {entry.leaf}), which counts here; "
        "the next `weighbridge run` journals the new one"
    )


def too_late(period: Period, now_ns: int) -> OperatorError | None:
    """Return the error of a period that ends in the future, or None."""
    if period.to_ns <= now_ns:
        return None
    ahead = format_duration(period.to_ns - now_ns)
    return OperatorError(f"the period ends {ahead} in the future, where nothing is known. End it at `now`.")
