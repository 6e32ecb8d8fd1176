"""Disagreements that look like mistakes of unit and direction are told as what they look like."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from controller.resemblance import resemblances


def entry(direction: str, **observers: tuple[int, int | None]) -> dict[str, Any]:
    return {
        "direction": direction,
        "observers": {
            name.replace("_", "."): {"lower_bytes": str(least), "upper_bytes": None if most is None else str(most)}
            for name, (least, most) in observers.items()
        },
    }


def about(value: int) -> tuple[int, int]:
    return value - value // 1_000, value + value // 1_000


def hints(*entries: Mapping[str, Any]) -> list[str]:
    return list(resemblances(entries))


@pytest.mark.parametrize(
    ("factor", "says"), [(4.0, "InfiniBand"), (0.25, "InfiniBand"), (8.0, "bits"), (1.073741824, "1024")]
)
def test_a_factor_that_others_were_wrong_by_is_named(factor: float, says: str) -> None:
    (told,) = hints(entry("egress", switch=about(40_000_000_000), host=about(round(40_000_000_000 * factor))))
    larger = "host" if factor > 1 else "switch"
    assert told.startswith(f"egress: {larger} shows")
    assert says in told


def test_an_infiniband_counter_in_units_of_four_octets_beside_a_switch() -> None:
    """40,000,000,000 octets at the switch against port_xmit_data 9,960,159,363: four times that, and frames' FCS."""
    (told,) = hints(entry("egress", switch=(40_000_000_000, 40_000_000_000), host=(9_960_159_363, 9_960_159_363)))
    assert told.startswith("egress: switch shows 4 times what host shows")


def test_exchanged_directions_are_named() -> None:
    swapped = (
        entry("egress", switch=about(1_000_000), dpu_uplink=about(90_000_000)),
        entry("ingress", switch=about(90_000_000), dpu_uplink=about(1_000_000)),
    )
    (told,) = hints(*swapped)
    assert told.startswith("switch and dpu.uplink fit when the directions of one are exchanged")


@pytest.mark.parametrize(
    "entries",
    [
        (entry("egress", switch=about(1_000_000), host=about(1_005_000)),),  # they agree
        (entry("egress", switch=about(1_000_000), host=about(900_000)),),  # a lie like any other
        (entry("egress", switch=(1_000_000, None), host=about(4_000_000)),),  # nothing bounds it
        (entry("egress", switch=(1_000_000, 5_000_000), host=about(20_000_000)),),  # too wide to look like anything
        (entry("egress", switch=(0, 0), host=about(4_000)),),
        (
            entry("egress", switch=about(5_000), host=about(5_000)),
            entry("ingress", switch=about(5_000), host=about(5_000)),
        ),  # the same both ways
    ],
)
def test_where_nothing_is_known_to_look_like_it_nothing_is_said(entries: tuple[dict[str, Any], ...]) -> None:
    assert hints(*entries) == []
