"""The memory that the program and the agent share: the C structures of ``meter.bpf.c``, and what they are sized by.

Everything is counted in 64-bit words, the unit in which the agent looks at it. The machine's byte order is the
program's own.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from protos.buckets import CLASSES

WORD = 8
# struct totals: raw_bytes, wire_bytes, segments.
TOTALS_WORDS = 3
# struct lane, by word: totals, packets, index, ends_ns, generation (low half), reserved, classes, cached labels.
LANE_PACKETS, LANE_INDEX, LANE_ENDS, LANE_GENERATION, LANE_CLASSES = 3, 4, 5, 6, 8
CLASS_WORDS = 5
CACHED_LABELS, LABEL_WORDS = 256, 3
LANE_WORDS = LANE_CLASSES + len(CLASSES) * CLASS_WORDS + CACHED_LABELS * LABEL_WORDS
# struct bucket: index, totals before, totals after, unused.
SLOT_WORDS = 8
SLOT_BEFORE, SLOT_AFTER = 1, 4
# struct peer_totals.
PEER_WORDS = 2
MARKS_BYTES = 65_536
ORDER = struct.Struct("=4xIQQQQQQ")
"""struct order: active, rate, depth, ceiling_bytes, until_ns, floor_rate, floor_depth."""
POLICED = struct.Struct("=4x4xQQQQQQQQQQQ")
"""struct policed: rate, tokens, remainder, last_ns; offered, passed, dropped bytes; the same in segments; unplaced."""
# struct judged: index, passed, dropped, unused.
JUDGED_WORDS = 4
PEERS_A_TABLE = 4_096
"""Numbers of nodes in one class table, 0 included; the peer table holds those of both halves, one after the other."""

_SETTINGS = struct.Struct("=QIIII")
KEY4, KEY6 = struct.Struct("=IB3x4s"), struct.Struct("=IB3x16s")
LABEL = struct.Struct("=HH")

NS_PER_S = 1_000_000_000
DEPTH_NS = 8 * NS_PER_S
"""The ring holds at least this much: so long may a drain be late without losing where bytes belong."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What the maps of one port are sized by.

    Attributes:
        width_ns: of a bucket.
        cpus: the highest CPU number there can be, plus one.
        peers: entries of the peer table: numbers of nodes; those whose label says 0 are not counted by node.
        at_host_port: whether addresses are looked up by destination (egress) or by source.
    """

    width_ns: int
    cpus: int
    peers: int
    at_host_port: bool

    @property
    def slots(self) -> int:
        """Buckets in the ring of a CPU: a power of two."""
        return 1 << (-(-DEPTH_NS // self.width_ns) - 1).bit_length()

    def constants(self) -> bytes:
        """``struct settings``."""
        return _SETTINGS.pack(self.width_ns, self.slots, self.cpus, self.peers, self.at_host_port)

    def entries(self) -> dict[str, int]:
        """The sizes of the maps that are sized at load time."""
        return {
            "lanes": self.cpus,
            "ring": self.cpus * self.slots,
            "peer_totals": self.cpus * self.peers,
            "judged": len(CLASSES) * self.slots,
        }


def possible_cpus(text: str) -> int:
    """Return the highest CPU number in the kernel's list ("0-3,8") plus one.

    Raises:
        ValueError: it is no such list.
    """
    return max(int(part.rpartition("-")[2]) for part in text.strip().split(",")) + 1
