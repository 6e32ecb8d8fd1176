"""The RFC 6962 Merkle tree over SHA-256: roots, and how proofs are checked.

Leaves and inner nodes are hashed apart (a zero and a one in front, section 2.1), so that no node passes for a leaf. A
proof is checked by the definition it is made by: down from the sizes, which alone decide on which side a hash belongs
and how many there are, and up again with the hashes. Proofs begin at the leaf and end under the root.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

from controller.evidence.grammar import MAX_DECIMAL
from controller.evidence.refusal import VerificationError

HASH_BYTES = 32
EMPTY_ROOT = hashlib.sha256(b"").digest()


def leaf_hash(data: bytes) -> bytes:
    """Return the hash of a leaf that holds ``data``."""
    return hashlib.sha256(b"\x00" + data).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """Return the hash of an inner node."""
    return hashlib.sha256(b"\x01" + left + right).digest()


class CompactRange:
    """A tree that only grows: the roots of its full subtrees, largest first; at most 63 hashes."""

    def __init__(self, size: int = 0, hashes: Iterable[bytes] = ()) -> None:
        """Resume the tree of ``size`` leaves from its ``hashes``."""
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


def split(count: int) -> int:
    """Return the largest power of two below ``count``, which is at least two."""
    return 1 << (count - 1).bit_length() - 1


def check_inclusion(index: int, size: int, hashed_leaf: bytes, path: Sequence[bytes], root: bytes) -> None:
    """Return if the leaf with ``hashed_leaf`` is number ``index`` of the tree of ``size`` leaves under ``root``."""
    _check_hashes(hashed_leaf, root, *path)
    if not 0 <= index < size <= MAX_DECIMAL:
        raise VerificationError(f"a tree of {size} leaves has no leaf {index}")
    rest = list(path)
    computed = _root_over(index, size, hashed_leaf, rest)
    if rest:
        raise VerificationError("the inclusion proof is too long")
    if computed != root:
        raise VerificationError(f"leaf {index} is not in the tree of {size} leaves: the proof leads to another root")


def _root_over(index: int, size: int, hashed_leaf: bytes, rest: list[bytes]) -> bytes:
    """Return the root of the tree of ``size`` leaves that the last hashes of ``rest``, which it takes, lead to."""
    if size == 1:
        return hashed_leaf
    middle, sibling = split(size), _take(rest)
    if index < middle:
        return node_hash(_root_over(index, middle, hashed_leaf, rest), sibling)
    return node_hash(sibling, _root_over(index - middle, size - middle, hashed_leaf, rest))


def check_consistency(first: int, second: int, path: Sequence[bytes], first_root: bytes, second_root: bytes) -> None:
    """Return if the tree of ``first`` leaves, at least one, is the beginning of the tree of ``second`` leaves."""
    _check_hashes(first_root, second_root, *path)
    if not 0 < first <= second <= MAX_DECIMAL:
        raise VerificationError(f"a tree of {second} leaves cannot be shown to continue one of {first}")
    rest = list(path)
    old, new = _both_roots(first, second, first_root, rest)
    if rest:
        raise VerificationError("the consistency proof is too long")
    if (old, new) != (first_root, second_root):
        raise VerificationError(f"the tree of {second} leaves does not continue the tree of {first}: history differs")


def _both_roots(first: int, size: int, known: bytes | None, rest: list[bytes]) -> tuple[bytes, bytes]:
    """Return the roots over the first ``first`` and over all ``size`` leaves that ``rest`` leads to.

    ``known`` is the root of the first tree as long as all of it is here (b in the definition): no proof repeats it.
    """
    if first == size:
        root = _take(rest) if known is None else known
        return root, root
    middle, sibling = split(size), _take(rest)
    if first <= middle:
        old, new = _both_roots(first, middle, known, rest)
        return old, node_hash(new, sibling)
    old, new = _both_roots(first - middle, size - middle, None, rest)
    return node_hash(sibling, old), node_hash(sibling, new)


def _take(rest: list[bytes]) -> bytes:
    if not rest:
        raise VerificationError("the proof is too short")
    return rest.pop()


def _check_hashes(*hashes: bytes) -> None:
    if any(len(each) != HASH_BYTES for each in hashes):
        raise VerificationError(f"a hash of the tree does not have {HASH_BYTES} bytes")
