"""Asks the site's witnesses to cosign the newest checkpoint, over HTTP (c2sp.org/tlog-witness).

A witness that does not answer costs its cosignature and nothing else: collection and signing go on, and the next
request carries the proof over all that it missed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import httpx

from controller.cosigning import MAX_ANSWER_BYTES, CosigningError, request_for, size_in, take
from controller.errors import WeighbridgeError
from controller.evidence.note import NoteKey, decode_key
from controller.journal import Journal
from controller.site import Site

DEADLINE_S = 10.0
"""For the whole of one request; a witness may be on the other side of the world, and syncs its disk."""


@dataclass(frozen=True, slots=True)
class WitnessAt:
    """A witness and where it answers."""

    key: NoteKey
    url: str


def witnesses_of(site: Site) -> tuple[WitnessAt, ...]:
    """Return the witnesses that the site file names."""
    return tuple(WitnessAt(decode_key(each.key), each.url) for each in site.witnesses)


@asynccontextmanager
async def witness_client() -> AsyncIterator[httpx.AsyncClient]:
    """Yield the HTTP client that all witnesses share: no proxy, no redirect, no environment."""
    async with httpx.AsyncClient(timeout=DEADLINE_S, trust_env=False, follow_redirects=False) as client:
        yield client


async def ask(journal: Journal, witness: WitnessAt, client: httpx.AsyncClient) -> tuple[int, int]:
    """Have ``witness`` cosign the newest checkpoint, and keep its word.

    Returns:
        The size that it cosigned, and when that was by its clock, in seconds since 1970.

    Raises:
        CosigningError: it did not answer, or not with a cosignature.
        EvidenceError: it has seen more than the journal has, or the journal is damaged.
    """
    old: int | None = None
    for _ in range(2):
        asked, request = await asyncio.to_thread(request_for, journal, witness.key, old)
        status, kind, body = await _post(client, witness, request.encode())
        old = size_in(status, kind, body)
        if old is None or old == request.old:
            break
    # A size again: somebody else had a larger checkpoint cosigned in between. The next request starts from there.
    return asked.checkpoint.size, await asyncio.to_thread(take, journal, witness.key, asked, status, body)


async def ask_all(
    journal: Journal, witnesses: Sequence[WitnessAt], said: Callable[[WitnessAt, int | WeighbridgeError], None]
) -> None:
    """Ask every witness at once; ``said`` hears of each the size that it cosigned, or why it did not."""
    if not witnesses:
        return

    async def one(witness: WitnessAt, client: httpx.AsyncClient) -> None:
        try:
            size, _ = await ask(journal, witness, client)
            said(witness, size)
        except WeighbridgeError as error:
            said(witness, error)

    async with witness_client() as client:
        await asyncio.gather(*(one(witness, client) for witness in witnesses))


async def _post(client: httpx.AsyncClient, witness: WitnessAt, body: bytes) -> tuple[int, str, bytes]:
    try:
        return await asyncio.wait_for(_exchange(client, witness, body), DEADLINE_S)
    except (httpx.HTTPError, httpx.InvalidURL, asyncio.TimeoutError) as error:
        why = str(error) or type(error).__name__
        raise CosigningError(f"witness {witness.key.name} does not answer at {witness.url} ({why})") from error


async def _exchange(client: httpx.AsyncClient, witness: WitnessAt, body: bytes) -> tuple[int, str, bytes]:
    async with client.stream("POST", f"{witness.url.rstrip('/')}/add-checkpoint", content=body) as response:
        received = bytearray()
        async for piece in response.aiter_raw():
            received += piece
            if len(received) > MAX_ANSWER_BYTES:
                raise CosigningError(f"witness {witness.key.name} answers more than any cosignature has")
        return response.status_code, response.headers.get("content-type", ""), bytes(received)
