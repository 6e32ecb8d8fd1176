"""Bytes that one node sends and receives for one synchronisation. Every function is exact arithmetic on Fractions.

Payload only: headers come on top (:func:`framed_bytes`). "Up" leaves the node, "down" enters it.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from controller.planner.marks import PlanError

BITS_PER_BYTE = 8


@dataclass(frozen=True, slots=True)
class NodeBytes:
    """Bytes that the busiest node sends and receives."""

    up_bytes: Fraction
    down_bytes: Fraction

    def times(self, factor: Fraction | int) -> NodeBytes:
        """Return so many times as much."""
        return NodeBytes(self.up_bytes * factor, self.down_bytes * factor)


def dense_bytes(params: Fraction, bits_per_value: Fraction, compression: Fraction = Fraction(1)) -> Fraction:
    """Return the bytes of one value for each parameter: ``P * b/8 / C``."""
    return params * bits_per_value / BITS_PER_BYTE / compression


def sparse_bytes(params: Fraction, density: Fraction, bits_per_value: Fraction) -> Fraction:
    """Return the bytes of a top-k update: ``P * k * bits/8``, ``bits`` being value and index of one that is sent.

    Source: SparseLoCo (arXiv 2508.15706), Covenant-72B (2603.08163): k = 64/4096, 2 + 12 bits: 0.21875 bit a parameter.
    """
    return params * density * bits_per_value / BITS_PER_BYTE


def ring_factor(nodes: Fraction) -> Fraction:
    """Return ``2 (N-1)/N``: what a ring all-reduce moves each way of the vector; 2 in the limit of many nodes.

    Source: Patarasuk and Yuan 2009, "Bandwidth optimal all-reduce"; measured at 48.3 GB for N = 4 (predicted 48.18).
    """
    return 2 * (nodes - 1) / nodes


def exchange(topology: str, nodes: Fraction, update_bytes: Fraction) -> NodeBytes:
    """Return what the busiest node moves when each of ``nodes`` has an update of ``update_bytes``.

    ring: all-reduce, ``2 (N-1)/N`` each way. tree: a binary tree up and down; an inner node has two children and a
    parent. aggregator: each sends one and gets one back that the aggregator made (the aggregator's own link is not
    counted). store: each puts one and fetches those of all others (Covenant without recompression). p2p: each sends to
    every other (naive all-to-all, DisTrO report 2024). pairs: one peer at a time (NoLoCo, arXiv 2506.10911).

    Raises:
        PlanError: the topology is not known, or there is nobody to exchange with.
    """
    if nodes < 2:
        raise PlanError("--nodes: one node exchanges nothing with itself; write 2 or more")
    others = nodes - 1
    factors: dict[str, tuple[Fraction | int, Fraction | int]] = {
        "ring": (ring_factor(nodes), ring_factor(nodes)),
        "tree": (_tree_factor(nodes), _tree_factor(nodes)),
        "aggregator": (1, 1),
        "store": (1, others),
        "p2p": (others, others),
        "pairs": (1, 1),
    }
    if topology not in factors:
        raise PlanError(f"--topology: {topology!r} is not known. Use one of {', '.join(factors)}")
    up, down = factors[topology]
    return NodeBytes(update_bytes * up, update_bytes * down)


TOPOLOGIES = ("ring", "tree", "aggregator", "store", "p2p", "pairs")


def _tree_factor(nodes: Fraction) -> int:
    """Reduce up a binary heap and broadcast down it: a node moves one vector each way over each of its tree links."""
    root_links = min(2, int(nodes) - 1)
    inner_links = 1 + min(2, max(0, int(nodes) - 3))
    return max(root_links, inner_links if nodes > 2 else 1)


def sharded_bytes(params: Fraction, nodes: Fraction, bits_per_value: Fraction) -> Fraction:
    """Return what fully sharded data parallelism (FSDP, ZeRO-3) moves each way for one micro-step.

    Two all-gathers and one reduce-scatter of the weights: ``3 (N-1)/N * P * b/8`` (ZeRO, arXiv 1910.02054).
    """
    return 3 * (nodes - 1) / nodes * params * bits_per_value / BITS_PER_BYTE


def lora_params(rank: Fraction, shapes: list[tuple[int, int]], layers: Fraction) -> Fraction:
    """Return the parameters of low-rank adapters: ``layers * sum of r (d_in + d_out)`` (LoRA, arXiv 2106.09685)."""
    return layers * rank * sum(before + after for before, after in shapes)


def activation_bytes(tokens: Fraction, hidden: Fraction, bits_per_value: Fraction, compression: Fraction) -> Fraction:
    """Return the bytes of one micro-batch's activations at one boundary: ``tokens * hidden * b/8 / C``.

    The gradients that come back are as many (GPipe, arXiv 1811.06965). Compression: Protocol Models (2506.01260).
    """
    return tokens * hidden * bits_per_value / BITS_PER_BYTE / compression


def framed_bytes(payload_bytes: Fraction, framing_overhead: Fraction) -> Fraction:
    """Return the bytes on the wire: ``payload * (1 + overhead)``; 66/1448 for TCP in frames of 1500 bytes of MTU."""
    return payload_bytes * (1 + framing_overhead)
