"""Walk one column of a table by GETBULK, without believing the agent's sense of where it ends.

Kinds of fault this is built for: answers that stop short, answers too big for the path, columns of unequal
length whose tail belongs to the next column, successors that do not succeed, tables without end, dead hosts.
"""

from __future__ import annotations

from dataclasses import dataclass

from protos.reading import Missing
from switch.exchange import Channel, ErrorStatus, Exchange, NoAnswerError, Oid, ValueType, VarBind

REPETITIONS = 25
"""Successors asked for at first: 25 interface names fit into one message of 1,400 octets."""
_FEWEST_AFTER_SILENCE = 4  # a lost answer is often a lost fragment: ask for much less, once
MOST_REQUESTS = 2_000
"""A table of 50,000 rows; beyond it the agent is making rows up."""


@dataclass(frozen=True, slots=True)
class Walk:
    """What a walk found. ``reason`` and ``text`` say why it ended before the column did; None if it did not."""

    rows: tuple[VarBind, ...]
    reason: Missing | None = None
    text: str = ""


async def walk_column(
    channel: Channel, column: Oid, *, repetitions: int = REPETITIONS, most_requests: int = MOST_REQUESTS
) -> Walk:
    """Return the rows of ``column`` in order.

    1. Ask for the successors of the last row, the first time of the column itself.
    2. Too big: ask for half as many, down to one. Silence after some answer: ask once for very few.
    3. Take each binding that lies in the column and after its predecessor. The first that lies elsewhere, or
       says that the view ends, ends the column; what follows it is not ours.
    4. Anything else ends the walk with a reason: the rows so far are true, but there may be more.
    """
    rows: list[VarBind] = []
    shrunk = False
    for _ in range(most_requests):
        try:
            exchange = await channel.get_bulk([rows[-1].oid if rows else column], repetitions)
        except NoAnswerError as error:
            if error.reason is Missing.TIMEOUT and rows and not shrunk and repetitions > _FEWEST_AFTER_SILENCE:
                repetitions, shrunk = _FEWEST_AFTER_SILENCE, True
                continue
            return Walk(tuple(rows), error.reason, error.text)
        if exchange.error_status == ErrorStatus.TOO_BIG and repetitions > 1:
            repetitions //= 2
            continue
        ended = _ended(exchange, column, rows)
        if ended is not None:
            return Walk(tuple(rows), *ended)
    return Walk(tuple(rows), Missing.MALFORMED, f"the table did not end within {most_requests} requests")


def _ended(exchange: Exchange, column: Oid, rows: list[VarBind]) -> tuple[Missing | None, str] | None:
    """Add what the answer holds to ``rows``; return why the walk ends with it, or None if it goes on."""
    if exchange.error_status == ErrorStatus.NO_SUCH_NAME:  # how some agents say that nothing follows
        return None, ""
    if exchange.error_status != ErrorStatus.NO_ERROR:
        return _status(exchange.error_status)
    if not exchange.varbinds:
        return Missing.TRUNCATED, "the agent answered a walk with nothing"
    for binding in exchange.varbinds:
        if binding.oid[: len(column)] != column or binding.type is ValueType.END_OF_MIB_VIEW:
            return None, ""
        if binding.oid <= (rows[-1].oid if rows else column):
            return Missing.MALFORMED, "the agent's rows do not increase; the walk would never end"
        rows.append(binding)
    return None


def _status(status: int) -> tuple[Missing, str]:
    if status == ErrorStatus.TOO_BIG:
        return Missing.TRUNCATED, "the agent cannot fit a single row into a message"
    if status in (ErrorStatus.NO_ACCESS, ErrorStatus.AUTHORIZATION_ERROR):
        return Missing.DENIED, "the agent refuses access to the table; check the user's view on the switch"
    return Missing.MALFORMED, f"the agent failed with error status {status}"
