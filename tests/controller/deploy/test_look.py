from __future__ import annotations

import json
import platform
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from controller.deploy.look import Mode, look, mode_of
from controller.deploy.paths import DeployPaths
from controller.deploy.ssh import Outcome
from controller.deploy.ssh_double import ScriptedConnection
from controller.errors import DeviceError

# As printed by mlxprivhost 4.2x and mlxconfig on a BlueField.
PRIVHOST = """\
Host configurations
-------------------
level                         : {level}

Port functions status:
-----------------------
disable_rshim                 : TRUE
disable_tracer                : TRUE
disable_port_owner            : TRUE
disable_counter_rd            : TRUE
"""
CONFIG = """\

Device #1:
----------

Device type:    BlueField3
Name:           900-9D3B6-00CV-A_Ax
Description:    NVIDIA BlueField-3 B3220 P-Series
Device:         0000:03:00.0

Configurations:                                          Next Boot
        INTERNAL_CPU_OFFLOAD_ENGINE                 {engine}
"""


def told(text: str, exit_code: int = 0) -> dict[str, Any]:
    return {"exit_code": exit_code, "output": text}


ENABLED, DISABLED = told(CONFIG.format(engine="ENABLED(0)")), told(CONFIG.format(engine="DISABLED(1)"))
RESTRICTED, PRIVILEGED = told(PRIVHOST.format(level="RESTRICTED")), told(PRIVHOST.format(level="PRIVILEGED"))


@pytest.mark.parametrize(
    ("privhost", "config", "mode"),
    [
        (RESTRICTED, ENABLED, Mode.ZERO_TRUST),
        (PRIVILEGED, ENABLED, Mode.HOST_TRUSTED),
        (PRIVILEGED, None, Mode.HOST_TRUSTED),
        (RESTRICTED, DISABLED, Mode.NIC),
        (None, DISABLED, Mode.NIC),
        (RESTRICTED, None, Mode.UNKNOWN),
        (None, ENABLED, Mode.UNKNOWN),
        (None, None, Mode.UNKNOWN),
        (told(PRIVHOST.format(level="RESTRICTED"), 1), ENABLED, Mode.UNKNOWN),
        (told("-E- Failed to open device"), told("-E-"), Mode.UNKNOWN),
        (told("privilege level is RESTRICTED"), ENABLED, Mode.UNKNOWN),
    ],
)
def test_only_what_both_tools_say_makes_zero_trust(
    privhost: dict[str, Any] | None, config: dict[str, Any] | None, mode: Mode
) -> None:
    assert mode_of(mlx5=True, mlxprivhost=privhost, mlxconfig=config) is mode
    assert mode.trustworthy is (mode is Mode.ZERO_TRUST)
    assert mode_of(mlx5=False, mlxprivhost=privhost, mlxconfig=config) is Mode.NOT_A_BLUEFIELD


def run_here(command: str) -> Outcome:
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False, timeout=60)
    return Outcome(done.returncode, done.stdout, done.stderr)


def test_this_machine_describes_itself(tmp_path: Path) -> None:
    connection = ScriptedConnection(answers={"": run_here})
    (tmp_path / "releases").mkdir()
    (tmp_path / "current").symlink_to("releases/abc")
    (tmp_path / "etc").mkdir()
    paths = DeployPaths(root=str(tmp_path), systemd_running=str(tmp_path))
    looked = look(connection, paths, ["lo", "no-such-port"])
    assert looked.python == ".".join(
        run_here("/usr/bin/python3 -c 'import platform; print(platform.python_version())'").stdout.split(".")[:2]
    )
    assert looked.machine == platform.machine()
    assert looked.kernel == platform.release()
    assert looked.glibc.startswith("glibc 2.")
    assert looked.systemd is True
    assert (looked.current, looked.settings, looked.settings_is_folder) == ("releases/abc", None, True)
    assert looked.absent_ports == ("no-such-port",)
    assert looked.drivers == {"lo": None, "no-such-port": None}
    assert looked.mode is Mode.NOT_A_BLUEFIELD
    assert looked.refresh_ms("lo", 1000) == 0


def test_an_old_python_can_still_say_how_old_it_is() -> None:
    """The script is sent to machines that cannot run the agent: its grammar must be Python 3.6's."""
    import ast  # noqa: PLC0415

    from controller.deploy.lock import package_folder  # noqa: PLC0415

    source = (package_folder("controller") / "deploy" / "device" / "look.py").read_text()
    ast.parse(source, feature_version=(3, 6))
    assert "from __future__ import annotations" not in source  # Python 3.7


@pytest.mark.parametrize(
    ("outcome", "problem"),
    [
        (Outcome(127, "", "sh: /usr/bin/python3: not found"), "there is no /usr/bin/python3"),
        (Outcome(1, "", "ImportError: broken"), "did not describe the device .*ImportError: broken"),
        (Outcome(0, "", ""), "did not describe the device"),
        (Outcome(0, "{}", ""), "did not describe the device"),
        (Outcome(0, "[1]", ""), "did not describe the device"),
        (Outcome(0, "hello", ""), "did not describe the device"),
    ],
)
def test_a_device_that_cannot_say_is_refused(outcome: Outcome, problem: str) -> None:
    with pytest.raises(DeviceError, match=rf"device in memory: .*{problem}"):
        look(ScriptedConnection(answers={"": outcome}), DeployPaths(), [])


def test_a_chatty_login_does_not_hide_the_answer(tmp_path: Path) -> None:
    def chatty(command: str) -> Outcome:
        outcome = run_here(command)
        return Outcome(outcome.exit_code, "Welcome!\n" + outcome.stdout, outcome.stderr)

    assert look(ScriptedConnection(answers={"": chatty}), DeployPaths(root=str(tmp_path)), []).uid >= 0


def test_an_mlx5_port_asks_the_tools_about_its_own_device(tmp_path: Path) -> None:
    """A fake /sys and fake tools: the script's own lines run, with only the paths replaced."""
    from controller.deploy.lock import package_folder  # noqa: PLC0415

    sys_net = tmp_path / "net" / "p0"
    sys_net.mkdir(parents=True)
    device = tmp_path / "devices" / "0000:03:00.0"
    device.mkdir(parents=True)
    (tmp_path / "drivers" / "mlx5_core").mkdir(parents=True)
    (device / "driver").symlink_to("../../drivers/mlx5_core")
    (sys_net / "device").symlink_to(device)
    tools = tmp_path / "bin"
    tools.mkdir()
    for name, output in (("mlxprivhost", RESTRICTED["output"]), ("mlxconfig", ENABLED["output"])):
        (tools / name).write_text(f"#!/bin/sh\necho {name} \"$@\" >> {tmp_path}/asked\ncat <<'EOF'\n{output}EOF\n")
        (tools / name).chmod(0o755)
    script = (package_folder("controller") / "deploy" / "device" / "look.py").read_text()
    script = script.replace("/sys/class/net", str(tmp_path / "net"))
    done = subprocess.run(
        ["/usr/bin/python3", "-I", "-S", "-c", script, "/nowhere", "/nowhere", "p0"],
        env={"PATH": f"{tools}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    looked = look(ScriptedConnection(answers={"": Outcome(0, done.stdout, "")}), DeployPaths(), ["p0"])
    assert looked.mode is Mode.ZERO_TRUST
    assert looked.drivers == {"p0": "mlx5_core"}
    assert looked.refresh_ms("p0", 500) == 1500
    assert json.loads(done.stdout)["device"] == "0000:03:00.0"
    assert [shlex.split(line) for line in (tmp_path / "asked").read_text().splitlines()] == [
        ["mlxprivhost", "-d", "0000:03:00.0", "q"],
        ["mlxconfig", "-d", "0000:03:00.0", "q", "INTERNAL_CPU_OFFLOAD_ENGINE"],
    ]
