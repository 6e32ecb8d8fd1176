"""The rig file is strict: everything in rigfile_fail/ is refused, at the line and for the reason it names itself."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hil import rigfile
from hil.errors import RigFileError

BAD = sorted((Path(__file__).parent / "rigfile_fail").glob("*.yaml"))


@pytest.mark.parametrize("path", BAD, ids=lambda path: path.stem)
def test_refused_with_line_and_reason(path: Path) -> None:
    expected = re.match(r'# line (\d+), says "([^"]+)": \S', path.read_text(encoding="utf-8"))
    assert expected is not None, "a bad file says in its first line where, how and why it must fail"
    with pytest.raises(RigFileError) as refused:
        rigfile.load(path)
    assert str(refused.value).startswith(f"{path}:{expected[1]}: ")
    assert expected[2] in refused.value.problem
    assert refused.value.remedy
    assert refused.value.exit_code == 2


def test_a_good_file_says_what_it_means() -> None:
    demo = rigfile.load(rigfile.find("demo"))
    assert demo.nodes() == ["node1", "node2", "node3", "node4"]
    assert demo.clock_offset_ns("node1") == 26 * 3600 * 10**9
    assert demo.front_end is not None
    assert demo.site.limits == [{"scope": "node", "window": "10s", "bytes": "10MB"}]
    pair = rigfile.load(rigfile.find("pair"))
    assert pair.nodes() == ["node1", "node2"]
    assert pair.front_end is None
    assert pair.clock_offset_ns("node2") == 41 * 60 * 10**9


def test_a_missing_file_names_the_rigs_there_are(tmp_path: Path) -> None:
    with pytest.raises(RigFileError, match="demo, pair"):
        rigfile.load(tmp_path / "absent.yaml")


def test_a_path_wins_over_a_shipped_name(tmp_path: Path) -> None:
    assert rigfile.find("pair").parent == rigfile.RIGS
    assert rigfile.find("./pair") == Path("./pair")
    assert rigfile.find(str(tmp_path / "my rig.yaml")) == tmp_path / "my rig.yaml"


@given(st.binary(max_size=300))
def test_any_bytes_are_a_rig_or_refused(content: bytes) -> None:
    path = Path(__file__).parent / "rigfile_fail" / "unknown_key.yaml"
    good = path.read_bytes().replace(b"front_ent", b"front_end")
    for text in (content, good + content, content + good):
        check(text)


def check(content: bytes) -> None:
    class Bytes(type(Path())):  # type: ignore[misc]  # a path whose content is in memory
        def read_bytes(self) -> bytes:
            return content

    try:
        rigfile.load(Bytes("memory.yaml"))
    except RigFileError as error:
        refused = error
    else:
        return
    assert str(refused).startswith("memory.yaml")


@given(st.text(max_size=40))
def test_a_rig_name_has_one_reading(name: str) -> None:
    try:
        checked = rigfile.check_rig_name(name)
    except ValueError:
        return
    assert checked == name
    assert not {"-", "/"} & set(name)
    assert len(f"wb-{name}-") <= 20
