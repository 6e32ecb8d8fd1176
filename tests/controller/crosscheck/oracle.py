"""A second opinion on bounds: difference constraints solved by shortest paths, with nothing of the product's in it.

Variables are the true total ``T`` at every whole time and one offset a counter epoch. Each fact is a constraint
``x - y <= d``; the largest ``T(b) - T(a)`` is the shortest path from a to b, and a negative cycle means that the facts
cannot all be true. Slow and obvious.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

INF = float("inf")


@dataclass(frozen=True)
class Said:
    """A reading: ``C(earliest) <= value <= C(latest)`` in an epoch; ``slack`` as in a reading."""

    earliest: int
    latest: int
    value: int
    epoch: int = 0
    slack: int = 0


@dataclass(frozen=True)
class Zero:
    """The counter of an epoch was zero at some time in ``[not_before, by]``."""

    epoch: int
    not_before: int
    by: int


class Oracle:
    """All constraints over whole times ``0 .. last``."""

    def __init__(
        self,
        said: Sequence[Said],
        last: int,
        *,
        rate: int | None = None,
        step: int = 0,
        zeros: Iterable[Zero] = (),
        window: int | None = None,
        limit: int = 0,
    ) -> None:
        self.last = last
        epochs = sorted({one.epoch for one in said} | {zero.epoch for zero in zeros})
        self.offset = {epoch: last + 1 + index for index, epoch in enumerate(epochs)}
        size = last + 1 + len(epochs)
        self.most = np.full((size, size), INF)
        np.fill_diagonal(self.most, 0.0)
        for t in range(last):
            self._at_most(t, t + 1, 0)
            if rate is not None:
                for later in range(t + 1, last + 1):
                    self._at_most(later, t, rate * (later - t) + step)
        for one in said:
            self._at_most(one.earliest, self.offset[one.epoch], one.value + one.slack)
            self._at_most(self.offset[one.epoch], one.latest, -one.value)
        for zero in zeros:
            self._at_most(zero.not_before, self.offset[zero.epoch], 0)
            self._at_most(self.offset[zero.epoch], zero.by, 0)
        for before, after in pairwise(epochs):
            # What the old epoch had reached is not undone, and the new one began at no more than it ever showed.
            reached = max(one.value for one in said if one.epoch == before)
            began = min(
                [one.value + one.slack for one in said if one.epoch == after]
                + [0 for zero in zeros if zero.epoch == after]
            )
            self._at_most(self.offset[before], self.offset[after], began - reached)
        if window is not None:
            for t in range(last + 1):
                self._at_most(min(t + window, last), t, limit)
        self._close()

    def _at_most(self, x: int, y: int, most: float) -> None:
        """Note that ``x - y <= most``."""
        self.most[x, y] = min(self.most[x, y], most)

    def _close(self) -> None:
        for k in range(len(self.most)):
            np.minimum(self.most, self.most[:, k : k + 1] + self.most[k : k + 1, :], out=self.most)

    @property
    def possible(self) -> bool:
        """Whether all facts can be true together."""
        return bool((np.diagonal(self.most) >= 0).all())

    def bounds(self, start: int, end: int) -> tuple[int, int | None]:
        """Least and most of ``T(end) - T(start)``."""
        least, most = -self.most[start, end], self.most[end, start]
        return max(0, int(least)) if least > -INF else 0, None if most == INF else int(most)
