"""What a sentence calls a least is never more than it was, what it calls a most never less."""

from __future__ import annotations

import re
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.crosscheck import wording
from controller.crosscheck.liars import counted
from protos.units import parse_bytes, parse_duration_ns

COUNTS = st.one_of(st.integers(0, 2**64 - 1), st.integers(0, 19).map(lambda power: 2**power * 999), st.just(999_999))


def _read(text: str) -> int:
    rounded = re.match(r"[0-9.]+ [kMGTP]?B", text)
    assert rounded is not None, text
    number, unit = rounded[0].split(" ")
    return int(Fraction(number) * parse_bytes(f"1{unit}"))


@given(COUNTS)
def test_bytes_are_rounded_outwards_and_the_exact_number_stands_beside(count: int) -> None:
    least, most = wording.at_least(count), wording.at_most(count)
    assert _read(least) <= count <= _read(most)
    # Three digits: neither is off by more than a hundredth.
    assert _read(least) * 100 >= count * 99
    assert _read(most) * 99 <= count * 100
    if count >= 1_000:
        assert least.endswith(f"({count:,} B)")
        assert most.endswith(f"({count:,} B)")


@pytest.mark.parametrize(
    ("count", "least", "most"),
    [
        (0, "0 B", "0 B"),
        (999, "999 B", "999 B"),
        (1_000, "1.00 kB (1,000 B)", "1.00 kB (1,000 B)"),
        (191_999_999, "191 MB (191,999,999 B)", "192 MB (191,999,999 B)"),
        (999_501, "999 kB (999,501 B)", "1.00 MB (999,501 B)"),
        (10_000_001, "10.0 MB (10,000,001 B)", "10.1 MB (10,000,001 B)"),
    ],
)
def test_bytes_in_words(count: int, least: str, most: str) -> None:
    assert wording.at_least(count) == least
    assert wording.at_most(count) == most


def test_an_agreed_number_keeps_every_digit() -> None:
    assert wording.declared(10_000_000) == "10.0 MB"
    assert wording.declared(12_345_678) == "12.3 MB (12,345,678 B)"


@given(st.integers(0, 10**18))
def test_durations_are_rounded_down(ns: int) -> None:
    shown = parse_duration_ns(wording.lasting_at_least(ns).replace(" ", ""))
    assert shown <= ns
    assert ns - shown < max(ns // 60 + 1, 2)


@given(st.integers(0, 10_000))
def test_shares_are_rounded_down(basis_points: int) -> None:
    share = basis_points / 10_000
    shown = Fraction(wording.share_at_least(share).removesuffix(" %")) / 100
    assert shown == Fraction(basis_points // 10, 1_000)


def test_liars_in_their_number() -> None:
    assert [counted(count) for count in range(3)] == ["0 liars", "1 liar", "2 liars"]
