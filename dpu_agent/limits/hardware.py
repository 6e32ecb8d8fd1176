"""Reading back what a device says of limits in hardware. AWAITS HARDWARE: no limiter of the agent uses it yet.

It was written from devlink-rate(8), tc(8) and the sources named, and tested on constructed output; nobody has compared
it with a device. What such a limiter must get right is here: to tell a rate that is in force from one that only was
accepted.

- ``devlink -j port function rate show``: bytes per second; **a rate of zero is unlimited, and left out**
  (devlink-rate(8)). A function is also limited by every group above it.
- mlx5 rounds to whole Mbit/s, at least one (its ``apply_police_params``), so what is in force
  may be somewhat below what was asked, never above.
- ``tc -s filter show``: ``in_hw`` or ``not_in_hw``, bytes by software and by hardware apart; the sum of both alone
  hides a filter that the hardware refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from dpu_agent.limits.order import LimiterError

STEP_BYTES_PER_S = 125_000
"""1 Mbit/s: the step of the device's rates."""
_SENT = re.compile(r"^\s*Sent (?P<by>software |hardware )?(?P<bytes>\d+) bytes (?P<packets>\d+) pkts?\b", re.MULTILINE)
_DROPPED = re.compile(r"\(dropped (\d+),")
_IN_HARDWARE = re.compile(r"^\s*in_hw\b|\sin_hw\b", re.MULTILINE)
_NOT_IN_HARDWARE = re.compile(r"\bnot_in_hw\b")


@dataclass(frozen=True, slots=True)
class FunctionRate:
    """A devlink rate object: a function's (``leaf``) or a group's (``node``).

    ``most_bytes_per_s`` None: unlimited; ``parent`` empty: none.
    """

    name: str
    kind: str
    most_bytes_per_s: int | None
    parent: str


@dataclass(frozen=True, slots=True)
class OffloadedFilter:
    """What tc says of one filter with a policer; ``hardware_bytes`` None: the driver reports none apart."""

    in_hardware: bool
    sent_bytes: int
    software_bytes: int | None
    hardware_bytes: int | None
    dropped_packets: int


def function_rates(output: str) -> dict[str, FunctionRate]:
    """Return what ``devlink -j port function rate show`` printed, by name.

    Raises:
        LimiterError: it is not that.
    """
    try:
        return {name: _function_rate(name, said) for name, said in json.loads(output)["rate"].items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise LimiterError(
            f"`devlink -j port function rate show` said something else than rates: {error!r}; "
            "check the version of iproute2 (5.12 or later)"
        ) from error


def _function_rate(name: str, said: Mapping[str, object]) -> FunctionRate:
    most = said.get("tx_max", 0)
    if not isinstance(most, int) or isinstance(most, bool) or most < 0:
        raise ValueError(f"{name}: tx_max {most!r} is no number of bytes per second")
    return FunctionRate(name, str(said["type"]), most or None, str(said.get("parent", "")))


def most_in_force(rates: Mapping[str, FunctionRate], name: str) -> int | None:
    """Return the least of the limits of ``name`` and of all groups above it, bytes/s; None: unlimited.

    Raises:
        LimiterError: it, or a group above it, is not there; or groups form a ring.
    """
    device, _, _ = name.rpartition("/")
    seen: set[str] = set()
    limits = []
    while name:
        if name in seen or name not in rates:
            raise LimiterError(f"devlink has no usable rate object {name!r}; look at `devlink port function rate show`")
        seen.add(name)
        found = rates[name]
        if found.most_bytes_per_s is not None:
            limits.append(found.most_bytes_per_s)
        name = f"{device}/{found.parent}" if found.parent else ""
    return min(limits, default=None)


def rate_deviation(asked_bytes_per_s: int, in_force: int | None) -> str:
    """Return how what is in force differs from what was asked, in words; empty if it is what the device can do."""
    if in_force is None:
        return f"asked for {asked_bytes_per_s} B/s, and the device is unlimited"
    if in_force > asked_bytes_per_s:
        return f"asked for {asked_bytes_per_s} B/s, and the device lets {in_force} B/s through"
    if asked_bytes_per_s - in_force >= STEP_BYTES_PER_S:
        return f"asked for {asked_bytes_per_s} B/s, and the device lets only {in_force} B/s through"
    return ""


def offloaded_filter(output: str) -> OffloadedFilter:
    """Return what ``tc -s filter show dev DEV ingress`` printed of one filter with one policer.

    Raises:
        LimiterError: it does not say whether the filter is in hardware, or has no counters, or several.
    """
    outside = _NOT_IN_HARDWARE.search(output) is not None
    inside = _IN_HARDWARE.search(output) is not None
    sent: dict[str, int] = {}
    for match in _SENT.finditer(output):
        by = (match["by"] or "").strip()
        if by in sent:
            raise LimiterError("tc told of more than one action; ask for one filter by its preference and handle")
        sent[by] = int(match["bytes"])
    dropped = _DROPPED.search(output)
    if inside == outside or "" not in sent or dropped is None:
        raise LimiterError("tc did not say whether the filter is in hardware, or gave no counters; use `tc -s filter`")
    return OffloadedFilter(inside, sent[""], sent.get("software"), sent.get("hardware"), int(dropped[1]))
