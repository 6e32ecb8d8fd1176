"""Makes the bundles of one format version in ``tests/vectors/reports``; never again for one that was published.

python tests/vectors/make_reports.py

It adds what is not there and never overwrites.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import lzma
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from controller.bundle import Extent, read_head, write_bundle
from controller.bundle_entries import read_entries
from controller.bundle_make import issue, write
from controller.crosscheck.model import Period
from controller.evidence.checkpoint import cosign
from controller.evidence.note import KeyKind, NoteKey
from controller.journal import Journal, Kind, NewEntry
from controller.journal_log import keep_cosignature, publish
from controller.journal_prune import carry_out, decide, plan, refuse_if_needed
from controller.judgement import json_text, judge_period
from controller.logkeys import SiteKeys, make_site_keys
from hil.bench.forge_agreed import PARTY_KEYS, agreed
from protos.signing import SigningDomain, sign
from protos.v1 import frame_pb2

FOLDER = Path(__file__).with_name("reports")
SITE = Path(__file__).parents[1] / "controller" / "site_ok" / "demo.yaml"
SECOND = 1_000_000_000
NOW = 1_796_072_400 * SECOND
HOUR = 3600 * SECOND
AGENT = "node1-dpu0"
AGENT_KEY, WITNESS_KEY = (Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32) for number in (7, 2))
WITNESS = NoteKey("prover.example/witness", KeyKind.WITNESS, WITNESS_KEY.public_key().public_bytes_raw())
PERIOD = Period(NOW - 60 * SECOND, NOW)


def entries(step_s: int = 600) -> list[NewEntry]:
    """Return a site file, an agent with a chain of frames, and scrapes over three hours."""
    begin, key = NOW - 3 * HOUR, AGENT_KEY.public_key().public_bytes_raw().hex()
    enrolment = {"agent": AGENT, "public_key": key, "bundle_sha256": "", "agent_version": "0"}
    found = [
        NewEntry(Kind.SITE, "demo", begin, SITE.read_bytes()),
        NewEntry(Kind.ENROLMENT, AGENT, begin, json.dumps(enrolment).encode()),
    ]
    previous = b""
    for number, at_ns in enumerate(range(begin, NOW, step_s * SECOND), 1):
        # Version 1: reports of long ago must be readable.
        frame = frame_pb2.Frame(version=1, agent=AGENT, sequence=number, previous_sha256=previous)
        body = frame.SerializeToString()
        signed = frame_pb2.SignedFrame(body=body, signature=sign(AGENT_KEY, SigningDomain.FRAME, body))
        previous = hashlib.sha256(body).digest()
        meta = {"first_sent_ns": str(at_ns), "received_ns": str(at_ns)}
        text = b"node_boot_time_seconds 1\n# %d\n" % number
        found.append(
            NewEntry(Kind.FRAME, AGENT, at_ns, signed.SerializeToString(), {"received_ns": str(at_ns)}, number)
        )
        found.append(NewEntry(Kind.SCRAPE, "node1", at_ns + 1, text, meta))
    return found


def as_it_is(text: str) -> str:
    """Return the result that the journal gives."""
    return text


def report(
    journal: Journal,
    keys: SiteKeys,
    folder: Path,
    *,
    retell: Callable[[str], str] = as_it_is,
    extent: Extent = Extent.FULL,
    parties: bool = False,
) -> None:
    """Write a bundle of the journal and its policy to ``folder``; ``parties``: the policy names those of agreements."""
    size = len(journal)
    parts = judge_period(journal, PERIOD)
    text = retell(json_text(parts))
    leaf = issue(journal, keys, parts, size=size, period=PERIOD, now_ns=NOW, result=text.encode())
    newest = publish(journal, keys.log)
    line = cosign(newest.note, WITNESS.name, WITNESS_KEY, NOW // SECOND).encode()
    keep_cosignature(journal, newest.checkpoint.size, line, WITNESS)
    folder.mkdir()
    path = folder / "report.bundle"
    write(journal, keys, path, leaf=leaf, size=size, result=text.encode(), extent=extent)
    named = "".join(
        f'{party.value} = "{key.public_key().public_bytes_raw().hex()}"\n' for party, key in PARTY_KEYS.items()
    )
    (folder / "policy.toml").write_text(
        f'version = 1\n\n[log]\nkey = "{keys.log.public.encode()}"\n\n[report]\nthreshold = 1\n'
        f'keys = ["{keys.report_public.hex()}"]\n\n[witnesses]\nquorum = 1\nkeys = ["{WITNESS.encode()}"]\n\n'
        f'[agents]\n{AGENT} = "{AGENT_KEY.public_key().public_bytes_raw().hex()}"\n'
        + (f"\n[agreement]\n{named}" if parties else ""),
        encoding="utf-8",
    )


def better(text: str) -> str:
    """Return the result with a number of bytes that could be hidden which flatters."""
    value = json.loads(text)
    for link in value["links"]:
        link["hidden_bytes_bound"] = "0"
    return json.dumps(value, indent=2) + "\n"


def main() -> None:
    """Write what is not there."""
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        if not (FOLDER / "full-frames").exists():
            with Journal.create(scratch / "frames.db", *entries()) as journal:
                report(journal, make_site_keys(journal.path, "demo"), FOLDER / "full-frames")
        if not (FOLDER / "full-pruned").exists():
            with Journal.create(scratch / "pruned.db", *entries()) as journal:
                keys = make_site_keys(journal.path, "demo")
                whole = Period(NOW - 3 * HOUR, NOW - HOUR)
                first = judge_period(journal, whole)
                leaf = issue(journal, keys, first, size=len(journal), period=whole, now_ns=NOW)
                what = plan(journal, NOW - HOUR)
                refuse_if_needed(journal, what, [leaf])
                decide(journal, "demo", what, [leaf], now_ns=NOW)
                carry_out(journal)
                report(journal, keys, FOLDER / "full-pruned")
        if not (FOLDER / "step-11-a-flattering-bound_fail").exists():
            with Journal.create(scratch / "lie.db", *entries()) as journal:
                folder = FOLDER / "step-11-a-flattering-bound_fail"
                report(journal, make_site_keys(journal.path, "demo"), folder, retell=better)
                why = "step 11: the report claims that nothing could be hidden; its evidence does not give that\n"
                (folder / "WHY").write_text(why, encoding="utf-8")
        folder = FOLDER / "step-09-a-body-dropped-without-a-decision_fail"
        if not folder.exists():
            folder.mkdir()
            good = FOLDER / "full-frames"
            (folder / "policy.toml").write_bytes((good / "policy.toml").read_bytes())
            file = io.BytesIO((good / "report.bundle").read_bytes())
            head, kept = replace(read_head(file), version=1), list(read_entries(file))
            spoilt = [(leaf, None if number == 3 else body) for number, (leaf, body) in enumerate(kept)]
            write_bundle(folder / "report.bundle", head, spoilt)
            why = "step 9: a scrape's body is left out, and no entry decides that it was dropped\n"
            (folder / "WHY").write_text(why, encoding="utf-8")
        _packed(scratch)
        _agreed(scratch)


def _packed(scratch: Path) -> None:
    """Write what version 2 has of its own: chunks, and bodies that are left out."""
    good = FOLDER / "full-packed"
    if not good.exists():
        with Journal.create(scratch / "packed.db", *entries(120)) as journal:
            report(journal, make_site_keys(journal.path, "demo"), good)
    file = io.BytesIO((good / "report.bundle").read_bytes())
    head, kept = read_head(file), list(read_entries(file))
    needed = next(number for number, (_, body) in enumerate(kept) if number > 1 and body is not None)
    without = [(leaf, None if number == needed else body) for number, (leaf, body) in enumerate(kept)]
    begin = (good / "report.bundle").read_bytes().split(b"chunk ")[0]
    bomb = lzma.compress(b"leaf 1\nx\nbody 60000000\n" + bytes(60_000_000) + b"\n")
    write_bundle(scratch / "without", head, without)
    for name, raw, why in (
        (
            "step-09-a-body-that-the-period-needs-left-out_fail",
            (scratch / "without").read_bytes(),
            "step 9: a body is left out that is one of the last thirty of its kind before the period\n",
        ),
        (
            "step-09-a-chunk-that-unpacks-to-too-much_fail",
            begin + b"chunk %d\n%s\n" % (len(bomb), bomb),
            "step 9: a chunk of nine kilobytes unpacks to sixty megabytes\n",
        ),
    ):
        if not (FOLDER / name).exists():
            (FOLDER / name).mkdir()
            (FOLDER / name / "policy.toml").write_bytes((good / "policy.toml").read_bytes())
            (FOLDER / name / "report.bundle").write_bytes(raw)
            (FOLDER / name / "WHY").write_text(why, encoding="utf-8")


def _agreed(scratch: Path) -> None:
    """Write bundles of a journal with an agreement, and with what is given under it."""

    def laxer(text: str) -> str:
        value = json.loads(text)
        signed = json.loads(value["agreements"][0]["signed"])
        document = base64.b64decode(signed["document_base64"]).replace(b"300MB", b"300GB")
        signed["document_base64"] = base64.b64encode(document).decode()
        value["agreements"][0].update(signed=json.dumps(signed), sha256=hashlib.sha256(document).hexdigest())
        return json.dumps(value, indent=2) + "\n"

    recorded = entries()
    given = [*recorded, *agreed("demo", AGENT, recorded[-1].recorded_ns)]
    forged = [*recorded, *agreed("demo", AGENT, recorded[-1].recorded_ns, lease=AGENT_KEY)]
    for name, what, extent, retell, why in (
        ("full-agreement", given, Extent.FULL, as_it_is, ""),
        ("summary-agreement", given, Extent.SUMMARY, as_it_is, ""),
        (
            "step-10-a-lease-that-the-verifier-did-not-sign_fail",
            forged,
            Extent.FULL,
            as_it_is,
            "step 10: a lease in the journal is signed by an agent's key\n",
        ),
        (
            "step-12-a-laxer-agreement-than-was-signed_fail",
            given,
            Extent.SUMMARY,
            laxer,
            "step 12: the agreement allows a thousand times what both parties signed\n",
        ),
    ):
        if (FOLDER / name).exists():
            continue
        with Journal.create(scratch / f"{name}.db", *what) as journal:
            keys = make_site_keys(journal.path, "demo")
            report(journal, keys, FOLDER / name, retell=retell, extent=extent, parties=True)
        if why:
            (FOLDER / name / "WHY").write_text(why, encoding="utf-8")


if __name__ == "__main__":
    main()
