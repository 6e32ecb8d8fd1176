"""The rig's own wiring with lldpd on its switch and DPUs, asked for from its controller."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hil import rigfile
from hil.rig import Rig

pytestmark = [pytest.mark.rig, pytest.mark.slow]

WEIGHBRIDGE = Path(sys.executable).with_name("weighbridge")


def ask(rig: Rig) -> tuple[int, dict[str, Any]]:
    command = [
        "ip",
        "netns",
        "exec",
        rig.machine("controller").namespace,
        str(WEIGHBRIDGE),
        "topology",
        "check",
        "--json",
    ]
    done = subprocess.run(
        [*command, "--site", str(rig.state / "site.yaml")], check=False, capture_output=True, text=True
    )
    assert done.stdout, done.stderr
    return done.returncode, {port["port"]: port for port in json.loads(done.stdout)["ports"]}


def until(rig: Rig, seen: Callable[[int, dict[str, Any]], bool]) -> dict[str, Any]:
    """Ask until ``seen``; what is not seen in two minutes never comes."""
    ends = time.monotonic() + 120
    while True:
        code, ports = ask(rig)
        if seen(code, ports):
            return ports
        assert time.monotonic() < ends, ports
        time.sleep(0.5)


def test_every_link_of_a_rig_with_lldp_is_confirmed_and_an_added_cable_is_told(tmp_path: Path) -> None:
    file = rigfile.load(rigfile.find("pair")).model_copy(update={"lldp": True})
    with Rig.up(file, tmp_path / "state", name=f"lldp_{os.getpid()}") as rig:
        rig.wait_until_ready()
        ports = until(rig, lambda code, _: code == 0)
        assert {name: port["state"] for name, port in ports.items() if port["link"]} == {
            "eth1": "confirmed",
            "eth2": "confirmed",
        }
        cable = rig.add_cable("node1")
        ports = until(rig, lambda _, ports: cable.far.port in ports and ports[cable.far.port]["up"])
        assert ports[cable.far.port]["state"] == "undeclared-port"
