"""Print, as one line of JSON, what deployment must know of a machine. Runs there, before anything is sent.

Arguments: the install root, systemd's marker folder, then the ports. Only looks; judging is the controller's. It must
also run on a Python too old for the agent, so that the answer says so instead of a syntax error.
"""

import json
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

TOOL_TIMEOUT_S = 30
# A login without a terminal often has a short PATH.
TOOL_FOLDERS = ("/usr/bin", "/usr/sbin", "/bin", "/sbin", "/opt/mellanox/mft/bin")


def link(path: Path) -> "str | None":
    """Return where a symbolic link points, ``None`` when there is none."""
    try:
        return os.readlink(path)  # noqa: PTH115  Path.readlink came with Python 3.9
    except OSError:
        return None


def tool(*argv: str) -> "dict[str, object] | None":
    """Return exit code and output of a program, ``None`` when it is not installed."""
    program = shutil.which(argv[0], path=":".join([os.environ.get("PATH", ""), *TOOL_FOLDERS]))
    if program is None:
        return None
    try:
        done = subprocess.run(
            [program, *argv[1:]], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=TOOL_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return {"exit_code": -1, "output": str(error)}
    return {"exit_code": done.returncode, "output": done.stdout.decode("utf-8", "replace")[:8192]}


def port(name: str) -> "dict[str, object]":
    """Return whether a port is there, its driver's name, and its device on the PCI bus."""
    folder = Path("/sys/class/net") / name
    driver, device = link(folder / "device" / "driver"), link(folder / "device")
    return {
        "there": folder.is_dir(),
        "driver": Path(driver).name if driver else None,
        "pci": Path(device).name if device else None,
    }


def main() -> None:
    """Look and print."""
    root, systemd, names = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]
    ports = {name: port(name) for name in names}
    mellanox = sorted({str(p["pci"]) for p in ports.values() if str(p["driver"]).startswith("mlx5") and p["pci"]})
    device = mellanox[0] if mellanox else None
    try:
        glibc = os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (ValueError, OSError):
        glibc = ""
    answer = {
        "uid": os.getuid(),
        "python": ".".join(platform.python_version_tuple()[:2]),
        "machine": platform.machine(),
        "kernel": platform.release(),
        "glibc": glibc,
        "systemd": systemd.is_dir(),
        "supervisor": shutil.which("supervisorctl"),
        "current": link(root / "current"),
        "settings": link(root / "etc"),
        "settings_is_folder": (root / "etc").is_dir() and not (root / "etc").is_symlink(),
        "ports": ports,
        "device": device,
        "mlxprivhost": tool("mlxprivhost", "-d", device, "q") if device else None,
        "mlxconfig": tool("mlxconfig", "-d", device, "q", "INTERNAL_CPU_OFFLOAD_ENGINE") if device else None,
    }
    sys.stdout.write(json.dumps(answer) + "\n")


main()
