"""A device in memory, for tests: speaks the interface of :class:`controller.deploy.ssh.Connection` from a script."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from controller.deploy.ssh import COMMAND_TIMEOUT_S, Outcome

Answer = Outcome | Exception | Callable[[str], Outcome]


@dataclass
class ScriptedConnection:
    """Answers each command by the first ``answers`` key that occurs in it, else with success and no output.

    Attributes:
        answers: what occurs in a command -> the outcome, an error to raise, or a function of the command.
        commands: every command so far.
        files: what was uploaded, by path, with its mode.
        refuse_uploads: an error that the next uploads raise.
        closed: whether :meth:`close` was called.
    """

    answers: dict[str, Answer] = field(default_factory=dict)
    commands: list[str] = field(default_factory=list)
    files: dict[str, tuple[bytes, int]] = field(default_factory=dict)
    refuse_uploads: Exception | None = None
    closed: bool = False
    place: str = "device in memory"

    def run(self, command: str, *, timeout_s: float = COMMAND_TIMEOUT_S) -> Outcome:  # noqa: ARG002  the interface
        """See :class:`controller.deploy.ssh.Connection`."""
        self.commands.append(command)
        for part, answer in self.answers.items():
            if part in command:
                if isinstance(answer, Exception):
                    raise answer
                return answer if isinstance(answer, Outcome) else answer(command)
        return Outcome(0, "", "")

    def upload(self, content: bytes, path: str, *, mode: int) -> None:
        """See :class:`controller.deploy.ssh.Connection`."""
        if self.refuse_uploads is not None:
            raise self.refuse_uploads
        self.files[path] = (content, mode)

    def close(self) -> None:
        """See :class:`controller.deploy.ssh.Connection`."""
        self.closed = True
