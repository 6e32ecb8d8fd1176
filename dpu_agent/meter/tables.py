"""Puts a class table into a meter's maps: fill the half that is not in force, then turn every CPU over to it."""

from __future__ import annotations

from collections.abc import Iterable

from dpu_agent.classtable import Prefix
from dpu_agent.meter.layout import KEY4, KEY6, LABEL, LANE_GENERATION, LANE_WORDS, PEER_WORDS, PEERS_A_TABLE, WORD
from dpu_agent.meter.libbpf import LibBpf
from dpu_agent.meter.maps import Maps

_PREFIX_BITS = 32
"""Bits of a key before the address: they say whose half it is."""


_HIGHEST = 0x7FFF_FFFF
_NO_PEERS = memoryview(bytes(PEERS_A_TABLE * PEER_WORDS * WORD)).cast("Q")


def generation(lanes: memoryview) -> int:
    """Return the number of the table in force; its lowest bit is the half of the maps that holds it."""
    return int(lanes[LANE_GENERATION]) & _HIGHEST


def install(library: LibBpf, maps: Maps, prefixes: Iterable[Prefix]) -> None:
    """Put ``prefixes`` in force.

    1. The half that no CPU looks at is the other one than the lowest bit of the generation says.
    2. Clear it, and what was counted by its nodes' numbers; fill it.
    3. Turn each lane's generation, which also voids what the lane remembers of addresses.

    Raises:
        OSError: a map cannot be changed; the table in force stays.
    """
    following = (generation(maps.lanes) + 1) & _HIGHEST or 2
    half = following & 1
    for at in range(half * PEERS_A_TABLE * PEER_WORDS, len(maps.peers), 2 * PEERS_A_TABLE * PEER_WORDS):
        maps.peers[at : at + PEERS_A_TABLE * PEER_WORDS] = _NO_PEERS
    for form, table in ((KEY4, maps.table4), (KEY6, maps.table6)):
        for key in list(library.keys(table, form.size)):
            if form.unpack(key)[1] == half:
                library.delete(table, key)
    for prefix in prefixes:
        form, table = (KEY4, maps.table4) if len(prefix.network) == 4 else (KEY6, maps.table6)
        key = form.pack(_PREFIX_BITS + prefix.length, half, prefix.network)
        peer = prefix.peer + half * PEERS_A_TABLE if prefix.peer else 0
        library.update(table, key, LABEL.pack(prefix.traffic_class, peer))
    for cpu in range(len(maps.lanes) // LANE_WORDS):
        maps.lanes[cpu * LANE_WORDS + LANE_GENERATION] = following
