"""Class tables from the site file: what each address is to each agent, judged by the longest prefix."""

from __future__ import annotations

import ipaddress
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from controller.classtables import body_of, entries_for, signed_table
from controller.errors import SiteFileError
from controller.site import Site, load, loads
from controller.site_addresses import MAX_PREFIXES
from dpu_agent.classtable import MAX_ENTRIES, read
from protos.buckets import TrafficClass
from protos.v1 import meter_pb2

RICH = Path(__file__).parent / "site_ok" / "rich.yaml"
KEY = Ed25519PrivateKey.generate()


@pytest.fixture(scope="module")
def rich() -> Site:
    return load(RICH, secrets=False)


def judged(entries: list[meter_pb2.ClassEntry], address: str) -> tuple[TrafficClass, str]:
    """What the kernel's longest-prefix table says, worked out the slow way."""
    own = ipaddress.ip_address(address)
    networks = {ipaddress.ip_network((each.network, each.prefix_length)): each for each in entries}
    around = [network for network in networks if network.version == own.version and own in network]
    if not around:
        return TrafficClass.UNKNOWN, ""
    found = networks[max(around, key=lambda network: network.prefixlen)]
    return TrafficClass(found.traffic_class), found.peer


@pytest.mark.parametrize(
    ("address", "of_n1", "of_n3"),
    [
        ("10.1.0.1", (TrafficClass.SAME_POD, "n1"), (TrafficClass.OTHER_POD, "n1")),
        ("10.1.7.7", (TrafficClass.SAME_POD, ""), (TrafficClass.OTHER_POD, "")),
        ("fd00:1::1", (TrafficClass.SAME_POD, "n1"), (TrafficClass.OTHER_POD, "n1")),
        ("10.2.0.3", (TrafficClass.OTHER_POD, "n3"), (TrafficClass.SAME_POD, "n3")),
        ("10.1.250.9", (TrafficClass.STORAGE, ""), (TrafficClass.STORAGE, "")),
        ("10.3.0.1", (TrafficClass.OTHER_POD, ""), (TrafficClass.OTHER_POD, "")),
        ("192.0.2.1", (TrafficClass.FRONT_END, ""), (TrafficClass.FRONT_END, "")),
        ("2001:db8::1", (TrafficClass.UNKNOWN, ""), (TrafficClass.UNKNOWN, "")),
    ],
)
def test_what_an_address_is(
    rich: Site, address: str, of_n1: tuple[TrafficClass, str], of_n3: tuple[TrafficClass, str]
) -> None:
    for agent, expected in (("n1-dpu0", of_n1), ("n1-dpu1", of_n1), ("n3-dpu0", of_n3)):
        assert judged(entries_for(rich, rich.agent(agent)), address) == expected


@given(st.integers(0, 2**32 - 1).map(lambda number: str(ipaddress.IPv4Address(number))))
def test_nothing_is_same_pod_to_two_pods(address: str) -> None:
    rich = load(RICH, secrets=False)
    found = [judged(entries_for(rich, rich.agent(agent)), address)[0] for agent in ("n1-dpu0", "n3-dpu0")]
    assert found.count(TrafficClass.SAME_POD) <= 1


def test_the_agent_takes_it_and_the_same_table_has_the_same_bytes(rich: Site) -> None:
    entries = entries_for(rich, rich.agent("n2-dpu0"))
    signed = signed_table(body_of("n2-dpu0", 7, entries), KEY)
    table = read(signed.SerializeToString(), agent="n2-dpu0", verifier=KEY.public_key().public_bytes_raw())
    assert (table.sequence, len(table.prefixes), table.peers) == (7, len(entries), ("n1", "n3"))
    assert body_of("n2-dpu0", 7, entries_for(rich, rich.agent("n2-dpu0"))) == signed.body


def test_a_site_without_addresses_has_no_table() -> None:
    demo = load(RICH.with_name("demo.yaml"), secrets=False)
    assert entries_for(demo, demo.agent("node1-dpu0")) == []


def test_as_many_prefixes_as_an_agent_takes() -> None:
    assert MAX_PREFIXES == MAX_ENTRIES
    many = ", ".join(f"'fd00:2:{number:x}::/64'" for number in range(MAX_PREFIXES))
    content = RICH.read_text().replace("addresses: [10.2.0.3/32]", f"addresses: [{many}]")
    with pytest.raises(SiteFileError, match=r"an agent takes 16384\. Join neighbouring ones"):
        loads(content.encode(), RICH)
