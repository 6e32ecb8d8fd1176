"""The supervisor's control socket (one JSON line in, one out), and the loop that waits for it and for signals."""

from __future__ import annotations

import json
import selectors
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hil.supervisor import Supervisor, refusal

_LARGEST_REQUEST = 64 * 1024


class _Connection:
    """One client of the control socket: a request line in, an answer line out."""

    def __init__(self, peer: socket.socket, close: Callable[[_Connection], None]) -> None:
        self.peer, self._close, self._received = peer, close, b""
        peer.setblocking(False)

    def read(self, supervisor: Supervisor) -> None:
        try:
            data = self.peer.recv(_LARGEST_REQUEST)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        self._received += data
        if b"\n" in self._received:
            line = self._received.partition(b"\n")[0]
            self._received = b""
            try:
                request: Any = json.loads(line)
            except ValueError:
                request = None
            if isinstance(request, dict):
                supervisor.handle(request, self._answer)
            else:
                self._answer(refusal("a request is one line with a JSON object"))
        elif not data or len(self._received) > _LARGEST_REQUEST:
            self._close(self)

    def _answer(self, answer: dict[str, Any]) -> None:
        try:
            self.peer.setblocking(True)
            self.peer.settimeout(1.0)
            self.peer.sendall(json.dumps(answer).encode() + b"\n")
        except OSError as error:
            print(f"a client of the control socket went away: {error}", flush=True)
        self._close(self)


def serve(supervisor: Supervisor, socket_path: str, *, grace_s: float = 5.0) -> None:
    """Run until SIGTERM: start what is enabled, answer requests, restart what ends; then stop everything and return."""
    selector = selectors.DefaultSelector()
    signalled = _wake_on_signals(selector)
    supervisor.start_enabled()  # before the socket is there: who finds it, finds the services started
    listener = socket.socket(socket.AF_UNIX)
    unready = f"{socket_path}.new"  # renamed when it listens: who finds the socket may connect
    listener.bind(unready)
    Path(unready).chmod(0o600)
    listener.listen(16)
    listener.setblocking(False)
    Path(unready).rename(socket_path)

    def close(connection: _Connection) -> None:
        if connection.peer.fileno() >= 0:
            selector.unregister(connection.peer)
            connection.peer.close()

    def accept() -> None:
        connection = _Connection(listener.accept()[0], close)
        selector.register(connection.peer, selectors.EVENT_READ, lambda: connection.read(supervisor))

    selector.register(listener, selectors.EVENT_READ, accept)
    while not signalled.intersection((signal.SIGTERM, signal.SIGINT)):
        _turn(supervisor, selector, None)
    all_stopped: list[bool] = []
    supervisor.end(lambda: all_stopped.append(True))
    deadline = time.monotonic() + grace_s
    while not all_stopped and time.monotonic() < deadline:
        _turn(supervisor, selector, 0.1)


def _turn(supervisor: Supervisor, selector: selectors.BaseSelector, longest_s: float | None) -> None:
    supervisor.reap()
    waits = [wait for wait in (supervisor.tick(), longest_s) if wait is not None]
    for key, _events in selector.select(min(waits, default=None)):
        key.data()


def _wake_on_signals(selector: selectors.BaseSelector) -> set[int]:
    """Let signals interrupt the wait; return the set into which their numbers will be put."""
    received: set[int] = set()
    read, write = socket.socketpair()
    for end in (read, write):
        end.setblocking(False)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: None)  # the byte on the socket is the message
    signal.set_wakeup_fd(write.fileno(), warn_on_full_buffer=False)
    # The closure holds both ends: a socket without a reference is closed.
    selector.register(read, selectors.EVENT_READ, lambda ends=(read, write): received.update(ends[0].recv(4096)))
    return received
