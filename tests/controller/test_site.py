"""The site file: what a right one means, and that every wrong one is refused with file, line and remedy."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller import site_values
from controller.crosscheck.model import Assumptions as CrossCheckAssumptions
from controller.crosscheck.model import Limit
from controller.errors import OperatorError, SiteFileError
from controller.site import (
    AgentSettings,
    Bond,
    Endpoint,
    OtherPort,
    Site,
    Snmp2c,
    Snmp3,
    VirtualFunction,
    did_you_mean,
    load,
    loads,
)
from controller.site_secrets import read_secret
from controller.site_yaml import SeveralSiteFileErrors, parse
from protos.reading import Framing

HERE = Path(__file__).parent
DEMO = HERE / "site_ok" / "demo.yaml"
FAILING = sorted((HERE / "site_fail").glob("*.yaml"))


@pytest.fixture
def demo() -> Site:
    return load(DEMO, secrets=False)


@pytest.fixture
def rich() -> Site:
    return load(HERE / "site_ok" / "rich.yaml", secrets=False)


# ---------------------------------------------------------------- what a right one means


def test_the_demo(demo: Site) -> None:
    assert demo.name == "demo"
    assert demo.content == DEMO.read_bytes()
    assert [dpu.name for dpu in demo.agents()] == ["node1-dpu0", "node2-dpu0", "node3-dpu0", "node4-dpu0"]
    link = demo.link("node3/p0")
    assert (link.node, link.pod, link.dpu, link.switch, link.port) == ("node3", "pod-b", "node3-dpu0", "sw1", "eth3")
    assert link.uplink.line_rate_bytes_per_s == 1_250_000_000
    assert link.uplink.host_interfaces == ("eth0",)
    assert demo.limits == (Limit(10_000_000_000, 10_000_000),)
    assert demo.declared_ports("sw1") == {"eth1", "eth2", "eth3", "eth4", "eth5"}
    assert demo.switch("sw1").other_ports == (OtherPort("eth5", "front-end"),)
    assert demo.switch("sw1").refresh_ns == 3_500_000_000
    assert demo.switch("sw1").framing is Framing.L2_WITHOUT_FCS
    assert demo.node("node1").exporter == "http://10.250.0.31:9100/metrics"
    ssh = demo.agent("node1-dpu0").ssh
    assert ssh is not None
    assert ssh.address == Endpoint("10.250.0.11", 22)
    assert demo.agent("node2-dpu0").ssh is None


def test_paths_are_relative_to_the_site_file(demo: Site, rich: Site) -> None:
    folder = HERE / "site_ok"
    assert demo.controller.journal == folder / "journal.db"
    assert demo.controller.key == folder / "pki" / "controller.key"
    snmp = demo.switch("sw1").snmp
    assert isinstance(snmp, Snmp3)
    assert snmp.auth_key_file == folder / "secrets" / "sw1.auth"
    assert rich.controller.journal == Path("/var/lib/weighbridge/journal.db")


def test_a_relative_path_to_the_site_file_still_gives_absolute_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(HERE)
    assert load("site_ok/demo.yaml", secrets=False).controller.journal == HERE / "site_ok" / "journal.db"


def test_the_demos_assumptions(demo: Site) -> None:
    assert demo.assumptions.crosscheck == CrossCheckAssumptions(
        in_flight_bytes=64_000,
        late_completion_bytes=0,
        dpu_own_bytes_per_s=0,
        control_bytes_per_s=0,
        largest_frame_bytes=1514,
        required_coverage=0.95,
        largest_gap_ns=6_000_000_000,
        liars=1,
    )
    assert demo.assumptions.clock_drift_ppm == 1000


def test_defaults_are_the_documented_ones(rich: Site) -> None:
    assumed = rich.assumptions
    assert assumed.crosscheck.in_flight_bytes == 2_000_000
    assert assumed.crosscheck.largest_frame_bytes == 9_216
    assert assumed.crosscheck.largest_gap_ns == 15_000_000_000
    assert (assumed.clock_drift_ppm, assumed.line_rate_margin_ppm, assumed.host_step_bytes) == (1_000, 200, 65_536)
    assert rich.collection.poll_interval_ns == rich.collection.frame_interval_ns == 1_000_000_000
    assert rich.agent("n3-dpu0").agent_settings == AgentSettings()


def test_two_uplinks_and_two_dpus(rich: Site) -> None:
    dpu = rich.agent("n1-dpu0")
    assert dpu.agent == Endpoint("fd00::11", 7443)
    assert str(dpu.agent) == "[fd00::11]:7443"
    assert [uplink.name for uplink in dpu.uplinks] == ["p0", "p1"]
    assert dpu.uplink("p1").mtu_bytes == 9000
    assert dpu.agent_settings == AgentSettings(
        spool_bytes=10**9, spool_age_ns=72 * 3600 * 10**9, port_sources=(("p0", "mlx5-phy"),), bucket_us=100
    )
    assert rich.agent("n1-dpu1").uplink("p0").line_rate_bytes_per_s is None
    assert [link.name for link in rich.links_of("leaf2")] == ["n1/d0/p1", "n2/p1"]


def test_virtual_functions(rich: Site) -> None:
    with_claim = rich.agent("n1-dpu0").uplink("p0")
    assert with_claim.virtual_functions == (VirtualFunction("pf0vf0", "eth0v0"), VirtualFunction("pf0vf1", "eth0v1"))
    assert with_claim.host_ports == ("pf0hpf", "pf0vf0", "pf0vf1")
    assert with_claim.host_interfaces == ("eth0", "eth0v0", "eth0v1")
    without = rich.agent("n3-dpu0").uplink("p0")
    assert without.virtual_functions == (VirtualFunction("pf0vf0", None),)
    assert without.host_interfaces is None  # a sum that lacks one would be a claim the host never made


def test_a_bond_ties_its_links_together(rich: Site) -> None:
    assert rich.agent("n2-dpu0").bond == Bond("bond0", ("p0", "p1"))
    assert rich.link("n2/p0").bonded_with == ("n2/p1",)
    assert rich.link("n2/p1").bonded_with == ("n2/p0",)
    assert rich.link("n1/d0/p0").bonded_with == ()


def test_a_host_without_a_claim_and_a_switch_in_clear(rich: Site) -> None:
    assert rich.node("n3").exporter is None
    assert rich.switch("leaf2").snmp == Snmp2c(HERE / "site_ok" / "s" / "c")
    assert rich.switch("leaf2").framing is Framing.L1


def test_a_journaled_site_file_can_be_read_back(demo: Site) -> None:
    again = loads(demo.content, DEMO)
    assert again == demo


def test_a_name_that_is_not_there(demo: Site) -> None:
    with pytest.raises(OperatorError, match=r"no link called 'node1/p1'. Did you mean `node1/p0`\?"):
        demo.link("node1/p1")
    with pytest.raises(OperatorError, match=r"no switch called 'spine9'. There is `sw1`\."):
        demo.switch("spine9")
    assert did_you_mean("x", []) == "There is none."


# ---------------------------------------------------------------- wrong ones


@pytest.mark.parametrize("path", FAILING, ids=[path.stem for path in FAILING])
def test_a_wrong_site_file_is_refused_with_file_line_and_remedy(path: Path) -> None:
    reason, line, expected = path.read_text().split("\n", 1)[0].split(" | ")
    assert reason.startswith("# must fail: ")
    with pytest.raises(SiteFileError) as raised:
        load(path, secrets=False)
    found = raised.value.errors if isinstance(raised.value, SeveralSiteFileErrors) else (raised.value,)
    for error in found:
        assert str(error).startswith(f"{path}:{error.line}: ")
        assert error.remedy
        assert str(error) in str(raised.value)
    assert raised.value.exit_code == 2
    text = expected.removeprefix("expect: ")
    matching = [error for error in found if text in str(error)]
    assert matching, str(raised.value)
    assert matching[0].line == int(line.removeprefix("line: "))


def test_there_are_wrong_ones_of_every_kind() -> None:
    assert len(FAILING) >= 60


def test_everything_that_is_wrong_is_reported_at_once(tmp_path: Path) -> None:
    text = (
        DEMO.read_text().replace("10MB", "10Mb").replace("refresh: 3.5s", "refresh: 3.5").replace("liars: 1", "lies: 1")
    )
    path = tmp_path / "site.yaml"
    path.write_text(text)
    with pytest.raises(SeveralSiteFileErrors) as raised:
        load(path)
    assert [error.line for error in raised.value.errors] == [53, 57, 66]
    assert str(raised.value).count("\n") == 2


def test_not_a_file(tmp_path: Path) -> None:
    with pytest.raises(SiteFileError, match=r"none\.yaml: cannot read the site file \(No such file.*WEIGHBRIDGE_SITE"):
        load(tmp_path / "none.yaml")
    with pytest.raises(SiteFileError, match="cannot read the site file"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("content", "line", "text"),
    [
        (b"version: 1\nsite: \xff\n", 2, "is not UTF-8 text"),
        (b"version: 1\nsite: a\x07b\n", 2, "holds a character YAML does not allow"),
        (b"version: 1\n" + b"#" * (4 * 2**20), None, "has more than 4194304 bytes"),
        (b"\xef\xbb\xbfversion: 2\n", 1, "has version 2"),
    ],
)
def test_bytes_that_are_no_site_file(tmp_path: Path, content: bytes, line: int | None, text: str) -> None:
    path = tmp_path / "site.yaml"
    path.write_bytes(content)
    with pytest.raises(SiteFileError, match=text) as raised:
        load(path)
    assert raised.value.line == line


@settings(max_examples=150, deadline=None)
@given(position=st.integers(0, 10**6), junk=st.binary(max_size=6))
def test_a_damaged_file_is_refused_or_read_but_never_anything_else(position: int, junk: bytes) -> None:
    content = DEMO.read_bytes()
    position %= len(content)
    with contextlib.suppress(SiteFileError):
        loads(content[:position] + junk + content[position + len(junk) :], DEMO)


@settings(max_examples=100, deadline=None)
@given(content=st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_anything_at_all_is_refused_in_words(content: bytes) -> None:
    with pytest.raises(SiteFileError):
        loads(content, DEMO)


def test_an_anchored_boolean_stays_one(tmp_path: Path) -> None:
    assert parse(b"a: &x true\nb: *x\n", tmp_path).values == {"a": True, "b": True}


# ---------------------------------------------------------------- addresses


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("10.0.0.1:161", "10.0.0.1", 161),
        ("[FD00::1]:22", "fd00::1", 22),
        ("sw1.example:65535", "sw1.example", 65_535),
    ],
)
def test_an_address(text: str, host: str, port: int) -> None:
    assert site_values.split_address(text) == (host, port)
    assert site_values.split_address(str(Endpoint(host, port))) == (host, port)


@pytest.mark.parametrize(
    "text",
    ["10.0.0.1", "10.0.0.1:0", "10.0.0.1:65536", "10.0.0.1:080", "fd00::1:22", "1.2.3:4", ":1", "[::g]:1", "a b:1"],
)
def test_no_address(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        site_values.split_address(text)


# ---------------------------------------------------------------- secrets


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with the demo's site file and good secrets."""
    shutil.copy(DEMO, tmp_path / "site.yaml")
    (tmp_path / "secrets").mkdir()
    for name in ("sw1.auth", "sw1.priv"):
        secret = tmp_path / "secrets" / name
        secret.write_text("0123456789abcdef\n")
        secret.chmod(0o600)
    return tmp_path


def test_good_secrets(place: Path) -> None:
    site = load(place / "site.yaml")
    snmp = site.switch("sw1").snmp
    assert isinstance(snmp, Snmp3)
    assert read_secret(snmp.auth_key_file) == "0123456789abcdef"


def _missing(secret: Path) -> None:
    secret.unlink()


def _open_to_the_group(secret: Path) -> None:
    secret.chmod(0o640)


def _writable_by_all(secret: Path) -> None:
    secret.chmod(0o602)


def _short(secret: Path) -> None:
    secret.write_text("1234567\n")


def _empty(secret: Path) -> None:
    secret.write_text("")


def _not_text(secret: Path) -> None:
    secret.write_bytes(b"\xff" * 16)


def _a_folder(secret: Path) -> None:
    secret.unlink()
    secret.mkdir()


@pytest.mark.parametrize(
    ("spoil", "text"),
    [
        (_missing, r"sw1\.auth is missing\. Make it with `\(umask 077; openssl rand -hex 16 > .*/sw1\.auth\)`"),
        (_open_to_the_group, r"can be read or written by others than its owner\. Run `chmod 600 .*/sw1\.auth`"),
        (_writable_by_all, r"can be read or written by others than its owner"),
        (_short, r"holds less than the 8 characters a secret needs"),
        (_empty, r"holds less than the 8 characters"),
        (_not_text, r"is not text"),
        (_a_folder, r"is not a file"),
    ],
)
def test_a_bad_secret_is_refused_and_never_shown(place: Path, spoil: Callable[[Path], None], text: str) -> None:
    spoil(place / "secrets" / "sw1.auth")
    with pytest.raises(SiteFileError, match=text) as raised:
        load(place / "site.yaml")
    assert raised.value.line == 50
    assert "authentication secret of switch sw1" in str(raised.value)
    assert "1234567" not in str(raised.value)
    with pytest.raises(OperatorError, match=text):
        read_secret(place / "secrets" / "sw1.auth", 8)
    load(place / "site.yaml", secrets=False)


def test_every_bad_secret_is_reported(place: Path) -> None:
    shutil.rmtree(place / "secrets")
    with pytest.raises(SeveralSiteFileErrors) as raised:
        load(place / "site.yaml")
    assert [error.line for error in raised.value.errors] == [50, 52]


def test_a_community_file_is_a_secret_too(place: Path) -> None:
    text = (HERE / "site_ok" / "rich.yaml").read_text()
    (place / "rich.yaml").write_text(text)
    with pytest.raises(SeveralSiteFileErrors, match=r"the community of switch leaf2: .*/s/c is missing"):
        load(place / "rich.yaml")


@pytest.mark.parametrize("user", ["", "bob"])
def test_a_password_in_an_exporters_url_is_refused_and_never_shown(tmp_path: Path, user: str) -> None:
    path = tmp_path / "site.yaml"
    path.write_text(DEMO.read_text().replace("http://10.250.0.31:", f"http://{user}:hunter2@10.250.0.31:"))
    with pytest.raises(SiteFileError, match="a user or a password stands here") as raised:
        load(path, secrets=False)
    assert "hunter2" not in str(raised.value)
