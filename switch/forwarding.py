"""Which hardware addresses are behind which port, as the switch's bridge learnt them: BRIDGE-MIB, Q-BRIDGE-MIB. Pure.

The forwarding table tells of a station that sends frames and does not introduce itself. Its rows name bridge ports,
which a table of their own resolves to interfaces (RFC 4188, dot1dBasePortIfIndex). Whoever sends a frame chooses the
address in it, and an address stays for minutes after its station left: the table is a hint and convicts nobody.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from protos.reading import Missing
from switch.exchange import Exchange, Oid, ValueType, VarBind
from switch.ports import PortSample

BRIDGE_PORT_INTERFACE: Final[Oid] = (1, 3, 6, 1, 2, 1, 17, 1, 4, 1, 2)
"""dot1dBasePortIfIndex, by bridge port."""
FORWARDING_PORT: Final[Oid] = (1, 3, 6, 1, 2, 1, 17, 4, 3, 1, 2)
"""dot1dTpFdbPort, by address."""
VLAN_FORWARDING_PORT: Final[Oid] = (1, 3, 6, 1, 2, 1, 17, 7, 1, 2, 2, 1, 2)
"""dot1qTpFdbPort (RFC 4363), by filtering database and address."""

MOST_REQUESTS = 8
"""For each table in one look: some 400 addresses. A longer one is left off, for it is a hint."""
_ADDRESS_OCTETS = 6


def stations(exchanges: Sequence[Exchange], samples: Iterable[PortSample]) -> dict[str, tuple[str, ...]]:
    """Return the addresses behind each port, in hex and in order, as far as the answers of one look tell of them.

    1. Take the rows of both forwarding tables; an address may be in several VLANs and is one.
    2. Resolve bridge ports to interfaces. Where the table of bridge ports is silent, nothing is guessed.
    3. Leave out the switch's own addresses: they are those of its ports.
    """
    ports = list(samples)
    names = {sample.identity.if_index: sample.port for sample in ports}
    own = {sample.physical_address for sample in ports if not isinstance(sample.physical_address, Missing)}
    interfaces: dict[int, int] = {}
    learnt: dict[str, set[int]] = {}
    for exchange in exchanges:
        for binding in exchange.varbinds:
            number = _number(binding)
            if number is None:
                continue
            for table, indexes in ((FORWARDING_PORT, 0), (VLAN_FORWARDING_PORT, 1)):
                address = _address(binding.oid, table, indexes)
                if address is not None and number > 0:
                    learnt.setdefault(address, set()).add(number)
            if binding.oid[:-1] == BRIDGE_PORT_INTERFACE:
                interfaces[binding.oid[-1]] = number
    found: dict[str, set[str]] = {}
    for address, numbers in learnt.items():
        for number in numbers:
            port = names.get(interfaces.get(number, -1))
            if port is not None and address not in own:
                found.setdefault(port, set()).add(address)
    return {port: tuple(sorted(addresses)) for port, addresses in found.items()}


def _number(binding: VarBind) -> int | None:
    return binding.value if binding.type is ValueType.INTEGER and isinstance(binding.value, int) else None


def _address(oid: Oid, table: Oid, indexes: int) -> str | None:
    """Return the address that an instance of ``table`` is about, whose index has ``indexes`` numbers before it."""
    if oid[: len(table)] != table or len(oid) != len(table) + indexes + _ADDRESS_OCTETS:
        return None
    octets = oid[-_ADDRESS_OCTETS:]
    return bytes(octets).hex() if max(octets) <= 0xFF else None
