"""What the commands about load windows do: ask for one, open it, close it; each journaled before anything is sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from controller.agreement.envelope import Party
from controller.agreement.inforce import parties_in_force
from controller.collect.channel import AgentChannel
from controller.errors import OperatorError
from controller.journal import Journal, Kind
from controller.leases.commands import agreed_now, with_agent
from controller.leases.issue import Issuer, Load
from controller.loads.window import (
    Opened,
    check_count,
    close_entry,
    default_rate,
    grants_of,
    read_request,
    request_body,
    window_for,
    windows_in,
)
from controller.site import Dpu, Site, Uplink
from controller.timeline import Timeline
from controller.verifierkey import verifier_key
from protos.buckets import TrafficClass
from protos.lease import LeaseKind, LoadWindow
from protos.leasewire import load_window_body
from protos.signing import SignatureRejected, SigningDomain, load_public_key, sign, verify


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the operator asks for. ``dpu`` and ``uplink`` None: the node's only one; ``rate_bytes_per_s`` None: most."""

    node: str
    traffic_class: TrafficClass
    size_bytes: int
    longest_ns: int
    sources: Sequence[str] = ()
    dpu: str | None = None
    uplink: str | None = None
    rate_bytes_per_s: int | None = None


def place_of(site: Site, wanted: Wanted) -> tuple[Dpu, Uplink]:
    """Return where the window enters.

    Raises:
        OperatorError: there is no such node, DPU or uplink, or more than one and none is named.
    """
    dpus = {dpu.name: dpu for dpu in site.node(wanted.node).dpus}
    if wanted.dpu is None and len(dpus) > 1:
        raise OperatorError(f"{wanted.node} has {', '.join(dpus)}. Say which with --dpu.")
    name = wanted.dpu or next(iter(dpus))
    if name not in dpus:
        raise OperatorError(f"{wanted.node} has no DPU {name!r}; it has {', '.join(dpus)}.")
    dpu = dpus[name]
    if wanted.uplink is None and len(dpu.uplinks) > 1:
        raise OperatorError(f"{name} has {', '.join(each.name for each in dpu.uplinks)}. Say which with --uplink.")
    return dpu, dpu.uplink(wanted.uplink) if wanted.uplink else dpu.uplinks[0]


def _window(journal: Journal, site: Site, wanted: Wanted) -> LoadWindow:
    agreed = agreed_now(journal, site)
    dpu, _ = place_of(site, wanted)
    return window_for(
        agreed.agreement,
        agreed.sha256,
        dpu,
        number=journal.last_sequence(Kind.LOAD_WINDOW, dpu.name) + 1,
        traffic_class=wanted.traffic_class,
        size_bytes=wanted.size_bytes,
        longest_ns=wanted.longest_ns,
        sources=wanted.sources,
    )


def requested(site: Site, wanted: Wanted) -> bytes:
    """Return a request for the prover to sign.

    Raises:
        OperatorError: the agreement does not bear it.
    """
    with Journal.open(site.controller.journal, read_only=True) as journal:
        return request_body(_window(journal, site, wanted))


def signed_request(path: Path, key: Ed25519PrivateKey) -> bytes:
    """Return the request in ``path`` with the prover's signature.

    Raises:
        OperatorError: it is none.
    """
    window, body, _ = read_request(path.read_bytes(), str(path))
    return request_body(window, sign(key, SigningDomain.LOAD_WINDOW, body))


def opened(site: Site, wanted: Wanted, signed: tuple[LoadWindow, bytes, bytes] | None) -> Opened:
    """Open a load window: journal it, then lease both directions for its whole life.

    1. The agreement bears it, and it is signed by the prover where the agreement asks for it.
    2. No window of the node is open, and fewer than agreed were opened within 24 hours.
    3. It is journaled under its number, which is used once.
    4. The way back is leased first: a load without it would stand still.

    Raises:
        OperatorError: 1 or 2 is not so; nothing was written.
        LookFailed, LeaseRejectedError: the agent did not take it; the window counts all the same.
    """
    dpu, uplink = place_of(site, wanted)
    with Journal.open(site.controller.journal) as journal:
        agreed = agreed_now(journal, site)
        window = _window(journal, site, wanted)
        body, signature = load_window_body(window), b""
        if signed is not None:
            if signed[0] != window:
                raise OperatorError(
                    "what the prover signed is not what is asked for, or not under the next number. Make a new request."
                )
            _, body, signature = signed
        loads = agreed.agreement.loads
        if loads is not None and loads.both_sign:
            _check_prover(journal, site, body, signature)
        timeline = Timeline.start(journal)
        now_ns = timeline.now_ns()
        check_count(agreed.agreement, wanted.node, windows_in(journal.entries(kinds=[Kind.LOAD_WINDOW])), now_ns)
        rate = wanted.rate_bytes_per_s or default_rate(uplink, wanted.size_bytes, wanted.longest_ns)
        made = Opened(window, body, signature, wanted.node, uplink.name, rate, now_ns)
        journal.append(made.entry())
        issuer = Issuer(dpu.name, journal, verifier_key(journal.path), timeline.now_ns)
        with_agent(site, dpu, lambda channel: _lease(channel, issuer, made, uplink))
    return made


async def _lease(channel: AgentChannel, issuer: Issuer, made: Opened, uplink: Uplink) -> None:
    for grant, volume_bytes in grants_of(made, uplink):
        await issuer.lease(channel, grant, Load(made.signed, made.prover_signature, volume_bytes))


def _check_prover(journal: Journal, site: Site, body: bytes, signature: bytes) -> None:
    key = parties_in_force(journal, site.name).get(Party.PROVER)
    if not signature or key is None:
        raise OperatorError(
            "the agreement asks for the prover's signature: make a request with `weighbridge loads request`, have the "
            "prover sign it with `weighbridge loads sign`, and open it with --signed"
        )
    try:
        verify(load_public_key(key), SigningDomain.LOAD_WINDOW, body, signature)
    except SignatureRejected as error:
        raise OperatorError(f"the request is not signed by the prover of the agreement in force: {error}") from error


def all_windows(site: Site) -> tuple[list[Opened], int]:
    """Return every load window of the journal, and the time now on its timeline."""
    with Journal.open(site.controller.journal) as journal:
        return windows_in(journal.entries(kinds=[Kind.LOAD_WINDOW])), Timeline.start(journal).now_ns()


def closed(site: Site, node: str) -> Opened:
    """Close the open load window of ``node``: journal it, then end its leases at once.

    Raises:
        OperatorError: none is open.
        LookFailed, LeaseRejectedError: the agent could not be told; the window ends by itself.
    """
    site.node(node)
    with Journal.open(site.controller.journal) as journal:
        timeline = Timeline.start(journal)
        now_ns = timeline.now_ns()
        windows = windows_in(journal.entries(kinds=[Kind.LOAD_WINDOW]))
        found = next((each for each in windows if each.node == node and each.end_ns > now_ns), None)
        if found is None:
            raise OperatorError(f"no load window of {node} is open. `weighbridge loads list` shows them.")
        journal.append(close_entry(found, now_ns))
        dpu = site.agent(found.window.agent)
        issuer = Issuer(dpu.name, journal, verifier_key(journal.path), timeline.now_ns)
        grants = grants_of(found, dpu.uplink(found.uplink))

        async def tell(channel: AgentChannel) -> None:
            for grant, _ in grants:
                await issuer.revoke(channel, grant.slot, LeaseKind.LOAD, grant.id)

        with_agent(site, dpu, tell)
    return found
