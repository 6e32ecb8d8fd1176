"""Whom the reader trusts: the only place that keys come from. The shell reads the file; this takes its values.

.. code-block:: toml

    version = 1
    log = {key = "weighbridge/demo+4ba1c2d3+AY..."}         # whose journal: the verifier's
    report = {threshold = 1, keys = ["hex of 32 bytes"]}    # who signs reports, and how many of them must have
    # Who must have seen the journal's checkpoint; the other side's word is the one that counts. Nought is a decision.
    witnesses = {quorum = 1, keys = ["prover.example/witness+0a1b2c3d+BN..."]}
    # Optional: the frame keys that speak for agents (a list, if replaced), and the parties'; else those in the log.
    agents = {node1-dpu0 = "hex of 32 bytes"}
    agreement = {verifier = "hex of 32 bytes", prover = "hex of 32 bytes"}

No key stands in it twice: neither counts a key twice, nor serves one signature two purposes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from controller.evidence.grammar import public_key, sha256_hex
from controller.evidence.note import KeyKind, NoteKey, decode_key
from controller.evidence.refusal import VerificationError


@dataclass(frozen=True, slots=True)
class Policy:
    """What a bundle is held against."""

    log: NoteKey
    report_keys: tuple[bytes, ...]
    threshold: int
    witnesses: tuple[NoteKey, ...]
    quorum: int
    agents: Mapping[str, tuple[bytes, ...]] | None
    parties: Mapping[str, tuple[bytes, ...]] | None = None


def policy_of(values: Mapping[str, object]) -> Policy:
    """Return the policy in the values of a policy file; a refusal names the place."""
    _only(values, "the policy", {"version", "log", "report", "witnesses"}, "agents", "agreement")
    if type(values["version"]) is not int or values["version"] != 1:
        raise VerificationError("the policy is not of version 1")
    report = _only(values["report"], "[report]", {"threshold", "keys"})
    witnesses = _only(values["witnesses"], "[witnesses]", {"quorum", "keys"})
    policy = Policy(
        log=_note_key(_only(values["log"], "[log]", {"key"})["key"], "log.key", KeyKind.LOG),
        report_keys=tuple(_raw_key(each, "report.keys") for each in _list(report["keys"], "report.keys")),
        threshold=_count(report, "threshold", least=1),
        witnesses=tuple(
            _note_key(each, "witnesses.keys", KeyKind.WITNESS) for each in _list(witnesses["keys"], "witnesses.keys")
        ),
        quorum=_count(witnesses, "quorum", least=0),
        agents=_by_name(values["agents"], "agents") if "agents" in values else None,
        parties=_by_name(values["agreement"], "agreement") if "agreement" in values else None,
    )
    if policy.parties is not None and set(policy.parties) != {"verifier", "prover"}:
        raise VerificationError("[agreement] of the policy does not name the verifier and the prover, and no one else")
    agents, parties = ([key for some in (of or {}).values() for key in some] for of in (policy.agents, policy.parties))
    keys = [policy.log.public_key, *policy.report_keys, *(each.public_key for each in policy.witnesses), *parties]
    names = [each.name for each in policy.witnesses]
    if len({*keys}) != len(keys) or len({*agents}) != len(agents) or len({*names}) != len(names):
        raise VerificationError("the policy lists the same key, or the same witness's name, twice")
    return policy


def _only(values: object, what: str, needed: set[str], *optional: str) -> Mapping[str, object]:
    if not isinstance(values, Mapping) or not needed <= set(values) <= {*needed, *optional}:
        raise VerificationError(f"{what} of the policy does not have exactly these keys: {', '.join(sorted(needed))}")
    return values


def _list(value: object, what: str) -> list[object]:
    if not isinstance(value, list):
        raise VerificationError(f"{what} of the policy is not a list")
    return value


def _count(table: Mapping[str, object], key: str, *, least: int) -> int:
    value, most = table[key], len(_list(table["keys"], "keys"))
    if type(value) is not int or not least <= value <= most:
        raise VerificationError(f"{key} of the policy is not a whole number from {least} to the {most} keys listed")
    return value


def _note_key(value: object, what: str, kind: KeyKind) -> NoteKey:
    key = decode_key(value) if isinstance(value, str) else None
    if key is None or key.kind is not kind:
        raise VerificationError(f"{what} of the policy is no such verifier key (a log's begin with A, witnesses' B)")
    return key


def _raw_key(value: object, what: str) -> bytes:
    raw = sha256_hex(value, f"{what} of the policy") if isinstance(value, str) else b""
    return public_key(raw, f"{what} of the policy").public_bytes_raw()


def _by_name(table: object, what: str) -> Mapping[str, tuple[bytes, ...]]:
    if not isinstance(table, Mapping):
        raise VerificationError(f"[{what}] of the policy is not a table")
    return {
        str(name): tuple(_raw_key(key, f"{what}.{name}") for key in (keys if isinstance(keys, list) else [keys]))
        for name, keys in table.items()
    }
