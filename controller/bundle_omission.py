"""Which bodies a full bundle may leave out: those on which nothing that it says about its period rests.

A body may be missing if all of this holds. Its leaf, which binds it by its digest, is there nonetheless, so that no
entry can be hidden; and who wrote a bundle and who reads it compute the same from the leaves alone.

1. A collector wrote it (:data:`~controller.journal_schema.PRUNABLE`): decisions, keys, site files, leases, reports and
   the like are always here.
2. It comes before the first entry that was recorded ten minutes before the period, or later.
3. It is not one of the last :data:`~controller.journal_prune.LAST_OF_EACH` of its kind and source before that: bounds
   at the period's edge rest on the readings next to it, however long ago they were.

These are what pruning keeps, so that a pruned journal gives such bundles, too. Whoever wants more takes a copy of the
journal (:mod:`controller.journal_export`).
"""

from __future__ import annotations

import hashlib

from controller.crosscheck.model import Period
from controller.evidence.refusal import VerificationError
from controller.journal import Journal
from controller.journal_prune import KEPT_BEFORE_NS, last_of_each
from controller.journal_schema import PRUNABLE


class Omission:
    """The rule for a journal of ``size`` entries and a period."""

    def __init__(self, journal: Journal, period: Period, size: int) -> None:
        """Look at the leaves; bodies are not read."""
        query = "SELECT coalesce(min(leaf), ?) FROM entry WHERE recorded_ns >= ? AND leaf < ?"
        self.stop = int(journal.rows(query, size, period.from_ns - KEPT_BEFORE_NS, size)[0][0])
        self._kept = last_of_each(journal, self.stop)

    def allows(self, leaf: int, kind: str) -> bool:
        """Return whether the body of ``leaf`` may be missing."""
        return kind in PRUNABLE and leaf < self.stop and leaf not in self._kept


def check_missing(journal: Journal, period: Period) -> None:
    """Return if ``journal``, which a bundle on ``period`` gave, lacks no body that it must have; it is readable then.

    Raises:
        VerificationError: it lacks one.
    """
    rule = Omission(journal, period, len(journal))
    query = "SELECT leaf, kind FROM entry WHERE length(body) = 0 AND body_sha256 <> ? ORDER BY leaf"
    for leaf, kind in journal.rows(query, hashlib.sha256(b"").digest()):
        if not rule.allows(leaf, kind):
            raise VerificationError(f"the body of entry {leaf} is missing, and the report's period needs it")
    journal.leave_out(rule.stop, period.from_ns)
