"""Known answers for the planner: what was computed or counted elsewhere, and what the planner says of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction

from controller.planner.inference import (
    expert_bytes_per_token,
    kv_bytes_gqa,
    kv_bytes_mla,
    load_bytes,
    plan_inference,
)
from controller.planner.quality import compression_quality, local_compute_flop, sync_efficiency
from controller.planner.timing import needed_bytes_per_s, step_time_s, straggler_factor, sync_steps_min, transfer_s
from controller.planner.training import TrainingPlan, plan_training
from controller.planner.volume import NodeBytes, dense_bytes, exchange, lora_params, sparse_bytes

LLAMA_8B = "8030261248"
MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Known:
    """One known answer. ``within`` is relative, 0 for exact; ``source`` says whose it is."""

    name: str
    computed: float
    expected: float
    within: float
    unit: str
    source: str

    @property
    def off(self) -> float:
        """How far the planner is from it, relative."""
        return abs(self.computed / self.expected - 1)


def known() -> Iterator[Known]:
    """Yield every known answer."""
    yield from _volumes()
    yield from _worked()
    yield from _needed()
    yield from _regression()
    yield from _inference()


def training(**given: str) -> TrainingPlan:
    """Return a plan; underscores stand for hyphens. The limit is 1 MB/s unless given."""
    return plan_training({"limit": "1MB/s", **{name.replace("_", "-"): text for name, text in given.items()}})


def _volumes() -> Iterator[Known]:
    run = training(params=LLAMA_8B, nodes="4", method="diloco", bits="32", sync_steps="500", step_time="2s")
    up = float(run.moved.up_bytes)
    yield Known("volume.diloco_8b_4_ranks", up, 48.18e9, 0.0005, "B", "formula of the recorded run")
    yield Known("volume.diloco_8b_measured", up, 48.3e9, 0.005, "B", "measured: the recorded run's counters")
    step = training(params="671e9", nodes="1000000", method="ddp", bits="16", step_time="10s")
    yield Known(
        "rate.ddp_671b", float(step.needed_bytes_per_s), 2.684e11, 0.0005, "B/s", "the project's report, N large"
    )
    per_param = float(sparse_bytes(Fraction(1), Fraction(64, 4096), Fraction(14)) * 8)
    yield Known("sparse.bits_per_param", per_param, 0.21875, 0, "bit", "Covenant, arXiv 2603.08163")
    yield Known("sparse.against_fp32", 32 / per_param, 146.29, 0.0001, "1", "Covenant, arXiv 2603.08163")
    update = float(sparse_bytes(Fraction(72_700_000_000), Fraction(64, 4096), Fraction(14)))
    yield Known("sparse.covenant_update", update, 1.988e9, 0.0005, "B", "Covenant, arXiv 2603.08163")
    shapes = [(4096, 4096)] * 2 + [(4096, 1024)] * 2 + [(4096, 14336)] * 2 + [(14336, 4096)]
    adapters = float(lora_params(Fraction(16), shapes, Fraction(32)))
    yield Known("lora.llama_3_8b_rank_16", adapters, 41_943_040, 0, "1", "derived from the model's shapes")
    peers = dense_bytes(Fraction(1_200_000_000), Fraction(16))
    naive = exchange("p2p", Fraction(32), peers)
    sent = exchange("p2p", Fraction(32), Fraction(2_800_000))
    ring = exchange("ring", Fraction(32), peers)
    yield Known("distro.naive", float(naive.down_bytes), 74.4e9, 0.0005, "B", "DisTrO report 2024: all to all")
    yield Known("distro.sent", float(sent.down_bytes), 86.8e6, 0.0005, "B", "DisTrO report 2024")
    yield Known(
        "distro.against_naive", float(naive.down_bytes / sent.down_bytes), 857, 0.001, "1", "DisTrO report 2024"
    )
    yield Known("distro.against_ring", float(ring.down_bytes / sent.down_bytes), 53.6, 0.001, "1", "derived: a ring")
    refresh = {"params": "31e9", "nodes": "2", "method": "rl-refresh", "bits": "16", "period": "840s"}
    broadcast = training(**refresh, limit="590Mbit/s")
    yield Known("intellect_2.broadcast", float(broadcast.transfer_s), 840, 0.005, "s", "INTELLECT-2, arXiv 2505.07291")


_COVENANT = {"params": "72.7e9", "method": "sparseloco", "density": "64/4096", "bits_per_value": "14", "nodes": "20"}
_WORKED: Mapping[str, tuple[dict[str, str], float, float, float | None]] = {
    "ddp_671b": (
        {"params": "671e9", "nodes": "1000000", "method": "ddp", "bits": "16", "step_time": "10s"},
        2.684e12,
        268_400,
        None,
    ),
    "ddp_8b": (
        {"params": "8.03e9", "nodes": "8", "method": "ddp", "bits": "16", "step_time": "10s"},
        28.1e9,
        2_811,
        None,
    ),
    "diloco_recorded": (
        {"params": LLAMA_8B, "nodes": "4", "method": "diloco", "bits": "32", "sync_steps": "1", "step_time": "1060s"},
        48.3e9,
        45.6,
        46.6,
    ),
    "diloco_8b_2_nodes": (
        {"params": "8.03e9", "nodes": "2", "method": "diloco", "bits": "32", "sync_steps": "1", "step_time": "1060s"},
        32.1e9,
        30.3,
        31.3,
    ),
    "streaming_8b": (
        {
            "params": "8.03e9",
            "nodes": "8",
            "method": "streaming-diloco",
            "bits": "4",
            "sync_steps": "100",
            "step_time": "10s",
        },
        7.03e9,
        7.03,
        8.03,
    ),
    "covenant": ({**_COVENANT, "sync_steps": "30", "step_time": "40s"}, 1.99e9, 1.66, 2.66),
    "covenant_peers_fetch_all": (
        {**_COVENANT, "sync_steps": "30", "step_time": "40s", "topology": "store"},
        37.8e9,
        31.5,
        None,
    ),
    "covenant_500_steps": ({**_COVENANT, "sync_steps": "500", "step_time": "40s"}, 1.99e9, 1.00, 1.10),
    "pulse_7b": (
        {"params": "7e9", "nodes": "2", "method": "rl-refresh", "patch_bytes": "108MB", "period": "300s"},
        108e6,
        1.00,
        None,
    ),
}
"""At 1 MB/s: what is asked, bytes each way (the fuller one), slowdown overlapped, and blocking where it is known."""


def _worked() -> Iterator[Known]:
    for name, (given, volume, overlapped, blocking) in _WORKED.items():
        plan, source = training(**given), "worked by hand at 1 MB/s, full duplex; three digits"
        fuller = float(max(plan.moved.up_bytes, plan.moved.down_bytes))
        yield Known(f"worked.{name}.bytes", fuller, volume, 0.005, "B", source)
        yield Known(f"worked.{name}.overlapped", float(plan.slowdown.overlapped), overlapped, 0.005, "1", source)
        if blocking is not None:
            yield Known(f"worked.{name}.blocking", float(plan.slowdown.blocking), blocking, 0.005, "1", source)


NODES = {"8xH100": (8 * 989e12, 131_072), "8xB200": (8 * 2.25e15, 393_216), "NVL72": (72 * 2.5e15, 4_000_000)}
"""FLOP/s of a node (dense, bf16) and tokens it computes in a step."""
NEEDED = {
    "ddp_bf16": (4.0, 1, (16_097, 12_207, 12_000)),
    "diloco_fp32": (8.0, 500, (64.4, 48.8, 48.0)),
    "streaming_fp4": (1.0, 100, (40.2, 30.5, 30.0)),
    "bf16_16x": (0.25, 200, (5.03, 3.81, 3.75)),
    "sparseloco_30": (0.21875 / 8, 30, (3.67, 2.78, 2.73)),
    "sparseloco_500": (0.21875 / 8, 500, (0.22, 0.167, 0.164)),
}
"""Bytes a parameter and direction, steps between synchronisations, and the limit in MB/s that does not slow it."""
MFU = Fraction(4, 10)


def _needed() -> Iterator[Known]:
    params = Fraction(7_000_000_000)  # any: it cancels
    for name, (beta, steps, expected) in NEEDED.items():
        for (node, (flops, batch)), rate in zip(NODES.items(), expected, strict=True):
            step = step_time_s(params, Fraction(batch), Fraction(flops), MFU)
            moved = NodeBytes(params * Fraction(beta), params * Fraction(beta))
            found = float(needed_bytes_per_s(moved, step * steps, duplex="full")) / MILLION
            digits = 0.02 if rate == 0.22 else 0.005
            yield Known(f"needed.{name}.{node}", found, rate, digits, "MB/s", "derived: beta F MFU / (6 B H), MFU 0.4")


_LIMITS_MBIT = (10, 25, 50, 100, 250, 500, 1000, 8)
_STEPS = (1994, 798, 399, 200, 80, 40, 20, 2492)
_EFFICIENCY = (0.8047, 0.8259, 0.8418, 0.8578, 0.8789, 0.8949, 0.9109, 0.7996)
_COMPUTE = (1.643, 1.686, 1.719, 1.751, 1.794, 1.827, 1.860, 1.633)
_EFFICIENCY_WITHIN = 0.0005
_QUALITY_THEN = 0.98
"""Of 16x, when those figures were printed; the source later said 0.99."""
_OF_48_A100, _PARAMS = 14.976e15, 240e9


def _step_s(params: float, flops: float) -> Fraction:
    return step_time_s(Fraction(params), Fraction(131_072), Fraction(flops), MFU)


def _sync_s(params: float, mbit: int, nodes: int, compression: int = 16) -> Fraction:
    """Half duplex, 0.1 s of latency, his stragglers."""
    update = dense_bytes(Fraction(params), Fraction(16), Fraction(compression))
    limit = Fraction(mbit * MILLION, 8)
    late = Fraction(straggler_factor(nodes))
    return transfer_s(NodeBytes(update, update), limit, duplex="half", latency_s=Fraction(1, 10), straggler=late)


def _regression() -> Iterator[Known]:
    """A public simulator's printed output (Rahman, 14 Apr 2026): 72 nodes of 48 A100, 240e9 parameters."""
    source = "Rahman 2026, printed output of the simulator"
    step = _step_s(_PARAMS, _OF_48_A100)
    yield Known("rahman.step_time", float(step), 31.508, 0.0005, "s", source)
    for mbit, steps, efficiency, compute in zip(_LIMITS_MBIT, _STEPS, _EFFICIENCY, _COMPUTE, strict=True):
        fewest = sync_steps_min(_sync_s(_PARAMS, mbit, 72), step)
        found = sync_efficiency(_PARAMS, fewest) * _QUALITY_THEN
        done = local_compute_flop(72, _OF_48_A100, float(MFU), 1.5, found) / 1e25
        yield Known(f"rahman.steps.{mbit}", fewest, steps, 0, "1", source)
        yield Known(f"rahman.efficiency.{mbit}", found, efficiency, _EFFICIENCY_WITHIN / efficiency, "1", source)
        yield Known(f"rahman.compute.{mbit}", done, compute, 0.001, "1e25 FLOP", source)
    four = _sync_s(_PARAMS, 100, 4)
    yield Known("rahman.4_nodes.sync", float(four), 5_280.1, 0.0001, "s", source)
    yield Known("rahman.4_nodes.steps", sync_steps_min(four, step), 168, 0, "1", source)
    found = sync_efficiency(_PARAMS, 168) * _QUALITY_THEN
    yield Known("rahman.4_nodes.efficiency", found, 0.8617, _EFFICIENCY_WITHIN, "1", source)
    done = local_compute_flop(4, _OF_48_A100, float(MFU), 1.5, found) / 1e23
    yield Known("rahman.4_nodes.compute", done, 9.77, 0.001, "1e23 FLOP", source)
    other = sync_steps_min(_sync_s(144e9, 100, 72), _step_s(144e9, 16 * 989e12))
    yield Known("rahman.16_gh200.steps", other, 211, 0, "1", source)
    found = sync_efficiency(144e9, other) * _QUALITY_THEN
    yield Known("rahman.16_gh200.efficiency", found, 0.8523, _EFFICIENCY_WITHIN, "1", source)
    capped = float(_sync_s(_PARAMS, 8, 72) / (500 * step))
    yield Known("rahman.capped_500_steps.16x", max(1.0, capped), 4.98, 0.001, "1", "derived at 1 MB/s")
    finer = float(_sync_s(_PARAMS, 8, 72, 146) / (500 * step))
    yield Known("rahman.capped_500_steps.146x", max(1.0, finer), 1.0, 0, "1", "derived at 1 MB/s")
    yield Known("rahman.compression.16x", compression_quality(16), 0.99, 0, "1", "Rahman 2026, as changed later")


def _inference() -> Iterator[Known]:
    pod = plan_inference({"tokens-per-s": "10000", "gpus": "72", "bytes-per-token": "2"})
    yield Known("inference.nvl72_tokens", float(pod.boundary_bytes_per_s), 1.44e6, 0, "B/s", "the project's report")
    eight = plan_inference({"tokens-per-s": "10000", "gpus": "8", "bytes-per-token": "2"})
    yield Known("inference.8_gpus_tokens", float(eight.boundary_bytes_per_s), 0.16e6, 0, "B/s", "derived")
    latent = kv_bytes_mla(Fraction(61), Fraction(512), Fraction(64), Fraction(2))
    yield Known("kv.deepseek_v3", float(latent), 70_272, 0, "B", "arXiv 2505.09343, table 1")
    for name, layers, expected in (("qwen_2.5_72b", 80, 327_680), ("llama_3.1_405b", 126, 516_096)):
        grouped = kv_bytes_gqa(Fraction(layers), Fraction(8), Fraction(128), Fraction(2))
        yield Known(f"kv.{name}", float(grouped), expected, 0, "B", "arXiv 2505.09343, table 1")
    cache = float(131_072 * kv_bytes_gqa(Fraction(80), Fraction(8), Fraction(128), Fraction(2))) / 2**30
    yield Known("kv.mooncake_128k", cache, 40.0, 0, "GiB", "Mooncake: Llama-3-70B, 131,072 tokens; GiB, not GB")
    opt = float(512 * kv_bytes_gqa(Fraction(64), Fraction(72), Fraction(128), Fraction(2))) / 2**30
    yield Known("kv.distserve_opt_66b", opt, 1.125, 0, "GiB", "DistServe: OPT-66B, 512 tokens; their GB is a GiB")
    prefill = float(73_700 * latent)
    yield Known("kv.deepseek_prefill_node", prefill, 5.18e9, 0.001, "B/s", "derived from open-infra-index, day 6")
    moved = expert_bytes_per_token(Fraction(7_000), Fraction(9), Fraction(1)) * 32
    each_us = float(moved) / 50e9 * 1e6
    yield Known("experts.layer", each_us, 120.96, 0.0001, "us", "arXiv 2505.09343: 32 tokens, 50 GB/s")
    yield Known(
        "experts.61_layers", 61 * 2 * each_us / 1e3, 14.76, 0.0005, "ms", "arXiv 2505.09343, both micro-batches"
    )
    one = expert_bytes_per_token(Fraction(7_168), Fraction(8), Fraction(58))
    yield Known("experts.token", float(one), 9.98e6, 0.001, "B", "derived: DeepSeek-V3, every expert elsewhere")
    drawn = {"images-per-s": "0.5", "bytes-per-image": "1.4MB"}
    images = plan_inference({"tokens-per-s": "1", "gpus": "1", "bytes-per-token": "2", **drawn}).needed["images"]
    yield Known(
        "image.rate", float(images or 0), 700e3, 0, "B/s", "the project's report: 1.4 MB an image, 0.5 a second"
    )
    hours = float(load_bytes(Fraction(70_000_000_000), Fraction(2), Fraction(1))) / MILLION / 3_600
    yield Known("load.140_gb_hours", hours, 38.9, 0.001, "h", "derived at 1 MB/s")
    both = float(load_bytes(Fraction(68_976_648_192), Fraction(2), Fraction(2)))
    yield Known("load.llama_2_70b_both_gpus", both, 277.6e9, 0.01, "B", "measured: each of two GPUs reads all of it")
    yield Known("load.reverse_share", 653e6 / 277.6e9, 0.00235, 0.002, "1", "measured: the same load")
