"""Switch ports: what each moved, and whether an undeclared one did."""

from __future__ import annotations

from controller.crosscheck.account import Account
from controller.crosscheck.epochs import epochs_of
from controller.crosscheck.model import Finding, FindingKind, Period, PortEvidence, PortResult
from controller.crosscheck.quantity import bounds
from controller.crosscheck.wording import at_least

_STATES = {True: "is up", False: "is down now", None: "may be up"}


def weigh_port(evidence: PortEvidence, period: Period) -> PortResult:
    """Return what a port moved in the period, both directions together."""
    epochs = epochs_of(
        evidence.readings, origin=period.from_ns, proven=evidence.proven_epochs, starts=evidence.epoch_starts
    )
    least, most = bounds(Account(epochs, None), 0, period.to_ns - period.from_ns)
    return PortResult(evidence.switch, evidence.port, evidence.declared, least, most, evidence.operational)


def undeclared(result: PortResult) -> Finding | None:
    """Return the finding about an undeclared port, None if it is declared or certainly idle.

    1. Bytes that certainly passed are an undeclared path, whatever the port's state is now.
    2. A port that is up, or with bytes possible, is not shown to be idle: not certain. That it is down now says nothing
       of the time before: what appeared with bytes on it, or was reset, may have moved them.
    3. A port that is down and certainly moved nothing is a socket in the wall.
    """
    if result.declared:
        return None
    where = f"port {result.port} of {result.switch} is not in the inventory"
    if result.lower_bytes > 0:
        text = f"{where} and certainly moved at least {at_least(result.lower_bytes)}: an undeclared path"
        certain = True
    elif result.operational or result.upper_bytes != 0:
        state = _STATES[result.operational]
        text = f"{where} and {state}; no bytes are certain in the period"
        if result.upper_bytes != 0:
            text += ", nor that there were none: readings before and after it, of one counter epoch, would decide it"
        certain = False
    else:
        return None
    return Finding(
        FindingKind.UNDECLARED_PORT,
        certain,
        text,
        switch=result.switch,
        port=result.port,
        bytes_at_least=result.lower_bytes,
    )
