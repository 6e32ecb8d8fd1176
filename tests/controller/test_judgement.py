"""From a journal to a verdict: where "now" ends, which site file counts, and that the whole is its worst part."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from controller.crosscheck.model import Period, Verdict
from controller.errors import OperatorError
from controller.journal import Journal, Kind, NewEntry
from controller.judgement import EXIT_CODES, Part, differs, end_of_now_ns, in_force, judge_period, too_late, worst
from controller.site import Site, load

SECOND = 1_000_000_000
NOW = 1_796_072_400 * SECOND
DEMO = Path(__file__).parent / "site_ok" / "demo.yaml"


@pytest.fixture
def site() -> Site:
    return load(DEMO, secrets=False)


@pytest.fixture
def journal(tmp_path: Path, site: Site) -> Iterator[Journal]:
    with Journal.create(tmp_path / "j.db", NewEntry(Kind.SITE, "demo", NOW - 900 * SECOND, site.content)) as journal:
        yield journal


def look(journal: Journal, kind: Kind, source: str, *, sent_ns: int, received_ns: int) -> None:
    meta = {"first_sent_ns": str(sent_ns), "received_ns": str(received_ns)}
    journal.append(NewEntry(kind, source, received_ns, b"", {**meta}))


def test_now_ends_where_everyone_has_looked(journal: Journal, site: Site) -> None:
    look(journal, Kind.SCRAPE, "node1", sent_ns=NOW - SECOND, received_ns=NOW - SECOND + 5)
    look(journal, Kind.POLL, "sw1", sent_ns=NOW - 2 * SECOND, received_ns=NOW - 2 * SECOND + 5)
    # The switch may serve counters of 3.5 s before it was asked.
    assert end_of_now_ns(journal, site, NOW) == NOW - 5_500_000_000


def test_what_was_seen_long_ago_does_not_pass_for_the_present(journal: Journal, site: Site) -> None:
    allowed = 6 * SECOND + 3_500_000_000  # the largest gap, and the switch's refresh period
    look(journal, Kind.SCRAPE, "node1", sent_ns=NOW - allowed, received_ns=NOW - allowed)
    assert end_of_now_ns(journal, site, NOW) == NOW - allowed
    assert end_of_now_ns(journal, site, NOW + 1) == NOW + 1


def test_now_of_a_journal_without_readings(journal: Journal, site: Site) -> None:
    assert end_of_now_ns(journal, site, NOW) == NOW


def test_evidence_never_lies_in_the_future(journal: Journal, site: Site) -> None:
    look(journal, Kind.SCRAPE, "node1", sent_ns=NOW + 50, received_ns=NOW + 60)
    assert end_of_now_ns(journal, site, NOW) == NOW


def test_each_part_is_judged_by_the_site_file_in_force_then(journal: Journal, site: Site) -> None:
    stricter = site.content.replace(b"bytes: 10MB", b"bytes: 1MB")
    journal.append(NewEntry(Kind.SITE, "demo", NOW - 60 * SECOND, stricter))
    parts = judge_period(journal, Period(NOW - 120 * SECOND, NOW))
    assert [part.result.period for part in parts] == [
        Period(NOW - 120 * SECOND, NOW - 60 * SECOND),
        Period(NOW - 60 * SECOND, NOW),
    ]
    assert [part.site.limits[0].bytes for part in parts] == [10_000_000, 1_000_000]
    assert worst(parts) is Verdict.INCONCLUSIVE
    assert in_force(journal).limits[0].bytes == 1_000_000
    (before,) = judge_period(journal, Period(NOW - 120 * SECOND, NOW - 60 * SECOND))
    assert before.site.limits[0].bytes == 10_000_000


def test_windows_across_a_change_are_judged_in_the_part_after_it(journal: Journal, site: Site) -> None:
    cut = site.content.replace(b"poll_interval: 1s", b"poll_interval: 2s")
    assert cut != site.content
    journal.append(NewEntry(Kind.SITE, "demo", NOW - 60 * SECOND, cut))
    before, after = judge_period(journal, Period(NOW - 120 * SECOND, NOW))

    def across(part: Part) -> list[str]:
        return [text for link in part.result.links for text in link.undecided if "across the change" in text]

    assert across(before) == []
    assert len(across(after)) == len(after.result.links)
    assert all("trust domains gave evidence" in text for text in across(after))


def test_a_node_on_another_port_cannot_be_tested_across_the_change(journal: Journal, site: Site) -> None:
    port = site.links[0].port.encode()
    moved = site.content.replace(b"port: " + port, b"port: eth77", 1)
    assert moved != site.content
    journal.append(NewEntry(Kind.SITE, "demo", NOW - 60 * SECOND, moved))
    _, after = judge_period(journal, Period(NOW - 120 * SECOND, NOW))
    told = {link.node: link.undecided[-1] for link in after.result.links}
    assert "are not the same before and after it" in told[site.links[0].node]
    assert "are not the same before and after it" not in told[site.links[1].node]


def test_a_site_file_on_disk_that_is_not_in_force_is_named(journal: Journal, site: Site) -> None:
    assert differs(site, journal) is None
    edited = replace(site, content=site.content + b"\n")
    text = differs(edited, journal)
    assert text is not None
    assert str(DEMO) in text
    assert "leaf 0), which counts here" in text


def test_a_journal_without_a_site_file(tmp_path: Path, site: Site) -> None:
    with Journal.create(tmp_path / "bare.db") as journal:
        assert differs(site, journal) is None
        with pytest.raises(OperatorError, match=r"bare\.db holds no site file.*`weighbridge init`"):
            judge_period(journal, Period(0, NOW))
        with pytest.raises(OperatorError, match=r"bare\.db holds no site file"):
            in_force(journal)


def test_a_period_in_the_future() -> None:
    assert too_late(Period(0, NOW), NOW) is None
    error = too_late(Period(0, NOW + 90 * SECOND), NOW)
    assert error is not None
    assert "ends 90 s in the future" in str(error)


def test_the_whole_is_no_better_than_its_worst_part() -> None:
    order = [Verdict.COMPLIANT, Verdict.INCONCLUSIVE, Verdict.VIOLATION]
    for verdicts in itertools.chain.from_iterable(itertools.product(order, repeat=length) for length in (1, 2, 3)):
        parts = [SimpleNamespace(result=SimpleNamespace(verdict=verdict)) for verdict in verdicts]
        assert worst(cast("Sequence[Part]", parts)) is max(verdicts, key=order.index)


def test_exit_codes() -> None:
    assert EXIT_CODES == {Verdict.COMPLIANT: 0, Verdict.VIOLATION: 1, Verdict.INCONCLUSIVE: 3}
