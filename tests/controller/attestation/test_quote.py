"""Quotes of a real TPM 2.0 in software: what answers a challenge, and what went wrong elsewhere and does not here."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st

from controller.attestation.quote import NONCE_BYTES, Quote, check_quote, open_quote
from controller.attestation.session import LONGEST_NS, Answer, answer, challenge
from controller.errors import EvidenceError
from controller.evidence.refusal import VerificationError
from controller.journal import Journal, Kind

REGISTERS = (0, 1, 7)
DIGEST = hashlib.sha256(bytes(32 * len(REGISTERS))).digest()
NONCE = bytes(range(32))
AGENT = "node1-dpu0"


@dataclass
class Tpm:
    """A software TPM with an attestation key of each kind."""

    folder: Path
    socket: Path

    def run(self, *command: str) -> None:
        # A TPM has room for three keys; without a resource manager nobody else takes them away.
        for each in (command, ("tpm2_flushcontext", "-t")):
            line = [*each, "--tcti", f"swtpm:path={self.socket}"]
            done = subprocess.run(line, cwd=self.folder, capture_output=True, check=False)
            assert done.returncode == 0, done.stderr.decode()

    def make_key(self, kind: str) -> None:
        scheme = {"ecc": "ecdsa", "rsa": "rsassa"}[kind]
        self.run("tpm2_createek", "-c", f"ek-{kind}.ctx", "-G", kind, "-u", f"ek-{kind}.pub")
        self.run(
            *("tpm2_createak", "-C", f"ek-{kind}.ctx", "-c", f"{kind}.ctx", "-G", kind, "-g", "sha256", "-s", scheme),
            *("-u", f"{kind}.pem", "-f", "pem", "-n", f"{kind}.name"),
        )

    def quote(self, nonce: bytes, kind: str = "ecc", registers: tuple[int, ...] = REGISTERS) -> Answer:
        listed = "sha256:" + ",".join(map(str, registers))
        self.run(
            *("tpm2_quote", "-c", f"{kind}.ctx", "-l", listed, "-q", nonce.hex(), "-m", "quote.msg", "-s", "quote.sig"),
            *("-g", "sha256"),
        )
        read = [(self.folder / name).read_bytes() for name in ("quote.msg", "quote.sig", f"{kind}.pem")]
        return Answer(*read)


@pytest.fixture(scope="module")
def tpm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tpm]:
    if shutil.which("swtpm") is None or shutil.which("tpm2_quote") is None:
        pytest.skip("swtpm and tpm2-tools are not installed: `make setup`")
    folder = tmp_path_factory.mktemp("tpm")
    socket = folder / "s"
    process = subprocess.Popen(
        [
            *("swtpm", "socket", "--tpm2", "--tpmstate", f"dir={folder}", "--flags", "startup-clear"),
            *("--server", f"type=unixio,path={socket}", "--ctrl", f"type=unixio,path={socket}.ctrl"),
        ],
        stdout=subprocess.DEVNULL,
    )
    try:
        for _ in range(600):
            if socket.exists():
                break
            time.sleep(0.1)
        found = Tpm(folder, socket)
        for kind in ("ecc", "rsa"):
            found.make_key(kind)
        yield found
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def good(tpm: Tpm) -> Answer:
    return tpm.quote(NONCE)


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    with Journal.create(tmp_path / "journal.db") as found:
        yield found


def opened(given: Answer) -> Quote:
    return open_quote(given.message, given.signature, given.key_pem)


@pytest.mark.parametrize("kind", ["ecc", "rsa"])
def test_a_quote_of_a_tpm_answers_its_challenge(tpm: Tpm, kind: str) -> None:
    found = opened(tpm.quote(NONCE, kind))
    check_quote(found, NONCE, REGISTERS, DIGEST)
    assert (found.nonce, found.registers, found.digest) == (NONCE, frozenset(REGISTERS), DIGEST)
    assert found.clock_ms > 0


def test_the_nonce_was_never_compared(good: Answer) -> None:
    for other in (bytes(32), NONCE[:-1] + b"\xff", NONCE[:31], b"", NONCE + b"\0"):
        with pytest.raises(VerificationError, match="another challenge"):
            check_quote(opened(good), other, REGISTERS, DIGEST)


def test_the_attacker_chose_what_was_signed(good: Answer) -> None:
    # A key that signs whatever it is given: everything but a quote is refused by its first bytes.
    key = ec.generate_private_key(ec.SECP256R1())
    pem = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)

    def signed(message: bytes) -> Answer:
        r, s = decode_dss_signature(key.sign(message, ec.ECDSA(SHA256())))
        values = b"".join(b"\x00\x20" + each.to_bytes(32, "big") for each in (r, s))
        return Answer(message, b"\x00\x18\x00\x0b" + values, pem)

    check_quote(opened(signed(good.message)), NONCE, REGISTERS, DIGEST)
    for message, why in (
        (b"\xff\x54\x43\x46" + good.message[4:], "not a quote that a TPM made"),  # not TPM_GENERATED_VALUE
        (good.message[:4] + b"\x80\x17" + good.message[6:], "not a quote that a TPM made"),  # a certified key
        (good.message + b"\0", "goes on after its end"),
        (good.message[:-1], "ends too early"),
        (good.message.replace(b"\x00\x0b\x03", b"\x00\x04\x03"), "SHA-256 bank"),
        (b"", "ends too early"),
        (b"\xff" * 5000, "at most"),
    ):
        with pytest.raises(VerificationError, match=why):
            opened(signed(message))


def test_the_selection_of_registers_was_not_the_signed_one(tpm: Tpm, good: Answer) -> None:
    for registers in ((0, 1), (0, 1, 2), (0, 1, 7, 8), ()):
        with pytest.raises(VerificationError, match="other registers"):
            check_quote(opened(good), NONCE, registers, DIGEST)
    with pytest.raises(VerificationError, match="other registers"):
        check_quote(opened(tpm.quote(NONCE, registers=(0, 1))), NONCE, REGISTERS, DIGEST)


def test_other_software_was_booted_and_no_error_tells_what_is_expected(tpm: Tpm) -> None:
    tpm.run("tpm2_pcrextend", "16:sha256=" + "ab" * 32)
    extended = opened(tpm.quote(NONCE, registers=(16,)))
    expected = hashlib.sha256(bytes(32)).digest()
    with pytest.raises(VerificationError, match="other software was booted") as caught:
        check_quote(extended, NONCE, (16,), expected)
    for secret in (expected, extended.digest, NONCE):
        assert secret.hex() not in str(caught.value)


def test_every_flipped_bit_of_a_quote(good: Answer) -> None:
    for at in range(0, 8 * len(good.message), 3):
        changed = bytearray(good.message)
        changed[at // 8] ^= 1 << at % 8
        with pytest.raises(VerificationError):
            opened(replace(good, message=bytes(changed)))
    for at in range(0, 8 * len(good.signature), 3):
        changed = bytearray(good.signature)
        changed[at // 8] ^= 1 << at % 8
        with pytest.raises(VerificationError):
            opened(replace(good, signature=bytes(changed)))


def test_keys_that_do_not_count(good: Answer) -> None:
    other = ec.generate_private_key(ec.SECP256R1()).public_key()
    weak = rsa.generate_private_key(65537, 1024)  # noqa: S505  that is the point
    raw = weak.sign(good.message, padding.PKCS1v15(), SHA256())
    pems = [key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo) for key in (other, weak.public_key())]
    for bad in (
        replace(good, key_pem=pems[0]),
        replace(good, key_pem=pems[1]),
        replace(good, key_pem=pems[1], signature=b"\x00\x14\x00\x0b\x00\x80" + raw),
        replace(good, key_pem=b"none"),
        replace(good, key_pem=b""),
    ):
        with pytest.raises(VerificationError):
            opened(bad)


@given(message=st.binary(max_size=200), signature=st.binary(max_size=100))
def test_only_the_verification_error_leaves(message: bytes, signature: bytes) -> None:
    key = ec.generate_private_key(ec.SECP256R1()).public_key()
    pem = key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    for start in (b"", b"\x00\x18\x00\x0b", b"\x00\x18\x00\x0b\x00\x01\x01\x00\x01\x01", b"\x00\x14\x00\x0b"):
        with pytest.raises(VerificationError):
            open_quote(message, start + signature, pem)


# ---------------------------------------------------------------- sessions


def test_a_challenge_was_a_constant(journal: Journal) -> None:
    made = [challenge(journal, AGENT, now_ns=number) for number in range(200)]
    assert len(set(made)) == 200
    assert {len(each) for each in made} == {NONCE_BYTES}
    # Not only distinct: no byte stands still.
    assert all(len({each[at] for each in made}) > 50 for at in range(NONCE_BYTES))
    kept = [json.loads(each.body)["nonce"] for each in journal.entries(kinds=[Kind.CHALLENGE])]
    assert kept == [each.hex() for each in made]


def test_recorded_evidence_in_a_new_session(tpm: Tpm, journal: Journal) -> None:
    old = tpm.quote(challenge(journal, AGENT, now_ns=1))
    assert answer(journal, AGENT, old, REGISTERS, DIGEST, now_ns=2).registers == frozenset(REGISTERS)
    with pytest.raises(EvidenceError, match="no open challenge"):
        answer(journal, AGENT, old, REGISTERS, DIGEST, now_ns=3)
    fresh = challenge(journal, AGENT, now_ns=4)
    with pytest.raises(EvidenceError, match="another challenge"):
        answer(journal, AGENT, old, REGISTERS, DIGEST, now_ns=5)
    assert answer(journal, AGENT, tpm.quote(fresh), REGISTERS, DIGEST, now_ns=6).nonce == fresh
    found = [("refused" in json.loads(each.body), each.sequence) for each in journal.entries(kinds=[Kind.QUOTE])]
    assert found == [(False, 1), (True, None), (False, 2)]


def test_an_answer_that_took_too_long(tpm: Tpm, journal: Journal) -> None:
    nonce = challenge(journal, AGENT, now_ns=1)
    given = tpm.quote(nonce)
    for late in (LONGEST_NS + 2, 0):
        with pytest.raises(EvidenceError, match="Make a new one"):
            answer(journal, AGENT, given, REGISTERS, DIGEST, now_ns=late)
    with pytest.raises(EvidenceError, match="no open challenge"):
        answer(journal, "node2-dpu0", given, REGISTERS, DIGEST, now_ns=2)
    assert answer(journal, AGENT, given, REGISTERS, DIGEST, now_ns=LONGEST_NS + 1).nonce == nonce


def test_of_many_answers_at_once_one_is_taken(tpm: Tpm, journal: Journal) -> None:
    nonce = challenge(journal, AGENT, now_ns=1)
    given = [tpm.quote(nonce) for _ in range(4)]
    start = threading.Barrier(len(given))

    def one(each: Answer) -> bool:
        start.wait(20)
        try:
            return answer(journal, AGENT, each, REGISTERS, DIGEST, now_ns=2).nonce == nonce
        except EvidenceError:
            return False

    with ThreadPoolExecutor(len(given)) as pool:
        assert list(pool.map(one, given)).count(True) == 1
    assert len(list(journal.entries(kinds=[Kind.QUOTE]))) == 1
