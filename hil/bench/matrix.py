"""The mutation matrix: everything that verification checks, broken one at a time, on every path that checks it.

Everything else of a broken bundle is right, signed by the right keys where that is needed: the owner of a log can sign
whatever he likes, and only what he cannot change protects a reader. A mutation must fail at its own step, with that
step's error; one that fails earlier shows nothing about its step, and one that passes is a hole.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from controller.bundle import Extent
from controller.bundle_steps import Step, StepError, verify_bytes
from controller.evidence.policy import Policy
from hil.bench.forge import Forge, Parts
from hil.bench.mutations import MUTATIONS, Mutation

PATHS = tuple((extent, version) for extent in Extent for version in (1, 2))
"""What a bundle carries, and in which version of the format."""


@dataclass(frozen=True, slots=True)
class Cell:
    """What one mutation gave on one path; ``error`` is None if it verified."""

    path: tuple[Extent, int]
    mutation: Mutation
    failed_at: Step | None
    error: str

    @property
    def holds(self) -> bool:
        """Whether it failed at its own step."""
        return self.failed_at is self.mutation.step

    def __str__(self) -> str:
        extent, version = self.path
        return f"{extent.value:8} v{version}  {self.mutation.name:38} -> {self.error}"


def matrix(folder: Path) -> Iterator[Cell]:
    """Yield what each mutation gives on each path; first shows that what is mutated verifies there."""
    forge = Forge(folder)
    good = forge.make()
    for path in PATHS:
        verify_bytes(_on(path, forge, good), good.policy, lambda *_: None)
    for mutation in MUTATIONS:
        changed = mutation.change(forge, good)
        for path in PATHS:
            if path[0] not in mutation.extents:
                continue
            if isinstance(changed, Parts):
                yield _cell(path, mutation, _on(path, forge, changed), changed.policy)
            else:
                yield _cell(path, mutation, changed(_on(path, forge, good)), good.policy)


def _on(path: tuple[Extent, int], forge: Forge, parts: Parts) -> bytes:
    extent, version = path
    there = parts.with_head(extent=extent, version=version)
    return forge.raw(there if extent is Extent.FULL else replace(there, entries=()))


def _cell(path: tuple[Extent, int], mutation: Mutation, raw: bytes, policy: Policy) -> Cell:
    try:
        verify_bytes(raw, policy, lambda *_: None)
    except StepError as error:
        return Cell(path, mutation, error.step, str(error))
    return Cell(path, mutation, None, "verified")
