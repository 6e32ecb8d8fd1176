"""The command line: exit codes, one clear sentence an error, nothing changed on disk by bad input."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from controller import cli
from controller.cli_results import write_whole
from controller.errors import EvidenceError, OperatorError
from controller.journal import Journal, Kind, NewEntry
from controller.journal_schema import FORMAT_VERSION
from controller.pki import Role, create_ca, create_site_pki, issue_certificate, write_issued
from controller.timeline import Timeline

HERE = Path(__file__).parent
WEIGHBRIDGE = Path(sys.executable).with_name("weighbridge")


@dataclass
class Outcome:
    code: int
    out: str
    err: str


def run(*arguments: str | Path) -> Outcome:
    result = CliRunner().invoke(cli.app, [str(each) for each in arguments], prog_name="weighbridge")
    return Outcome(result.exit_code, result.stdout, result.stderr)


@pytest.fixture(autouse=True)
def _no_site_from_outside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("WEIGHBRIDGE_SITE", raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="session")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site that is right: the demo's site file, its secrets and certificates."""
    place = tmp_path_factory.mktemp("site")
    shutil.copy(HERE / "site_ok" / "demo.yaml", place / "site.yaml")
    (place / "secrets").mkdir()
    for name in ("sw1.auth", "sw1.priv"):
        secret = place / "secrets" / name
        secret.write_text("0123456789abcdef\n")
        secret.chmod(0o600)
    create_site_pki(place / "pki", site="demo", controller="controller", agents={})
    return place


@pytest.fixture
def place(pristine: Path, tmp_path: Path) -> Path:
    shutil.copytree(pristine, tmp_path / "site")
    return tmp_path / "site"


@pytest.fixture
def site(place: Path) -> Path:
    return place / "site.yaml"


@pytest.fixture
def started(site: Path) -> Path:
    """A site whose journal is there."""
    assert run("init", site).code == 0
    return site


def content(folder: Path) -> dict[str, bytes | None]:
    """Return everything under ``folder``; what SQLite keeps beside an open journal does not count."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
        if not path.name.endswith(("-wal", "-shm"))
    }


def edit(site: Path, old: str, new: str) -> None:
    text = site.read_text()
    assert text.count(old) >= 1
    site.write_text(text.replace(old, new, 1))


# ---------------------------------------------------------------- the program itself


def test_help_lists_every_command_with_what_it_does() -> None:
    result = run("--help")
    assert result.code == 0
    for name in cli.command_sources():
        assert re.search(rf"\b{name}\b", result.out)
    assert "cannot be loaded" not in result.out
    assert "Exit codes: 0 compliant or done, 1 violation" in result.out


def test_every_command_can_be_loaded_and_says_what_it_does() -> None:
    for name, source in cli.command_sources().items():
        assert cli.load_command(name, source).name == name
        assert cli._title(source.partition(":")[0])[0].isupper()
        assert run(name, "--help").code == 0


def test_every_docstring_has_the_form_that_the_list_reads() -> None:
    for name, source in cli.COMMANDS.items():
        text = Path(HERE.parents[1], *source.partition(":")[0].split(".")).with_suffix(".py").read_text()
        assert text.startswith(f'"""``weighbridge {name}``: ')


def test_the_list_of_commands_loads_none_of_them() -> None:
    """So that help comes quickly."""
    code = (
        "import sys; from controller.cli import main; sys.argv[1:] = ['--help']\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "heavy = ('paramiko', 'grpc', 'pydantic', 'numpy', 'pyarrow', 'matplotlib', 'pysnmp', 'hil.cli')\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_version() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+\n", run("--version").out)


def test_an_unknown_command_and_no_command() -> None:
    wrong = run("crosschek")
    assert wrong.code == 2
    assert "No such command 'crosschek'. Did you mean 'crosscheck'?" in wrong.err
    assert run().code == 2


def test_a_command_whose_package_is_broken_does_not_harm_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(cli.COMMANDS, "broken", "controller.nowhere:app")
    monkeypatch.setitem(cli.COMMANDS, "wrong", "controller.errors:OperatorError")
    for name, text in (("broken", "cannot be loaded from controller.nowhere:app"), ("wrong", "is not a typer app")):
        command = cli.Commands(name="weighbridge")
        with pytest.raises(OperatorError, match=text):
            command.resolve_command(None, [name])
        assert command.resolve_command(None, ["site", "check"])[0] == "site"


def test_an_entry_point_cannot_take_over_a_command_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    @dataclass
    class Point:
        name: str
        value: str

    def points(*, group: str) -> list[Point]:
        assert group == "weighbridge.commands"
        return [Point("zebra", "z:app"), Point("run", "evil:app"), Point("ant", "a:app")]

    monkeypatch.setattr("importlib.metadata.entry_points", points)
    sources = cli.command_sources()
    assert sources["run"] == "controller.cli_run:app"
    assert list(sources)[-2:] == ["ant", "zebra"]


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> dict[str, Exception]:
    """A command ``fail NAME`` that raises what the test says."""
    raised: dict[str, Exception] = {}
    app = typer.Typer()

    @app.command()
    def fail(name: str) -> None:
        raise raised[name]

    monkeypatch.setattr("controller.cli_site.app", app)
    return raised


def test_errors_of_ours_are_a_sentence_and_their_exit_code(failing: dict[str, Exception]) -> None:
    failing["operator"] = OperatorError("the thing is wrong. Do this.\nAnd that.")
    failing["evidence"] = EvidenceError("leaf 7 is damaged. Restore it.")
    operator = run("site", "operator")
    assert (operator.code, operator.err) == (2, "error: the thing is wrong. Do this.\nerror: And that.\n")
    evidence = run("site", "evidence")
    assert (evidence.code, evidence.err) == (1, "error: leaf 7 is damaged. Restore it.\n")
    traced = run("--debug", "site", "evidence")
    assert "Traceback" in traced.err
    assert traced.err.endswith("error: leaf 7 is damaged. Restore it.\n")


def test_a_fault_of_our_own_keeps_its_traceback_for_debug(failing: dict[str, Exception]) -> None:
    failing["fault"] = ZeroDivisionError("by zero")
    plain = run("site", "fault")
    assert plain.code == 2
    assert plain.err.startswith("error: a fault of weighbridge itself (ZeroDivisionError: by zero).")
    assert "Traceback" not in plain.err
    debug = run("--debug", "site", "fault")
    assert debug.code == 2
    assert "Traceback" in debug.err


def test_output_that_nobody_reads_is_no_violation(started: Path) -> None:
    # A pipe whose reader has gone before anything is written, as `| head` leaves it.
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [WEIGHBRIDGE, "journal", "stats", "--json", "--site", started],
        stdout=write,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(write)
    assert done.returncode == cli.OUTPUT_GONE
    assert b"Traceback" not in done.stderr


def test_no_colour_when_not_a_terminal(site: Path) -> None:
    environment = {**os.environ, "TERM": "xterm-256color"}
    for name in ("FORCE_COLOR", "GITHUB_ACTIONS", "PY_COLORS"):
        environment.pop(name, None)
    for arguments in (["--help"], ["nonsense"], ["site", "check", str(site)]):
        done = subprocess.run([WEIGHBRIDGE, *arguments], env=environment, capture_output=True, check=False)
        assert b"\x1b" not in done.stdout + done.stderr


# ---------------------------------------------------------------- which site


def test_the_site_file_comes_from_argument_environment_or_folder(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nowhere = run("site", "check")
    assert nowhere.code == 2
    assert "site.yaml: cannot read the site file" in nowhere.err
    monkeypatch.setenv("WEIGHBRIDGE_SITE", str(site))
    assert run("site", "check").code == 0
    monkeypatch.delenv("WEIGHBRIDGE_SITE")
    monkeypatch.chdir(site.parent)
    assert run("site", "check").code == 0
    assert run("journal", "stats").code == 2  # there is no journal yet, but the site file was found
    assert run("init").code == 0
    assert run("journal", "stats").code == 0


def test_help_says_where_the_site_file_comes_from() -> None:
    for command in (["run"], ["crosscheck"], ["journal", "stats"], ["init"], ["site", "check"]):
        text = " ".join(run(*command, "--help").out.replace("│", " ").split())
        assert "WEIGHBRIDGE_SITE" in text
        assert "./site.yaml" in text


# ---------------------------------------------------------------- site check


def test_site_check_says_what_the_file_means(site: Path) -> None:
    result = run("site", "check", site)
    assert result.code == 0
    assert result.out.splitlines() == [
        "site demo: 2 pods, 4 nodes, 4 DPUs, 4 links, 1 switch",
        "limit: 10.0 MB in any 10 s, per node and direction",
    ]
    summary = json.loads(run("site", "check", site, "--json").out)
    assert summary["agents"] == ["node1-dpu0", "node2-dpu0", "node3-dpu0", "node4-dpu0"]
    assert summary["limits"] == [{"window_ns": "10000000000", "bytes": "10000000"}]
    assert summary["untestable_host_links"] == []


def test_site_check_says_what_cannot_be_tested() -> None:
    result = run("site", "check", HERE / "site_ok" / "rich.yaml", "--no-secrets")
    assert result.code == 0
    assert "laws about the host cannot be tested on n3/p0" in result.out


def test_site_check_prints_every_error_on_a_line_of_its_own(site: Path) -> None:
    edit(site, "10MB", "10Mb")
    edit(site, "3.5s", "3.5")
    result = run("site", "check", site)
    assert result.code == 2
    assert result.out == ""
    assert [line.split(": ")[1] for line in result.err.splitlines()] == [f"{site}:53", f"{site}:57"]


# ---------------------------------------------------------------- init, and what it refuses


def test_init_makes_a_journal_with_the_site_file_in_it(site: Path) -> None:
    result = run("init", site)
    assert result.code == 0
    assert "journal of site demo made: 4 links, 4 agents, 1 switch" in result.err
    with Journal.open(site.parent / "journal.db", read_only=True) as journal:
        anchor, entry = journal.entries()
        assert (anchor.kind, entry.kind) == (Kind.TIMELINE, Kind.SITE)
        assert entry.body == site.read_bytes()
        assert entry.source == "demo"
        assert abs(entry.recorded_ns - time.time_ns()) < 60 * 10**9


FAILING = sorted((HERE / "site_fail").glob("*.yaml"))


@pytest.mark.parametrize("wrong", FAILING, ids=[path.stem for path in FAILING])
def test_init_refuses_a_wrong_site_file_and_changes_nothing(place: Path, wrong: Path) -> None:
    site = place / "site.yaml"
    shutil.copy(wrong, site)
    _, line, expected = wrong.read_text().split("\n", 1)[0].split(" | ")
    before = content(place)
    result = run("init", site)
    assert result.code == 2
    assert f"error: {site}:{line.removeprefix('line: ')}: " in result.err
    assert expected.removeprefix("expect: ") in result.err
    assert result.out == ""
    assert content(place) == before


def _no_secret(place: Path) -> None:
    (place / "secrets" / "sw1.priv").unlink()


def _open_secret(place: Path) -> None:
    (place / "secrets" / "sw1.auth").chmod(0o644)


def _no_key(place: Path) -> None:
    (place / "pki" / "controller.key").unlink()


def _open_key(place: Path) -> None:
    (place / "pki" / "controller.key").chmod(0o640)


def _no_authority(place: Path) -> None:
    (place / "pki" / "ca.pem").unlink()


def _expired(place: Path) -> None:
    from datetime import datetime, timezone  # noqa: PLC0415

    long_ago = datetime.now(timezone.utc) - timedelta(days=300)
    authority = create_ca("demo", now=long_ago)
    (place / "pki" / "ca.pem").write_bytes(authority.certificate_pem)
    issued = issue_certificate(authority, Role.CONTROLLER, "controller", None, timedelta(days=90), now=long_ago)
    write_issued(place / "pki" / "controller", issued, renew=True)


def _another_sites(place: Path) -> None:
    shutil.rmtree(place / "pki")
    create_site_pki(place / "pki", site="elsewhere", controller="controller", agents={})


def _an_agents(place: Path) -> None:
    shutil.rmtree(place / "pki")
    create_site_pki(place / "pki", site="demo", controller="controller", agents={"node1-dpu0": "10.0.0.1"})
    for ending in ("pem", "key"):
        (place / "pki" / "agents" / f"node1-dpu0.{ending}").replace(place / "pki" / f"controller.{ending}")


def _a_journal_is_there(place: Path) -> None:
    assert run("init", place / "site.yaml").code == 0


def _something_else_is_there(place: Path) -> None:
    (place / "journal.db").write_text("not a journal")


def _no_folder_for_the_journal(place: Path) -> None:
    edit(place / "site.yaml", "journal: journal.db", "journal: nowhere/journal.db")


def _no_site_file(place: Path) -> None:
    (place / "site.yaml").unlink()


@pytest.mark.parametrize(
    ("spoil", "text"),
    [
        (
            _no_secret,
            r"site\.yaml:52: the privacy secret of switch sw1: .*/sw1\.priv is missing\. Make it with `\(umask",
        ),
        (_open_secret, r"site\.yaml:50: the authentication secret .* by others than its owner\. Run `chmod 600 "),
        (_no_key, r"controller\.key: is not there; make it with `weighbridge pki"),
        (_open_key, r"controller\.key: a private key that others can read; run `chmod 600 "),
        (_no_authority, r"ca\.pem: is not there; make it with `weighbridge pki init`"),
        (_expired, r"controller\.pem: expired at .*; issue a new one with `weighbridge pki issue"),
        (
            _another_sites,
            r"controller\.pem: is for site 'elsewhere', the site file .*site\.yaml is for 'demo'\. Name this",
        ),
        (
            _an_agents,
            r"controller\.pem: is for an agent, node1-dpu0; agents refuse calls from it\. Issue a controller's",
        ),
        (_a_journal_is_there, r"journal\.db exists already; a journal is never overwritten\. Name another file"),
        (_something_else_is_there, r"journal\.db exists already; a journal is never overwritten"),
        (_no_folder_for_the_journal, r"nowhere/journal\.db.*cannot make the journal \(No such file.*Check the folder"),
        (_no_site_file, r"site\.yaml: cannot read the site file .*Name the site file"),
    ],
)
def test_init_refuses_what_is_not_in_order_and_changes_nothing(
    place: Path, spoil: Callable[[Path], None], text: str
) -> None:
    spoil(place)
    before = content(place)
    result = run("init", place / "site.yaml")
    assert result.code == 2
    assert result.err.startswith("error: ")
    assert re.search(text, result.err), result.err
    assert "Traceback" not in result.err
    assert result.out == ""
    assert content(place) == before


# ---------------------------------------------------------------- the journal's commands


def test_journal_stats(started: Path) -> None:
    with Journal.open(started.parent / "journal.db") as journal:
        journal.append(NewEntry(Kind.FRAME, "a[b]", 5, b"12345", {}, 7), NewEntry(Kind.FRAME, "a[b]", 9, b"1", {}, 8))
    result = run("journal", "stats", "--site", started)
    assert result.code == 0
    assert re.search(r"frame\s+a\[b\]\s+2\s+6 B\s+01-01 00:00\s+01-01 00:00\s+8", result.out)
    assert "4 entries" in result.err
    kinds = {row["kind"]: row for row in json.loads(run("journal", "stats", "--site", started, "--json").out)["kinds"]}
    assert kinds["frame"] == {
        "kind": "frame",
        "source": "a[b]",
        "entries": 2,
        "body_bytes": "6",
        "first_ns": "5",
        "last_ns": "9",
        "last_sequence": "8",
    }
    assert kinds["site"]["last_sequence"] is None


def test_journal_fsck_of_a_sound_and_a_damaged_journal(started: Path) -> None:
    sound = run("journal", "fsck", "--site", started)
    assert (sound.code, sound.out) == (0, "2 entries, 0 frames of 0 agents, 1 checkpoint checked: in order\n")
    path = started.parent / "journal.db"
    damaged = path.read_bytes().replace(b"site: demo", b"site: demO", 1)
    assert damaged != path.read_bytes()
    path.write_bytes(damaged)
    result = run("journal", "fsck", "--journal", path)
    assert result.code == 1
    assert "the body of leaf 1 (site of demo) is not what was recorded" in result.out
    assert "1 fault. Keep the file as it is" in result.err
    as_json = run("journal", "fsck", "--journal", path, "--json")
    assert as_json.code == 1
    found = json.loads(as_json.out)
    assert (found["ok"], [fault["leaf"] for fault in found["faults"]]) == (False, [1])


@pytest.mark.parametrize("command", [["journal", "stats"], ["journal", "fsck"], ["crosscheck"], ["run"]])
def test_a_journal_of_a_newer_version_is_refused_by_every_command(started: Path, command: list[str]) -> None:
    import sqlite3  # noqa: PLC0415

    path = started.parent / "journal.db"
    with sqlite3.connect(path) as newer:
        newer.execute(f"PRAGMA user_version = {FORMAT_VERSION + 1}")
    newer.close()
    before = path.read_bytes()
    result = run(*command, "--site", started)
    assert result.code == 2
    known = FORMAT_VERSION
    assert f"the journal has format {known + 1}, this program knows formats up to {known}. Update" in result.err
    assert path.read_bytes() == before


@pytest.mark.parametrize("command", [["journal", "stats"], ["journal", "fsck"], ["crosscheck"], ["run"]])
def test_no_journal_yet(site: Path, command: list[str]) -> None:
    before = content(site.parent)
    result = run(*command, "--site", site)
    assert result.code == 2
    assert "journal.db: the journal does not exist. Make one with `weighbridge init SITE.yaml`" in result.err
    assert content(site.parent) == before


# ---------------------------------------------------------------- crosscheck


def test_crosscheck_without_evidence_is_inconclusive_in_every_format(started: Path) -> None:
    table = run("crosscheck", "--site", started)
    assert table.code == 3
    assert table.out.startswith("inconclusive: ")
    as_json = run("crosscheck", "--site", started, "--format", "json", "--last", "1m")
    assert as_json.code == 3
    result = json.loads(as_json.out)
    assert result["verdict"] == "inconclusive"
    assert {(link["link"], link["direction"]) for link in result["links"]} == {
        (f"node{number}/p0", direction) for number in range(1, 5) for direction in ("egress", "ingress")
    }
    period = result["period"]
    assert int(period["to_ns"]) - int(period["from_ns"]) == 60 * 10**9
    rows = list(csv.DictReader(io.StringIO(run("crosscheck", "--site", started, "--format", "csv").out)))
    assert all(row["verdict"] == "inconclusive" for row in rows)
    html = run("crosscheck", "--site", started, "--format", "html")
    assert html.code == 3
    assert html.out.startswith("<!doctype html>") or html.out.startswith("<!DOCTYPE html>")


def test_crosscheck_of_some_links_a_pod_and_a_window(started: Path) -> None:
    def links(*options: str) -> tuple[int, set[str], str]:
        result = run("crosscheck", "--site", started, "--json", *options)
        body: dict[str, Any] = json.loads(result.out) if result.out else {"links": [], "scope": ""}
        return result.code, {link["link"] for link in body["links"]}, str(body["scope"]) + result.err

    assert links("--link", "node1/p0", "--link", "node3/p0")[:2] == (3, {"node1/p0", "node3/p0"})
    code, pod, scope = links("--pod", "pod-a")
    assert (code, pod) == (3, {"node1/p0", "node2/p0"})
    assert "2 others and the switches' other ports are left out, with which the verdict is inconclusive" in scope
    assert links("--window", "10s")[0] == 3
    assert "no limit has that window. Agreed are: 10 s" in links("--window", "11s")[2]
    assert "There: node1/p0, node2/p0" in links("--link", "node9/p0")[2]
    assert links()[2] == "None"


def test_a_finding_is_explained_from_the_journal(started: Path) -> None:
    told = run("explain", "limit-possibly-exceeded", "--site", started)
    assert told.code == 2
    assert "names several findings" in told.err
    told = run("explain", "1", "--site", started)
    assert told.code == 0
    assert "What it rests on" in told.out
    assert "in_flight: " in told.out


def test_a_report_in_a_folder_is_one_result_in_every_form(started: Path, tmp_path: Path) -> None:
    folder = tmp_path / "monday"
    made = run("report", "--site", started, "--last", "1m", "-o", folder)
    assert made.code == 3
    assert made.out == ""
    files = {path.name for path in folder.iterdir()} - {"report.pdf"}
    assert files == {"report.bundle", "report.json", "report.csv", "report.html"}
    result = json.loads((folder / "report.json").read_text())
    assert result["verdict"] == "inconclusive"
    for said in ("report.bundle: inconclusive", "report.json: as signed", "report.html: to read", "report.pdf: "):
        assert said in made.err


def test_crosscheck_writes_a_file_whole(started: Path, tmp_path: Path) -> None:
    for form in ("table", "json", "csv", "html"):
        path = tmp_path / f"out.{form}"
        path.write_text("old")
        result = run("crosscheck", "--site", started, "--format", form, "-o", path)
        assert result.code == 3
        assert result.out == ""
        assert len(path.read_text()) > 50 or form == "csv"
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith((".", "out"))) == [
        "out.csv",
        "out.html",
        "out.json",
        "out.table",
    ]
    nowhere = run("crosscheck", "--site", started, "--format", "json", "-o", tmp_path / "no" / "x.json")
    assert nowhere.code == 2
    assert "x.json: cannot be written (No such file or directory). Check the folder" in nowhere.err


def test_a_file_that_cannot_be_finished_leaves_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text("old")

    def disk_full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(OperatorError, match="No space left on device"):
        write_whole(path, "new", sync=disk_full)
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]
    assert path.read_text() == "old"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--last", "5m", "--from", "-1h"], "--last and --from/--to say two different periods"),
        (["--to", "now"], "--to without --from"),
        (["--from", "2026-11-30 21:00"], "has no zone"),
        (["--from", "-5m", "--to", "-10m"], "the period is empty"),
        (["--last", "5"], "is not a duration"),
        (["--last", "0s"], "must be more than nothing"),
        (["--from", "2020-01-01T00:00Z", "--to", "2100-01-01T00:00Z"], "in the future, where nothing is known"),
        (["--format", "xml"], "xml"),
    ],
)
def test_crosscheck_refuses_a_period_that_is_none(started: Path, arguments: list[str], text: str) -> None:
    result = run("crosscheck", "--site", started, *arguments)
    assert result.code == 2
    assert text in " ".join(result.err.replace("│", " ").split())


def test_crosscheck_judges_in_parts_where_the_site_file_changed(started: Path, tmp_path: Path) -> None:
    with Journal.open(started.parent / "journal.db") as journal:
        timeline = Timeline.start(journal)
        first = journal.last(Kind.SITE)
        assert first is not None
        time.sleep(0.02)
        changed = first.body.replace(b"bytes: 10MB", b"bytes: 20MB")
        journal.append(NewEntry(Kind.SITE, "demo", timeline.now_ns(), changed))
        moment = journal.last_recorded_ns()
    time.sleep(0.02)
    result = run("crosscheck", "--site", started, "--from", "-1m", "--format", "json")
    assert result.code == 3
    assert "is not the site file in force" in result.err
    whole = json.loads(result.out)
    assert whole["verdict"] == "inconclusive"
    assert [part["links"][0]["limits"][0]["limit_bytes"] for part in whole["parts"]] == ["10000000", "20000000"]
    assert whole["parts"][0]["period"]["to_ns"] == whole["parts"][1]["period"]["from_ns"] == str(moment)
    assert "part 2 of 2" in run("crosscheck", "--site", started, "--from", "-1m").out
    refused = run("crosscheck", "--site", started, "--from", "-1m", "--format", "html")
    assert refused.code == 2
    assert "the site file changed within the period" in refused.err
    out = tmp_path / "r.html"
    assert run("crosscheck", "--site", started, "--from", "-1m", "--format", "html", "-o", out).code == 3
    assert {path.name for path in tmp_path.glob("r*.html")} == {"r-1.html", "r-2.html"}


def test_crosscheck_of_a_damaged_journal_fails_and_names_the_leaf(started: Path) -> None:
    path = started.parent / "journal.db"
    path.write_bytes(path.read_bytes().replace(b"site: demo", b"site: demO", 1))
    result = run("crosscheck", "--site", started)
    assert result.code == 1
    assert "the body of leaf 1 (site of demo) is not what was recorded" in result.err


def test_run_refuses_the_journal_of_another_site(started: Path) -> None:
    with Journal.open(started.parent / "journal.db") as journal:
        journal.append(NewEntry(Kind.SITE, "elsewhere", 1, b"site: elsewhere"))
        before = len(journal)
    result = run("run", "--site", started)
    assert result.code == 2
    assert "is the journal of site 'elsewhere'" in result.err
    with Journal.open(started.parent / "journal.db", read_only=True) as journal:
        assert len(journal) == before
