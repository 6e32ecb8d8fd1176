"""Makes the proofs of a tree (RFC 6962); who checks them needs :mod:`controller.evidence.tree` alone.

Lists of hashes begin at the leaf; the last one is under the root. What cannot be proven raises ``VerificationError``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from controller.evidence.refusal import VerificationError
from controller.evidence.tree import CompactRange, split

Subtree = Callable[[int, int], bytes]
"""Returns the root over leaves ``start`` to ``stop - 1``; proofs are made from it, so that a store may keep nodes."""


def subtree_of(leaf_hashes: Sequence[bytes]) -> Subtree:
    """Return the subtree roots over leaves that are all in memory."""

    def subtree(start: int, stop: int) -> bytes:
        tree = CompactRange()
        for hashed_leaf in leaf_hashes[start:stop]:
            tree.append(hashed_leaf)
        return tree.root()

    return subtree


def prove_inclusion(index: int, size: int, subtree: Subtree) -> list[bytes]:
    """Return PATH(index, D[size]) of section 2.1.1."""
    if not 0 <= index < size:
        raise VerificationError(f"a tree of {size} leaves has no leaf {index}")
    path: list[bytes] = []
    start, stop = 0, size
    while stop - start > 1:
        middle = start + split(stop - start)
        if index < middle:
            path.append(subtree(middle, stop))
            stop = middle
        else:
            path.append(subtree(start, middle))
            start = middle
    return path[::-1]


def prove_consistency(first: int, second: int, subtree: Subtree) -> list[bytes]:
    """Return PROOF(first, D[second]) of section 2.1.2; empty for equal sizes."""
    if not 0 < first <= second:
        raise VerificationError(f"no consistency can be proven from {first} to {second} leaves")
    path: list[bytes] = []
    start, stop, whole = 0, second, True
    while first != stop:
        middle = start + split(stop - start)
        if first <= middle:
            path.append(subtree(middle, stop))
            stop = middle
        else:
            path.append(subtree(start, middle))
            start, whole = middle, False
    if not whole:
        path.append(subtree(start, stop))
    return path[::-1]
