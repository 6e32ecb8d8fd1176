"""What serving needs at the pod's boundary, by cause, and what must stay inside a pod.

Rates are bytes per second of the whole pod, the fuller direction. Sources stand beside each formula.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from controller.planner import quantities as kind
from controller.planner.inputs import Inputs
from controller.planner.marks import Assumption, Mark, PlanError

BYTES_PER_ACTIVATION = 2
"""bf16."""
DISPATCH_BYTES, COMBINE_BYTES = 1, 2
"""Expert parallelism sends tokens out as fp8 and takes results back as bf16 (DeepSeek-V3, arXiv 2505.09343)."""

PARAMETERS: dict[str, kind.Quantity | None] = {
    "tokens-per-s": kind.NUMBER,
    "gpus": kind.COUNT,
    "bytes-per-token": kind.NUMBER,
    "token-overhead": kind.AT_LEAST_ZERO,
    "images-per-s": kind.NUMBER,
    "bytes-per-image": kind.SIZE,
    "videos-per-s": kind.NUMBER,
    "bytes-per-video": kind.SIZE,
    "layers": kind.COUNT,
    "kv-heads": kind.COUNT,
    "head-dim": kind.COUNT,
    "kv-rank": kind.COUNT,
    "rope-dim": kind.COUNT,
    "kv-bytes": kind.NUMBER,
    "prefill-tokens-per-s": kind.NUMBER,
    "hidden": kind.COUNT,
    "tensor-parallel": kind.COUNT,
    "expert-parallel": kind.COUNT,
    "experts-per-token": kind.COUNT,
    "moe-layers": kind.COUNT,
    "params": kind.MODEL,
    "weight-bytes": kind.NUMBER,
    "copies": kind.COUNT,
    "load-within": kind.SECONDS,
    "refresh-bytes": kind.SIZE,
    "refresh-period": kind.SECONDS,
    "gpus-per-node": kind.COUNT,
    "gpu-memory": kind.SIZE,
    "limit": kind.RATE,
}
"""Every parameter of ``plan inference``: ``tokens-per-s`` a GPU, the other rates of the whole pod."""

INSIDE = ("kv_transfer", "tensor_parallel", "expert_parallel")
"""Causes that a pod's shape can keep inside it; tokens and loads must come from outside."""
CAUSES = ("tokens", "images", "video", *INSIDE, "model_load", "refresh")
INSIDE_FACTOR = 10
"""Without a limit given, a cause that needs so many times what the front end needs belongs inside."""
OUTSIDE = (
    "logs, metrics, checkpoints, container images, backups and health checks",
    "text as JSON events: about 150 to 350 bytes a token (estimate), 100 times packed identifiers: measure it",
    "a remote key-value cache or offload store, unless given as key-value transfer",
    "requests in the other direction: prompts are taken as no more bytes than answers",
    "bursts: rates are means while the given load lasts",
)


@dataclass(frozen=True, slots=True)
class InferencePlan:
    """``needed`` has a rate in bytes/s by cause, None where too little was given to tell, and then why."""

    kv_bytes_per_token: int | None
    needed: dict[str, Fraction | None]
    unknown: dict[str, str]
    must_stay: tuple[str, ...]
    pod_gpus_min: int | None
    pod_nodes_min: int | None
    load: dict[str, Any] | None
    limit_bytes_per_s: Fraction | None
    assumptions: tuple[Assumption, ...]

    @property
    def boundary_bytes_per_s(self) -> Fraction:
        """What must cross the boundary at all times: tokens, images and video."""
        return sum((self.needed[name] or Fraction(0) for name in ("tokens", "images", "video")), Fraction(0))

    def json(self) -> dict[str, Any]:
        """Return it as JSON has it: rates are numbers, null where not known."""
        return {
            "kv_bytes_per_token": None if self.kv_bytes_per_token is None else str(self.kv_bytes_per_token),
            "needed_bytes_per_s": {name: None if rate is None else float(rate) for name, rate in self.needed.items()},
            "not_known": self.unknown,
            "boundary_bytes_per_s": float(self.boundary_bytes_per_s),
            "must_stay_in_pod": list(self.must_stay),
            "pod_gpus_min": self.pod_gpus_min,
            "pod_nodes_min": self.pod_nodes_min,
            "load": self.load,
            "fits_limit": None
            if self.limit_bytes_per_s is None
            else {name: rate <= self.limit_bytes_per_s for name, rate in self.needed.items() if rate is not None},
            "assumptions": [each.json() for each in self.assumptions],
            "outside_model": list(OUTSIDE),
        }


def kv_bytes_gqa(layers: Fraction, kv_heads: Fraction, head_dim: Fraction, value_bytes: Fraction) -> Fraction:
    """Return key-value cache bytes a token with grouped queries: ``layers * 2 * heads * dim * bytes`` (2305.13245)."""
    return layers * 2 * kv_heads * head_dim * value_bytes


def kv_bytes_mla(layers: Fraction, kv_rank: Fraction, rope_dim: Fraction, value_bytes: Fraction) -> Fraction:
    """Return key-value cache bytes a token with latent attention: ``layers * (rank + rope) * bytes`` (2405.04434)."""
    return layers * (kv_rank + rope_dim) * value_bytes


def expert_bytes_per_token(hidden: Fraction, experts: Fraction, moe_layers: Fraction) -> Fraction:
    """Return bytes a token with every chosen expert elsewhere: ``hidden * topk * (1 + 2) * layers`` (2505.09343)."""
    return hidden * experts * (DISPATCH_BYTES + COMBINE_BYTES) * moe_layers


def tensor_bytes_per_token(hidden: Fraction, layers: Fraction, ways: Fraction) -> Fraction:
    """Return bytes a token of tensor parallelism: two all-reduces a layer, ``2 (W-1)/W * hidden * 2`` each.

    Source: Megatron-LM, arXiv 1909.08053.
    """
    return 2 * layers * 2 * (ways - 1) / ways * hidden * BYTES_PER_ACTIVATION


def load_bytes(params: Fraction, weight_bytes: Fraction, copies: Fraction) -> Fraction:
    """Return the bytes of loading a model: ``P * bytes * copies``. In one recorded load each GPU read all of it."""
    return params * weight_bytes * copies


def plan_inference(given: Mapping[str, str]) -> InferencePlan:
    """Return the plan for parameters given as texts, by the names in :data:`PARAMETERS`.

    Raises:
        PlanError: something is missing, impossible, can be taken two ways, or was given and changes nothing.
    """
    inputs = Inputs(given, PARAMETERS)
    needed: dict[str, Fraction | None] = dict.fromkeys(CAUSES)
    unknown: dict[str, str] = {}
    gpus = inputs.need("gpus", "a plan")
    tokens = inputs.need("tokens-per-s", "a plan (tokens a second and GPU)") * gpus
    each = inputs.need("bytes-per-token", "a plan (2 packed, about 250 as JSON events)")
    overhead = inputs.default("token-overhead", "0", "payload only; headers and TLS come on top")
    needed["tokens"] = tokens * each * (1 + overhead)
    needed["images"] = _pair(inputs, "images-per-s", "bytes-per-image")
    needed["video"] = _pair(inputs, "videos-per-s", "bytes-per-video")
    kv = _kv(inputs, unknown)
    if kv is not None:
        reason = "as many tokens read as written, no cache hits"
        prefill = inputs.default("prefill-tokens-per-s", kind.NUMBER.write(tokens), reason)
        needed["kv_transfer"] = prefill * kv
    _parallel(inputs, needed, unknown, tokens)
    load = _load(inputs, needed, unknown)
    needed["refresh"] = _refresh(inputs)
    limit = inputs.optional("limit")
    front_end = sum((needed[name] or Fraction(0) for name in ("tokens", "images", "video")), Fraction(0))
    bar = limit if limit is not None else front_end * INSIDE_FACTOR
    if limit is None:
        inputs.assume("must stay in the pod", f"above {float(bar):.4g} B/s", Mark.ASSUMED, "10 times the front end")
    pod = _pod(inputs)
    inputs.finish("inference as described")
    return InferencePlan(
        kv_bytes_per_token=None if kv is None else math.ceil(kv),
        needed=needed,
        unknown=unknown,
        must_stay=tuple(name for name in INSIDE if (rate := needed[name]) is not None and rate > bar),
        pod_gpus_min=pod[0],
        pod_nodes_min=pod[1],
        load=None if load is None else {**load, **_load_time(load, limit)},
        limit_bytes_per_s=limit,
        assumptions=tuple(inputs.assumptions),
    )


def _pair(inputs: Inputs, rate: str, size: str) -> Fraction | None:
    if not inputs.has(rate) and not inputs.has(size):
        return None
    return inputs.need(rate, f"--{size}") * inputs.need(size, f"--{rate}")


def _kv(inputs: Inputs, unknown: dict[str, str]) -> Fraction | None:
    grouped = [name for name in ("kv-heads", "head-dim") if inputs.has(name)]
    latent = [name for name in ("kv-rank", "rope-dim") if inputs.has(name)]
    if grouped and latent:
        raise PlanError(f"--{grouped[0]} and --{latent[0]} are two kinds of attention. Give those of one")
    if not grouped and not latent:
        unknown["kv_transfer"] = "give --layers with --kv-heads and --head-dim, or with --kv-rank and --rope-dim"
        return None
    purpose = "the key-value cache"
    layers, value = inputs.need("layers", purpose), inputs.need("kv-bytes", purpose)
    if grouped:
        return kv_bytes_gqa(layers, inputs.need("kv-heads", purpose), inputs.need("head-dim", purpose), value)
    return kv_bytes_mla(layers, inputs.need("kv-rank", purpose), inputs.need("rope-dim", purpose), value)


def _parallel(inputs: Inputs, needed: dict[str, Fraction | None], unknown: dict[str, str], tokens: Fraction) -> None:
    hidden = inputs.optional("hidden")
    if hidden is None and inputs.has("kv-heads") and inputs.has("head-dim") and not inputs.has("experts-per-token"):
        purpose = "the least width"
        hidden = inputs.need("kv-heads", purpose) * inputs.need("head-dim", purpose)
        inputs.assume("hidden", f"at least {hidden}", Mark.DERIVED, "as wide as its keys; more, so the rate is a floor")
    if hidden is None or not inputs.has("layers"):
        unknown["tensor_parallel"] = "give --hidden, --layers and --tensor-parallel"
        inputs.optional("tensor-parallel")
    else:
        ways = inputs.default("tensor-parallel", "2", "were layers split over two halves of which one is elsewhere")
        needed["tensor_parallel"] = tokens * tensor_bytes_per_token(
            hidden, inputs.need("layers", "tensor parallelism"), ways
        )
    experts = inputs.optional("experts-per-token")
    if hidden is None or experts is None:
        unknown["expert_parallel"] = "give --hidden, --experts-per-token and --moe-layers"
    else:
        each = expert_bytes_per_token(hidden, experts, inputs.need("moe-layers", "expert parallelism"))
        needed["expert_parallel"] = tokens * each
        inputs.assume("expert parallelism", "every expert elsewhere", Mark.ASSUMED, "an upper bound (arXiv 2505.09343)")


def _load(inputs: Inputs, needed: dict[str, Fraction | None], unknown: dict[str, str]) -> dict[str, Any] | None:
    params = inputs.optional("params")
    if params is None:
        unknown["model_load"] = "give --params, --weight-bytes and --load-within"
        return None
    weight = inputs.need("weight-bytes", "a model load")
    size = load_bytes(params, weight, inputs.default("copies", "1", "each weight crosses the boundary once"))
    within = inputs.optional("load-within")
    if within is None:
        unknown["model_load"] = "give --load-within"
    else:
        needed["model_load"] = size / within
    return {"bytes": str(math.ceil(size))}


def _load_time(load: dict[str, Any], limit: Fraction | None) -> dict[str, float]:
    return {} if limit is None else {"s_under_limit": float(int(load["bytes"]) / limit)}


def _refresh(inputs: Inputs) -> Fraction | None:
    if not inputs.has("refresh-bytes") and not inputs.has("refresh-period"):
        return None
    return inputs.need("refresh-bytes", "a refresh") / inputs.need("refresh-period", "a refresh")


def _pod(inputs: Inputs) -> tuple[int | None, int | None]:
    """Return the fewest GPUs and nodes of a pod that keeps the parallel groups and one copy of the model inside."""
    least = [int(each) for name in ("tensor-parallel", "expert-parallel") if (each := inputs.optional(name))]
    memory = inputs.optional("gpu-memory")
    if memory is not None:
        purpose = "the size of a pod"
        whole = inputs.need("params", purpose) * inputs.need("weight-bytes", purpose)
        least.append(math.ceil(whole / memory))
        inputs.assume("memory", "weights only", Mark.ASSUMED, "caches and activations come on top")
    per_node = inputs.optional("gpus-per-node")
    if not least:
        return None, None
    return max(least), None if per_node is None else math.ceil(max(least) / per_node)
