"""What the discoveries of a switch within a period say about its wiring, as findings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from controller.crosscheck.model import Finding, FindingKind, Period
from controller.site import Site
from controller.topology import PortWiring, Wiring, wiring
from switch.flaps import flaps
from switch.forwarding import FORWARDING_PORT, VLAN_FORWARDING_PORT
from switch.lldp import REMOTE_ENTRY
from switch.ports import Poll, PortSample

_KINDS = {
    Wiring.MISCABLED: FindingKind.MISCABLED_LINK,
    Wiring.UNDECLARED_NEIGHBOUR: FindingKind.UNDECLARED_NEIGHBOUR,
}
"""A port that is up without anybody on it is told of by the cross-check, from its counters."""


_TABLES = (REMOTE_ENTRY, FORWARDING_PORT, VLAN_FORWARDING_PORT)


class WiringFindings:
    """Collects what one switch's discoveries contradict in the site file; the same thing seen twice is one finding."""

    def __init__(self, site: Site, switch: str, period: Period) -> None:
        self._site, self._switch, self._period = site, switch, period
        self._found: dict[tuple[FindingKind, str, str], Finding] = {}

    def take(self, poll: Poll) -> None:
        """Compare one discovery; one without neighbours and stations, or outside the period, says nothing."""
        if not self._period.from_ns < poll.received_ns or poll.first_sent_ns > self._period.to_ns:
            return
        bindings = (binding for exchange in poll.exchanges for binding in exchange.varbinds)
        if not any(binding.oid[: len(table)] == table for binding in bindings for table in _TABLES):
            return
        for port in wiring(self._site, self._switch, poll):
            kind = _KINDS.get(port.state)
            if kind is None:
                continue
            key = (kind, port.port, port.text)
            known = self._found.get(key)
            first_ns = poll.first_sent_ns if known is None or known.from_ns is None else known.from_ns
            self._found[key] = replace(_finding(kind, port), from_ns=first_ns, to_ns=poll.received_ns)

    def findings(self, samples: Mapping[str, Sequence[PortSample]]) -> tuple[Finding, ...]:
        """Return what was found, and the flaps of the links' ports in ``samples``."""
        found = list(self._found.values())
        for link in self._site.links_of(self._switch):
            for flap in flaps(samples.get(link.port, ())):
                if flap.to_ns <= self._period.from_ns or flap.from_ns > self._period.to_ns:
                    continue
                text = f"port {link.port} of {self._switch} ({link.name}) went down and came up again"
                found.append(
                    Finding(
                        FindingKind.LINK_FLAP,
                        certain=False,
                        text=text,
                        switch=self._switch,
                        port=link.port,
                        from_ns=flap.from_ns,
                        to_ns=flap.to_ns,
                    )
                )
        return tuple(found)


def _finding(kind: FindingKind, port: PortWiring) -> Finding:
    return Finding(kind, certain=False, text=f"{port.switch}: {port.text}", switch=port.switch, port=port.port)
