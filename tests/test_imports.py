"""Who may use what: third-party packages by allow-list, the project's own packages by the import contracts.

import-linter forbids but has no allow-list, so a new dependency would slip in unweighed; here it must be written down.
"""

from __future__ import annotations

import ast
import fnmatch
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parent.parent
OURS = ("protos", "dpu_agent", "switch", "controller", "hil")

ALLOWED: tuple[tuple[str, frozenset[str]], ...] = (
    # The shared kernel: a third party reads it in an hour.
    ("protos/v1/*", frozenset({"google.protobuf", "grpc"})),
    ("protos/wire.py", frozenset({"google.protobuf"})),
    ("protos/leasewire.py", frozenset({"google.protobuf"})),
    ("protos/generate.py", frozenset({"grpc_tools"})),
    ("protos/*", frozenset({"cryptography"})),
    # What travels to the DPU.
    ("dpu_agent/*", frozenset({"cryptography", "google.protobuf", "grpc", "pyroute2"})),
    ("switch/usm.py", frozenset({"cryptography"})),
    ("switch/*", frozenset({"pyasn1", "pysnmp"})),
    # The controller, narrow where it matters: the core is pure, what is kept needs nobody.
    ("controller/crosscheck/*", frozenset({"numpy"})),
    ("controller/evidence/*", frozenset({"cryptography"})),
    ("controller/observations/buckets.py", frozenset({"numpy"})),
    ("controller/observations/tables.py", frozenset({"google.protobuf"})),
    ("controller/observations/*", frozenset()),
    ("controller/journal_signatures.py", frozenset({"google.protobuf"})),
    ("controller/journal*.py", frozenset()),
    ("controller/timeline.py", frozenset()),
    ("controller/judgement.py", frozenset()),
    ("controller/clockoffset.py", frozenset()),
    ("controller/site.py", frozenset()),
    ("controller/site_credential.py", frozenset()),
    ("controller/site*.py", frozenset({"pydantic", "pydantic_core", "ruamel.yaml"})),
    ("controller/hostclaims.py", frozenset({"prometheus_client"})),
    ("controller/logkeys.py", frozenset({"cryptography"})),
    ("controller/verifierkey.py", frozenset({"cryptography"})),
    ("controller/classtables.py", frozenset({"cryptography"})),
    ("controller/alerts/send.py", frozenset({"httpx"})),
    ("controller/revoked.py", frozenset({"cryptography"})),
    ("controller/attestation/*", frozenset({"cryptography"})),
    ("controller/agreement/document.py", frozenset({"tomli"})),
    ("controller/agreement/*", frozenset({"cryptography", "typer"})),
    ("controller/leases/grant.py", frozenset()),
    ("controller/leases/*", frozenset({"cryptography", "grpc", "rich", "typer"})),
    ("controller/loads/window.py", frozenset()),
    ("controller/loads/*", frozenset({"cryptography", "rich", "typer"})),
    ("controller/policyfile.py", frozenset({"tomli"})),
    ("controller/bundle*.py", frozenset({"cryptography"})),
    ("controller/witness*.py", frozenset({"cryptography"})),
    ("controller/pki.py", frozenset({"cryptography"})),
    ("controller/revoked.py", frozenset({"cryptography"})),
    ("controller/credentials.py", frozenset({"cryptography"})),
    ("controller/topology_cli.py", frozenset({"rich", "typer"})),
    ("controller/pki_cli.py", frozenset({"cryptography", "rich", "typer"})),
    ("controller/cli_plan_propose.py", frozenset({"tomli", "typer"})),
    ("controller/cli*.py", frozenset({"rich", "typer"})),
    ("controller/collect/metrics.py", frozenset({"prometheus_client"})),
    ("controller/collect/*", frozenset({"cryptography", "google.protobuf", "grpc", "httpx"})),
    ("controller/deploy/*", frozenset({"grpc", "paramiko", "rich", "typer"})),
    ("controller/report/*", frozenset({"jinja2", "markupsafe", "numpy", "rich"})),
    ("controller/rules/*", frozenset({"numpy"})),
    ("controller/rules_history.py", frozenset({"numpy"})),
    ("controller/replay/*", frozenset({"numpy"})),
    ("controller/corpus/*", frozenset({"numpy"})),
    ("controller/planner/*", frozenset({"markupsafe", "numpy"})),
    ("controller/*", frozenset()),
    ("hil/bench/switch_fuzz.py", frozenset({"pyasn1", "pysnmp"})),
    ("hil/fuzz/*", frozenset({"atheris", "cryptography", "tomli"})),
    ("hil/*", frozenset({"cryptography", "numpy", "pydantic", "rich", "ruamel.yaml", "typer"})),
)
"""The first pattern that fits a file says which packages it may import."""

NOT_IN_PYTHON_3_10 = frozenset({"tomllib"})
STANDARD = frozenset(sys.stdlib_module_names) - NOT_IN_PYTHON_3_10

IMPORTS_BY_NAME = frozenset(
    {
        "controller/cli.py",  # loads a command when it is run
        "controller/deploy/device/launcher.py",  # starts the agent on the DPU, once the bundle's own wheels are found
        "hil/bench/__main__.py",  # loads an area's figures when they are asked for
        "hil/fuzz/__main__.py",  # loads an area's targets, watched from their first line
    }
)
"""Who may import what is named at run time, which no reader of imports sees."""


def sources() -> list[str]:
    found = [path for package in OURS for path in (PROJECT / package).rglob("*.py")]
    return sorted(str(path.relative_to(PROJECT)) for path in found if "__pycache__" not in path.parts)


def imported(text: str) -> Iterator[str]:
    """Yield the full name of every module that ``text`` imports, wherever in it the import stands."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            # `from google import protobuf` names the package in its second half.
            yield from ("." * node.level + (node.module or "") + f".{alias.name}" for alias in node.names)


def offences(path: str, text: str) -> list[str]:
    """Return what ``path`` imports and may not."""
    allowed = next(packages for pattern, packages in ALLOWED if fnmatch.fnmatch(path, pattern))
    wrong = []
    for name in imported(text):
        if name.startswith("."):
            wrong.append(f"{path}: relative import {name}: write the package's name")
        elif name.partition(".")[0] not in {*OURS, *STANDARD} and not any(
            name == package or name.startswith(f"{package}.") for package in allowed
        ):
            wrong.append(f"{path}: imports {name}, which is not on its list ({', '.join(sorted(allowed)) or 'empty'})")
    if path not in IMPORTS_BY_NAME and ("import_module" in text or "__import__" in text):
        wrong.append(f"{path}: imports by name at run time")
    return wrong


def test_every_import_is_on_its_list() -> None:
    wrong = [each for path in sources() for each in offences(path, (PROJECT / path).read_text(encoding="utf-8"))]
    assert wrong == []


def test_the_sources_are_found() -> None:
    found = sources()
    for expected in ("protos/wire.py", "dpu_agent/cli.py", "switch/record.py", "controller/journal.py", "hil/cli.py"):
        assert expected in found
    assert len(found) > 100


@pytest.mark.parametrize(
    ("path", "text", "wrong"),
    [
        ("protos/units.py", "import google.protobuf", 1),
        ("protos/wire.py", "from google.protobuf.message import DecodeError", 0),
        ("protos/wire.py", "from google import protobuf", 0),
        ("protos/wire.py", "from google import cloud", 1),
        ("protos/signing.py", "from cryptography.hazmat import x", 0),
        ("dpu_agent/cli.py", "import pydantic", 1),
        ("dpu_agent/cli.py", "import pyroute2.netlink, grpc", 0),
        ("dpu_agent/cli.py", "def f():\n    if 1:\n        import typer", 1),
        ("switch/snmp.py", "import httpx", 1),
        ("controller/crosscheck/check.py", "import scipy", 1),
        ("controller/crosscheck/deep/er.py", "import numpy.typing", 0),
        ("controller/crosscheck/deep/er.py", "import pydantic", 1),
        ("controller/evidence/tree.py", "import securesystemslib", 1),
        ("controller/journal_entry.py", "import cryptography", 1),
        ("controller/newcomer.py", "import requests", 1),
        ("controller/cli_new.py", "import typer\nimport numpyro", 1),
        ("controller/site.py", "from . import errors", 1),
        ("controller/site.py", "import tomllib", 1),
        ("controller/site.py", "import importlib\nimportlib.import_module('requests')", 1),
        ("controller/cli.py", "import importlib\nimportlib.import_module('x')", 0),
        ("hil/rig.py", "import json, controller.site", 0),
    ],
)
def test_the_gate_shuts(path: str, text: str, wrong: int) -> None:
    assert len(offences(path, text)) == wrong


@pytest.mark.parametrize("package", OURS)
def test_the_syntax_is_that_of_python_3_10(package: str) -> None:
    for path in (PROJECT / package).rglob("*.py"):
        ast.parse(path.read_text(encoding="utf-8"), str(path), feature_version=(3, 10))


def test_newer_syntax_would_be_seen() -> None:
    with pytest.raises(SyntaxError):
        ast.parse("try:\n    pass\nexcept* ValueError:\n    pass\n", feature_version=(3, 10))


def test_the_import_contracts_hold() -> None:
    linter = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([linter, "--no-cache"], cwd=PROJECT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert " 0 broken" in done.stdout
