"""The RFC 6962 Merkle tree over SHA-256: roots, proofs, and how proofs are checked.

Leaves and inner nodes are hashed apart (a zero and a one in front, RFC 6962 section 2.1), so that no node passes for
a leaf. Proofs are checked by the algorithms of RFC 9162 sections 2.1.3.2 and 2.1.4.2; a proof is bound to both sizes
and has exactly one length.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Iterable, Sequence

from controller.evidence.grammar import MAX_DECIMAL
from controller.evidence.refusal import VerificationError

HASH_BYTES = 32
EMPTY_ROOT = hashlib.sha256(b"").digest()

Subtree = Callable[[int, int], bytes]
"""Returns the root over leaves ``start`` to ``stop - 1``; proofs are made from it, so that a store may keep nodes."""


def leaf_hash(data: bytes) -> bytes:
    """Return the hash of a leaf that holds ``data``."""
    return hashlib.sha256(b"\x00" + data).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """Return the hash of an inner node."""
    return hashlib.sha256(b"\x01" + left + right).digest()


class CompactRange:
    """A tree that only grows: the roots of its full subtrees, largest first; at most 63 hashes."""

    def __init__(self, size: int = 0, hashes: Iterable[bytes] = ()) -> None:
        """Resume the tree of ``size`` leaves from its ``hashes``.

        Raises:
            VerificationError: a tree of that size has another number of full subtrees.
        """
        self.size, self._hashes = size, list(hashes)
        fit = 0 <= size <= MAX_DECIMAL and len(self._hashes) == size.bit_count()
        if not fit or any(len(each) != HASH_BYTES for each in self._hashes):
            raise VerificationError(f"a tree of {size} leaves does not have these {len(self._hashes)} full subtrees")

    @property
    def hashes(self) -> tuple[bytes, ...]:
        """What the tree can be resumed from."""
        return tuple(self._hashes)

    def append(self, hashed_leaf: bytes) -> None:
        """Add one leaf by its hash."""
        # A subtree as large as the one beside it on the left merges with it: the carry of a binary counter.
        carry = self.size
        while carry & 1:
            hashed_leaf = node_hash(self._hashes.pop(), hashed_leaf)
            carry >>= 1
        self._hashes.append(hashed_leaf)
        self.size += 1

    def root(self) -> bytes:
        """Return the root of the tree as it is now."""
        if not self._hashes:
            return EMPTY_ROOT
        root = self._hashes[-1]
        for left in reversed(self._hashes[:-1]):
            root = node_hash(left, root)
        return root


def subtree_of(leaf_hashes: Sequence[bytes]) -> Subtree:
    """Return the subtree roots over leaves that are all in memory."""

    def subtree(start: int, stop: int) -> bytes:
        tree = CompactRange()
        for hashed_leaf in leaf_hashes[start:stop]:
            tree.append(hashed_leaf)
        return tree.root()

    return subtree


def _split(count: int) -> int:
    """Return the largest power of two below ``count``, which is at least two."""
    return 1 << (count - 1).bit_length() - 1


def prove_inclusion(index: int, size: int, subtree: Subtree) -> list[bytes]:
    """Return PATH(index, D[size]) of RFC 6962 section 2.1.1.

    Raises:
        VerificationError: there is no such leaf.
    """
    if not 0 <= index < size:
        raise VerificationError(f"a tree of {size} leaves has no leaf {index}")
    path: list[bytes] = []
    start, stop = 0, size
    while stop - start > 1:
        middle = start + _split(stop - start)
        if index < middle:
            path.append(subtree(middle, stop))
            stop = middle
        else:
            path.append(subtree(start, middle))
            start = middle
    return path[::-1]


def prove_consistency(first: int, second: int, subtree: Subtree) -> list[bytes]:
    """Return PROOF(first, D[second]) of RFC 6962 section 2.1.2; empty for equal sizes.

    Raises:
        VerificationError: the first tree is empty or the larger one.
    """
    if not 0 < first <= second:
        raise VerificationError(f"no consistency can be proven from {first} to {second} leaves")
    path: list[bytes] = []
    start, stop, whole = 0, second, True
    while first != stop:
        middle = start + _split(stop - start)
        if first <= middle:
            path.append(subtree(middle, stop))
            stop = middle
        else:
            path.append(subtree(start, middle))
            start, whole = middle, False
    if not whole:
        path.append(subtree(start, stop))
    return path[::-1]


def check_inclusion(index: int, size: int, hashed_leaf: bytes, path: Sequence[bytes], root: bytes) -> None:
    """Return if the leaf with ``hashed_leaf`` is number ``index`` of the tree of ``size`` leaves under ``root``.

    Raises:
        VerificationError: it is not.
    """
    _check_hashes(hashed_leaf, root, *path)
    if not 0 <= index < size <= MAX_DECIMAL:
        raise VerificationError(f"a tree of {size} leaves has no leaf {index}")
    node, last, computed = index, size - 1, hashed_leaf
    for sibling in path:
        if last == 0:
            raise VerificationError("the inclusion proof is too long")
        if node & 1 or node == last:
            computed = node_hash(sibling, computed)
            node, last = _up_while_even(node, last)
        else:
            computed = node_hash(computed, sibling)
        node, last = node >> 1, last >> 1
    if last != 0:
        raise VerificationError("the inclusion proof is too short")
    if not hmac.compare_digest(computed, root):
        raise VerificationError(f"leaf {index} is not in the tree of {size} leaves: the proof leads to another root")


def check_consistency(first: int, second: int, path: Sequence[bytes], first_root: bytes, second_root: bytes) -> None:
    """Return if the tree of ``first`` leaves is the beginning of the tree of ``second`` leaves.

    Raises:
        VerificationError: it is not, or the first tree is empty (which is the beginning of every tree).
    """
    _check_hashes(first_root, second_root, *path)
    if not 0 < first <= second <= MAX_DECIMAL:
        raise VerificationError(f"a tree of {second} leaves cannot be shown to continue one of {first}")
    if first == second:
        if path or first_root != second_root:
            raise VerificationError(f"two trees of {first} leaves differ")
        return
    if not path:
        raise VerificationError("the consistency proof is too short")
    # The root of a first tree that is one full subtree is not repeated in the proof.
    steps = [first_root, *path] if first & (first - 1) == 0 else list(path)
    old, new = _both_roots(first - 1, second - 1, steps)
    if not (hmac.compare_digest(old, first_root) and hmac.compare_digest(new, second_root)):
        raise VerificationError(f"the tree of {second} leaves does not continue the tree of {first}: history differs")


def _both_roots(node: int, last: int, steps: Sequence[bytes]) -> tuple[bytes, bytes]:
    """Return the roots of the earlier and the later tree that a consistency proof leads to."""
    while node & 1:
        node, last = node >> 1, last >> 1
    old = new = steps[0]
    for sibling in steps[1:]:
        if last == 0:
            raise VerificationError("the consistency proof is too long")
        if node & 1 or node == last:
            old, new = node_hash(sibling, old), node_hash(sibling, new)
            node, last = _up_while_even(node, last)
        else:
            new = node_hash(new, sibling)
        node, last = node >> 1, last >> 1
    if last != 0:
        raise VerificationError("the consistency proof is too short")
    return old, new


def _up_while_even(node: int, last: int) -> tuple[int, int]:
    """Return both one level below the next at which ``node`` is a right child: there it has no sibling before."""
    while node and not node & 1:
        node, last = node >> 1, last >> 1
    return node, last


def _check_hashes(*hashes: bytes) -> None:
    if any(len(each) != HASH_BYTES for each in hashes):
        raise VerificationError(f"a hash of the tree does not have {HASH_BYTES} bytes")
