"""A real Prometheus (Debian's) asked about the same counters: how long it takes, and how far off it is.

The samples are imported as blocks (``promtool tsdb create-blocks-from openmetrics``), so nothing is scraped and no time
has to pass; the server answers on a port of 127.0.0.1 that it alone uses, and ends with the block.
"""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType

START_TIMEOUT_S = 60
METRIC = "bytes_total"
Samples = Sequence[tuple[int, int]]
"""Whole seconds since 1970, and the counter's value then."""


def missing() -> str | None:
    """Return what is not installed, None if nothing is missing."""
    absent = [program for program in ("prometheus", "promtool") if shutil.which(program) is None]
    return f"{' and '.join(absent)} not installed (Debian's package prometheus)" if absent else None


def exposition(series: Mapping[str, Samples]) -> Iterable[str]:
    """Yield the lines of an OpenMetrics text with each sample's own time."""
    yield f"# TYPE {METRIC.removesuffix('_total')} counter\n"
    for case, samples in series.items():
        for at, value in samples:
            yield f'{METRIC}{{case="{case}"}} {value} {at}\n'
    yield "# EOF\n"


class Prometheus:
    """A server over imported samples, as a context manager.

    Raises:
        RuntimeError: it could not import them, or does not come up; the text has what it said.
    """

    def __init__(self, series: Mapping[str, Samples]) -> None:
        self._series = series

    def __enter__(self) -> Prometheus:  # noqa: PYI034 typing.Self is Python 3.11's
        self._folder = tempfile.TemporaryDirectory(prefix="weighbridge-bench-")
        folder = Path(self._folder.name)
        text, config = folder / "samples.txt", folder / "prometheus.yml"
        with text.open("w", encoding="ascii") as file:
            file.writelines(exposition(self._series))
        config.write_text("global: {}\n", encoding="ascii")
        blocks = folder / "data"
        command = ["promtool", "tsdb", "create-blocks-from", "openmetrics", str(text), str(blocks)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            self._folder.cleanup()
            raise RuntimeError(f"promtool: {done.stderr.strip()}")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._address = f"127.0.0.1:{free.getsockname()[1]}"
        self._log = (folder / "log").open("w", encoding="utf-8")
        self._server = subprocess.Popen(
            [
                "prometheus",
                f"--config.file={config}",
                f"--storage.tsdb.path={blocks}",
                "--storage.tsdb.retention.time=100y",
                f"--web.listen-address={self._address}",
            ],
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
        )
        try:
            self._wait(folder / "log")
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.terminate()
        try:
            self._server.wait(30)
        except subprocess.TimeoutExpired:
            self._server.kill()
            self._server.wait()
        self._log.close()
        self._folder.cleanup()

    def _wait(self, log: Path) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            try:
                with urllib.request.urlopen(f"http://{self._address}/-/ready", timeout=5) as answer:
                    if answer.status == 200:
                        return
            except OSError:
                pass
            if self._server.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"prometheus does not come up: {log.read_text('utf-8')[-500:]}")
            time.sleep(0.05)

    def ask(self, query: str, at: int) -> float:
        """Return the one value that a query has at a time; 0 where it has none.

        Raises:
            RuntimeError: the server refuses the query.
        """
        parameters = urllib.parse.urlencode({"query": query, "time": str(at), "timeout": "10m"})
        try:
            with urllib.request.urlopen(f"http://{self._address}/api/v1/query?{parameters}", timeout=600) as answer:
                body = json.load(answer)
        except urllib.error.HTTPError as error:
            raise RuntimeError(f"{query}: {error.read().decode()[:300]}") from error
        result = body["data"]["result"]
        return float(result[0]["value"][1]) if result else 0.0
