"""Under which numbers an agent's frames stand in the journal, also after its key was replaced.

An agent numbers its frames from 1 since its key was made. An agent whose state was lost, or whose DPU was exchanged,
begins again under its old name, with another key; the journal must not take its first frame for a second story about
the old one's. So the enrolment that replaces a key says after which number the new key's frames stand: the journal's
number is that plus the frame's own. Each key's frames are a chain of their own.
"""

from __future__ import annotations

from dataclasses import dataclass

from controller.errors import EvidenceError
from controller.journal import Entry, Journal, Kind

NUMBERS_FROM = "numbers_from"
"""In the meta of an enrolment that replaces a key."""

GAP = 2**20
"""Left free after the last number known: what the old key's agent had on its way may still come in."""


@dataclass(frozen=True, slots=True)
class Numbering:
    """``base``: the journal's number less the frame's own; ``leaf``: the enrolment from which on that holds."""

    base: int
    leaf: int


def base_of(enrolment: Entry) -> int | None:
    """Return after which number the frames of a replaced key stand; None if the enrolment replaces none.

    Raises:
        EvidenceError: it says something else than a number.
    """
    told = enrolment.meta.get(NUMBERS_FROM)
    if told is None:
        return None
    if not isinstance(told, str) or not told.isascii() or not told.isdigit() or len(told) > 18:
        raise EvidenceError(f"leaf {enrolment.leaf} is an enrolment whose numbers begin after none that can be read")
    return int(told)


def numbering(journal: Journal, agent: str) -> Numbering:
    """Return how the frames of ``agent`` are numbered now.

    Raises:
        EvidenceError: an enrolment cannot be read.
    """
    found = Numbering(0, -1)
    for entry in journal.entries(kinds=[Kind.ENROLMENT], source=agent):
        base = base_of(entry)
        if base is not None:
            found = Numbering(base, entry.leaf)
    return found


def next_base(journal: Journal, agent: str) -> int:
    """Return after which number the frames of a key that replaces the present one shall stand."""
    last = journal.last_sequence(Kind.FRAME, agent)
    return max(last, numbering(journal, agent).base) + GAP
