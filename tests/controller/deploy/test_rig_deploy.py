"""Deployment as an operator does it, on a rig: over the management network, through sshd, under a supervisor."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from controller.deploy import lock
from dpu_agent.clock import SystemClock
from hil import rigfile
from hil.operation import build_bundle
from hil.rig import Rig

pytestmark = [pytest.mark.rig, pytest.mark.slow]

BUILD = Path(lock.__file__).parents[2] / "build"
WEIGHBRIDGE = [sys.executable, "-c", "from controller.cli import main; main()"]


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    build_bundle()  # the rig's controller has no way to a package index
    state = tmp_path_factory.mktemp("deploy rig") / "state"
    with Rig.up(rigfile.load(rigfile.find("pair")), state, name=f"deploy_{os.getpid()}") as up:
        yield up


def weighbridge(rig: Rig, *arguments: str) -> tuple[int, str, str]:
    done = rig.machine("controller").run([*WEIGHBRIDGE, *arguments], check=False, timeout_s=300)
    return done.returncode, done.stdout, done.stderr


def agents(rig: Rig, command: str, *arguments: str) -> tuple[int, Any, str]:
    build = ["--build-directory", str(BUILD)] if command == "deploy" else []
    site = ["--site", str(rig.state / "site.yaml")]
    code, out, err = weighbridge(rig, "agents", command, *arguments, *site, *build, "--json")
    return code, json.loads(out) if out else None, err


def agents_boot_id(rig: Rig, folder: Path) -> str:
    """The machine's, as an agent whose clock has the rig file's offset names it."""
    (folder / "boot_id").write_text(rig.machine("node1-dpu0").boot_id)
    return SystemClock(rig.file.clock_offset_ns("node1"), folder / "boot_id").boot_id


def test_a_site_is_deployed_asked_rebooted_and_refuses_a_stranger(rig: Rig, tmp_path: Path) -> None:
    assert weighbridge(rig, "init", str(rig.state / "site.yaml"))[0] == 0
    code, rows, err = agents(rig, "status")
    assert code == 3
    assert [row["answers"] for row in rows] == [False, False]

    # Deployed: each agent runs what was sent, on its own address, and meters its own ports.
    code, rows, err = agents(rig, "deploy", "--all")
    assert code == 0, (rows, err)
    assert [(row["agent"], row["sent"], row["enrolled"]) for row in rows] == [
        ("node1-dpu0", True, True),
        ("node2-dpu0", True, True),
    ]
    code, first, err = agents(rig, "status")
    assert code == 0, err
    for deployed, asked in zip(rows, first, strict=True):
        assert asked["bundle_sha256"] == deployed["bundle_sha256"]
        assert asked["enrolment"] == "enrolled"
        assert {(port["port"], port["role"]) for port in asked["ports"]} == {("pf0hpf", "host_port"), ("p0", "uplink")}
    assert first[0]["clock"]["boot_id"] == agents_boot_id(rig, tmp_path)
    assert first[0]["frame_public_key"] != first[1]["frame_public_key"]

    # Again: nothing to do.
    code, rows, err = agents(rig, "deploy", "--all")
    assert code == 0, (rows, err)
    assert [(row["sent"], row["restarted"], row["enrolled"]) for row in rows] == [(False, False, False)] * 2

    # A reboot of the DPU: the agent comes back by itself, with its key.
    rig.reboot("node1-dpu0")
    deadline = time.monotonic() + 60
    while True:
        code, after, err = agents(rig, "status", "node1-dpu0")
        if code == 0 or time.monotonic() > deadline:
            break
        time.sleep(0.5)
    assert code == 0, err
    assert after[0]["frame_public_key"] == first[0]["frame_public_key"]
    assert after[0]["clock"]["boot_id"] == agents_boot_id(rig, tmp_path) != first[0]["clock"]["boot_id"]

    # Somebody else at a DPU's address: his host key is not the pinned one. Nothing is sent to him.
    site_file = rig.state / "site.yaml"
    true = site_file.read_text()
    keys = [line.split("host_key:")[1].strip() for line in true.splitlines() if "host_key:" in line]
    assert len(set(keys)) == 2
    try:
        site_file.write_text(true.replace(keys[0], "\0").replace(keys[1], keys[0]).replace("\0", keys[1]))
        code, rows, err = agents(rig, "deploy", "--all")
    finally:
        site_file.write_text(true)
    assert code == 2
    assert [row["ok"] for row in rows] == [False, False]
    for row in rows:
        assert "step 2 of 10 (connect with the pinned host key)" in row["error"]
        assert row["error"].count("SHA256:") == 2
    assert agents(rig, "status")[0] == 0
