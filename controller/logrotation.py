"""One log, several keys in turn: how a new key of the log takes over, and which one signs which checkpoint.

The handover is an entry of the journal, ``log-key``: a note, signed by the old key and by the new,

::

    weighbridge log key v1
    ORIGIN
    VERIFIER KEY OF THE OLD
    VERIFIER KEY OF THE NEW

Checkpoints that hold this entry are signed by the new key, those before it by the old. So whoever trusts the newest key
can walk back to the first; a policy names the key of its bundle's checkpoint, as ever.
"""

from __future__ import annotations

from dataclasses import dataclass

from controller.errors import EvidenceError
from controller.evidence import note as notes
from controller.evidence.note import KeyKind, Note, NoteKey, decode_key
from controller.evidence.refusal import VerificationError
from controller.journal import Entry, Journal, Kind

_TITLE = "weighbridge log key v1"


@dataclass(frozen=True, slots=True)
class Handover:
    """From the checkpoint that holds ``leaf`` on, ``new`` signs; before, ``old`` did."""

    leaf: int
    old: NoteKey
    new: NoteKey


def handover_text(old: NoteKey, new: NoteKey) -> str:
    """Return the text that both keys sign."""
    return "".join(f"{line}\n" for line in (_TITLE, old.name, old.encode(), new.encode()))


def read_handover(entry: Entry) -> Handover:
    """Return the handover in ``entry``, signed by both keys.

    Raises:
        EvidenceError: it is none, or not signed by both.
    """
    try:
        return _handover(entry.leaf, notes.decode(entry.body))
    except VerificationError as error:
        raise EvidenceError(f"leaf {entry.leaf} hands the log over to no key that can be trusted: {error}") from error


def _handover(leaf: int, note: Note) -> Handover:
    lines = note.text.split("\n")
    if len(lines) != 5 or lines[0] != _TITLE or lines[4]:
        raise VerificationError("it is not spelt as handovers are")
    old, new = decode_key(lines[2]), decode_key(lines[3])
    if not old.name == new.name == lines[1] or {old.kind, new.kind} != {KeyKind.LOG} or old == new:
        raise VerificationError("it does not go from one key of the log to another")
    notes.check_signed(note, [old, new])
    return Handover(leaf, old, new)


class KeyHistory:
    """Which key signs a checkpoint of which size, from the newest key back."""

    def __init__(self, journal: Journal, newest: NoteKey) -> None:
        """Walk back from ``newest``, the key that is trusted; what ends the walk too early is :attr:`fault`."""
        self.fault: str | None = None
        self._spans: list[tuple[int, NoteKey]] = []
        key = newest
        try:
            handovers = [read_handover(entry) for entry in journal.entries(kinds=[Kind.LOG_KEY])]
        except EvidenceError as error:
            self.fault, handovers = f"{journal.path}: {error}", []
        if handovers and handovers[-1].new != key and handovers[-1].old == key:
            self.fault = (
                f"{journal.path}: leaf {handovers[-1].leaf} hands the log over to a key that is not in its place yet. "
                "Finish it with `weighbridge journal rotate-key`, or name the newer key"
            )
            handovers.pop()
        for each in reversed(handovers):
            if each.new != key:
                self.fault = f"{journal.path}: leaf {each.leaf} hands the log over to another key than came next"
                break
            self._spans.append((each.leaf + 1, each.new))
            key = each.old
        self._first = key

    def at(self, size: int) -> NoteKey:
        """Return the key that signs checkpoints of ``size``."""
        return next((key for least, key in self._spans if size >= least), self._first)

    def check_is_newest(self) -> None:
        """Return if the key that the walk began with is the one that signs now.

        Raises:
            VerificationError: the log was handed over to another one.
        """
        if self.fault is not None:
            raise VerificationError(self.fault)
