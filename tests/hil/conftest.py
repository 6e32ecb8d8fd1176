"""One rig for all tests that do not need their own: the pair, with a space in the path of its state."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator

import pytest

from hil import remains, rigfile
from hil.rig import Rig

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    state = tmp_path_factory.mktemp("rig with a space") / "state"
    with Rig.up(rigfile.load(rigfile.find("pair")), state, name=f"pair_{os.getpid()}") as rig:
        yield rig


@pytest.fixture
def new_name() -> Iterator[Callable[[], str]]:
    """Gives rig names that no other test run on this computer uses, and clears them away afterwards."""
    given: list[str] = []

    def name() -> str:
        given.append(f"t{next(_numbers)}_{os.getpid()}")
        return given[-1]

    yield name
    for each in given:
        remains.clear(each)
