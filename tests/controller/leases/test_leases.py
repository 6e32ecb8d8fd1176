"""Leases from grant to agent: the real service over real TLS, its limiter a double; and what the agreement bears."""

from __future__ import annotations

import asyncio
import io
import json
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from controller import site as sites
from controller.agreement.envelope import Party, SignedAgreement, unsigned
from controller.agreement.inforce import accept
from controller.cli import app
from controller.collect.attempts import Attempt, LookFailed
from controller.collect.run import run
from controller.deploy.limits import limits_of
from controller.errors import OperatorError
from controller.journal import Journal, Kind
from controller.leases.commands import Wanted, granted, listed, revoked
from controller.leases.grant import Grant, active, check_within, slots_of
from controller.leases.issue import LeaseRejectedError
from controller.loads.commands import Wanted as LoadWanted
from controller.loads.commands import all_windows, closed, opened, requested, signed_request
from controller.loads.window import read_request
from controller.pki import create_site_pki
from controller.site import Site
from controller.timeline import Timeline
from controller.verifierkey import verifier_key
from dpu_agent import config as configuration
from dpu_agent import credentials
from dpu_agent.clock import SystemClock
from dpu_agent.disk import Disk
from dpu_agent.home import open_recorder
from dpu_agent.limits.leases import Leases
from dpu_agent.limits.order import LimitClass, MemoryLimiter
from dpu_agent.limits.start import limiting_of
from dpu_agent.release import this_release
from dpu_agent.service import AgentService, serve
from protos.buckets import TrafficClass
from protos.lease import Bound, LoadWindow, Slot, most_bytes
from protos.reading import Direction
from protos.signing import SigningDomain, sign
from protos.v1 import lease_pb2

PROVER = Ed25519PrivateKey.generate()
NS = 10**9
DPU, OTHER = "node1-dpu0", "node2-dpu0"
DOCUMENT = """
version = 1
site = "demo"
number = 1
valid_from = 2020-01-01T00:00:00Z
valid_to = 2120-01-01T00:00:00Z
longest_lease = "60s"

[[limits]]
of = "node"
names = ["*"]
class = "other-pod"
direction = "both"
depth = "64kB"
bounds = [{window = "300s", bytes = "300MB"}, {window = "1h", bytes = "2GB"}]

[[limits]]
of = "pod"
names = ["pod-a"]
class = "other-pod"
direction = "egress"
depth = "128kB"
bounds = [{window = "10s", bytes = "10MB"}]

[loads]
classes = ["storage"]
sources = ["198.51.100.0/24", "203.0.113.0/24"]
most = "300GB"
longest = "30m"
per_day = 2
reverse = "10000ppm"
both_sign = true
"""


def site_of(folder: Path, port: int) -> Site:
    def node(number: int, agent_port: int) -> str:
        return f"""
  - name: node{number}
    dpus:
      - name: node{number}-dpu0
        agent: "127.0.0.1:{agent_port}"
        uplinks: [{{name: p0, host_port: pf0hpf, line_rate: 10Gbit/s, mtu: 1500, virtual_functions: [pf0vf0]}}]
        agent_settings: {{limiter: police}}"""

    content = f"""\
version: 1
site: demo
controller: {{journal: journal.db, ca: pki/ca.pem, certificate: pki/controller.pem, key: pki/controller.key}}
pods: [{{name: pod-a, nodes: [node1, node2]}}]
nodes:{node(1, port)}{node(2, port % 65_000 + 1)}
links:
  - {{name: node1/p0, dpu: node1-dpu0, uplink: p0, switch: sw1, port: eth1}}
  - {{name: node2/p0, dpu: node2-dpu0, uplink: p0, switch: sw1, port: eth2}}
switches:
  - name: sw1
    address: "127.0.0.1:161"
    snmp: {{version: 2c, insecure: true, community_file: secret}}
    refresh: 3.5s
    framing: l2_without_fcs
limits: []
"""
    path = folder / "site.yaml"
    path.write_text(content, encoding="utf-8")
    return sites.loads(content.encode(), path)


def agreed(site: Site, journal: Journal, document: str = DOCUMENT) -> SignedAgreement:
    key = verifier_key(journal.path)
    signed = unsigned(document.encode(), "a").signed(Party.VERIFIER, key).signed(Party.PROVER, PROVER)
    keys = {
        Party.VERIFIER: key.public_key().public_bytes_raw(),
        Party.PROVER: PROVER.public_key().public_bytes_raw(),
    }
    accept(journal, site, signed, keys, now_ns=Timeline.start(journal).now_ns(), wall_ns=time.time_ns())
    return signed


@dataclass
class Scene:
    """A site whose first agent runs here."""

    site: Site
    limits: Leases
    limiter: MemoryLimiter

    def journal(self) -> Journal:
        return Journal.open(self.site.controller.journal)

    def reading(self, port: str, traffic_class: LimitClass = LimitClass.OTHER_POD) -> lease_pb2.LimiterReading:
        return next(
            each
            for each in self.limits.read().limiters
            if (each.state.port, each.state.traffic_class) == (port, traffic_class)
        )


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    create_site_pki(tmp_path / "pki", site="demo", controller="ctl", agents=dict.fromkeys((DPU, OTHER), "127.0.0.1"))
    (tmp_path / "secret").write_text("public", encoding="ascii")
    (tmp_path / "secret").chmod(0o600)
    site = site_of(tmp_path, port)
    _, anchor = Timeline.first()
    with Journal.create(tmp_path / "journal.db", anchor) as journal:
        agreed(site, journal)
        told = limits_of(site, site.agent(DPU), journal)
    stem = tmp_path / "pki" / "agents" / DPU
    written = {
        "agent": DPU,
        "listen": f"127.0.0.1:{port}",
        "ca": str(tmp_path / "pki" / "ca.pem"),
        "certificate": f"{stem}.pem",
        "key": f"{stem}.key",
        "state_directory": str(tmp_path / "state"),
        "ports": [
            {"name": "pf0hpf", "role": "host_port"},
            {"name": "pf0vf0", "role": "host_port"},
            {"name": "p0", "role": "uplink"},
        ],
        "verifier_public_key": verifier_key(site.controller.journal).public_key().public_bytes_raw().hex(),
        "limits": told,
    }
    (tmp_path / "agent.json").write_text(json.dumps(written), encoding="utf-8")
    config = configuration.load(tmp_path / "agent.json")
    clock = SystemClock()
    config.state_directory.mkdir()
    limiter = MemoryLimiter(clock.monotonic_ns)
    recorder = open_recorder(Disk(), config.state_directory, agent=DPU, version="1", clock=clock, limits=config.spool)
    limits = limiting_of(config, Disk(), clock, limiter)
    assert isinstance(limits, Leases)
    identity = credentials.load(config, credentials.utc_now())
    service = AgentService(
        config=config,
        release=this_release(),
        public_key=recorder.public_key,
        clock=clock,
        recorder=recorder,
        site=identity.site,
        limiting=limits,
    )
    server = serve(service, identity, config.listen)
    yield Scene(site, limits, limiter)
    server.stop(None).wait()
    service.close()
    limits.close()
    recorder.close()


WANTED = Wanted(TrafficClass.OTHER_POD, (Direction.EGRESS, Direction.INGRESS), None, None, 30 * NS)


@pytest.mark.loopback
def test_a_grant_is_leased_at_once_shared_by_ports_and_revoked_at_once(scene: Scene) -> None:
    made = granted(scene.site, DPU, WANTED)
    assert {str(each.slot) for each in made} == {
        "other-pod egress at pf0hpf",
        "other-pod egress at pf0vf0",
        "other-pod ingress at p0",
    }
    for port in ("pf0hpf", "pf0vf0", "p0"):
        assert scene.limiter.offer(port, LimitClass.OTHER_POD, 1_000) == 1_000
        assert scene.limiter.offer(port, LimitClass.STORAGE, 1_000) == 0
    # 2 GB an hour with a depth of 64 kB, the egress in two parts.
    rates = [scene.reading(port).state.rate_bytes_per_s for port in ("p0", "pf0hpf", "pf0vf0")]
    assert rates == [555_537, 277_768, 277_768]
    assert most_bytes(555_537, 64_000, 3_600 * NS) <= 2 * 10**9 < most_bytes(555_538, 64_000, 3_600 * NS)
    found = listed(scene.site)
    assert (set(found.silent), found.unlimited) == ({OTHER}, {})
    leased = [row for row in found.rows if row["state"] == "standing"]
    assert {row["grant"] for row in leased} == {each.id for each in made}
    assert all(0 < int(row["left_ns"]) <= 30 * NS for row in leased)
    one = next(each for each in made if each.slot.port == "p0")
    assert revoked(scene.site, DPU, one.id) == 1
    assert scene.limiter.offer("p0", LimitClass.OTHER_POD, 1) == 0
    assert scene.limiter.offer("pf0hpf", LimitClass.OTHER_POD, 1) == 1
    assert revoked(scene.site, DPU, None) == 2
    assert scene.limiter.offer("pf0hpf", LimitClass.OTHER_POD, 1) == 0
    assert scene.reading("pf0hpf").state.floor_reason == "lease-revoked"
    with scene.journal() as journal:
        assert not active(journal.entries(kinds=[Kind.GRANT]))
        sequences = [entry.sequence for entry in journal.entries(kinds=[Kind.LEASE])]
        assert sequences == list(range(1, 6))  # three leases, two revocations: each journaled before it was sent
        assert scene.limits.read().highest_sequence == 5
    with pytest.raises(OperatorError, match="has no grant"):
        revoked(scene.site, DPU, one.id)


@pytest.mark.loopback
def test_what_is_not_agreed_is_not_granted_and_nothing_is_written(scene: Scene) -> None:
    with scene.journal() as journal:
        before = len(journal)
    for wanted, says in (
        (replace(WANTED, rate_bytes_per_s=555_538), "can be more than 2.00 GB in any 1 h"),
        (replace(WANTED, depth_bytes=64_001), "a depth of 64.0 kB is more than"),
        (replace(WANTED, lifetime_ns=61 * NS), "lives longer"),
        (replace(WANTED, traffic_class=TrafficClass.STORAGE), "says nothing of storage"),
    ):
        with pytest.raises(OperatorError, match=says):
            granted(scene.site, DPU, wanted)
    with scene.journal() as journal:
        assert not list(journal.entries(kinds=[Kind.GRANT, Kind.LEASE]))
        assert len(journal) - before <= len(list(journal.entries(kinds=[Kind.TIMELINE])))


@pytest.mark.loopback
def test_an_agent_that_does_not_answer_is_named_and_its_grant_stands(scene: Scene) -> None:
    with pytest.raises(LookFailed, match=OTHER):
        granted(scene.site, OTHER, WANTED)
    with scene.journal() as journal:
        assert len(active(journal.entries(kinds=[Kind.GRANT]))) == 3


@pytest.mark.loopback
def test_the_agent_refuses_what_its_own_agreement_does_not_bear(scene: Scene) -> None:
    with scene.journal() as journal:
        agreed(scene.site, journal, DOCUMENT.replace("number = 1", "number = 2").replace("2GB", "3GB"))
    # It was not deployed with the new agreement, so it holds leases to the old one.
    with pytest.raises(LeaseRejectedError) as refused:
        granted(scene.site, DPU, WANTED)
    assert refused.value.reason == "other-agreement"
    assert [each.reason for each in scene.limits.read().refusals] == ["other-agreement"]


@pytest.mark.loopback
def test_a_run_renews_at_a_third_of_the_life_and_the_next_run_goes_on(scene: Scene) -> None:
    life_ns = 3 * NS
    granted(scene.site, DPU, replace(WANTED, directions=(Direction.INGRESS,), lifetime_ns=life_ns))
    dips: list[float] = []
    pauses: list[float] = [0.0]

    async def watch(runs: int) -> None:
        for _ in range(runs):
            stop = asyncio.Event()
            running = asyncio.ensure_future(
                run(
                    scene.site,
                    scene.site.controller.journal,
                    stop=stop,
                    rng=Random(1),
                    stream=io.StringIO(),
                )
            )
            first = scene.reading("p0").state.sequence
            until = time.monotonic() + 20
            # Three renewals, however long this machine takes for them; at no time is the port at its floor.
            while scene.reading("p0").state.sequence < first + 3 and time.monotonic() < until:
                if scene.limiter.offer("p0", LimitClass.OTHER_POD, 1) == 0:
                    dips.append(time.monotonic())
                looked = time.monotonic()
                await asyncio.sleep(0.02)
                pauses.append(time.monotonic() - looked)
            assert scene.reading("p0").state.sequence >= first + 3
            stop.set()
            await running

    asyncio.run(watch(2))
    # A machine that stood still for a third of the life may have slept through a renewal.
    assert not dips or max(pauses) > life_ns / 3e9
    with scene.journal() as journal:
        times = [entry.recorded_ns for entry in journal.entries(kinds=[Kind.LEASE])]
        # Never more often than at a third of the life, but for the one with which each run begins.
        early = [after - before for before, after in pairwise(times) if after - before < life_ns / 3]
        assert len(early) <= 2
        assert not [each for each in map(Attempt.of, journal.entries(kinds=[Kind.ATTEMPT])) if each.look == "lease"]


@pytest.mark.loopback
def test_the_commands(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEIGHBRIDGE_SITE", str(scene.site.path))
    runner = CliRunner()
    made = runner.invoke(app, ["leases", "grant", DPU, "--direction", "ingress", "--rate", "100kB/s", "--json"])
    assert made.exit_code == 0, made.output
    assert json.loads(made.stdout)[0]["rate_bytes_per_s"] == "100000"
    shown = runner.invoke(app, ["leases", "list", "--json"])
    assert shown.exit_code == 3  # the other agent does not answer
    rows = json.loads(shown.stdout)["limits"]
    assert [row["port"] for row in rows if row["state"] == "standing"] == ["p0"]
    table = runner.invoke(app, ["leases", "list"], env={"COLUMNS": "200"})
    assert "never-leased" in table.stdout
    for arguments in (["--rate", "1MB"], ["--rate", "0B/s"], ["--class", "l2-control"], ["--direction", "up"]):
        assert runner.invoke(app, ["leases", "grant", DPU, *arguments]).exit_code == 2
    assert runner.invoke(app, ["leases", "revoke", DPU]).exit_code == 0
    assert scene.reading("p0").state.sequence == 0


# ---------------------------------------------------------------- load windows

LOAD = LoadWanted("node1", TrafficClass.STORAGE, 300_000, 600 * NS)


def signed_by_prover(scene: Scene, folder: Path, wanted: LoadWanted = LOAD) -> tuple[LoadWindow, bytes, bytes]:
    path = folder / "request"
    path.write_bytes(requested(scene.site, wanted))
    return read_request(signed_request(path, PROVER), "request")


@pytest.mark.loopback
def test_a_load_window_lets_its_bytes_in_and_one_in_a_hundred_back_and_no_more(scene: Scene, tmp_path: Path) -> None:
    made = opened(scene.site, LOAD, signed_by_prover(scene, tmp_path))
    storage = LimitClass.STORAGE
    assert sum(scene.limiter.offer("p0", storage, 1_000) for _ in range(400)) == 300_000
    assert sum(scene.limiter.offer("pf0hpf", storage, 100) for _ in range(40)) == 3_000
    # Nothing else is opened by it: no other class, not the other function of the host.
    assert scene.limiter.offer("p0", LimitClass.OTHER_POD, 1) == 0
    assert scene.limiter.offer("pf0vf0", storage, 1) == 0
    state = scene.reading("p0", storage).state
    assert (state.sequence, state.floor_reason) == (0, "volume-used")
    with pytest.raises(OperatorError, match="is open"):
        opened(scene.site, LOAD, signed_by_prover(scene, tmp_path))
    assert closed(scene.site, "node1").window == made.window
    with pytest.raises(OperatorError, match="no load window of node1 is open"):
        closed(scene.site, "node1")
    windows, now_ns = all_windows(scene.site)
    assert [(each.window.number, each.end_ns <= now_ns) for each in windows] == [(1, True)]


@pytest.mark.loopback
def test_closing_ends_it_at_once_and_a_day_has_only_so_many(scene: Scene, tmp_path: Path) -> None:
    for _ in range(2):
        opened(scene.site, LOAD, signed_by_prover(scene, tmp_path))
        assert scene.limiter.offer("p0", LimitClass.STORAGE, 1_000) == 1_000
        closed(scene.site, "node1")
        assert scene.limiter.offer("p0", LimitClass.STORAGE, 1) == 0
        assert scene.limiter.offer("pf0hpf", LimitClass.STORAGE, 1) == 0
    with pytest.raises(OperatorError, match="2 a day are agreed"):
        opened(scene.site, LOAD, signed_by_prover(scene, tmp_path))


@pytest.mark.loopback
def test_both_sign_and_what_was_signed_is_what_is_opened(scene: Scene, tmp_path: Path) -> None:
    request = signed_by_prover(scene, tmp_path)
    window, body, _ = request
    key = verifier_key(scene.site.controller.journal)
    for wanted, signed, says in (
        (LOAD, None, "asks for the prover's signature"),
        (LOAD, (window, body, sign(key, SigningDomain.LOAD_WINDOW, body)), "not signed by the prover"),
        (replace(LOAD, size_bytes=10**9), request, "not what is asked for"),
        (replace(LOAD, size_bytes=301 * 10**9), request, "more than a load window may be"),
        (replace(LOAD, longest_ns=1_801 * NS), request, "more than a load window may be"),
        (replace(LOAD, traffic_class=TrafficClass.FRONT_END), request, "agreed for storage"),
        (replace(LOAD, sources=("192.0.2.0/24",)), request, "not a declared source"),
        (replace(LOAD, size_bytes=99), request, "not one byte may go back"),
        (replace(LOAD, dpu="node2-dpu0"), request, "has no DPU"),
    ):
        with pytest.raises(OperatorError, match=says):
            opened(scene.site, wanted, signed)
    with scene.journal() as journal:
        assert not list(journal.entries(kinds=[Kind.LOAD_WINDOW]))


@pytest.mark.loopback
def test_the_commands_of_load_windows(scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEIGHBRIDGE_SITE", str(scene.site.path))
    monkeypatch.chdir(tmp_path)
    Path("prover.pem").write_bytes(PROVER.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    Path("prover.pem").chmod(0o600)
    Path("prover.pub").write_text(PROVER.public_key().public_bytes_raw().hex(), encoding="ascii")
    runner = CliRunner()
    asked = ["--node", "node1", "--bytes", "1MB", "--for", "10m", "--source", "203.0.113.0/24"]
    for arguments, code in (
        (["request", *asked, "-o", "r"], 0),
        (["request", *asked, "-o", "r"], 2),  # it is there already
        (["open", *asked, "--signed", "r"], 2),  # not signed
        (["sign", "r", "--key", "prover"], 0),
        (["open", *asked, "--rate", "1MB", "--signed", "r"], 2),
        (["open", *asked, "--rate", "100MB/s", "--signed", "r"], 0),
        (["open", *asked, "--signed", "absent"], 2),
        (["list"], 0),
        (["close", "--node", "nobody"], 2),
        (["close", "--node", "node1"], 0),
    ):
        result = runner.invoke(app, ["loads", *arguments], env={"COLUMNS": "200"})
        assert result.exit_code == code, (arguments, result.output)
    (shown,) = json.loads(runner.invoke(app, ["loads", "list", "--json"]).stdout)
    assert (shown["ingress_bytes"], shown["egress_bytes"], shown["open"]) == ("1000000", "10000", False)
    assert (shown["rate_bytes_per_s"], shown["signed_by_prover"]) == ("100000000", True)
    assert shown["sources"] == ["203.0.113.0/24"]


# ---------------------------------------------------------------- pure


def grant_of(agent: str, port: str, rate: int, depth: int, direction: Direction = Direction.EGRESS) -> Grant:
    slot = Slot(port, direction, TrafficClass.OTHER_POD)
    return Grant(f"{agent}{port}", agent, slot, rate, depth, 30 * NS, bytes(32))


@given(
    st.lists(
        st.tuples(
            st.sampled_from([DPU, OTHER]),
            st.sampled_from(["pf0hpf", "pf0vf0"]),
            st.integers(1, 700_000),
            st.integers(1, 64_000),
        ),
        max_size=8,
    )
)
def test_whatever_is_granted_in_whatever_order_the_sums_stay_within(
    tmp_path_factory: pytest.TempPathFactory, wanted: list[tuple[str, str, int, int]]
) -> None:
    agreement = unsigned(DOCUMENT.encode(), "a").agreement
    site = SITES.setdefault(1, site_of(tmp_path_factory.mktemp("site"), 7443))
    there: dict[tuple[str, Slot], Grant] = {}
    for agent, port, rate, depth in wanted:
        grant = grant_of(agent, port, rate, depth)
        try:
            check_within(agreement, site, grant, there.values())
        except OperatorError:
            continue
        there[agent, grant.slot] = grant
    for agent in (DPU, OTHER):
        own = [each for each in there.values() if each.agent == agent]
        rate, depth = sum(each.rate_bytes_per_s for each in own), sum(each.depth_bytes for each in own)
        for bound in (Bound(300 * NS, 300_000_000), Bound(3_600 * NS, 2 * 10**9)):
            assert most_bytes(rate, depth, bound.window_ns) <= bound.bytes
    pod = [most_bytes(each.rate_bytes_per_s, each.depth_bytes, 10 * NS) for each in there.values()]
    assert sum(pod) <= 10_000_000


SITES: dict[int, Site] = {}


def test_where_a_direction_is_limited(tmp_path: Path) -> None:
    dpu = site_of(tmp_path, 7443).agent(DPU)
    assert [slot.port for slot in slots_of(dpu, Direction.EGRESS, TrafficClass.STORAGE)] == ["pf0hpf", "pf0vf0"]
    assert [slot.port for slot in slots_of(dpu, Direction.INGRESS, TrafficClass.STORAGE)] == ["p0"]
