"""Tells receivers: one task each, so that one that is down keeps nobody else waiting."""

from __future__ import annotations

import asyncio
import ssl
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from random import Random
from typing import Protocol, TextIO

import httpx

from controller.alerts import bodies
from controller.alerts.alert import LOUDNESS, Alert
from controller.alerts.alertsfile import Receiver
from controller.alerts.outbox import MOST_ALERTS, Message, Outbox
from controller.collect.narrator import Narrator
from controller.collect.pace import Backoff
from protos.units import NS_PER_S

TIMEOUT_S = 5.0
LONGEST_WAIT_S = 60.0
MOST_ANSWER_BYTES = 300
API = "/api/v2/alerts"


class NotTakenError(Exception):
    """A receiver did not take a message; the text says why."""


class Transport(Protocol):
    """Takes one message to a receiver."""

    async def send(self, message: Message, now_ns: int) -> None:
        """Return when it was taken.

        Raises:
            NotTakenError: it was not.
        """


class HttpTransport:
    """Alertmanager or a webhook."""

    def __init__(self, receiver: Receiver, client: httpx.AsyncClient) -> None:
        self._receiver, self._client = receiver, client
        own = receiver.kind == "alertmanager"
        self._url = receiver.url.rstrip("/") + API if own else receiver.url

    async def send(self, message: Message, now_ns: int) -> None:
        """As of :class:`Transport`."""
        if self._receiver.kind == "alertmanager":
            body = bodies.alertmanager(message, now_ns, self._receiver.rhythm.repeat_ns)
        else:
            body = bodies.webhook(message)
        try:
            async with self._client.stream(
                "POST", self._url, content=body, headers={"Content-Type": "application/json"}
            ) as answer:
                if answer.is_success:
                    return
                said = b""
                async for part in answer.aiter_bytes():
                    said += part
                    if len(said) >= MOST_ANSWER_BYTES:
                        break
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            raise NotTakenError(f"{self._url}: {type(error).__name__}: {error}".rstrip(": ")) from error
        text = said[:MOST_ANSWER_BYTES].decode("utf-8", "replace").strip()
        raise NotTakenError(f"{self._url} answered {answer.status_code}: {text}".rstrip(": "))


class LineTransport:
    """A line of JSON an alert, to standard output."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream

    async def send(self, message: Message, now_ns: int) -> None:
        """As of :class:`Transport`."""
        del now_ns
        try:
            for line in bodies.lines(message):
                print(line, file=self._stream or sys.stdout, flush=True)
        except OSError as error:
            raise NotTakenError(f"standard output: {error.strerror}") from error


class Teller:
    """Tells one receiver, until cancelled."""

    def __init__(
        self,
        receiver: Receiver,
        transport: Transport,
        *,
        narrator: Narrator,
        now_ns: Callable[[], int],
        rng: Random,
        most: int = MOST_ALERTS,
    ) -> None:
        """``now_ns`` is the wall clock."""
        self.receiver = receiver
        self._transport, self._narrator, self._now_ns = transport, narrator, now_ns
        self._outbox = Outbox(receiver.rhythm, most=most)
        self._backoff = Backoff(rng, longest_s=LONGEST_WAIT_S)
        self._changed = asyncio.Event()
        self._lost = 0

    def take(self, alerts: Iterable[Alert]) -> None:
        """Take alerts that began or are over."""
        for alert in alerts:
            if LOUDNESS[alert.severity] >= LOUDNESS[self.receiver.least]:
                self._outbox.take(alert, self._now_ns())
                self._changed.set()
        if self._outbox.lost > self._lost:
            text = f"{self._outbox.lost - self._lost} alert(s) for it were lost: it took none for too long"
            self._narrator.say(f"{self.receiver.name}: {text}; `weighbridge rules history` shows what they were about")
            self._lost = self._outbox.lost

    async def run(self) -> None:
        """Tell what is due, for ever; after a failure wait, longer each time."""
        while True:
            self._changed.clear()
            if not await self.tell():
                await asyncio.sleep(self._backoff.next_s())
                continue
            self._backoff.reset()
            next_ns = self._outbox.next_ns(self._now_ns())
            timeout_s = None if next_ns is None else max(0.01, (next_ns - self._now_ns()) / NS_PER_S)
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._changed.wait(), timeout_s)

    async def tell(self) -> bool:
        """Tell what is due now; return whether all of it was taken."""
        for message in list(self._outbox.due(self._now_ns())):
            try:
                await self._transport.send(message, self._now_ns())
            except NotTakenError as error:
                waiting = len(self._outbox.waiting())
                self._narrator.trouble(
                    self.receiver.name, "alerts", type(error).__name__, f"{error}; {waiting} alert(s) wait"
                )
                return False
            self._outbox.delivered(message, self._now_ns())
            self._narrator.well(self.receiver.name, "alerts", f"{self.receiver.kind} takes alerts")
        return True

    async def finish(self) -> None:
        """Tell what is due once more, briefly; say what could not be told."""
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self.tell(), TIMEOUT_S)
        left = len(self._outbox.waiting())
        if left:
            self._narrator.say(f"{self.receiver.name}: {left} alert(s) were not told; the next run finds them again")


@asynccontextmanager
async def tellers(
    receivers: Sequence[Receiver],
    *,
    narrator: Narrator,
    now_ns: Callable[[], int],
    rng: Random,
    stream: TextIO | None = None,
) -> AsyncIterator[list[Teller]]:
    """Yield a teller for each receiver."""
    async with AsyncExitStack() as stack:
        made = []
        for receiver in receivers:
            if receiver.kind == "stdout":
                transport: Transport = LineTransport(stream)
            else:
                transport = HttpTransport(receiver, await stack.enter_async_context(_client(receiver)))
            made.append(Teller(receiver, transport, narrator=narrator, now_ns=now_ns, rng=rng))
        yield made


def _client(receiver: Receiver) -> httpx.AsyncClient:
    headers: dict[str, str] = {}
    auth = None
    if receiver.secret is not None:
        user, secret = receiver.secret
        if user:
            auth = httpx.BasicAuth(user, secret)
        else:
            headers["Authorization"] = f"Bearer {secret}"
    verify: ssl.SSLContext | bool = True
    if receiver.ca_file is not None:
        verify = ssl.create_default_context(cafile=str(receiver.ca_file))
    # Nothing of the environment: no proxy, no .netrc; a redirect would take the secret elsewhere.
    return httpx.AsyncClient(
        timeout=TIMEOUT_S, trust_env=False, follow_redirects=False, headers=headers, auth=auth, verify=verify
    )
