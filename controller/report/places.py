"""Where something was seen, said briefly: a link in both directions is one place, all links are "all links"."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from controller.report import words
from protos.reading import Direction

Place = tuple[str, Direction]
_MOST = 6


class OnLink(Protocol):
    """Anything that belongs to a link and direction."""

    @property
    def link(self) -> str:
        """The link's name."""

    @property
    def direction(self) -> Direction:
        """Its direction."""


def told(places: Iterable[Place], of_all: Sequence[OnLink]) -> str:
    """Return the places in words; ``of_all`` are the site's links, to know when all of them are meant."""
    wanted = set(places)
    every = {(link.link, link.direction) for link in of_all}
    if len(every) > 1 and wanted >= every:
        return f"all {words.counted(len({name for name, _ in every}), 'link')}, both directions"
    of_link: dict[str, set[Direction]] = {}
    for name, direction in sorted(wanted, key=lambda place: (words.natural(place[0]), place[1].value)):
        of_link.setdefault(name, set()).add(direction)
    said = [
        f"{words.shown(name)} {'both directions' if len(directions) > 1 else next(iter(directions)).value}"
        for name, directions in of_link.items()
    ]
    return words.listed(said, most=_MOST)
