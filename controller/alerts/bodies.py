"""What is sent: Alertmanager's v2 API, a webhook's JSON, lines of text. Pure.

Source: Alertmanager 0.25, api/v2/openapi.yaml (``POST /api/v2/alerts``, ``postableAlerts``).
"""

from __future__ import annotations

import json
from typing import Any

from controller.alerts.alert import Alert, rfc3339
from controller.alerts.outbox import Message

WEBHOOK_VERSION = 1


def alertmanager(message: Message, now_ns: int, repeat_ns: int) -> bytes:
    """Return the body for Alertmanager. An alert that goes on ends, for it, if it is not repeated three times."""
    body = [
        {
            "labels": dict(alert.labels),
            "annotations": dict(alert.annotations),
            "startsAt": rfc3339(alert.starts_ns),
            "endsAt": rfc3339(now_ns + 4 * repeat_ns if alert.ends_ns is None else alert.ends_ns),
        }
        for alert in message.alerts
    ]
    return json.dumps(body, ensure_ascii=False).encode()


def webhook(message: Message) -> bytes:
    """Return the body for a webhook: one group, ``status`` firing while any of its alerts is."""
    alerts = [as_json(alert) for alert in message.alerts]
    going = message.others + sum(not alert.resolved for alert in message.alerts)
    body = {
        "version": WEBHOOK_VERSION,
        "status": "firing" if going else "resolved",
        "site": message.group[0],
        "place": message.group[1],
        "firing": going,
        "alerts": alerts,
    }
    return json.dumps(body, ensure_ascii=False).encode()


def as_json(alert: Alert) -> dict[str, Any]:
    """Return one alert as JSON has it."""
    return {
        "status": "resolved" if alert.resolved else "firing",
        "labels": dict(alert.labels),
        "annotations": dict(alert.annotations),
        "starts_at": rfc3339(alert.starts_ns),
        "ends_at": None if alert.ends_ns is None else rfc3339(alert.ends_ns),
    }


def lines(message: Message) -> list[str]:
    """Return a line of JSON for each alert."""
    return [json.dumps(as_json(alert), ensure_ascii=False) for alert in message.alerts]
