"""The rules file: the defaults are one, and every wrong one is refused with line and remedy."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from controller.errors import OperatorError
from controller.rules.finding import SHAPES, Kind, Severity
from controller.rules.limits import REPORT_LIMITS
from controller.rules.rule import Bound, Measure, Rule, Scope
from controller.rules.shape import DEFAULT_SHAPE
from controller.rulesfile import DEFAULTS, load_rules, parse_rules
from protos.buckets import TrafficClass
from protos.units import NS_PER_S

HERE = Path("rules.yaml")


def test_the_defaults_are_what_the_code_has() -> None:
    rules = load_rules(None)
    assert rules.shape == DEFAULT_SHAPE
    assert [(each.name, each.window_ns, each.bytes) for each in rules.limits[:2]] == [
        (each.name, each.window_ns, each.bytes) for each in REPORT_LIMITS
    ]
    assert rules == load_rules(DEFAULTS)


def test_what_is_left_out_has_its_default() -> None:
    rules = parse_rules(b"version: 1\nshapes: {honest_loads_per_day: 9}\n", HERE)
    assert rules.rules == load_rules(None).rules
    assert rules.shape.honest_loads_per_day == 9
    assert rules.shape.least_burst_bytes == DEFAULT_SHAPE.least_burst_bytes
    assert parse_rules(b"version: 1\nrules: []\n", HERE).rules == ()


def _one(text: str) -> list[Rule]:
    return list(parse_rules(f"version: 1\nrules:\n- {text}\n".encode(), HERE).rules)


def test_a_volume() -> None:
    (rule,) = _one(
        "{name: a, kind: volume, window: 2min, bytes: 3MB, severity: warning, text: t, for: 10s, scope: pod}"
    )
    assert rule == Rule(
        "a",
        Kind.VOLUME_OVER_WINDOW,
        (Bound(120 * NS_PER_S, 3_000_000),),
        scope=Scope.POD,
        severity=Severity.WARNING,
        for_ns=10 * NS_PER_S,
        text="t",
    )


def test_a_window_set() -> None:
    (rule,) = _one("{name: a, kind: volume, windows: [{window: 1s, bytes: 1MB}, {window: 1h, bytes: 2GB}]}")
    assert rule.bounds == (Bound(NS_PER_S, 1_000_000), Bound(3_600 * NS_PER_S, 2_000_000_000))
    (rate,) = _one("{name: a, kind: rate, windows: [5min, 1h], rate: 2GB/h, load_windows: counted}")
    assert [bound.most for bound in rate.bounds] == [166_666_666, 2_000_000_000]
    assert rate.with_loads


def test_a_budget_is_a_rule_a_level() -> None:
    near, full = _one("{name: b, kind: budget, rate: 2GB/h, windows: [1h, 5min], levels: {warning: 0.8, page: 1}}")
    assert (near.name, near.severity, near.all_bounds) == ("b-warning", Severity.WARNING, True)
    assert (full.name, full.severity) == ("b-page", Severity.PAGE)
    # Reached is enough, as 1.0 of a budget is all of it.
    assert near.bounds[0].most == 1_600_000_000 - 1
    assert full.bounds[1].most == 166_666_666


def test_packets_bursts_classes_and_absence() -> None:
    (packets,) = _one("{name: a, kind: packets, window: 1min, packets: 1000, classes: [unknown, other-pod]}")
    assert (packets.measure, packets.bounds[0].most) == (Measure.PACKETS, 1000)
    assert packets.classes == (TrafficClass.UNKNOWN, TrafficClass.OTHER_POD)
    (burst,) = _one("{name: a, kind: burst, bytes: 150MB, rate: 0.5MB/s, scope: site}")
    assert (burst.drain_bytes_per_s, burst.bounds) == (500_000, (Bound(300 * NS_PER_S, 150_000_000),))
    (absence,) = _one("{name: a, kind: absence, for: 30s, severity: note}")
    assert (absence.kind, absence.for_ns, absence.severity) == (Kind.TELEMETRY_ABSENT, 30 * NS_PER_S, Severity.NOTE)


WINDOW = "kind: volume, window: 1h, bytes: 1GB"
LIST = "version: 1\nrules:\n- "


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("rules: []", 1, "version"),
        ("version: 2", 1, "this program knows 1"),
        ("version: 1\nrule: []", 2, "unknown key `rule`. Did you mean `rules`?"),
        ("version: 1\nrules: {}", 2, "a list is expected"),
        (LIST + "7", 3, "a section with keys"),
        (LIST + f"{{{WINDOW}}}", 3, "has no `name`"),
        (LIST + "{name: a, window: 1h, bytes: 1GB}", 3, "has no `kind`"),
        (LIST + "{name: a, kind: bytes}", 3, "no kind of rule"),
        (LIST + f"{{name: a, {WINDOW}, per: x}}", 3, "unknown key `per`"),
        (LIST + "{name: a, kind: rate, window: 1h, bytes: 1GB}", 3, "unknown key `bytes`"),
        (LIST + "{name: a, kind: volume, window: 3600, bytes: 1GB}", 3, "has no unit"),
        (LIST + "name: a\n  kind: volume\n  window: 1h\n  bytes: 10Mb", 6, "ambiguous"),
        (LIST + "name: a\n  kind: volume\n  window: 0s\n  bytes: 1MB", 5, "more than nothing"),
        (LIST + "{name: a, kind: volume, window: 40d, bytes: 1MB}", 3, "longer than 31 days"),
        (LIST + f"{{name: a, {WINDOW}, severity: loud}}", 3, "no severity"),
        (LIST + f"{{name: a, {WINDOW}, scope: planet}}", 3, "no scope"),
        (LIST + f"{{name: a, {WINDOW}, scope: pair, classes: [storage]}}", 3, "of a pair only bytes"),
        (LIST + f"{{name: a, {WINDOW}, classes: [store]}}", 3, "no traffic class"),
        (LIST + f"{{name: a, {WINDOW}, classes: storage}}", 3, "a list of traffic classes"),
        (LIST + f"{{name: a, {WINDOW}, load_windows: ignore}}", 3, "no way to count loads"),
        (LIST + f"{{name: a, {WINDOW}, text: [x]}}", 3, "no text"),
        (LIST + f"{{name: A b, {WINDOW}}}", 3, "is not a name"),
        (LIST + f"{{name: a, {WINDOW}}}\n- {{name: a, {WINDOW}}}", 4, "two rules"),
        (LIST + f"{{name: a, {WINDOW}, windows: [{{window: 1h, bytes: 1GB}}]}}", 3, "beside `windows`"),
        (LIST + "{name: a, kind: volume, windows: [{window: 1h}]}", 3, "has no `bytes`"),
        (LIST + "{name: a, kind: volume, windows: []}", 3, "a list of windows"),
        (LIST + "{name: a, kind: rate, windows: 1h, rate: 1MB/s}", 3, "a list of durations"),
        (LIST + "{name: a, kind: rate, rate: 1MB/s}", 3, "either `window` or `windows`"),
        (LIST + "{name: a, kind: packets, window: 1h, packets: many}", 3, "no number of packets"),
        (LIST + "{name: a, kind: burst, bytes: 1MB}", 3, "has no `rate`"),
        (LIST + "{name: a, kind: burst, bytes: 1MB, rate: 1MB}", 3, "not a rate"),
        (LIST + "{name: a, kind: absence}", 3, "has no `for`"),
        (LIST + "{name: a, kind: budget, rate: 1MB/s, windows: [1h], levels: {}}", 3, "no level"),
        (LIST + "{name: a, kind: budget, rate: 1MB/s, windows: [1h], levels: {x: 1}}", 3, "unknown key"),
        (LIST + "{name: a, kind: budget, rate: 1MB/s, windows: [1h], levels: {page: -1}}", 3, "a number above 0"),
        ("version: 1\nshapes: []", 2, "a section with keys"),
        ("version: 1\nshapes:\n  note_chance: 2", 3, "not a number above 0 and up to 0.1"),
        ("version: 1\nshapes:\n  one_way_below: .nan", 3, "not a number"),
        ("version: 1\nshapes:\n  least_rate: 5MB", 3, "not a rate"),
        ("version: 1\nversion: 1", 2, "version"),
    ],
)
def test_refused(text: str, line: int, words: str) -> None:
    with pytest.raises(OperatorError) as caught:
        parse_rules(text.encode(), HERE)
    messages = str(caught.value).splitlines()
    assert any(each.startswith(f"{HERE}:{line}: ") and words in each for each in messages), messages


def test_every_error_at_once() -> None:
    with pytest.raises(OperatorError) as caught:
        parse_rules(b"version: 3\nrules: 1\nshapes: 2\n", HERE)
    assert len(str(caught.value).splitlines()) == 3


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(OperatorError, match="show-defaults"):
        load_rules(tmp_path / "absent.yaml")


def test_the_how_tos_example_has_every_kind() -> None:
    text = (Path(__file__).parents[3] / "docs" / "how-to" / "write-rules.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    rules = parse_rules(example.encode(), HERE).rules
    of_shapes = set(SHAPES)
    assert {rule.kind for rule in rules} == set(Kind) - of_shapes
    assert {rule.scope for rule in rules} == set(Scope)
