"""Bundles: a good one verifies, anything else is refused. Each check broken alone: tests/hil/test_mutations.py."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controller import bundle_steps
from controller.bundle import Extent, Head, read_head, write_bundle
from controller.bundle_entries import read_entries
from controller.bundle_make import issue, write
from controller.bundle_statement import report_of
from controller.bundle_steps import Step, StepError, Verified, verify_bytes
from controller.bundle_substance import differences
from controller.crosscheck.model import Period
from controller.errors import OperatorError
from controller.evidence import checkpoint as checkpoints
from controller.evidence import note as notes
from controller.evidence import statement as statements
from controller.evidence.checkpoint import cosign
from controller.evidence.envelope import open_envelope
from controller.evidence.note import KeyKind, NoteKey
from controller.evidence.policy import Policy, policy_of
from controller.evidence.refusal import VerificationError
from controller.evidence.tree import CompactRange, leaf_hash
from controller.journal import Journal, Kind, NewEntry
from controller.journal_export import export
from controller.journal_leaf import Leaf
from controller.journal_log import keep_cosignature, publish, stored
from controller.judgement import json_text, judge_period
from controller.logkeys import SiteKeys, make_site_keys
from controller.policyfile import load_policy
from hil.bench.mutations import FULL_ONLY
from protos.signing import SigningDomain, sign
from protos.v1 import frame_pb2
from protos.wire import FRAME_VERSION

SECOND = 1_000_000_000
NOW = 1_796_072_400 * SECOND
DEMO = Path(__file__).parent / "site_ok" / "demo.yaml"
WITNESS_KEY = Ed25519PrivateKey.from_private_bytes(b"\x02" * 32)
WITNESS = NoteKey("prover.example/witness", KeyKind.WITNESS, WITNESS_KEY.public_key().public_bytes_raw())
AGENT_KEY = Ed25519PrivateKey.from_private_bytes(b"\x07" * 32)
AGENT = AGENT_KEY.public_key().public_bytes_raw()
PERIOD = Period(NOW - 60 * SECOND, NOW)


@dataclass(frozen=True)
class Made:
    """A journal's reports as bundles, two of them, and the policy that fits."""

    folder: Path
    keys: SiteKeys
    policy: Policy
    full: bytes
    summary: bytes
    other: bytes


def signed_frame(sequence: int, key: Ed25519PrivateKey = AGENT_KEY) -> NewEntry:
    body = frame_pb2.Frame(version=FRAME_VERSION, agent="node1-dpu0", sequence=sequence).SerializeToString()
    signed = frame_pb2.SignedFrame(body=body, signature=sign(key, SigningDomain.FRAME, body)).SerializeToString()
    return NewEntry(Kind.FRAME, "node1-dpu0", NOW - 50 * SECOND, signed, {"received_ns": str(NOW)}, sequence)


def report(journal: Journal, keys: SiteKeys, path: Path, *, extent: Extent, period: Period = PERIOD) -> bytes:
    size = len(journal)
    parts = judge_period(journal, period)
    leaf = issue(journal, keys, parts, size=size, period=period, now_ns=NOW)
    newest = publish(journal, keys.log)
    line = cosign(newest.note, WITNESS.name, WITNESS_KEY, NOW // SECOND).encode()
    keep_cosignature(journal, newest.checkpoint.size, line, WITNESS)
    write(journal, keys, path, leaf=leaf, size=size, result=json_text(parts).encode(), extent=extent)
    return path.read_bytes()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("bundle")
    enrolment = {"agent": "node1-dpu0", "public_key": AGENT.hex(), "bundle_sha256": "", "agent_version": "0"}
    before = NOW - 900 * SECOND
    entries = [
        NewEntry(Kind.SITE, "demo", before, DEMO.read_bytes()),
        NewEntry(Kind.ENROLMENT, "node1-dpu0", before, json.dumps(enrolment).encode()),
        NewEntry(
            Kind.SCRAPE,
            "node1",
            before,
            b"node_boot_time_seconds 1\n",
            {"first_sent_ns": str(before), "received_ns": str(before)},
        ),
    ]
    with Journal.create(folder / "journal.db", *entries) as journal:
        keys = make_site_keys(journal.path, "demo")
        full = report(journal, keys, folder / "full", extent=Extent.FULL)
        summary = report(journal, keys, folder / "summary", extent=Extent.SUMMARY)
        other = report(journal, keys, folder / "other", extent=Extent.FULL, period=Period(NOW - 90 * SECOND, NOW))
    policy = Policy(keys.log.public, (keys.report_public,), 1, (WITNESS,), 1, {"node1-dpu0": (AGENT,)})
    return Made(folder, keys, policy, full, summary, other)


def quiet(step: Step, text: str) -> None:
    assert step in Step
    assert text


def check(raw: bytes, policy: Policy) -> Verified:
    return verify_bytes(raw, policy, quiet)


def parted(raw: bytes) -> tuple[Head, list[tuple[bytes, bytes]]]:
    file = io.BytesIO(raw)
    return read_head(file), [(leaf, body or b"") for leaf, body in read_entries(file)]


def joined(made: Made, head: Head, entries: list[tuple[bytes, bytes]]) -> bytes:
    write_bundle(made.folder / "joined", head, entries)
    return (made.folder / "joined").read_bytes()


def test_a_good_bundle_verifies_step_by_step(made: Made) -> None:
    steps: list[Step] = []
    found = verify_bytes(made.full, made.policy, lambda step, _: steps.append(step))
    assert steps == list(Step)
    assert found.recomputed
    assert found.report.verdict == "inconclusive"
    assert found.witness_times == {WITNESS.name: NOW // SECOND}
    steps.clear()
    assert not verify_bytes(made.summary, made.policy, lambda step, _: steps.append(step)).recomputed
    assert steps == [*list(Step)[:8], Step.AGREEMENT]


def test_proofs_swapped_between_two_good_reports(made: Made) -> None:
    (one, entries), (two, _) = parted(made.full), parted(made.other)
    # What two good bundles agree on may be swapped freely, of course.
    for name in ("envelope", "result", "checkpoint", "report", "inclusion", "evidence"):
        if getattr(one, name) == getattr(two, name):
            continue
        with pytest.raises(StepError):
            check(joined(made, replace(one, **{name: getattr(two, name)}), entries), made.policy)


def test_a_receipt_told_another_time_than_was_logged(made: Made, tmp_path: Path) -> None:
    # What the other side holds is a copy; from its rows alone it makes every leaf, and the tree that was cosigned.
    with Journal.open(made.folder / "journal.db", read_only=True) as journal:
        export(journal, tmp_path / "copy.db")
    head, entries = parted(made.full)
    signed = checkpoints.decode(notes.decode(head.checkpoint).text)
    with Journal.open(tmp_path / "copy.db", read_only=True) as copy:
        held = [
            Leaf(each.leaf, each.kind.value, each.source, each.sequence, each.recorded_ns, meta, each.body_sha256)
            for each, (meta,) in zip(copy.entries(), copy.rows("SELECT meta FROM entry ORDER BY leaf"), strict=True)
        ]
    leaves = [leaf.encode() for leaf in held]
    assert [data for data, _ in entries] == leaves[: len(entries)]
    assert head.report == leaves[len(entries)]
    tree = CompactRange()
    for data in leaves[: signed.size]:
        tree.append(leaf_hash(data))
    assert tree.root() == signed.root
    # A receipt that tells of the same entry a nanosecond earlier fits no tree that anybody signed.
    earlier = replace(held[len(entries)], recorded_ns=held[len(entries)].recorded_ns - 1).encode()
    with pytest.raises(StepError, match="step 7, report in log"):
        check(joined(made, replace(head, report=earlier), entries), made.policy)


@pytest.mark.parametrize("raw", [b"", b"x", b"weighbridge bundle v2 full\n", b"weighbridge bundle v1 full", b"\n" * 99])
def test_what_is_no_bundle(made: Made, raw: bytes) -> None:
    with pytest.raises(StepError, match="step 1, bundle"):
        check(raw, made.policy)


def test_a_bundle_cut_anywhere_or_longer(made: Made) -> None:
    for raw in (made.full, made.summary):
        for at in range(0, len(raw), max(1, len(raw) // 60)):
            with pytest.raises(StepError):
                check(raw[:at], made.policy)
        with pytest.raises(StepError):
            check(raw + b"x", made.policy)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(at=st.integers(0, 10**9), bit=st.integers(0, 7))
def test_any_flipped_bit_is_refused(made: Made, at: int, bit: int) -> None:
    raw = bytearray(made.summary)
    raw[at % len(raw)] ^= 1 << bit
    with pytest.raises(StepError):
        check(bytes(raw), made.policy)


@given(raw=st.binary(max_size=200))
def test_only_the_step_error_leaves(raw: bytes) -> None:
    key = NoteKey("log", KeyKind.LOG, AGENT)
    policy = Policy(key, (AGENT,), 1, (), 0, None)
    for start in (b"", b"weighbridge bundle v1 full\n", b"weighbridge bundle v1 full\nenvelope 2\n"):
        with pytest.raises(StepError):
            verify_bytes(start + raw, policy, quiet)


def test_a_section_longer_than_any_is_not_read(made: Made) -> None:
    raw = b"weighbridge bundle v1 full\nenvelope 9000000000\n" + b"x" * 100
    with pytest.raises(StepError, match="more than"):
        check(raw, made.policy)


def test_the_trust_root_does_not_come_from_the_bundle(made: Made) -> None:
    stranger = Ed25519PrivateKey.generate().public_key().public_bytes_raw()
    for policy, step in (
        (replace(made.policy, report_keys=(stranger,)), Step.SIGNATURES),
        (replace(made.policy, log=NoteKey("weighbridge/demo", KeyKind.LOG, stranger)), Step.CHECKPOINT),
        (replace(made.policy, witnesses=(NoteKey(WITNESS.name, KeyKind.WITNESS, stranger),)), Step.WITNESSES),
    ):
        with pytest.raises(StepError) as caught:
            check(made.full, policy)
        assert caught.value.step is step


def test_differences_name_the_place() -> None:
    assert differences({"a": [1, {"b": "x"}]}, {"a": [1, {"b": "y"}]}) == ['a[1].b: reported "x", computed "y"']
    assert differences({"a": 1}, {"a": 1}) == []
    assert len(differences(list(range(9)), [9] * 9)) == 5


def test_the_policy_file(made: Made, tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    text = (
        f'version = 1\n[log]\nkey = "{made.policy.log.encode()}"\n[report]\nthreshold = 1\n'
        f'keys = ["{made.keys.report_public.hex()}"]\n[witnesses]\nquorum = 1\nkeys = ["{WITNESS.encode()}"]\n'
        f'[agents]\nnode1-dpu0 = "{AGENT.hex()}"\n'
    )
    path.write_text(text)
    assert load_policy(path) == made.policy
    for bad in (text + "[log]\n", text.replace("version = 1", "version = 1\nversion = 1"), "\x00", text + "more = 1\n"):
        path.write_text(bad)
        with pytest.raises(OperatorError, match=r"policy\.toml"):
            load_policy(path)
    path.write_bytes(b"#" * 2**21)
    with pytest.raises(OperatorError, match="at most"):
        load_policy(path)
    with pytest.raises(OperatorError, match="cannot be read"):
        load_policy(tmp_path / "none")


def test_a_policy_names_both_parties_or_neither(made: Made) -> None:
    verifier, prover = (Ed25519PrivateKey.generate().public_key().public_bytes_raw() for _ in range(2))
    values = {
        "version": 1,
        "log": {"key": made.policy.log.encode()},
        "report": {"threshold": 1, "keys": [made.keys.report_public.hex()]},
        "witnesses": {"quorum": 0, "keys": []},
    }

    def parties(**keys: object) -> object:
        return policy_of({**values, "agreement": keys}).parties

    assert policy_of(values).parties is None
    assert parties(verifier=verifier.hex(), prover=prover.hex()) == {"verifier": (verifier,), "prover": (prover,)}
    several = parties(verifier=[verifier.hex(), AGENT.hex()], prover=prover.hex())
    assert several == {"verifier": (verifier, AGENT), "prover": (prover,)}
    both = {"verifier": verifier.hex(), "prover": prover.hex()}
    for wrong, says in (
        ({"verifier": verifier.hex()}, "does not name the verifier and the prover"),
        ({**both, "witness": AGENT.hex()}, "and no one else"),
        ({**both, "prover": verifier.hex()}, "the same key"),
        ({**both, "prover": made.keys.report_public.hex()}, "the same key"),
        ({**both, "prover": "00"}, r"agreement\.prover"),
    ):
        with pytest.raises(VerificationError, match=says):
            parties(**wrong)


def test_the_report_that_is_told_is_the_signed_one(made: Made) -> None:
    head, _ = parted(made.full)
    told = report_of(statements.decode(open_envelope(head.envelope, made.policy.report_keys, 1)))
    assert told.period == PERIOD
    assert told.entries == 3
    assert notes.decode(head.checkpoint).text == stored_text(made)
    assert bundle_steps.Step(11) is Step.RECOMPUTED


def stored_text(made: Made) -> str:
    with Journal.open(made.folder / "journal.db", read_only=True) as journal:
        return stored(journal, 4).note.text


REPORTS = Path(__file__).resolve().parents[1] / "vectors" / "reports"


@pytest.mark.parametrize("folder", sorted(REPORTS.iterdir()), ids=lambda path: path.name)
def test_kept_bundles_are_judged_the_same_for_ever(folder: Path) -> None:
    policy = load_policy(folder / "policy.toml")
    raw = (folder / "report.bundle").read_bytes()
    if not folder.name.endswith("_fail"):
        passed: list[Step] = []
        found = verify_bytes(raw, policy, lambda step, _: passed.append(step))
        # Whatever is improved: what was signed once follows from its evidence for ever (docs/adr/0098).
        assert passed == [step for step in Step if folder.name.startswith("full") or step not in FULL_ONLY]
        assert found.recomputed is folder.name.startswith("full")
        return
    why = (folder / "WHY").read_text(encoding="utf-8")
    with pytest.raises(StepError) as caught:
        verify_bytes(raw, policy, quiet)
    assert why.startswith(f"step {caught.value.step.value}: ")


def test_the_command_line_verifies(capsys: pytest.CaptureFixture[str]) -> None:
    from controller.cli import app  # noqa: PLC0415

    codes = []
    for name in ("summary", "step-06-no-cosignature_fail"):
        folder = REPORTS / name
        with pytest.raises(SystemExit) as caught:
            app(["verify", str(folder / "report.bundle"), "--policy", str(folder / "policy.toml")])
        codes.append(caught.value.code)
    out, err = capsys.readouterr()
    assert codes == [0, 1]
    assert " 8. evidence in log: the evidence is the first 4 entries of that tree\n" in out
    assert "prover.example/witness saw the log at 2026-11-30 21:00:00 UTC\n" in out
    assert "error: step 6, witnesses: 0 of the policy's witnesses cosigned" in err


def test_a_witness_that_names_an_impossible_time_cannot_stop_a_reader() -> None:
    from controller.cli_verify import _utc  # noqa: PLC0415

    assert _utc(NOW // SECOND) == "2026-11-30 21:00:00 UTC"
    assert _utc(253_402_300_799) == "9999-12-31 23:59:59 UTC"
    for time_s in (253_402_300_800, 2**63 - 1):
        assert "no time of ours" in _utc(time_s)
