from __future__ import annotations

import json
import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.planner.marks import PlanError
from controller.planner.methods import METHODS
from controller.planner.quantities import RATE, SECONDS, SIZE, read
from controller.planner.training import PARAMETERS, plan_training
from controller.planner.volume import TOPOLOGIES, exchange
from protos.units import format_rate

BASE = {"params": "8e9", "nodes": "8", "limit": "1MB/s"}
STEP = {"step-time": "10s"}
EACH = {
    "ddp": {"bits": "16", **STEP},
    "fsdp": {"bits": "16", **STEP},
    "diloco": {"bits": "32", "sync-steps": "500", **STEP},
    "streaming-diloco": {"bits": "4", "sync-steps": "100", "fragments": "8", **STEP},
    "sparseloco": {"density": "64/4096", "bits-per-value": "14", "sync-steps": "30", **STEP},
    "distro": {"bits": "16", "compression": "857", **STEP},
    "p2p": {"bits": "16", **STEP},
    "gossip": {"bits": "16", "sync-steps": "50", **STEP},
    "lora": {"bits": "16", "adapter-params": "41943040", **STEP},
    "pipeline": {"bits": "8", "micro-batches": "8", "micro-batch-tokens": "2048", **STEP},
    "rl-refresh": {"patch-bytes": "108MB", "period": "300s"},
}


def asked(method: str, /, **changed: str | None) -> dict[str, str]:
    every = {**BASE, "method": method, **EACH[method], **{key.replace("_", "-"): each for key, each in changed.items()}}
    return {name: text for name, text in every.items() if text is not None}


@pytest.mark.parametrize("method", METHODS)
def test_the_json_form(method: str) -> None:
    said = json.loads(json.dumps(plan_training(asked(method)).json(), allow_nan=False))
    assert int(said["bytes_per_sync_up"]) > 0
    assert int(said["bytes_per_sync_down"]) > 0
    assert said["needed_bytes_per_s"] > 0
    assert said["slowdown"]["blocking"] > said["slowdown"]["overlapped"] - 1e-9 >= 1 - 1e-9
    assert said["sync_steps_min"] >= 1
    assert said["transfer_s"] > 0
    marks = {each["mark"] for each in said["assumptions"]}
    assert marks <= {"given", "measured", "published", "derived", "assumed"}
    assert all(each["source"] for each in said["assumptions"])
    assert said["outside_model"]


@pytest.mark.parametrize("method", METHODS)
def test_every_default_is_said(method: str) -> None:
    said = plan_training(asked(method)).json()["assumptions"]
    names = {each["name"] for each in said}
    assert {"duplex", "latency", "framing-overhead", *BASE} <= names
    assert set(EACH[method]) <= names


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=25)
@given(low=st.integers(1_000, 10**9), more=st.integers(1, 10**9))
def test_a_larger_limit_never_slows(method: str, low: int, more: int) -> None:
    tight = plan_training(asked(method, limit=f"{low}B/s"))
    loose = plan_training(asked(method, limit=f"{low + more}B/s"))
    assert loose.slowdown.overlapped <= tight.slowdown.overlapped
    assert loose.slowdown.blocking < tight.slowdown.blocking
    assert loose.sync_steps_min <= tight.sync_steps_min
    assert loose.needed_bytes_per_s == tight.needed_bytes_per_s


COMPUTED = {"step_time": None, "flops_per_s": "7.912e15", "mfu": "0.4", "local_batch_tokens": "131072"}


@pytest.mark.parametrize("method", ["ddp", "fsdp", "diloco", "streaming-diloco", "sparseloco", "distro", "gossip"])
@settings(max_examples=25)
@given(params=st.integers(10**6, 10**13))
def test_the_size_of_the_model_cancels(method: str, params: int) -> None:
    one = plan_training(asked(method, params="8e9", **COMPUTED))
    other = plan_training(asked(method, params=str(params), **COMPUTED))
    assert other.needed_bytes_per_s == one.needed_bytes_per_s
    assert other.slowdown == one.slowdown
    assert other.sync_steps_min == one.sync_steps_min


def test_the_size_does_not_cancel_where_it_must_not() -> None:
    small = plan_training(asked("lora", params="8e9", **COMPUTED))
    large = plan_training(asked("lora", params="80e9", **COMPUTED))
    assert large.needed_bytes_per_s == small.needed_bytes_per_s / 10


@pytest.mark.parametrize("method", METHODS)
def test_at_the_needed_limit_it_is_just_not_slowed(method: str) -> None:
    need = plan_training(asked(method)).needed_bytes_per_s
    at = plan_training(asked(method, limit=f"{math.ceil(need)}B/s"))
    under = plan_training(asked(method, limit=f"{math.floor(need / 2)}B/s"))
    assert at.slowdown.overlapped == 1
    assert float(under.slowdown.overlapped) == pytest.approx(2, rel=1e-3)
    assert at.warnings[0].startswith("this limit does not stop it")


def test_the_fewest_steps_are_enough_and_one_less_is_not() -> None:
    fewest = plan_training(asked("diloco")).sync_steps_min
    assert plan_training(asked("diloco", sync_steps=str(fewest))).slowdown.overlapped == 1
    assert plan_training(asked("diloco", sync_steps=str(fewest - 1))).slowdown.overlapped > 1


@given(st.fractions(min_value=1_000, max_value=10**12, max_denominator=1))
def test_rates_and_sizes_survive_being_written(value: Fraction) -> None:
    for quantity in (RATE, SIZE):
        assert read(quantity, "x", quantity.write(value)) == value


@given(st.integers(1, 10**15))
def test_durations_survive_being_written(nanoseconds: int) -> None:
    value = Fraction(nanoseconds, 10**9)
    assert read(SECONDS, "x", SECONDS.write(value)) == value


@given(st.integers(1, 10**9))
def test_bits_and_bytes_name_the_same_rate(bytes_per_s: int) -> None:
    in_bits = plan_training(asked("ddp", limit=f"{8 * bytes_per_s}bit/s"))
    in_bytes = plan_training(asked("ddp", limit=f"{bytes_per_s}B/s"))
    assert in_bits.slowdown == in_bytes.slowdown
    assert format_rate(in_bits.limit_bytes_per_s) == format_rate(bytes_per_s)


@pytest.mark.parametrize("topology", TOPOLOGIES)
@settings(max_examples=25)
@given(nodes=st.integers(2, 100_000))
def test_no_byte_arrives_that_nobody_sent(topology: str, nodes: int) -> None:
    moved = exchange(topology, Fraction(nodes), Fraction(1000))
    assert moved.up_bytes >= 1000 * (1 if topology != "ring" else Fraction(1, 2))
    assert moved.down_bytes <= moved.up_bytes * (nodes - 1)
    if nodes == 2:
        assert moved.up_bytes == moved.down_bytes == 1000


def test_half_duplex_takes_both_in_turn() -> None:
    full = plan_training(asked("ddp", duplex="full"))
    half = plan_training(asked("ddp", duplex="half"))
    assert half.transfer_s == 2 * full.transfer_s
    assert half.needed_bytes_per_s == 2 * full.needed_bytes_per_s


def test_the_total_time() -> None:
    plan = plan_training(asked("ddp", tokens="8e6", local_batch_tokens="1000", step_time="1s"))
    assert plan.step_s == 1
    assert plan.json()["total_s"]["unrestricted"] == 1_000
    assert plan.json()["total_s"]["overlapped"] == pytest.approx(1_000 * float(plan.slowdown.overlapped))


def test_who_cannot_synchronise_more_seldom_is_not_told_to() -> None:
    assert any("steps between" in text for text in plan_training(asked("ddp")).warnings)
    assert not any("steps between" in text for text in plan_training(asked("fsdp")).warnings)


def test_a_limit_that_stops_nothing_is_never_praised() -> None:
    plan = plan_training(asked("rl-refresh"))
    assert "does not stop it" in plan.warnings[0]


WRONG: dict[str, tuple[str, dict[str, str | None], str]] = {
    "no nodes": ("ddp", {"nodes": "0"}, "--nodes: '0' must be more than zero"),
    "one node": ("ddp", {"nodes": "1"}, "exchanges nothing with itself"),
    "half a node": ("ddp", {"nodes": "2.5"}, "not a whole number"),
    "negative size": ("ddp", {"params": "-8e9"}, "--params: '-8e9' is negative"),
    "no size": ("ddp", {"params": None}, "needs --params"),
    "size with a unit": ("ddp", {"params": "8B"}, "has a unit or a prefix"),
    "no limit": ("ddp", {"limit": None}, "needs --limit"),
    "limit of nothing": ("ddp", {"limit": "0MB/s"}, "must be more than zero"),
    "ambiguous limit": ("ddp", {"limit": "10Mb/s"}, "ambiguous"),
    "limit without a unit": ("ddp", {"limit": "1000000"}, "--limit: '1000000' is not a rate"),
    "no method": ("ddp", {"method": None}, "needs --method"),
    "another method": ("ddp", {"method": "magic"}, "--method: 'magic' is not known"),
    "no bits": ("ddp", {"bits": None}, "DDP needs --bits"),
    "too many bits": ("ddp", {"bits": "128"}, "more than 64 bits"),
    "no step time": ("ddp", {"step_time": None}, "needs --step-time, or --flops-per-s"),
    "half a step time": ("ddp", {"step_time": None, "flops_per_s": "1e15"}, "needs --mfu"),
    "two step times": ("ddp", {"mfu": "0.4"}, "say the same"),
    "more than the peak": ("ddp", {"step_time": None, "flops_per_s": "1e15", "mfu": "1.4"}, "at most 1"),
    "what means nothing": ("ddp", {"density": "0.1"}, "--density means nothing for the method ddp"),
    "rare and every step": ("ddp", {"sync_steps": "30"}, "every step"),
    "no interval": ("diloco", {"sync_steps": None}, "DiLoCo needs --sync-steps"),
    "no density": ("sparseloco", {"density": None}, "SparseLoCo needs --density"),
    "density above one": ("sparseloco", {"density": "2"}, "at most 1"),
    "by nothing": ("sparseloco", {"density": "1/0"}, "divides by zero"),
    "no compression": ("distro", {"compression": None}, "DisTrO needs --compression"),
    "larger by compression": ("ddp", {"compression": "0.5"}, "would make it larger"),
    "no adapters": ("lora", {"adapter_params": None}, "needs --adapter-params, or --lora-rank"),
    "no shapes": ("lora", {"adapter_params": None, "lora_rank": "16"}, "needs --lora-shapes"),
    "shapes": ("lora", {"adapter_params": None, "lora_rank": "16", "lora_shapes": "big"}, "is not a shape"),
    "no micro-batches": ("pipeline", {"micro_batches": None}, "needs --micro-batches"),
    "a ring of stages": ("pipeline", {"topology": "ring"}, "a chain"),
    "no period": ("rl-refresh", {"period": None}, "needs --period"),
    "no patch": ("rl-refresh", {"patch_bytes": None}, "needs --patch-bytes, or --bits"),
    "patch without a unit": ("rl-refresh", {"patch_bytes": "108"}, "--patch-bytes"),
    "topology": ("ddp", {"topology": "star"}, "--topology: 'star' is not known"),
    "duplex": ("ddp", {"duplex": "both"}, "--duplex: 'both' is not known"),
    "unheard of": ("ddp", {"colour": "red"}, "--colour is not known"),
    "beyond everything": ("ddp", {"params": "9" * 31}, "is not a number"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_input_is_told(case: str) -> None:
    method, changed, said = WRONG[case]
    with pytest.raises(PlanError) as caught:
        plan_training(asked(method, **changed))
    assert said in str(caught.value)


@given(st.dictionaries(st.sampled_from(sorted(PARAMETERS)), st.text(max_size=12)))
def test_anything_else_is_an_answer_or_an_error(given_texts: dict[str, str]) -> None:
    try:
        plan = plan_training({**asked("diloco"), **given_texts})
    except PlanError as error:
        told = str(error)
    else:
        told = json.dumps(plan.json(), allow_nan=False) + "--"
    assert "--" in told
