"""Challenges and their answers in the journal: each challenge is answered once, soon, and by what it asked for.

1. A challenge is 32 random bytes, journaled before anybody hears of it.
2. Only the newest challenge of an agent can be answered, once, and within :data:`LONGEST_NS`: what was recorded in an
   earlier session, or made in advance, is no answer.
3. What a quote says is read from its signed bytes (:mod:`controller.attestation.quote`).
4. An answer is an entry of the journal, exact bytes and key: a leaf as everything else. One that does not hold is kept
   as refused, and answers nothing.
"""

from __future__ import annotations

import base64
import json
import secrets
from collections.abc import Callable, Collection
from dataclasses import dataclass

from controller.attestation.quote import NONCE_BYTES, Quote, check_quote, open_quote
from controller.errors import EvidenceError
from controller.evidence.refusal import VerificationError
from controller.journal import Entry, Journal, Kind, NewEntry

LONGEST_NS = 600 * 10**9
"""From challenge to answer, people and a console between."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a device handed over: TPMS_ATTEST, TPMT_SIGNATURE, and the public key (PEM) that the operator trusts."""

    message: bytes
    signature: bytes
    key_pem: bytes


def challenge(
    journal: Journal, agent: str, *, now_ns: int, random: Callable[[int], bytes] = secrets.token_bytes
) -> bytes:
    """Return a new challenge for ``agent``; it is in the journal.

    Raises:
        OperatorError: the journal cannot be written.
    """
    nonce = random(NONCE_BYTES)
    body = {"agent": agent, "nonce": nonce.hex()}
    number = journal.last_sequence(Kind.CHALLENGE, agent) + 1
    journal.append(NewEntry(Kind.CHALLENGE, agent, now_ns, json.dumps(body).encode(), sequence=number))
    return nonce


def answer(
    journal: Journal, agent: str, given: Answer, registers: Collection[int], digest: bytes, *, now_ns: int
) -> Quote:
    """Return what ``given`` says, journaled as the answer to the newest challenge of ``agent``.

    Args:
        journal: where the challenge is.
        agent: whose device it is.
        given: what was handed over.
        registers: which the operator asked for.
        digest: what they must have: SHA-256 over their values in order.
        now_ns: on the timeline.

    Raises:
        EvidenceError: there is no open challenge, or this is no answer to it; nothing was taken for one.
        OperatorError: the journal cannot be written.
    """
    asked = journal.last(Kind.CHALLENGE, agent)
    if asked is None or journal.last_sequence(Kind.QUOTE, agent) >= (asked.sequence or 0):
        raise EvidenceError(f"{agent} has no open challenge. Make one with `weighbridge attest challenge {agent}`.")
    if not 0 <= now_ns - asked.recorded_ns <= LONGEST_NS:
        raise EvidenceError(
            f"the challenge of {agent} is older than {LONGEST_NS // 60 // 10**9} minutes: an answer could come from "
            "elsewhere by now. Make a new one."
        )
    body = {
        "message_base64": base64.b64encode(given.message).decode(),
        "signature_base64": base64.b64encode(given.signature).decode(),
        "key_pem": given.key_pem.decode("ascii", "replace"),
        "registers": ",".join(map(str, sorted(registers))),
    }
    try:
        quote = open_quote(given.message, given.signature, given.key_pem)
        check_quote(quote, _nonce(asked), registers, digest)
    except VerificationError as error:
        journal.append(NewEntry(Kind.QUOTE, agent, now_ns, json.dumps({**body, "refused": str(error)}).encode()))
        raise EvidenceError(f"{agent}: {error}. The challenge stays open; this is journaled.") from error
    # Of two answers at once to one challenge the journal takes the first: they have one number.
    journal.append(NewEntry(Kind.QUOTE, agent, now_ns, json.dumps(body).encode(), sequence=asked.sequence))
    return quote


def _nonce(asked: Entry) -> bytes:
    return bytes.fromhex(json.loads(asked.body)["nonce"])
