"""Says before anything is built what this computer lacks for a rig: all of it at once, with version and remedy.

1. The rights: root, because namespaces and interfaces are made.
2. The kernel: version, namespaces, file systems, and by trying them in a throw-away namespace the link types and
   traffic-control parts that a rig's wiring is made of.
3. The tools: each is there and at least as new as the option of it that is used here.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from hil.errors import PreflightError
from hil.machine import SEARCH_PATH

_KERNEL = (5, 8)
_NAMESPACES = ("net", "mnt", "uts", "ipc", "pid", "time")
_FILE_SYSTEMS = ("proc", "sysfs", "tmpfs", "bpf")


@dataclass(frozen=True)
class Tool:
    """A program the rig runs, the oldest version that will do and why, and the Debian package that has it."""

    name: str
    package: str
    oldest: tuple[int, ...]
    why: str
    version: tuple[str, ...]  # arguments with which it tells its version
    path: str | None = None  # where it must be, if not anywhere on the search path


TOOLS = (
    Tool("ip", "iproute2", (5, 0), "names a running machine's namespace ('ip netns attach')", ("-V",)),
    Tool("tc", "iproute2", (5, 0), "joins the two halves of a cable", ("-V",)),
    Tool("ethtool", "ethtool", (4, 5), "switches segmentation and VLAN offloads off", ("--version",)),
    Tool("sysctl", "procps", (3, 3), "switches IPv6 off on data ports", ("--version",)),
    Tool("nsenter", "util-linux", (2, 34), "configures a machine's interfaces", ("--version",)),
    Tool("unshare", "util-linux", (2, 34), "tries the kernel's features", ("--version",)),
    Tool("snmpd", "snmpd", (5, 8), "SNMPv3 with SHA-256", ("-v",)),
    Tool("snmpbulkwalk", "snmp", (5, 8), "waits for the switch's counters", ("-V",)),
    Tool("sshd", "openssh-server", (8, 0), "takes the deployed agent", ("-V",)),
    Tool("prometheus-node-exporter", "prometheus-node-exporter", (1, 0), "serves the host's claim", ("--version",)),
    Tool("python3", "python3", (3, 10), "the DPU's own Python, for the agent", ("-V",), "/usr/bin/python3"),
)

_PAIR = "ip link add try0 type veth peer name try1"
_REDIRECT = "protocol all bpf bytecode '1,6 0 0 4294967295' action mirred egress redirect dev try1"

# What is tried, in one throw-away network namespace each: (feature, kernel option, commands).
FEATURES = (
    ("virtual Ethernet pairs", "CONFIG_VETH", (_PAIR,)),
    (
        "bridges with isolated ports",
        "CONFIG_BRIDGE, Linux 4.18",
        (
            "ip link add try2 type bridge mcast_snooping 0 stp_state 0 forward_delay 0",
            _PAIR,
            "ip link set try0 master try2",
            "ip link set try0 type bridge_slave isolated on",
        ),
    ),
    (
        "frame redirection",
        "CONFIG_NET_CLS_BPF, CONFIG_NET_ACT_MIRRED, CONFIG_NET_SCH_INGRESS",
        (_PAIR, "tc qdisc add dev try0 clsact", f"tc filter add dev try0 ingress {_REDIRECT}"),
    ),
)


@dataclass(frozen=True)
class Missing:
    """One thing that this computer lacks."""

    what: str
    needed: str
    found: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.what}: needed {self.needed}; found {self.found}. {self.remedy}"


class Computer(Protocol):
    """What the preflight asks of the computer; tests answer from a table."""

    def is_root(self) -> bool:
        """Return whether this process may do everything."""

    def kernel_release(self) -> str:
        """Return what ``uname -r`` prints."""

    def read(self, path: str) -> str | None:
        """Return a file's text, or None if it is not there; for a link or directory the empty text."""

    def find(self, program: str) -> str | None:
        """Return the program's path, or None."""

    def output(self, argv: Sequence[str]) -> str:
        """Return what a command prints, on either stream, whatever its exit code."""

    def attempt(self, commands: Sequence[str]) -> str | None:
        """Run shell commands in a throw-away network namespace; return what went wrong, or None."""


def check(computer: Computer) -> list[Missing]:
    """Return everything that is missing; see the module's steps."""
    return [*_rights(computer), *_kernel(computer), *_tools(computer)]


def require(computer: Computer | None = None) -> None:
    """Return if nothing is missing.

    Raises:
        PreflightError: names everything that is.
    """
    missing = check(computer or ThisComputer())
    if missing:
        lines = "\n".join(f"  {each}" for each in missing)
        raise PreflightError(f"this computer cannot run a rig yet; it lacks:\n{lines}")


def _rights(computer: Computer) -> Iterator[Missing]:
    if not computer.is_root():
        yield Missing("rights", "root", "another user", "Run it as root, for example with sudo")


def _kernel(computer: Computer) -> Iterator[Missing]:
    release = computer.kernel_release()
    version = _version(release)
    if version is None or version < _KERNEL:
        needed = f"Linux {_dotted(_KERNEL)} (entering a machine by its process)"
        yield Missing("kernel", needed, release, "Boot a newer kernel; Debian 12's will do")
    for name in _NAMESPACES:
        if computer.read(f"/proc/self/ns/{name}") is None:
            remedy = f"Boot a kernel with CONFIG_{name.replace('mnt', 'namespaces').upper()}_NS"
            yield Missing(f"{name} namespaces", f"/proc/self/ns/{name}", "none", remedy)
    known = (computer.read("/proc/filesystems") or "").split()
    for name in _FILE_SYSTEMS:
        if name not in known:
            yield Missing(f"file system {name}", "it in /proc/filesystems", "none", "Boot a kernel that has it")
    able = computer.is_root() and all(computer.find(tool) for tool in ("ip", "tc", "unshare"))
    for feature, option, commands in FEATURES if able else ():
        problem = computer.attempt(commands)
        if problem is not None:
            yield Missing(feature, option, problem, "Boot a kernel with it, or load its module")


def _tools(computer: Computer) -> Iterator[Missing]:
    for tool in TOOLS:
        place = tool.path or computer.find(tool.name)
        needed = f"{_dotted(tool.oldest)} or later ({tool.why})"
        remedy = f"Install it: apt-get install {tool.package}"
        if place is None or (tool.path is not None and computer.read(tool.path) is None):
            yield Missing(tool.path or tool.name, needed, "none", remedy)
            continue
        said = computer.output([place, *tool.version])
        version = _version(said)
        if version is None:
            first = said.strip().partition("\n")[0] or "nothing"
            yield Missing(tool.name, needed, f"{place}, which does not tell its version (it says {first!r})", remedy)
        elif version < tool.oldest:
            yield Missing(tool.name, needed, f"{place} {_dotted(version)}", remedy)


def _version(text: str) -> tuple[int, ...] | None:
    """Return the first dotted number in ``text``."""
    match = re.search(r"(?<![0-9.])([0-9]+(?:\.[0-9]+)+)", text)
    return tuple(int(part) for part in match[1].split(".")) if match else None


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


class ThisComputer:
    """The computer this runs on."""

    def is_root(self) -> bool:
        """See :class:`Computer`."""
        return os.geteuid() == 0

    def kernel_release(self) -> str:
        """See :class:`Computer`."""
        return platform.release()

    def read(self, path: str) -> str | None:
        """See :class:`Computer`."""
        if not Path(path).exists():
            return None
        return Path(path).read_text(encoding="utf-8") if path == "/proc/filesystems" else ""

    def find(self, program: str) -> str | None:
        """See :class:`Computer`."""
        return shutil.which(program, path=f"{os.environ.get('PATH', '')}:{SEARCH_PATH}")

    def output(self, argv: Sequence[str]) -> str:
        """See :class:`Computer`."""
        try:
            done = subprocess.run(
                argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=10, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
        return done.stdout + done.stderr

    def attempt(self, commands: Sequence[str]) -> str | None:
        """See :class:`Computer`."""
        script = " && ".join(commands)
        argv = ["unshare", "--net", "/bin/sh", "-c", script]
        # Tools are run from where find() found them, whatever the caller's own search path is.
        found_there = {**os.environ, "PATH": SEARCH_PATH}
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
            env=found_there,
        )
        return None if done.returncode == 0 else done.stderr.strip() or f"exit code {done.returncode}"
