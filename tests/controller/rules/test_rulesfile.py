"""The rules file: the defaults are one, and every wrong one is refused with line and remedy."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.errors import OperatorError
from controller.rules.finding import Severity
from controller.rules.limits import REPORT_LIMITS
from controller.rules.shape import DEFAULT_SHAPE
from controller.rulesfile import DEFAULTS, load_rules, parse_rules

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
    assert rules.limits == load_rules(None).limits
    assert rules.shape.honest_loads_per_day == 9
    assert rules.shape.least_burst_bytes == DEFAULT_SHAPE.least_burst_bytes
    assert parse_rules(b"version: 1\nlimits: []\n", HERE).limits == ()


def test_a_limit() -> None:
    text = b"version: 1\nlimits:\n- {name: a, window: 2min, bytes: 3MB, severity: warning, text: t}\n"
    (limit,) = parse_rules(text, HERE).limits
    assert (limit.name, limit.window_ns, limit.bytes) == ("a", 120 * 10**9, 3_000_000)
    assert (limit.severity, limit.text) == (Severity.WARNING, "t")


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("limits: []", 1, "version"),
        ("version: 2", 1, "this program knows 1"),
        ("version: 1\nlimit: []", 2, "unknown key `limit`. Did you mean `limits`?"),
        ("version: 1\nlimits: {}", 2, "a list is expected"),
        ("version: 1\nlimits:\n- {window: 1h, bytes: 1GB}", 3, "has no `name`"),
        ("version: 1\nlimits:\n- {name: a, window: 1h, bytes: 1GB, per: x}", 3, "unknown key `per`"),
        ("version: 1\nlimits:\n- {name: a, window: 3600, bytes: 1GB}", 3, "has no unit"),
        ("version: 1\nlimits:\n- name: a\n  window: 1h\n  bytes: 10Mb", 5, "ambiguous"),
        ("version: 1\nlimits:\n- name: a\n  window: 0s\n  bytes: 1MB", 4, "more than nothing"),
        ("version: 1\nlimits:\n- {name: a, window: 1h, bytes: 1GB, severity: loud}", 3, "no severity"),
        (
            "version: 1\nlimits:\n- {name: a, window: 1h, bytes: 1GB}\n- {name: a, window: 2h, bytes: 1GB}",
            4,
            "two limits",
        ),
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
    message = str(caught.value)
    assert message.startswith(f"{HERE}:{line}: ")
    assert words in message


def test_every_error_at_once() -> None:
    with pytest.raises(OperatorError) as caught:
        parse_rules(b"version: 3\nlimits: 1\nshapes: 2\n", HERE)
    assert len(str(caught.value).splitlines()) == 3


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(OperatorError, match="show-defaults"):
        load_rules(tmp_path / "absent.yaml")
