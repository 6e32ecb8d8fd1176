"""The kernel's arithmetic against the model's, frame by frame: equal to the billionth of a byte.

The time is the kernel's own; how long a bucket was not looked at is chosen by setting its last time back, and the
time of the run is read from the bucket afterwards.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator

import pytest

from dpu_agent.limits.order import LimitClass
from dpu_agent.limits.police import MAX_DEPTH_BYTES, MAX_RATE_BYTES_PER_S, NONE
from dpu_agent.meter.layout import NS_PER_S, ORDER, POLICED, Shape
from dpu_agent.meter.libbpf import BpfObject, LibBpf
from dpu_agent.meter.maps import OBJECT, ORDERS, POLICED_MAP, PROGRAM
from hil.bench.meter_area import Kernel
from protos.policer import Bucket, Limit, admit

pytestmark = pytest.mark.rig

KEY = int(LimitClass.OTHER_POD).to_bytes(4, "little")
RATES = (0, 1, 100_000, 999_999_999, NS_PER_S, 50_000_000_000, MAX_RATE_BYTES_PER_S)
DEPTHS = (0, 64_000, 150_000_000, MAX_DEPTH_BYTES)
CASES = 3_000


class Program:
    """The meter's program, at no port: run on one frame at a time."""

    def __init__(self) -> None:
        self._library, self._kernel = LibBpf(), Kernel()
        self._object = BpfObject(self._library, OBJECT.read_bytes(), "meter")
        shape = Shape(1_000_000, os.cpu_count() or 1, 8, at_host_port=True)
        self._object.set_constants(shape.constants())
        for name, entries in shape.entries().items():
            self._object.resize(name, entries)
        self._object.load()

    def run(self, bucket: Bucket, limit: Limit, size: int) -> Bucket:
        order = ORDER.pack(
            1,
            limit.rate,
            limit.depth,
            NONE if limit.ceiling_bytes is None else limit.ceiling_bytes,
            NONE if limit.until_ns is None else limit.until_ns,
            limit.floor_rate,
            limit.floor_depth,
        )
        state = bucket.rate, bucket.tokens, bucket.remainder, bucket.last_ns
        counted = bucket.passed_bytes + bucket.dropped_bytes, bucket.passed_bytes, bucket.dropped_bytes
        self._library.update_locked(self._object.map(ORDERS), KEY, order)
        self._library.update_locked(self._object.map(POLICED_MAP), KEY, POLICED.pack(*state, *counted, 0, 0, 0, 0))
        self._kernel.test_run(self._object.program(PROGRAM), bytes(12) + b"\x88\xb5" + bytes(size - 14), repeats=1)
        found = self._library.look_up_locked(self._object.map(POLICED_MAP), KEY, POLICED.size)
        rate, tokens, remainder, last_ns, offered, passed, dropped, *segments = POLICED.unpack(found)
        assert offered == passed + dropped
        assert segments in ([1, 1, 0, 0], [1, 0, 1, 0])
        return Bucket(rate, tokens, remainder, last_ns, passed, dropped)

    def close(self) -> None:
        self._object.close()


@pytest.fixture(scope="module")
def program() -> Iterator[Program]:
    found = Program()
    yield found
    found.close()


def pick(rng: random.Random, *chosen: int, most: int) -> int:
    return rng.choice((rng.choice(chosen), rng.randint(0, most), rng.randint(0, min(most, 1 << rng.randint(1, 40)))))


def test_every_frame_leaves_the_bucket_as_the_model_says(program: Program) -> None:
    rng, outcomes = random.Random(7), set()
    for _ in range(CASES):
        now_ns = time.monotonic_ns()
        limit = Limit(
            rate=pick(rng, *RATES, most=MAX_RATE_BYTES_PER_S),
            depth=pick(rng, *DEPTHS, most=MAX_DEPTH_BYTES),
            ceiling_bytes=rng.choice((None, None, pick(rng, 0, 100, 1_000, most=1 << 40))),
            until_ns=rng.choice((None, 1, now_ns + 3_600 * NS_PER_S)),
            floor_rate=pick(rng, *RATES, most=MAX_RATE_BYTES_PER_S),
            floor_depth=pick(rng, *DEPTHS, most=MAX_DEPTH_BYTES),
        )
        before = Bucket(
            rate=rng.choice((limit.rate, limit.rate, limit.floor_rate, 5)),
            tokens=pick(rng, 0, 60, 1_514, *DEPTHS, most=MAX_DEPTH_BYTES),
            remainder=rng.choice((0, NS_PER_S - 1, rng.randrange(NS_PER_S))),
            last_ns=rng.choice((now_ns - pick(rng, 0, 1, NS_PER_S, most=now_ns), now_ns + 60 * NS_PER_S)),
            passed_bytes=pick(rng, 0, 100, 1_000, most=1 << 41),
        )
        size = rng.randint(60, 1_514)
        after = program.run(before, limit, size)
        # Where the time ran backwards the bucket keeps its own, and when exactly is of no account.
        at_ns = after.last_ns if after.last_ns != before.last_ns else now_ns
        assert admit(before, limit, size, at_ns) == after, (before, limit, size)
        outcomes.add((after.passed_bytes > before.passed_bytes, after.rate == limit.rate, after.last_ns == at_ns))
    assert len(outcomes) >= 6, "frames passed and were dropped, under limits and floors, with time and without"


def test_a_large_bucket_fills_slowly_without_losing_a_billionth(program: Program) -> None:
    limit, bucket = Limit(100_000, 150_000_000), Bucket(rate=100_000, last_ns=time.monotonic_ns() - 700 * NS_PER_S)
    began_ns = bucket.last_ns
    for _ in range(500):
        # Nothing passes: the volume is used up to the frame's last byte, so all that counts is the filling.
        bucket = program.run(bucket, Limit(limit.rate, limit.depth, ceiling_bytes=10), 60)
    assert bucket.passed_bytes == 0
    assert bucket.tokens * NS_PER_S + bucket.remainder == limit.rate * (bucket.last_ns - began_ns)
