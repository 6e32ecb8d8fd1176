"""A run that meets a switch which refuses its user: what the operator is told, and what the journal keeps."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from controller.journal import Journal, Kind, NewEntry
from controller.site import load
from hil.bench.switch_lab import Lab, lab
from switch.security import UserSecurity

pytestmark = pytest.mark.rig

WEIGHBRIDGE = Path(sys.executable).with_name("weighbridge")
SITE = """
version: 1
site: demo
controller: {journal: journal.db, ca: pki/ca.pem, certificate: pki/controller.pem, key: pki/controller.key}
pods: [{name: pod-a, nodes: [node1]}]
nodes:
  - name: node1
    dpus:
      - name: node1-dpu0
        agent: "127.0.0.1:7443"
        uplinks: [{name: p0, host_port: pf0hpf, line_rate: 10Gbit/s, mtu: 1500}]
links: [{name: node1/p0, dpu: node1-dpu0, uplink: p0, switch: sw1, port: eth1}]
switches:
  - name: sw1
    address: "127.0.0.1:161"
    snmp: {version: 3, user: USER, auth: sha256, auth_key_file: s/auth, privacy: aes128, privacy_key_file: s/priv}
    refresh: 3.5s
    framing: l2_without_fcs
collection: {poll_interval: 200ms, scrape_interval: 200ms, clock_interval: 100ms}
limits: []
"""


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with lab(tmp_path_factory.mktemp("lab"), ports=1) as made:
        yield made


def make_site(folder: Path, pki: Path, user: UserSecurity) -> Path:
    """Write a site whose switch is spoken to as ``user``, and its journal."""
    shutil.copytree(pki, folder / "pki")
    (folder / "s").mkdir()
    for name, phrase in (("auth", user.authentication_phrase), ("priv", user.privacy_phrase)):
        (folder / "s" / name).write_text(f"{phrase}\n")
        (folder / "s" / name).chmod(0o600)
    path = folder / "site.yaml"
    path.write_text(SITE.replace("USER", user.user))
    site = load(path)
    Journal.create(site.controller.journal, NewEntry(Kind.SITE, site.name, 1, site.content)).close()
    return path


def run_until(agent: Lab, site: Path, told: Callable[[str], bool]) -> str:
    """Run the real command in the switch's namespace until it has ``told``; return all that it said."""
    command = ["ip", "netns", "exec", agent.namespace, str(WEIGHBRIDGE), "run", "--site", str(site)]
    said = site.with_name("said")
    with said.open("wb") as stream:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream)
        ends = time.monotonic() + 120
        try:
            while not told(said.read_text()):
                assert process.poll() is None, said.read_text()
                assert time.monotonic() < ends, said.read_text()
                time.sleep(0.1)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)
    return said.read_text()


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"user": "nobody"}, "does not know this user"),
        ({"authentication_phrase": "not the pass phrase"}, "authentication pass phrase"),
    ],
)
def test_a_refused_user_is_told_with_the_site_files_line_and_journaled_as_auth(
    agent: Lab, tmp_path: Path, pki: Path, wrong: dict[str, str], says: str
) -> None:
    user = replace(agent.user, **wrong)  # type: ignore[arg-type]  # all of them are texts
    site = make_site(tmp_path, pki, user)
    line = 1 + next(n for n, text in enumerate(SITE.splitlines()) if text.strip().startswith("snmp:"))
    said = run_until(agent, site, lambda text: says in text)
    (told,) = [each for each in said.splitlines() if says in each]
    assert told.startswith("sw1: ")
    assert f"site.yaml:{line}: user `{user.user}`" in told
    for name in ("auth", "priv"):
        assert f"s/{name}" in told
    with Journal.open(tmp_path / "journal.db", read_only=True) as journal:
        attempts = [json.loads(entry.body) for entry in journal.entries(kinds=[Kind.ATTEMPT], source="sw1")]
        assert {attempt["reason"] for attempt in attempts} == {"auth"}
        assert not list(journal.entries(kinds=[Kind.POLL]))
