"""Read-back of limits in hardware, on constructed output: unlimited is not zero, accepted is not in force."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

import pytest

from dpu_agent.limits.hardware import (
    FunctionRate,
    FunctionRates,
    OffloadedFilter,
    OffloadedPolicer,
    function_rates,
    most_in_force,
    offloaded_filter,
    rate_deviation,
    run_command,
)
from dpu_agent.limits.order import LimiterError

DEVICE = "pci/0000:03:00.0"
RATES = json.dumps(
    {
        "rate": {
            f"{DEVICE}/1": {"type": "leaf", "parent": "pod"},
            f"{DEVICE}/2": {"type": "leaf", "tx_share": 1_500_000, "tx_max": 50_000_000_000},
            f"{DEVICE}/3": {"type": "leaf"},
            f"{DEVICE}/4": {"type": "leaf", "tx_max": 900_000, "parent": "pod"},
            f"{DEVICE}/5": {"type": "leaf", "parent": "gone"},
            f"{DEVICE}/pod": {"type": "node", "tx_max": 1_000_000, "parent": "all"},
            f"{DEVICE}/all": {"type": "node"},
        }
    }
)
FILTER = """\
filter protocol all pref 1 matchall chain 0 handle 0x1
  {where} in_hw_count 1
        action order 1:  police 0x1 rate 8Mbit burst 64Kb mtu 2Kb action drop overhead 0b
        ref 1 bind 1  installed 10 sec used 0 sec
        Action statistics:
        Sent 5000000000 bytes 3302510 pkt (dropped 20, overlimits 20 requeues 0)
        Sent software 1514 bytes 1 pkt
        Sent hardware 4999998486 bytes 3302509 pkt
        backlog 0b 0p requeues 0
        used_hw_stats delayed
"""


def test_rates_are_bytes_of_64_bits_and_one_that_is_left_out_is_unlimited() -> None:
    rates = function_rates(RATES)
    assert rates[f"{DEVICE}/2"] == FunctionRate(f"{DEVICE}/2", "leaf", 50_000_000_000, "")
    assert [most_in_force(rates, f"{DEVICE}/{number}") for number in (1, 2, 3, 4)] == [
        1_000_000,
        50_000_000_000,
        None,
        900_000,
    ]


@pytest.mark.parametrize("name", [f"{DEVICE}/9", f"{DEVICE}/5"])
def test_a_function_or_a_group_that_is_not_there_is_not_unlimited(name: str) -> None:
    with pytest.raises(LimiterError, match="no usable rate object"):
        most_in_force(function_rates(RATES), name)


def test_groups_in_a_ring_are_refused() -> None:
    ring = {f"{DEVICE}/{a}": {"type": "node", "parent": b} for a, b in (("a", "b"), ("b", "a"))}
    with pytest.raises(LimiterError):
        most_in_force(function_rates(json.dumps({"rate": ring})), f"{DEVICE}/a")


@pytest.mark.parametrize(
    "output",
    ["", "[]", '{"rate": []}', '{"rate": {"x": {}}}', '{"rate": {"x": {"type": "leaf", "tx_max": "8Mbit"}}}', "{}"],
)
def test_anything_else_is_refused(output: str) -> None:
    with pytest.raises(LimiterError, match="something else than rates"):
        function_rates(output)


@pytest.mark.parametrize(
    ("asked", "found", "wrong"),
    [
        (1_000_000, 1_000_000, ""),
        (1_060_000, 1_000_000, ""),  # whole Mbit/s, downwards
        (1_000_000, None, "unlimited"),
        (100_000, 125_000, "lets 125000 B/s through"),  # at least 1 Mbit/s
        (1_000_000, 8_000_000, "lets 8000000"),  # bits for bytes
        (8_000_000, 1_000_000, "lets only 1000000"),
        (50_000_000_000, 50_000_000_000 % (1 << 32), "lets only"),  # 32 bits
        (0, None, "unlimited"),
    ],
)
def test_what_is_in_force_is_held_against_what_was_asked(asked: int, found: int | None, wrong: str) -> None:
    said = rate_deviation(asked, found)
    assert wrong in said
    assert bool(said) == bool(wrong)


def test_a_filter_in_hardware_counts_apart_what_software_saw() -> None:
    found = offloaded_filter(FILTER.format(where="in_hw"))
    assert found == OffloadedFilter(
        in_hardware=True,
        sent_bytes=5_000_000_000,
        software_bytes=1_514,
        hardware_bytes=4_999_998_486,
        dropped_packets=20,
    )


def test_a_filter_that_hardware_refused_is_told_and_its_absent_counters_are_not_zero() -> None:
    output = "\n".join(line for line in FILTER.splitlines() if "hardware" not in line and "software" not in line)
    found = offloaded_filter(output.replace("{where} in_hw_count 1", "not_in_hw"))
    assert (found.in_hardware, found.software_bytes, found.hardware_bytes) == (False, None, None)


@pytest.mark.parametrize("output", ["", FILTER.format(where=""), FILTER.format(where="in_hw") * 2])
def test_what_says_nothing_of_hardware_or_tells_of_two_is_refused(output: str) -> None:
    with pytest.raises(LimiterError):
        offloaded_filter(output)


class Device:
    """A device that does with a rate what ``does`` says; commands are kept."""

    def __init__(self, does: Callable[[int], int | None], where: str = "in_hw") -> None:
        self.commands: list[str] = []
        self._does, self._where = does, where
        self._rate: int | None = None

    def run(self, command: Sequence[str]) -> str:
        self.commands.append(" ".join(command))
        if command[0] == "tc":
            return FILTER.format(where=self._where) if "show" in command else ""
        if "set" in command:
            self._rate = self._does(int(command[-1].removesuffix("mbit")) * 125_000)
        told = {} if self._rate is None else {"tx_max": self._rate}
        return json.dumps({"rate": {f"{DEVICE}/1": {"type": "leaf", **told}}})


def test_a_rate_is_set_in_whole_steps_downwards_and_believed_when_it_is_read_back() -> None:
    device = Device(lambda rate: rate)
    assert FunctionRates(f"{DEVICE}/1", device.run).set(50_000_060_000) == 50_000_000_000
    assert device.commands[0] == f"devlink port function rate set {DEVICE}/1 tx_max 400000mbit"
    with pytest.raises(LimiterError, match="takes 0 for unlimited"):
        FunctionRates(f"{DEVICE}/1", device.run).set(124_999)
    assert len(device.commands) == 2


@pytest.mark.parametrize(
    "does", [lambda _: None, lambda rate: rate * 8, lambda rate: rate % 10**6, lambda rate: rate % (1 << 32)]
)
def test_a_rate_that_was_accepted_and_is_another_is_no_limit(does: Callable[[int], int | None]) -> None:
    with pytest.raises(LimiterError, match="take it for not limited"):
        FunctionRates(f"{DEVICE}/1", Device(does).run).set(40_000_125_000)


def test_an_offloaded_policer_counts_only_in_hardware() -> None:
    device = Device(lambda rate: rate)
    assert OffloadedPolicer("p0", 3, device.run).set(50_000_000_000, 64_000).in_hardware
    policer = "police rate 50000000000bps burst 64000 conform-exceed drop/pipe"
    assert device.commands == [
        f"tc filter replace dev p0 ingress protocol all pref 3 matchall skip_sw action {policer}",
        "tc -s filter show dev p0 ingress pref 3",
    ]
    with pytest.raises(LimiterError, match="did not take the policer"):
        OffloadedPolicer("p0", 3, Device(lambda rate: rate, "not_in_hw").run).set(1_000_000, 64_000)
    for rate, depth in ((0, 64_000), (1, 0), (1, 1 << 32)):
        with pytest.raises(LimiterError, match="not at all"):
            OffloadedPolicer("p0", 3, device.run).set(rate, depth)


def test_a_command_that_fails_or_is_not_there_says_so() -> None:
    assert run_command(("echo", "x")) == "x\n"
    with pytest.raises(LimiterError, match="exit code 1"):
        run_command(("false",))
    with pytest.raises(LimiterError, match="install iproute2"):
        run_command(("weighbridge-has-no-such-command",))
