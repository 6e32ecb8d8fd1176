"""The picture of the wiring: nothing is cut off and nothing lies on something else, however long the names are."""

from __future__ import annotations

import itertools
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from controller.site import load
from controller.topology import PortWiring, Wiring
from controller.topology_drawing import draw

SITE = load(Path(__file__).parent / "site_ok" / "demo.yaml", secrets=False)


def port(name: str, state: Wiring, *found: str, link: str | None = None) -> PortWiring:
    return PortWiring("sw1", name, "", link, found, (), state, "", up=True, octets=1)


def right_end(text: ET.Element) -> float:
    """Where a text ends at the most: letters of a sans-serif font are no wider than this on average."""
    return float(text.attrib["x"]) + len(text.text or "") * float(text.attrib["font-size"]) * 0.62


@pytest.mark.parametrize("length", [1, 20, 200])
def test_boxes_hold_their_names_and_the_picture_holds_everything(length: int) -> None:
    ports = [
        port("e" * length, Wiring.UNDECLARED_PORT),
        port("eth1", Wiring.UNDECLARED_NEIGHBOUR, "s" * length, "t" * length),
        port("eth2", Wiring.CONFIRMED, "node1-dpu0/p0", link="node1/p0"),
    ]
    root = ET.fromstring(draw(SITE, ports))  # noqa: S314  our own picture
    texts = [element for element in root.iter() if element.tag.endswith("text")]
    boxes = [element for element in root.iter() if element.tag.endswith("rect") and "rx" in element.attrib]
    assert all(right_end(text) <= float(root.attrib["width"]) for text in texts)
    for box in boxes:
        left, top = float(box.attrib["x"]), float(box.attrib["y"])
        right = left + float(box.attrib["width"])
        beside = [text for text in texts if top < float(text.attrib["y"]) < top + 24]
        inside = [text for text in beside if left <= float(text.attrib["x"]) < right]
        assert len(inside) == 1
        assert right_end(inside[0]) <= right
        assert all(right_end(text) <= left for text in beside if float(text.attrib["x"]) < left)


def test_the_legends_entries_stand_beside_each_other_above_the_first_row() -> None:
    root = ET.fromstring(draw(SITE, [port("eth1", Wiring.DOWN)]))  # noqa: S314  as above
    entries = sorted(
        (text for text in root.iter() if text.tag.endswith("text") and text.attrib["y"] == "60"),
        key=lambda text: float(text.attrib["x"]),
    )
    assert len(entries) == 4
    for before, after in itertools.pairwise(entries):
        assert right_end(before) < float(after.attrib["x"]) - 32
    others = [float(text.attrib["y"]) for text in root.iter() if text.tag.endswith("text")]
    assert min(y for y in others if y > 60) > 84


def test_what_neighbours_call_themselves_is_escaped_and_cut() -> None:
    drawn = draw(SITE, [port("eth1", Wiring.UNDECLARED_NEIGHBOUR, "<script>" + "x" * 5_000)])
    assert "<script>" not in drawn
    assert "x" * 200 not in drawn
