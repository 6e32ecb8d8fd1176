"""Checks the signatures of what the two parties agreed and what was given under it: a part of fsck.

1. An agreement is signed by both, with the keys that stand beside it.
2. A lease, a revocation and a class table are signed by the verifier: by its key under the agreement in force then, or
   one that the reader brings. Without either they are not checked.
3. A load window, and a lease under one, are signed by the prover, where the agreement in force then asks for it.

The journal's owner writes all of these, and agents check them, too: but what an agent took is not in the journal, and
a lease that was never sent would excuse what passed.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from google.protobuf.message import DecodeError

from controller.agreement.envelope import Party, SignedAgreement
from controller.agreement.inforce import checked
from controller.errors import EvidenceError
from controller.journal import Entry, Kind
from controller.loads.window import OPEN
from protos.leasewire import LeaseFaultError, parse_lease
from protos.signing import SignatureRejected, SigningDomain, load_public_key, verify
from protos.v1 import agent_pb2, lease_pb2


class Signatures:
    """Takes in a journal's entries in order."""

    def __init__(self, path: Path, verifier: Sequence[bytes]) -> None:
        """``verifier`` are raw keys that the verifier may sign with, beside that of the agreement in force."""
        self._path, self._verifier = path, tuple(verifier)
        self._agreed: tuple[SignedAgreement, dict[Party, bytes]] | None = None
        self.unchecked = 0

    def add(self, entry: Entry) -> Iterator[str]:
        """Yield what is wrong with the signatures of ``entry``."""
        try:
            if entry.kind is Kind.AGREEMENT:
                self._agreed = checked(self._path, entry)
            elif entry.kind is Kind.LEASE:
                self._lease(entry)
            elif entry.kind is Kind.CLASS_TABLE:
                table = agent_pb2.SignedClassTable.FromString(entry.body)
                self._check(Party.VERIFIER, SigningDomain.CLASS_TABLE, table.body, table.signature)
            elif entry.kind is Kind.LOAD_WINDOW and json.loads(entry.body)["action"] == OPEN:
                body = json.loads(entry.body)
                parts = (base64.b64decode(body[key]) for key in ("window_base64", "prover_signature_base64"))
                self._check_window(*parts)
        except EvidenceError as error:
            yield str(error)
        except SignatureRejected as error:
            yield f"the {entry.kind.value} of {entry.source} in leaf {entry.leaf} is not signed as it must be: {error}"
        except (ValueError, KeyError, TypeError, DecodeError, RecursionError) as error:
            yield f"the {entry.kind.value} of {entry.source} in leaf {entry.leaf} cannot be read: {error}"

    def _lease(self, entry: Entry) -> None:
        if entry.meta.get("what") == "revocation":
            end = lease_pb2.SignedLeaseRevocation.FromString(entry.body)
            self._check(Party.VERIFIER, SigningDomain.LEASE_REVOCATION, end.body, end.signature)
            return
        signed = lease_pb2.SignedLease.FromString(entry.body)
        self._check(Party.VERIFIER, SigningDomain.LEASE, signed.body, signed.signature)
        try:
            window = parse_lease(signed.body).load_window
        except LeaseFaultError:
            return  # of a later version; nobody is held to it here, nor excused by it
        if window:
            self._check_window(window, signed.prover_signature)

    def _check_window(self, window: bytes, signature: bytes) -> None:
        loads = None if self._agreed is None else self._agreed[0].agreement.loads
        if loads is not None and loads.both_sign:
            self._check(Party.PROVER, SigningDomain.LOAD_WINDOW, window, signature)

    def _check(self, party: Party, domain: SigningDomain, body: bytes, signature: bytes) -> None:
        keys = {*self._verifier} if party is Party.VERIFIER else set()
        if self._agreed is not None:
            keys.add(self._agreed[1][party])
        if not keys:
            self.unchecked += 1
        elif not any(_is_by(key, domain, body, signature) for key in keys):
            names = " or ".join(key.hex()[:16] for key in sorted(keys))
            raise SignatureRejected(f"it is not by the {party.value}'s key {names}")


def _is_by(key: bytes, domain: SigningDomain, body: bytes, signature: bytes) -> bool:
    try:
        verify(load_public_key(key), domain, body, signature)
    except SignatureRejected:
        return False
    return True
