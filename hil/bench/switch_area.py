"""The switch reader's figures: intervals that hold, damage that passes nothing, faults that end, what polls cost."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from hil.bench import switch_cases, switch_costs, switch_faults, switch_fuzz
from hil.bench.figure import Figure


def figures() -> Iterator[Figure]:
    """Yield the figures as they come."""
    yield from switch_cases.figures()
    yield from switch_fuzz.figures()
    yield from switch_faults.figures()
    yield from switch_costs.figures()


if __name__ == "__main__":
    for figure in figures():
        sys.stdout.write(figure.line() + "\n")
