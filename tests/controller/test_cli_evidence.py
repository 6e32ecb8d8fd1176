"""The commands around evidence, as an operator, a witness and a stranger type them one after the other."""

from __future__ import annotations

import json
import re
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from controller import cli
from controller.journal import Journal, Kind, NewEntry
from controller.logkeys import keys_folder
from controller.pki import create_site_pki
from controller.witness_server import WitnessServer
from controller.witness_store import Witness

DEMO = Path(__file__).parent / "site_ok" / "demo.yaml"
MINUTE = 60 * 10**9
NAME = "prover.example/witness"


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli.app, [str(each) for each in arguments], prog_name="weighbridge")


def done(*arguments: str | Path, code: int = 0) -> str:
    result = run(*arguments)
    assert result.exit_code == code, result.output
    return result.stdout


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A site whose journal holds ten hours of scrapes that end now."""
    monkeypatch.delenv("WEIGHBRIDGE_SITE", raising=False)
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "site.yaml"
    shutil.copy(DEMO, path)
    (tmp_path / "secrets").mkdir()
    for name in ("sw1.auth", "sw1.priv"):
        (tmp_path / "secrets" / name).write_text("0123456789abcdef\n")
        (tmp_path / "secrets" / name).chmod(0o600)
    create_site_pki(tmp_path / "pki", site="demo", controller="controller", agents={})
    done("init", path)
    journal_file = tmp_path / "journal.db"
    with Journal.open(journal_file, read_only=True) as made:
        anchor = next(made.entries(kinds=[Kind.TIMELINE]))
    for file in tmp_path.glob("journal.db*"):
        if file.is_file():
            file.unlink()
    now = anchor.recorded_ns
    entries = [NewEntry(Kind.SITE, "demo", now - 600 * MINUTE, DEMO.read_bytes())]
    for at in range(now - 600 * MINUTE, now, MINUTE):
        meta = {"first_sent_ns": str(at), "received_ns": str(at)}
        entries.append(NewEntry(Kind.SCRAPE, "node1", at, b"node_boot_time_seconds 1\n# %d\n" % at, meta))
    entries.append(NewEntry(Kind.TIMELINE, anchor.source, now, anchor.body, anchor.meta, anchor.sequence))
    Journal.create(journal_file, *entries).close()
    return path


@contextmanager
def served(witness: Witness) -> Iterator[str]:
    with WitnessServer(("127.0.0.1", 0), witness) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


def policy_of(site: Path, *witnesses: str, quorum: int = 0) -> Path:
    keys = done("journal", "keys", "--site", site)
    listed = ", ".join(f'"{key}"' for key in witnesses)
    path = site.parent / f"policy-{quorum}.toml"
    path.write_text(f"version = 1\n{keys}\n[witnesses]\nquorum = {quorum}\nkeys = [{listed}]\n")
    return path


def utc(ns: int) -> str:
    return datetime.fromtimestamp(ns // 10**9, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


@pytest.mark.loopback
def test_a_report_that_a_witness_of_the_other_side_vouches_for(site: Path) -> None:
    folder = site.parent / "w"
    key = done("witness", "init", NAME, "--folder", folder).strip()
    log = re.findall(r'key = "(.*)"', done("journal", "keys", "--site", site))[0]
    done("witness", "trust", log, "--folder", folder)
    bundle = site.parent / "report.bundle"
    with served(Witness(folder)) as url:
        site.write_text(site.read_text() + f'\nwitnesses: [{{key: "{key}", url: "{url}"}}]\n')
        result = run("report", "--site", site, "--last", "5m", "--full", "-o", bundle)
    assert result.exit_code == 3, result.output
    assert f"{NAME}: cosigned 603 entries" in result.stderr
    demanding = policy_of(site, key, quorum=1)
    assert f"{NAME} saw the log at " in done("verify", bundle, "--policy", demanding)
    # Nobody there: the report is written all the same, and a policy that demands the witness refuses it.
    result = run("report", "--site", site, "--last", "5m", "-o", bundle)
    assert "does not answer" in result.stderr
    assert "step 6" in run("verify", bundle, "--policy", demanding).stderr
    done("verify", bundle, "--policy", policy_of(site, key, quorum=0))
    assert "in order" in done("journal", "fsck", "--site", site)


def test_a_copy_is_checked_elsewhere_and_says_what_it_could_not_check(site: Path) -> None:
    copy = site.parent / "copy.db"
    done("journal", "export", copy, "--site", site)
    result = run("journal", "fsck", "--journal", copy)
    assert result.exit_code == 3
    assert "not checked: the signatures of 1 checkpoints" in result.stdout
    assert json.loads(run("journal", "fsck", "--journal", copy, "--json").stdout)["ok"] is False
    log = re.findall(r'key = "(.*)"', done("journal", "keys", "--site", site))[0]
    assert "checked: in order" in done("journal", "fsck", "--journal", copy, "--log", log)
    done("journal", "fsck", "--journal", copy, "--log", "junk", code=2)
    stranger = Witness.make(site.parent / "w", NAME).key.public.encode()
    assert run("journal", "fsck", "--journal", copy, "--log", stranger).exit_code == 1


def test_pruning_step_by_step(site: Path) -> None:
    journal_file = site.parent / "journal.db"
    with Journal.open(journal_file, read_only=True) as journal:
        first = next(journal.entries()).recorded_ns
    before = utc(first + 300 * MINUTE)
    prune = ("journal", "prune", "--before", before, "--site", site)
    assert "nobody judged" in run(*prune).stderr
    period = ("--from", utc(first - MINUTE), "--to", before)
    done("report", "--site", site, *period, "-o", site.parent / "old.bundle", code=3)
    refused = run(*prune)
    assert refused.exit_code == 2
    (leaf,) = re.findall(r"--settled (\d+)", refused.stderr)
    assert "would go: 260 " in run(*prune, "--settled", leaf, "--dry-run").stderr
    assert "in order" in done("journal", "fsck", "--site", site)
    assert "dropped 260 " in run(*prune, "--settled", leaf).stderr
    assert "of 260 " in done("journal", "fsck", "--site", site)
    # What is left is judged, bundled and verified; what is gone is not judged any more.
    bundle = site.parent / "new.bundle"
    done("report", "--site", site, "--last", "5m", "--full", "-o", bundle, code=3)
    assert re.search(r"; of \d{3} only the leaf", done("verify", bundle, "--policy", policy_of(site)))
    result = run("crosscheck", "--site", site, *period)
    assert result.exit_code == 2
    assert "was dropped by a journaled decision" in result.stderr
    assert "a summary has no evidence" not in done("verify", bundle, "--policy", policy_of(site), "--result", "r.json")
    assert json.loads(Path("r.json").read_text())["verdict"] == "inconclusive"


def test_a_new_key_and_the_policies_of_before(site: Path) -> None:
    bundle = site.parent / "report.bundle"
    done("report", "--site", site, "--last", "5m", "-o", bundle, code=3)
    old = policy_of(site)
    done("verify", bundle, "--policy", old)
    new = done("journal", "rotate-key", "--site", site).strip()
    assert new in done("journal", "keys", "--site", site)
    assert "in order" in done("journal", "fsck", "--site", site)
    done("verify", bundle, "--policy", old)
    done("report", "--site", site, "--last", "5m", "-o", bundle, code=3)
    assert "step 5" in run("verify", bundle, "--policy", old).stderr
    done("verify", bundle, "--policy", policy_of(site))
    assert [path.suffix for path in keys_folder(site.parent / "journal.db").glob("retired-*")] == [".vkey"]


def test_what_the_commands_refuse(site: Path) -> None:
    for arguments in (
        ("witness", "show", "--folder", "none"),
        ("witness", "trust", "junk", "--folder", "none"),
        ("witness", "init", "a name with spaces"),
        ("witness", "serve", "--folder", "none"),
        ("witness", "cosign", "none"),
        ("journal", "request", "junk", "--site", site),
        ("journal", "cosignature", "junk", "none", "--site", site),
        ("journal", "prune", "--before", "yesterday", "--site", site),
        ("journal", "prune", "--before", "now", "--site", site),
        ("journal", "export", site, "--site", site),
    ):
        result = run(*arguments)
        assert result.exit_code == 2, (arguments, result.output)
        assert result.stderr.startswith("error: ")
