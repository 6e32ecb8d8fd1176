"""A port's counter epochs as its samples come, one at a time. Pure.

:func:`switch.epochs.judge` looks at a whole sequence and can call a sample garbage because of the one after it. Whoever
prints a sample at once cannot know that yet: here such a sample begins an epoch of its own, and the next one returns to
the epoch before it. Numbers are never used twice.
"""

from __future__ import annotations

from switch.continuity import EpochReason, Plausibility, broken, gaps
from switch.epochs import Epoch
from switch.ports import PortSample


class EpochWatch:
    """Tells the epoch of each sample of one port, in the order in which they were read."""

    def __init__(self, plausibility: Plausibility | None = None) -> None:
        self._limits = plausibility or Plausibility()
        self._last: tuple[PortSample, Epoch] | None = None
        self._before_doubt: tuple[PortSample, Epoch] | None = None
        self._begun = 0

    def take(self, sample: PortSample) -> Epoch:
        """Return the epoch of ``sample``.

        1. The first sample begins epoch 0.
        2. Nothing speaks against that it continues the last one: the same epoch.
        3. It does not continue the last one, but the one before it: that one alone was garbage.
        4. Otherwise a new epoch begins, with its reason.
        """
        if self._last is None:
            return self._begin(sample, EpochReason.FIRST, "the first sample is the baseline")
        last, epoch = self._last
        why = broken(last, sample, self._limits)
        if why is None:
            self._last, self._before_doubt = (sample, epoch), None
            return epoch
        if self._before_doubt is not None and broken(self._before_doubt[0], sample, self._limits) is None:
            epoch = self._before_doubt[1]
            self._last, self._before_doubt = (sample, epoch), None
            return epoch
        self._before_doubt = self._last
        return self._begin(sample, why.reason, why.text)

    def _begin(self, sample: PortSample, reason: EpochReason, text: str) -> Epoch:
        epoch = Epoch(self._begun, reason, text, gaps(sample, self._limits))
        self._begun += 1
        self._last = (sample, epoch)
        return epoch
