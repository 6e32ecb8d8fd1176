"""What the commands about leases do: ask agents, grant, revoke; each journaled before anything is sent."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import grpc

from controller.agreement.arithmetic import bounds_on, depth_on
from controller.agreement.envelope import SignedAgreement
from controller.agreement.inforce import in_force
from controller.collect.attempts import Look, LookFailed
from controller.collect.channel import AgentChannel, failure_of
from controller.errors import OperatorError
from controller.journal import Journal, Kind
from controller.leases.grant import Grant, active, check_within, end_entry, node_of, slots_of
from controller.leases.issue import TIMEOUT_S, Issuer, LeaseRejectedError
from controller.leases.table import row_of
from controller.site import Dpu, Site
from controller.site_credential import load_site_credential
from controller.timeline import Timeline
from controller.verifierkey import verifier_key
from protos.buckets import TrafficClass
from protos.lease import greatest_rate
from protos.reading import Direction
from protos.v1 import lease_pb2

_ResultT = TypeVar("_ResultT")


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the operator asks for; None: the most that is agreed."""

    traffic_class: TrafficClass
    directions: tuple[Direction, ...]
    rate_bytes_per_s: int | None
    depth_bytes: int | None
    lifetime_ns: int


def with_agent(site: Site, dpu: Dpu, do: Callable[[AgentChannel], Awaitable[_ResultT]]) -> _ResultT:
    """Return what ``do`` returns over a connection to the agent of ``dpu``.

    Raises:
        LookFailed: it does not answer.
        OperatorError: the controller's own certificate cannot be used.
    """
    credential = load_site_credential(site)

    async def go() -> _ResultT:
        async with AgentChannel(str(dpu.agent), credential) as channel:
            return await do(channel)

    try:
        return asyncio.run(go())
    except grpc.aio.AioRpcError as error:
        who = f"agent {dpu.name} at {dpu.agent}"
        raise failure_of(error, Look.LEASE, who, credential=credential) from error


@dataclass(frozen=True, slots=True)
class Listed:
    """A row for everything that is limited at any agent; agents that limit nothing, and those that do not answer."""

    rows: list[dict[str, Any]]
    unlimited: dict[str, str]
    silent: dict[str, str]


def listed(site: Site) -> Listed:
    """Ask every agent what is in force there."""
    rows: list[dict[str, Any]] = []
    unlimited: dict[str, str] = {}
    silent: dict[str, str] = {}
    with Journal.open(site.controller.journal, read_only=True) as journal:
        grants = {(each.agent, each.slot): each.id for each in active(journal.entries(kinds=[Kind.GRANT])).values()}
    for dpu in site.agents():
        try:
            reply = with_agent(site, dpu, _describe)
        except LookFailed as failure:
            silent[dpu.name] = str(failure)
            continue
        if reply.limits.backend in {"", "none"}:
            unlimited[dpu.name] = "limits nothing: its configuration says so"
        elif reply.limits.unavailable:
            unlimited[dpu.name] = f"LIMITS NOTHING, though it is told to: {reply.limits.unavailable}"
        rows += [row_of(dpu.name, each, reply.monotonic_ns, grants) for each in reply.limits.limiters]
    return Listed(rows, unlimited, silent)


async def _describe(channel: AgentChannel) -> lease_pb2.LeaseReply:
    return await channel.describe_leases(TIMEOUT_S)


def agreed_now(journal: Journal, site: Site) -> SignedAgreement:
    """Return the agreement in force.

    Raises:
        OperatorError: there is none, or it is not valid now.
    """
    agreed = in_force(journal, site.name)
    if agreed is None:
        raise OperatorError("no agreement is in force: propose one, have both sign it, and accept it first.")
    if not agreed.agreement.valid_from_ns <= time.time_ns() < agreed.agreement.valid_to_ns:
        raise OperatorError("the agreement in force is not valid now: see `weighbridge agreement show`.")
    return agreed


def granted(site: Site, agent: str, wanted: Wanted) -> list[Grant]:
    """Grant what is wanted and lease it; return the grants.

    1. Every slot's part is checked against the agreement, with all other grants.
    2. They are journaled, then leased. What the agent does not take is granted all the same: the run tries again.

    Raises:
        OperatorError: it is not within the agreement; nothing was journaled.
        LookFailed, LeaseRejectedError: the agent does not answer, or does not take it.
    """
    dpu = site.agent(agent)
    with Journal.open(site.controller.journal) as journal:
        agreed = agreed_now(journal, site)
        timeline = Timeline.start(journal)
        key = verifier_key(journal.path)
        there = active(journal.entries(kinds=[Kind.GRANT]))
        made: list[Grant] = []
        for direction in wanted.directions:
            made += _parts(site, dpu, agreed, wanted, direction)
        # Those that take the slots of others come instead of them.
        kept = [
            each for each in there.values() if (each.agent, each.slot) not in {(one.agent, one.slot) for one in made}
        ]
        for each in made:
            check_within(agreed.agreement, site, each, [*kept, *(one for one in made if one is not each)])
        journal.append(*(each.entry(timeline.now_ns()) for each in made))
        issuer = Issuer(dpu.name, journal, key, timeline.now_ns)
        with_agent(site, dpu, lambda channel: _lease(channel, issuer, made))
    return made


async def _lease(channel: AgentChannel, issuer: Issuer, made: list[Grant]) -> None:
    for each in made:
        await issuer.lease(channel, each)


def _parts(site: Site, dpu: Dpu, agreed: SignedAgreement, wanted: Wanted, direction: Direction) -> list[Grant]:
    slots = slots_of(dpu, direction, wanted.traffic_class)
    node = node_of(site, dpu.name)
    about = {"node": node.name, "pod": node.pod, "traffic_class": wanted.traffic_class, "direction": direction}
    depth = wanted.depth_bytes or depth_on(agreed.agreement, **about)  # type: ignore[arg-type]
    rate = wanted.rate_bytes_per_s
    if rate is None and depth is not None:
        rate = greatest_rate(depth, bounds_on(agreed.agreement, **about))  # type: ignore[arg-type]
    # Where nothing is agreed, check_within says so; it needs a number for that.
    rate, depth = rate or len(slots), depth or len(slots)
    if min(rate, depth) < len(slots):
        raise OperatorError(f"{dpu.name}: {rate} B/s cannot be shared by {len(slots)} ports. Give a higher --rate.")
    return [
        Grant(
            id=secrets.token_hex(4),
            agent=dpu.name,
            slot=slot,
            rate_bytes_per_s=rate // len(slots),
            depth_bytes=depth // len(slots),
            lifetime_ns=wanted.lifetime_ns,
            agreement_sha256=agreed.sha256,
        )
        for slot in slots
    ]


def revoked(site: Site, agent: str, grant_id: str | None) -> int:
    """End one grant of an agent or all of them, then its leases; return how many grants ended.

    Raises:
        OperatorError: there is no such grant.
        LookFailed, LeaseRejectedError: the agent could not be told; its leases end by themselves.
    """
    dpu = site.agent(agent)
    with Journal.open(site.controller.journal) as journal:
        timeline = Timeline.start(journal)
        key = verifier_key(journal.path)
        ended = [
            each
            for each in active(journal.entries(kinds=[Kind.GRANT])).values()
            if each.agent == agent and grant_id in {None, each.id}
        ]
        if grant_id is not None and not ended:
            raise OperatorError(f"agent {agent} has no grant {grant_id!r}. `weighbridge leases list` shows them.")
        journal.append(*(end_entry(each, timeline.now_ns()) for each in ended))
        issuer = Issuer(agent, journal, key, timeline.now_ns)

        async def tell(channel: AgentChannel) -> None:
            if grant_id is None:
                await issuer.revoke(channel, None)
            for each in ended if grant_id is not None else []:
                await issuer.revoke(channel, each.slot, grant=each.id)

        try:
            with_agent(site, dpu, tell)
        except (LookFailed, LeaseRejectedError) as error:
            raise type(error)(*_with_note(error)) from error
    return len(ended)


def _with_note(error: LookFailed | LeaseRejectedError) -> tuple[Any, ...]:
    text = f"{error}. The grants are ended, nothing is renewed; leases there end by themselves."
    if isinstance(error, LookFailed):
        return error.look, error.reason, text
    return error.reason, text
