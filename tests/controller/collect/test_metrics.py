"""What Prometheus is told of polling, and by whom it may not be asked."""

from __future__ import annotations

import socket
import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families

from controller.collect.metrics import served
from controller.errors import OperatorError
from switch.effort import Effort

pytestmark = pytest.mark.loopback


def asked(port: int) -> dict[tuple[str, ...], float]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    return {
        (sample.name, *(sample.labels[label] for label in sorted(sample.labels))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_counts_are_those_of_the_moment_they_are_asked_for() -> None:
    effort = Effort(polls=2, exchanges=5, transmissions=7, rows_expected=8, rows_got=6, answering_ns=1_500_000_000)
    effort.missing["timeout"] = 2
    with served({"sw1": effort, "sw2": Effort()}, "127.0.0.1", 0) as port:
        found = asked(port)
        assert found["weighbridge_switch_polls_total", "sw1"] == 2
        assert found["weighbridge_switch_requests_total", "sw1"] == 7
        assert found["weighbridge_switch_retries_total", "sw1"] == 2
        assert found["weighbridge_switch_rows_expected_total", "sw1"] == 8
        assert found["weighbridge_switch_rows_got_total", "sw1"] == 6
        assert found["weighbridge_switch_rows_missing_total", "timeout", "sw1"] == 2
        assert found["weighbridge_switch_answer_seconds_count", "sw1"] == 5
        assert found["weighbridge_switch_answer_seconds_sum", "sw1"] == 1.5
        assert found["weighbridge_switch_polls_total", "sw2"] == 0
        effort.polls += 1
        assert asked(port)["weighbridge_switch_polls_total", "sw1"] == 3
    with pytest.raises(OSError, match="refused"):
        asked(port)


def test_an_address_that_is_taken_is_refused_in_words() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(OperatorError, match=rf"127\.0\.0\.1:{port}"), served({}, "127.0.0.1", port):
            pass
