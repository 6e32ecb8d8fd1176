"""``python -m hil.bench [AREA]``: print every figure of an area, or of all, as one JSON line each.

A goal that is missed prints ``"holds": false``; the exit code is 0 all the same: a figure is a report, not
a gate. An unknown area is a usage error (2).
"""

from __future__ import annotations

import importlib
import importlib.util
import sys

AREAS = ("main", "meter", "limits", "switch", "crosscheck", "evidence", "faults", "rules", "planner")


def available() -> list[str]:
    """Return the areas that have figures, in the order of :data:`AREAS`."""
    return [area for area in AREAS if importlib.util.find_spec(f"hil.bench.{area}_area") is not None]


def main(arguments: list[str]) -> int:
    """Print the figures of the areas asked for."""
    wanted = arguments or available()
    for area in wanted:
        if area not in AREAS:
            sys.stderr.write(f"bench: there is no area {area!r}; areas are {', '.join(AREAS)}\n")
            return 2
        if area not in available():
            sys.stderr.write(f"bench: area {area!r} has no figures yet\n")
            continue
        module = importlib.import_module(f"hil.bench.{area}_area")
        for figure in module.figures():
            sys.stdout.write(figure.line() + "\n")
            sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
