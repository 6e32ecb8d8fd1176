"""What a run of the latency bench watches from inside machines; times are ns of CLOCK_MONOTONIC, which all share.

``python -m hil.bench.watchers crossed eth0 300000000``: when that many bytes had left by the interface since the start.
``python -m hil.bench.watchers alerts 9093``: each alert of this machine's Alertmanager, when first seen.
"""

from __future__ import annotations

import json
import sys
import time
import urllib.request
from pathlib import Path

_LOOK_S = 0.002
_ASK_S = 0.01
_TRANSMITTED = 8  # of /proc/net/dev: bytes transmitted, after eight columns of what was received


def _sent(device: str) -> int:
    for line in Path("/proc/net/dev").read_text(encoding="ascii").splitlines():
        name, colon, counters = line.partition(":")
        if colon and name.strip() == device:
            return int(counters.split()[_TRANSMITTED])
    raise SystemExit(f"there is no {device}")


def crossed(device: str, volume: int) -> None:
    """Print one time and end."""
    begin = _sent(device)
    print("ready", flush=True)
    while _sent(device) - begin <= volume:
        time.sleep(_LOOK_S)
    print(time.monotonic_ns(), flush=True)


def alerts(port: int) -> None:
    """Print a line of JSON for each new alert, for ever."""
    known: set[str] = set()
    while True:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v2/alerts", timeout=5) as answer:
                found = json.load(answer)
        except OSError:
            time.sleep(_ASK_S)
            continue
        now_ns = time.monotonic_ns()
        for alert in found:
            if alert["fingerprint"] not in known:
                known.add(alert["fingerprint"])
                print(json.dumps({"at_ns": now_ns, "labels": alert["labels"]}), flush=True)
        time.sleep(_ASK_S)


if __name__ == "__main__":
    if sys.argv[1] == "crossed":
        crossed(sys.argv[2], int(sys.argv[3]))
    else:
        alerts(int(sys.argv[2]))
