"""A small all-reduce under the real limiter: never faster than the planner's arithmetic allows."""

from __future__ import annotations

import pytest

from hil.bench.metered_path import MeteredPath
from hil.bench.planner_rig import DEPTHS_A_SECOND, LimitedPair, at_once_bytes, predicted

LIMIT = 1_000_000
VECTOR = 1_500_000


@pytest.mark.rig
def test_no_transfer_is_faster_than_its_bucket() -> None:
    with MeteredPath(mtu=1500) as path:
        pair = LimitedPair(path)
        try:
            pair.limit(LIMIT, LIMIT // DEPTHS_A_SECOND)
            run = pair.run(VECTOR, 1, compute_s=1, pacing=2 * LIMIT)
        finally:
            pair.close()
    # Payload alone, and the whole depth at once: what actually passes is more, so it takes longer.
    assert run.sync_s >= (VECTOR - LIMIT // DEPTHS_A_SECOND) / LIMIT
    assert run.whole_s >= run.sync_s + 1


def test_the_prediction_is_bytes_over_the_limit() -> None:
    plan = predicted(VECTOR, LIMIT, 1, 0.25)
    on_wire = VECTOR * (1 + 99 / 1448)
    assert float(plan.transfer_s) == pytest.approx((on_wire - at_once_bytes(LIMIT)) / LIMIT + 0.25)
