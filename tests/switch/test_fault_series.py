"""What the series of faults on a real agent is judged by can say no."""

from __future__ import annotations

from pathlib import Path

from controller.collect.attempts import Look, LookFailed, Reason, attempt_entry
from controller.journal import Journal
from hil.bench.switch_faults import FAULTS, Outcome, Scene
from switch.continuity import EpochReason


def outcome(sent: int, least: int, most: int | None) -> Outcome:
    return Outcome(1.0, frozenset(), as_expected=True, sent=sent, least=least, most=most, spared=True)


def test_bytes_outside_what_is_stated_are_not_true() -> None:
    assert outcome(5, 5, 5).true
    assert outcome(5, 0, None).true
    assert not outcome(5, 6, None).true
    assert not outcome(5, 0, 4).true


def test_each_fault_has_reasons_that_are_words_of_the_journal() -> None:
    words = {reason.value for reason in Reason} | {reason.value for reason in EpochReason}
    words |= {"absent", "truncated", "unsupported"}
    assert len({fault.name for fault in FAULTS}) == len(FAULTS) == 7
    for fault in FAULTS:
        assert fault.reasons
        assert fault.reasons | fault.also <= words, fault.name
        assert not fault.reasons & fault.also


def test_failed_looks_are_read_as_they_come(tmp_path: Path) -> None:
    with Journal.create(tmp_path / "journal.db") as journal:
        scene = Scene(journal)
        assert scene.reasons() == set()
        for at, reason in enumerate((Reason.TIMEOUT, Reason.AUTH)):
            failure = LookFailed(Look.POLL, reason, "no")
            journal.append(attempt_entry(failure, source="lab", first_sent_ns=at, gave_up_ns=at + 1))
            assert reason.value in scene.reasons()
        assert scene.reasons() == {"timeout", "auth"}
