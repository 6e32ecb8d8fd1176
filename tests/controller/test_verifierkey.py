"""The verifier's key: made once, private, importable, and refused where it is not what it must be."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from controller.errors import OperatorError
from controller.verifierkey import (
    import_verifier_key,
    load_verifier_key,
    load_verifier_public,
    make_key_file,
    read_key_file,
    read_public_file,
    verifier_key,
)


def pem_file(path: Path, key: object, mode: int = 0o600) -> Path:
    path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))  # type: ignore[attr-defined]
    path.chmod(mode)
    return path


def test_a_key_is_made_once_and_is_its_owners_alone(tmp_path: Path) -> None:
    journal = tmp_path / "journal.db"
    assert load_verifier_key(journal) is None
    assert load_verifier_public(journal) is None
    made = verifier_key(journal)
    again = verifier_key(journal)
    assert made.private_bytes_raw() == again.private_bytes_raw()
    assert load_verifier_public(journal) == made.public_key().public_bytes_raw()
    assert (tmp_path / "journal.db.keys" / "verifier.pem").stat().st_mode & 0o777 == 0o600


def test_a_key_of_ones_own_is_imported_before_one_is_made_and_not_after(tmp_path: Path) -> None:
    journal, own = tmp_path / "journal.db", Ed25519PrivateKey.generate()
    source = pem_file(tmp_path / "own.pem", own)
    assert import_verifier_key(journal, source) == own.public_key().public_bytes_raw()
    assert verifier_key(journal).private_bytes_raw() == own.private_bytes_raw()
    other = pem_file(tmp_path / "other.pem", Ed25519PrivateKey.generate())
    with pytest.raises(OperatorError, match="already there"):
        import_verifier_key(journal, other)
    assert load_verifier_public(journal) == own.public_key().public_bytes_raw()


def test_what_is_no_private_ed25519_key_is_refused(tmp_path: Path) -> None:
    journal = tmp_path / "journal.db"
    text = tmp_path / "text.pem"
    text.write_text("no key", encoding="ascii")
    text.chmod(0o600)
    for path, why in (
        (pem_file(tmp_path / "curve.pem", generate_private_key(SECP256R1())), "not an Ed25519 key"),
        (pem_file(tmp_path / "open.pem", Ed25519PrivateKey.generate(), 0o644), "others can read"),
        (text, "not an unencrypted PEM private key"),
        (tmp_path / "absent.pem", "cannot be read"),
    ):
        with pytest.raises(OperatorError, match=why):
            import_verifier_key(journal, path)
    assert load_verifier_public(journal) is None


def test_halves_of_two_keys_are_no_key(tmp_path: Path) -> None:
    journal = tmp_path / "journal.db"
    verifier_key(journal)
    public = tmp_path / "journal.db.keys" / "verifier.pub"
    public.write_text(f"{Ed25519PrivateKey.generate().public_key().public_bytes_raw().hex()}\n", encoding="ascii")
    with pytest.raises(OperatorError, match="do not belong together"):
        verifier_key(journal)
    # The identity point would verify forged signatures.
    public.write_text(bytes([1, *[0] * 31]).hex(), encoding="ascii")
    with pytest.raises(OperatorError, match="low order"):
        read_public_file(public)


def test_every_flipped_bit_of_a_private_key_is_told_in_words(tmp_path: Path) -> None:
    """Some make it another algorithm's key, over which the library fails inside."""
    make_key_file(tmp_path / "verifier")
    path = tmp_path / "verifier.pem"
    whole = path.read_bytes()
    for at in range(8 * len(whole)):
        changed = bytearray(whole)
        changed[at // 8] ^= 1 << at % 8
        path.write_bytes(bytes(changed))
        with contextlib.suppress(OperatorError):
            assert read_key_file(tmp_path / "verifier").public_key().public_bytes_raw()
