"""The tree: against other people's vectors, over all small sizes, and what went wrong with other Merkle verifiers."""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.evidence.refusal import VerificationError
from controller.evidence.tree import EMPTY_ROOT, CompactRange, check_consistency, check_inclusion, leaf_hash, node_hash
from controller.treeproof import prove_consistency, prove_inclusion, subtree_of

VECTORS = Path(__file__).resolve().parents[2] / "vectors" / "merkle"
LEAVES = [leaf_hash(bytes([number])) for number in range(33)]
SUBTREE = subtree_of(LEAVES)


def cases(kind: str) -> list[Any]:
    found = json.loads((VECTORS / f"{kind}.json").read_text(encoding="utf-8"))
    assert len(found) == 98
    return [pytest.param(case, id=name) for name, case in found.items()]


def hashes(texts: list[str | None] | None) -> list[bytes]:
    return [base64.b64decode(text or "") for text in texts or []]


def refused(check: Any, *values: Any) -> bool:
    try:
        check(*values)
    except VerificationError:
        return True
    return False


@pytest.mark.parametrize("case", cases("inclusion"))
def test_transparency_dev_inclusion(case: dict[str, Any]) -> None:
    leaf, root = hashes([case["leafHash"], case["root"]])
    values = case["leafIdx"], case["treeSize"], leaf, hashes(case["proof"]), root
    assert refused(check_inclusion, *values) is case["wantErr"]


@pytest.mark.parametrize("case", cases("consistency"))
def test_transparency_dev_consistency(case: dict[str, Any]) -> None:
    values = case["size1"], case["size2"], hashes(case["proof"]), *hashes([case["root1"], case["root2"]])
    # One case calls twelve bytes a root; a root has 32 here.
    expected = case["wantErr"] or len(base64.b64decode(case["root1"])) != 32
    assert refused(check_consistency, *values) is expected


def test_rfc_6962_hashes() -> None:
    # RFC 6962 section 2.1: MTH({}) and the prefixes.
    assert EMPTY_ROOT.hex() == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert leaf_hash(b"") == hashlib.sha256(b"\x00").digest()
    assert node_hash(LEAVES[0], LEAVES[1]) == hashlib.sha256(b"\x01" + LEAVES[0] + LEAVES[1]).digest()


def by_definition(hashed: list[bytes]) -> bytes:
    """MTH as RFC 6962 defines it, word for word."""
    if not hashed:
        return EMPTY_ROOT
    if len(hashed) == 1:
        return hashed[0]
    k = 1
    while k * 2 < len(hashed):
        k *= 2
    return node_hash(by_definition(hashed[:k]), by_definition(hashed[k:]))


@pytest.mark.parametrize("size", range(34))
def test_growing_gives_the_root_of_the_definition(size: int) -> None:
    tree = CompactRange()
    for leaf in LEAVES[:size]:
        tree = CompactRange(tree.size, tree.hashes)
        tree.append(leaf)
    assert tree.root() == by_definition(LEAVES[:size])


@pytest.mark.parametrize("size", range(1, 34))
def test_every_leaf_and_every_beginning_is_proven(size: int) -> None:
    root = by_definition(LEAVES[:size])
    for number in range(size):
        path = prove_inclusion(number, size, SUBTREE)
        check_inclusion(number, size, LEAVES[number], path, root)
        first = number + 1
        steps = prove_consistency(first, size, SUBTREE)
        check_consistency(first, size, steps, by_definition(LEAVES[:first]), root)


@given(size=st.integers(1, 33), data=st.data())
def test_no_other_inclusion_passes(size: int, data: st.DataObject) -> None:
    number = data.draw(st.integers(0, size - 1))
    path = prove_inclusion(number, size, SUBTREE)
    root = by_definition(LEAVES[:size])
    change = data.draw(st.sampled_from(["leaf", "index", "size", "flip", "drop", "add", "swap"]))
    leaf = LEAVES[number]
    if change == "leaf":
        leaf = LEAVES[(number + 1) % len(LEAVES)]
    elif change == "index":
        number = data.draw(st.integers(-2, 40).filter(lambda each: each != number))
    elif change == "flip" and path:
        at = data.draw(st.integers(0, len(path) - 1))
        path[at] = bytes([path[at][0] ^ 1]) + path[at][1:]
    elif change == "drop" and path:
        path.pop(data.draw(st.integers(0, len(path) - 1)))
    elif change == "swap" and len(path) > 1:
        path[0], path[1] = path[1], path[0]
    else:
        path.append(LEAVES[0])
    assert refused(check_inclusion, number, size, leaf, path, root)


@given(first=st.integers(1, 33), second=st.integers(1, 33), data=st.data())
def test_no_other_history_passes(first: int, second: int, data: st.DataObject) -> None:
    first, second = min(first, second), max(first, second)
    steps = prove_consistency(first, second, SUBTREE)
    forged = list(LEAVES)
    forged[data.draw(st.integers(0, first - 1))] = leaf_hash(b"another past")
    root = by_definition(forged[:second])
    path = prove_consistency(first, second, subtree_of(forged))
    for each in (steps, path):
        assert refused(check_consistency, first, second, each, by_definition(LEAVES[:first]), root)


def test_a_node_was_taken_as_a_leaf() -> None:
    left, right = node_hash(LEAVES[0], LEAVES[1]), node_hash(LEAVES[2], LEAVES[3])
    root = by_definition(LEAVES[:4])
    # The node's children, presented as the content of one leaf, must not hash to the node.
    assert leaf_hash(LEAVES[0] + LEAVES[1]) != left
    # Its hash under its own sibling has the right root, but not the length of a path in a tree of four.
    assert refused(check_inclusion, 0, 4, left, [right], root)


def test_the_leaf_count_was_not_bound() -> None:
    path = prove_inclusion(3, 7, SUBTREE)
    root = by_definition(LEAVES[:7])
    check_inclusion(3, 7, LEAVES[3], path, root)
    # RFC 6962 binds a size through the path's form; a size of another form is refused.
    for size in (4, 9, 15, 33):
        assert refused(check_inclusion, 3, size, LEAVES[3], path, root)


@pytest.mark.parametrize("index", [7, 8, -1, 2**63])
def test_an_index_beyond_the_size_was_accepted(index: int) -> None:
    path = prove_inclusion(3, 7, SUBTREE)
    assert refused(check_inclusion, index, 7, LEAVES[3], path, by_definition(LEAVES[:7]))
    assert refused(prove_inclusion, index, 7, SUBTREE)


@pytest.mark.parametrize("bad", [b"", b"x", LEAVES[0][:31], LEAVES[0] + b"\x00"])
def test_hashes_of_another_length(bad: bytes) -> None:
    root = by_definition(LEAVES[:2])
    assert refused(check_inclusion, 0, 2, bad, [LEAVES[1]], root)
    assert refused(check_inclusion, 0, 2, LEAVES[0], [bad], root)
    assert refused(check_consistency, 1, 2, [bad], LEAVES[0], root)
    assert refused(CompactRange, 1, [bad])


@pytest.mark.parametrize(("size", "count"), [(1, 0), (1, 2), (3, 1), (4, 2), (-1, 0), (2**63, 1), (0, 1)])
def test_a_tree_is_not_resumed_from_other_hashes(size: int, count: int) -> None:
    assert refused(CompactRange, size, LEAVES[:count])


@pytest.mark.parametrize(("first", "second"), [(0, 3), (4, 3), (-1, 3)])
def test_no_consistency_from_nothing_or_backwards(first: int, second: int) -> None:
    assert refused(prove_consistency, first, second, SUBTREE)
    assert refused(check_consistency, first, second, [], EMPTY_ROOT, by_definition(LEAVES[:3]))
