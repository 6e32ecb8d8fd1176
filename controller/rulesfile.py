"""The rules file: strict YAML; every error with its line and its remedy. What it leaves out has its default.

The defaults are themselves a rules file, ``controller/rules/default-rules.yaml``, which ``weighbridge rules
show-defaults`` prints. What a single rule may say is in :mod:`controller.rulesfile_rule`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from controller import site_yaml
from controller.errors import OperatorError
from controller.rules.rule import Rule, Rules
from controller.rules.shape import Shape
from controller.rulesfile_rule import RuleReader
from controller.strictreader import StrictReader
from protos.units import parse_bytes, parse_duration_ns, parse_rate_bytes_per_s

DEFAULTS = Path(__file__).parent / "rules" / "default-rules.yaml"
VERSION = 1


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
    rules = reader.read()
    reader.finish()
    return rules


class _Reader(StrictReader):
    def read(self) -> Rules:
        top = self.section((), self.file.values, ("version", "rules", "shapes"))
        self.version(top, VERSION)
        shape = self._shape(top.get("shapes", {}))
        if "rules" not in top and self.file.path != DEFAULTS:
            return Rules(load_rules(None).rules, shape)
        return Rules(self._rules(top.get("rules", [])), shape)

    def _rules(self, found: Any) -> tuple[Rule, ...]:
        if not isinstance(found, list):
            self.wrong(("rules",), "a list is expected", "Write each rule as `- {name: ..., kind: volume, ...}`")
            return ()
        reader = RuleReader(self)
        rules: list[Rule] = []
        for at, each in enumerate(found):
            made = reader.rules(("rules", at), each)
            taken = {rule.name for rule in rules}
            for rule in made:
                if rule.name in taken:
                    self.wrong(("rules", at, "name"), f"two rules are called `{rule.name}`", "Give each its own name")
            rules += made
        return tuple(rules)

    def _shape(self, found: Any) -> Shape:
        section = self.section(("shapes",), found, (*_SHARES, *_QUANTITIES))
        values: dict[str, Any] = {}
        for key, (field, parse, example) in _QUANTITIES.items():
            if key in section:
                values[field] = self.quantity(("shapes", key), section[key], parse, example)
        for key, (low, high) in _SHARES.items():
            if key in section:
                values[key] = self.number(("shapes", key), section[key], low, high)
        return Shape(**values)


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
    "acknowledged_below": (0.0, 1.0),
    "honest_day_variation": (0.0, 1.0),
    "honest_loads_per_day": (0.0, 1000.0),
}
