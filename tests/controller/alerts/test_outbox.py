"""What a receiver is told: once, again at its rhythm, and when it is over; nothing is lost in silence."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.alerts import bodies
from controller.alerts.alert import Alert, Explaining, alert_of, rfc3339
from controller.alerts.outbox import MOST_TOLD, Message, Outbox, Rhythm
from controller.rules.finding import Finding, Kind, Severity
from controller.rules.tally import Change
from protos.units import NS_PER_S

NOW = 1_796_000_000 * NS_PER_S
MINUTE = 60 * NS_PER_S
DIRECT = Rhythm(repeat_ns=MINUTE)
GROUPED = Rhythm(repeat_ns=100 * MINUTE, wait_ns=NS_PER_S, interval_ns=30 * NS_PER_S, grouped=True)


def _alert(name: str, place: str = "node n1 egress", ends_ns: int | None = None) -> Alert:
    labels = {"alertname": "burst", "site": "lab", "rule": "r", "severity": "page", "place": place}
    return Alert(name, labels, {"summary": "s"}, Severity.PAGE, NOW, ends_ns)


def _told(outbox: Outbox, now_ns: int) -> list[list[str]]:
    """Deliver what is due, and return the ids."""
    told = []
    for message in list(outbox.due(now_ns)):
        outbox.delivered(message, now_ns)
        told.append([alert.id for alert in message.alerts])
    return told


def test_new_again_and_over() -> None:
    outbox = Outbox(DIRECT)
    outbox.take(_alert("a"), NOW)
    assert _told(outbox, NOW) == [["a"]]
    assert outbox.next_ns(NOW) == NOW + MINUTE
    assert _told(outbox, NOW + MINUTE - 1) == []
    assert _told(outbox, NOW + MINUTE) == [["a"]]
    outbox.take(_alert("a", ends_ns=NOW + 90 * NS_PER_S), NOW + 90 * NS_PER_S)
    assert _told(outbox, NOW + 90 * NS_PER_S) == [["a"]]
    assert _told(outbox, NOW + 10 * MINUTE) == []
    assert outbox.next_ns(NOW) is None


def test_a_group_is_told_together_and_not_too_often() -> None:
    outbox = Outbox(GROUPED)
    outbox.take(_alert("a"), NOW)
    outbox.take(_alert("b"), NOW + NS_PER_S // 2)
    outbox.take(_alert("c", "node n2 egress"), NOW + NS_PER_S // 2)
    assert _told(outbox, NOW + NS_PER_S - 1) == []
    assert _told(outbox, NOW + NS_PER_S) == [["a", "b"]]
    assert _told(outbox, NOW + 2 * NS_PER_S) == [["c"]]
    # What comes and goes every second is told every thirty.
    for second in range(3, 63):
        ends = None if second % 2 else NOW + second * NS_PER_S
        outbox.take(_alert("a", ends_ns=ends), NOW + second * NS_PER_S)
    times = []
    for second in range(3, 100):
        outbox.take(_alert(f"x{second}"), NOW + second * NS_PER_S)
        times += [second] if _told(outbox, NOW + second * NS_PER_S) else []
    assert times == [31, 61, 91]


def test_what_was_not_delivered_stays_due_and_an_end_meanwhile_is_told() -> None:
    outbox = Outbox(DIRECT)
    outbox.take(_alert("a"), NOW)
    (message,) = outbox.due(NOW)
    assert list(outbox.due(NOW + 1)) == [message]
    # It ends while the message is on its way.
    outbox.take(_alert("a", ends_ns=NOW + 5), NOW + 5)
    outbox.delivered(message, NOW + 6)
    (over,) = outbox.due(NOW + 7)
    assert over.alerts[0].ends_ns == NOW + 5
    outbox.delivered(over, NOW + 8)
    assert list(outbox.due(NOW + MINUTE)) == []


def test_began_and_ended_while_nobody_took_it() -> None:
    outbox = Outbox(DIRECT)
    outbox.take(_alert("a"), NOW)
    outbox.take(_alert("a", ends_ns=NOW + 5), NOW + 5)
    (message,) = outbox.due(NOW + MINUTE)
    assert (message.alerts[0].starts_ns, message.alerts[0].ends_ns) == (NOW, NOW + 5)


def test_room_is_bounded_and_what_goes_is_counted() -> None:
    outbox = Outbox(DIRECT, most=3)
    outbox.take(_alert("old"), NOW)
    outbox.take(_alert("over", ends_ns=NOW), NOW)
    for name in ("b", "c", "d"):
        outbox.take(_alert(name), NOW)
    assert outbox.lost == 2
    assert _told(outbox, NOW) == [["b", "c", "d"]]
    outbox.take(_alert("e"), NOW)
    assert outbox.lost == 2, "b had been told"


def test_a_message_has_a_size() -> None:
    outbox = Outbox(DIRECT)
    for number in range(MOST_TOLD + 1):
        outbox.take(_alert(str(number)), NOW)
    assert [len(each) for each in _told(outbox, NOW)] == [MOST_TOLD, 1]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.booleans(), st.booleans(), st.integers(0, 40)), max_size=60))
def test_whatever_happens_the_last_word_is_told(steps: list[tuple[int, bool, bool, int]]) -> None:
    """Alerts begin and end, and the receiver is up or down: at last it knows the newest state of each."""
    for rhythm in (DIRECT, GROUPED):
        outbox, now = Outbox(rhythm), NOW
        truth: dict[str, bool] = {}
        known: dict[str, bool] = {}
        for number, ends, up, seconds in [*steps, *[(9, False, True, 60)] * 3]:
            now += seconds * NS_PER_S
            name = f"{number}"
            if name != "9" and (not ends or name in truth):
                outbox.take(_alert(name, f"node n{number % 2}", NOW if ends else None), now)
                truth[name] = ends
            for message in list(outbox.due(now)):
                if up:
                    known |= {alert.id: alert.resolved for alert in message.alerts}
                    outbox.delivered(message, now)
        assert known == truth
        assert outbox.lost == 0


FINDING = Finding(
    Kind.VOLUME_OVER_WINDOW, ("node n1 egress",), "too much", NOW, NOW + MINUTE, Severity.PAGE, "report-volume"
)


def test_an_alert_says_what_where_and_how_to_explain_it() -> None:
    explaining = Explaining(Path("/etc/my site.yaml"), Path("/etc/rules.yaml"), 60 * MINUTE, wall_ahead_ns=7)
    alert = alert_of(Change(FINDING), "lab", explaining)
    assert alert.labels == {
        "alertname": "volume-over-window",
        "site": "lab",
        "rule": "report-volume",
        "severity": "page",
        "place": "node n1 egress",
    }
    words = shlex.split(alert.annotations["explain"])
    assert words[:5] == ["weighbridge", "explain", FINDING.id, "--site", "/etc/my site.yaml"]
    assert words[5:7] == ["--rules", "/etc/rules.yaml"]
    assert int(words[words.index("--from-ns") + 1]) <= FINDING.from_ns - 59 * MINUTE
    assert alert.starts_ns == FINDING.to_ns + 7
    assert alert_of(Change(FINDING, NOW + 2 * MINUTE), "lab", explaining).ends_ns == NOW + 2 * MINUTE + 7


def test_the_id_follows_from_what_was_found() -> None:
    assert FINDING.id == replace(FINDING, text="in other words", severity=Severity.NOTE).id
    assert len({FINDING.id, replace(FINDING, to_ns=NOW).id, replace(FINDING, rule="x").id}) == 3


@pytest.mark.parametrize("time_ns", [0, NOW, NOW + 123_456_789])
def test_times(time_ns: int) -> None:
    read = datetime.strptime(rfc3339(time_ns), "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=timezone.utc)
    assert round(read.timestamp() * 1e6) == time_ns // 1000


def test_a_webhook_is_told_whether_anything_goes_on() -> None:
    over = _alert("a", ends_ns=NOW)
    alone = json.loads(bodies.webhook(Message(("lab", "n1"), (over,))))
    assert (alone["status"], alone["firing"]) == ("resolved", 0)
    beside = json.loads(bodies.webhook(Message(("lab", "n1"), (over,), others=2)))
    assert (beside["status"], beside["firing"]) == ("firing", 2)
    assert beside["alerts"][0]["ends_at"] == rfc3339(NOW)
