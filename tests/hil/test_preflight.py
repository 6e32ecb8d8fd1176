from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from hil import preflight
from hil.errors import PreflightError
from hil.preflight import FEATURES, TOOLS, Missing


@dataclass
class FakeComputer:
    """Answers from tables; complete unless told otherwise."""

    root: bool = True
    release: str = "6.1.0-18-amd64"
    absent: set[str] = field(default_factory=set)  # files and programs
    said: dict[str, str] = field(default_factory=dict)  # what a program prints as its version
    refused: dict[str, str] = field(default_factory=dict)  # commands that fail, by a word in them
    file_systems: str = "nodev\tsysfs\nnodev\ttmpfs\nnodev\tproc\nnodev\tbpf\n\text4\n"

    def is_root(self) -> bool:
        return self.root

    def kernel_release(self) -> str:
        return self.release

    def read(self, path: str) -> str | None:
        if path in self.absent:
            return None
        return self.file_systems if path == "/proc/filesystems" else ""

    def find(self, program: str) -> str | None:
        return None if program in self.absent else f"/usr/bin/{program}"

    def output(self, argv: Sequence[str]) -> str:
        program = argv[0].rpartition("/")[2]
        return self.said.get(program, f"{program} version 99.9.9 (with options)")

    def attempt(self, commands: Sequence[str]) -> str | None:
        return next((text for word, text in self.refused.items() if any(word in line for line in commands)), None)


def whats(missing: list[Missing]) -> list[str]:
    return [each.what for each in missing]


def test_a_complete_computer_lacks_nothing() -> None:
    assert preflight.check(FakeComputer()) == []
    preflight.require(FakeComputer())


def test_everything_missing_is_named_at_once() -> None:
    computer = FakeComputer(root=False, release="4.19.0", absent={tool.name for tool in TOOLS} | {"/usr/bin/python3"})
    missing = preflight.check(computer)
    assert whats(missing)[:2] == ["rights", "kernel"]
    for tool in TOOLS:
        (found,) = [each for each in missing if each.what in (tool.name, tool.path)]
        assert ".".join(map(str, tool.oldest)) in found.needed
        assert found.remedy == f"Install it: apt-get install {tool.package}"
    with pytest.raises(PreflightError) as refused:
        preflight.require(computer)
    assert all(each.what in str(refused.value) for each in missing)
    assert refused.value.exit_code == 2


@pytest.mark.parametrize(
    ("program", "prints", "old"),
    [
        ("snmpd", "NET-SNMP version:  5.7.3\nWeb: http://www.net-snmp.org/\n", True),
        ("snmpd", "\nNET-SNMP version:  5.9.3\n", False),
        ("ip", "ip utility, iproute2-6.1.0, libbpf 1.1.2", False),
        ("ip", "ip utility, iproute2-4.9.0", True),
        ("sshd", "OpenSSH_9.2, OpenSSL 3.0.19 27 Jan 2026", False),
        ("sshd", "OpenSSH_7.4p1, OpenSSL 1.0.2", True),
        ("nsenter", "nsenter from util-linux 2.38.1", False),
        ("sysctl", "sysctl from procps-ng 4.0.2", False),
        ("prometheus-node-exporter", "node_exporter, version 1.5.0 (branch: debian/sid)", False),
        ("prometheus-node-exporter", "node_exporter, version 0.18.1 (branch: HEAD)", True),
        ("python3", "Python 3.9.2", True),
        ("python3", "Python 3.10.13", False),
    ],
)
def test_versions_as_the_tools_print_them(program: str, prints: str, old: bool) -> None:
    missing = preflight.check(FakeComputer(said={program: prints}))
    assert whats(missing) == ([program] if old else [])


def test_a_tool_that_tells_no_version_is_named_with_what_it_said() -> None:
    (found,) = preflight.check(FakeComputer(said={"ethtool": "ethtool: bad command line argument(s)\n"}))
    assert found.what == "ethtool"
    assert "bad command line" in found.found


@pytest.mark.parametrize("name", ["net", "mnt", "uts", "ipc", "pid", "time"])
def test_each_kind_of_namespace_is_looked_for(name: str) -> None:
    (found,) = preflight.check(FakeComputer(absent={f"/proc/self/ns/{name}"}))
    assert found.what == f"{name} namespaces"


def test_a_missing_file_system_is_named() -> None:
    assert whats(preflight.check(FakeComputer(file_systems="nodev sysfs\nnodev tmpfs\nnodev proc\n"))) == [
        "file system bpf"
    ]


@pytest.mark.parametrize("feature", [feature for feature, _, _ in FEATURES])
def test_each_feature_is_tried_and_its_refusal_shown(feature: str) -> None:
    commands = next(commands for name, _, commands in FEATURES if name == feature)
    word = commands[-1]
    missing = preflight.check(FakeComputer(refused={word: "RTNETLINK answers: Operation not supported"}))
    assert feature in whats(missing)
    assert any("Operation not supported" in each.found for each in missing)


@pytest.mark.rig
def test_this_computer_is_fit() -> None:
    assert preflight.check(preflight.ThisComputer()) == []


@pytest.mark.rig
def test_what_is_found_is_tried_from_there_whatever_the_search_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    assert preflight.ThisComputer().attempt(["ip -V >/dev/null"]) is None
