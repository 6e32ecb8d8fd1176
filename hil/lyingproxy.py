"""A proxy in front of a host's exporter that reports less than the host sent: the prover's lie, for tests.

For one device, the byte and packet counters of both directions become ``base + (now - base) // factor``, where
``base`` is the true value at the proxy's first scrape, taken before it begins to serve: so the claim neither jumps
nor goes backwards when the lie begins. Everything else passes through as it is.

``python -m hil.lyingproxy --listen 10.250.0.31:9100 --exporter 127.0.0.1:19100 --factor 100 --device eth0``
"""

from __future__ import annotations

import argparse
import http.client
import re
import sys
import time
from collections.abc import Mapping
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, HTTPServer

_COUNTER = re.compile(
    r"^(?P<name>node_network_(?:transmit|receive)_(?:bytes|packets)_total)"
    r'\{device="(?P<device>[^"]+)"\} (?P<value>\S+)$',
    re.MULTILINE,
)
_LONGEST_START_S = 10.0


def counters(text: str, device: str) -> dict[str, int]:
    """Return the device's counters by metric name; numbers as the exporter prints them (``1.234567e+06``)."""
    found = _COUNTER.finditer(text)
    return {match["name"]: int(Decimal(match["value"])) for match in found if match["device"] == device}


def rewrite(text: str, device: str, base: Mapping[str, int], factor: int) -> str:
    """Return the exporter's text with the device's counters belittled; see the module."""

    def replace(match: re.Match[str]) -> str:
        name = match["name"]
        if match["device"] != device or name not in base:
            return match[0]
        now = int(Decimal(match["value"]))
        claim = base[name] + (now - base[name]) // factor
        return f'{name}{{device="{device}"}} {claim}'

    return _COUNTER.sub(replace, text)


class Exporter:
    """The true exporter."""

    def __init__(self, address: str) -> None:
        self._address = address

    def get(self, path: str) -> tuple[int, str, bytes]:
        """Return status, content type and body of a GET.

        Raises:
            OSError: it does not answer.
        """
        connection = http.client.HTTPConnection(self._address, timeout=5)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.headers.get("Content-Type", "text/plain"), answer.read()
        finally:
            connection.close()

    def first_counters(self, device: str) -> dict[str, int]:
        """Return the device's counters as soon as the exporter serves them.

        Raises:
            OSError: it does not within ten seconds.
        """
        deadline = time.monotonic() + _LONGEST_START_S
        while True:
            try:
                return counters(self.get("/metrics")[2].decode(), device)
            except OSError:
                if time.monotonic() > deadline:
                    raise
            time.sleep(0.02)


def handler(exporter: Exporter, device: str, base: Mapping[str, int], factor: int) -> type[BaseHTTPRequestHandler]:
    """Return the request handler that tells the lie."""

    class Lie(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            try:
                status, kind, body = exporter.get(self.path)
            except OSError as error:
                self.send_error(502, f"the exporter does not answer: {error}")
                return
            lie = rewrite(body.decode(), device, base, factor).encode()
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(lie)))
            self.end_headers()
            self.wfile.write(lie)

        def log_message(self, *_arguments: object) -> None:
            return  # one line a scrape is noise

    return Lie


def main(arguments: list[str] | None = None) -> int:
    """Serve until killed."""
    parser = argparse.ArgumentParser(prog="hil.lyingproxy")
    parser.add_argument("--listen", required=True, help="address:port")
    parser.add_argument("--exporter", required=True, help="address:port of the true exporter")
    parser.add_argument("--factor", required=True, type=int)
    parser.add_argument("--device", required=True)
    chosen = parser.parse_args(arguments)
    if chosen.factor < 1:
        parser.error("--factor must be at least 1")
    exporter = Exporter(chosen.exporter)
    base = exporter.first_counters(chosen.device)
    host, _, port = chosen.listen.rpartition(":")
    with HTTPServer((host, int(port)), handler(exporter, chosen.device, base, chosen.factor)) as server:
        print(f"lying about {chosen.device} by a factor of {chosen.factor} from {base}", file=sys.stderr, flush=True)
        server.serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main())
