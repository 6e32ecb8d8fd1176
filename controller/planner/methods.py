"""Methods of training across slow links: which parameters each needs, and what a node moves for one synchronisation."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

from controller.planner.inputs import Inputs
from controller.planner.marks import Mark, PlanError
from controller.planner.volume import (
    NodeBytes,
    activation_bytes,
    dense_bytes,
    exchange,
    lora_params,
    sharded_bytes,
    sparse_bytes,
)


@dataclass(frozen=True, slots=True)
class Case:
    """What every method is given: the model, the nodes, how they are connected (None: as the method has it)."""

    params: Fraction
    nodes: Fraction
    topology: str | None


@dataclass(frozen=True, slots=True)
class Traffic:
    """What a node moves for one synchronisation, and how many steps lie between two.

    ``sync_steps`` None: the method has a period in seconds instead, ``period_s``. ``parts``: the update leaves in so
    many pieces spread over the period. ``compression``: against 16-bit values, for the quality model; None: none sent.
    """

    moved: NodeBytes
    sync_steps: Fraction | None
    period_s: Fraction | None = None
    parts: Fraction = Fraction(1)
    compression: Fraction | None = None


@dataclass(frozen=True, slots=True)
class Method:
    """One method: ``plan`` reads its own parameters; ``source`` is where its form is from.

    ``rarer``: whether it could synchronise more seldom and still be itself, or a relative of its own.
    """

    title: str
    source: str
    plan: Callable[[Inputs, Case], Traffic]
    outside: tuple[str, ...] = ()
    rarer: bool = True


def _topology(inputs: Inputs, case: Case, usual: str, reason: str) -> str:
    if case.topology is not None:
        inputs.assume("topology", case.topology, Mark.GIVEN, "the caller")
        return case.topology
    inputs.assume("topology", usual, Mark.ASSUMED, f"default: {reason}")
    return usual


def _compression(inputs: Inputs) -> Fraction:
    return inputs.default("compression", "1", "nothing beyond --bits is saved")


def _dense(inputs: Inputs, case: Case, title: str) -> tuple[Fraction, Fraction]:
    bits = inputs.need("bits", title)
    factor = _compression(inputs)
    return dense_bytes(case.params, bits, factor), factor * 16 / bits


def _every_step(inputs: Inputs, title: str) -> None:
    if inputs.optional("sync-steps") not in {None, 1}:
        raise PlanError(f"--sync-steps: {title} synchronises every step. Leave it out, or choose diloco")


def _ddp(inputs: Inputs, case: Case) -> Traffic:
    _every_step(inputs, "DDP")
    update, _ = _dense(inputs, case, "DDP")
    moved = exchange(_topology(inputs, case, "ring", "what NCCL and Gloo use"), case.nodes, update)
    return Traffic(moved, Fraction(1))


def _fsdp(inputs: Inputs, case: Case) -> Traffic:
    if case.topology not in (None, "ring"):
        raise PlanError("--topology: FSDP is planned as rings only. Leave it out")
    if case.nodes < 2:
        raise PlanError("--nodes: one node exchanges nothing with itself; write 2 or more")
    _every_step(inputs, "FSDP")
    bits = inputs.need("bits", "FSDP")
    _topology(inputs, case, "ring", "what NCCL uses for all-gather and reduce-scatter")
    micro = inputs.default("micro-steps", "1", "one micro-step a step; each gathers the weights anew")
    volume = sharded_bytes(case.params, case.nodes, bits) * micro
    return Traffic(NodeBytes(volume, volume), Fraction(1))


def _diloco(inputs: Inputs, case: Case) -> Traffic:
    steps = inputs.need("sync-steps", "DiLoCo")
    update, factor = _dense(inputs, case, "DiLoCo")
    moved = exchange(_topology(inputs, case, "ring", "as in the recorded run"), case.nodes, update)
    return Traffic(moved, steps, compression=factor)


def _streaming(inputs: Inputs, case: Case) -> Traffic:
    parts = inputs.default("fragments", "1", "evens out when bytes leave, not how many")
    return replace(_diloco(inputs, case), parts=parts)


def _sparse(inputs: Inputs, case: Case) -> Traffic:
    steps = inputs.need("sync-steps", "SparseLoCo")
    density = inputs.need("density", "SparseLoCo")
    bits = inputs.need("bits-per-value", "SparseLoCo")
    if inputs.optional("bits") is not None:
        inputs.assume("bits", "not used", Mark.DERIVED, "the weights themselves are not sent")
    update = sparse_bytes(case.params, density, bits)
    usual = _topology(
        inputs, case, "aggregator", "an aggregator that compresses anew; `store` or `p2p` if peers fetch all"
    )
    parts = inputs.default("fragments", "1", "sent in one piece; in many, the same bytes make no burst")
    moved = exchange(usual, case.nodes, update)
    return Traffic(moved, steps, parts=parts, compression=16 / (density * bits))


def _each_step(inputs: Inputs, case: Case, title: str) -> Traffic:
    factor = inputs.need("compression", title)
    update, against_16 = _dense(inputs, case, title)
    steps = inputs.default("sync-steps", "1", "every step")
    usual = _topology(inputs, case, "p2p", "each sends to every other, as the report counts")
    return Traffic(exchange(usual, case.nodes, update), steps, compression=max(factor, against_16))


def _distro(inputs: Inputs, case: Case) -> Traffic:
    return _each_step(inputs, case, "DisTrO")


def _p2p(inputs: Inputs, case: Case) -> Traffic:
    update, factor = _dense(inputs, case, "p2p")
    steps = inputs.default("sync-steps", "1", "every step")
    usual = _topology(inputs, case, "p2p", "each sends to every other")
    return Traffic(exchange(usual, case.nodes, update), steps, compression=factor)


def _gossip(inputs: Inputs, case: Case) -> Traffic:
    steps = inputs.need("sync-steps", "gossip")
    update, factor = _dense(inputs, case, "gossip")
    usual = _topology(inputs, case, "pairs", "one random peer a synchronisation")
    return Traffic(exchange(usual, case.nodes, update), steps, compression=factor)


def parse_shapes(text: str) -> list[tuple[int, int]]:
    """Return ``4096x1024,4096x4096*2`` as pairs of input and output width, ``*2`` for two alike.

    Raises:
        PlanError: it cannot be read.
    """
    found: list[tuple[int, int]] = []
    for one in text.split(","):
        shape, _, times = one.strip().partition("*")
        before, _, after = shape.partition("x")
        numbers = [before, after, times or "1"]
        if not all(number.isascii() and number.isdigit() and 0 < len(number) < 10 for number in numbers):
            raise PlanError(f"--lora-shapes: {one!r} is not a shape. Write 4096x1024, or 4096x1024*2 for two")
        found += [(int(before), int(after))] * min(int(numbers[2]), 1_000)
    return found


def _lora(inputs: Inputs, case: Case) -> Traffic:
    adapters = inputs.optional("adapter-params")
    if adapters is None:
        if not inputs.has("lora-rank"):
            raise PlanError("LoRA needs --adapter-params, or --lora-rank with --lora-shapes and --layers. Give either")
        rank = inputs.need("lora-rank", "LoRA")
        shapes = parse_shapes(inputs.text("lora-shapes", "LoRA by rank"))
        adapters = lora_params(rank, shapes, inputs.need("layers", "LoRA by rank"))
    bits = inputs.need("bits", "LoRA")
    factor = _compression(inputs)
    steps = inputs.default("sync-steps", "1", "every step")
    usual = _topology(inputs, case, "ring", "what NCCL and Gloo use")
    return Traffic(exchange(usual, case.nodes, dense_bytes(adapters, bits, factor)), steps)


def _pipeline(inputs: Inputs, case: Case) -> Traffic:
    if case.nodes < 2:
        raise PlanError("--nodes: a pipeline of one stage sends nothing; write 2 or more")
    if case.topology is not None:
        raise PlanError("--topology: a pipeline is a chain of its stages. Leave it out")
    tokens = inputs.need("micro-batch-tokens", "a pipeline")
    micro = inputs.need("micro-batches", "a pipeline")
    bits = inputs.need("bits", "a pipeline")
    hidden = inputs.optional("hidden")
    if hidden is None:
        hidden = Fraction(round(0.03 * math.sqrt(case.params)))
        inputs.assume(
            "hidden", str(hidden), Mark.DERIVED, "0.03 sqrt(P): 3 % low at 70B, 17 % high at 405B; give --hidden"
        )
    one = activation_bytes(tokens, hidden, bits, _compression(inputs))
    sides = 1 if case.nodes == 2 else 2
    inputs.assume("stages", str(case.nodes), Mark.DERIVED, "one a node; an inner stage has two neighbours")
    return Traffic(NodeBytes(one * micro * sides, one * micro * sides), Fraction(1))


def _rl_refresh(inputs: Inputs, case: Case) -> Traffic:
    period = inputs.need("period", "RL weight refresh")
    patch = inputs.optional("patch-bytes")
    if patch is None:
        if not inputs.has("bits"):
            raise PlanError("RL weight refresh needs --patch-bytes, or --bits for all weights. Give either")
        patch = dense_bytes(case.params, inputs.need("bits", "a full refresh"))
    if inputs.optional("bits") is not None and inputs.has("patch-bytes"):
        inputs.assume("bits", "not used", Mark.DERIVED, "the patch is as large as --patch-bytes says")
    usual = _topology(inputs, case, "aggregator", "the trainer sends once, a tree or a store passes it on")
    moved = exchange(usual, case.nodes, patch)
    return Traffic(moved, None, period)


_OUTER = ("whether training at this interval is any good: --sync-steps beyond 500 is untested in public",)
METHODS = {
    "ddp": Method("data parallel, every step", "Li et al., arXiv 2006.15704", _ddp),
    "fsdp": Method("fully sharded data parallel (ZeRO-3)", "Rajbhandari et al., arXiv 1910.02054", _fsdp, rarer=False),
    "diloco": Method("DiLoCo", "Douillard et al., arXiv 2311.08105", _diloco, _OUTER),
    "streaming-diloco": Method("Streaming DiLoCo", "Douillard et al., arXiv 2501.18512", _streaming, _OUTER),
    "sparseloco": Method("SparseLoCo, top-k with error feedback", "arXiv 2508.15706 and 2603.08163", _sparse, _OUTER),
    "distro": Method("DisTrO-class compression, every step", "DisTrO preliminary report, 2024", _distro),
    "p2p": Method("all to all", "DisTrO preliminary report, 2024 (its baseline)", _p2p),
    "gossip": Method("gossip with one peer", "NoLoCo, arXiv 2506.10911", _gossip, _OUTER),
    "lora": Method(
        "low-rank adapters", "Hu et al., arXiv 2106.09685", _lora, ("the smaller compute of frozen weights",)
    ),
    "pipeline": Method(
        "pipeline over slow links",
        "SWARM (arXiv 2301.11913), Protocol Models (2506.01260)",
        _pipeline,
        ("the pipeline's own bubble, (stages - 1) of (micro-batches + stages - 1) slots: part of the step time given",),
        rarer=False,
    ),
    "rl-refresh": Method(
        "weights sent to inference nodes",
        "INTELLECT-2 (arXiv 2505.07291), PULSE (2602.03839)",
        _rl_refresh,
        ("the rollouts back, about 8 bytes a token (id and log probability)",),
    ),
}
