"""Go's ``sumdb/note`` and ``tlog`` read our log, and we read theirs (Debian: golang-go, golang-golang-x-mod-dev)."""

from __future__ import annotations

import base64
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from controller.evidence import checkpoint as checkpoints
from controller.evidence.checkpoint import Checkpoint, cosign, open_checkpoint
from controller.evidence.note import KeyKind, Note, NoteKey, decode_key
from controller.evidence.tree import check_consistency, check_inclusion, leaf_hash
from controller.treeproof import prove_consistency, prove_inclusion, subtree_of

SOURCE = Path(__file__).with_name("interop") / "main.go"
SIZES = (1, 2, 3, 7, 8, 9, 64, 101)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("go")
    environment = {**os.environ, "GO111MODULE": "off", "GOPATH": "/usr/share/gocode", "GOCACHE": str(folder / "cache")}
    built = folder / "interop"
    command = ["go", "build", "-o", str(built), str(SOURCE)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return built


def run(program: Path, mode: str, value: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run([program, mode], input=json.dumps(value), capture_output=True, text=True, check=False)


def encoded(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def proof(index: int, hashed: bytes, path: list[bytes]) -> dict[str, Any]:
    return {"index": index, "hash": encoded(hashed), "path": [encoded(each) for each in path]}


def our_log(size: int, *, root: bytes | None = None) -> dict[str, Any]:
    key, witness = (Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32) for number in (1, 2))
    data = [b"leaf %d" % number for number in range(size)]
    hashes = [leaf_hash(each) for each in data]
    subtree = subtree_of(hashes)
    origin = "weighbridge/demo"
    note = checkpoints.sign(Checkpoint(origin, size, root or subtree(0, size)), key)
    note = Note(note.text, (*note.signatures, cosign(note, "prover.example/witness", witness, 1_700_000_000)))
    return {
        "key": NoteKey(origin, KeyKind.LOG, key.public_key().public_bytes_raw()).encode(),
        "note": encoded(note.encode()),
        "leaves": [encoded(each) for each in data],
        "inclusion": [proof(n, hashes[n], prove_inclusion(n, size, subtree)) for n in range(size)],
        "consistency": [proof(n, subtree(0, n), prove_consistency(n, size, subtree)) for n in range(1, size + 1)],
    }


@pytest.mark.parametrize("size", SIZES)
def test_go_accepts_our_checkpoints_and_proofs(program: Path, size: int) -> None:
    done = run(program, "check", our_log(size))
    assert (done.returncode, done.stdout) == (0, f"{size} {size}\n"), done.stderr


def test_go_refuses_what_we_spoil(program: Path) -> None:
    for part in ("inclusion", "consistency"):
        log = our_log(9)
        log[part][3]["path"][0] = encoded(bytes(32))
        assert run(program, "check", log).returncode == 1
    assert run(program, "check", our_log(9, root=bytes(32))).returncode == 1
    log = our_log(9)
    log["note"] = encoded(base64.b64decode(log["note"]).replace(b"\n9\n", b"\n8\n"))
    assert run(program, "check", log).returncode == 1


@pytest.mark.parametrize("size", SIZES)
def test_we_accept_gos_checkpoints_and_proofs(program: Path, size: int) -> None:
    data = [b"go leaf %d" % number for number in range(size)]
    done = run(program, "make", {"leaves": [encoded(each) for each in data]})
    assert done.returncode == 0, done.stderr
    log = json.loads(done.stdout)
    checkpoint, _ = open_checkpoint(base64.b64decode(log["note"]), decode_key(log["key"]))
    assert checkpoint.size == size
    for item, leaf in zip(log["inclusion"], data, strict=True):
        assert base64.b64decode(item["hash"]) == leaf_hash(leaf)
        path = [base64.b64decode(each) for each in item["path"] or []]
        check_inclusion(item["index"], size, leaf_hash(leaf), path, checkpoint.root)
    for item in log["consistency"]:
        path = [base64.b64decode(each) for each in item["path"] or []]
        check_consistency(item["index"], size, path, base64.b64decode(item["hash"]), checkpoint.root)
