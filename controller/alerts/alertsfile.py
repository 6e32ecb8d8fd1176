"""The alerts file: who is told of findings. Strict YAML; every error with its line and its remedy.

It is the verifier's own and no part of the site file, which both sides have and the journal keeps. Secrets stand in
files of their own.

==================  ==================  ======================================================================
key of a receiver   default             meaning
==================  ==================  ======================================================================
name                                    unique
kind                                    ``alertmanager``, ``webhook`` or ``stdout``
url                                     of the server; for Alertmanager without ``/api/v2/alerts``
least               warning             severity from which on it is told: ``warning`` or ``page``
repeat              1min, others 4h     how often an alert that goes on is told again
group_wait          1s                  webhook, stdout: what comes together is told together
group_interval      30s                 webhook, stdout: shortest time between two messages about one place
bearer_token_file                       file that holds the token for the server
user, password_file                     the same for basic authentication
ca_file             the system's        certificates to trust for ``https``
insecure            false               whether a secret may go over ``http`` to another machine
==================  ==================  ======================================================================
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit

from controller import site_yaml
from controller.alerts.outbox import Rhythm
from controller.errors import OperatorError
from controller.rules.finding import Severity
from controller.site_secrets import read_secret
from controller.site_yaml import Place
from controller.strictreader import StrictReader
from protos.units import NS_PER_S, parse_duration_ns

VERSION = 1
KINDS = ("alertmanager", "webhook", "stdout")
RHYTHM = Rhythm(repeat_ns=60 * NS_PER_S)
LONGEST_REPEAT_NS = 7 * 86_400 * NS_PER_S
_EVERY = ("name", "kind", "least", "repeat")
_SERVER = ("url", "bearer_token_file", "user", "password_file", "ca_file", "insecure")
_GROUPED = ("group_wait", "group_interval")
_KEYS = {
    "alertmanager": (*_EVERY, *_SERVER),
    "webhook": (*_EVERY, *_SERVER, *_GROUPED),
    "stdout": (*_EVERY, *_GROUPED),
}
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True, slots=True)
class Receiver:
    """One receiver. ``secret`` is ``(user, password)``, or ``("", token)``; it is never printed."""

    name: str
    kind: str
    url: str = ""
    least: Severity = Severity.WARNING
    rhythm: Rhythm = RHYTHM
    secret: tuple[str, str] | None = None
    ca_file: Path | None = None

    def __repr__(self) -> str:
        return f"Receiver({self.name!r}, {self.kind!r}, {self.url!r})"


def load_alerts(path: Path) -> tuple[Receiver, ...]:
    """Read and check an alerts file and the secret files it names.

    Raises:
        SiteFileError: with file, line, what is wrong and what to do; one error may report several.
        OperatorError: it cannot be read.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise OperatorError(f"{path}: cannot be read ({error.strerror}). Name an alerts file.") from error
    reader = _Reader(site_yaml.parse(content, path))
    receivers = reader.read()
    reader.finish()
    return receivers


class _Reader(StrictReader):
    def read(self) -> tuple[Receiver, ...]:
        top = self.section((), self.file.values, ("version", "receivers"))
        self.version(top, VERSION)
        found = top.get("receivers")
        if not isinstance(found, list) or not found:
            self.wrong(("receivers",), "a list of receivers is expected", "Write `receivers: [{name: ..., kind: ...}]`")
            return ()
        receivers = [self._receiver(("receivers", at), each) for at, each in enumerate(found)]
        for at, receiver in enumerate(receivers):
            if receiver.name in [other.name for other in receivers[:at]]:
                self.wrong(
                    ("receivers", at, "name"), f"two receivers are called `{receiver.name}`", "Give each its own name"
                )
        return tuple(receivers)

    def _receiver(self, place: Place, found: Any) -> Receiver:
        kind = found.get("kind", KINDS[0]) if isinstance(found, dict) else KINDS[0]
        kind = self.choice((*place, "kind"), kind, KINDS, "kind of receiver")
        section = self.section(place, found, _KEYS[kind])
        for key in ("name", "kind", *(("url",) if kind != "stdout" else ())):
            if key not in section:
                self.wrong(place, f"the receiver has no `{key}`", f"Add `{key}:`")
        least = self.choice((*place, "least"), section.get("least", "warning"), ("warning", "page"), "severity")
        grouped = kind != "alertmanager"
        return Receiver(
            name=self.name((*place, "name"), section.get("name", "x")),
            kind=kind,
            url=self._url((*place, "url"), section["url"]) if "url" in section else "",
            least=Severity(least),
            rhythm=Rhythm(
                self._duration(place, section, "repeat", "4h" if grouped else "1min"),
                self._duration(place, section, "group_wait", "1s") if grouped else 0,
                self._duration(place, section, "group_interval", "30s") if grouped else 0,
                grouped,
            ),
            secret=self._secret(place, section),
            ca_file=self._certificates(place, section),
        )

    def _duration(self, place: Place, section: Mapping[str, Any], key: str, default: str) -> int:
        length = self.quantity((*place, key), section.get(key, default), parse_duration_ns, default)
        if length > LONGEST_REPEAT_NS:
            self.wrong((*place, key), f"`{section[key]}` is longer than a week", "Use a shorter one")
        return length

    def _url(self, place: Place, found: Any) -> str:
        parts = _split(found)
        if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
            self.wrong(place, f"`{found}` is no address of a server", "Write it like `http://192.0.2.7:9093`")
            return ""
        if parts.username is not None or parts.password is not None or parts.fragment:
            self.wrong(place, "a user, a password or a fragment stands in the URL", "Use `user` and `password_file`")
        return str(found)

    def _secret(self, place: Place, section: Mapping[str, Any]) -> tuple[str, str] | None:
        if ("user" in section) != ("password_file" in section):
            self.wrong(place, "`user` and `password_file` go together", "Add the other one")
            return None
        if "user" in section and "bearer_token_file" in section:
            self.wrong((*place, "bearer_token_file"), "there are two ways to authenticate", "Keep one of them")
            return None
        insecure = section.get("insecure", False)
        if not isinstance(insecure, bool):
            self.wrong((*place, "insecure"), f"`{insecure}` is neither true nor false", "Write `insecure: true`")
        key = "password_file" if "user" in section else "bearer_token_file"
        if key not in section:
            return None
        parts = _split(section.get("url"))
        if parts is not None and parts.scheme == "http" and parts.hostname not in _LOOPBACK and insecure is not True:
            remedy = "Use https, or write `insecure: true` beside it to accept that"
            self.wrong((*place, key), "the secret would go over the network in clear", remedy)
        try:
            secret = read_secret(self._path((*place, key), section[key]))
        except OperatorError as error:
            self.wrong((*place, key), str(error).rstrip("."), "The file must be there and private")
            return None
        if not secret.isascii() or not secret.isprintable():
            self.wrong((*place, key), f"{section[key]} does not hold one line of ASCII", "Write the secret alone")
        return (self.text((*place, "user"), section.get("user", "")), secret)

    def _certificates(self, place: Place, section: Mapping[str, Any]) -> Path | None:
        if "ca_file" not in section:
            return None
        path = self._path((*place, "ca_file"), section["ca_file"])
        try:
            ssl.create_default_context(cafile=str(path))
        except (OSError, ssl.SSLError) as error:
            self.wrong((*place, "ca_file"), f"{path}: no certificates can be read ({error})", "Name a PEM file")
        return path

    def _path(self, place: Place, found: Any) -> Path:
        return self.file.path.parent / self.text(place, found)


def _split(found: Any) -> SplitResult | None:
    try:
        parts = urlsplit(found) if isinstance(found, str) and found.isascii() and found.isprintable() else None
        _ = None if parts is None else parts.port
    except ValueError:
        return None
    return parts
