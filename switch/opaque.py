"""pysnmp's message schemas with the bindings left as octets: it handles messages and security, we read the bindings.

pysnmp names the schema of a message in a class attribute made to be replaced (``SNMP_MSG_SPEC``), and pyasn1 has a type
for "whatever is there, as it came" (``Any``). Reports keep their own schema: pysnmp itself reads their bindings.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyasn1.type import namedtype, univ
from pysnmp.proto import rfc1905
from pysnmp.proto.api import v2c
from pysnmp.proto.mpmod import rfc3412

from switch.exchange import Oid
from switch.varbinds import encode_names


def _with_opaque_bindings(components: namedtype.NamedTypes) -> namedtype.NamedTypes:
    kept = [components[position] for position in range(len(components) - 1)]
    return namedtype.NamedTypes(*kept, namedtype.NamedType("variable-bindings", univ.Any()))


class _GetRequest(rfc1905.GetRequestPDU):  # type: ignore[misc]  # untyped library
    componentType = _with_opaque_bindings(rfc1905.GetRequestPDU.componentType)  # noqa: N815  # the library's name


class _GetBulkRequest(rfc1905.GetBulkRequestPDU):  # type: ignore[misc]
    componentType = _with_opaque_bindings(rfc1905.GetBulkRequestPDU.componentType)  # noqa: N815


class _Response(rfc1905.ResponsePDU):  # type: ignore[misc]
    componentType = _with_opaque_bindings(rfc1905.ResponsePDU.componentType)  # noqa: N815


class _Pdus(univ.Choice):  # type: ignore[misc]
    componentType = namedtype.NamedTypes(  # noqa: N815
        namedtype.NamedType("get-request", _GetRequest()),
        namedtype.NamedType("get-bulk-request", _GetBulkRequest()),
        namedtype.NamedType("response", _Response()),
        namedtype.NamedType("report", rfc1905.ReportPDU()),
    )


class _ScopedPdu(univ.Sequence):  # type: ignore[misc]
    componentType = namedtype.NamedTypes(  # noqa: N815
        namedtype.NamedType("contextEngineId", univ.OctetString()),
        namedtype.NamedType("contextName", univ.OctetString()),
        namedtype.NamedType("data", _Pdus()),
    )


class _ScopedPduData(univ.Choice):  # type: ignore[misc]
    componentType = namedtype.NamedTypes(  # noqa: N815
        namedtype.NamedType("plaintext", _ScopedPdu()),
        namedtype.NamedType("encryptedPDU", univ.OctetString()),
    )


class OpaqueV3Message(univ.Sequence):  # type: ignore[misc]
    """An SNMPv3 message (RFC 3412, section 6)."""

    componentType = namedtype.NamedTypes(  # noqa: N815
        *(rfc3412.SNMPv3Message.componentType[position] for position in range(3)),
        namedtype.NamedType("msgData", _ScopedPduData()),
    )


class OpaqueV2cMessage(v2c.Message):  # type: ignore[misc]
    """An SNMPv2c message (RFC 1901)."""

    componentType = namedtype.NamedTypes(  # noqa: N815
        *(v2c.Message.componentType[position] for position in range(2)),
        namedtype.NamedType("data", _Pdus()),
    )


def get_request(request_id: int, oids: Sequence[Oid]) -> Any:
    """Return pysnmp's PDU that asks for ``oids``."""
    return _filled(_GetRequest(), request_id, 0, oids)


def get_bulk_request(request_id: int, oids: Sequence[Oid], max_repetitions: int) -> Any:
    """Return pysnmp's PDU that asks for successors of ``oids``."""
    return _filled(_GetBulkRequest(), request_id, max_repetitions, oids)


def _filled(pdu: Any, request_id: int, third: int, oids: Sequence[Oid]) -> Any:
    for position, value in enumerate((request_id, 0, third, encode_names(oids))):
        pdu.setComponentByPosition(position, value)
    return pdu
