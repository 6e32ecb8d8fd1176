"""The hand-written pages say what is true of the code: links, commands, names and examples are held against it."""

from __future__ import annotations

import re
import shlex
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from controller import site as sites
from controller.crosscheck.json_form import to_json
from controller.crosscheck.laws import LAWS
from controller.crosscheck.model import (
    Assumptions,
    ByteInterval,
    CrossCheck,
    Finding,
    FindingKind,
    Holds,
    KnownWeight,
    LawResult,
    Limit,
    LimitResult,
    LinkResult,
    Period,
    PortResult,
    Unknown,
    Verdict,
)
from controller.journal import Kind
from protos.reading import Direction, Observer, TrustDomain

PROJECT = Path(__file__).parents[2]
DOCS = PROJECT / "docs"
PAGES = sorted(page for page in DOCS.rglob("*.md") if page.parent.name != "adr")
GENERATED = {"cli.md", "site-file.md"}
_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
_FENCE = re.compile(r"^ *```(\w*)\n(.*?)^ *```", re.MULTILINE | re.DOTALL)


def relative(page: Path) -> str:
    return str(page.relative_to(PROJECT))


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_every_link_leads_somewhere(page: Path) -> None:
    for target in _LINK.findall(page.read_text("utf-8")):
        if not target.startswith(("http:", "https:", "#")):
            assert (page.parent / target.partition("#")[0]).exists(), f"{relative(page)}: {target}"


@pytest.mark.parametrize("page", [page for page in PAGES if page.name not in GENERATED], ids=relative)
def test_lines_fit_an_editor(page: Path) -> None:
    text = _FENCE.sub("", page.read_text("utf-8"))
    long = [line for line in text.splitlines() if len(line) > 120 and not line.startswith("|")]
    assert not long


def test_every_page_is_reachable_from_the_index() -> None:
    reached, waiting = set(), [DOCS / "index.md"]
    while waiting:
        page = waiting.pop()
        if page not in reached:
            reached.add(page)
            targets = _LINK.findall(page.read_text("utf-8")) if page.suffix == ".md" else []
            local = [t.partition("#")[0] for t in targets if not t.startswith(("http", "#"))]
            waiting += [(page.parent / target).resolve() for target in local if target]
    assert set(PAGES) <= reached


def commands() -> Iterator[tuple[str, list[str]]]:
    """Every ``weighbridge`` command in a fenced block, with the page it stands on; the rig's `exec` passes one on."""
    for page in [*PAGES, PROJECT / "README.md"]:
        for language, block in _FENCE.findall(page.read_text("utf-8")):
            if language not in {"sh", ""} or page.name == "cli.md":
                continue
            for line in block.replace("\\\n", " ").splitlines():
                words = shlex.split(line, comments=True) if language == "sh" else []
                while any(word.rpartition("/")[2] == "weighbridge" for word in words):
                    first = next(i for i, word in enumerate(words) if word.rpartition("/")[2] == "weighbridge")
                    words = words[first + 1 :]
                    yield relative(page), words[: words.index("--")] if "--" in words else words


COMMANDS = list(commands())


def as_id(value: str | list[str]) -> str:
    return value if isinstance(value, str) else " ".join(value)


def test_the_pages_show_commands() -> None:
    assert len(COMMANDS) > 25


def options_by_command() -> dict[str, set[str]]:
    """The commands with their options as the generated reference has them; CI keeps that one true."""
    sections = re.split(r"^#{2,} weighbridge ", (DOCS / "reference" / "cli.md").read_text("utf-8"), flags=re.MULTILINE)
    found = {}
    for section in sections[1:]:
        rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
        found[section.partition("\n")[0].strip()] = {o for row in rows for o in re.findall(r"`(--?[a-z-]+)`", row)}
    return found


OPTIONS = options_by_command()


@pytest.mark.parametrize(("page", "words"), COMMANDS, ids=as_id)
def test_every_command_in_the_pages_is_one(page: str, words: list[str]) -> None:
    shown = f"{page}: weighbridge {' '.join(words)}"
    command = max((c for c in OPTIONS if f"{' '.join(words)} ".startswith(f"{c} ")), key=len, default=None)
    assert command is not None, f"{shown}: there is no such command"
    subcommands = [c for c in OPTIONS if c.startswith(f"{command} ")]
    assert not subcommands, f"{shown}: name one of {subcommands}"
    for word in words:
        if word.startswith("-"):
            assert word in OPTIONS[command], f"{shown}: there is no option {word}"


def test_make_targets_exist() -> None:
    makefile = (PROJECT / "Makefile").read_text("utf-8")
    for page in [*PAGES, PROJECT / "README.md"]:
        for target in re.findall(r"^make ([a-z0-9-]+)|`make ([a-z0-9-]+)`", page.read_text("utf-8"), re.MULTILINE):
            assert re.search(rf"^{target[0] or target[1]}:", makefile, re.MULTILINE), f"{relative(page)}: make {target}"


def test_the_site_file_of_the_tutorial_is_right(tmp_path: Path) -> None:
    page = (DOCS / "tutorial" / "your-own-site.md").read_text("utf-8")
    (example,) = [block for language, block in _FENCE.findall(page) if language == "yaml"]
    path = tmp_path / "site.yaml"
    path.write_text(example, "utf-8")
    site = sites.load(path, secrets=False)
    assert site.name == "example"
    assert [link.name for link in site.links] == ["node1/p0"]


def table_keys(page: Path, heading: str) -> set[str]:
    """Every name in backquotes in the first column of the tables under a heading."""
    text = page.read_text("utf-8")
    start = text.index(heading) + len(heading)
    section = text[start:].split("\n## ", 1)[0]
    firsts = [line.split("|")[1] for line in section.splitlines() if line.startswith("|")]
    return {name for first in firsts for name in re.findall(r"`([^`]+)`", first)}


def a_result() -> CrossCheck:
    limit = LimitResult(Limit(1, 1), Holds.YES, 0, 0, 0, "", (TrustDomain.DPU,), (TrustDomain.DPU,))
    law = LawResult("a <= b", Holds.UNKNOWN, 0, "", unknown_because=Unknown.BY_DESIGN)
    link = LinkResult(
        "l",
        "n",
        "p",
        Direction.EGRESS,
        Verdict.COMPLIANT,
        1.0,
        0,
        {Observer.HOST: ByteInterval(0, 0)},
        (law,),
        (limit,),
    )
    weight = KnownWeight("l", Direction.EGRESS, 0, 1, 1, 1)
    finding = Finding(FindingKind.COVERAGE_GAP, certain=False, text="")
    port = PortResult("s", "p", declared=True, lower_bytes=0, upper_bytes=0, operational=True)
    weights = ((weight, True, ""),)
    return CrossCheck("s", Period(0, 1), 0, Assumptions(), (link,), (port,), (finding,), Verdict.COMPLIANT, weights)


def test_every_key_of_the_json_result_is_documented_and_no_other() -> None:
    page = DOCS / "reference" / "json-result.md"
    text = page.read_text("utf-8")
    made: Any = to_json(a_result())
    assert table_keys(page, "# JSON result") == set(made)
    (link,) = made["links"]
    assert table_keys(page, "## `links[]`") == set(link)
    quoted = set(re.findall(r"`([a-z_]+)`", text))
    for nested in (link["laws"], link["limits"], made["ports"], made["findings"], made["known_weights"]):
        (inner,) = nested
        assert set(inner) <= quoted
    for because in Unknown:
        assert f"`{because.value}`" in text


def test_every_kind_of_finding_and_every_law_is_documented_and_no_other() -> None:
    page = DOCS / "reference" / "findings.md"
    assert table_keys(page, "# Findings") == {kind.value for kind in FindingKind}
    text = page.read_text("utf-8")
    laws = text[text.index("## Laws") :]
    documented = set(re.findall(r"`([^`]* <= [^`]*)`", laws))
    assert documented == {law.name for of_direction in LAWS.values() for law in of_direction}


def test_every_kind_of_journal_entry_is_documented_and_no_other() -> None:
    assert table_keys(DOCS / "reference" / "journal.md", "# Journal") == {kind.value for kind in Kind}


def test_the_pictures_are_xml_and_stand_alone() -> None:
    pictures = sorted(DOCS.rglob("*.svg"))
    assert len(pictures) == 3
    for picture in pictures:
        text = picture.read_text("utf-8")
        assert ET.fromstring(text).attrib["aria-label"]  # noqa: S314  # our own file
        assert "href" not in text
        assert "http" not in text.replace("http://www.w3.org/2000/svg", "").replace("HTTP", "")
