from __future__ import annotations

import json
import stat
import subprocess
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

from controller.credentials import identity_of, load_ca, load_ca_certificate, load_credential
from controller.errors import OperatorError
from controller.pki import (
    CLOCK_SKEW,
    Identity,
    Role,
    check_name,
    create_ca,
    create_site_pki,
    issue_certificate,
    write_issued,
    write_new,
)
from controller.pki_cli import app
from controller.revoked import revoke, revoked_list
from dpu_agent.revocation import Revocations

NOW = datetime(2026, 5, 4, 12, 0, 0, tzinfo=timezone.utc)


@pytest.fixture
def pki(tmp_path: Path) -> Path:
    directory = tmp_path / "pki"
    create_site_pki(directory, site="demo", controller="ctl", agents={"node1-dpu0": "10.250.0.11", "n2.x": "fd00::2"})
    return directory


def openssl(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["openssl", *map(str, arguments)], capture_output=True, text=True, check=False, timeout=20)


def files(directory: Path) -> dict[str, bytes]:
    return {str(p.relative_to(directory)): p.read_bytes() for p in sorted(directory.rglob("*")) if p.is_file()}


def test_writes_the_files_of_a_site_with_private_keys_private(pki: Path) -> None:
    assert list(files(pki)) == [
        "agents/n2.x.key", "agents/n2.x.pem", "agents/node1-dpu0.key", "agents/node1-dpu0.pem",
        "ca.key", "ca.pem", "controller.key", "controller.pem",
    ]  # fmt: skip
    for path in pki.rglob("*.key"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    for path in pki.rglob("*.pem"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o644, path


def test_openssl_agrees_that_each_certificate_serves_its_purpose_and_no_other(pki: Path) -> None:
    def purpose(leaf: str, which: str) -> int:
        return openssl("verify", "-x509_strict", "-purpose", which, "-CAfile", pki / "ca.pem", pki / leaf).returncode

    assert purpose("agents/node1-dpu0.pem", "sslserver") == 0
    assert purpose("agents/node1-dpu0.pem", "sslclient") != 0
    assert purpose("controller.pem", "sslclient") == 0
    assert purpose("controller.pem", "sslserver") != 0
    address = openssl("verify", "-verify_ip", "10.250.0.11", "-CAfile", pki / "ca.pem", pki / "agents/node1-dpu0.pem")
    assert address.returncode == 0
    other = openssl("verify", "-verify_ip", "10.250.0.12", "-CAfile", pki / "ca.pem", pki / "agents/node1-dpu0.pem")
    assert other.returncode != 0


def test_openssl_refuses_a_certificate_signed_by_a_leaf(pki: Path, tmp_path: Path) -> None:
    agent = x509.load_pem_x509_certificate((pki / "agents/node1-dpu0.pem").read_bytes())
    key = serialization.load_pem_private_key((pki / "agents/node1-dpu0.key").read_bytes(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    forged = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "agent forged")]))
        .issuer_name(agent.subject)
        .public_key(key.public_key())
        .serial_number(5)
        .not_valid_before(agent.not_valid_before_utc)
        .not_valid_after(agent.not_valid_after_utc)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path / "forged.pem"
    path.write_bytes(forged.public_bytes(serialization.Encoding.PEM))
    verdict = openssl("verify", "-CAfile", pki / "ca.pem", "-untrusted", pki / "agents/node1-dpu0.pem", path)
    assert verdict.returncode != 0
    assert "invalid CA certificate" in verdict.stderr


def test_the_identity_is_in_the_uri(pki: Path) -> None:
    credential = load_credential(pki / "agents/node1-dpu0.pem", pki / "agents/node1-dpu0.key", pki / "ca.pem")
    assert credential.identity == Identity("demo", Role.AGENT, "node1-dpu0")
    assert credential.identity.uri == "weighbridge://demo/agent/node1-dpu0"
    assert credential.certificate_pem == (pki / "agents/node1-dpu0.pem").read_bytes()
    assert credential.key_pem == (pki / "agents/node1-dpu0.key").read_bytes()
    assert credential.ca_pem == (pki / "ca.pem").read_bytes()
    text = openssl("x509", "-in", pki / "controller.pem", "-noout", "-ext", "subjectAltName").stdout
    assert "URI:weighbridge://demo/controller/ctl" in text


def test_serial_numbers_and_keys_are_fresh_each_time() -> None:
    ca = create_ca("demo")
    issued = [issue_certificate(ca, Role.AGENT, "a", "127.0.0.1") for _ in range(20)]
    certificates = [x509.load_pem_x509_certificate(i.certificate_pem) for i in issued]
    assert len({c.serial_number for c in certificates}) == 20
    assert len({i.key_pem for i in issued}) == 20


def test_lifetime_counts_from_now_and_begins_a_little_earlier() -> None:
    ca = create_ca("demo", now=NOW)
    issued = issue_certificate(ca, Role.CONTROLLER, "c", None, timedelta(seconds=3), now=NOW)
    certificate = x509.load_pem_x509_certificate(issued.certificate_pem)
    assert certificate.not_valid_after_utc == NOW + timedelta(seconds=3) == issued.not_after
    assert certificate.not_valid_before_utc == NOW - CLOCK_SKEW


def test_no_certificate_outlives_its_authority() -> None:
    ca = create_ca("demo", lifetime=timedelta(days=5), now=NOW)
    issued = issue_certificate(ca, Role.CONTROLLER, "c", None, timedelta(days=90), now=NOW)
    assert issued.not_after == NOW + timedelta(days=5)
    with pytest.raises(OperatorError, match=r"pki init"):
        issue_certificate(ca, Role.CONTROLLER, "c", None, now=NOW + timedelta(days=6))


@pytest.mark.parametrize("name", ["", "../x", "a/b", "a b", "-a", ".a", "ä", "a" * 64, "a\n", "a%2f"])
def test_names_that_could_mean_something_else_are_refused(name: str) -> None:
    with pytest.raises(OperatorError, match="name"):
        issue_certificate(create_ca("demo"), Role.AGENT, name, "127.0.0.1")
    with pytest.raises(OperatorError, match="name"):
        create_ca(name)


@given(st.text(max_size=70))
def test_an_accepted_name_is_one_path_component_and_survives_the_uri(name: str) -> None:
    try:
        check_name("agent", name)
    except OperatorError:
        return
    assert Path("d", name).name == name
    assert name not in {".", ".."}
    assert Identity("s", Role.AGENT, name).uri.split("/")[2:] == ["s", "agent", name]
    assert name.isascii()


@pytest.mark.parametrize("ip", ["", "10.0.0.1:7443", "localhost", "10.0.0.256"])
def test_an_address_that_is_none_is_refused(ip: str) -> None:
    with pytest.raises(OperatorError, match="without port"):
        issue_certificate(create_ca("demo"), Role.AGENT, "a", ip)


def test_an_agent_without_an_address_is_refused() -> None:
    with pytest.raises(OperatorError, match="management IP address"):
        issue_certificate(create_ca("demo"), Role.AGENT, "a", None)


def test_nothing_is_overwritten_and_nothing_half_written(pki: Path) -> None:
    before = files(pki)
    with pytest.raises(OperatorError, match="already there"):
        create_site_pki(pki, site="demo", controller="ctl", agents={})
    assert files(pki) == before
    (pki / "ca.key").unlink()
    (pki / "ca.pem").unlink()
    before = files(pki)
    with pytest.raises(OperatorError, match=r"controller\.key"):
        create_site_pki(pki, site="demo", controller="ctl", agents={})
    assert files(pki) == before


def test_a_file_that_came_between_looking_and_writing_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "ca.key").write_text("somebody's")
    with pytest.raises(OperatorError, match="already there"):
        write_new(tmp_path / "ca.key", b"ours", 0o600)
    (tmp_path / "link").symlink_to(tmp_path / "target")
    with pytest.raises(OperatorError, match="already there"):
        write_new(tmp_path / "link", b"ours", 0o600)
    assert (tmp_path / "ca.key").read_text() == "somebody's"
    assert not (tmp_path / "target").exists()


def test_a_bad_agent_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(OperatorError, match="IP address"):
        create_site_pki(tmp_path / "pki", site="demo", controller="c", agents={"good": "10.0.0.1", "bad": "10.0.0"})
    assert not (tmp_path / "pki").exists()


def test_a_dangling_link_counts_as_there(pki: Path) -> None:
    (pki / "ca.pem").unlink()
    (pki / "ca.pem").symlink_to(pki / "nowhere")
    (pki / "ca.key").unlink()
    (pki / "controller.key").unlink()
    (pki / "controller.pem").unlink()
    with pytest.raises(OperatorError, match=r"ca\.pem: is already there"):
        create_site_pki(pki, site="demo", controller="ctl", agents={})


def load(pki: Path, now: datetime | None = None) -> None:
    load_credential(pki / "controller.pem", pki / "controller.key", pki / "ca.pem", now=now)


@pytest.mark.parametrize("file", ["controller.pem", "controller.key", "ca.pem"])
def test_a_missing_file_is_named_with_the_remedy(pki: Path, file: str) -> None:
    (pki / file).unlink()
    with pytest.raises(OperatorError) as raised:
        load(pki)
    assert str(pki / file) in str(raised.value)
    assert "weighbridge pki" in str(raised.value)


@pytest.mark.parametrize("file", ["controller.pem", "controller.key", "ca.pem"])
@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----"])
def test_a_file_that_is_something_else_is_named(pki: Path, file: str, content: bytes) -> None:
    (pki / file).write_bytes(content)
    with pytest.raises(OperatorError, match="is not a"):
        load(pki)


def test_a_directory_in_place_of_a_file_is_named(pki: Path) -> None:
    (pki / "controller.pem").unlink()
    (pki / "controller.pem").mkdir()
    with pytest.raises(OperatorError, match="cannot be read"):
        load(pki)


def test_expired_and_not_yet_valid_are_told_apart(pki: Path) -> None:
    today = datetime.now(timezone.utc)
    load(pki, now=today)
    with pytest.raises(OperatorError, match=r"controller\.pem: expired at .*pki issue --renew"):
        load(pki, now=today + timedelta(days=91))
    with pytest.raises(OperatorError, match=r"valid only from .*clock"):
        load(pki, now=today - timedelta(days=1))
    with pytest.raises(OperatorError, match=r"ca\.pem: expired"):
        load_ca_certificate(pki / "ca.pem", now=today + timedelta(days=3651))


def test_expiry_is_to_the_second(tmp_path: Path) -> None:
    ca = create_ca("demo", now=NOW)
    (tmp_path / "ca.pem").write_bytes(ca.certificate_pem)
    write_issued(
        tmp_path / "controller", issue_certificate(ca, Role.CONTROLLER, "c", None, timedelta(seconds=3), now=NOW)
    )
    load(tmp_path, now=NOW + timedelta(seconds=2))
    with pytest.raises(OperatorError, match="expired"):
        load(tmp_path, now=NOW + timedelta(seconds=3))


def test_a_key_of_another_certificate_is_refused(pki: Path) -> None:
    with pytest.raises(OperatorError, match=r"node1-dpu0\.key: is not the key of .*controller\.pem"):
        load_credential(pki / "controller.pem", pki / "agents/node1-dpu0.key", pki / "ca.pem")


def test_another_sites_authority_is_refused_even_with_the_same_name(pki: Path, tmp_path: Path) -> None:
    create_site_pki(tmp_path / "other", site="demo", controller="ctl", agents={})
    with pytest.raises(OperatorError, match=r"controller\.pem: was not signed by"):
        load_credential(pki / "controller.pem", pki / "controller.key", tmp_path / "other/ca.pem")


def test_a_leaf_is_no_authority(pki: Path) -> None:
    with pytest.raises(OperatorError, match="not an authority"):
        load_credential(pki / "controller.pem", pki / "controller.key", pki / "controller.pem")


def test_a_key_others_can_read_is_refused(pki: Path) -> None:
    (pki / "controller.key").chmod(0o640)
    with pytest.raises(OperatorError, match="chmod 600"):
        load(pki)


def test_keys_of_another_kind_or_under_a_password_are_refused(pki: Path) -> None:
    key = ed25519.Ed25519PrivateKey.generate()
    plain = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (pki / "controller.key").write_bytes(plain)
    with pytest.raises(OperatorError, match="not an ECDSA key"):
        load(pki)
    locked = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(b"x")
    )
    (pki / "controller.key").write_bytes(locked)
    with pytest.raises(OperatorError, match="unencrypted"):
        load(pki)


def leaf_with(names: list[x509.GeneralName] | None) -> x509.Certificate:
    ca = create_ca("demo", now=NOW)
    subject = ca.certificate.subject
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(ca.key.public_key())
        .serial_number(1)
        .not_valid_before(NOW)
        .not_valid_after(NOW + timedelta(days=1))
    )
    if names is not None:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(ca.key, hashes.SHA256())


@pytest.mark.parametrize(
    "uris",
    [
        [],
        ["https://demo/agent/a"],
        ["weighbridge://demo/root/a"],
        ["weighbridge://demo/agent"],
        ["weighbridge://demo/agent/a/b"],
        ["weighbridge://demo/agent/"],
        ["weighbridge://demo/agent/a", "weighbridge://demo/controller/a"],
    ],
)
def test_a_certificate_names_exactly_one_identity_of_ours(uris: list[str]) -> None:
    names: list[x509.GeneralName] = [x509.UniformResourceIdentifier(uri) for uri in uris]
    with pytest.raises(OperatorError, match="names no identity"):
        identity_of(leaf_with([*names, x509.DNSName("x")]), "x.pem")


def test_a_certificate_without_alternative_names_names_nobody() -> None:
    with pytest.raises(OperatorError, match=r"x\.pem: names no identity"):
        identity_of(leaf_with(None), "x.pem")


def test_load_ca_signs_what_openssl_accepts(pki: Path, tmp_path: Path) -> None:
    issued = issue_certificate(load_ca(pki), Role.AGENT, "late", "10.250.0.19")
    write_issued(tmp_path / "late", issued)
    assert openssl("verify", "-x509_strict", "-CAfile", pki / "ca.pem", tmp_path / "late.pem").returncode == 0


# The commands.

SITE = """\
version: 1
site: demo
controller: {journal: journal.db, ca: pki/ca.pem, certificate: pki/controller.pem, key: pki/controller.key}
pods: [{name: pod-a, nodes: [node1]}]
nodes:
  - name: node1
    dpus:
      - {name: a, agent: "10.0.0.1:7443", uplinks: [{name: p0, host_port: h0, line_rate: 1Gbit/s, mtu: 1500}]}
      - {name: b.c, agent: "[fd00::2]:7443", uplinks: [{name: p0, host_port: h0, line_rate: 1Gbit/s, mtu: 1500}]}
links:
  - {name: node1/p0, dpu: a, uplink: p0, switch: sw1, port: eth1}
  - {name: node1/p1, dpu: b.c, uplink: p0, switch: sw1, port: eth2}
switches:
  - name: sw1
    address: "127.0.0.1:161"
    snmp: {version: 2c, insecure: true, community_file: secret}
    refresh: 3.5s
    framing: l2_without_fcs
limits: [{scope: node, window: 10s, bytes: 10MB}]
"""


@pytest.fixture
def site_file(tmp_path: Path) -> str:
    (tmp_path / "site.yaml").write_text(SITE)
    return str(tmp_path / "site.yaml")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def shown(site_file: str) -> tuple[int, dict[str, dict[str, object]]]:
    result = run("show", "--site", site_file, "--json")
    return result.exit_code, {row["file"]: row for row in json.loads(result.stdout)}


def test_cli_makes_what_the_site_file_names(site_file: str, tmp_path: Path) -> None:
    made = run("init", "--site", site_file)
    assert (made.exit_code, made.stdout) == (0, "")
    code, rows = shown(site_file)
    assert code == 0
    assert list(rows) == ["ca.pem", "controller.pem", "agents/a.pem", "agents/b.c.pem"]
    assert rows["controller.pem"]["identity"] == "weighbridge://demo/controller/controller"
    assert rows["agents/b.c.pem"]["identity"] == "weighbridge://demo/agent/b.c"
    assert rows["agents/b.c.pem"]["addresses"] == ["fd00::2"]
    assert rows["agents/a.pem"]["days_left"] == 89
    table = CliRunner().invoke(app, ["show", "--site", site_file], env={"COLUMNS": "200"})
    assert "agents/b.c.pem" in table.stdout
    again = run("init", "--site", site_file)
    assert isinstance(again.exception, OperatorError)


def test_cli_show_lists_what_cannot_be_used_and_says_so_by_exit_code(site_file: str, tmp_path: Path) -> None:
    run("init", "--site", site_file)
    (tmp_path / "pki/agents/b.c.key").replace(tmp_path / "pki/agents/a.key")
    code, rows = shown(site_file)
    assert code == 2
    assert rows["controller.pem"]["problem"] == ""
    assert "is not the key of" in str(rows["agents/a.pem"]["problem"])
    assert "is not there" in str(rows["agents/b.c.pem"]["problem"])


def test_cli_issue_replaces_only_when_asked_and_only_what_was_named(site_file: str, tmp_path: Path) -> None:
    pki = tmp_path / "pki"
    run("init", "--site", site_file)
    before = files(pki)
    refused = run("issue", "a", "--site", site_file)
    assert isinstance(refused.exception, OperatorError)
    assert files(pki) == before
    assert run("issue", "a", "--renew", "--days", "7", "--site", site_file).exit_code == 0
    after = files(pki)
    assert {name for name in after if after[name] != before.get(name)} == {"agents/a.key", "agents/a.pem"}
    load_credential(pki / "agents/a.pem", pki / "agents/a.key", pki / "ca.pem")
    assert shown(site_file)[1]["agents/a.pem"]["days_left"] == 6
    assert run("issue", "--controller", "--renew", "--site", site_file).exit_code == 0
    load(pki)
    (pki / "agents/b.c.key").unlink()
    (pki / "agents/b.c.pem").unlink()
    assert run("issue", "b.c", "--site", site_file).exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "problem"), [(["issue"], "name agents"), (["issue", "a", "nobody"], "no agent called 'nobody'")]
)
def test_cli_issue_says_what_it_cannot(site_file: str, tmp_path: Path, arguments: list[str], problem: str) -> None:
    run("init", "--site", site_file)
    before = files(tmp_path / "pki")
    refused = run(*arguments, "--site", site_file, "--renew")
    assert isinstance(refused.exception, OperatorError)
    assert problem in str(refused.exception)
    assert files(tmp_path / "pki") == before


def test_cli_keeps_to_the_places_it_writes(site_file: str, tmp_path: Path) -> None:
    Path(site_file).write_text(SITE.replace("key: pki/controller.key", "key: pki/other.key"))
    refused = run("init", "--site", site_file)
    assert isinstance(refused.exception, OperatorError)
    assert "controller.key is" in str(refused.exception)
    assert not (tmp_path / "pki").exists()


def test_a_certificate_is_revoked_once_and_for_good(pki: Path) -> None:
    now = datetime(2026, 12, 1, tzinfo=timezone.utc)
    assert revoked_list(pki) == b""
    line = revoke(pki, pki / "controller.pem", now=now)
    found = x509.load_pem_x509_certificate((pki / "controller.pem").read_bytes())
    assert line.startswith(f"{found.fingerprint(hashes.SHA256()).hex()} serial {found.serial_number}, revoked 2026-12")
    revoke(pki, pki / "controller.pem", now=now)
    assert revoked_list(pki).decode() == f"{line}\n"
    # As agents read it.
    assert Revocations(pki / "revoked").current() == {line[:64]}
    (pki / "junk").write_text("none")
    for bad in ("junk", "none"):
        with pytest.raises(OperatorError):
            revoke(pki, pki / bad, now=now)
    assert revoked_list(pki).decode() == f"{line}\n"
