"""The log and its witness over HTTP: asked, behind, ahead, silent, lying; and what ends up in a bundle."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.cli import app
from controller.collect.witnesses import WitnessAt, ask_all
from controller.cosigning import CosigningError, request_for, size_in
from controller.errors import EvidenceError, WeighbridgeError
from controller.evidence.checkpoint import check_cosignature
from controller.journal import Journal, Kind, NewEntry
from controller.journal_log import cosigned_size, keep_cosignature, last_checkpoint, publish, witnesses
from controller.logkeys import SiteKeys, make_site_keys
from controller.witness import MAX_REQUEST_BYTES, decode
from controller.witness_server import WitnessServer
from controller.witness_store import Witness

pytestmark = pytest.mark.loopback

NAME = "prover.example/witness"


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    with Journal.create(tmp_path / "journal.db") as journal:
        yield journal


@pytest.fixture
def keys(journal: Journal) -> SiteKeys:
    return make_site_keys(journal.path, "demo")


@pytest.fixture
def witness(tmp_path: Path, keys: SiteKeys) -> Witness:
    made = Witness.make(tmp_path / "witness", NAME)
    made.trust(keys.log.public)
    return made


@contextlib.contextmanager
def served(witness: Witness) -> Iterator[WitnessAt]:
    with WitnessServer(("127.0.0.1", 0), witness) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield WitnessAt(witness.key.public, f"http://127.0.0.1:{server.server_address[1]}")
        finally:
            server.shutdown()
            thread.join()


def fill(journal: Journal, count: int) -> None:
    start = len(journal)
    journal.append(*(NewEntry(Kind.SCRAPE, "node1", n, b"body %d" % n) for n in range(start, start + count)))


def asked(journal: Journal, *at: WitnessAt) -> list[int | WeighbridgeError]:
    said: list[int | WeighbridgeError] = []
    asyncio.run(ask_all(journal, at, lambda _, what: said.append(what)))
    return said


def test_a_log_is_cosigned_as_it_grows(journal: Journal, keys: SiteKeys, witness: Witness) -> None:
    with served(witness) as at:
        for count in (1, 1, 300, 0):
            fill(journal, count)
            size = publish(journal, keys.log).checkpoint.size
            assert asked(journal, at) == [size]
            newest = last_checkpoint(journal)
            assert newest is not None
            assert check_cosignature(newest.note, witness.key.public)
    assert cosigned_size(journal, witness.key.public) == 302
    assert witnesses(journal) == [witness.key.public.encode()]


def test_a_log_that_forgot_what_was_cosigned_asks_again_from_there(
    journal: Journal, keys: SiteKeys, witness: Witness
) -> None:
    fill(journal, 4)
    publish(journal, keys.log)
    # The answer was lost on its way: the witness knows of it, the journal does not.
    witness.add_checkpoint(request_for(journal, witness.key.public)[1].encode())
    fill(journal, 5)
    publish(journal, keys.log)
    with served(witness) as at:
        assert asked(journal, at) == [9]


def test_a_journal_that_was_cut_short_is_told(journal: Journal, keys: SiteKeys, witness: Witness) -> None:
    fill(journal, 2)
    publish(journal, keys.log)
    copy = journal.path.with_name("copy.db")
    journal.rows(f"VACUUM INTO '{copy}'")
    fill(journal, 4)
    publish(journal, keys.log)
    with served(witness) as at, Journal.open(copy) as older:
        assert asked(journal, at) == [6]
        (said,) = asked(older, at)
        assert isinstance(said, EvidenceError)
        assert "cut short, or an old copy" in str(said)
        # It goes on by itself and becomes another history: no way leads to a cosignature.
        older.append(NewEntry(Kind.SCRAPE, "node1", 1, b"another story"))
        fill(older, 9)
        publish(older, keys.log)
        (said,) = asked(older, at)
        assert isinstance(said, CosigningError)
        assert "422" in str(said)
        assert cosigned_size(older, witness.key.public) == 0
    assert witness.refused("weighbridge/demo") == 1


def test_a_witness_that_was_set_back_is_told(journal: Journal, keys: SiteKeys, witness: Witness) -> None:
    fill(journal, 2)
    publish(journal, keys.log)
    with served(witness) as at:
        assert asked(journal, at) == [2]
        (logs,) = (witness.folder / "logs").iterdir()
        before = (logs / "checkpoint").read_bytes()
        fill(journal, 4)
        publish(journal, keys.log)
        assert asked(journal, at) == [6]
        # From a backup. It would cosign another history from here on, and the log of an honest site says so.
        (logs / "checkpoint").write_bytes(before)
        fill(journal, 1)
        publish(journal, keys.log)
        (said,) = asked(journal, at)
    assert isinstance(said, EvidenceError)
    assert "restored from an old copy" in str(said)


def test_witnesses_that_do_not_answer_cost_nothing_else(journal: Journal, keys: SiteKeys, witness: Witness) -> None:
    fill(journal, 2)
    publish(journal, keys.log)
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        port = nobody.getsockname()[1]
    with served(witness) as at:
        gone = WitnessAt(at.key, f"http://127.0.0.1:{port}")
        said = asked(journal, gone, at)
    assert {type(each) for each in said} == {CosigningError, int}
    assert any("does not answer" in str(each) for each in said)


def test_an_answer_of_another_key_is_not_kept(
    journal: Journal, keys: SiteKeys, witness: Witness, tmp_path: Path
) -> None:
    other = Witness.make(tmp_path / "other", NAME)
    other.trust(keys.log.public)
    fill(journal, 2)
    publish(journal, keys.log)
    with served(other) as at:
        (said,) = asked(journal, WitnessAt(witness.key.public, at.url))
    assert isinstance(said, CosigningError)
    assert "no cosignature of its key" in str(said)
    assert cosigned_size(journal, witness.key.public) == 0


@pytest.mark.parametrize(
    ("status", "kind", "body", "size"),
    [
        (409, "text/x.tlog.size", b"5\n", 5),
        (409, "text/x.tlog.size; charset=utf-8", b"0\n", 0),
        (409, "text/plain", b"5\n", None),
        (200, "text/x.tlog.size", b"5\n", None),
        (409, "text/x.tlog.size", b"05\n", None),
        (409, "text/x.tlog.size", b"\xff", None),
        (409, "text/x.tlog.size", b"-1\n", None),
    ],
)
def test_sizes_in_answers(status: int, kind: str, body: bytes, size: int | None) -> None:
    assert size_in(status, kind, body) == size


def test_the_server_bounds_what_it_reads(journal: Journal, keys: SiteKeys, witness: Witness) -> None:
    fill(journal, 1)
    publish(journal, keys.log)
    good = request_for(journal, witness.key.public)[1].encode()
    with served(witness) as at:
        address = at.url.removeprefix("http://")

        def ask(method: str, path: str, body: bytes | None = None, **headers: str) -> tuple[int, bytes]:
            connection = http.client.HTTPConnection(address, timeout=30)
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            found = answer.status, answer.read()
            connection.close()
            return found

        assert ask("GET", "/" + "0" * 64 + "/checkpoint")[0] == 404
        assert ask("GET", "/")[0] == 404
        assert ask("PUT", "/add-checkpoint", b"x")[0] == 501
        assert ask("POST", "/add-checkpoint", b"x")[0] == 400
        assert ask("POST", "/elsewhere", good)[0] == 404
        assert ask("POST", "/add-checkpoint", b"", **{"Content-Length": str(MAX_REQUEST_BYTES + 1)})[0] == 413
        assert ask("POST", "/add-checkpoint", b"", **{"Content-Length": "-1"})[0] == 413
        assert ask("POST", "/add-checkpoint", good, **{"Transfer-Encoding": "chunked"})[0] == 413
        assert ask("POST", "/some/prefix/add-checkpoint", good)[0] == 200
        status, kept = ask("GET", f"/{next((witness.folder / 'logs').iterdir()).name}/checkpoint")
        assert (status, kept) == (200, (next((witness.folder / "logs").iterdir()) / "checkpoint").read_bytes())


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as caught:
        app([*arguments])
    return int(caught.value.code or 0)


def test_by_files_where_there_is_no_network(
    journal: Journal, keys: SiteKeys, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(journal, 3)
    publish(journal, keys.log)
    folder, path = str(tmp_path / "w"), str(journal.path)
    assert run("witness", "init", NAME, "--folder", folder) == 0
    key = capsys.readouterr().out.strip()
    assert run("witness", "trust", keys.log.public.encode(), "--folder", folder) == 0
    request, answer = str(tmp_path / "request"), tmp_path / "answer"
    assert run("journal", "request", key, "--journal", path, "-o", request) == 0
    assert decode(Path(request).read_bytes()).old == 0
    capsys.readouterr()
    assert run("witness", "cosign", request, "--folder", folder) == 0
    answer.write_text(capsys.readouterr().out)
    assert run("journal", "cosignature", key, str(answer), "--journal", path) == 0
    assert "cosigned 3 entries: kept" in capsys.readouterr().err
    assert run("witness", "cosign", request, "--folder", folder) == 1
    assert "the last checkpoint cosigned has 3 leaves" in capsys.readouterr().err
    assert run("witness", "show", "--folder", folder) == 0
    assert "weighbridge/demo: 3 entries, root " in capsys.readouterr().out
    answer.write_text(answer.read_text().replace("A", "B"))
    assert run("journal", "cosignature", key, str(answer), "--journal", path) == 1
    assert run("journal", "request", keys.log.public.encode(), "--journal", path) == 2
    with pytest.raises(EvidenceError):
        keep_cosignature(journal, 3, answer.read_text(), Witness(Path(folder)).key.public)
