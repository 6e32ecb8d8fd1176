"""Figures of rules and detection: from recorded runs to false alarms a year, and from a byte to an alert.

About half an hour on two quiet cores: three node-years of each honest class, a gigabyte in each format, and five rounds
on a rig with the report's stack beside ours.
"""

from __future__ import annotations

from collections.abc import Iterator

from hil.bench import alert_latency, rules_corpus, rules_fleet, rules_replay
from hil.bench.figure import Figure


def figures() -> Iterator[Figure]:
    """Yield every figure of this area."""
    yield from alert_latency.figures()
    yield from rules_fleet.figures()
    yield from rules_replay.figures()
    yield from rules_corpus.trained()
    yield from rules_corpus.honest()
