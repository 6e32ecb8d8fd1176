"""Receivers told for real: Debian's Alertmanager, a web server, one that is down and comes back."""

from __future__ import annotations

import asyncio
import json
import random
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from io import StringIO
from typing import Any

import pytest

from controller.alerts.alert import Alert
from controller.alerts.alertsfile import Receiver
from controller.alerts.outbox import Rhythm
from controller.alerts.send import LineTransport, Teller, tellers
from controller.collect.narrator import Narrator
from controller.rules.finding import Severity
from hil.alertmanager import Alertmanager, free_port, missing
from protos.units import NS_PER_S

LIMIT_S = 60.0


def _alert(name: str, ends_ns: int | None = None, severity: Severity = Severity.PAGE) -> Alert:
    labels = {"alertname": "burst", "site": "lab", "rule": name, "severity": severity.value, "place": "node n1 egress"}
    starts = time.time_ns() if ends_ns is None else ends_ns - NS_PER_S
    return Alert(
        name, labels, {"summary": f"alert {name}", "explain": "weighbridge explain x"}, severity, starts, ends_ns
    )


async def _until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not true():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)


async def _running(receiver: Receiver, said: StringIO, story: Callable[[Teller], Any], most: int = 10_000) -> None:
    narrator = Narrator(time.monotonic_ns, said)
    async with tellers([receiver], narrator=narrator, now_ns=time.time_ns, rng=random.Random(1)) as (teller,):
        teller._outbox._most = most
        task = asyncio.create_task(teller.run())
        try:
            await story(teller)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


@pytest.fixture(scope="module")
def program() -> None:
    gone = missing()
    if gone is not None:
        pytest.skip(gone)


@pytest.mark.loopback
def test_alertmanager_has_an_alert_once_until_it_is_over(program: None) -> None:
    async def story(teller: Teller) -> None:
        teller.take([_alert("a"), _alert("b", severity=Severity.WARNING), _alert("n", severity=Severity.NOTE)])
        await _until(lambda: len(manager.alerts()) == 2)
        found = {each["labels"]["rule"]: each for each in manager.alerts()}
        assert found["a"]["annotations"]["explain"] == "weighbridge explain x"
        # Told again, it is the same alert, and its end is pushed on.
        first_end = found["a"]["endsAt"]
        await _until(
            lambda: next(each for each in manager.alerts() if each["labels"]["rule"] == "a")["endsAt"] > first_end
        )
        assert len(manager.alerts()) == 2
        teller.take([_alert("a", ends_ns=time.time_ns())])
        await _until(lambda: [each["labels"]["rule"] for each in manager.alerts()] == ["b"])

    with Alertmanager() as manager:
        asyncio.run(_running(Receiver("am", "alertmanager", manager.url, rhythm=Rhythm(NS_PER_S)), StringIO(), story))


@pytest.mark.loopback
def test_alertmanager_down_and_back(program: None) -> None:
    port, said = free_port(), StringIO()

    async def story(teller: Teller) -> None:
        teller.take([_alert("a"), _alert("b")])
        teller.take([_alert("b", ends_ns=time.time_ns())])
        await _until(lambda: "Connect" in said.getvalue())
        with Alertmanager(port) as manager:
            await _until(lambda: [each["labels"]["rule"] for each in manager.alerts()] == ["a"])
        await _until(lambda: "takes alerts again" in said.getvalue())
        assert said.getvalue().count("alert(s) wait") == 1, "a receiver that is down is said once"

    asyncio.run(_running(Receiver("am", "alertmanager", f"http://127.0.0.1:{port}"), said, story))


@dataclass
class Hook:
    """A web server that keeps what it is sent."""

    answer: int = 204
    bodies: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    url: str = ""


@pytest.fixture
def hook() -> Iterator[Hook]:
    kept = Hook()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            kept.headers.append(dict(self.headers))
            if kept.answer < 300:
                kept.bodies.append(body)
            self.send_response(kept.answer)
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    server = HTTPServer(("127.0.0.1", 0), Handler)
    kept.url = f"http://127.0.0.1:{server.server_address[1]}/hook"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield kept
    server.shutdown()
    thread.join()
    server.server_close()


GROUPED = Rhythm(3_600 * NS_PER_S, wait_ns=NS_PER_S // 5, interval_ns=NS_PER_S, grouped=True)


@pytest.mark.loopback
@pytest.mark.parametrize(
    ("secret", "header"), [(("", "token"), "Bearer token"), (("me", "pw"), "Basic bWU6cHc="), (None, None)]
)
def test_a_webhook_gets_groups(hook: Hook, secret: tuple[str, str] | None, header: str | None) -> None:
    async def story(teller: Teller) -> None:
        teller.take([_alert("a"), _alert("b")])
        await _until(lambda: len(hook.bodies) == 1)
        teller.take([_alert("a", ends_ns=time.time_ns()), _alert("b", ends_ns=time.time_ns())])
        await _until(lambda: len(hook.bodies) == 2)

    asyncio.run(_running(Receiver("h", "webhook", hook.url, rhythm=GROUPED, secret=secret), StringIO(), story))
    assert [len(body["alerts"]) for body in hook.bodies] == [2, 2]
    assert [body["status"] for body in hook.bodies] == ["firing", "resolved"]
    assert {each.get("Authorization") for each in hook.headers} == {header}


@pytest.mark.loopback
def test_a_receiver_that_refuses_is_said_and_tried_again(hook: Hook) -> None:
    said = StringIO()
    hook.answer = 503

    async def story(teller: Teller) -> None:
        teller.take([_alert(str(number)) for number in range(7)])
        await _until(lambda: "answered 503" in said.getvalue())
        hook.answer = 200
        await _until(lambda: bool(hook.bodies))

    asyncio.run(_running(Receiver("h", "webhook", hook.url, rhythm=GROUPED), said, story, most=5))
    assert "2 alert(s) for it were lost" in said.getvalue()
    assert [each["labels"]["rule"] for each in hook.bodies[0]["alerts"]] == ["2", "3", "4", "5", "6"]


@pytest.mark.loopback
def test_a_redirect_is_not_followed(hook: Hook) -> None:
    said = StringIO()
    hook.answer = 307

    async def story(teller: Teller) -> None:
        teller.take([_alert("a")])
        await _until(lambda: "answered 307" in said.getvalue())

    asyncio.run(_running(Receiver("h", "webhook", hook.url, rhythm=GROUPED), said, story))
    assert hook.bodies == []


def test_lines() -> None:
    async def go() -> list[str]:
        out, said = StringIO(), StringIO()
        narrator = Narrator(time.monotonic_ns, said)
        receiver = Receiver("out", "stdout", rhythm=GROUPED)
        teller = Teller(receiver, LineTransport(out), narrator=narrator, now_ns=lambda: now[0], rng=random.Random(1))
        teller.take([_alert("a")])
        now[0] += NS_PER_S
        assert await teller.tell()
        await teller.finish()
        return out.getvalue().splitlines()

    now = [time.time_ns()]
    (line,) = asyncio.run(go())
    assert json.loads(line)["labels"]["rule"] == "a"
