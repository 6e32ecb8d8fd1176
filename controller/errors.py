"""Every error of the controller, by whose fault it is.

WeighbridgeError            says what was wrong, where, and what to do
├── OperatorError           the operator's input: site file, arguments, secrets      exit code 2
│   └── SiteFileError       names file and line
├── ClaimError              the prover's claim cannot be read                        recorded, collection goes on
├── DeviceError             a device does not answer or answers wrongly              recorded, collection goes on
├── EvidenceError           a signature, chain or record does not check              exit code 1
└── InternalError           ourselves                                                exit code 2
"""

from __future__ import annotations

from pathlib import Path


class WeighbridgeError(Exception):
    """Base of all: ``str()`` is a sentence for a person with place and remedy."""

    exit_code = 2


class OperatorError(WeighbridgeError):
    """The operator's input is wrong; nothing was changed."""


class SiteFileError(OperatorError):
    """The site file is wrong at a place."""

    def __init__(self, path: Path, line: int | None, problem: str, remedy: str) -> None:
        self.path, self.line, self.problem, self.remedy = path, line, problem, remedy
        place = f"{path}:{line}" if line is not None else str(path)
        super().__init__(f"{place}: {problem}. {remedy}")


class ClaimError(WeighbridgeError):
    """The prover's claim (a scrape) cannot be read."""


class DeviceError(WeighbridgeError):
    """A device (agent, switch) does not answer, or answers wrongly."""


class EvidenceError(WeighbridgeError):
    """Evidence does not check: a signature, a chain, a stored record."""

    exit_code = 1


class InternalError(WeighbridgeError):
    """A fault of our own."""
