from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from dpu_agent import epochs, netlink
from dpu_agent.config import PortConfig
from dpu_agent.counters import PortSample, SourceDescription
from dpu_agent.frames import losses_in, state_after
from dpu_agent.memory_disk import MemoryDisk
from dpu_agent.recorder import AcknowledgementRejectedError, merged
from dpu_agent.sources import infiniband, mlx5
from dpu_agent.state import AgentState, Loss
from protos import shortform
from protos.reading import Direction, Framing, Missing, Observer
from protos.signing import SignatureRejected, SigningDomain, verify
from protos.wire import parse_signed_frame, port_reading

if TYPE_CHECKING:
    from tests.dpu_agent.conftest import Agent


def test_a_frame_says_what_was_read(start_agent: Callable[..., Agent]) -> None:
    agent = start_agent(MemoryDisk())
    agent.tick(2)
    (_, first), (_, second) = agent.recorder.frames_after(0, 5)
    signed, frame = parse_signed_frame(second)
    verify(agent.recorder.public_key, SigningDomain.FRAME, signed.body, signed.signature)
    with pytest.raises(SignatureRejected):
        verify(agent.recorder.public_key, SigningDomain.LEASE, signed.body, signed.signature)
    assert (frame.version, frame.agent, frame.sequence, frame.agent_version, frame.agent_start) == (
        2,
        "node1-dpu0",
        2,
        "1",
        1,
    )
    assert frame.previous_sha256 == hashlib.sha256(parse_signed_frame(first)[0].body).digest()
    assert frame.clock.boot_id == agent.clock.boot_id
    assert frame.clock.monotonic_ns == agent.clock.monotonic_ns()
    host_port, uplink = (port_reading(port) for port in frame.ports)
    assert (host_port.observer, uplink.observer) == (Observer.DPU_HOST_PORT, Observer.DPU_UPLINK)
    moved = agent.clock.monotonic_ns() // 1000
    assert host_port.readings[Direction.EGRESS].bytes == moved
    assert host_port.readings[Direction.INGRESS].packets == moved // 100
    assert (host_port.epoch, host_port.epoch_reason, host_port.ifindex) == (1, "first-reading", 7)
    assert host_port.dropped_packets == {Direction.EGRESS: 0, Direction.INGRESS: 0}
    assert frame.spool.frames == 1
    assert frame.spool.oldest_sequence == 1


def test_a_wall_clock_that_is_set_is_told_once(start_agent: Callable[..., Agent]) -> None:
    agent = start_agent(MemoryDisk())
    agent.tick(2)
    agent.clock.set_wall(agent.clock.wall_ns() - 3_600 * 10**9)
    agent.tick(2)
    frames = [parse_signed_frame(signed)[1] for _, signed in agent.recorder.frames_after(0, 9)]
    assert [frame.clock.wall_step_ns for frame in frames] == [0, 0, -3_600 * 10**9, 0]


def test_a_missing_port_is_in_the_frame_with_its_reason(start_agent: Callable[..., Agent]) -> None:
    agent = start_agent(MemoryDisk())
    agent.tick()
    agent.counters.missing["p0"] = Missing.DENIED
    agent.tick()
    (_, signed) = agent.recorder.frames_after(1, 1)[0]
    _, uplink = (port_reading(port) for port in parse_signed_frame(signed)[1].ports)
    assert (uplink.missing, uplink.readings, uplink.epoch) == (Missing.DENIED, {}, 1)
    now = agent.clock.monotonic_ns()
    assert uplink.looked_ns == (now, now)


def test_frames_are_small(start_agent: Callable[..., Agent]) -> None:
    """At rates of a busy port: under 400 bytes a frame of one port pair, before millisecond series."""
    agent = start_agent(MemoryDisk())
    agent.clock.advance(10**16)
    agent.tick(2)
    assert len(agent.recorder.frames_after(1, 1)[0][1]) < 400


def test_what_agents_often_say_has_a_short_word() -> None:
    sources = (netlink.DESCRIPTION, mlx5.WIRE, mlx5.VPORT, infiniband.DESCRIPTION)
    assert {each.name for each in sources} == set(shortform._SOURCES)
    reasons = {value for name, value in vars(epochs).items() if name.isupper() and isinstance(value, str)}
    assert reasons == set(shortform._REASONS)


def test_the_state_is_the_fold_of_the_frames(start_agent: Callable[..., Agent]) -> None:
    agent = start_agent(MemoryDisk())
    folded = AgentState()
    agent.counters.missing["p0"] = Missing.ABSENT
    agent.tick()
    del agent.counters.missing["p0"]
    agent.tick(3)
    for _, signed in agent.recorder.frames_after(0, 10):
        folded = state_after(folded, signed)
    assert folded == agent.recorder.snapshot()[0]


def test_losses_are_read_back(start_agent: Callable[..., Agent]) -> None:
    agent = start_agent(MemoryDisk())
    agent.tick()
    assert losses_in(agent.recorder.frames_after(0, 1)[0][1]) == []


def test_acknowledgements_never_go_back_nor_ahead(start_agent: Callable[..., Agent]) -> None:
    agent = start_agent(MemoryDisk())
    agent.tick(5)
    agent.recorder.acknowledge(3)
    agent.recorder.acknowledge(2)
    assert agent.recorder.snapshot()[0].acknowledged == 3
    assert agent.frames() == [4, 5]
    with pytest.raises(AcknowledgementRejectedError, match="acknowledges frame 6, this agent's newest is 5"):
        agent.recorder.acknowledge(6)


def test_losses_of_one_reason_that_touch_are_one() -> None:
    assert merged([Loss(4, 5, "a"), Loss(1, 3, "a"), Loss(5, 9, "a"), Loss(6, 7, "b"), Loss(11, 12, "a")]) == (
        Loss(1, 9, "a"),
        Loss(6, 7, "b"),
        Loss(11, 12, "a"),
    )


def test_a_sample_has_counters_or_a_reason() -> None:
    source = SourceDescription("x", Framing.L2_WITHOUT_FCS, (), ())
    with pytest.raises(ValueError, match="has counters or a reason why not"):
        PortSample(PortConfig("p0", Observer.DPU_UPLINK), source, 1, 2)
