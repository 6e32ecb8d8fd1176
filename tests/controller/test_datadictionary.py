"""The data dictionary has every field there is, by the messages as compiled and not as they are read for the page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from controller.datadictionary import data_dictionary_page, messages
from controller.hostclaims import SERIES
from controller.journal_entry import Kind
from protos.v1 import agent_pb2, frame_pb2, lease_pb2, meter_pb2, reading_pb2
from switch.mib import Column

COMPILED = {
    name: descriptor
    for module in (agent_pb2, frame_pb2, lease_pb2, meter_pb2, reading_pb2)
    for name, descriptor in module.DESCRIPTOR.message_types_by_name.items()
}
PAGE = data_dictionary_page()


def test_every_message_file_is_compared_here() -> None:
    folder = Path(frame_pb2.__file__).parent
    assert len(list(folder.glob("*.proto"))) == 5


@pytest.mark.parametrize("name", sorted(COMPILED))
def test_every_field_is_read_from_the_definitions(name: str) -> None:
    assert {field.name: field.number for field in messages()[name].fields} == {
        field.name: field.number for field in COMPILED[name].fields
    }


def reached(names: list[str]) -> set[str]:
    seen: set[str] = set()
    while names:
        name = names.pop()
        if name not in seen:
            seen.add(name)
            names += [field.message_type.name for field in COMPILED[name].fields if field.message_type is not None]
    return seen


def test_everything_an_agent_answers_is_on_the_page() -> None:
    service = agent_pb2.DESCRIPTOR.services_by_name["AgentService"]
    answers = [method.output_type.name for method in service.methods]
    for name in reached([*answers, "Frame"]):
        section = PAGE.partition(f"### {name}\n")[2].partition("\n#")[0]
        fields = [field.name for field in COMPILED[name].fields]
        assert re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE) == fields, name


def test_what_is_no_number_stands_together() -> None:
    section = PAGE.partition("### Everything in it that is not a number\n")[2].partition("\n## ")[0]
    service = agent_pb2.DESCRIPTOR.services_by_name["AgentService"]
    for name in reached([*(method.output_type.name for method in service.methods), "Frame"]):
        for field in COMPILED[name].fields:
            listed = f"`{name}.{field.name}`" in section
            assert listed is (field.type in (field.TYPE_STRING, field.TYPE_BYTES)), field.full_name


def test_switches_hosts_and_the_journal_are_told() -> None:
    for column in Column:
        assert f"`{'.'.join(map(str, column.value))}.PORT`" in PAGE
    for series in SERIES:
        assert f"- `{series}`" in PAGE
    kept = PAGE.partition("## What is kept\n")[2]
    for kind in Kind:
        assert f"| `{kind.value}` |" in kept
