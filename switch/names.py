"""Find every row's name, also on an agent whose walk of them stops early and does not say so.

Some agents jump to the next column where one row lacks a value: the walk then ends like any other, short of the rows
behind. A second column, and the rows that were there before, tell of them; each is then asked for by instance.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from protos.reading import Missing
from switch.bindings import Bindings, bind
from switch.exchange import Channel, ErrorStatus, NoAnswerError, Oid, ValueType, VarBind
from switch.mib import Column
from switch.walk import walk_column

_NAMES_A_MESSAGE = 16
"""Of 64 octets each; longer ones are asked for again, fewer at a time."""
_NAMED_IN_A_SENTENCE = 8


async def find_names(
    channel: Channel, before: Collection[int], now_ns: Callable[[], int], *, enough: Callable[[Bindings], bool]
) -> Bindings:
    """Return the names of a device's rows.

    1. Walk ifName. Rows that were there ``before`` and are not in the walk are asked for by instance.
    2. Is that ``enough``, the walk is not doubted. Else walk ifType beside it; rows that only it has are asked for by
       instance too, and those that still have no name make the list one that may not be whole.

    Raises:
        NoAnswerError: ifName could not be walked to an end. Half a table is not used: the rows that are missing may
            be the ones that show a name twice.
    """
    started_ns = now_ns()
    walk = await walk_column(channel, Column.NAME.value)
    if walk.reason is not None:
        raise NoAnswerError(walk.reason, walk.text, started_ns, now_ns())
    rows = {binding.oid[-1]: binding for binding in walk.rows}
    rows |= await _by_instance(channel, sorted(set(before) - set(rows)))
    found = bind(rows.values(), started_ns)
    if enough(found):
        return found
    types = await walk_column(channel, Column.TYPE.value)
    if types.reason is not None:
        text = f"the table of interface types could not be read to its end: {types.text}"
        return bind(rows.values(), started_ns, text)
    typed = {binding.oid[-1] for binding in types.rows}
    rows |= await _by_instance(channel, sorted(typed - set(rows)))
    return bind(rows.values(), started_ns, _shortfall(set(rows), typed))


async def _by_instance(channel: Channel, indexes: Sequence[int]) -> dict[int, VarBind]:
    """Return the names of those of ``indexes`` that have one; an error or silence about some voids only these."""
    found: dict[int, VarBind] = {}
    groups = [indexes[start : start + _NAMES_A_MESSAGE] for start in range(0, len(indexes), _NAMES_A_MESSAGE)]
    while groups:
        group = groups.pop()
        asked: list[Oid] = [Column.NAME.of(if_index) for if_index in group]
        try:
            exchange = await channel.get(asked)
        except NoAnswerError as error:
            if error.reason in (Missing.TIMEOUT, Missing.DENIED):
                break
            continue
        if exchange.error_status == ErrorStatus.NO_ERROR:
            answers = {binding.oid: binding for binding in exchange.varbinds if binding.type is ValueType.OCTETS}
            found |= {if_index: answers[oid] for if_index, oid in zip(group, asked, strict=True) if oid in answers}
        elif len(group) > 1:
            groups += [group[: len(group) // 2], group[len(group) // 2 :]]
    return found


def _shortfall(named: set[int], typed: set[int]) -> str:
    """Return why the list of ports may not be whole; empty if it is."""
    apart = sorted(named ^ typed)
    if not apart:
        return ""
    rows = ", ".join(map(str, apart[:_NAMED_IN_A_SENTENCE]))
    return f"ifName has {len(named)} rows and ifType {len(typed)}; they differ at ifIndex {rows}: a walk stopped early"
