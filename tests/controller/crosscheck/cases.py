"""How many cases each property is tried with: few in the suite, many times as many by `make properties`."""

from __future__ import annotations

import os

TIMES = "PROPERTY_CASES_TIMES"


def cases(number: int) -> int:
    """Return ``number``, or as many times it as the environment asks for."""
    return number * int(os.environ.get(TIMES, "1"))
