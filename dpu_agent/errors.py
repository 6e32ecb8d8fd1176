"""Every error that ends the agent, by what is at fault.

AgentError              says what was wrong, where, and what to do; exit code 2
├── ConfigError         the configuration file; names file and key
├── CredentialError     certificate, key or authority; names the file
└── StateError          the state directory: not writable, in use, damaged, of a newer version

What fails while the agent runs (a port that is gone, a full disk, a controller that is not there) is no error of
these: it is recorded in the frames and the agent goes on.
"""

from __future__ import annotations

from pathlib import Path


class AgentError(Exception):
    """Base of all: ``str()`` is a sentence for a person with place and remedy."""

    exit_code = 2


class ConfigError(AgentError):
    """The configuration file is wrong at a key (None: the file as a whole)."""

    def __init__(self, path: Path, key: str | None, problem: str, remedy: str) -> None:
        self.path, self.key, self.problem, self.remedy = path, key, problem, remedy
        place = f"{path}: {key}" if key is not None else str(path)
        super().__init__(f"{place}: {problem}; {remedy}")


class CredentialError(AgentError):
    """A certificate, key or authority file cannot be used."""


class StateError(AgentError):
    """The state directory cannot be used."""
