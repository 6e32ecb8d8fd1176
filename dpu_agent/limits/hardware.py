"""Limits in hardware: set, read back, and not believed before. AWAITS HARDWARE: no limiter of the agent uses it yet.

It was written from devlink-rate(8), tc(8) and the sources named, and tested on constructed output; nobody has compared
it with a device. What such a limiter must get right is here: to tell a rate that is in force from one that only was
accepted. :class:`FunctionRates` and :class:`OffloadedPolicer` are the seam: ``set`` gives the command, reads back what
the device says, and raises if that is not what was asked.

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
import subprocess
from collections.abc import Callable, Mapping, Sequence
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


Run = Callable[[Sequence[str]], str]
"""Runs a command and returns what it printed; raises LimiterError where it fails."""


def run_command(command: Sequence[str]) -> str:
    """Run ``command`` on this machine and return its output.

    Raises:
        LimiterError: it is not there, takes longer than ten seconds, or fails; the text has what it said.
    """
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LimiterError(f"{' '.join(command)}: {error}; install iproute2, or look at the device") from error
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip()
        raise LimiterError(f"{' '.join(command)}: exit code {done.returncode}: {said}; look at the device's log")
    return done.stdout


class FunctionRates:
    """``devlink port function rate``: one rate for all that a function sends, RDMA included."""

    def __init__(self, name: str, run: Run = run_command) -> None:
        """``name`` is the function's, as devlink shows it: ``pci/0000:03:00.0/65537``."""
        self._name, self._run = name, run

    def set(self, rate_bytes_per_s: int) -> int:
        """Limit the function, and return what is in force: at most what was asked, in steps of 1 Mbit/s.

        Raises:
            LimiterError: it is below one step (the device's zero is "unlimited"), refused, or not in force afterwards.
        """
        steps = rate_bytes_per_s // STEP_BYTES_PER_S
        if steps < 1:
            raise LimiterError(
                f"{self._name}: the device limits in steps of {STEP_BYTES_PER_S} B/s, and takes 0 for unlimited; "
                f"{rate_bytes_per_s} B/s cannot be set: use `police`"
            )
        self._run(("devlink", "port", "function", "rate", "set", self._name, "tx_max", f"{steps}mbit"))
        in_force = self.read_back()
        deviation = rate_deviation(rate_bytes_per_s, in_force)
        if deviation or in_force is None:
            raise LimiterError(f"{self._name}: {deviation}; take it for not limited")
        return in_force

    def read_back(self) -> int | None:
        """Return the rate in force with all groups above, bytes/s; None: unlimited.

        Raises:
            LimiterError: devlink fails, or knows no such function.
        """
        rates = function_rates(self._run(("devlink", "-j", "port", "function", "rate", "show")))
        return most_in_force(rates, self._name)


class OffloadedPolicer:
    """A tc policer that the device carries out, at a port's ingress, for everything."""

    def __init__(self, device: str, preference: int, run: Run = run_command) -> None:
        self._device, self._preference, self._run = device, preference, run

    def set(self, rate_bytes_per_s: int, depth_bytes: int) -> OffloadedFilter:
        """Put the policer there, in hardware only, and return what it says of itself.

        Raises:
            LimiterError: a rate or depth of nothing (tc takes neither; drop instead), refused, or not in hardware.
        """
        if rate_bytes_per_s < 1 or not 0 < depth_bytes < 1 << 32:
            raise LimiterError(
                f"{self._device}: tc polices at {rate_bytes_per_s} B/s with {depth_bytes} B not at all; "
                "1 B/s and up to 4 GB can be set"
            )
        place = ("dev", self._device, "ingress", "protocol", "all", "pref", str(self._preference))
        police = ("police", "rate", f"{rate_bytes_per_s}bps", "burst", str(depth_bytes), "conform-exceed", "drop/pipe")
        self._run(("tc", "filter", "replace", *place, "matchall", "skip_sw", "action", *police))
        found = self.read_back()
        if not found.in_hardware:
            raise LimiterError(f"{self._device}: the device did not take the policer; take it for not limited")
        return found

    def read_back(self) -> OffloadedFilter:
        """Return what tc says of it.

        Raises:
            LimiterError: tc fails, or the filter is not there.
        """
        place = ("dev", self._device, "ingress", "pref", str(self._preference))
        return offloaded_filter(self._run(("tc", "-s", "filter", "show", *place)))
