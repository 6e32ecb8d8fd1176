from __future__ import annotations

import json
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.planner.inference import CAUSES, PARAMETERS, plan_inference
from controller.planner.marks import PlanError

NVL72 = {"tokens-per-s": "10000", "gpus": "72", "bytes-per-token": "2"}
GROUPED = {"layers": "80", "kv-heads": "8", "head-dim": "128", "kv-bytes": "2"}


def test_the_json_form() -> None:
    said = json.loads(json.dumps(plan_inference({**NVL72, **GROUPED}).json(), allow_nan=False))
    assert said["kv_bytes_per_token"] == "327680"
    assert set(said["needed_bytes_per_s"]) == set(CAUSES)
    assert said["needed_bytes_per_s"]["tokens"] == 1.44e6
    assert said["needed_bytes_per_s"]["kv_transfer"] == 720_000 * 327_680
    assert said["must_stay_in_pod"] == ["kv_transfer", "tensor_parallel"]
    # 80 layers, two all-reduces of at least 8 x 128 values of two bytes, halved by two ways and doubled by the ring.
    assert said["needed_bytes_per_s"]["tensor_parallel"] == 720_000 * 80 * 2 * 1024 * 2
    # What is not known is null, not zero, and says what is missing.
    assert said["needed_bytes_per_s"]["expert_parallel"] is None
    assert "--hidden" in said["not_known"]["expert_parallel"]
    assert {"prefill-tokens-per-s", "token-overhead", "must stay in the pod", "hidden", "tensor-parallel"} <= {
        each["name"] for each in said["assumptions"]
    }


def test_json_streaming_is_a_hundred_times_packed() -> None:
    packed = plan_inference(NVL72).boundary_bytes_per_s
    streamed = plan_inference({**NVL72, "bytes-per-token": "250"}).boundary_bytes_per_s
    assert [int(packed), int(streamed)] == [1_440_000, 180_000_000]


def test_a_pod_of_deepseek_shape() -> None:
    given_texts = {
        "tokens-per-s": "1850",
        "gpus": "144",
        "bytes-per-token": "2",
        "layers": "61",
        "kv-rank": "512",
        "rope-dim": "64",
        "kv-bytes": "2",
        "hidden": "7168",
        "experts-per-token": "8",
        "moe-layers": "58",
        "expert-parallel": "144",
        "tensor-parallel": "4",
        "gpus-per-node": "8",
        "limit": "10MB/s",
    }
    plan = plan_inference(given_texts)
    assert plan.kv_bytes_per_token == 70_272
    assert plan.must_stay == ("kv_transfer", "tensor_parallel", "expert_parallel")
    assert (plan.pod_gpus_min, plan.pod_nodes_min) == (144, 18)
    assert plan.json()["fits_limit"] == {
        "tokens": True,
        "kv_transfer": False,
        "tensor_parallel": False,
        "expert_parallel": False,
    }


def test_a_load_and_its_time_under_the_limit() -> None:
    load = {"params": "70e9", "weight-bytes": "2", "load-within": "30m", "limit": "1MB/s", "gpu-memory": "80GB"}
    plan = plan_inference({**NVL72, **load})
    assert plan.load == {"bytes": "140000000000", "s_under_limit": 140_000.0}
    assert plan.needed["model_load"] == Fraction(140_000_000_000, 1_800)
    assert plan.pod_gpus_min == 2


@given(st.integers(1, 10**6), st.integers(1, 10**4))
def test_needs_grow_with_what_is_served(tokens: int, gpus: int) -> None:
    one = plan_inference({**NVL72, **GROUPED, "tokens-per-s": str(tokens), "gpus": str(gpus)})
    more = plan_inference({**NVL72, **GROUPED, "tokens-per-s": str(2 * tokens), "gpus": str(gpus)})
    for cause in ("tokens", "kv_transfer"):
        before, after = one.needed[cause], more.needed[cause]
        assert before is not None
        assert after == 2 * before


WRONG: dict[str, tuple[dict[str, str | None], str]] = {
    "no GPUs": ({"gpus": "0"}, "--gpus: '0' must be more than zero"),
    "nothing served": ({"tokens-per-s": None}, "needs --tokens-per-s"),
    "half a cache": ({"kv-heads": "8"}, "the key-value cache needs --layers"),
    "two kinds of attention": ({"kv-heads": "8", "kv-rank": "512"}, "two kinds of attention"),
    "images without a size": ({"images-per-s": "3"}, "needs --bytes-per-image"),
    "a size without images": ({"bytes-per-image": "1MB"}, "needs --images-per-s"),
    "ambiguous": ({"limit": "8Mb/s"}, "ambiguous"),
    "a load without a width": ({"params": "8e9"}, "a model load needs --weight-bytes"),
    "nothing to do with it": ({"moe-layers": "58"}, "--moe-layers means nothing"),
    "memory of no model": ({"gpu-memory": "80GB"}, "needs --params"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_input_is_told(case: str) -> None:
    changed, said = WRONG[case]
    every: dict[str, str | None] = {**NVL72, **changed}
    texts = {name: text for name, text in every.items() if text is not None}
    with pytest.raises(PlanError) as caught:
        plan_inference(texts)
    assert said in str(caught.value)


@given(st.dictionaries(st.sampled_from(sorted(PARAMETERS)), st.text(max_size=12)))
def test_anything_else_is_an_answer_or_an_error(given_texts: dict[str, str]) -> None:
    try:
        plan = plan_inference({**NVL72, **given_texts})
    except PlanError as error:
        told = str(error)
    else:
        told = json.dumps(plan.json(), allow_nan=False) + "--"
    assert "--" in told
