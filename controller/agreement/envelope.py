"""An agreement with its signatures: the exact bytes of the document, and each party's signature over them.

A file of JSON: ``document_base64`` and ``signatures``, each with ``party`` (``verifier`` or ``prover``), ``public_key``
(hex) and ``signature_base64``. The keys in the file prove nothing: who verifies brings the keys that count.
What a signature covers is the document alone, so both sign the same bytes; its SHA-256 is the agreement's name.
"""

from __future__ import annotations

import base64
import binascii
import enum
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from controller.agreement.document import MAX_DOCUMENT_BYTES, Agreement, parse
from controller.errors import EvidenceError, OperatorError
from protos.signing import SignatureRejected, SigningDomain, fingerprint, load_public_key, sign, verify

MAX_FILE_BYTES = 2 * MAX_DOCUMENT_BYTES


class Party(enum.Enum):
    """The two who sign."""

    VERIFIER = "verifier"
    PROVER = "prover"


@dataclass(frozen=True, slots=True)
class Signature:
    """One party's, and the raw key that it says it used."""

    public_key: bytes
    signature: bytes


@dataclass(frozen=True, slots=True)
class SignedAgreement:
    """A document and what is signed of it. ``name`` is where it came from, for messages."""

    name: str
    document: bytes
    agreement: Agreement
    signatures: Mapping[Party, Signature]

    @property
    def sha256(self) -> bytes:
        """The agreement's name: of the document's bytes."""
        return hashlib.sha256(self.document).digest()

    def signed(self, party: Party, key: Ed25519PrivateKey) -> SignedAgreement:
        """Return it with the signature of ``party``; one that was there is replaced."""
        made = Signature(key.public_key().public_bytes_raw(), sign(key, SigningDomain.AGREEMENT, self.document))
        return replace(self, signatures={**self.signatures, party: made})

    def encode(self) -> bytes:
        """Return it as a file."""
        body = {
            "document_base64": base64.b64encode(self.document).decode(),
            "signatures": [
                {
                    "party": party.value,
                    "public_key": each.public_key.hex(),
                    "signature_base64": base64.b64encode(each.signature).decode(),
                }
                for party, each in sorted(self.signatures.items(), key=lambda item: item[0].value)
            ],
        }
        return json.dumps(body, indent=2).encode() + b"\n"


def unsigned(document: bytes, name: str) -> SignedAgreement:
    """Return ``document`` without a signature.

    Raises:
        OperatorError: it is no agreement.
    """
    return SignedAgreement(name, document, parse(document, name), {})


def decode(content: bytes, name: str) -> SignedAgreement:
    """Return the signed agreement in a file; its signatures are not checked here.

    Raises:
        OperatorError: it is none.
    """
    problem = f"{name}: is not a signed agreement"
    remedy = "Give the file that `weighbridge agreement propose` wrote."
    if len(content) > MAX_FILE_BYTES:
        raise OperatorError(f"{problem}: it has {len(content)} bytes. {remedy}")
    try:
        values: dict[str, Any] = json.loads(content)
        document = base64.b64decode(values["document_base64"], validate=True)
        found: dict[Party, Signature] = {}
        for one in values["signatures"]:
            party = Party(one["party"])
            if party in found:
                raise OperatorError(f"{problem}: the {party.value} stands twice in it. {remedy}")
            signature = base64.b64decode(one["signature_base64"], validate=True)
            found[party] = Signature(bytes.fromhex(one["public_key"]), signature)
    except (ValueError, KeyError, TypeError, AttributeError, binascii.Error, RecursionError) as error:
        raise OperatorError(f"{problem} ({type(error).__name__}: {error}). {remedy}") from error
    return SignedAgreement(name, document, parse(document, name), found)


def check(signed: SignedAgreement, keys: Mapping[Party, bytes]) -> None:
    """Return if every party of ``keys`` signed this very document with its key there.

    1. A party's signature is there, and by the key that counts, whatever key the file names.
    2. The two keys differ: one key in two hands is one party.

    Raises:
        EvidenceError: one of these is not so.
    """
    if len(set(keys.values())) < len(keys):
        raise EvidenceError(f"{signed.name}: verifier and prover have the same key: one party signed for both")
    for party, raw in keys.items():
        found = signed.signatures.get(party)
        if found is None:
            raise EvidenceError(f"{signed.name}: the {party.value} has not signed it")
        try:
            verify(load_public_key(raw), SigningDomain.AGREEMENT, signed.document, found.signature)
        except SignatureRejected as error:
            other = "" if found.public_key == raw else f"; it names the key {fingerprint(found.public_key)[:16]}"
            raise EvidenceError(
                f"{signed.name}: the {party.value}'s signature is not by its key {fingerprint(raw)[:16]} over this "
                f"document ({error}){other}"
            ) from error
