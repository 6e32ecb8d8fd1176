"""The policer's arithmetic as a pure function of time, in integers of any size: what ``admit`` of ``meter.bpf.c`` does.

The kernel's program is checked against it frame by frame (``tests/dpu_agent/test_limits_bucket_rig.py``); what is
proven here of any rate, depth and time therefore holds there, as long as 64 bits hold it:
rates up to 2^40 B/s, depths up to 2^50 B, and ``LONGEST_NS`` without a frame.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from protos.units import NS_PER_S

LONGEST_NS = (1 << 20) * NS_PER_S
"""A bucket that saw no frame for so long (12 days) is taken as full: the program's product would not fit 64 bits."""


@dataclass(frozen=True, slots=True)
class Limit:
    """What one class may pass.

    Attributes:
        rate, depth: B/s and B, until the end or until the volume is used up; from then on the floor's.
        ceiling_bytes: the volume: what the class may have passed in all, since its counters began; None: no bound.
        until_ns: when the floor begins to hold; None: never.
    """

    rate: int
    depth: int
    ceiling_bytes: int | None = None
    until_ns: int | None = None
    floor_rate: int = 0
    floor_depth: int = 0


@dataclass(frozen=True, slots=True)
class Bucket:
    """The state of one class: ``tokens`` bytes and ``remainder`` billionths of one, filled last at ``rate``."""

    rate: int = 0
    tokens: int = 0
    remainder: int = 0
    last_ns: int = 0
    passed_bytes: int = 0
    dropped_bytes: int = 0


def admit(bucket: Bucket, limit: Limit, size: int, now_ns: int) -> Bucket:
    """Return the bucket after a frame of ``size`` bytes at ``now_ns``; what of it passed is in the counters.

    1. The limit or its floor.
    2. Another rate takes the tokens over and gives nothing for the time before it.
    3. Tokens for the time since, to the billionth of a byte, never more than the depth.
    4. The frame passes as a whole or not at all. One whose clock was read before the newest frame's gets no tokens.
    """
    at_floor = (limit.until_ns is not None and now_ns >= limit.until_ns) or (
        limit.ceiling_bytes is not None and bucket.passed_bytes >= limit.ceiling_bytes
    )
    rate, depth = (limit.floor_rate, limit.floor_depth) if at_floor else (limit.rate, limit.depth)
    last_ns = max(bucket.last_ns, now_ns)
    elapsed_ns = last_ns - bucket.last_ns if rate == bucket.rate else 0
    if elapsed_ns >= LONGEST_NS:
        tokens, remainder = depth, 0
    else:
        filled = bucket.tokens * NS_PER_S + bucket.remainder + rate * elapsed_ns
        tokens, remainder = divmod(min(filled, depth * NS_PER_S), NS_PER_S)
    fits = at_floor or limit.ceiling_bytes is None or bucket.passed_bytes + size <= limit.ceiling_bytes
    passes = fits and size <= tokens
    return replace(
        bucket,
        rate=rate,
        tokens=tokens - size if passes else tokens,
        remainder=remainder,
        last_ns=last_ns,
        passed_bytes=bucket.passed_bytes + (size if passes else 0),
        dropped_bytes=bucket.dropped_bytes + (0 if passes else size),
    )
