"""What a site declares: the inference it runs, the computing of a pod, its model loads. From a table of TOML.

::

    version = 1

    [pod]                          # what one pod could train with
    flops-per-s = "1.8e17"         # peak of the whole pod, dense
    mfu = "0.4"
    local-batch-tokens = "4e6"     # tokens a pod would compute in a step

    [[inference]]
    name = "chat"
    pods = ["*"]                   # or names
    class = "front-end"            # the traffic class it leaves by
    tokens-per-s = "10000"         # as `weighbridge plan inference` takes them
    gpus = "72"
    bytes-per-token = "2"

    [loads]                        # without it no load windows are drafted
    class = "storage"
    sources = ["198.51.100.0/24"]
    params = "671e9"
    weight-bytes = "1"
    longest = "30m"
    per-day = 2
    reverse-ppm = 10000

    [[adversary]]                  # besides the built-in ones; see `weighbridge plan training`
    name = "ours"
    method = "diloco"
    params = "8e9"
    nodes = "2"
    bits = "8"
    sync-steps = "100"
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from controller.planner import quantities as kind
from controller.planner.inference import InferencePlan, load_bytes, plan_inference
from controller.planner.marks import PlanError
from controller.planner.quantities import Quantity, read
from protos.lease import LEASED_CLASSES

VERSION = 1
EVERYONE = "*"
CLASSES = tuple(each.title for each in LEASED_CLASSES)
_COMPUTE: dict[str, Quantity] = {
    "flops-per-s": kind.FLOPS,
    "mfu": kind.SHARE,
    "local-batch-tokens": kind.MODEL,
}
_MOST_PER_DAY = 1_000
_MOST_PPM = 999_999


@dataclass(frozen=True, slots=True)
class Workload:
    """One inference workload of each of ``pods``."""

    name: str
    pods: tuple[str, ...]
    traffic_class: str
    plan: InferencePlan

    def is_of(self, pod: str) -> bool:
        """Whether ``pod`` runs it."""
        return EVERYONE in self.pods or pod in self.pods


@dataclass(frozen=True, slots=True)
class LoadTerms:
    """The load windows a pod's node needs: bytes of one, its time, how many a day, the reverse share."""

    traffic_class: str
    sources: tuple[str, ...]
    bytes: int
    longest: str
    longest_s: Fraction
    per_day: int
    reverse_ppm: int


@dataclass(frozen=True, slots=True)
class Workloads:
    """Everything declared. ``compute`` has the texts of the pod's table."""

    compute: dict[str, str]
    inference: tuple[Workload, ...]
    loads: LoadTerms | None
    adversaries: dict[str, dict[str, str]]


def parse_workloads(values: Mapping[str, Any], name: str) -> Workloads:
    """Return what a parsed TOML document declares; ``name`` is where it came from, for messages.

    Raises:
        PlanError: it is wrong; the message has the place and the remedy.
    """
    table = _Table(name, "", values)
    if table.take("version") != VERSION:
        raise table.wrong("version", f"must be {VERSION}")
    pod = table.table("pod")
    compute = {key: pod.quantity(key, quantity) for key, quantity in _COMPUTE.items()}
    pod.finish()
    inference = tuple(_workload(each) for each in table.tables("inference"))
    adversaries = dict(_adversary(each) for each in table.tables("adversary"))
    loads = _loads(table.table("loads")) if table.has("loads") else None
    table.finish()
    return Workloads(compute, inference, loads, adversaries)


def _workload(table: _Table) -> Workload:
    name, pods = table.text("name"), table.texts("pods")
    traffic_class = table.one_of("class", CLASSES)
    given = table.rest()
    try:
        return Workload(name, pods, traffic_class, plan_inference(given))
    except PlanError as error:
        raise PlanError(f"{table.place}: {error}") from error


def _adversary(table: _Table) -> tuple[str, dict[str, str]]:
    return table.text("name"), table.rest()


def _loads(table: _Table) -> LoadTerms:
    params = read(kind.MODEL, "params", table.quantity("params", kind.MODEL))
    weight = read(kind.NUMBER, "weight-bytes", table.quantity("weight-bytes", kind.NUMBER))
    copies = read(kind.COUNT, "copies", table.quantity("copies", kind.COUNT)) if table.has("copies") else Fraction(1)
    longest = table.quantity("longest", kind.SECONDS)
    terms = LoadTerms(
        traffic_class=table.one_of("class", CLASSES),
        sources=table.texts("sources"),
        bytes=-int(-load_bytes(params, weight, copies) // 1),
        longest=longest,
        longest_s=read(kind.SECONDS, "longest", longest),
        per_day=table.whole("per-day", _MOST_PER_DAY),
        reverse_ppm=table.whole("reverse-ppm", _MOST_PPM),
    )
    table.finish()
    return terms


class _Table:
    """One table; what is not taken is unknown."""

    def __init__(self, name: str, prefix: str, values: Any) -> None:
        self._name, self.place = name, f"{name}: {prefix}" if prefix else name
        if not isinstance(values, Mapping):
            raise PlanError(f"{self.place} is not a table")
        self._prefix, self._left = prefix, dict(values)

    def wrong(self, key: str, problem: str) -> PlanError:
        return PlanError(f"{self._name}: {self._prefix}{key} {problem}")

    def has(self, key: str) -> bool:
        return key in self._left

    def take(self, key: str) -> Any:
        if key not in self._left:
            raise self.wrong(key, "is missing. Add it")
        return self._left.pop(key)

    def text(self, key: str) -> str:
        value = self.take(key)
        if not isinstance(value, str) or not value.strip():
            raise self.wrong(key, "is not a text. Write it in quotes")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        value = self.take(key)
        if not isinstance(value, list) or not value or not all(isinstance(each, str) and each for each in value):
            raise self.wrong(key, 'is not a list of texts. Write ["*"] for all')
        return tuple(value)

    def one_of(self, key: str, known: tuple[str, ...]) -> str:
        value = self.text(key)
        if value not in known:
            raise self.wrong(key, f"is {value!r}. Use one of {', '.join(known)}")
        return value

    def quantity(self, key: str, quantity: Quantity) -> str:
        value = self._plain(key, self.take(key))
        try:
            read(quantity, key, value)
        except PlanError as error:
            raise PlanError(f"{self._name}: {self._prefix}{error}") from error
        return value

    def whole(self, key: str, most: int) -> int:
        value = self.take(key)
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
            raise self.wrong(key, f"is no whole number from 1 to {most}")
        return value

    def rest(self) -> dict[str, str]:
        left, self._left = self._left, {}
        return {key: self._plain(key, value) for key, value in left.items()}

    def _plain(self, key: str, value: Any) -> str:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise self.wrong(key, "is neither a text nor a number")
        return value if isinstance(value, str) else repr(value).replace("+", "")

    def table(self, key: str) -> _Table:
        return _Table(self._name, f"{self._prefix}{key}.", self.take(key))

    def tables(self, key: str) -> list[_Table]:
        value = self._left.pop(key, [])
        if not isinstance(value, list):
            raise self.wrong(key, f"is not a list of tables. Write [[{key}]]")
        return [_Table(self._name, f"{self._prefix}{key}[{at}].", each) for at, each in enumerate(value, 1)]

    def finish(self) -> None:
        for key in self._left:
            raise self.wrong(key, "is not known. Remove it, or correct its spelling")
