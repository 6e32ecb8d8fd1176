"""Quantities as the findings' sentences have them."""

from __future__ import annotations

from protos.units import NS_PER_S

_PREFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def size(count: float) -> str:
    """Return ``48.3 GB``."""
    for scale, prefix in _PREFIXES:
        if abs(count) >= scale:
            return f"{count / scale:.3g} {prefix}B"
    return f"{count:.3g} B"


def speed(rate: float) -> str:
    """Return ``2.08 GB/s``."""
    return f"{size(rate)}/s"


def duration(length_ns: float) -> str:
    """Return ``45 s``, ``17.7 min``, ``3.2 h``, ``2.5 d``."""
    seconds = length_ns / NS_PER_S
    if seconds < 120:
        return f"{seconds:.3g} s"
    if seconds < 7_200:
        return f"{seconds / 60:.3g} min"
    if seconds < 172_800:
        return f"{seconds / 3_600:.3g} h"
    return f"{seconds / 86_400:.3g} d"
