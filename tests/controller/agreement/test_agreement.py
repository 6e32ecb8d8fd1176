"""Agreements: what they say, what cannot be meant, and that both parties signed the same bytes."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from controller.agreement.arithmetic import bounds_on, contradictions, depth_on, explained, merged, strictest
from controller.agreement.document import parse
from controller.agreement.envelope import Party, SignedAgreement, check, decode, unsigned
from controller.agreement.inforce import accept, check_fits, in_force, parties_in_force
from controller.cli import app
from controller.errors import EvidenceError, OperatorError
from controller.journal import Journal
from controller.site import load
from controller.timeline import Timeline
from protos.buckets import TrafficClass
from protos.lease import Bound
from protos.reading import Direction

VERIFIER, PROVER = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
KEYS = {
    Party.VERIFIER: VERIFIER.public_key().public_bytes_raw(),
    Party.PROVER: PROVER.public_key().public_bytes_raw(),
}
LIMIT = """
[[limits]]
of = "node"
names = ["*"]
class = "other-pod"
direction = "both"
depth = "64kB"
bounds = [{window = "300s", bytes = "300MB"}, {window = "1h", bytes = "2GB"}]
"""
LOADS = """
[loads]
classes = ["storage"]
sources = ["198.51.100.0/24"]
most = "300GB"
longest = "30m"
per_day = 2
reverse = "10000ppm"
both_sign = true
"""
NOW_NS = 1_796_072_400 * 10**9
SITE_FILES = Path(__file__).parents[1] / "site_ok"


def document(*parts: str, number: int = 1, site: str = "demo") -> bytes:
    head = f"""
version = 1
site = "{site}"
number = {number}
valid_from = 2020-01-01T00:00:00Z
valid_to = 2120-01-01T00:00:00Z
longest_lease = "60s"
"""
    return "".join([head, *(parts or (LIMIT, LOADS))]).encode()


def signed_by_both(content: bytes) -> SignedAgreement:
    return unsigned(content, "a").signed(Party.VERIFIER, VERIFIER).signed(Party.PROVER, PROVER)


def test_a_document_is_read() -> None:
    said = parse(document(), "agreement.toml")
    assert (said.site, said.number, said.longest_lease_ns) == ("demo", 1, 60 * 10**9)
    assert said.valid_from_ns == 1_577_836_800 * 10**9
    limit = said.limits[0]
    assert limit.bounds == (Bound(300 * 10**9, 300_000_000), Bound(3_600 * 10**9, 2_000_000_000))
    assert limit.directions == frozenset(Direction)
    assert said.loads is not None
    assert (said.loads.most_bytes, said.loads.reverse_ppm, said.loads.both_sign) == (300 * 10**9, 10_000, True)
    assert contradictions(said) == []


def test_the_stricter_limit_is_named_with_its_rate() -> None:
    said = explained(parse(document(), "a").limits[0])
    assert said.startswith("2.00 GB in any 1 h (556 kB/s) is stricter for what lasts than 300 MB in any 5 min (1.00 MB")
    assert "a lease can have 556 kB/s with a depth of 64.0 kB" in said


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("2GB", "200MB", "300 MB in any 5 min .* can never be reached under 200 MB in any 1 h"),
        ('window = "1h"', 'window = "300s"', "one window with two sizes"),
        ("64kB", "300MB", "leaves no rate"),
        ("2120-", "2019-", "valid_to is not after"),
        ("10000ppm", "1000000ppm", "as many bytes back"),
        ("[loads]", LIMIT.replace("64kB", "32kB") + "[loads]", "two depths"),
        ("[loads]", LIMIT.replace("2GB", "3GB") + "[loads]", "one window with two sizes"),
    ],
)
def test_contradictions_are_found(old: str, new: str, says: str) -> None:
    found = contradictions(parse(document().decode().replace(old, new, 1).encode(), "a"))
    assert found
    assert re.search(says, " ".join(found))


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("version = 1", "version = 2", "version"),
        ('site = "demo"', 'site = ""', "site: '' is not a text"),
        ("number = 1", 'number = "1"', "number: '1' is not a number"),
        ("number = 1", "number = true", "is not a number"),
        ("2020-01-01T00:00:00Z", "2020-01-01", "is not a time with its zone"),
        ("2020-01-01T00:00:00Z", "2020-01-01T00:00:00", "is not a time with its zone"),
        ('"60s"', '"60"', "longest_lease"),
        ("300MB", "300Mb", "ambiguous"),
        ("300MB", "0B", "must be more than zero"),
        ('"other-pod"', '"management"', "is unknown"),
        ('of = "node"', 'of = "pair"', None),  # a pair of everyone with everyone
        ('names = ["*"]', "names = []", "is not a list of texts"),
        ('names = ["*"]', 'names = ["a b"]', "name one thing"),
        ("bounds = [{", "limit = 1\nbounds = [{", "is not a key"),
        ("198.51.100.0/24", "198.51.100.1/24", "is no prefix"),
        ("10000ppm", "1%", "parts per million"),
        ("both_sign = true", "both_sign = 1", "neither true nor false"),
        ("[loads]", "[[loads]]", "is not a table"),
        ("[[limits]]", "[limits", "is not TOML"),
        ("number = 1", f"number = {'9' * 5_000}", "is not TOML: Exceeds the limit"),
    ],
)
def test_what_is_no_agreement_is_refused_with_its_place(old: str, new: str, says: str | None) -> None:
    content = document().decode().replace(old, new, 1).encode()
    if says is None:
        assert parse(content, "a.toml").number == 1
        return
    with pytest.raises(OperatorError, match=says) as refused:
        parse(content, "a.toml")
    assert str(refused.value).startswith("a.toml: ")


@given(st.binary(max_size=200))
def test_nothing_but_an_agreement_or_its_error_comes_out(content: bytes) -> None:
    for read in (lambda: parse(content, "a"), lambda: decode(content, "a")):
        with pytest.raises(OperatorError):
            read()


BOUNDS = st.lists(st.builds(Bound, st.integers(1, 10**13), st.integers(1, 10**12)), min_size=1, max_size=6)


@given(BOUNDS)
def test_a_set_of_bounds_and_its_merged_form_forbid_the_same(bounds: list[Bound]) -> None:
    one_each = merged(bounds)
    assert len({bound.window_ns for bound in one_each}) == len(one_each)
    for bound in bounds:
        assert any(each.window_ns == bound.window_ns and each.bytes <= bound.bytes for each in one_each)
    assert set(one_each) <= set(bounds)
    rules = strictest(one_each)
    assert all(rules.bytes * each.window_ns <= each.bytes * rules.window_ns for each in one_each)


def test_bounds_on_a_node_come_from_its_pod_its_pairs_and_itself() -> None:
    pod = LIMIT.replace('of = "node"', 'of = "pod"').replace('["*"]', '["pod-a"]').replace("300MB", "200MB")
    pair = LIMIT.replace('of = "node"', 'of = "pair"').replace('["*"]', '["node1 node3"]').replace("2GB", "1GB")
    said = parse(document(LIMIT, pod, pair), "a")
    of = {"pod": "pod-a", "traffic_class": TrafficClass.OTHER_POD, "direction": Direction.EGRESS}
    assert bounds_on(said, node="node1", **of) == (Bound(300 * 10**9, 200_000_000), Bound(3_600 * 10**9, 10**9))  # type: ignore[arg-type]
    assert bounds_on(said, node="node2", **of)[1].bytes == 2 * 10**9  # type: ignore[arg-type]
    assert bounds_on(said, node="node2", **(of | {"traffic_class": TrafficClass.STORAGE})) == ()  # type: ignore[arg-type]
    assert depth_on(said, node="node1", **of) == 64_000  # type: ignore[arg-type]


def test_both_sign_the_same_bytes() -> None:
    signed = decode(signed_by_both(document()).encode(), "a")
    assert signed.document == document()
    check(signed, KEYS)


def test_signatures_that_are_not_both_parties_over_this_document_are_refused() -> None:
    only_one = unsigned(document(), "a").signed(Party.VERIFIER, VERIFIER)
    one_for_both = only_one.signed(Party.PROVER, VERIFIER)
    swapped = unsigned(document(), "a").signed(Party.VERIFIER, PROVER).signed(Party.PROVER, VERIFIER)
    values = json.loads(signed_by_both(document()).encode())
    values["document_base64"] = base64.b64encode(document().replace(b"2GB", b"9GB")).decode()
    changed = decode(json.dumps(values).encode(), "a")
    for wrong, says in (
        (only_one, "the prover has not signed"),
        (one_for_both, "the prover's signature is not by its key"),
        (swapped, "signature is not by its key"),
        (changed, "over this document"),
    ):
        with pytest.raises(EvidenceError, match=says):
            check(wrong, KEYS)
    with pytest.raises(EvidenceError, match="the same key"):
        check(one_for_both, dict.fromkeys(Party, KEYS[Party.VERIFIER]))


@given(st.data())
def test_a_changed_byte_of_the_file_never_changes_what_was_signed(data: st.DataObject) -> None:
    good = bytearray(signed_by_both(document()).encode())
    place = data.draw(st.integers(0, len(good) - 1))
    good[place] ^= data.draw(st.integers(1, 255))
    try:
        signed = decode(bytes(good), "a")
        check(signed, KEYS)
    except (OperatorError, EvidenceError):
        return
    assert signed.document == document()


@pytest.fixture
def site_file(tmp_path: Path) -> Path:
    path = tmp_path / "site.yaml"
    content = next(iter(sorted(SITE_FILES.glob("*.yaml")))).read_text(encoding="utf-8")
    path.write_text(content, encoding="utf-8")
    return path


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    _, anchor = Timeline.first()
    return Journal.create(tmp_path / "journal.db", anchor)


def test_a_change_needs_both_and_a_higher_number(site_file: Path, journal: Journal) -> None:
    site = load(site_file, secrets=False)
    assert in_force(journal, site.name) is None
    first = signed_by_both(document(LIMIT, site=site.name))
    accept(journal, site, first, KEYS, now_ns=1, wall_ns=NOW_NS)
    found = in_force(journal, site.name)
    assert found is not None
    assert (found.document, parties_in_force(journal, site.name)) == (first.document, KEYS)
    other_prover = Ed25519PrivateKey.generate()
    second = unsigned(document(LIMIT, site=site.name, number=2), "b").signed(Party.VERIFIER, VERIFIER)
    refused: list[tuple[SignedAgreement, dict[Party, bytes], type[Exception], str]] = [
        (first, KEYS, OperatorError, "in force already"),
        (second, KEYS, EvidenceError, "the prover has not signed"),
        (
            signed_by_both(document(LIMIT.replace("2GB", "3GB"), site=site.name)),
            KEYS,
            OperatorError,
            "A change has a higher number",
        ),
        (
            second.signed(Party.PROVER, other_prover),
            KEYS | {Party.PROVER: other_prover.public_key().public_bytes_raw()},
            EvidenceError,
            "Another prover is another site",
        ),
        (
            signed_by_both(document(LIMIT, site=site.name, number=2).replace(b"2020-01-01", b"2100-01-01")),
            KEYS,
            OperatorError,
            "begins in the future, and agreement 1 would end now",
        ),
    ]
    for wrong, keys, kind, says in refused:
        with pytest.raises(kind, match=says):
            accept(journal, site, wrong, keys, now_ns=2, wall_ns=NOW_NS)
    accept(journal, site, second.signed(Party.PROVER, PROVER), KEYS, now_ns=3, wall_ns=NOW_NS)
    found = in_force(journal, site.name)
    assert found is not None
    assert found.agreement.number == 2


def test_what_does_not_fit_the_site_is_refused(site_file: Path, journal: Journal) -> None:
    site = load(site_file, secrets=False)
    with pytest.raises(OperatorError, match="is of site 'elsewhere'"):
        check_fits(unsigned(document(site="elsewhere"), "a"), site)
    with pytest.raises(OperatorError, match="the site has no node 'nobody'"):
        check_fits(unsigned(document(LIMIT.replace('"*"', '"nobody"'), site=site.name), "a"), site)
    with pytest.raises(OperatorError, match="valid_to is past"):
        accept(journal, site, signed_by_both(document(LIMIT, site=site.name)), KEYS, now_ns=1, wall_ns=2**63)


def test_the_way_from_a_proposal_to_an_agreement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    runner = CliRunner()

    def run(*arguments: str, code: int = 0) -> str:
        result = runner.invoke(app, ["agreement", *arguments])
        assert result.exit_code == code, result.output
        return result.output

    for party in ("verifier", "prover"):
        run("key", party)
    Path("a.toml").write_bytes(document())
    run("propose", "a.toml", "-o", "a.agreement", "--key", "verifier")
    keys = ("--prover-key", "prover.pub", "--verifier-key", "verifier.pub")
    run("verify", "a.agreement", *keys, code=1)
    run("sign", "a.agreement", code=2)  # the prover's key is not the site's to have
    said = run("sign", "a.agreement", "--key", "prover")
    assert "2.00 GB in any 1 h (556 kB/s) is stricter" in said
    run("verify", "a.agreement", *keys)
    run("verify", "a.agreement", "--prover-key", "verifier.pub", "--verifier-key", "verifier.pub", code=1)
    shown = json.loads(run("show", "a.agreement", "--json"))
    assert shown["limits"][0]["greatest_rate_bytes_per_s"] == "555537"
    assert shown["signed_by"] == ["prover", "verifier"]
    Path("b.toml").write_bytes(document(LIMIT.replace("2GB", "200MB")))
    assert "can never be reached" in run("propose", "b.toml", "-o", "b.agreement", "--key", "verifier", code=2)
    assert not Path("b.agreement").exists()
