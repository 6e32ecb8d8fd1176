"""Whom the reader trusts: the only place that keys come from. The shell reads the file; this takes its values.

.. code-block:: toml

    version = 1

    [log]                   # whose journal: the verifier's
    key = "weighbridge/demo+4ba1c2d3+AY..."

    [report]                # who signs reports, and how many of them must have
    threshold = 1
    keys = ["hex of 32 bytes"]

    [witnesses]             # who must have seen the journal's checkpoint; the other side's word is the one that counts
    quorum = 1
    keys = ["prover.example/witness+0a1b2c3d+BN..."]

    [agents]                # optional: the frame keys that may speak for the agents; else those that the log enrolled
    node1-dpu0 = "hex of 32 bytes"                 # or a list, where a key was replaced
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from controller.evidence.grammar import sha256_hex
from controller.evidence.note import KeyKind, NoteKey, decode_key
from controller.evidence.refusal import VerificationError
from protos.signing import SignatureRejected, load_public_key

VERSION = 1


@dataclass(frozen=True, slots=True)
class Policy:
    """What a bundle is held against."""

    log: NoteKey
    report_keys: tuple[bytes, ...]
    threshold: int
    witnesses: tuple[NoteKey, ...]
    quorum: int
    agents: Mapping[str, tuple[bytes, ...]] | None


def policy_of(values: Mapping[str, object]) -> Policy:
    """Return the policy in the values of a policy file.

    Raises:
        VerificationError: something is missing, unknown, listed twice, or a key cannot be trusted; names the place.
    """
    _only(values, "the policy", {"version", "log", "report", "witnesses"}, {"agents"})
    if type(values["version"]) is not int or values["version"] != VERSION:
        raise VerificationError(f"the policy is not of version {VERSION}")
    log = _table(values, "log", {"key"})
    report = _table(values, "report", {"threshold", "keys"})
    witnesses = _table(values, "witnesses", {"quorum", "keys"})
    policy = Policy(
        log=_note_key(log["key"], "log.key", KeyKind.LOG),
        report_keys=tuple(_raw_key(each, "report.keys") for each in _list(report, "report")),
        threshold=_count(report["threshold"], "report.threshold", least=1),
        witnesses=tuple(_note_key(each, "witnesses.keys", KeyKind.WITNESS) for each in _list(witnesses, "witnesses")),
        # Nought is a decision that the reader writes down, never a default.
        quorum=_count(witnesses["quorum"], "witnesses.quorum", least=0),
        agents=_agents(values["agents"]) if "agents" in values else None,
    )
    _once([policy.log.public_key, *(each.public_key for each in policy.witnesses)], "log and witnesses")
    _once([each.name for each in policy.witnesses], "witnesses.keys")
    _once(policy.report_keys, "report.keys")
    for what, most, asked in (
        ("report", len(policy.report_keys), policy.threshold),
        ("witnesses", len(policy.witnesses), policy.quorum),
    ):
        if asked > most:
            raise VerificationError(f"[{what}] of the policy asks for {asked} signatures and lists {most} keys")
    return policy


def _only(values: object, what: str, needed: set[str], optional: set[str]) -> None:
    if not isinstance(values, Mapping) or not needed <= set(values) <= needed | optional:
        raise VerificationError(f"{what} does not have exactly these keys: {', '.join(sorted(needed))}")


def _table(values: Mapping[str, object], name: str, keys: set[str]) -> Mapping[str, object]:
    table = values[name]
    _only(table, f"[{name}] of the policy", keys, set())
    assert isinstance(table, Mapping)  # noqa: S101  _only has looked
    return table


def _list(table: Mapping[str, object], name: str) -> list[object]:
    keys = table["keys"]
    if not isinstance(keys, list):
        raise VerificationError(f"{name}.keys of the policy is not a list")
    return keys


def _count(value: object, what: str, *, least: int) -> int:
    if type(value) is not int or value < least:
        raise VerificationError(f"{what} of the policy is not a whole number from {least} up")
    return value


def _note_key(value: object, what: str, kind: KeyKind) -> NoteKey:
    if not isinstance(value, str):
        raise VerificationError(f"{what} of the policy is not a verifier key")
    key = decode_key(value)
    if key.kind is not kind:
        raise VerificationError(f"{what} of the policy is a key of another kind (a log's begin with A, witnesses' B)")
    return key


def _raw_key(value: object, what: str) -> bytes:
    raw = sha256_hex(value, f"{what} of the policy") if isinstance(value, str) else b""
    try:
        load_public_key(raw)
    except SignatureRejected as error:
        raise VerificationError(f"{what} of the policy: {error}") from error
    return raw


def _agents(table: object) -> Mapping[str, tuple[bytes, ...]]:
    if not isinstance(table, Mapping):
        raise VerificationError("[agents] of the policy is not a table")
    agents = {
        str(name): tuple(_raw_key(key, f"agents.{name}") for key in (keys if isinstance(keys, list) else [keys]))
        for name, keys in table.items()
    }
    _once([key for keys in agents.values() for key in keys], "agents")
    return agents


def _once(values: list[bytes] | list[str] | tuple[bytes, ...], what: str) -> None:
    if len(set(values)) != len(values):
        raise VerificationError(f"the policy lists the same key or name twice under {what}")
