"""A real agent killed again and again while a controller takes frames: every frame arrives once, in order, unbroken.

Here its ports are not there. tests/dpu_agent/test_rig_counters.py runs the same inside a DPU's namespace, where they
are and carry traffic.
"""

from __future__ import annotations

import os
import queue
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import grpc
import pytest

from protos.reading import Missing
from protos.signing import SigningDomain, load_public_key, verify
from protos.v1 import agent_pb2, agent_pb2_grpc
from protos.wire import parse_signed_frame, port_reading

if TYPE_CHECKING:
    from tests.dpu_agent.conftest import Controller, Installation

pytestmark = pytest.mark.loopback

REAL_PORTS = os.environ.get("WEIGHBRIDGE_TEST_PORTS", "")
_KILLS = 5
_WAIT_S = 120.0


class RealAgent:
    """The agent as a process that a supervisor starts again."""

    def __init__(self, installation: Installation) -> None:
        self._argv = [sys.executable, "-m", "dpu_agent.cli", "run", "--config", str(installation.config)]
        self._log = installation.folder / "log"
        self.process = self._start()
        self.kills = 0

    def _start(self) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as log:
            return subprocess.Popen(self._argv, stderr=log)

    def kill(self) -> None:
        """SIGKILL at this very moment, whatever it is doing; then start again."""
        self.process.kill()
        self.process.wait()
        self.kills += 1
        self.process = self._start()

    def close(self) -> int:
        self.process.terminate()
        return self.process.wait(_WAIT_S)


@pytest.fixture
def agent(installation: Installation) -> Iterator[RealAgent]:
    # Names that no other agent on this machine meters, unless the ports are this namespace's own.
    names = REAL_PORTS.split(",") if REAL_PORTS else [f"wb{os.getpid()}{part}" for part in "hu"]
    ports = [{"name": name, "role": role} for name, role in zip(names, ("host_port", "uplink"), strict=True)]
    installation.rewrite(frame_interval_ms=100, ports=ports)
    real = RealAgent(installation)
    yield real
    if real.process.poll() is None:
        real.process.kill()
        real.process.wait()


def _stub(installation: Installation, channels: list[grpc.Channel]) -> agent_pb2_grpc.AgentServiceStub:
    pair = installation.authority.controller()
    credentials = grpc.ssl_channel_credentials(installation.authority.pem, pair.key, pair.certificate)
    # The agent is back within a second; gRPC's own patience would be longer.
    options = [("grpc.initial_reconnect_backoff_ms", 100), ("grpc.max_reconnect_backoff_ms", 200)]
    channel = grpc.secure_channel(f"127.0.0.1:{installation.port}", credentials, options=options)
    channels.append(channel)
    return agent_pb2_grpc.AgentServiceStub(channel)  # type: ignore[no-untyped-call]  # generated


def _take(
    stub: agent_pb2_grpc.AgentServiceStub, controller: Controller, chance: random.Random, agent: RealAgent
) -> None:
    """One stream: take frames as they come, acknowledge some, and have the agent killed at a moment of its own."""
    acknowledgements: queue.SimpleQueue[agent_pb2.Acknowledgement | None] = queue.SimpleQueue()
    acknowledgements.put(agent_pb2.Acknowledgement(acknowledged_sequence=controller.newest))
    die_after = chance.randrange(3, 25)
    stream = stub.StreamFrames(iter(acknowledgements.get, None), timeout=_WAIT_S, wait_for_ready=True)
    try:
        for signed in stream:
            sequence = parse_signed_frame(signed.SerializeToString())[1].sequence
            assert sequence == controller.newest + 1, "a frame was left out, repeated or out of order"
            controller.journal[sequence] = signed.SerializeToString()
            if chance.random() < 0.4:
                acknowledged = chance.randrange(max(0, sequence - 4), sequence + 1)
                acknowledgements.put(agent_pb2.Acknowledgement(acknowledged_sequence=acknowledged))
            die_after -= 1
            if die_after == 0:
                if agent.kills == _KILLS:
                    return
                time.sleep(chance.random() * 0.15)
                agent.kill()
    except grpc.RpcError as error:
        if error.code() not in {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED}:
            raise
    finally:
        acknowledgements.put(None)
        stream.cancel()


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_five_kills_lose_and_repeat_nothing(
    agent: RealAgent, installation: Installation, controller: Controller, seed: int
) -> None:
    chance, channels = random.Random(seed), list[grpc.Channel]()
    try:
        stub = _stub(installation, channels)
        told = stub.Describe(agent_pb2.DescribeRequest(), timeout=_WAIT_S, wait_for_ready=True)
        key = load_public_key(told.frame_public_key)
        deadline = time.monotonic() + _WAIT_S
        while not controller.newest or controller.frame(controller.newest).agent_start <= _KILLS:
            assert time.monotonic() < deadline
            _take(stub, controller, chance, agent)
        again = stub.Describe(agent_pb2.DescribeRequest(), timeout=_WAIT_S, wait_for_ready=True)
    finally:
        for channel in channels:
            channel.close()
    assert again.frame_public_key == told.frame_public_key
    assert agent.close() == 0
    assert "Traceback" not in (installation.folder / "log").read_text()

    controller.check()
    assert controller.said_lost() == set()
    starts, epochs, lows = [], set(), []
    for sequence in sorted(controller.journal):
        signed, frame = parse_signed_frame(controller.journal[sequence])
        verify(key, SigningDomain.FRAME, signed.body, signed.signature)
        starts.append(frame.agent_start)
        for reading in map(port_reading, frame.ports):
            assert reading.missing is (None if REAL_PORTS else Missing.ABSENT)
            epochs.add(reading.epoch)
        lows.append(frame.ports[0].earliest_ns)
    assert starts == sorted(starts)
    assert max(starts) == _KILLS + 1
    assert epochs == {1 if REAL_PORTS else 0}, "the counters went on, so did the epoch"
    assert lows == sorted(lows)
