"""Whose agreements a result was held against: the last step of :mod:`controller.bundle_steps`.

The result carries each agreement of its period as both parties signed it. A full bundle's result was computed anew by
then, so that none can be missing from it; in a summary they are as the report's signers say.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from controller.agreement.envelope import Party, SignedAgreement, check, decode
from controller.errors import WeighbridgeError
from controller.evidence.refusal import VerificationError

Parties = Mapping[str, tuple[bytes, ...]]
"""The keys that may sign for each party, by its name."""


def check_agreements(result: Mapping[str, Any], parties: Parties | None) -> str:
    """Return in words by whom the agreements in ``result`` are signed.

    Args:
        result: the cross-check's document; one of before agreements were carried has none.
        parties: whose keys count; None: the parties are those that the agreements name, which is said.

    Raises:
        VerificationError: an agreement is not what it is said to be, or not signed by both; or there is none although
            the reader names the parties.
    """
    found = {each.sha256: each for each in _agreements(result)}
    if not found and parties is not None:
        raise VerificationError("the policy names the parties of an agreement, and the report is held against none")
    told = [_signed_by(each, parties) for each in found.values()]
    return "; ".join(told) or "there was none: only the site file's own limits were held against what was measured"


def _agreements(result: Mapping[str, Any]) -> Iterator[SignedAgreement]:
    parts = result.get("parts", [result])
    try:
        for claimed in (each for part in parts for each in part.get("agreements", [])):
            signed = decode(claimed["signed"].encode(), f"agreement {claimed['number']}")
            if (claimed["number"], claimed["sha256"]) != (str(signed.agreement.number), signed.sha256.hex()):
                raise VerificationError(f"agreement {claimed['number']} is another than the result says")
            yield signed
    except (KeyError, TypeError, AttributeError, UnicodeError, WeighbridgeError) as error:
        raise VerificationError(f"an agreement in the result cannot be read: {error}") from error


def _signed_by(signed: SignedAgreement, parties: Parties | None) -> str:
    keys = {party: each.public_key for party, each in signed.signatures.items()}
    for party in Party:
        if party not in keys:
            raise VerificationError(f"{signed.name} is not signed by the {party.value}")
        if parties is not None and keys[party] not in parties[party.value]:
            raise VerificationError(f"{signed.name}: the {party.value}'s key is not the policy's")
    try:
        check(signed, keys)
    except WeighbridgeError as error:
        raise VerificationError(str(error)) from error
    by = " and ".join(f"the {party.value} {keys[party].hex()[:16]}" for party in Party)
    whose = "as the policy asks" if parties is not None else "by their own word: the policy names no parties"
    return f"{signed.name} ({signed.sha256.hex()[:16]}) is signed by {by}, {whose}"
