"""``weighbridge calibrate``: send a known number of bytes over a link, which every observer must show.

A known weight keeps the scale honest: raw frames of declared length leave the link's node for another one, so every
observer on the way has to count them. The weight is journaled and stands in every report of that time.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from controller.cli_options import SITE_FILE, SiteFile
from controller.crosscheck.model import KnownWeight
from controller.errors import DeviceError, OperatorError
from controller.journal import Journal, Kind, NewEntry
from controller.site import Link, Site, load
from hil.machine import PROJECT, Machine
from hil.operation import Operation
from hil.rig import Rig
from hil.sitefile import SITE_FILE as RIG_SITE_FILE
from protos.reading import Direction
from protos.units import UnitError, format_bytes, parse_bytes, parse_duration_ns

SHORTEST_FRAME_BYTES = 60  # an Ethernet frame without its check sequence (IEEE 802.3, 64 with it)
MOST_BYTES = 10**9
LEAST_APART_NS = 15 * 10**9
_INTERFACE = "eth0"
_FRAMES = (sys.executable, "-m", "hil.traffic.frames")
_RATE = "20MB/s"
# Before and after the frames, so that the weight stands alone between two readings of every observer.
_EDGE_S = 0.5

app = typer.Typer()


@dataclass(frozen=True, slots=True)
class Load:
    """Frames of one length."""

    length_bytes: int
    frames: int


def loads(total_bytes: int, longest_frame_bytes: int) -> tuple[Load, ...]:
    """Return frames that hold exactly ``total_bytes``, as long as can be, none so short that Ethernet pads it.

    1. The longest length whose remainder is nothing, or is long enough to be a frame of its own.
    2. As many frames of it as fit, and one of the remainder.

    Raises:
        OperatorError: no such frames exist.
    """
    for length in range(min(longest_frame_bytes, total_bytes), SHORTEST_FRAME_BYTES - 1, -1):
        frames, rest = divmod(total_bytes, length)
        if rest == 0:
            return (Load(length, frames),)
        if rest >= SHORTEST_FRAME_BYTES:
            return (Load(length, frames), Load(rest, 1))
    raise OperatorError(
        f"{total_bytes} bytes cannot be sent as whole Ethernet frames: ask for {SHORTEST_FRAME_BYTES} bytes or more"
    )


def send(operation: Operation, site: Site, link: Link, total_bytes: int) -> tuple[KnownWeight, KnownWeight]:
    """Send the weight from the link's node to another, journal it at both ends, and return it as both see it.

    Raises:
        DeviceError: not every frame arrived.
        OperatorError: there is no other node, or the bytes cannot be sent as whole frames.
    """
    others = [other for other in site.links if other.node != link.node]
    if not others:
        raise OperatorError("a known weight goes from one node to another, and this site has one node only")
    partner = next((other for other in others if other.pod != link.pod), others[0])
    rig = operation.rig
    sender, receiver = rig.machine(link.node), rig.machine(partner.node)
    parts = loads(total_bytes, rig.plan.mtu + 14)
    packets = sum(part.frames for part in parts)

    # One short frame the other way: the bridges learn where the receiver is, and flood nothing of the weight.
    _send(receiver, to=sender, part=Load(SHORTEST_FRAME_BYTES, 1))
    time.sleep(_EDGE_S)
    from_ns = operation.now_ns()
    arrived = sum(_transfer(sender, receiver, part) for part in parts)
    to_ns = operation.now_ns()
    time.sleep(_EDGE_S)
    if arrived != packets:
        raise DeviceError(
            f"{packets - arrived} of {packets} frames from {link.node} did not reach {partner.node}; "
            "is the link up, and is another load running?"
        )
    leaving = KnownWeight(link.name, Direction.EGRESS, from_ns, to_ns, total_bytes, packets)
    entering = dataclasses.replace(leaving, link=partner.name, direction=Direction.INGRESS)
    with Journal.open(operation.journal) as journal:
        journal.append(_entry(leaving), _entry(entering))
    return leaving, entering


def _transfer(sender: Machine, receiver: Machine, part: Load) -> int:
    """Send frames of one length and return how many arrived."""
    count = ("--device", _INTERFACE, "--count", str(part.frames))
    receiving = receiver.popen([*_FRAMES, "receive", *count, "--within", "90s"], cwd=PROJECT, stdout=-1, stderr=-1)
    try:
        time.sleep(_EDGE_S)  # the receiver's socket is open by then
        _send(sender, to=receiver, part=part)
        said, _ = receiving.communicate(timeout=120)
    finally:
        if receiving.poll() is None:
            receiving.terminate()
            receiving.wait(10)
    outcome: dict[str, Any] = json.loads(said)
    return int(outcome["packets_received"])


def _send(sender: Machine, *, to: Machine, part: Load) -> None:
    address = to.run(["cat", f"/sys/class/net/{_INTERFACE}/address"]).stdout.strip()
    frames = ("--count", str(part.frames), "--length", str(part.length_bytes), "--rate", _RATE)
    sender.run([*_FRAMES, "send", "--device", _INTERFACE, "--to", address, *frames], cwd=PROJECT, timeout_s=120)


def _entry(weight: KnownWeight) -> NewEntry:
    body: Mapping[str, str | None] = {
        "link": weight.link,
        "direction": weight.direction.value,
        "from_ns": str(weight.from_ns),
        "to_ns": str(weight.to_ns),
        "bytes": str(weight.bytes),
        "packets": None if weight.packets is None else str(weight.packets),
    }
    return NewEntry(Kind.WEIGHT, weight.link, weight.to_ns, json.dumps(body).encode())


@app.command()
def calibrate(
    link: Annotated[str, typer.Argument(metavar="LINK", help="The link to load, for example node1/p0.")],
    volume: Annotated[str, typer.Option("--bytes", help="How much to send, for example 10MB.")] = "1MB",
    every: Annotated[
        str | None,
        typer.Option("--every", metavar="DURATION", help="Send it again and again, so far apart; Ctrl-C ends."),
    ] = None,
    times: Annotated[int | None, typer.Option("--times", min=1, help="With --every: how often, and then end.")] = None,
    site_file: SiteFile = SITE_FILE,
) -> None:
    """Send a known number of bytes over a link of a rig; every observer must show it. Collection must be running.

    Exit code 1: an observer did not show one of them.
    """
    total_bytes, apart_ns = _volume(volume), _apart(every, times)
    site = load(site_file)
    rig = _rig_of(site_file)
    operation = Operation(rig, rig.state / "logs")
    chosen = site.link(link)
    shown = True
    for due_ns in due_times(time.monotonic_ns(), apart_ns, times):
        time.sleep(max(0, due_ns - time.monotonic_ns()) / 1e9)
        shown = _weigh(operation, site, chosen, total_bytes) and shown
    if not shown:
        raise typer.Exit(1)


def due_times(start_ns: int, apart_ns: int | None, times: int | None) -> Iterator[int]:
    """Yield when each weight is due: one now, or, ``apart_ns`` apart, so many, or without end.

    Counted from the start, so that slow ones do not shift the next; one that would be due in the past is due at once.
    """
    if apart_ns is None:
        yield start_ns
        return
    for number in itertools.count() if times is None else range(times):
        yield start_ns + number * apart_ns


def _volume(text: str) -> int:
    try:
        total_bytes = parse_bytes(text)
    except UnitError as error:
        raise OperatorError(f"--bytes: {error}") from error
    if not SHORTEST_FRAME_BYTES <= total_bytes <= MOST_BYTES:
        raise OperatorError(
            f"--bytes {text}: a known weight is between {SHORTEST_FRAME_BYTES} B and {format_bytes(MOST_BYTES)}"
        )
    return total_bytes


def _apart(every: str | None, times: int | None) -> int | None:
    if every is None:
        if times is not None:
            raise OperatorError("--times goes with --every, which says how far apart they are")
        return None
    try:
        apart_ns = parse_duration_ns(every)
    except UnitError as error:
        raise OperatorError(f"--every: {error}") from error
    if apart_ns < LEAST_APART_NS:
        raise OperatorError(f"--every {every}: a weight needs {LEAST_APART_NS // 10**9} s to be sent and read")
    return apart_ns


def _weigh(operation: Operation, site: Site, link: Link, total_bytes: int) -> bool:
    """Send one weight, wait until every observer was read past it, and print whether they show it."""
    weights = send(operation, site, link, total_bytes)
    # Until every observer has been read past the weight: refresh period, poll interval, and the poll itself.
    slowest_ns = max((switch.refresh_ns for switch in site.switches), default=0)
    time.sleep(slowest_ns / 1e9 + 2.5)
    edge_ns = 1_000_000_000
    result = operation.crosscheck(weights[0].from_ns - edge_ns, weights[0].to_ns + edge_ns)
    shown = True
    for told in result["known_weights"]:
        if told["link"] in {weight.link for weight in weights}:
            shown = shown and told["shown"]
            print(told["text"], flush=True)
    return shown


def _rig_of(site_file: Path) -> Rig:
    """Return the rig that the site file belongs to.

    Raises:
        OperatorError: it belongs to none.
    """
    folder = site_file.resolve().parent
    if site_file.name != RIG_SITE_FILE or not (folder / "rig.json").is_file():
        raise OperatorError(
            f"{site_file} is not the site file of a rig: weights are sent from node to node of a rig "
            "('weighbridge hil up' writes its site file)"
        )
    name = json.loads((folder / "rig.json").read_text(encoding="utf-8"))["name"]
    return Rig.open(name, folder)
