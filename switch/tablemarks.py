"""What a device says of its table of interfaces: how many rows it has, and when it last changed. Pure.

Neither is reliable (some agents count rows they do not show, some never move the time), so a change is a reason to
list the ports anew and nothing more; that nothing changed proves nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from protos.reading import Missing
from switch.exchange import Exchange, ValueType
from switch.interpret import number
from switch.mib import DEVICE_OBJECTS, IF_NUMBER, IF_TABLE_LAST_CHANGE, TABLE_OBJECTS
from switch.ports import Value


@dataclass(frozen=True, slots=True)
class TableMarks:
    """ifNumber and ifTableLastChange (hundredths of a second of the device's uptime) as one look saw them."""

    if_number: Value
    last_change_ticks: Value

    def differ(self, before: TableMarks) -> bool:
        """Whether either is another than ``before``; one that either look lacks says nothing."""
        pairs = ((self.if_number, before.if_number), (self.last_change_ticks, before.last_change_ticks))
        return any(now != was for now, was in pairs if not isinstance(now, Missing) and not isinstance(was, Missing))


def marks_of(exchanges: Sequence[Exchange]) -> TableMarks:
    """Return the marks among the answers of one look: they stand before the first ports of a message."""
    leading = len(DEVICE_OBJECTS) + len(TABLE_OBJECTS)
    found = {binding.oid: binding for exchange in exchanges for binding in exchange.varbinds[:leading]}
    return TableMarks(
        number(found.get(IF_NUMBER), ValueType.INTEGER),
        number(found.get(IF_TABLE_LAST_CHANGE), ValueType.TIMETICKS),
    )
