"""Signed notes, checkpoints and cosignatures: the specifications' examples, and what must not pass."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from controller.evidence import checkpoint as checkpoints
from controller.evidence import note as notes
from controller.evidence.checkpoint import Checkpoint, check_cosignature, check_quorum, cosign, open_checkpoint
from controller.evidence.note import KeyKind, Note, NoteKey, Signature, decode_key
from controller.evidence.refusal import VerificationError
from controller.evidence.tree import EMPTY_ROOT

LOG_KEY, WITNESS_KEY, OTHER_KEY = (Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32) for number in (1, 2, 3))
ORIGIN = "weighbridge/demo"
LOG = NoteKey(ORIGIN, KeyKind.LOG, LOG_KEY.public_key().public_bytes_raw())
WITNESS = NoteKey("prover.example/witness", KeyKind.WITNESS, WITNESS_KEY.public_key().public_bytes_raw())
CHECKPOINT = Checkpoint(ORIGIN, 7, bytes(range(32)))
SIGNED = checkpoints.sign(CHECKPOINT, LOG_KEY)

# c2sp.org/signed-note, "Example"; c2sp.org/tlog-checkpoint; c2sp.org/tlog-cosignature.
EXAMPLE_KEY = "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k"
EXAMPLE = (
    "This is an example message.\n\n— example.com/foo Uw2QOkn8srV1yJGh2VYRlL1Tnagv1YEq6TfXppzi2ONncAlTgK7Ztg1ERYNZXsYj"
    "OBH3mFXmRKuwHjG1Yu72IneyaQM=\n"
)
COSIGNED = (
    "example.com/behind-the-sofa\n20852163\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n\n"
    "— example.com/behind-the-sofa Az3grlgtzPICa5OS8npVmf1Myq/5IZniMp+ZJurmRDeOoRDe4URYN7u5/Zhcyv2q1gGzGku9nTo+zyWE+xe"
    "McTOAYQ8=\n— witness.example.com/w1 jWbPPwAAAABkGFDLEZMHwSRaJNiIDoe9DYn/zXcrtPHeolMI5OWXEhZCB9dlrDJsX3b2oyin1nPZqh"
    "f5nNo0xUe+mbIUBkBIfZ+qnA==\n"
)


def with_signature(note: Note, *signatures: Signature) -> Note:
    return Note(note.text, (*note.signatures, *signatures))


def test_the_examples_of_the_specifications() -> None:
    key = decode_key(EXAMPLE_KEY)
    assert key.encode() == EXAMPLE_KEY
    note = notes.decode(EXAMPLE.encode())
    notes.check_signed(note, [key])
    assert note.encode() == EXAMPLE.encode()
    cosigned = notes.decode(COSIGNED.encode())
    assert checkpoints.decode(cosigned.text).size == 20852163
    assert cosigned.encode() == COSIGNED.encode()
    assert int.from_bytes(cosigned.signatures[1].signature[:8], "big") == 1679315147


def test_the_text_was_changed() -> None:
    with pytest.raises(VerificationError, match="not this key's"):
        notes.check_signed(notes.decode(EXAMPLE.replace("an", "no", 1).encode()), [decode_key(EXAMPLE_KEY)])


def test_a_text_with_blank_lines_ends_at_the_last_one() -> None:
    note = notes.sign("a\n\nb\n", ORIGIN, LOG_KEY)
    assert notes.decode(note.encode()).text == "a\n\nb\n"


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"text\n",
        b"text\n\n",
        EXAMPLE.encode()[:-1],
        EXAMPLE.replace("\n\n", "\n").encode(),
        EXAMPLE.replace("— ", "- ").encode(),
        EXAMPLE.replace("/foo Uw", "/foo  Uw").encode(),
        EXAMPLE.replace("aQM=", "aQN=").encode(),
        EXAMPLE.replace("aQM=", "aQM").encode(),
        EXAMPLE.replace("message", "mess\x07age").encode(),
        EXAMPLE.replace("message", "mess\rage").encode(),
        EXAMPLE.replace("message", "mess\x00age").encode(),
        EXAMPLE.encode() + b"\n",
        EXAMPLE.encode() + b"more\n",
        EXAMPLE.encode().replace(b"message", b"\xff"),
        EXAMPLE.replace("example.com/foo", "exa+mple").encode(),
        EXAMPLE.replace("example.com/foo", "exa\u00a0mple").encode(),
        "text\n\n— a AAAAAA==\n".encode(),
        b"x" * (notes.MAX_NOTE_BYTES + 1),
        ("text\n\n" + "— a AAAAAAA=\n" * (notes.MAX_SIGNATURES + 1)).encode(),
    ],
)
def test_forms_that_are_no_note(raw: bytes) -> None:
    with pytest.raises(VerificationError):
        notes.decode(raw)


def test_unknown_signatures_are_passed_over() -> None:
    stranger = Signature(LOG.name, b"\x00\x00\x00\x01", b"anything")
    namesake = Signature("stranger", LOG.key_id, b"anything")
    note = notes.decode(Note(SIGNED.text, (stranger, namesake, *SIGNED.signatures)).encode())
    assert open_checkpoint(note.encode(), LOG)[0] == CHECKPOINT


def test_an_invalid_signature_beside_a_valid_one_meant_success() -> None:
    bad = Signature(LOG.name, LOG.key_id, bytes(64))
    with pytest.raises(VerificationError, match="not this key's"):
        open_checkpoint(Note(SIGNED.text, (bad, *SIGNED.signatures)).encode(), LOG)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a+b",
        EXAMPLE_KEY.replace("530d903a", "530d903b"),
        EXAMPLE_KEY.replace("530d903a", "530D903A"),
        EXAMPLE_KEY.replace("example.com/foo", "example.com/bar"),
        EXAMPLE_KEY[:-1],
        EXAMPLE_KEY.replace("+Aeky", "+Aeky "),
        EXAMPLE_KEY.replace("example.com/foo", ""),
        NoteKey("identity", KeyKind.LOG, (1).to_bytes(32, "little")).encode(),
        NoteKey("not-canonical", KeyKind.LOG, b"\xff" * 32).encode(),
        NoteKey("short", KeyKind.LOG, b"\xff" * 31).encode(),
        f"kind+00000000+{base64.b64encode(bytes([2]) + LOG.public_key).decode()}",
    ],
)
def test_keys_that_are_none(text: str) -> None:
    with pytest.raises(VerificationError):
        decode_key(text)


def test_checkpoint_round_trip() -> None:
    assert open_checkpoint(SIGNED.encode(), LOG) == (CHECKPOINT, SIGNED)
    extended = Checkpoint(ORIGIN, 0, EMPTY_ROOT, ("more", "lines"))
    assert open_checkpoint(checkpoints.sign(extended, LOG_KEY).encode(), LOG)[0] == extended


@pytest.mark.parametrize(
    "text",
    [
        "a\n1\n",
        "a\n1\nx\n",
        "\n1\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n",
        "a\n01\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n",
        "a\n+1\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n",
        "a\n-1\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n",
        "a\n9223372036854775808\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n",
        "a\n1\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA==\n",
        "a\n1\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAB=\n",
        "a\n0\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n",
        "a\n1\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n\nmore\n",
        "a\n1\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
    ],
)
def test_checkpoints_that_are_none(text: str) -> None:
    with pytest.raises(VerificationError):
        checkpoints.decode(text)
    if text.endswith("\n"):
        with pytest.raises(VerificationError):
            open_checkpoint(notes.sign(text, ORIGIN, LOG_KEY).encode(), LOG)


def test_a_checkpoint_of_another_log_under_the_same_key() -> None:
    other = notes.sign(Checkpoint("weighbridge/other", 7, bytes(32)).encode(), ORIGIN, LOG_KEY)
    with pytest.raises(VerificationError, match="another log"):
        open_checkpoint(other.encode(), LOG)


def test_a_witness_key_signed_as_the_log() -> None:
    with pytest.raises(VerificationError, match="not signed by"):
        open_checkpoint(SIGNED.encode(), NoteKey(ORIGIN, KeyKind.WITNESS, LOG.public_key))


@given(time_s=st.integers(1, 2**63 - 1))
def test_cosignature_round_trip(time_s: int) -> None:
    note = with_signature(SIGNED, cosign(SIGNED, WITNESS.name, WITNESS_KEY, time_s))
    assert check_cosignature(notes.decode(note.encode()), WITNESS) == time_s
    assert open_checkpoint(note.encode(), LOG)[0] == CHECKPOINT


def test_a_cosignature_with_another_time() -> None:
    good = cosign(SIGNED, WITNESS.name, WITNESS_KEY, 1_000)
    late = Signature(good.name, good.key_id, (1_001).to_bytes(8, "big") + good.signature[8:])
    with pytest.raises(VerificationError, match="not this key's"):
        check_cosignature(with_signature(SIGNED, late), WITNESS)
    for time_s in (0, 2**63):
        bad = Signature(good.name, good.key_id, time_s.to_bytes(8, "big") + good.signature[8:])
        with pytest.raises(VerificationError, match="no time"):
            check_cosignature(with_signature(SIGNED, bad), WITNESS)
        with pytest.raises(VerificationError, match="time"):
            cosign(SIGNED, WITNESS.name, WITNESS_KEY, time_s)


def test_a_cosignature_of_another_checkpoint() -> None:
    other = checkpoints.sign(Checkpoint(ORIGIN, 8, bytes(32)), LOG_KEY)
    with pytest.raises(VerificationError, match="not this key's"):
        check_cosignature(with_signature(SIGNED, cosign(other, WITNESS.name, WITNESS_KEY, 5)), WITNESS)


def test_a_plain_signature_passed_as_a_cosignature() -> None:
    plain = Signature(WITNESS.name, WITNESS.key_id, WITNESS_KEY.sign(SIGNED.text.encode()))
    timed = Signature(WITNESS.name, WITNESS.key_id, bytes(7) + b"\x05" + WITNESS_KEY.sign(SIGNED.text.encode()))
    for signature in (plain, timed):
        with pytest.raises(VerificationError):
            check_cosignature(with_signature(SIGNED, signature), WITNESS)


def test_the_quorum_counts_keys_not_names() -> None:
    alias = NoteKey("prover.example/alias", KeyKind.WITNESS, WITNESS.public_key)
    note = with_signature(
        SIGNED, cosign(SIGNED, WITNESS.name, WITNESS_KEY, 5), cosign(SIGNED, alias.name, WITNESS_KEY, 6)
    )
    assert check_quorum(note, [WITNESS, alias], 1) == {WITNESS.name: 5, alias.name: 6}
    with pytest.raises(VerificationError, match="1 of the policy's witnesses"):
        check_quorum(note, [WITNESS, alias], 2)
    with pytest.raises(VerificationError, match="0 of the policy's witnesses"):
        check_quorum(SIGNED, [WITNESS], 1)
    assert check_quorum(SIGNED, [WITNESS], 0) == {}


@given(position=st.integers(0, 10_000), bit=st.integers(0, 7))
def test_any_flipped_bit_of_a_cosigned_checkpoint(position: int, bit: int) -> None:
    raw = bytearray(with_signature(SIGNED, cosign(SIGNED, WITNESS.name, WITNESS_KEY, 5)).encode())
    raw[position % len(raw)] ^= 1 << bit

    def verified() -> Any:
        found, note = open_checkpoint(bytes(raw), LOG)
        return found, check_quorum(note, [WITNESS], 1)

    with pytest.raises(VerificationError):
        verified()


@pytest.mark.parametrize("name", ["", "a b", "a+b", "a\u2003b", "a\x07"])
def test_names_that_keys_cannot_have(name: str) -> None:
    with pytest.raises(VerificationError, match="name"):
        notes.sign("text\n", name, OTHER_KEY)
