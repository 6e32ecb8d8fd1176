"""From the first byte over a limit to the alert in Alertmanager, here and with the report's stack, in the same runs.

The limit is the report's: 1 MB/s over five minutes, 300 MB. Each round has its own journal, Prometheus and
Alertmanager (Debian's), so that no old window lingers; four links carry two all-reduces at once. The report's stack is
node_exporter on each host, scraped every 15 s, and a rule over ``rate(...[5m])`` evaluated every 15 s; both tell the
same Alertmanager. The first byte over the limit is read off the host's own counter every 2 ms.
"""

from __future__ import annotations

import json
import queue
import random
import shutil
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

from controller.errors import WeighbridgeError
from hil import phases, rigfile
from hil.bench.figure import Figure
from hil.machine import PROJECT
from hil.operation import Operation
from hil.plan import CONTROLLER
from hil.rig import Rig

ROUNDS = 5
LIMIT_BYTES = 300_000_000
RATE = "25MB/s"
TRAFFIC_S = 75
GOAL_S = 2.0
SETTLE_S = 32.0
"""Prometheus has scraped each host at least twice before the traffic begins."""
_DRAINED_S = 4.0
_PAIRS = (("node1", "node3"), ("node2", "node4"))
_ALERTMANAGER, _PROMETHEUS = 9093, 9090
_FOLDER = Path("build/bench/rules")
_RULE = "HighTraffic"
_RULES = "version: 1\nrules:\n- {name: report-rate, kind: rate, window: 5min, rate: 1MB/s}\n"
_ALERTS = f"version: 1\nreceivers:\n- {{name: am, kind: alertmanager, url: 'http://127.0.0.1:{_ALERTMANAGER}'}}\n"


def missing() -> str | None:
    """Return what is not installed, None if nothing is missing."""
    absent = [name for name in ("prometheus", "prometheus-alertmanager") if shutil.which(name) is None]
    return f"{' and '.join(absent)} not installed (Debian's packages)" if absent else None


def figures() -> Iterator[Figure]:
    """Yield the latencies of both stacks; about eight minutes."""
    gone = missing()
    if gone is not None:
        yield Figure("rules.latency.weighbridge.maximum", None, "s", GOAL_S, note=gone)
        return
    ours: list[float] = []
    theirs: list[float] = []
    lacking = 0
    with Rig.up(rigfile.load(rigfile.find("demo")), _FOLDER / "rig", name="benchrules", progress=_say) as rig:
        operation = Operation(rig, _FOLDER / "logs")
        for number in range(ROUNDS):
            _say(f"round {number + 1} of {ROUNDS}")
            found = _round(operation, number)
            ours += [each for each, _ in found if each is not None]
            theirs += [each for _, each in found if each is not None]
            lacking += sum(each is None for pair in found for each in pair)
    yield from _told("weighbridge", ours, GOAL_S)
    yield from _told("report_stack", theirs, None)
    if ours and theirs:
        ratio = statistics.median(theirs) / max(1e-3, statistics.median(ours))
        yield Figure("rules.latency.times_sooner", round(ratio, 1), "1", note="medians of the same runs")
    yield Figure("rules.latency.alerts_that_never_came", lacking, "1", 0, note=f"of {2 * 4 * ROUNDS}")


def _told(stack: str, seconds: list[float], goal: float | None) -> Iterator[Figure]:
    note = f"{len(seconds)} alerts, from the first byte over 300 MB in five minutes to Alertmanager"
    median = statistics.median(seconds) if seconds else None
    yield Figure(f"rules.latency.{stack}.median", None if median is None else round(median, 3), "s", goal, note=note)
    most = round(max(seconds), 3) if seconds else None
    least = f"; least {min(seconds):.3f} s" if seconds else ""
    yield Figure(f"rules.latency.{stack}.maximum", most, "s", goal, note=note + least)


def _round(operation: Operation, number: int) -> list[tuple[float | None, float | None]]:
    """Return the latency of each node's alert, ours and theirs."""
    rig, state = operation.rig, operation.rig.state
    for old in state.glob("journal.db*"):
        shutil.rmtree(old) if old.is_dir() else old.unlink()
    if number == 0:
        operation.prepare()
    else:
        operation.weighbridge("init", str(operation.site_file))
        operation.deploy()
    (state / "rules.yaml").write_text(_RULES, encoding="ascii")
    (state / "alerts.yaml").write_text(_ALERTS, encoding="ascii")
    with ExitStack() as closing:
        _start_stack(rig, _FOLDER / f"round{number}", closing)
        operation.start("--rules", str(state / "rules.yaml"), "--alerts", str(state / "alerts.yaml"))
        closing.callback(operation.kill)
        seen = _watch(rig, closing)
        time.sleep(SETTLE_S)
        crossings = {node: _crossing(rig, node, closing) for pair in _PAIRS for node in pair}
        alerts: dict[tuple[str, str], int] = {}
        with ExitStack() as traffic:
            rng = random.Random(number)
            for pair in _PAIRS:
                # So that the phases of frames, scrapes and evaluations differ.
                time.sleep(rng.random())
                traffic.enter_context(phases.running(rig, phases.all_reduce(rig, pair, TRAFFIC_S, rate=RATE)))
            deadline = time.monotonic() + TRAFFIC_S
            while time.monotonic() < deadline and len(alerts) < 2 * len(crossings):
                with suppress(queue.Empty):
                    _sort(seen.get(timeout=0.5), alerts)
        # Every frame with traffic in it is taken before the run ends: the next run must find none of it in a spool.
        time.sleep(_DRAINED_S)
        operation.stop()
        times = {node: _line(process) for node, process in crossings.items()}
    return [
        (_apart(times[node], alerts.get(("ours", node))), _apart(times[node], alerts.get(("theirs", node))))
        for node in times
    ]


def _sort(found: dict[str, object], alerts: dict[tuple[str, str], int]) -> None:
    labels, at_ns = found["labels"], found["at_ns"]
    if not isinstance(labels, dict) or not isinstance(at_ns, int):
        return
    if labels["alertname"] == _RULE:
        alerts.setdefault(("theirs", labels["node"]), at_ns)
    elif labels.get("rule") == "report-rate" and labels["place"].endswith(" egress"):
        alerts.setdefault(("ours", labels["place"].split()[1]), at_ns)


def _apart(from_ns: int | None, to_ns: int | None) -> float | None:
    return None if from_ns is None or to_ns is None else (to_ns - from_ns) / 1e9


def _start_stack(rig: Rig, folder: Path, closing: ExitStack) -> None:
    """Start an Alertmanager and a Prometheus that know nothing yet, in the controller's machine."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    folder = folder.resolve()
    (folder / "alertmanager.yml").write_text("route: {receiver: nobody}\nreceivers: [{name: nobody}]\n", "ascii")
    targets = [
        {
            "targets": [f"{rig.plan.machines[node].management_address}:{rig.file.exporter.port}"],
            "labels": {"node": node},
        }
        for node in rig.file.nodes()
    ]
    config = {
        "global": {"scrape_interval": "15s", "evaluation_interval": "15s"},
        "rule_files": [str(folder / "alert.rules")],
        "alerting": {"alertmanagers": [{"static_configs": [{"targets": [f"127.0.0.1:{_ALERTMANAGER}"]}]}]},
        "scrape_configs": [{"job_name": "node", "static_configs": targets}],
    }
    expression = 'rate(node_network_transmit_bytes_total{device="eth0"}[5m]) > 1000000'
    rules = {"groups": [{"name": "report", "rules": [{"alert": _RULE, "expr": expression}]}]}
    (folder / "prometheus.yml").write_text(json.dumps(config), "ascii")
    (folder / "alert.rules").write_text(json.dumps(rules), "ascii")
    _daemon(
        rig,
        folder / "alertmanager.log",
        closing,
        "prometheus-alertmanager",
        f"--config.file={folder / 'alertmanager.yml'}",
        f"--storage.path={folder / 'alertmanager'}",
        f"--web.listen-address=127.0.0.1:{_ALERTMANAGER}",
        "--cluster.listen-address=",
    )
    _daemon(
        rig,
        folder / "prometheus.log",
        closing,
        "prometheus",
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'prometheus'}",
        f"--web.listen-address=127.0.0.1:{_PROMETHEUS}",
    )


def _daemon(rig: Rig, log: Path, closing: ExitStack, *argv: str) -> None:
    file = closing.enter_context(log.open("w", encoding="utf-8"))
    closing.callback(_end, rig.machine(CONTROLLER).popen(list(argv), stdout=file, stderr=file))


def _end(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _watch(rig: Rig, closing: ExitStack) -> queue.Queue[dict[str, object]]:
    argv = [sys.executable, "-m", "hil.bench.watchers", "alerts", str(_ALERTMANAGER)]
    process = rig.machine(CONTROLLER).popen(argv, cwd=PROJECT, stdout=subprocess.PIPE)
    seen: queue.Queue[dict[str, object]] = queue.Queue()

    def read() -> None:
        for line in process.stdout or ():
            seen.put(json.loads(line))

    thread = threading.Thread(target=read)
    thread.start()
    closing.callback(thread.join)
    closing.callback(_end, process)
    return seen


def _crossing(rig: Rig, node: str, closing: ExitStack) -> subprocess.Popen[str]:
    argv = [sys.executable, "-m", "hil.bench.watchers", "crossed", "eth0", str(LIMIT_BYTES)]
    process = rig.machine(node).popen(argv, cwd=PROJECT, stdout=subprocess.PIPE)
    closing.callback(_end, process)
    if process.stdout is None or process.stdout.readline().strip() != "ready":
        raise WeighbridgeError(f"{node}: its counter cannot be watched")
    return process


def _line(process: subprocess.Popen[str]) -> int | None:
    """Return the time it printed; None if it did not cross."""
    if process.poll() is None:
        return None
    said = process.stdout.read().strip() if process.stdout else ""
    return int(said) if said else None


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
