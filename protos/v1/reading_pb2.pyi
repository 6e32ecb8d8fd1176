from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Direction(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DIRECTION_UNSPECIFIED: _ClassVar[Direction]
    DIRECTION_EGRESS: _ClassVar[Direction]
    DIRECTION_INGRESS: _ClassVar[Direction]

class Framing(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FRAMING_UNSPECIFIED: _ClassVar[Framing]
    FRAMING_L2_WITHOUT_FCS: _ClassVar[Framing]
    FRAMING_L2_WITH_FCS: _ClassVar[Framing]
    FRAMING_L1: _ClassVar[Framing]

class MissingReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MISSING_REASON_UNSPECIFIED: _ClassVar[MissingReason]
    MISSING_REASON_ABSENT: _ClassVar[MissingReason]
    MISSING_REASON_UNSUPPORTED: _ClassVar[MissingReason]
    MISSING_REASON_MALFORMED: _ClassVar[MissingReason]
    MISSING_REASON_TRUNCATED: _ClassVar[MissingReason]
    MISSING_REASON_TIMEOUT: _ClassVar[MissingReason]
    MISSING_REASON_DENIED: _ClassVar[MissingReason]

class PortRole(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PORT_ROLE_UNSPECIFIED: _ClassVar[PortRole]
    PORT_ROLE_HOST_PORT: _ClassVar[PortRole]
    PORT_ROLE_UPLINK: _ClassVar[PortRole]

class CounterSource(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    COUNTER_SOURCE_UNSPECIFIED: _ClassVar[CounterSource]
    COUNTER_SOURCE_NETLINK_STATS64: _ClassVar[CounterSource]
    COUNTER_SOURCE_MLX5_PHY: _ClassVar[CounterSource]
    COUNTER_SOURCE_MLX5_VPORT: _ClassVar[CounterSource]
    COUNTER_SOURCE_INFINIBAND_PORT: _ClassVar[CounterSource]

class EpochReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    EPOCH_REASON_UNSPECIFIED: _ClassVar[EpochReason]
    EPOCH_REASON_FIRST_READING: _ClassVar[EpochReason]
    EPOCH_REASON_BOOT: _ClassVar[EpochReason]
    EPOCH_REASON_INTERFACE_RECREATED: _ClassVar[EpochReason]
    EPOCH_REASON_COUNTER_DECREASED: _ClassVar[EpochReason]
    EPOCH_REASON_CONFIGURATION_CHANGED: _ClassVar[EpochReason]
DIRECTION_UNSPECIFIED: Direction
DIRECTION_EGRESS: Direction
DIRECTION_INGRESS: Direction
FRAMING_UNSPECIFIED: Framing
FRAMING_L2_WITHOUT_FCS: Framing
FRAMING_L2_WITH_FCS: Framing
FRAMING_L1: Framing
MISSING_REASON_UNSPECIFIED: MissingReason
MISSING_REASON_ABSENT: MissingReason
MISSING_REASON_UNSUPPORTED: MissingReason
MISSING_REASON_MALFORMED: MissingReason
MISSING_REASON_TRUNCATED: MissingReason
MISSING_REASON_TIMEOUT: MissingReason
MISSING_REASON_DENIED: MissingReason
PORT_ROLE_UNSPECIFIED: PortRole
PORT_ROLE_HOST_PORT: PortRole
PORT_ROLE_UPLINK: PortRole
COUNTER_SOURCE_UNSPECIFIED: CounterSource
COUNTER_SOURCE_NETLINK_STATS64: CounterSource
COUNTER_SOURCE_MLX5_PHY: CounterSource
COUNTER_SOURCE_MLX5_VPORT: CounterSource
COUNTER_SOURCE_INFINIBAND_PORT: CounterSource
EPOCH_REASON_UNSPECIFIED: EpochReason
EPOCH_REASON_FIRST_READING: EpochReason
EPOCH_REASON_BOOT: EpochReason
EPOCH_REASON_INTERFACE_RECREATED: EpochReason
EPOCH_REASON_COUNTER_DECREASED: EpochReason
EPOCH_REASON_CONFIGURATION_CHANGED: EpochReason

class Counters(_message.Message):
    __slots__ = ("bytes", "packets", "dropped_packets", "error_packets")
    BYTES_FIELD_NUMBER: _ClassVar[int]
    PACKETS_FIELD_NUMBER: _ClassVar[int]
    DROPPED_PACKETS_FIELD_NUMBER: _ClassVar[int]
    ERROR_PACKETS_FIELD_NUMBER: _ClassVar[int]
    bytes: int
    packets: int
    dropped_packets: int
    error_packets: int
    def __init__(self, bytes: _Optional[int] = ..., packets: _Optional[int] = ..., dropped_packets: _Optional[int] = ..., error_packets: _Optional[int] = ...) -> None: ...

class PortReading(_message.Message):
    __slots__ = ("port", "role", "source", "framing", "epoch", "epoch_reason", "earliest_ns", "latest_ns", "egress", "ingress", "missing", "ifindex", "counted_by", "began", "before_clock_ns", "lasted_ns")
    PORT_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    FRAMING_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    EPOCH_REASON_FIELD_NUMBER: _ClassVar[int]
    EARLIEST_NS_FIELD_NUMBER: _ClassVar[int]
    LATEST_NS_FIELD_NUMBER: _ClassVar[int]
    EGRESS_FIELD_NUMBER: _ClassVar[int]
    INGRESS_FIELD_NUMBER: _ClassVar[int]
    MISSING_FIELD_NUMBER: _ClassVar[int]
    IFINDEX_FIELD_NUMBER: _ClassVar[int]
    COUNTED_BY_FIELD_NUMBER: _ClassVar[int]
    BEGAN_FIELD_NUMBER: _ClassVar[int]
    BEFORE_CLOCK_NS_FIELD_NUMBER: _ClassVar[int]
    LASTED_NS_FIELD_NUMBER: _ClassVar[int]
    port: str
    role: PortRole
    source: str
    framing: Framing
    epoch: int
    epoch_reason: str
    earliest_ns: int
    latest_ns: int
    egress: Counters
    ingress: Counters
    missing: MissingReason
    ifindex: int
    counted_by: CounterSource
    began: EpochReason
    before_clock_ns: int
    lasted_ns: int
    def __init__(self, port: _Optional[str] = ..., role: _Optional[_Union[PortRole, str]] = ..., source: _Optional[str] = ..., framing: _Optional[_Union[Framing, str]] = ..., epoch: _Optional[int] = ..., epoch_reason: _Optional[str] = ..., earliest_ns: _Optional[int] = ..., latest_ns: _Optional[int] = ..., egress: _Optional[_Union[Counters, _Mapping]] = ..., ingress: _Optional[_Union[Counters, _Mapping]] = ..., missing: _Optional[_Union[MissingReason, str]] = ..., ifindex: _Optional[int] = ..., counted_by: _Optional[_Union[CounterSource, str]] = ..., began: _Optional[_Union[EpochReason, str]] = ..., before_clock_ns: _Optional[int] = ..., lasted_ns: _Optional[int] = ...) -> None: ...
