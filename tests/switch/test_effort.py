"""What polls cost, counted from the polls themselves."""

from __future__ import annotations

from protos.reading import Missing
from switch.effort import Effort
from switch.exchange import Exchange, Operation, ValueType, VarBind
from switch.ports import Agent, Poll, PortFault

MS = 1_000_000


def exchange(sent_ns: int, latency_ns: int, attempts: int) -> Exchange:
    return Exchange(
        operation=Operation.GET,
        first_sent_ns=sent_ns,
        received_ns=sent_ns + latency_ns,
        attempts=attempts,
        engine_id="",
        engine_boots=None,
        engine_time_s=None,
        error_status=0,
        error_index=0,
        datagram=bytes(100),
        varbinds=(VarBind((1, 3), ValueType.NULL, None), VarBind((1, 4), ValueType.NULL, None)),
    )


def poll(*exchanges: Exchange) -> Poll:
    faults = (PortFault("eth1", Missing.TIMEOUT, "", 0, 0), PortFault("eth2", Missing.DENIED, "", 0, 0))
    return Poll("sw1", 0, 0, Agent(), faults, exchanges)


def test_nothing_was_polled() -> None:
    body = Effort().line("sw1")["effort"]
    assert body["polls"] == body["requests_sent"] == body["rows_expected"] == 0
    assert body["latency_median_ns"] is None


def test_requests_retries_latency_and_rows_are_told() -> None:
    effort = Effort()
    effort.add(poll(exchange(0, 5 * MS, 1), exchange(9, 7 * MS, 3)))
    effort.add(poll(exchange(20, 6 * MS, 1)))
    assert effort.line("sw1") == {
        "v": 1,
        "switch": "sw1",
        "effort": {
            "polls": 2,
            "questions_answered": 3,
            "requests_sent": 5,
            "retries": 2,
            "varbinds": 6,
            "octets": "300",
            "rows_expected": 4,
            "rows_got": 0,
            "rows_missing": {"auth": 2, "timeout": 2},
            "latency_median_ns": "6000000",
            "latency_99_percent_ns": "7000000",
        },
    }
    assert effort.answering_ns == 18 * MS
    assert "retries 2" in effort.sentence()


def test_latencies_are_those_of_the_last_questions_and_bounded() -> None:
    effort = Effort()
    effort.add(poll(*(exchange(0, 900 * MS, 1) for _ in range(5))))
    for _ in range(4):
        effort.add(poll(*(exchange(0, MS, 1) for _ in range(2_500))))
    assert len(effort.latencies_ns) == 10_000
    assert effort.latency_ns(0.99) == MS
