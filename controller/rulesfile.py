"""The rules file: strict YAML; every error with its line and its remedy. What it leaves out has its default.

The defaults are themselves a rules file, ``controller/rules/default-rules.yaml``, which ``weighbridge rules
show-defaults`` prints.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from controller import site_yaml
from controller.errors import OperatorError
from controller.rules.finding import Severity
from controller.rules.limits import VolumeLimit
from controller.rules.shape import Shape
from controller.site import did_you_mean
from controller.site_yaml import Problem, YamlFile
from protos.units import UnitError, parse_bytes, parse_duration_ns, parse_rate_bytes_per_s

DEFAULTS = Path(__file__).parent / "rules" / "default-rules.yaml"
VERSION = 1
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Rules:
    """Everything a rules file says."""

    limits: tuple[VolumeLimit, ...]
    shape: Shape


def load_rules(path: Path | None) -> Rules:
    """Read and check a rules file; the defaults where ``path`` is None.

    Raises:
        SiteFileError: with file, line, what is wrong and what to do; one error may report several.
        OperatorError: it cannot be read.
    """
    path = DEFAULTS if path is None else path
    try:
        content = path.read_bytes()
    except OSError as error:
        remedy = "Name a rules file; `weighbridge rules show-defaults` prints one"
        raise OperatorError(f"{path}: cannot be read ({error.strerror}). {remedy}.") from error
    return parse_rules(content, path)


def parse_rules(content: bytes, path: Path) -> Rules:
    """Return what ``content`` says; raises as :func:`load_rules`."""
    reader = _Reader(site_yaml.parse(content, path))
    rules = reader.rules()
    reader.file.raise_problems(reader.problems)
    return rules


class _Reader:
    def __init__(self, file: YamlFile) -> None:
        self.file = file
        self.problems: list[Problem] = []

    def rules(self) -> Rules:
        top = self._section((), self.file.values, ("version", "limits", "shapes"))
        version = top.get("version")
        if version != VERSION or isinstance(version, bool):
            self._wrong(("version",), f"the version is {version!r}, this program knows {VERSION}", "Write `version: 1`")
        default = load_rules(None) if self.file.path != DEFAULTS else None
        shape = self._shape(top.get("shapes", {}))
        if "limits" not in top and default is not None:
            return Rules(default.limits, shape)
        return Rules(self._limits(top.get("limits", [])), shape)

    def _wrong(self, place: site_yaml.Place, problem: str, remedy: str) -> None:
        self.problems.append(Problem(place, problem, remedy))

    def _section(self, place: site_yaml.Place, found: Any, known: tuple[str, ...]) -> dict[str, Any]:
        where = f" in {place[0]}" if place else ""
        if not isinstance(found, dict):
            self._wrong(place, f"a section with keys is expected{where}", f"Known keys: {', '.join(known)}")
            return {}
        for key in found:
            if key not in known:
                self._wrong((*place, key), f"unknown key `{key}`{where}", did_you_mean(str(key), known))
        return {key: each for key, each in found.items() if key in known}

    def _limits(self, found: Any) -> tuple[VolumeLimit, ...]:
        if not isinstance(found, list):
            self._wrong(
                ("limits",), "a list is expected", "Write each limit as `- {name: ..., window: ..., bytes: ...}`"
            )
            return ()
        limits = [self._limit(("limits", at), each) for at, each in enumerate(found)]
        names = [limit.name for limit in limits if limit is not None]
        for at, limit in enumerate(limits):
            if limit is not None and limit.name in names[:at]:
                self._wrong(("limits", at, "name"), f"two limits are called `{limit.name}`", "Give each its own name")
        return tuple(limit for limit in limits if limit is not None)

    def _limit(self, place: site_yaml.Place, found: Any) -> VolumeLimit | None:
        before = len(self.problems)
        section = self._section(place, found, ("name", "window", "bytes", "severity", "text"))
        for key in ("name", "window", "bytes"):
            if key not in section:
                self._wrong(place, f"the limit has no `{key}`", f"Add `{key}:`")
        name = str(section.get("name", "x"))
        if _NAME.fullmatch(name) is None:
            self._wrong((*place, "name"), f"{name!r} is not a name", "Use lower-case letters, digits and `-`")
        window = self._quantity((*place, "window"), section.get("window", "1s"), parse_duration_ns, "5min")
        volume = self._quantity((*place, "bytes"), section.get("bytes", "1B"), parse_bytes, "300MB")
        severity = self._severity((*place, "severity"), section.get("severity", "page"))
        if len(self.problems) > before:
            return None
        return VolumeLimit(name, window, volume, severity, str(section.get("text", "")))

    def _severity(self, place: site_yaml.Place, found: Any) -> Severity:
        names = [each.value for each in Severity]
        if found not in names:
            self._wrong(place, f"{found!r} is no severity", f"Use one of {', '.join(names)}")
            return Severity.PAGE
        return Severity(found)

    def _quantity(self, place: site_yaml.Place, found: Any, parse: Callable[[str], int], example: str) -> int:
        if not isinstance(found, str):
            self._wrong(place, f"`{found}` has no unit", f"Write it like `{example}`")
            return 1
        try:
            number = parse(found)
        except UnitError as error:
            self._wrong(place, str(error), f"Write it like `{example}`")
            return 1
        if number <= 0:
            self._wrong(place, f"{found!r} must be more than nothing", f"Write it like `{example}`")
        return number

    def _shape(self, found: Any) -> Shape:
        section = self._section(("shapes",), found, (*_SHARES, *_QUANTITIES))
        values: dict[str, Any] = {}
        for key, (field, parse, example) in _QUANTITIES.items():
            if key in section:
                values[field] = self._quantity(("shapes", key), section[key], parse, example)
        for key, (low, high) in _SHARES.items():
            if key in section:
                values[key] = self._number(("shapes", key), section[key], low, high)
        return Shape(**values)

    def _number(self, place: site_yaml.Place, found: Any, low: float, high: float) -> float:
        if isinstance(found, bool) or not isinstance(found, (int, float)) or not low < found <= high:
            self._wrong(place, f"`{found}` is not a number above {low:g} and up to {high:g}", "Correct it")
            return high
        return float(found)


_QUANTITIES: dict[str, tuple[str, Callable[[str], int], str]] = {
    "least_burst": ("least_burst_bytes", parse_bytes, "1MB"),
    "least_rate": ("least_rate_bytes_per_s", parse_rate_bytes_per_s, "100kB/s"),
    "least_load": ("least_load_bytes", parse_bytes, "50MB"),
    "longest_period": ("longest_period_ns", parse_duration_ns, "6h"),
}
_SHARES: dict[str, tuple[float, float]] = {
    "false_alarms_per_node_year": (0.0, 1000.0),
    "note_chance": (0.0, 0.1),
    "honest_volume_variation": (0.0, 1.0),
    "honest_ratio_span": (1.0, 1e6),
    "symmetric_within": (0.0, 0.5),
    "one_way_below": (0.0, 1.0),
    "honest_day_variation": (0.0, 1.0),
    "honest_loads_per_day": (0.0, 1000.0),
}
