"""Random mixes of traffic, by seed: lengths, types, tags, flows. Frames as bytes, ready to be sent raw."""

from __future__ import annotations

import random
import socket
import struct
from collections.abc import Iterator

_LOCAL_TYPE = 0x88B5
_BROADCAST, _MULTICAST4, _MULTICAST6 = b"\xff" * 6, bytes.fromhex("01005e000105"), bytes.fromhex("333300000105")


def frames(seed: int, count: int, *, largest: int, source: bytes, target: bytes) -> Iterator[bytes]:
    """Yield ``count`` frames of 64 to ``largest`` bytes: IPv4, IPv6, VLAN, QinQ, other types, multicast, many flows."""
    rng = random.Random(seed)
    flows = rng.randint(1, 200)
    kinds = rng.sample(("ipv4", "ipv6", "raw", "arp", "fragment", "gre", "extension"), rng.randint(2, 7))
    for _ in range(count):
        flow, kind = rng.randrange(flows), rng.choice(kinds)
        tags = rng.choice((0, 0, 0, 1, 2))
        length = rng.choice((64, rng.randint(64, 1514), rng.randint(64, largest)))
        header = rng.choice((target, target, target, _BROADCAST, _MULTICAST4, _MULTICAST6)) + source
        header += struct.pack("!HH", 0x88A8, 7) if tags == 2 else b""
        header += struct.pack("!HH", 0x8100, 1 + flow % 4000) if tags else b""
        body = _body(kind, flow, max(48, length - len(header) - 2))
        yield (header + body)[: max(64, length)]


def _body(kind: str, flow: int, room: int) -> bytes:
    if kind == "raw":
        return struct.pack("!H", _LOCAL_TYPE) + bytes(room)
    if kind == "arp":
        return struct.pack("!HHHBBH", 0x0806, 1, 0x0800, 6, 4, 1) + bytes(room)
    udp = struct.pack("!HHHH", 1024 + flow, 9, room - 28, 0)
    if kind in ("ipv6", "extension"):
        following = 60 if kind == "extension" else 17
        extension = bytes([17, 0, 1, 4, 0, 0, 0, 0]) if kind == "extension" else b""
        addresses = socket.inet_pton(socket.AF_INET6, "fd00::1") + socket.inet_pton(
            socket.AF_INET6, f"fd00::{flow % 250 + 2:x}"
        )
        return struct.pack("!HIHBB", 0x86DD, 6 << 28, room, following, 64) + addresses + extension + udp + bytes(room)
    protocol, fragment = (47 if kind == "gre" else 17), (0x2000 | 100 if kind == "fragment" else 0)
    addresses = socket.inet_aton("10.99.0.1") + socket.inet_aton(f"10.99.{flow % 4}.{flow % 250 + 2}")
    return (
        struct.pack("!HBBHHHBBH", 0x0800, 0x45, 0, room, 0, fragment, 64, protocol, 0) + addresses + udp + bytes(room)
    )
