"""Load windows as the journal keeps them, and whether the agreement bears one. Pure.

The body of a LOAD_WINDOW entry is JSON. ``"action": "open"``: ``number``, ``node``, ``uplink``, ``window_base64`` (what
was signed), ``prover_signature_base64`` (empty where only the verifier signs), ``rate_bytes_per_s``, ``opened_ns``.
``"action": "close"``: ``number``. The source is the agent; an opening's sequence is its number.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from controller.agreement.document import PPM, Agreement
from controller.errors import EvidenceError, OperatorError
from controller.journal import Entry, Kind, NewEntry
from controller.leases.grant import Grant
from controller.site import Dpu, Uplink
from protos.buckets import TrafficClass
from protos.lease import LoadWindow, Slot
from protos.leasewire import LeaseFaultError, load_window_body, parse_load_window
from protos.reading import Direction
from protos.units import NS_PER_S, format_bytes, format_duration

DAY_NS = 86_400 * NS_PER_S
OPEN, CLOSE = "open", "close"
LEAST_DEPTH_BYTES = 64_000
DEPTH_NS = 10_000_000
"""A load's bucket holds what its rate gives in 10 ms."""


@dataclass(frozen=True, slots=True)
class Opened:
    """A load window that was opened.

    Attributes:
        window: what was signed; ``signed`` its bytes, ``prover_signature`` empty where only the verifier signs.
        node, uplink: where it enters.
        rate_bytes_per_s: of its forward lease.
        opened_ns: on the timeline; it ends ``window.longest_ns`` later, or at ``closed_ns``.
    """

    window: LoadWindow
    signed: bytes
    prover_signature: bytes
    node: str
    uplink: str
    rate_bytes_per_s: int
    opened_ns: int
    closed_ns: int | None = None

    @property
    def end_ns(self) -> int:
        """When it is over, at the latest."""
        end_ns = self.opened_ns + self.window.longest_ns
        return end_ns if self.closed_ns is None else min(end_ns, self.closed_ns)

    def entry(self) -> NewEntry:
        """Return its opening as a journal entry."""
        body = {
            "action": OPEN,
            "number": str(self.window.number),
            "node": self.node,
            "uplink": self.uplink,
            "window_base64": base64.b64encode(self.signed).decode(),
            "prover_signature_base64": base64.b64encode(self.prover_signature).decode(),
            "rate_bytes_per_s": str(self.rate_bytes_per_s),
            "opened_ns": str(self.opened_ns),
        }
        source, number = self.window.agent, self.window.number
        return NewEntry(Kind.LOAD_WINDOW, source, self.opened_ns, json.dumps(body).encode(), sequence=number)


def close_entry(opened: Opened, now_ns: int) -> NewEntry:
    """Return the closing of ``opened`` as a journal entry."""
    body = {"action": CLOSE, "number": str(opened.window.number)}
    return NewEntry(Kind.LOAD_WINDOW, opened.window.agent, now_ns, json.dumps(body).encode())


def windows_in(entries: Iterable[Entry]) -> list[Opened]:
    """Return the load windows that ``entries`` (of kind LOAD_WINDOW, in order) open, with their closings.

    Raises:
        EvidenceError: an entry is not one this program can read.
    """
    found: dict[tuple[str, int], Opened] = {}
    for entry in entries:
        try:
            body: dict[str, Any] = json.loads(entry.body)
            key = (entry.source, int(body["number"]))
            if body["action"] == CLOSE:
                found[key] = replace(found[key], closed_ns=entry.recorded_ns)
                continue
            signed = base64.b64decode(body["window_base64"], validate=True)
            found[key] = Opened(
                window=parse_load_window(signed),
                signed=signed,
                prover_signature=base64.b64decode(body["prover_signature_base64"], validate=True),
                node=body["node"],
                uplink=body["uplink"],
                rate_bytes_per_s=int(body["rate_bytes_per_s"]),
                opened_ns=int(body["opened_ns"]),
            )
        except (ValueError, KeyError, TypeError, LeaseFaultError) as error:
            raise EvidenceError(
                f"leaf {entry.leaf} is not a load window this program can read ({error}). "
                "Update weighbridge on this machine."
            ) from error
    return list(found.values())


def window_for(
    agreement: Agreement,
    sha256: bytes,
    dpu: Dpu,
    *,
    number: int,
    traffic_class: TrafficClass,
    size_bytes: int,
    longest_ns: int,
    sources: Sequence[str],
) -> LoadWindow:
    """Return the load window that is asked for, if the agreement's terms bear it.

    Raises:
        OperatorError: they do not; the message says which.
    """
    loads = agreement.loads
    if loads is None:
        raise OperatorError("the agreement has no load windows. Agree on their terms first.")
    if traffic_class not in loads.classes:
        names = ", ".join(sorted(each.title for each in loads.classes))
        raise OperatorError(f"load windows are agreed for {names}, not for {traffic_class.title}.")
    if size_bytes > loads.most_bytes or longest_ns > loads.longest_ns:
        raise OperatorError(
            f"{format_bytes(size_bytes)} in {format_duration(longest_ns)} is more than a load window may be: "
            f"{format_bytes(loads.most_bytes)} in {format_duration(loads.longest_ns)}."
        )
    for source in sources:
        if source not in loads.sources:
            raise OperatorError(f"{source} is not a declared source; the agreement has {', '.join(loads.sources)}.")
    back = size_bytes * loads.reverse_ppm // PPM
    if back < 1:
        raise OperatorError(f"of {format_bytes(size_bytes)} not one byte may go back. Ask for more.")
    return LoadWindow(
        site=agreement.site,
        agent=dpu.name,
        number=number,
        traffic_class=traffic_class,
        ingress_bytes=size_bytes,
        egress_bytes=back,
        longest_ns=longest_ns,
        agreement_sha256=sha256,
        sources=tuple(sources) or loads.sources,
    )


def check_count(agreement: Agreement, node: str, windows: Iterable[Opened], now_ns: int) -> None:
    """Return if one more window may be opened for ``node`` now.

    Raises:
        OperatorError: one is open, or as many as a day may have were opened within the last 24 hours.
    """
    own = [each for each in windows if each.node == node]
    if any(each.end_ns > now_ns for each in own):
        raise OperatorError(f"a load window of {node} is open. Close it first, or wait for its end.")
    recent = sum(now_ns - each.opened_ns < DAY_NS for each in own)
    if agreement.loads is not None and recent >= agreement.loads.per_day:
        raise OperatorError(
            f"{node} had {recent} load window(s) in the last 24 hours; {agreement.loads.per_day} a day are agreed."
        )


def grants_of(opened: Opened, uplink: Uplink) -> list[tuple[Grant, int]]:
    """Return what the window opens, each with its volume: back from the host port, then towards the node.

    The rate is that of the window; back goes the same share of it as of the bytes.
    """
    window = opened.window
    back_rate = max(LEAST_DEPTH_BYTES, opened.rate_bytes_per_s * window.egress_bytes // window.ingress_bytes)
    parts = (
        (Slot(uplink.host_port, Direction.EGRESS, window.traffic_class), back_rate, window.egress_bytes),
        (Slot(uplink.name, Direction.INGRESS, window.traffic_class), opened.rate_bytes_per_s, window.ingress_bytes),
    )
    return [
        (
            Grant(
                id=f"load-{window.number}",
                agent=window.agent,
                slot=slot,
                rate_bytes_per_s=rate,
                depth_bytes=max(LEAST_DEPTH_BYTES, rate * DEPTH_NS // NS_PER_S),
                lifetime_ns=window.longest_ns,
                agreement_sha256=window.agreement_sha256,
            ),
            volume_bytes,
        )
        for slot, rate, volume_bytes in parts
    ]


def default_rate(uplink: Uplink, size_bytes: int, longest_ns: int) -> int:
    """Return the rate of a window that names none: the wire's, else four times what it takes on average."""
    mean = size_bytes * NS_PER_S // longest_ns
    return uplink.line_rate_bytes_per_s or max(LEAST_DEPTH_BYTES, 4 * mean)


def request_body(window: LoadWindow, prover_signature: bytes = b"") -> bytes:
    """Return the file that goes to the prover and comes back."""
    body = {
        "window_base64": base64.b64encode(load_window_body(window)).decode(),
        "prover_signature_base64": base64.b64encode(prover_signature).decode(),
    }
    return json.dumps(body, indent=2).encode() + b"\n"


def read_request(content: bytes, name: str) -> tuple[LoadWindow, bytes, bytes]:
    """Return the window in such a file, its bytes, and the prover's signature.

    Raises:
        OperatorError: it is none.
    """
    try:
        values: dict[str, Any] = json.loads(content)
        signed = base64.b64decode(values["window_base64"], validate=True)
        signature = base64.b64decode(values["prover_signature_base64"], validate=True)
        return parse_load_window(signed), signed, signature
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise OperatorError(
            f"{name}: is not a request for a load window ({type(error).__name__}: {error}). "
            "Give the file that `weighbridge loads request` wrote."
        ) from error
