"""The commands around a TPM's quote: what they print, and what they refuse without changing anything."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from controller import cli
from controller.journal import Journal, Kind
from controller.pki import create_site_pki

DEMO = Path(__file__).parents[1] / "site_ok" / "demo.yaml"


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli.app, [str(each) for each in arguments], prog_name="weighbridge")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("WEIGHBRIDGE_SITE", raising=False)
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "site.yaml"
    shutil.copy(DEMO, path)
    (tmp_path / "secrets").mkdir()
    for name in ("sw1.auth", "sw1.priv"):
        (tmp_path / "secrets" / name).write_text("0123456789abcdef\n")
        (tmp_path / "secrets" / name).chmod(0o600)
    create_site_pki(tmp_path / "pki", site="demo", controller="controller", agents={})
    assert run("init", path).exit_code == 0
    return path


def kept(site: Path, kind: Kind) -> int:
    with Journal.open(site.parent / "journal.db", read_only=True) as journal:
        return len(list(journal.entries(kinds=[kind])))


def test_a_challenge_and_what_is_no_answer(site: Path) -> None:
    made = run("attest", "challenge", "node1-dpu0", "--site", site)
    assert made.exit_code == 0
    assert re.fullmatch(r"[0-9a-f]{64}\n", made.stdout)
    assert kept(site, Kind.CHALLENGE) == 1
    for name in ("message", "signature", "key"):
        (site.parent / name).write_bytes(b"\x00" * 8)
    files = ("--message", "message", "--signature", "signature", "--key", "key")
    good = ("--registers", "0,1,7", "--digest", "00" * 32)
    refused = run("attest", "check", "node1-dpu0", *files, *good, "--site", site)
    assert refused.exit_code == 1
    assert "not a public key in PEM. The challenge stays open" in refused.stderr
    assert made.stdout.strip() not in refused.stderr
    assert kept(site, Kind.QUOTE) == 1
    for bad, why in (
        (("--registers", "0,24", "--digest", "00" * 32), "numbers from 0 to 23"),
        (("--registers", "0-7", "--digest", "00" * 32), "numbers from 0 to 23"),
        (("--registers", "0", "--digest", "AB" * 32), "64 lower-case"),
    ):
        said = run("attest", "check", "node1-dpu0", *files, *bad, "--site", site)
        assert said.exit_code == 2
        assert why in said.stderr
    (site.parent / "key").unlink()
    for arguments, why in (
        (("check", "node1-dpu0", *files, *good), "cannot be read"),
        (("challenge", "node9-dpu0"), "there is no DPU 'node9-dpu0'"),
    ):
        said = run("attest", *arguments, "--site", site)
        assert said.exit_code == 2
        assert why in said.stderr
    assert (kept(site, Kind.CHALLENGE), kept(site, Kind.QUOTE)) == (1, 1)
