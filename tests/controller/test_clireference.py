"""The generated pages: every command and key is in them, examples are right, and --check sees a difference."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from ruamel.yaml import YAML

from controller import clireference, site_schema
from controller.cli import command_sources
from controller.sitereference import site_file_page


@pytest.fixture
def reference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(clireference, "REFERENCE", tmp_path / "reference")
    return tmp_path / "reference"


def test_write_then_check_then_a_difference(reference: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert clireference.main(["--check"]) == 1  # nothing is there yet
    assert clireference.main([]) == 0
    assert sorted(path.name for path in reference.iterdir()) == ["cli.md", "data-dictionary.md", "site-file.md"]
    capsys.readouterr()
    assert clireference.main(["--check"]) == 0
    assert capsys.readouterr() == ("", "")
    page = reference / "cli.md"
    page.write_text(page.read_text().replace("--last", "--least"))
    assert clireference.main(["--check"]) == 1
    assert "+| `--last` `DURATION`" in capsys.readouterr().err
    assert "--least" in page.read_text()  # a check changes nothing
    assert clireference.main([]) == 0
    assert clireference.main(["--check"]) == 0


def test_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert clireference.main(["--chek"]) == 2
    assert "usage:" in capsys.readouterr().err


def test_every_command_is_in_the_page() -> None:
    page = clireference.command_line_page()
    for name in command_sources():
        assert f"\n## weighbridge {name}\n" in page
    assert "\n### weighbridge journal fsck\n" in page
    assert "```\nweighbridge crosscheck [OPTIONS]\n```" in page
    assert "One of `table`, `json`, `csv`, `html`. Default: `table`." in page


def test_the_page_does_not_depend_on_the_terminal() -> None:
    code = "from controller.clireference import command_line_page; print(command_line_page(), end='')"
    environment = {"COLUMNS": "40", "TERM": "xterm-256color", "FORCE_COLOR": "1", "WEIGHBRIDGE_SITE": "/elsewhere.yaml"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, check=True, capture_output=True, text=True)
    assert done.stdout == clireference.command_line_page()


def sections(model: type[BaseModel] = site_schema.SiteSection) -> list[type[BaseModel]]:
    return [
        each
        for each in vars(site_schema).values()
        if isinstance(each, type) and issubclass(each, site_schema.Section) and each is not site_schema.Section
    ]


def test_every_key_is_in_the_page_and_is_described() -> None:
    page = site_file_page()
    for section in sections():
        for name, field in section.model_fields.items():
            assert f"| `{name}` | {field.description} |".replace("|  |", "| |") in page
            assert field.description
            assert field.examples


def _example(field: Any) -> Any:
    return YAML(typ="safe").load(field.examples[0])


@pytest.mark.parametrize("section", sections(), ids=lambda section: section.__name__)
def test_every_example_is_accepted(section: type[BaseModel]) -> None:
    values = {
        name: _example(field)
        for name, field in section.model_fields.items()
        if "..." not in str(field.examples) and "AAAA" not in str(field.examples)
    }
    complete = len(values) == len(section.model_fields)
    if complete:
        section.model_validate(values)
    else:
        # Examples that are cut short cannot be read as a whole; each of the others is.
        for name, value in values.items():
            section.__pydantic_validator__.validate_assignment(section.model_construct(), name, value)


def test_defaults_are_shown_with_their_units() -> None:
    page = site_file_page()
    for line in (
        "| `poll_interval` | between polls of a switch | `1s` | `1s` |",
        "| `largest_gap` | neighbouring readings further apart do not cover the time between | `15s` | `15s` |",
    ):
        assert line in page
    assumed = site_schema.AssumptionsSection
    for name, field in assumed.model_fields.items():
        value = _example(field)
        assert getattr(assumed.model_validate({name: value}), name) == field.default
