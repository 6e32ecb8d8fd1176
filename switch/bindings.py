"""Which row is which port: names resolved to ifIndex, and never guessed. Pure.

A port is called by its ifName. Where that is not enough it is called ``NAME#INDEX``: rows that share a name,
and rows without one (``#12``). The index column of the table is not used, only the instance (some agents put
other numbers into the column).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from protos.reading import Missing
from switch.exchange import ValueType, VarBind
from switch.interpret import Row, text_of

_QUALIFIED = re.compile(r"(?P<name>.*)#(?P<index>[0-9]{1,10})", re.DOTALL | re.ASCII)


@dataclass(frozen=True, slots=True)
class Unresolved:
    """A name that stands for no row, or for more than one."""

    reason: Missing
    text: str


@dataclass(frozen=True, slots=True)
class Bindings:
    """The names of a device at one moment.

    Attributes:
        rows: ifIndexes by ifName, ascending; several where the name is not unique.
        resolved_ns: controller's timeline, before the walk that found them was first sent.
        shortfall: why there may be rows that are not among them; empty if the list is whole.
    """

    rows: Mapping[str, tuple[int, ...]]
    resolved_ns: int
    shortfall: str = ""

    @property
    def indexes(self) -> frozenset[int]:
        """Every ifIndex."""
        return frozenset(if_index for indexes in self.rows.values() for if_index in indexes)

    def ports(self) -> list[Row]:
        """Return every row once, under the name it can be asked for by."""
        return [
            Row(name if name and len(indexes) == 1 else f"{name}#{if_index}", name, if_index)
            for name, indexes in self.rows.items()
            for if_index in indexes
        ]

    def ambiguous(self) -> dict[str, tuple[int, ...]]:
        """Return the names that several rows bear."""
        return {name: indexes for name, indexes in self.rows.items() if name and len(indexes) > 1}

    def resolve(self, port: str) -> Row | Unresolved:
        """Return the row that ``port`` stands for, or why it stands for none."""
        indexes = self.rows.get(port, ()) if port else ()
        if len(indexes) == 1:
            return Row(port, port, indexes[0])
        qualified = _QUALIFIED.fullmatch(port)
        if not indexes and qualified is not None:
            name, if_index = qualified["name"], int(qualified["index"])
            if if_index in self.rows.get(name, ()):
                return Row(port, name, if_index)
        if indexes:
            choices = ", ".join(f"{port}#{if_index}" for if_index in indexes)
            text = f"port {port!r}: {len(indexes)} rows bear this name; declare one of {choices}"
            return Unresolved(Missing.MALFORMED, text)
        known = len(self.indexes)
        if self.shortfall:
            text = (
                f"port {port!r}: none of the {known} interfaces that are listed bears this name, but {self.shortfall}"
            )
            return Unresolved(Missing.TRUNCATED, text)
        return Unresolved(Missing.ABSENT, f"port {port!r}: none of the device's {known} interfaces bears this name")


def bind(names: Iterable[VarBind], resolved_ns: int, shortfall: str = "") -> Bindings:
    """Return the bindings that the rows of ifName make. A name that is no string counts as none."""
    rows: dict[str, tuple[int, ...]] = {}
    for binding in sorted(names, key=lambda each: each.oid):
        usable = binding.type is ValueType.OCTETS and isinstance(binding.value, bytes)
        name = text_of(binding.value) if usable and isinstance(binding.value, bytes) else ""
        rows[name] = (*rows.get(name, ()), binding.oid[-1])
    return Bindings(rows, resolved_ns, shortfall)
