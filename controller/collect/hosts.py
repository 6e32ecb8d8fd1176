"""Scrapes a host's own claims: node_exporter's text over HTTP, kept as received. Nothing the host says is trusted.

The answer is bounded in size and time, redirects and proxies are not followed, and compression is not asked for: the
body in the journal is what came over the wire.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager

import httpx

from controller.collect.attempts import Look, LookFailed, Reason
from controller.collect.pace import Backoff, Steady
from controller.collect.recorder import Recorder
from controller.errors import ClaimError
from controller.hostclaims import parse_claim
from controller.journal import Kind, NewEntry
from protos.reading import Missing

MAX_BODY_BYTES = 4 * 2**20
"""node_exporter's text is some 100 kB; a host must not be able to fill the controller's disk."""

DEADLINE_S = 5.0
"""From the first byte sent to the last received, connecting included."""

CONNECT_TIMEOUT_S = 2.0


@asynccontextmanager
async def scrape_client() -> AsyncIterator[httpx.AsyncClient]:
    """Yield the HTTP client that scrapes share: no proxy, no redirect, no environment."""
    timeout = httpx.Timeout(DEADLINE_S, connect=CONNECT_TIMEOUT_S)
    headers = {"accept": "text/plain;version=0.0.4", "accept-encoding": "identity", "user-agent": "weighbridge"}
    async with httpx.AsyncClient(
        timeout=timeout, headers=headers, trust_env=False, follow_redirects=False, max_redirects=0
    ) as client:
        yield client


class HostCollector:
    """Scrapes one node's exporter until cancelled."""

    def __init__(
        self,
        node: str,
        url: str,
        interfaces: Collection[str],
        *,
        client: httpx.AsyncClient,
        recorder: Recorder,
        interval_ns: int,
    ) -> None:
        """``interfaces`` are those the links need; their absence is told to the operator, and only to him."""
        self._node, self._url, self._interfaces = node, url, tuple(interfaces)
        self._client, self._recorder = client, recorder
        self._interval_ns = interval_ns

    async def run(self) -> None:
        """Scrape at the interval; after failures wait longer. Never returns."""
        steady = Steady(self._interval_ns, self._recorder.rng)
        backoff = Backoff(self._recorder.rng)
        while True:
            await asyncio.sleep(steady.wait_s(self._recorder.now_ns()))
            if await self.scrape():
                backoff.reset()
            else:
                await asyncio.sleep(backoff.next_s())

    async def scrape(self) -> bool:
        """Scrape once and journal the body, or why there is none; return whether there is one."""
        first_sent_ns = self._recorder.now_ns()
        try:
            response, body = await self._get()
        except LookFailed as failure:
            await self._recorder.failed(self._node, failure, first_sent_ns=first_sent_ns)
            return False
        received_ns = self._recorder.now_ns()
        await self._recorder.keep(
            NewEntry(
                kind=Kind.SCRAPE,
                source=self._node,
                recorded_ns=received_ns,
                body=body,
                meta={
                    "first_sent_ns": str(first_sent_ns),
                    "received_ns": str(received_ns),
                    "status": response.status_code,
                    "content_type": response.headers.get("content-type", ""),
                    "url": self._url,
                },
            )
        )
        self._recorder.narrator.well(self._node, Look.SCRAPE.value, f"the host's exporter at {self._url} answers")
        self._tell_about(body)
        return True

    async def _get(self) -> tuple[httpx.Response, bytes]:
        """Return the response and its body.

        Raises:
            LookFailed: nothing, too late, too much, or not a success.
        """
        try:
            return await asyncio.wait_for(self._receive(), DEADLINE_S)
        except (asyncio.TimeoutError, httpx.ReadTimeout, httpx.WriteTimeout, httpx.PoolTimeout) as error:
            text = f"the host's exporter at {self._url} did not finish its answer within {DEADLINE_S:g} s"
            raise LookFailed(Look.SCRAPE, Reason.TIMEOUT, text) from error
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            refused = _is_refusal(error)
            text = f"the host's exporter at {self._url} cannot be reached ({str(error) or type(error).__name__})"
            if refused:
                text = f"nothing listens at the host's exporter address {self._url}, though the host is there"
            raise LookFailed(Look.SCRAPE, Reason.CONNECTION_REFUSED if refused else Reason.UNREACHABLE, text) from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            text = f"the host's exporter at {self._url} broke off its answer ({str(error) or type(error).__name__})"
            raise LookFailed(Look.SCRAPE, Reason.MALFORMED, text) from error

    async def _receive(self) -> tuple[httpx.Response, bytes]:
        async with self._client.stream("GET", self._url) as response:
            if response.status_code != httpx.codes.OK:
                raise LookFailed(
                    Look.SCRAPE,
                    Reason.REFUSED,
                    f"the host's exporter at {self._url} answered with HTTP status {response.status_code}; "
                    "check the URL in the site file",
                )
            body = bytearray()
            async for piece in response.aiter_raw():
                body += piece
                if len(body) > MAX_BODY_BYTES:
                    raise LookFailed(
                        Look.SCRAPE,
                        Reason.TOO_LARGE,
                        f"the host's exporter at {self._url} sends more than {MAX_BODY_BYTES} bytes; nothing was kept",
                    )
            return response, bytes(body)

    def _tell_about(self, body: bytes) -> None:
        """Say what the claim lacks. The body is journaled already; what it proves is decided when it is read again."""
        narrator = self._recorder.narrator
        try:
            claim = parse_claim(body, self._interfaces)
        except ClaimError as error:
            narrator.trouble(self._node, "claim", "unreadable", str(error))
            return
        lacking = sorted(
            {
                f"{name} ({counters.bytes.value})"
                for (name, _), counters in claim.interfaces.items()
                if isinstance(counters.bytes, Missing)
            }
        )
        if lacking:
            text = f"the host's exporter tells no byte counters of {', '.join(lacking)}; its links have no host's claim"
            narrator.trouble(self._node, "claim", ", ".join(lacking), text)
        elif self._interfaces:
            narrator.well(self._node, "claim", f"the host tells the byte counters of {', '.join(self._interfaces)}")


def _is_refusal(error: BaseException | None) -> bool:
    """Whether a refused connection is at the bottom of ``error``: the layers above it only say that it failed."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, ConnectionRefusedError):
            return True
        seen.add(id(error))
        nested = getattr(error, "exceptions", ())
        error = nested[0] if nested else error.__cause__ or error.__context__
    return False
