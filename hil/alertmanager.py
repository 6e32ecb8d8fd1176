"""A real Alertmanager (Debian's) on a port of 127.0.0.1 that it alone uses, as a context manager."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any

PROGRAM = "prometheus-alertmanager"
START_TIMEOUT_S = 60
_CONFIG = "route: {receiver: nobody}\nreceivers: [{name: nobody}]\n"


def missing() -> str | None:
    """Return what is not installed, None if nothing is missing."""
    return None if shutil.which(PROGRAM) else f"{PROGRAM} not installed (Debian's package of that name)"


def free_port() -> int:
    """Return a port of 127.0.0.1 that nobody uses now."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


class Alertmanager:
    """The server, on ``port`` or on one that is free.

    Raises:
        RuntimeError: it does not come up; the text has what it said.
    """

    def __init__(self, port: int | None = None) -> None:
        self.port = port or free_port()
        self.url = f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Alertmanager:  # noqa: PYI034 typing.Self is Python 3.11's
        self._folder = tempfile.TemporaryDirectory(prefix="weighbridge-alertmanager-")
        folder = Path(self._folder.name)
        config = folder / "alertmanager.yml"
        config.write_text(_CONFIG, encoding="ascii")
        self._log = (folder / "log").open("w", encoding="utf-8")
        self._server = subprocess.Popen(
            [
                PROGRAM,
                f"--config.file={config}",
                f"--storage.path={folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{self.port}",
                "--cluster.listen-address=",
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

    def alerts(self) -> list[dict[str, Any]]:
        """Return the alerts that it has and that are not over."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/api/v2/alerts", timeout=5) as answer:
            found: list[dict[str, Any]] = json.load(answer)
        return found

    def _wait(self, log: Path) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/-/ready", timeout=5) as answer:
                    if answer.status == 200:
                        return
            except OSError:
                pass
            if self._server.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{PROGRAM} does not come up: {log.read_text('utf-8')[-500:]}")
            time.sleep(0.05)
