"""Pruning: what goes, what stays, what is refused; and that nobody can drop a body without saying so in the log."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from controller import journal_prune
from controller.bundle import Extent, read_head, write_bundle
from controller.bundle_entries import read_entries
from controller.bundle_make import issue, write
from controller.bundle_steps import Step, StepError, verify_bytes
from controller.crosscheck.model import Period
from controller.errors import EvidenceError, OperatorError
from controller.evidence.policy import Policy
from controller.journal import Journal, Kind, NewEntry
from controller.journal_export import export
from controller.journal_fsck import fsck
from controller.journal_log import publish
from controller.journal_prune import KEPT_BEFORE_NS, Plan, carry_out, decide, plan, refuse_if_needed
from controller.judgement import json_text, judge_period
from controller.logkeys import SiteKeys, load_log_public, make_site_keys

SECOND = 1_000_000_000
NOW = 1_796_072_400 * SECOND
HOUR = 3600 * SECOND
DEMO = Path(__file__).parent / "site_ok" / "demo.yaml"
CUT = NOW - HOUR


@dataclass(frozen=True)
class Site:
    journal: Journal
    keys: SiteKeys

    def report(self, period: Period) -> int:
        parts = judge_period(self.journal, period)
        return issue(self.journal, self.keys, parts, size=len(self.journal), period=period, now_ns=NOW)

    def prune(self, *settled: int) -> int:
        what = plan(self.journal, CUT)
        refuse_if_needed(self.journal, what, settled)
        publish(self.journal, self.keys.log)
        decide(self.journal, "demo", what, settled, now_ns=NOW)
        return carry_out(self.journal)

    def faults(self) -> list[str]:
        return [fault.text for fault in fsck(self.journal, load_log_public(self.journal.path)).faults]


def scrape(at_ns: int) -> NewEntry:
    meta = {"first_sent_ns": str(at_ns), "received_ns": str(at_ns)}
    return NewEntry(Kind.SCRAPE, "node1", at_ns, b"node_boot_time_seconds 1\n# %d\n" % at_ns, meta)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    times = range(NOW - 3 * HOUR, NOW + 1, 60 * SECOND)
    entries = [NewEntry(Kind.SITE, "demo", NOW - 3 * HOUR, DEMO.read_bytes()), *(scrape(at) for at in times)]
    with Journal.create(tmp_path / "journal.db", *entries) as journal:
        yield Site(journal, make_site_keys(journal.path, "demo"))


WHOLE = Period(NOW - 3 * HOUR, CUT)
LATER = Period(CUT, NOW)


def test_bodies_go_and_all_that_proves_them_stays(site: Site) -> None:
    before = publish(site.journal, site.keys.log)
    later = json_text(judge_period(site.journal, LATER))
    leaf = site.report(WHOLE)
    entries = len(site.journal)
    # One a minute from three hours ago; ten minutes before the cut are kept, and the last thirty before these.
    assert site.prune(leaf) == 80
    assert len(site.journal) == entries + 1
    assert site.faults() == []
    assert fsck(site.journal, site.keys.log.public).pruned == 80
    kept = list(site.journal.entries(kinds=[Kind.SCRAPE]))
    assert kept[0].recorded_ns == CUT - KEPT_BEFORE_NS - 30 * 60 * SECOND
    assert all(entry.body for entry in kept)
    # The tree is the one that was signed before, and what is judged from there on is judged the same.
    assert publish(site.journal, site.keys.log).checkpoint.size > before.checkpoint.size
    assert json_text(judge_period(site.journal, LATER)) == later
    with pytest.raises(OperatorError, match="was dropped by a journaled decision"):
        judge_period(site.journal, WHOLE)
    # Dropped content is gone from the file, too.
    site.journal.rows("PRAGMA wal_checkpoint(TRUNCATE)")
    raw = site.journal.path.read_bytes()
    assert b"# %d\n" % (NOW - 3 * HOUR) not in raw
    assert b"# %d\n" % NOW in raw


def test_what_nobody_judged_does_not_go(site: Site) -> None:
    with pytest.raises(OperatorError, match="nobody judged"):
        site.prune()
    site.report(Period(WHOLE.from_ns, CUT - HOUR))
    late = site.report(Period(CUT - HOUR + 1, CUT))
    with pytest.raises(OperatorError, match="nobody judged"):
        site.prune(late, late - 1)
    between = site.report(Period(CUT - 2 * HOUR, CUT))
    assert site.prune(late, late - 1, between) == 80


def test_an_open_report_keeps_its_evidence(site: Site) -> None:
    leaf = site.report(WHOLE)
    with pytest.raises(OperatorError, match=rf"the report in entry {leaf} says inconclusive.*--settled {leaf}"):
        site.prune()
    other = site.report(LATER)
    with pytest.raises(OperatorError, match=f"entry {other} is no report on what would go"):
        site.prune(leaf, other)
    assert site.prune(leaf) == 80
    decision = site.journal.last(Kind.PRUNE)
    assert decision is not None
    assert json.loads(decision.body)["settled"] == [str(leaf)]


def test_times_that_cannot_be(site: Site) -> None:
    with pytest.raises(OperatorError, match="Name an earlier one"):
        plan(site.journal, NOW + 1)
    leaf = site.report(WHOLE)
    site.prune(leaf)
    with pytest.raises(OperatorError, match="dropped all of that already"):
        plan(site.journal, CUT - 1)
    assert plan(site.journal, CUT) == Plan(CUT, plan(site.journal, CUT).stop, 0, 0, None)


def test_a_prune_that_was_interrupted_goes_on(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    leaf = site.report(WHOLE)
    monkeypatch.setattr(journal_prune, "_CHUNK_ENTRIES", 10)
    original, calls = Journal.writing, 0

    @contextlib.contextmanager
    def killed(journal: Journal) -> Iterator[object]:
        nonlocal calls
        calls += 1
        if calls == 5:
            raise KeyboardInterrupt
        with original(journal) as connection:
            yield connection

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "writing", killed)
        with pytest.raises(KeyboardInterrupt):
            carry_out_of(site, leaf)
    assert site.faults() == []
    assert 0 < fsck(site.journal).pruned < 80
    carry_out(site.journal)
    assert fsck(site.journal).pruned == 80
    assert carry_out(site.journal) == 0


def carry_out_of(site: Site, leaf: int) -> None:
    decide(site.journal, "demo", plan(site.journal, CUT), [leaf], now_ns=NOW)
    carry_out(site.journal)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE entry SET body = x'' WHERE leaf = 5",
        "UPDATE entry SET body = x'00' WHERE leaf = 3",
        "UPDATE entry SET body = x'', meta = '{}' WHERE leaf = 3",
        "UPDATE entry SET body = x'' WHERE leaf = 0",
        "DELETE FROM entry WHERE leaf = 3",
        "UPDATE prune SET stop = 170",
        "DELETE FROM prune",
        "INSERT INTO prune VALUES (1, 1, 100)",
    ],
)
def test_nothing_else_can_be_changed_by_mistake(site: Site, statement: str) -> None:
    site.journal.append(NewEntry(Kind.RUN_STOP, "controller", NOW, b"{}"))
    with site.journal.writing() as connection:
        connection.execute("INSERT INTO prune VALUES (4, 1, 100)")
    with pytest.raises(Exception, match=r"append-only|stays dropped"), site.journal.writing() as connection:
        connection.execute(statement)
    with site.journal.writing() as connection:
        connection.execute("UPDATE entry SET body = x'' WHERE leaf = 3")


def test_fsck_names_bodies_that_nobody_decided_to_drop(site: Site) -> None:
    with site.journal.writing() as connection:
        connection.execute("INSERT INTO prune VALUES (4, ?, 100)", (NOW,))
        connection.execute("UPDATE entry SET body = x'' WHERE leaf = 2")
    path = site.journal.path
    assert site.faults() == [f"{path}: bodies before leaf 4 may go, and leaf 100 does not say so"]
    with site.journal.writing() as connection:
        connection.execute("UPDATE entry SET body = x'' WHERE leaf = 3")
    assert f"{path}: the body of leaf 3, the last of its kind, was not to be dropped" in site.faults()


# ---------------------------------------------------------------- bundles of a pruned journal


@pytest.fixture
def bundle(site: Site, tmp_path: Path) -> tuple[bytes, Policy]:
    site.prune(site.report(WHOLE))
    size = len(site.journal)
    parts = judge_period(site.journal, LATER)
    leaf = issue(site.journal, site.keys, parts, size=size, period=LATER, now_ns=NOW)
    result = json_text(parts).encode()
    path = tmp_path / "bundle"
    write(site.journal, site.keys, path, leaf=leaf, size=size, result=result, extent=Extent.FULL)
    return path.read_bytes(), Policy(site.keys.log.public, (site.keys.report_public,), 1, (), 0, None)


def test_a_full_bundle_of_what_is_left_is_recomputed(bundle: tuple[bytes, Policy]) -> None:
    said: list[str] = []
    assert verify_bytes(bundle[0], bundle[1], lambda _, text: said.append(text)).recomputed
    assert any("of 80 only the leaf" in text for text in said)


def test_a_bundle_cannot_leave_a_body_out(bundle: tuple[bytes, Policy], tmp_path: Path) -> None:
    raw, policy = bundle
    file = io.BytesIO(raw)
    head, entries = read_head(file), list(read_entries(file))
    numbers = [n for n, (_, body) in enumerate(entries) if body is not None]
    # The last before the cut, what measures after it, and what decides.
    assert numbers[0] == 0
    for victim in (numbers[1], numbers[-3], numbers[-1], 0):
        spoilt = [(leaf, None if n == victim else body) for n, (leaf, body) in enumerate(entries)]
        write_bundle(tmp_path / "spoilt", head, spoilt)
        with pytest.raises(StepError) as caught:
            verify_bytes((tmp_path / "spoilt").read_bytes(), policy, lambda *_: None)
        assert caught.value.step is Step.ENTRIES


def test_a_decision_cannot_name_an_early_time_and_take_what_came_later(site: Site, tmp_path: Path) -> None:
    publish(site.journal, site.keys.log)
    stop = len(site.journal) - 3
    body = json.dumps({"before_ns": str(NOW - 3 * HOUR), "stop": str(stop)}).encode()
    (leaf,) = site.journal.append(NewEntry(Kind.PRUNE, "demo", NOW, body))
    with pytest.raises(EvidenceError, match="recorded later than it says"):
        carry_out(site.journal)
    # Whoever does it behind the program's back is found by fsck, and by whoever is handed a bundle.
    with site.journal.writing() as connection:
        connection.execute("INSERT INTO prune VALUES (?, ?, ?)", (stop, NOW - 3 * HOUR, leaf))
        connection.execute("UPDATE entry SET body = x'' WHERE kind = 'scrape' AND leaf BETWEEN 100 AND ?", (stop - 9,))
    assert any("recorded later than it says" in text for text in site.faults())
    size = len(site.journal)
    parts = judge_period(site.journal, LATER)
    logged = issue(site.journal, site.keys, parts, size=size, period=LATER, now_ns=NOW)
    result, path = json_text(parts).encode(), tmp_path / "bundle"
    write(site.journal, site.keys, path, leaf=logged, size=size, result=result, extent=Extent.FULL)
    policy = Policy(site.keys.log.public, (site.keys.report_public,), 1, (), 0, None)
    with pytest.raises(StepError, match=r"step 9.*body of entry 100 is missing, and the report's period needs it"):
        verify_bytes(path.read_bytes(), policy, lambda *_: None)
    # As bundles of version 1 were written, in which decisions excused what is missing.
    file = io.BytesIO(path.read_bytes())
    head, entries = read_head(file), list(read_entries(file))
    write_bundle(path, replace(head, version=1), entries)
    with pytest.raises(StepError, match=r"step 9.*recorded later than it says"):
        verify_bytes(path.read_bytes(), policy, lambda *_: None)


def test_a_full_bundle_leaves_out_what_its_period_does_not_need_and_no_more(site: Site, tmp_path: Path) -> None:
    size = len(site.journal)
    parts = judge_period(site.journal, LATER)
    leaf = issue(site.journal, site.keys, parts, size=size, period=LATER, now_ns=NOW)
    result, path = json_text(parts).encode(), tmp_path / "bundle"
    write(site.journal, site.keys, path, leaf=leaf, size=size, result=result, extent=Extent.FULL)
    policy = Policy(site.keys.log.public, (site.keys.report_public,), 1, (), 0, None)
    assert verify_bytes(path.read_bytes(), policy, lambda *_: None).computed == result.decode()
    file = io.BytesIO(path.read_bytes())
    head, entries = read_head(file), list(read_entries(file))
    missing = [number for number, (_, body) in enumerate(entries) if body is None]
    # The scrapes of three hours but the last, the ten minutes before it, and thirty before these.
    assert missing == list(range(1, 81))
    for victim in (0, 81, len(entries) - 1):
        spoilt = [(data, None if n == victim else body) for n, (data, body) in enumerate(entries)]
        write_bundle(path, head, spoilt)
        with pytest.raises(StepError) as caught:
            verify_bytes(path.read_bytes(), policy, lambda *_: None)
        assert caught.value.step is Step.ENTRIES
    # Everything may be there as well.
    whole = [(data, entry.body) for (data, _), entry in zip(entries, site.journal.entries(), strict=False)]
    write_bundle(path, head, whole)
    assert verify_bytes(path.read_bytes(), policy, lambda *_: None).computed == result.decode()


def test_a_report_about_what_was_dropped_cannot_be_recomputed(site: Site, tmp_path: Path) -> None:
    parts = judge_period(site.journal, WHOLE)
    site.prune(site.report(WHOLE))
    size = len(site.journal)
    leaf = issue(site.journal, site.keys, parts, size=size, period=WHOLE, now_ns=NOW)
    result, path = json_text(parts).encode(), tmp_path / "bundle"
    policy = Policy(site.keys.log.public, (site.keys.report_public,), 1, (), 0, None)
    write(site.journal, site.keys, path, leaf=leaf, size=size, result=result, extent=Extent.FULL)
    with pytest.raises(StepError, match="body of entry 1 is missing, and the report's period needs it"):
        verify_bytes(path.read_bytes(), policy, lambda *_: None)
    write(site.journal, site.keys, path, leaf=leaf, size=size, result=result, extent=Extent.SUMMARY)
    verify_bytes(path.read_bytes(), replace(policy, threshold=1), lambda *_: None)


# ---------------------------------------------------------------- copies for the other side


def test_a_copy_checks_anywhere(site: Site, tmp_path: Path) -> None:
    publish(site.journal, site.keys.log)
    path = tmp_path / "elsewhere" / "copy.db"
    path.parent.mkdir()
    assert export(site.journal, path) == len(site.journal)
    assert sorted(each.name for each in path.parent.iterdir()) == ["copy.db"]
    with Journal.open(path, read_only=True) as copy:
        assert fsck(copy, site.keys.log.public).faults == ()
        assert list(copy.entries()) == list(site.journal.entries())
        assert "signatures of 1 checkpoints" in fsck(copy).unchecked[0]
    with pytest.raises(OperatorError, match="exists already"):
        export(site.journal, path)
    with pytest.raises(OperatorError, match="cannot be written"):
        export(site.journal, tmp_path / "no" / "folder")


def test_a_copy_of_a_pruned_journal_checks_as_well(site: Site, tmp_path: Path) -> None:
    site.prune(site.report(WHOLE))
    publish(site.journal, site.keys.log)
    export(site.journal, tmp_path / "copy.db")
    with Journal.open(tmp_path / "copy.db", read_only=True) as copy:
        found = fsck(copy, site.keys.log.public)
    assert (found.faults, found.pruned) == ((), 80)


def test_a_decision_that_cannot_be_read_is_a_fault(site: Site) -> None:
    site.journal.append(NewEntry(Kind.PRUNE, "demo", NOW, b"{}"))
    assert any("not a decision to prune" in text for text in site.faults())
    with pytest.raises(EvidenceError, match="not a decision"):
        carry_out(site.journal)
