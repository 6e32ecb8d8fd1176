"""Serves a witness over HTTP (c2sp.org/tlog-witness): ``POST /add-checkpoint``, and what it saw last, for anybody.

``GET /HASH/checkpoint`` returns the last checkpoint cosigned for the log whose name has that SHA-256, in hexadecimal.
Whoever asks is not asked who they are: a request counts by the log's signature alone.
"""

from __future__ import annotations

import hashlib
import sys
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import BaseServer
from typing import Any, ClassVar

from controller.errors import WeighbridgeError
from controller.witness import MAX_REQUEST_BYTES, RefusalError
from controller.witness_store import Witness

TIMEOUT_S = 10.0
"""A client that sends nothing for so long is let go."""

MAX_CONNECTIONS = 32

_SIZE_TYPE = "text/x.tlog.size"
_TEXT = "text/plain; charset=utf-8"


class WitnessServer(ThreadingHTTPServer):
    """A witness at an address; ``serve_forever`` and ``shutdown`` are the standard library's."""

    daemon_threads = True
    # A witness that is started again at once must get its port.
    allow_reuse_address = True

    def __init__(self, address: tuple[str, int], witness: Witness) -> None:
        """Listen at ``address``; port 0 takes a free one.

        Raises:
            OSError: it is taken.
        """
        self.witness = witness
        self._slots = threading.BoundedSemaphore(MAX_CONNECTIONS)
        super().__init__(address, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Take a connection if fewer than the most are open; else close it."""
        if self._slots.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve one connection in its thread."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._slots.release()

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002  the base class's
        """Say which client broke off; a witness goes on."""
        print(f"{client_address[0]}: {sys.exc_info()[1]}", file=sys.stderr, flush=True)  # noqa: T201


class _Handler(BaseHTTPRequestHandler):
    timeout: ClassVar[float] = TIMEOUT_S
    protocol_version = "HTTP/1.1"
    server_version = "weighbridge-witness"
    sys_version = ""
    server: BaseServer

    @property
    def _witness(self) -> Witness:
        assert isinstance(self.server, WitnessServer)  # noqa: S101  who else would use this handler
        return self.server.witness

    def do_POST(self) -> None:
        """``add-checkpoint``."""
        length = "" if "transfer-encoding" in self.headers else self.headers.get("content-length", "")
        if not (length.isascii() and length.isdigit()) or len(length) > 9 or int(length) > MAX_REQUEST_BYTES:
            # What was not read would be taken for the next request.
            self.close_connection = True
            self._answer(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a request has at most {MAX_REQUEST_BYTES} bytes\n")
            return
        raw = self.rfile.read(int(length))
        if not self.path.endswith("/add-checkpoint"):
            self._answer(HTTPStatus.NOT_FOUND, "POST to /add-checkpoint\n")
            return
        try:
            self._answer(HTTPStatus.OK, self._witness.add_checkpoint(raw).decode("utf-8"))
        except RefusalError as refusal:
            if refusal.size is not None:
                self._answer(HTTPStatus(refusal.status), f"{refusal.size}\n", _SIZE_TYPE)
                return
            self._say(f"refused: {refusal}")
            self._answer(HTTPStatus(refusal.status), f"{refusal}\n")
        except WeighbridgeError as error:
            # Where the witness keeps what is its own business.
            self._say(str(error))
            self._answer(HTTPStatus.INTERNAL_SERVER_ERROR, "the witness cannot cosign now\n")

    def do_GET(self) -> None:
        """The last checkpoint of one log."""
        # A body that came with it is not read, and must not be taken for the next request.
        self.close_connection = True
        wanted = self.path.strip("/").split("/")
        try:
            names = {hashlib.sha256(name.encode()).hexdigest(): name for name in self._witness.logs()}
            note = self._witness.last(names[wanted[0]]) if len(wanted) == 2 and wanted[1] == "checkpoint" else None
        except KeyError:
            note = None
        except WeighbridgeError as error:
            self._say(str(error))
            self._answer(HTTPStatus.INTERNAL_SERVER_ERROR, "the witness cannot read what it keeps\n")
            return
        if note is None:
            self._answer(HTTPStatus.NOT_FOUND, "there is no such checkpoint\n")
        else:
            self._answer(HTTPStatus.OK, note.encode().decode("utf-8"))

    def _answer(self, status: HTTPStatus, text: str, kind: str = _TEXT) -> None:
        body = text.encode("utf-8")
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def _say(self, text: str) -> None:
        # It may quote what a stranger sent.
        shown = "".join(each if each.isprintable() else "?" for each in text)
        print(f"{self.client_address[0]}: {shown}", file=sys.stderr, flush=True)  # noqa: T201

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  the base class's name
        """Say nothing of what went well: one line a minute and log would bury what matters."""
