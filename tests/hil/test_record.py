from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import pytest

from hil import record, rigfile
from hil.errors import RigError
from hil.firstprocess import FirstProcess
from hil.plan import ExtraCable
from hil.record import Record


def up(owner: FirstProcess | None) -> Record:
    rig_file = rigfile.load(rigfile.find("demo"))
    return Record("demo", record.UP, owner, rig_file, (ExtraCable(9, "node1", "eth1", "eth6"),))


def test_what_is_written_is_read(tmp_path: Path) -> None:
    for owner in (None, record.this_process()):
        record.write(tmp_path, up(owner))
        assert record.read(tmp_path) == up(owner)
    assert [path.name for path in tmp_path.iterdir()] == ["rig.json"]


def test_no_record_is_none(tmp_path: Path) -> None:
    assert record.read(tmp_path) is None
    assert record.read(tmp_path / "absent") is None
    record.mark_down(tmp_path / "absent")


def test_another_version_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "rig.json").write_text(json.dumps({"version": 2, "name": "demo"}), encoding="utf-8")
    with pytest.raises(RigError, match="another version"):
        record.read(tmp_path)
    record.mark_down(tmp_path)
    assert json.loads((tmp_path / "rig.json").read_text(encoding="utf-8")) == {"version": 2, "name": "demo"}


def test_a_rig_is_in_use_while_its_owner_lives_or_for_ever(tmp_path: Path) -> None:
    assert up(None).in_use
    assert up(record.this_process()).in_use
    assert not dataclasses.replace(up(None), phase=record.STARTING).in_use, "an up that never ended"
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        stat = Path(f"/proc/{other.pid}/stat").read_text(encoding="utf-8")
        owner = FirstProcess(other.pid, stat.rpartition(")")[2].split()[19])
        assert up(owner).in_use
        assert not up(dataclasses.replace(owner, start_time="1")).in_use, "another process by that number"
        other.communicate(b"\n")
    assert not up(owner).in_use


def test_down_is_noted_and_nobody_owns_it(tmp_path: Path) -> None:
    record.write(tmp_path, up(record.this_process()))
    record.mark_down(tmp_path)
    found = record.read(tmp_path)
    assert found is not None
    assert (found.phase, found.owner) == (record.DOWN, None)
    assert found.extra == up(None).extra


def test_only_a_rig_s_own_directory_is_emptied(tmp_path: Path) -> None:
    state = tmp_path / "state"
    record.make_empty(state)
    assert state.is_dir()
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_text("kept", encoding="utf-8")
    record.write(state, up(None))
    (state / "journal.db").write_text("old", encoding="utf-8")
    (state / "machines" / "node1").mkdir(parents=True)
    (state / "link").symlink_to(precious)
    record.make_empty(state)
    assert [path.name for path in state.iterdir()] == ["rig.json"]
    with pytest.raises(RigError, match="not a rig's state directory"):
        record.make_empty(precious)
    assert (precious / "file").read_text(encoding="utf-8") == "kept"


def test_one_builder_at_a_time() -> None:
    with record.sole_builder("unit_test_of_the_lock"):
        with pytest.raises(RigError, match="by another process"), record.sole_builder("unit_test_of_the_lock"):
            pass
        with record.sole_builder("unit_test_of_another"):
            pass
    with record.sole_builder("unit_test_of_the_lock"):
        pass
