"""The agreement in force: the newest one that both parties signed and the journal holds."""

from __future__ import annotations

from pathlib import Path

from controller.agreement.arithmetic import contradictions
from controller.agreement.envelope import Party, SignedAgreement, check, decode
from controller.errors import EvidenceError, OperatorError
from controller.journal import Entry, Journal, Kind, NewEntry
from controller.site import Site, did_you_mean
from protos.signing import fingerprint


def in_force(journal: Journal, site: str) -> SignedAgreement | None:
    """Return the agreement in force; None if none was accepted.

    Raises:
        EvidenceError: what is journaled is not what both signed.
    """
    entry = journal.last(Kind.AGREEMENT, site)
    return None if entry is None else checked(journal.path, entry)[0]


def accepted(journal: Journal) -> list[tuple[int, SignedAgreement]]:
    """Return every agreement that was accepted and when, on the timeline, in order.

    Raises:
        EvidenceError: what is journaled is not what both signed.
    """
    return [(entry.recorded_ns, checked(journal.path, entry)[0]) for entry in journal.entries(kinds=[Kind.AGREEMENT])]


def parties_in_force(journal: Journal, site: str) -> dict[Party, bytes]:
    """Return the raw keys of who signed the agreement in force; empty if there is none."""
    entry = journal.last(Kind.AGREEMENT, site)
    return {} if entry is None else checked(journal.path, entry)[1]


def checked(path: Path, entry: Entry) -> tuple[SignedAgreement, dict[Party, bytes]]:
    """Return the agreement in a journal's entry, and by whose keys both parties signed it.

    Raises:
        EvidenceError: it is not one, or not signed by both.
    """
    try:
        signed = decode(entry.body, f"{path}: leaf {entry.leaf}")
        keys = {party: bytes.fromhex(str(entry.meta[party.value])) for party in Party}
    except (OperatorError, KeyError, ValueError) as error:
        raise EvidenceError(f"{path}: leaf {entry.leaf} is not an agreement this program can read: {error}") from error
    check(signed, keys)
    return signed, keys


def accept(
    journal: Journal, site: Site, signed: SignedAgreement, keys: dict[Party, bytes], *, now_ns: int, wall_ns: int
) -> None:
    """Put ``signed`` in force: from then on leases are granted under it.

    1. Both signed this very document, each with its own key.
    2. It is this site's, names things there are, contradicts itself nowhere, and is not over.
    3. Its number is higher than that of the one in force, whose prover is the same; and it has begun, since from now on
       the one in force is not.

    Raises:
        OperatorError: it cannot be in force here; nothing was changed.
        EvidenceError: it is not signed by both, or by another prover than before.
    """
    check(signed, keys)
    check_fits(signed, site)
    agreement = signed.agreement
    if agreement.valid_to_ns <= wall_ns:
        raise OperatorError(f"{signed.name}: valid_to is past. Agree on a new one.")
    entry = journal.last(Kind.AGREEMENT, site.name)
    if entry is not None:
        before, their_keys = checked(journal.path, entry)
        if before.document == signed.document:
            raise OperatorError(f"{signed.name}: is in force already.")
        if agreement.number <= before.agreement.number:
            raise OperatorError(
                f"{signed.name}: has number {agreement.number}, in force is {before.agreement.number}. "
                "A change has a higher number, signed by both."
            )
        if agreement.valid_from_ns > wall_ns:
            raise OperatorError(
                f"{signed.name}: begins in the future, and agreement {before.agreement.number} would end now. "
                "Accept it when it begins; the signatures stay good."
            )
        if their_keys[Party.PROVER] != keys[Party.PROVER]:
            raise EvidenceError(
                f"{signed.name}: is signed by the prover key {fingerprint(keys[Party.PROVER])[:16]}, the agreement in "
                f"force by {fingerprint(their_keys[Party.PROVER])[:16]}. Another prover is another site."
            )
    meta = {"sha256": signed.sha256.hex(), **{party.value: key.hex() for party, key in keys.items()}}
    journal.append(NewEntry(Kind.AGREEMENT, site.name, now_ns, signed.encode(), meta, sequence=agreement.number))


def check_fits(signed: SignedAgreement, site: Site) -> None:
    """Return if the agreement is about ``site``, and says nothing that cannot be meant.

    Raises:
        OperatorError: it is not; every reason is named.
    """
    agreement = signed.agreement
    if agreement.site != site.name:
        raise OperatorError(f"{signed.name}: is of site {agreement.site!r}, this is {site.name!r}.")
    known = {"node": {node.name for node in site.nodes}, "pod": {pod.name for pod in site.pods}}
    known["pair"] = known["node"]
    wrong = list(contradictions(agreement))
    for limit in agreement.limits:
        for name in limit.names:
            parts = name.split() if limit.scope == "pair" else [name]
            wrong += [
                f"{limit.place}.names: the site has no {limit.scope} {part!r}. {did_you_mean(part, known[limit.scope])}"
                for part in parts
                if name != "*" and part not in known[limit.scope]
            ]
    if wrong:
        raise OperatorError("\n".join(f"{signed.name}: {one}" for one in wrong))
