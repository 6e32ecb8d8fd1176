from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.deploy import lock as locks
from controller.deploy.lock import PACKAGES, Pin, format_lock, lock_file, read_lock, versions_in
from controller.deploy.target import TARGETS, Target, parse_wheel, target_for
from controller.deploy.wheels import PinnedWheel, fetch
from controller.errors import DeviceError, InternalError, OperatorError

HERE = Target("3.11", "x86_64")
MakeWheel = Callable[[Path, str, dict[str, str]], PinnedWheel]
PROJECT = Path(locks.__file__).parents[2]
FILES = {
    "cffi": "cffi-1.0-cp311-cp311-manylinux2014_x86_64.manylinux_2_17_x86_64.whl",
    "cryptography": "cryptography-1.0-cp39-abi3-manylinux_2_28_x86_64.whl",
    "grpcio": "grpcio-1.0-cp311-cp311-manylinux2014_x86_64.whl",
    "protobuf": "protobuf-1.0-cp310-abi3-manylinux2014_x86_64.whl",
    "pyroute2": "pyroute2-1.0-py3-none-any.whl",
    "typing-extensions": "typing_extensions-1.0-py3-none-any.whl",
}


@pytest.fixture
def no_index(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pip finds nothing, whatever this machine's settings are."""
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)


@pytest.fixture
def cache(tmp_path: Path, make_wheel: MakeWheel) -> Path:
    for file in FILES.values():
        make_wheel(tmp_path / "wheels" / str(HERE), file, {"x.py": file})
    return tmp_path / "wheels"


@pytest.fixture
def lock(tmp_path: Path, cache: Path) -> Path:
    pins = {}
    for name, file in FILES.items():
        sha256 = hashlib.sha256((cache / str(HERE) / file).read_bytes()).hexdigest()
        pins[name] = Pin(name, "1.0", frozenset({sha256, "0" * 64}))
    path = tmp_path / "requirements.lock"
    path.write_text(format_lock(pins))
    return path


# The lock


def test_the_lock_pins_what_the_tests_run_with() -> None:
    constraints = PROJECT / "constraints.txt"
    assert {name: pin.version for name, pin in read_lock(lock_file()).items()} == versions_in(constraints)


def test_the_lock_pins_compiled_packages_for_every_target() -> None:
    pins = read_lock(lock_file())
    machines = {target.machine for target in TARGETS}
    for name in ("cffi", "grpcio"):
        assert len(pins[name].sha256) == len(TARGETS), name
    for name in ("cryptography", "protobuf"):
        assert len(pins[name].sha256) >= len(machines), name
    for name in ("pyroute2", "typing-extensions"):
        assert len(pins[name].sha256) == 1, name


def test_the_agent_imports_nothing_third_party_that_is_not_locked() -> None:
    text = (PROJECT / "pyproject.toml").read_text()
    base = text.split("dependencies = [", 1)[1].split("]", 1)[0]
    declared = {line.split('"')[1].split(">")[0] for line in base.splitlines() if '"' in line}
    assert declared <= set(PACKAGES)


@given(
    st.fixed_dictionaries(
        {
            name: st.tuples(
                st.from_regex(r"[0-9]{1,3}(\.[0-9]{1,3}){0,3}", fullmatch=True),
                st.frozensets(st.binary(min_size=32, max_size=32).map(bytes.hex), min_size=1, max_size=6),
            )
            for name in PACKAGES
        }
    )
)
def test_a_lock_reads_as_it_was_written(content: dict[str, tuple[str, frozenset[str]]]) -> None:
    import tempfile  # noqa: PLC0415  a function-scoped tmp_path does not fit Hypothesis

    pins = {name: Pin(name, version, sha256) for name, (version, sha256) in content.items()}
    with tempfile.NamedTemporaryFile("w", suffix=".lock") as file:
        file.write(format_lock(pins))
        file.flush()
        assert read_lock(Path(file.name)) == pins


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("cffi==1.0", "cffi>=1.0", "is not a pin"),
        ("cffi==1.0", "# cffi==1.0", "is not a pin"),
        ("cffi==1.0", "curl==1.0", "the agent needs"),
        ("cffi==1.0", "grpcio==1.0", "pinned twice"),
        ("--hash=sha256:", "--hash=md5:", "is not a pin"),
        ("cffi==1.0", "-r other.txt\ncffi==1.0", "is not a pin"),
        ("# Targets", "\u00e4# Targets", "cannot be read"),
    ],
)
def test_a_lock_that_says_anything_else_is_refused(lock: Path, old: str, new: str, problem: str) -> None:
    text = lock.read_text()
    assert old in text
    lock.write_text(text.replace(old, new, 1), "utf-8")
    with pytest.raises(OperatorError, match=problem):
        read_lock(lock)


def test_constraints_that_lack_a_package_are_named(tmp_path: Path) -> None:
    (tmp_path / "constraints.txt").write_text("cffi==1\n")
    with pytest.raises(OperatorError, match="does not name cryptography"):
        versions_in(tmp_path / "constraints.txt")
    with pytest.raises(OperatorError, match="run this in the repository"):
        versions_in(tmp_path / "none.txt")


# The cache


@pytest.mark.usefixtures("no_index")
def test_a_full_cache_needs_no_network(cache: Path, lock: Path) -> None:
    wheels = fetch(HERE, cache, lock=lock)
    assert [wheel.name for wheel in wheels] == sorted(FILES)
    assert {wheel.path.name for wheel in wheels} == set(FILES.values())


@pytest.mark.usefixtures("no_index")
def test_a_missing_wheel_without_a_network_says_what_to_do(cache: Path, lock: Path) -> None:
    (cache / str(HERE) / FILES["grpcio"]).unlink()
    with pytest.raises(OperatorError) as raised:
        fetch(HERE, cache, lock=lock)
    text = str(raised.value)
    assert "weighbridge agents bundle --python 3.11 --machine x86_64" in text
    assert str(cache / "cp311-x86_64") in text
    assert [p.name for p in (cache / str(HERE)).iterdir() if p.suffix != ".whl"] == []


@pytest.mark.usefixtures("no_index")
def test_a_wheel_that_is_not_the_pinned_one_is_refused(cache: Path, lock: Path, make_wheel: MakeWheel) -> None:
    make_wheel(cache / str(HERE), FILES["cffi"], {"x.py": "other"})
    with pytest.raises(OperatorError, match=r"cffi-1\.0.*not the wheel that is pinned"):
        fetch(HERE, cache, lock=lock)


@pytest.mark.usefixtures("no_index")
def test_other_wheels_in_the_cache_change_nothing(cache: Path, lock: Path, make_wheel: MakeWheel) -> None:
    before = fetch(HERE, cache, lock=lock)
    folder = cache / str(HERE)
    for file in (
        "cffi-0.9-cp311-cp311-manylinux2014_x86_64.whl",
        "cffi-1.0-cp310-cp310-manylinux2014_x86_64.whl",
        "cffi-1.0-cp311-cp311-manylinux2014_aarch64.whl",
        "cffi-1.0-cp311-cp311-musllinux_1_2_x86_64.whl",
        "pip-1.0-py3-none-any.whl",
    ):
        make_wheel(folder, file, {"y.py": file})
    assert fetch(HERE, cache, lock=lock) == before


# Targets


def test_a_target_accepts_the_wheels_that_run_on_it_and_no_others() -> None:
    target = Target("3.10", "aarch64")
    good = [
        "a-1-cp310-cp310-manylinux2014_aarch64.manylinux_2_17_aarch64.whl",
        "a-1-cp39-abi3-manylinux_2_28_aarch64.whl",
        "a-1-cp310-abi3-manylinux2014_aarch64.whl",
        "a-1-py3-none-any.whl",
        "a-1-py2.py3-none-any.whl",
    ]
    bad = [
        "a-1-cp311-cp311-manylinux2014_aarch64.whl",
        "a-1-cp311-abi3-manylinux2014_aarch64.whl",
        "a-1-cp310-cp310-manylinux2014_x86_64.whl",
        "a-1-cp310-cp310-musllinux_1_2_aarch64.whl",
        "a-1-cp310-cp310-manylinux_2_34_aarch64.whl",
        "a-1-cp39-cp39-manylinux2014_aarch64.whl",
        "a-1-py2-none-any.whl",
    ]
    assert [target.accepts(parse_wheel(file)) for file in good] == [True] * len(good)
    assert [target.accepts(parse_wheel(file)) for file in bad] == [False] * len(bad)


def test_what_is_no_wheel_is_no_wheel() -> None:
    with pytest.raises(InternalError, match="not the file name of a wheel"):
        parse_wheel("a-1.tar.gz")


def test_a_device_gets_the_target_it_describes_or_a_reason() -> None:
    assert target_for("3.10", "aarch64", "glibc 2.35", "dpu") == Target("3.10", "aarch64")
    with pytest.raises(DeviceError, match=r"dpu: has Python 3\.8 on aarch64; there are wheels for Python 3\.10, 3\.11"):
        target_for("3.8", "aarch64", "glibc 2.31", "dpu")
    with pytest.raises(DeviceError, match="on riscv64"):
        target_for("3.11", "riscv64", "glibc 2.36", "dpu")
    with pytest.raises(DeviceError, match=r"glibc 2\.27.*need glibc 2\.28"):
        target_for("3.10", "aarch64", "glibc 2.27", "dpu")
    with pytest.raises(DeviceError, match="other than glibc"):
        target_for("3.10", "aarch64", "", "dpu")
