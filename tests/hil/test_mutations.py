"""The mutation matrix: each check, broken alone, on each path. `pytest -s` and `make bench AREA=evidence` print it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from controller.bundle import Extent
from controller.bundle_steps import Step
from hil.bench.matrix import PATHS, matrix
from hil.bench.mutations import FULL_ONLY, MUTATIONS


def test_an_invalid_part_meant_success_on_one_path(tmp_path: Path) -> None:
    cells = list(matrix(tmp_path))
    for cell in cells:
        print(cell)  # noqa: T201  the matrix, with -s
    # Complete: every step on every path that has it, and every mutation in every cell that there is.
    assert {mutation.step for mutation in MUTATIONS} == set(Step)
    assert len({(mutation.step, mutation.name) for mutation in MUTATIONS}) == len(MUTATIONS)
    for path in PATHS:
        steps = Counter(cell.mutation.step for cell in cells if cell.path == path)
        assert set(steps) == (set(Step) if path[0] is Extent.FULL else set(Step) - FULL_ONLY)
        assert min(steps.values()) >= 4
    assert [str(cell) for cell in cells if not cell.holds] == []
    # A difference is told by its place, and what it should be instead is the reader's own result.
    assert any("links[0].hidden_bytes_bound: reported" in cell.error for cell in cells)
