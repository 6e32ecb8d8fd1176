"""An agreement's document: what its TOML says, as values. Strict: an unknown key or an ambiguous unit is refused.

A whole document::

    version = 1
    site = "demo"
    number = 1                          # rises with every change
    valid_from = 2026-12-01T00:00:00Z
    valid_to = 2027-12-01T00:00:00Z
    longest_lease = "60s"               # no lease lives longer without being renewed

    [[limits]]
    of = "node"                         # "node": each of `names`; "pod": each pod, its nodes together; "pair"
    names = ["*"]                       # or names; a pair is written "node1 node2"
    class = "other-pod"                 # "other-pod", "front-end", "storage", "same-pod"
    direction = "both"                  # "egress", "ingress", "both"
    depth = "64kB"                      # of the token bucket
    bounds = [{window = "300s", bytes = "300MB"}, {window = "1h", bytes = "2GB"}]

    [loads]                             # without it there are no load windows
    classes = ["storage"]
    sources = ["198.51.100.0/24"]
    most = "300GB"
    longest = "30m"
    per_day = 2                         # for each node
    reverse = "10000ppm"                # acknowledgements and requests, of the bytes forward
    both_sign = true
"""

from __future__ import annotations

import datetime as dt
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from controller.errors import OperatorError
from protos.buckets import TrafficClass
from protos.lease import LEASED_CLASSES, Bound
from protos.reading import Direction
from protos.units import UnitError, parse_bytes, parse_duration_ns

VERSION = 1
EVERYONE = "*"
SCOPES = ("node", "pod", "pair")
DIRECTIONS = {
    "both": frozenset(Direction),
    "egress": frozenset({Direction.EGRESS}),
    "ingress": frozenset({Direction.INGRESS}),
}
MAX_DOCUMENT_BYTES = 1 << 18
PPM = 1_000_000
_NS_PER_US = 1_000
_CLASSES = {each.title: each for each in LEASED_CLASSES}
_DAY_NS = 86_400_000_000_000


@dataclass(frozen=True, slots=True)
class Limit:
    """One limit: in each of ``directions``, for ``traffic_class``, on each thing that ``scope`` and ``names`` say.

    ``depth_bytes`` is the token bucket's; ``place`` says where in the document it stands.
    """

    scope: str
    names: tuple[str, ...]
    traffic_class: TrafficClass
    directions: frozenset[Direction]
    depth_bytes: int
    bounds: tuple[Bound, ...]
    place: str

    def is_about(self, node: str, pod: str, traffic_class: TrafficClass, direction: Direction) -> bool:
        """Whether it bounds what ``node`` of ``pod`` moves in this class and direction.

        A pair's limit bounds either node: what a node moves to all others is no less than what it moves to one.
        """
        if traffic_class is not self.traffic_class or direction not in self.directions:
            return False
        if EVERYONE in self.names:
            return True
        if self.scope == "pair":
            return any(node in name.split() for name in self.names)
        return (pod if self.scope == "pod" else node) in self.names


@dataclass(frozen=True, slots=True)
class Loads:
    """The terms of load windows. ``reverse_ppm``: bytes against the window's direction, of those along it."""

    classes: frozenset[TrafficClass]
    sources: tuple[str, ...]
    most_bytes: int
    longest_ns: int
    per_day: int
    reverse_ppm: int
    both_sign: bool


@dataclass(frozen=True, slots=True)
class Agreement:
    """What a document says. Times are nanoseconds since 1970 UTC."""

    site: str
    number: int
    valid_from_ns: int
    valid_to_ns: int
    longest_lease_ns: int
    limits: tuple[Limit, ...]
    loads: Loads | None


def parse(content: bytes, name: str) -> Agreement:
    """Return the agreement in ``content``; ``name`` is where it came from, for messages.

    Raises:
        OperatorError: it is no agreement; the message names the place and the remedy.
    """
    import tomli  # noqa: PLC0415  for those who read a document

    if len(content) > MAX_DOCUMENT_BYTES:
        raise OperatorError(f"{name}: {len(content)} bytes are no agreement. Give the document.")
    try:
        values = tomli.loads(content.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise OperatorError(f"{name}: is not UTF-8 at byte {error.start}. Save it as UTF-8.") from error
    except ValueError as error:  # TOML's own, and numbers of thousands of digits
        raise OperatorError(f"{name}: is not TOML: {error}. Correct it there.") from error
    except RecursionError as error:
        raise OperatorError(f"{name}: is nested too deeply. Write it as its reference shows.") from error
    return _Table(name, "", values).agreement()


class _Table:
    """One table of the document; what is not taken is unknown."""

    def __init__(self, name: str, prefix: str, values: Mapping[str, Any]) -> None:
        self._name, self._prefix, self._left = name, prefix, dict(values)

    def agreement(self) -> Agreement:
        if self.integer("version", 1, VERSION) != VERSION:
            self.wrong("version", "is not known", f"write {VERSION}")
        agreement = Agreement(
            site=self.text("site"),
            number=self.integer("number", 1, 2**62),
            valid_from_ns=self.moment("valid_from"),
            valid_to_ns=self.moment("valid_to"),
            longest_lease_ns=self.duration("longest_lease"),
            limits=tuple(table.limit() for table in self.tables("limits")),
            loads=self.table("loads").loads() if "loads" in self._left else None,
        )
        self.refuse_rest()
        return agreement

    def limit(self) -> Limit:
        scope = self.one_of("of", SCOPES)
        names = self.texts("names")
        for one in names:
            if one != EVERYONE and (len(one.split()) == 2) != (scope == "pair"):
                self.wrong("names", f"has {one!r}", "name one thing, or for a pair two nodes with a space between")
        limit = Limit(
            scope=scope,
            names=names,
            traffic_class=_CLASSES[self.one_of("class", _CLASSES)],
            directions=DIRECTIONS[self.one_of("direction", DIRECTIONS)],
            depth_bytes=self.size("depth"),
            bounds=tuple(table.bound() for table in self.tables("bounds")),
            place=self._prefix.removesuffix("."),
        )
        if not limit.bounds:
            self.wrong("bounds", "is empty", 'write {window = "300s", bytes = "300MB"}')
        self.refuse_rest()
        return limit

    def bound(self) -> Bound:
        bound = Bound(self.duration("window"), self.size("bytes"))
        self.refuse_rest()
        return bound

    def loads(self) -> Loads:
        classes = self.texts("classes")
        for one in classes:
            if one not in _CLASSES:
                self.wrong("classes", f"has {one!r}", f"use {', '.join(_CLASSES)}")
        sources = self.texts("sources")
        for one in sources:
            self.check_prefix(one)
        loads = Loads(
            classes=frozenset(_CLASSES[one] for one in classes),
            sources=sources,
            most_bytes=self.size("most"),
            longest_ns=self.duration("longest"),
            per_day=self.integer("per_day", 1, 1_000),
            reverse_ppm=self.ppm("reverse"),
            both_sign=self.flag("both_sign"),
        )
        self.refuse_rest()
        return loads

    def check_prefix(self, source: str) -> None:
        try:
            ipaddress.ip_network(source)
        except ValueError as error:
            self.wrong("sources", f"has {source!r}, which is no prefix ({error})", "write it like 198.51.100.0/24")

    # ------------------------------------------------------------ values

    def wrong(self, key: str, problem: str, remedy: str) -> NoReturn:
        raise OperatorError(f"{self._name}: {self._prefix}{key}: {problem}; {remedy}.")

    def take(self, key: str) -> Any:
        if key not in self._left:
            self.wrong(key, "is missing", "add it")
        return self._left.pop(key)

    def text(self, key: str) -> str:
        value = self.take(key)
        if not isinstance(value, str) or not value.strip():
            self.wrong(key, f"{value!r} is not a text", "write a text in quotes, not empty")
        return str(value)

    def texts(self, key: str) -> tuple[str, ...]:
        value = self.take(key)
        if not isinstance(value, list) or not value or not all(isinstance(one, str) and one for one in value):
            self.wrong(key, f"{value!r} is not a list of texts", 'write ["node1"]')
        if len(set(value)) < len(value):
            self.wrong(key, "names one thing twice", "name each once")
        return tuple(value)

    def one_of(self, key: str, known: Mapping[str, Any] | tuple[str, ...]) -> str:
        value = self.text(key)
        if value not in known:
            self.wrong(key, f"{value!r} is unknown", f"use one of {', '.join(known)}")
        return value

    def integer(self, key: str, least: int, most: int) -> int:
        value = self.take(key)
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            self.wrong(key, f"{value!r} is not a number from {least} to {most}", "write one")
        return int(value)

    def flag(self, key: str) -> bool:
        value = self.take(key)
        if not isinstance(value, bool):
            self.wrong(key, f"{value!r} is neither true nor false", "write one of them, without quotes")
        return value

    def moment(self, key: str) -> int:
        value = self.take(key)
        if not isinstance(value, dt.datetime) or value.utcoffset() is None:
            self.wrong(key, f"{value!s} is not a time with its zone", "write 2026-12-01T00:00:00Z, without quotes")
        since = value - dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
        return since.days * _DAY_NS + since.seconds * 10**9 + since.microseconds * _NS_PER_US

    def duration(self, key: str) -> int:
        return self._quantity(key, parse_duration_ns)

    def size(self, key: str) -> int:
        return self._quantity(key, parse_bytes)

    def ppm(self, key: str) -> int:
        value = self.text(key)
        number = value.removesuffix("ppm").strip()
        if not value.endswith("ppm") or not number.isascii() or not number.isdigit() or int(number) > PPM:
            self.wrong(key, f"{value!r} is not parts per million", 'write "10000ppm" for one in a hundred')
        return int(number)

    def _quantity(self, key: str, parse_one: Any) -> int:
        try:
            value: int = parse_one(self.text(key))
        except UnitError as error:
            self.wrong(key, str(error), "write a number and its unit")
        if value <= 0:
            self.wrong(key, "must be more than zero", "an absent permission is not written")
        return value

    def table(self, key: str) -> _Table:
        value = self.take(key)
        if not isinstance(value, dict):
            self.wrong(key, "is not a table", f"write [{key}]")
        return _Table(self._name, f"{self._prefix}{key}.", value)

    def tables(self, key: str) -> list[_Table]:
        value = self.take(key)
        if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
            self.wrong(key, "is not a list of tables", f"write [[{key}]]")
        return [_Table(self._name, f"{self._prefix}{key}[{place}].", one) for place, one in enumerate(value, 1)]

    def refuse_rest(self) -> None:
        for key in self._left:
            self.wrong(key, "is not a key of an agreement", "remove it, or correct its spelling")
