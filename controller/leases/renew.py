"""Keeps the grants of one agent leased while `weighbridge run` runs: each renewed at a third of its life.

A renewal that fails is tried again soon; there is time for it, as two thirds of the lease are left. Should the
controller be away for longer, leases end and the agent is at its floor: nothing here has to happen for that.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

import grpc
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from controller.agreement.inforce import in_force
from controller.collect.attempts import Look, LookFailed, Reason
from controller.collect.channel import AgentChannel, failure_of, load_or_fail
from controller.collect.recorder import Recorder
from controller.credentials import Credential
from controller.errors import EvidenceError, OperatorError
from controller.journal import Journal, Kind
from controller.leases.grant import Grant, active, check_within
from controller.leases.issue import Issuer, LeaseRejectedError
from controller.site import Dpu, Site
from controller.verifierkey import verifier_key

LOOK_S = 1.0
"""How often it looks whether something is due, or was granted by a command meanwhile."""
RENEWALS_A_LIFE = 3


class LeaseRenewer:
    """Renews the leases of one agent until cancelled."""

    def __init__(
        self,
        dpu: Dpu,
        site: Site,
        *,
        journal: Journal,
        recorder: Recorder,
        load_credential: Callable[[], Credential],
    ) -> None:
        """``journal`` is read for grants, and takes every lease before it is sent."""
        self._dpu, self._site, self._journal, self._recorder = dpu, site, journal, recorder
        self._load_credential = load_credential
        self._issuer: Issuer | None = None
        self._issued: dict[str, int] = {}
        self._known: Mapping[str, Grant] = {}
        self._read_up_to = (-1, -1)
        self._valid_ns = (0, 0)

    async def run(self) -> None:
        """Look for what is due, for ever."""
        while True:
            began_ns = self._recorder.now_ns()
            try:
                await self._round(began_ns)
            except LookFailed as failure:
                await self._recorder.failed(self._dpu.name, failure, first_sent_ns=began_ns)
            await asyncio.sleep(LOOK_S)

    async def _round(self, now_ns: int) -> None:
        """Renew what is due.

        1. The grants in force, and the agreement they are under. What the agreement no longer bears is not renewed.
        2. Due is what was never leased by this process, or a third of its life ago.
        3. One connection for all that is due.

        Raises:
            LookFailed: one of them could not be renewed; the others were.
        """
        grants = await asyncio.to_thread(self._grants)
        self._issued = {each: at for each, at in self._issued.items() if each in grants}
        due = [each for each in grants.values() if self._is_due(each, now_ns)]
        if not due:
            return
        if not self._valid_ns[0] <= time.time_ns() < self._valid_ns[1]:
            raise LookFailed(Look.LEASE, Reason.DENIED, "the agreement is not valid now, so no lease is renewed")
        if self._issuer is None:
            key = await asyncio.to_thread(self._key)
            self._issuer = Issuer(self._dpu.name, self._journal, key, self._recorder.now_ns)
        credential = load_or_fail(self._load_credential, self._dpu.name)
        who = f"agent {self._dpu.name} at {self._dpu.agent}"
        problem: LookFailed | None = None
        async with AgentChannel(str(self._dpu.agent), credential) as channel:
            for grant in due:
                asked_ns = self._recorder.now_ns()
                try:
                    await self._issuer.lease(channel, grant)
                except grpc.aio.AioRpcError as error:
                    raise failure_of(error, Look.LEASE, who, credential=credential) from error
                except LeaseRejectedError as error:
                    problem = LookFailed(Look.LEASE, Reason.REFUSED, f"{who}, grant {grant.id}: {error}")
                    continue
                self._issued[grant.id] = asked_ns
        if problem is not None:
            raise problem
        self._recorder.narrator.well(self._dpu.name, Look.LEASE.value, f"{len(grants)} lease(s) are renewed")

    def _key(self) -> Ed25519PrivateKey:
        try:
            return verifier_key(self._journal.path)
        except OperatorError as error:
            raise LookFailed(Look.LEASE, Reason.DENIED, f"nothing is renewed: {error}") from error

    def _is_due(self, grant: Grant, now_ns: int) -> bool:
        issued_ns = self._issued.get(grant.id)
        return issued_ns is None or now_ns - issued_ns >= grant.lifetime_ns // RENEWALS_A_LIFE

    def _grants(self) -> Mapping[str, Grant]:
        last, agreed = self._journal.last(Kind.GRANT), self._journal.last(Kind.AGREEMENT, self._site.name)
        newest = (-1 if last is None else last.leaf, -1 if agreed is None else agreed.leaf)
        if newest != self._read_up_to:
            self._known = self._read_grants()
            self._read_up_to = newest
        return self._known

    def _read_grants(self) -> Mapping[str, Grant]:
        try:
            everywhere = active(self._journal.entries(kinds=[Kind.GRANT]))
        except EvidenceError as error:
            raise LookFailed(Look.LEASE, Reason.MALFORMED, f"grants cannot be read: {error}") from error
        own = {each.id: each for each in everywhere.values() if each.agent == self._dpu.name}
        return self._under_agreement(own, everywhere) if own else {}

    def _under_agreement(self, own: Mapping[str, Grant], everywhere: Mapping[str, Grant]) -> dict[str, Grant]:
        try:
            agreed = in_force(self._journal, self._site.name)
        except EvidenceError as error:
            raise LookFailed(Look.LEASE, Reason.MALFORMED, f"nothing is renewed: {error}") from error
        if agreed is None:
            raise LookFailed(Look.LEASE, Reason.DENIED, "no agreement is in force, so no lease is renewed")
        self._valid_ns = (agreed.agreement.valid_from_ns, agreed.agreement.valid_to_ns)
        borne = {}
        for grant in own.values():
            now = replace(grant, agreement_sha256=agreed.sha256)
            if grant.agreement_sha256 != agreed.sha256:
                try:
                    check_within(agreed.agreement, self._site, now, everywhere.values())
                except OperatorError as error:
                    self._recorder.narrator.trouble(
                        self._dpu.name, Look.LEASE.value, grant.id, f"grant {grant.id} is not renewed: {error}"
                    )
                    continue
            borne[grant.id] = now
        return borne
