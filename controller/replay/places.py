"""Errors of a recorded file: file and line, what is wrong, what to do."""

from __future__ import annotations

from pathlib import Path

from controller.errors import OperatorError


class ReplayError(OperatorError):
    """A recorded file cannot be read without doubt."""

    def __init__(self, path: Path, line: int | None, problem: str, remedy: str) -> None:
        self.path, self.line = path, line
        place = f"{path}:{line}" if line is not None else str(path)
        super().__init__(f"{place}: {problem}. {remedy}")
