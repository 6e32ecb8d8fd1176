"""InfiniBand and RoCE port counters, from ``/sys/class/infiniband/DEVICE/ports/N/counters``.

Tested on constructed files; they await hardware. ``port_xmit_data`` and ``port_rcv_data`` count *four-byte words*
(InfiniBand Architecture Specification, volume 1, PortCountersExtended), headers and payload of the transport, without
link overhead; on old hardware they stick at 2**32 - 1 instead of wrapping, and such a value is a lower bound at best:
it is not given. A file that is not there, or is refused, is absent, never 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from dpu_agent.counters import CounterValues, SourceDescription
from protos.reading import Direction, Framing, Observer

WORD_BYTES = 4
_STUCK = (1 << 32) - 1
_MOST = (1 << 64) - 1

DESCRIPTION = SourceDescription(
    name="infiniband-port",
    framing=Framing.L2_WITHOUT_FCS,
    sees=("RDMA and InfiniBand transport of the port, headers included, in words of four bytes",),
    cannot_see=("Ethernet traffic that is not RDMA", "link-layer overhead"),
)


def read_port(folder: Path, role: Observer) -> dict[Direction, CounterValues]:
    """Return the counters in ``folder`` in the node's directions; one that cannot be read is left out.

    What an uplink sends left the node; what a host-facing port receives did.
    """
    names = ("port_rcv_data", "port_xmit_data", "port_rcv_packets", "port_xmit_packets", "port_xmit_discards")
    return parse_port({name: _content(folder / name) for name in names}, role)


def _content(path: Path) -> str:
    """The file's text, empty where it cannot be read: an empty text is no number."""
    try:
        return path.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError):
        return ""


def parse_port(files: Mapping[str, str], role: Observer) -> dict[Direction, CounterValues]:
    """Return the counters in ``files`` by direction; one that is no number, or stuck, is left out."""
    values = {name: _number(text) for name, text in files.items()}
    host_port = role is Observer.DPU_HOST_PORT
    received, sent = (Direction.EGRESS, Direction.INGRESS) if host_port else (Direction.INGRESS, Direction.EGRESS)
    found = {}
    for word, direction, drops in (("rcv", received, None), ("xmit", sent, "port_xmit_discards")):
        words = values.get(f"port_{word}_data")
        if words is None or words == _STUCK:
            continue
        dropped = values.get(drops) if drops is not None else None
        found[direction] = CounterValues(words * WORD_BYTES, values.get(f"port_{word}_packets"), dropped)
    return found


def _number(text: str) -> int | None:
    stripped = text.strip()
    if not (stripped.isascii() and stripped.isdecimal()):
        return None
    value = int(stripped)
    return value if value <= _MOST else None
