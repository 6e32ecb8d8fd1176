from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from controller.deploy import bundle as bundles
from controller.deploy.bundle import BundleFile, gather, pack
from controller.deploy.device.check_release import ReleaseDamagedError, check_release
from controller.deploy.lock import package_folder
from controller.deploy.target import Target
from controller.deploy.wheels import PinnedWheel
from controller.errors import InternalError, OperatorError

HERE = Target("3.11", "x86_64")
Build = Callable[[], dict[str, BundleFile]]
Unpack = Callable[[dict[str, BundleFile], Path], None]
MakeWheel = Callable[[Path, str, dict[str, str]], PinnedWheel]


def test_holds_the_agent_its_wheels_and_nothing_that_stays_at_home(small_bundle: Build) -> None:
    assert sorted(small_bundle()) == [
        "check_release.py",
        "dpu_agent/__init__.py",
        "dpu_agent/cli.py",
        "dpu_agent/meter/meter.bpf.o",
        "lib/thing-1.0.dist-info/METADATA",
        "lib/thing/__init__.py",
        "lib/weighbridge-0.0.1.dist-info/METADATA",
        "manifest.json",
        "protos/__init__.py",
        "weighbridge-agent",
    ]


def test_the_manifest_names_every_file_and_what_it_was_made_of(small_bundle: Build) -> None:
    files = small_bundle()
    manifest = json.loads(files["manifest.json"].content)
    assert manifest["python"] == "3.11"
    assert manifest["machine"] == "x86_64"
    assert manifest["version"] == "0.0.1"
    assert [wheel["name"] for wheel in manifest["wheels"]] == ["thing"]
    assert sorted(manifest["files"]) == sorted(files.keys() - {"manifest.json"})
    entry = manifest["files"]["weighbridge-agent"]
    assert entry["sha256"] == hashlib.sha256(files["weighbridge-agent"].content).hexdigest()
    assert entry["bytes"] == str(len(files["weighbridge-agent"].content))
    assert entry["executable"] is True
    assert manifest["files"]["dpu_agent/cli.py"]["executable"] is False


def test_the_same_inputs_give_the_same_bytes(small_bundle: Build, sources: dict[str, Path], tmp_path: Path) -> None:
    first = small_bundle()
    for path in (tmp_path / "src").rglob("*.py"):
        os.utime(path, (1, 1))
        path.chmod(0o700)
    second = small_bundle()
    assert first == second
    assert pack(first) == pack(dict(reversed(second.items())))
    (sources["dpu_agent"] / "cli.py").write_text("changed = True\n")
    assert small_bundle()["manifest.json"] != first["manifest.json"]


def test_the_archive_is_sorted_owned_by_root_and_has_one_time(small_bundle: Build) -> None:
    files = small_bundle()
    with tarfile.open(fileobj=io.BytesIO(pack(files))) as archive:
        members = archive.getmembers()
    assert [member.name for member in members] == sorted(files)
    assert {(m.uid, m.gid, m.uname, m.gname, m.mtime) for m in members} == {(0, 0, "", "", bundles.ARCHIVE_MTIME_S)}
    assert {m.name: m.mode for m in members}["weighbridge-agent"] == 0o755
    assert {m.mode for m in members} == {0o644, 0o755}


# Checking


def test_a_whole_release_is_named_by_its_manifest(small_bundle: Build, tmp_path: Path, unpack: Unpack) -> None:
    files = small_bundle()
    unpack(files, tmp_path / "release")
    assert check_release(tmp_path / "release") == hashlib.sha256(files["manifest.json"].content).hexdigest()


def test_one_flipped_bit_in_any_file_is_found_and_the_file_named(
    small_bundle: Build, tmp_path: Path, unpack: Unpack
) -> None:
    files = small_bundle()
    root = tmp_path / "release"
    unpack(files, root)
    for path, file in files.items():
        if path == "manifest.json" or not file.content:
            continue
        for position in {0, len(file.content) // 2, len(file.content) - 1}:
            changed = bytearray(file.content)
            changed[position] ^= 1
            (root / path).write_bytes(bytes(changed))
            with pytest.raises(ReleaseDamagedError, match=path.rpartition("/")[2]):
                check_release(root)
        (root / path).write_bytes(file.content)
    check_release(root)


def test_a_flipped_bit_in_the_manifest_changes_the_name_or_is_refused(
    small_bundle: Build, tmp_path: Path, unpack: Unpack
) -> None:
    files = small_bundle()
    root = tmp_path / "release"
    unpack(files, root)
    name = check_release(root)
    content = files["manifest.json"].content
    for position in range(0, len(content), 7):
        changed = bytearray(content)
        changed[position] ^= 1
        (root / "manifest.json").write_bytes(bytes(changed))
        try:
            assert check_release(root) != name
        except ReleaseDamagedError:
            continue


def damage_missing(root: Path) -> str:
    (root / "dpu_agent/cli.py").unlink()
    return r"dpu_agent/cli\.py is missing"


def damage_extra(root: Path) -> str:
    (root / "dpu_agent/extra.py").write_text("")
    return r"dpu_agent/extra\.py is not in the manifest"


def damage_bytecode(root: Path) -> str:
    (root / "dpu_agent/__pycache__").mkdir()
    (root / "dpu_agent/__pycache__/cli.cpython-311.pyc").write_bytes(b"")
    return "pyc is not in the manifest"


def damage_link(root: Path) -> str:
    (root / "dpu_agent/cli.py").rename(root / "elsewhere")
    (root / "dpu_agent/cli.py").symlink_to(root / "elsewhere")
    return "is not a plain file"


def damage_folder_link(root: Path) -> str:
    (root / "more").symlink_to("/usr")
    return "more is not a plain file"


def damage_mode(root: Path) -> str:
    (root / "weighbridge-agent").chmod(0o644)
    return "weighbridge-agent is not the file"


def damage_truncated(root: Path) -> str:
    content = (root / "protos/__init__.py").read_bytes()
    (root / "protos/__init__.py").write_bytes(content + b"\n")
    return r"protos/__init__\.py is not the file"


def damage_no_manifest(root: Path) -> str:
    (root / "manifest.json").unlink()
    return r"manifest\.json cannot be read"


def damage_odd_manifest(root: Path) -> str:
    (root / "manifest.json").write_text('{"files": [1]}')
    return r"manifest\.json cannot be read"


@pytest.mark.parametrize(
    "damage",
    [
        damage_missing,
        damage_extra,
        damage_bytecode,
        damage_link,
        damage_folder_link,
        damage_mode,
        damage_truncated,
        damage_no_manifest,
        damage_odd_manifest,
    ],
)
def test_other_damage_is_found(
    small_bundle: Build, tmp_path: Path, damage: Callable[[Path], str], unpack: Unpack
) -> None:
    root = tmp_path / "release"
    unpack(small_bundle(), root)
    expected = damage(root)
    with pytest.raises(ReleaseDamagedError, match=expected):
        check_release(root)


def test_the_check_runs_as_a_program_in_an_empty_environment(
    small_bundle: Build, tmp_path: Path, unpack: Unpack
) -> None:
    files = small_bundle()
    root = tmp_path / "a release"
    unpack(files, root)

    def check() -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-I", "-S", "-B", str(root / "check_release.py")]
        return subprocess.run(command, env={}, capture_output=True, text=True, check=False, timeout=60)

    assert check().stdout.strip() == hashlib.sha256(files["manifest.json"].content).hexdigest()
    (root / "protos/__init__.py").write_text("x = 1\n")
    damaged = check()
    assert (damaged.returncode, damaged.stdout) == (1, "")
    assert "protos/__init__.py" in damaged.stderr


# Wheels that must not be used


@pytest.mark.parametrize("path", ["../evil.py", "/etc/evil.py", "a/../../evil.py", "a\\..\\evil.py"])
def test_a_wheel_that_would_leave_the_bundle_is_refused(tmp_path: Path, path: str, make_wheel: MakeWheel) -> None:
    wheel = make_wheel(tmp_path, "thing-1.0-py3-none-any.whl", {path: "x"})
    with pytest.raises(OperatorError, match="would leave the bundle"):
        gather([wheel], {}, "0")


def test_a_wheel_that_installs_elsewhere_is_refused(tmp_path: Path, make_wheel: MakeWheel) -> None:
    wheel = make_wheel(tmp_path, "thing-1.0-py3-none-any.whl", {"thing-1.0.data/scripts/run": "x"})
    with pytest.raises(InternalError, match="outside site-packages"):
        gather([wheel], {}, "0")


def test_two_wheels_that_disagree_about_a_file_are_refused(tmp_path: Path, make_wheel: MakeWheel) -> None:
    one = make_wheel(tmp_path / "1", "a-1.0-py3-none-any.whl", {"same.py": "1"})
    other = make_wheel(tmp_path / "2", "b-1.0-py3-none-any.whl", {"same.py": "2"})
    with pytest.raises(OperatorError, match=r"same\.py"):
        gather([one, other], {}, "0")


# The folder of built bundles


@pytest.fixture
def offline_build(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, sources: dict[str, Path], make_wheel: MakeWheel
) -> Path:
    wheels = [make_wheel(tmp_path / "wheels", "thing-1.0-py3-none-any.whl", {"thing.py": "A = 1\n"})]
    monkeypatch.setattr(bundles, "fetch", lambda _target, _cache: wheels)
    monkeypatch.setattr(bundles, "package_folder", lambda name: sources.get(name) or package_folder(name))
    return tmp_path / "build"


def test_a_built_bundle_is_taken_again_and_a_damaged_one_made_anew(offline_build: Path) -> None:
    first = bundles.build(HERE, offline_build)
    assert first.archive.name == f"{first.sha256}.tar.gz"
    assert hashlib.sha256(first.archive.read_bytes()).hexdigest() == first.archive_sha256
    inode = first.archive.stat().st_ino
    assert bundles.build(HERE, offline_build) == first
    assert first.archive.stat().st_ino == inode
    whole = first.archive.read_bytes()
    for damaged in (whole[: len(whole) // 2], b"", whole[:200] + b"\0" + whole[201:], pack({"x": BundleFile(b"")})):
        first.archive.write_bytes(damaged)
        assert bundles.build(HERE, offline_build) == first
        assert first.archive.read_bytes() == whole
    assert [path.name for path in first.archive.parent.iterdir()] == [first.archive.name]


def test_changed_sources_make_another_bundle(offline_build: Path, sources: dict[str, Path]) -> None:
    first = bundles.build(HERE, offline_build)
    (sources["dpu_agent"] / "new.py").write_text("")
    second = bundles.build(HERE, offline_build)
    assert second.sha256 != first.sha256
    assert first.archive.exists()
