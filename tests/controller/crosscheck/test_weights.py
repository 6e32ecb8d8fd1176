"""Known weights: shown by who counts them, and what is assumed wrongly of who does not."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from controller.crosscheck.model import FindingKind, KnownWeight
from controller.crosscheck.observed import observe
from controller.crosscheck.weights import Weighed, scale_off, weigh
from protos.reading import Direction, Framing, Observer
from tests.controller.crosscheck.scene import MS, Poller, S, Truth

T0 = 1_790_000_000 * S
FRAME, FRAMES = 1_000, 2_000
SENT = Truth(tuple((T0 + 10 * S + i * MS, FRAME) for i in range(FRAMES)))
WEIGHT = KnownWeight("node1/p0", Direction.EGRESS, T0 + 10 * S, T0 + 12 * S, FRAME * FRAMES, FRAMES)


def shown(poller: Poller, truth: Truth = SENT, *, told_as: Framing | None = None) -> Weighed:
    track = poller.read(truth, Observer.SWITCH, T0 - 5 * S, T0 + 90 * S, random.Random(1))
    if told_as is not None:
        track = replace(track, readings=tuple(replace(reading, framing=told_as) for reading in track.readings))
    return weigh(WEIGHT, {Observer.SWITCH: observe(track, T0)})


def test_who_counts_it_shows_it() -> None:
    weighed = shown(Poller(interval=S // 2, width=5 * MS))
    assert weighed.shown
    assert scale_off(WEIGHT, weighed) is None


def test_a_refresh_period_that_is_not_kept_is_named_with_how_much_longer_it_is() -> None:
    weighed = shown(Poller(refresh=20 * S, refresh_phase=T0 % (20 * S) + 5 * S, declared_refresh=S, width=5 * MS))
    finding = scale_off(WEIGHT, weighed)
    assert finding is not None
    assert (finding.kind, finding.certain) == (FindingKind.SCALE_OFF, False)
    assert "later: its refresh period is longer than its declared 1 s" in finding.text
    assert "or more is in flight or late than declared" in finding.text


@pytest.mark.parametrize("told_as", [Framing.L2_WITH_FCS, Framing.L1])
def test_bytes_taken_away_that_were_never_counted_name_the_framing(told_as: Framing) -> None:
    weighed = shown(Poller(interval=S // 2, width=5 * MS), told_as=told_as)
    finding = scale_off(WEIGHT, weighed)
    assert finding is not None
    # Up to an edge of its window, where a reading was taken within the transfer.
    assert finding.bytes_at_least is not None
    assert 0 < finding.bytes_at_least <= told_as.bytes_per_frame_over_l2 * FRAMES
    assert "it would show it if it counted l2_without_fcs" in finding.text
    assert "refresh period" not in finding.text


@pytest.mark.parametrize("truly", [Framing.L2_WITH_FCS, Framing.L1])
def test_bytes_counted_that_were_not_declared_name_the_framing(truly: Framing) -> None:
    weighed = shown(Poller(interval=S // 2, width=5 * MS, framing=truly), told_as=Framing.L2_WITHOUT_FCS)
    finding = scale_off(WEIGHT, weighed)
    assert finding is not None
    assert f"as if it counted {truly.value}" in finding.text
    assert "in another framing than declared" in finding.text


def test_other_traffic_beside_a_weight_is_nothing_off() -> None:
    beside = Truth(tuple(sorted((*SENT.frames, *((T0 + 11 * S + i, 1_000) for i in range(100))))))
    weighed = shown(Poller(interval=S // 2, width=5 * MS), beside)
    assert weighed.shown
    assert "besides" in weighed.text
    assert scale_off(WEIGHT, weighed) is None


def test_what_never_came_is_explained_by_nothing() -> None:
    weighed = shown(Poller(interval=S // 2, width=5 * MS), Truth(SENT.frames[: FRAMES // 2]))
    assert weighed.short == FRAME * FRAMES // 2
    assert weighed.text.endswith("too little")


def test_who_cannot_tell_does_not_show_it() -> None:
    assert weigh(WEIGHT, {}).text.endswith("nobody observes this link")
    assert not weigh(WEIGHT, {}).shown
