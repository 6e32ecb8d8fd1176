"""The policy: nothing missing, nothing unknown, nothing twice, no key that cannot be trusted."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from controller.evidence.note import KeyKind, NoteKey
from controller.evidence.policy import policy_of
from controller.evidence.refusal import VerificationError

PUBLIC = [Ed25519PrivateKey.from_private_bytes(bytes([n]) * 32).public_key().public_bytes_raw() for n in range(1, 6)]
WITNESSES = [NoteKey(f"w{n}", KeyKind.WITNESS, PUBLIC[n]) for n in (1, 2)]
GOOD: dict[str, Any] = {
    "version": 1,
    "log": {"key": NoteKey("weighbridge/demo", KeyKind.LOG, PUBLIC[0]).encode()},
    "report": {"threshold": 1, "keys": [PUBLIC[3].hex()]},
    "witnesses": {"quorum": 1, "keys": [each.encode() for each in WITNESSES]},
    "agents": {"node1-dpu0": PUBLIC[4].hex()},
}


def bent(path: str, value: Any) -> dict[str, Any]:
    values = copy.deepcopy(GOOD)
    table = values
    *parents, last = path.split(".")
    for parent in parents:
        table = table[parent]
    if value is ...:
        del table[last]
    else:
        table[last] = value
    return values


def test_a_policy_is_read() -> None:
    policy = policy_of(GOOD)
    assert policy.log.name == "weighbridge/demo"
    assert policy.witnesses == tuple(WITNESSES)
    assert (policy.threshold, policy.quorum, policy.report_keys) == (1, 1, (PUBLIC[3],))
    assert policy.agents == {"node1-dpu0": (PUBLIC[4],)}
    several = [PUBLIC[4].hex(), PUBLIC[2].hex()]
    assert policy_of(bent("agents.node1-dpu0", several)).agents == {"node1-dpu0": (PUBLIC[4], PUBLIC[2])}
    assert policy_of(bent("agents", ...)).agents is None


@pytest.mark.parametrize(
    ("path", "value"),
    [
        *[(path, ...) for path in ("version", "log", "report", "witnesses", "log.key", "report.threshold")],
        *[(path, ...) for path in ("report.keys", "witnesses.quorum", "witnesses.keys")],
        *[(path, 1) for path in ("log", "report", "log.key", "report.keys", "witnesses.keys", "agents", "agents.a")],
        *[(path, "x") for path in ("version", "more", "log.more", "log.key", "report.threshold", "witnesses.quorum")],
        ("version", 2),
        ("version", True),
        ("report.threshold", 0),
        ("report.threshold", True),
        ("report.threshold", 2),
        ("witnesses.quorum", -1),
        ("witnesses.quorum", 3),
        ("log.key", WITNESSES[0].encode()),
        ("witnesses.keys", [GOOD["log"]["key"]]),
        ("report.keys", [PUBLIC[3].hex().upper()]),
        ("report.keys", [(1).to_bytes(32, "little").hex()]),
        ("report.keys", [3]),
    ],
)
def test_policies_that_are_none(path: str, value: Any) -> None:
    with pytest.raises(VerificationError):
        policy_of(bent(path, value))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("report.keys", [PUBLIC[3].hex()] * 2),
        ("witnesses.keys", [WITNESSES[0].encode()] * 2),
        ("witnesses.keys", [WITNESSES[0].encode(), NoteKey("alias", KeyKind.WITNESS, PUBLIC[1]).encode()]),
        ("witnesses.keys", [WITNESSES[0].encode(), NoteKey("w1", KeyKind.WITNESS, PUBLIC[2]).encode()]),
        ("witnesses.keys", [NoteKey("the-log-itself", KeyKind.WITNESS, PUBLIC[0]).encode()]),
        ("report.keys", [PUBLIC[0].hex()]),  # the log's
        ("report.keys", [PUBLIC[1].hex()]),  # a witness's
        ("agents", {"a": PUBLIC[4].hex(), "b": PUBLIC[4].hex()}),
        ("agents", {"a": [PUBLIC[4].hex()] * 2}),
    ],
)
def test_one_key_was_listed_twice(path: str, value: Any) -> None:
    with pytest.raises(VerificationError, match="twice"):
        policy_of(bent(path, value))
