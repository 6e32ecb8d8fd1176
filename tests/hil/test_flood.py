"""Frames of every kind that a host may try to get past a limit with."""

from __future__ import annotations

import struct

import pytest

from hil.traffic import flood


@pytest.mark.parametrize("kind", flood.KINDS)
def test_frames_of_every_kind_have_the_length_asked_for(kind: str) -> None:
    for length in (60, 1_000):
        made = flood.frames_of(kind, length, bytes(6))
        assert {len(each) for each in made} == {length}
        assert len(set(made)) == (flood.FLOWS if kind in {"flows", "fragments"} else 1)


def test_the_ip_header_of_a_flood_adds_up() -> None:
    (frame,) = set(flood.frames_of("udp", 200, bytes(6)))
    total = sum(struct.unpack("!10H", frame[14:34]))
    assert (total & 0xFFFF) + (total >> 16) == 0xFFFF
