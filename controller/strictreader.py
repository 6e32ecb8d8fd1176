"""Values of a small strict YAML file: closed sections, quantities with units, every problem with its place."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from controller.site import did_you_mean
from controller.site_yaml import Place, Problem, YamlFile
from protos.units import UnitError

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}", re.ASCII)


class StrictReader:
    """Collects problems; a value that is wrong is replaced by a harmless one, so that all are told at once."""

    def __init__(self, file: YamlFile) -> None:
        self.file = file
        self.problems: list[Problem] = []

    def finish(self) -> None:
        """Return if nothing was wrong.

        Raises:
            SiteFileError: with every problem, its file, line and remedy.
        """
        self.file.raise_problems(self.problems)

    def wrong(self, place: Place, problem: str, remedy: str) -> None:
        """Note a problem."""
        self.problems.append(Problem(place, problem, remedy))

    def version(self, top: dict[str, Any], known: int) -> None:
        """Check the file's version."""
        version = top.get("version")
        if version != known or isinstance(version, bool):
            self.wrong(
                ("version",), f"the version is {version!r}, this program knows {known}", f"Write `version: {known}`"
            )

    def section(self, place: Place, found: Any, known: tuple[str, ...]) -> dict[str, Any]:
        """Return a section's known keys; note the others."""
        where = f" in {place[0]}" if place else ""
        if not isinstance(found, dict):
            self.wrong(place, f"a section with keys is expected{where}", f"Known keys: {', '.join(known)}")
            return {}
        for key in found:
            if key not in known:
                self.wrong((*place, key), f"unknown key `{key}`{where}", did_you_mean(str(key), known))
        return {key: each for key, each in found.items() if key in known}

    def name(self, place: Place, found: Any) -> str:
        """Return a name."""
        if not isinstance(found, str) or _NAME.fullmatch(found) is None:
            self.wrong(place, f"{found!r} is not a name", "Use lower-case letters, digits and `-`")
            return "x"
        return found

    def text(self, place: Place, found: Any) -> str:
        """Return a text of one line."""
        if not isinstance(found, str) or not found.isprintable():
            self.wrong(place, f"`{found!r}` is no text of one line", "Write it in quotes")
            return ""
        return found

    def choice(self, place: Place, found: Any, known: tuple[str, ...], what: str) -> str:
        """Return one of ``known``."""
        if not isinstance(found, str) or found not in known:
            self.wrong(place, f"{found!r} is no {what}", f"Use one of {', '.join(known)}")
            return known[0]
        return found

    def quantity(self, place: Place, found: Any, parse: Callable[[str], int], example: str) -> int:
        """Return a quantity with its unit, more than nothing."""
        if not isinstance(found, str):
            self.wrong(place, f"`{found}` has no unit", f"Write it like `{example}`")
            return 1
        try:
            number = parse(found)
        except UnitError as error:
            self.wrong(place, str(error), f"Write it like `{example}`")
            return 1
        if number <= 0:
            self.wrong(place, f"{found!r} must be more than nothing", f"Write it like `{example}`")
            return 1
        return number

    def number(self, place: Place, found: Any, low: float, high: float) -> float:
        """Return a number above ``low`` and up to ``high``."""
        if isinstance(found, bool) or not isinstance(found, (int, float)) or not low < found <= high:
            self.wrong(place, f"`{found}` is not a number above {low:g} and up to {high:g}", "Correct it")
            return high
        return float(found)
