"""How to deploy, what deployment touches, and how it ended."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from controller.credentials import Credential
from controller.deploy import bundle as bundles
from controller.deploy.bundle import Bundle
from controller.deploy.look import Mode
from controller.deploy.paths import DeployPaths
from controller.deploy.probe import describe
from controller.deploy.ssh import Connection, SshConnection
from controller.deploy.target import Target
from controller.errors import OperatorError
from controller.site import Dpu
from protos.v1 import agent_pb2

# Python starts in a second; a cold Arm core with slow flash takes several.
START_TIMEOUT_S = 60.0


def _connect(dpu: Dpu) -> Connection:
    if dpu.ssh is None:
        raise OperatorError(f"{dpu.name}: the site file has no `ssh` for it; add it, or deploy it by hand")
    return SshConnection(dpu.name, dpu.ssh)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What deployment touches beside its arguments; tests give doubles.

    Attributes:
        connect: opens the device's shell.
        build: makes or finds the bundle of a target; called with the build folder.
        describe: asks an agent over mutual TLS; raises DeviceError without an answer.
        monotonic_s: a clock for deadlines.
        sleep: waits so many seconds.
    """

    connect: Callable[[Dpu], Connection] = _connect
    build: Callable[[Target, Path], Bundle] = bundles.build
    describe: Callable[[str, Credential, float], agent_pb2.AgentDescription] = describe
    monotonic_s: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


@dataclass(frozen=True, slots=True)
class Options:
    """How to deploy.

    Attributes:
        build_directory: for downloaded wheels and built bundles.
        paths: where things go on the device.
        replace_key: accept another frame key than the one enrolled.
        start_timeout_s: how long the agent may take to answer after a restart.
    """

    build_directory: Path = Path("build")
    paths: DeployPaths = field(default_factory=DeployPaths)
    replace_key: bool = False
    start_timeout_s: float = START_TIMEOUT_S


@dataclass(frozen=True, slots=True)
class Deployed:
    """How a deployment ended.

    Attributes:
        agent: its name.
        version: the agent's, as it answered.
        bundle_sha256: what it runs, as it answered.
        mode: the DPU's.
        sent: whether the bundle had to be sent.
        restarted: whether the service was restarted.
        enrolled: whether the journal took an enrolment.
    """

    agent: str
    version: str
    bundle_sha256: str
    mode: Mode
    sent: bool
    restarted: bool
    enrolled: bool
