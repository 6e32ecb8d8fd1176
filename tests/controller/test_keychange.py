"""A log's new key: who signs which checkpoint, what a crash leaves, and that no other key goes on."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from controller import keychange
from controller.errors import EvidenceError, OperatorError
from controller.evidence import note as notes
from controller.evidence.checkpoint import open_checkpoint
from controller.evidence.note import KeyKind, Note, NoteKey
from controller.evidence.refusal import VerificationError
from controller.journal import Journal, Kind, NewEntry
from controller.journal_fsck import fsck
from controller.journal_log import publish, sizes, stored
from controller.keychange import change_log_key
from controller.logkeys import SigningKey, key_faults, keys_folder, load_log_public, make_site_keys
from controller.logrotation import KeyHistory, handover_text
from controller.witness import RefusalError
from controller.witness_store import Witness


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    with Journal.create(tmp_path / "journal.db", NewEntry(Kind.SITE, "demo", 1, b"site")) as journal:
        yield journal


def log_of(journal: Journal) -> SigningKey:
    return make_site_keys(journal.path, "demo").log


def grow(journal: Journal, key: SigningKey, count: int = 3) -> int:
    start = len(journal)
    journal.append(*(NewEntry(Kind.POLL, "sw1", n, b"%d" % n) for n in range(start, start + count)))
    return publish(journal, key).checkpoint.size


def faults(journal: Journal) -> list[str]:
    return [fault.text for fault in fsck(journal, load_log_public(journal.path)).faults]


def test_each_checkpoint_is_of_the_key_of_its_time(journal: Journal) -> None:
    keys = [log_of(journal)]
    signed = [[grow(journal, keys[0])]]
    for _ in range(2):
        grow(journal, keys[-1])
        keys.append(change_log_key(journal, "demo", now_ns=5))
        signed.append([sizes(journal)[-1], grow(journal, keys[-1])])
    assert len({key.public for key in keys}) == 3
    assert log_of(journal).public == keys[-1].public
    for key, found in zip(keys, signed, strict=True):
        for size in found:
            open_checkpoint(stored(journal, size).note.encode(), key.public)
    assert faults(journal) == []
    assert key_faults(journal.path, signed=True) == ([], [])
    folder = keys_folder(journal.path)
    assert sorted(path.name for path in folder.glob("retired-*")) == sorted(
        f"retired-{key.public.key_id.hex()}.vkey" for key in keys[:2]
    )
    assert not list(folder.glob("next*"))


def test_the_old_key_signs_no_more(journal: Journal) -> None:
    old = log_of(journal)
    grow(journal, old)
    new = change_log_key(journal, "demo", now_ns=5)
    with pytest.raises(EvidenceError, match="no checkpoint was signed"):
        grow(journal, old)
    grow(journal, new)
    # Whoever trusts the old one only sees that it does not reach the newest checkpoint.
    with pytest.raises(VerificationError):
        open_checkpoint(stored(journal, sizes(journal)[-1]).note.encode(), old.public)


@pytest.mark.parametrize("moment", ["append", "write_text", "replace", "_finish_names", "publish"])
def test_a_crash_at_any_moment_leaves_a_change_that_can_be_finished(
    journal: Journal, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    old = log_of(journal)
    grow(journal, old)

    class KilledError(BaseException):
        pass

    seen = 0

    def killed(*_: object, **__: object) -> None:
        nonlocal seen
        seen += 1
        # These two are called before as well, for what an earlier change left.
        if moment not in {"_finish_names", "publish"} or seen == 2:
            raise KilledError

    target = {"append": Journal, "write_text": Path, "replace": Path}.get(moment, keychange)
    with monkeypatch.context() as patch:
        patch.setattr(target, moment, killed)
        with pytest.raises(KilledError):
            change_log_key(journal, "demo", now_ns=5)
    new = change_log_key(journal, "demo", now_ns=6)
    assert new.public != old.public
    grow(journal, new)
    assert faults(journal) == []
    assert key_faults(journal.path, signed=True) == ([], [])


def test_a_handover_that_the_old_key_did_not_sign_is_none(journal: Journal) -> None:
    old = log_of(journal)
    grow(journal, old)
    thief = Ed25519PrivateKey.generate()
    new = SigningKey(NoteKey(old.public.name, KeyKind.LOG, thief.public_key().public_bytes_raw()), thief)
    text = handover_text(old.public, new.public)
    alone = notes.sign(text, new.public.name, thief)
    twice = Note(text, (alone.signatures[0], alone.signatures[0]))
    for body in (alone.encode(), twice.encode(), b"junk", notes.sign("weighbridge log key v1\n", "x", thief).encode()):
        with Journal.create(journal.path.with_name(f"copy{len(body)}.db")) as copy:
            copy.append(NewEntry(Kind.LOG_KEY, old.public.name, 1, body))
            assert KeyHistory(copy, new.public).fault is not None
            with pytest.raises(EvidenceError, match="no checkpoint was signed"):
                publish(copy, new)


def test_a_witness_takes_the_new_key_only_when_told(journal: Journal, tmp_path: Path) -> None:
    from controller.cosigning import request_for  # noqa: PLC0415

    old = log_of(journal)
    witness = Witness.make(tmp_path / "witness", "prover.example/witness")
    witness.trust(old.public)
    grow(journal, old)
    witness.add_checkpoint(request_for(journal, witness.key.public)[1].encode())
    new = change_log_key(journal, "demo", now_ns=5)
    size = sizes(journal)[0]
    with pytest.raises(RefusalError, match="not signed by a key that is trusted"):
        witness.add_checkpoint(request_for(journal, witness.key.public, size)[1].encode())
    witness.trust(new.public)
    witness.add_checkpoint(request_for(journal, witness.key.public, size)[1].encode())


def test_halves_that_do_not_belong_together_are_named(journal: Journal) -> None:
    log_of(journal)
    folder = keys_folder(journal.path)
    shutil.copy(folder / "report.pem", folder / "log.pem")
    with pytest.raises(OperatorError, match="do not belong together"):
        log_of(journal)
    assert "do not belong together" in key_faults(journal.path, signed=True)[0][0]
