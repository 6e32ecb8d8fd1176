"""What a caller gave, read as it is needed: nothing is filled in silently, and nothing that was given is ignored."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction

from controller.planner.marks import Assumption, Mark, PlanError
from controller.planner.quantities import Quantity, read


class Inputs:
    """Parameters by name, as texts; every one that is read or filled in becomes an assumption of the result.

    Args:
        given: name (as on the command line, without dashes) to text.
        known: what each name is; None for a text (:meth:`text`).
    """

    def __init__(self, given: Mapping[str, str], known: Mapping[str, Quantity | None]) -> None:
        unknown = sorted(given.keys() - known.keys())
        if unknown:
            raise PlanError(f"--{unknown[0]} is not known. Use one of {', '.join(sorted(known))}")
        self._given, self._known = given, known
        self._taken: set[str] = set()
        self.assumptions: list[Assumption] = []

    def has(self, name: str) -> bool:
        """Whether it was given."""
        return name in self._given

    def optional(self, name: str) -> Fraction | None:
        """Return the value, None if it was not given."""
        if name not in self._given:
            return None
        value = read(self._quantity(name), name, self._given[name])
        if name not in self._taken:
            self._taken.add(name)
            self.assume(name, self._given[name], Mark.GIVEN, "the caller")
        return value

    def need(self, name: str, purpose: str) -> Fraction:
        """Return the value.

        Raises:
            PlanError: it was not given.
        """
        value = self.optional(name)
        if value is None:
            raise PlanError(f"{purpose} needs --{name}. Give it, for example `--{name} {self._quantity(name).example}`")
        return value

    def text(self, name: str, purpose: str) -> str:
        """Return a text that is no single quantity.

        Raises:
            PlanError: it was not given.
        """
        if name not in self._given:
            raise PlanError(f"{purpose} needs --{name}. Give it")
        self._taken.add(name)
        self.assume(name, self._given[name], Mark.GIVEN, "the caller")
        return self._given[name]

    def default(self, name: str, text: str, reason: str, mark: Mark = Mark.ASSUMED) -> Fraction:
        """Return the value, or that of ``text`` with ``reason`` among the assumptions."""
        value = self.optional(name)
        if value is None:
            if name not in self._taken:
                self._taken.add(name)
                self.assume(name, text, mark, f"default: {reason}")
            value = read(self._quantity(name), name, text)
        return value

    def _quantity(self, name: str) -> Quantity:
        quantity = self._known[name]
        if quantity is None:
            raise TypeError(f"{name} is a text")
        return quantity

    def assume(self, name: str, value: str, mark: Mark, source: str) -> None:
        """Note one more thing that the result rests on."""
        self.assumptions.append(Assumption(name, value, mark, source))

    def taken(self, names: Iterable[str]) -> None:
        """Take note that these are of no consequence here, and may be given."""
        self._taken.update(names)

    def finish(self, purpose: str) -> None:
        """Refuse what was given and changed nothing.

        Raises:
            PlanError: the first such parameter.
        """
        for name in self._given:
            if name not in self._taken:
                raise PlanError(f"--{name} means nothing for {purpose}. Leave it out")
