"""Scraping a host: kept as received, bounded in size and time, and never believed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from controller.collect import hosts
from controller.collect.attempts import Reason
from controller.collect.hosts import HostCollector, scrape_client
from controller.journal import Kind

if TYPE_CHECKING:
    from tests.controller.collect.conftest import Surroundings

pytestmark = pytest.mark.loopback

TEXT = (
    b"node_boot_time_seconds 1.7e+09\n"
    b'node_network_transmit_bytes_total{device="eth0"} 100\n'
    b'node_network_receive_bytes_total{device="eth0"} 200\n'
)


def response(body: bytes, *, status: str = "200 OK", headers: str = "") -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nContent-Type: text/plain\r\n{headers}\r\n"
    return head.encode() + body


@asynccontextmanager
async def exporter(answer: bytes | None, *, piecewise: bytes = b"") -> AsyncIterator[tuple[str, list[bytes]]]:
    """Serve ``answer`` to every request and close; None: take the request and say nothing.

    ``piecewise`` is sent again and again after it until the peer has enough.
    """
    requests: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests.append(await reader.readuntil(b"\r\n\r\n"))
        try:
            if answer is None:
                await reader.read()
            else:
                writer.write(answer)
                while piecewise:
                    writer.write(piecewise)
                    await writer.drain()
                    await asyncio.sleep(0)
        except ConnectionError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/metrics", requests
    finally:
        server.close()
        await server.wait_closed()


async def _scrape(surroundings: Surroundings, url: str, times: int = 1) -> bool:
    async with surroundings.recorder() as recorder, scrape_client() as client:
        collector = HostCollector("node1", url, ["eth0"], client=client, recorder=recorder, interval_ns=10**9)
        return [await collector.scrape() for _ in range(times)][-1]


def _scrape_from(surroundings: Surroundings, answer: bytes | None, *, piecewise: bytes = b"") -> bool:
    async def go() -> bool:
        async with exporter(answer, piecewise=piecewise) as (url, _):
            return await _scrape(surroundings, url)

    return asyncio.run(go())


def _reason(surroundings: Surroundings) -> str:
    [attempt] = surroundings.attempts()
    assert attempt["what"] == "scrape"
    assert surroundings.journal.last(Kind.SCRAPE) is None
    return attempt["reason"]


def test_the_body_is_kept_as_received(surroundings: Surroundings) -> None:
    async def go() -> str:
        async with exporter(response(TEXT)) as (url, requests):
            assert await _scrape(surroundings, url, times=2)
            assert b"accept-encoding: identity" in requests[0].lower()
            return url

    url = asyncio.run(go())
    entries = list(surroundings.journal.entries(kinds=[Kind.SCRAPE]))
    assert [entry.body for entry in entries] == [TEXT, TEXT]
    meta = entries[0].meta
    assert (meta["url"], meta["status"], meta["content_type"]) == (url, 200, "text/plain")
    assert int(str(meta["first_sent_ns"])) < int(str(meta["received_ns"])) == entries[0].recorded_ns
    assert surroundings.said.getvalue().count("answers") == 1


def test_a_host_that_leaves_its_counters_out_is_told_once_and_kept(surroundings: Surroundings) -> None:
    body = TEXT.replace(b"eth0", b"eth9")

    async def go() -> None:
        async with exporter(response(body)) as (url, _):
            assert await _scrape(surroundings, url, times=3)

    asyncio.run(go())
    assert surroundings.said.getvalue().count("tells no byte counters of eth0 (absent)") == 1
    assert surroundings.attempts() == []
    entry = surroundings.journal.last(Kind.SCRAPE)
    assert entry is not None
    assert entry.body == body


def test_a_body_that_is_no_text_is_kept_too(surroundings: Surroundings) -> None:
    assert _scrape_from(surroundings, response(b"\xff\xfe"))
    assert "not UTF-8" in surroundings.said.getvalue()


@pytest.mark.parametrize("status", ["404 Not Found", "500 Internal Server Error", "302 Found"])
def test_an_http_error_is_refused(surroundings: Surroundings, status: str) -> None:
    assert not _scrape_from(surroundings, response(TEXT, status=status, headers="Location: http://127.0.0.1:1/\r\n"))
    assert _reason(surroundings) == Reason.REFUSED.value


def test_nobody_listening_is_not_a_cut_network(surroundings: Surroundings) -> None:
    assert not asyncio.run(_scrape(surroundings, "http://127.0.0.1:9/metrics"))
    assert _reason(surroundings) == Reason.CONNECTION_REFUSED.value


def test_a_name_that_is_not_known_is_unreachable(surroundings: Surroundings) -> None:
    assert not asyncio.run(_scrape(surroundings, "http://exporter.invalid:9/metrics"))
    assert _reason(surroundings) == Reason.UNREACHABLE.value


def test_silence_is_a_timeout(surroundings: Surroundings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosts, "DEADLINE_S", 0.3)
    assert not _scrape_from(surroundings, None)
    assert _reason(surroundings) == Reason.TIMEOUT.value


def test_a_drip_is_a_timeout(surroundings: Surroundings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each byte comes in time; the whole does not."""
    monkeypatch.setattr(hosts, "DEADLINE_S", 0.4)
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n"

    async def go() -> bool:
        async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(head)
            try:
                for _ in range(100):
                    writer.write(b"1")
                    await writer.drain()
                    await asyncio.sleep(0.02)
            except ConnectionError:
                pass
            finally:
                writer.close()

        server = await asyncio.start_server(drip, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            return await _scrape(surroundings, f"http://127.0.0.1:{port}/metrics")

    assert not asyncio.run(go())
    assert _reason(surroundings) == Reason.TIMEOUT.value


def test_an_endless_body_is_cut_off(surroundings: Surroundings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosts, "MAX_BODY_BYTES", 100_000)
    head = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"
    assert not _scrape_from(surroundings, head, piecewise=b"x" * 10_000)
    assert _reason(surroundings) == Reason.TOO_LARGE.value


@pytest.mark.parametrize("answer", [b"", b"SSH-2.0-OpenSSH_9.2\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n12"])
def test_what_is_not_http_is_malformed(surroundings: Surroundings, answer: bytes) -> None:
    assert not _scrape_from(surroundings, answer)
    assert _reason(surroundings) == Reason.MALFORMED.value


def test_compression_that_was_not_asked_for_stays_as_it_came(surroundings: Surroundings) -> None:
    """A kilobyte that would unpack to a gigabyte is a kilobyte."""
    assert _scrape_from(surroundings, response(b"\x1f\x8b...", headers="Content-Encoding: gzip\r\n"))
    entry = surroundings.journal.last(Kind.SCRAPE)
    assert entry is not None
    assert entry.body == b"\x1f\x8b..."


def test_a_proxy_in_the_environment_is_not_used(surroundings: Surroundings, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert _scrape_from(surroundings, response(TEXT))


def test_it_keeps_looking_after_failures(surroundings: Surroundings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("controller.collect.pace.Backoff.next_s", lambda _: 0.01)

    async def go() -> None:
        async with surroundings.recorder() as recorder, scrape_client() as client:
            async with exporter(response(TEXT)) as (url, _):
                pass
            collector = HostCollector("node1", url, ["eth0"], client=client, recorder=recorder, interval_ns=10**7)
            running = asyncio.ensure_future(collector.run())
            await asyncio.sleep(0.3)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    asyncio.run(go())
    assert len(surroundings.attempts()) > 3
    assert surroundings.said.getvalue().count("nothing listens") == 1
