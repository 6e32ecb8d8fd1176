from protos.v1 import reading_pb2 as _reading_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class LeaseKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    LEASE_KIND_UNSPECIFIED: _ClassVar[LeaseKind]
    LEASE_KIND_STANDING: _ClassVar[LeaseKind]
    LEASE_KIND_LOAD: _ClassVar[LeaseKind]
LEASE_KIND_UNSPECIFIED: LeaseKind
LEASE_KIND_STANDING: LeaseKind
LEASE_KIND_LOAD: LeaseKind

class Lease(_message.Message):
    __slots__ = ("version", "agent", "sequence", "boot_id", "port", "direction", "traffic_class", "rate_bytes_per_s", "depth_bytes", "volume_bytes", "not_before_ns", "lifetime_ns", "budget", "kind", "agreement_sha256", "load_window")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    BOOT_ID_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    DIRECTION_FIELD_NUMBER: _ClassVar[int]
    TRAFFIC_CLASS_FIELD_NUMBER: _ClassVar[int]
    RATE_BYTES_PER_S_FIELD_NUMBER: _ClassVar[int]
    DEPTH_BYTES_FIELD_NUMBER: _ClassVar[int]
    VOLUME_BYTES_FIELD_NUMBER: _ClassVar[int]
    NOT_BEFORE_NS_FIELD_NUMBER: _ClassVar[int]
    LIFETIME_NS_FIELD_NUMBER: _ClassVar[int]
    BUDGET_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    AGREEMENT_SHA256_FIELD_NUMBER: _ClassVar[int]
    LOAD_WINDOW_FIELD_NUMBER: _ClassVar[int]
    version: int
    agent: str
    sequence: int
    boot_id: str
    port: str
    direction: _reading_pb2.Direction
    traffic_class: int
    rate_bytes_per_s: int
    depth_bytes: int
    volume_bytes: int
    not_before_ns: int
    lifetime_ns: int
    budget: int
    kind: LeaseKind
    agreement_sha256: bytes
    load_window: bytes
    def __init__(self, version: _Optional[int] = ..., agent: _Optional[str] = ..., sequence: _Optional[int] = ..., boot_id: _Optional[str] = ..., port: _Optional[str] = ..., direction: _Optional[_Union[_reading_pb2.Direction, str]] = ..., traffic_class: _Optional[int] = ..., rate_bytes_per_s: _Optional[int] = ..., depth_bytes: _Optional[int] = ..., volume_bytes: _Optional[int] = ..., not_before_ns: _Optional[int] = ..., lifetime_ns: _Optional[int] = ..., budget: _Optional[int] = ..., kind: _Optional[_Union[LeaseKind, str]] = ..., agreement_sha256: _Optional[bytes] = ..., load_window: _Optional[bytes] = ...) -> None: ...

class LoadWindow(_message.Message):
    __slots__ = ("version", "site", "agent", "number", "traffic_class", "ingress_bytes", "egress_bytes", "longest_ns", "agreement_sha256", "sources")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    SITE_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    TRAFFIC_CLASS_FIELD_NUMBER: _ClassVar[int]
    INGRESS_BYTES_FIELD_NUMBER: _ClassVar[int]
    EGRESS_BYTES_FIELD_NUMBER: _ClassVar[int]
    LONGEST_NS_FIELD_NUMBER: _ClassVar[int]
    AGREEMENT_SHA256_FIELD_NUMBER: _ClassVar[int]
    SOURCES_FIELD_NUMBER: _ClassVar[int]
    version: int
    site: str
    agent: str
    number: int
    traffic_class: int
    ingress_bytes: int
    egress_bytes: int
    longest_ns: int
    agreement_sha256: bytes
    sources: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, version: _Optional[int] = ..., site: _Optional[str] = ..., agent: _Optional[str] = ..., number: _Optional[int] = ..., traffic_class: _Optional[int] = ..., ingress_bytes: _Optional[int] = ..., egress_bytes: _Optional[int] = ..., longest_ns: _Optional[int] = ..., agreement_sha256: _Optional[bytes] = ..., sources: _Optional[_Iterable[str]] = ...) -> None: ...

class SignedLease(_message.Message):
    __slots__ = ("body", "signature", "prover_signature")
    BODY_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    PROVER_SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    body: bytes
    signature: bytes
    prover_signature: bytes
    def __init__(self, body: _Optional[bytes] = ..., signature: _Optional[bytes] = ..., prover_signature: _Optional[bytes] = ...) -> None: ...

class LeaseRevocation(_message.Message):
    __slots__ = ("version", "agent", "sequence", "port", "direction", "traffic_class", "kind")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    DIRECTION_FIELD_NUMBER: _ClassVar[int]
    TRAFFIC_CLASS_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    version: int
    agent: str
    sequence: int
    port: str
    direction: _reading_pb2.Direction
    traffic_class: int
    kind: LeaseKind
    def __init__(self, version: _Optional[int] = ..., agent: _Optional[str] = ..., sequence: _Optional[int] = ..., port: _Optional[str] = ..., direction: _Optional[_Union[_reading_pb2.Direction, str]] = ..., traffic_class: _Optional[int] = ..., kind: _Optional[_Union[LeaseKind, str]] = ...) -> None: ...

class SignedLeaseRevocation(_message.Message):
    __slots__ = ("body", "signature")
    BODY_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    body: bytes
    signature: bytes
    def __init__(self, body: _Optional[bytes] = ..., signature: _Optional[bytes] = ...) -> None: ...

class LeaseState(_message.Message):
    __slots__ = ("port", "direction", "traffic_class", "sequence", "kind", "floor_reason", "rate_bytes_per_s", "depth_bytes", "volume_bytes", "used_bytes", "until_ns", "budget", "agreement_sha256")
    PORT_FIELD_NUMBER: _ClassVar[int]
    DIRECTION_FIELD_NUMBER: _ClassVar[int]
    TRAFFIC_CLASS_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    FLOOR_REASON_FIELD_NUMBER: _ClassVar[int]
    RATE_BYTES_PER_S_FIELD_NUMBER: _ClassVar[int]
    DEPTH_BYTES_FIELD_NUMBER: _ClassVar[int]
    VOLUME_BYTES_FIELD_NUMBER: _ClassVar[int]
    USED_BYTES_FIELD_NUMBER: _ClassVar[int]
    UNTIL_NS_FIELD_NUMBER: _ClassVar[int]
    BUDGET_FIELD_NUMBER: _ClassVar[int]
    AGREEMENT_SHA256_FIELD_NUMBER: _ClassVar[int]
    port: str
    direction: _reading_pb2.Direction
    traffic_class: int
    sequence: int
    kind: LeaseKind
    floor_reason: str
    rate_bytes_per_s: int
    depth_bytes: int
    volume_bytes: int
    used_bytes: int
    until_ns: int
    budget: int
    agreement_sha256: bytes
    def __init__(self, port: _Optional[str] = ..., direction: _Optional[_Union[_reading_pb2.Direction, str]] = ..., traffic_class: _Optional[int] = ..., sequence: _Optional[int] = ..., kind: _Optional[_Union[LeaseKind, str]] = ..., floor_reason: _Optional[str] = ..., rate_bytes_per_s: _Optional[int] = ..., depth_bytes: _Optional[int] = ..., volume_bytes: _Optional[int] = ..., used_bytes: _Optional[int] = ..., until_ns: _Optional[int] = ..., budget: _Optional[int] = ..., agreement_sha256: _Optional[bytes] = ...) -> None: ...

class LimiterCounters(_message.Message):
    __slots__ = ("offered_bytes", "passed_bytes", "dropped_bytes", "offered_packets", "passed_packets", "dropped_packets")
    OFFERED_BYTES_FIELD_NUMBER: _ClassVar[int]
    PASSED_BYTES_FIELD_NUMBER: _ClassVar[int]
    DROPPED_BYTES_FIELD_NUMBER: _ClassVar[int]
    OFFERED_PACKETS_FIELD_NUMBER: _ClassVar[int]
    PASSED_PACKETS_FIELD_NUMBER: _ClassVar[int]
    DROPPED_PACKETS_FIELD_NUMBER: _ClassVar[int]
    offered_bytes: int
    passed_bytes: int
    dropped_bytes: int
    offered_packets: int
    passed_packets: int
    dropped_packets: int
    def __init__(self, offered_bytes: _Optional[int] = ..., passed_bytes: _Optional[int] = ..., dropped_bytes: _Optional[int] = ..., offered_packets: _Optional[int] = ..., passed_packets: _Optional[int] = ..., dropped_packets: _Optional[int] = ...) -> None: ...

class LimiterReading(_message.Message):
    __slots__ = ("state", "counters", "earliest_ns", "latest_ns", "trouble", "floor_rate_bytes_per_s", "floor_depth_bytes", "moments")
    STATE_FIELD_NUMBER: _ClassVar[int]
    COUNTERS_FIELD_NUMBER: _ClassVar[int]
    EARLIEST_NS_FIELD_NUMBER: _ClassVar[int]
    LATEST_NS_FIELD_NUMBER: _ClassVar[int]
    TROUBLE_FIELD_NUMBER: _ClassVar[int]
    FLOOR_RATE_BYTES_PER_S_FIELD_NUMBER: _ClassVar[int]
    FLOOR_DEPTH_BYTES_FIELD_NUMBER: _ClassVar[int]
    MOMENTS_FIELD_NUMBER: _ClassVar[int]
    state: LeaseState
    counters: LimiterCounters
    earliest_ns: int
    latest_ns: int
    trouble: str
    floor_rate_bytes_per_s: int
    floor_depth_bytes: int
    moments: LimiterMoments
    def __init__(self, state: _Optional[_Union[LeaseState, _Mapping]] = ..., counters: _Optional[_Union[LimiterCounters, _Mapping]] = ..., earliest_ns: _Optional[int] = ..., latest_ns: _Optional[int] = ..., trouble: _Optional[str] = ..., floor_rate_bytes_per_s: _Optional[int] = ..., floor_depth_bytes: _Optional[int] = ..., moments: _Optional[_Union[LimiterMoments, _Mapping]] = ...) -> None: ...

class LimiterMoments(_message.Message):
    __slots__ = ("width_ns", "bucket_zero_ns", "first_bucket", "bucket_count", "series", "unplaced_bytes")
    WIDTH_NS_FIELD_NUMBER: _ClassVar[int]
    BUCKET_ZERO_NS_FIELD_NUMBER: _ClassVar[int]
    FIRST_BUCKET_FIELD_NUMBER: _ClassVar[int]
    BUCKET_COUNT_FIELD_NUMBER: _ClassVar[int]
    SERIES_FIELD_NUMBER: _ClassVar[int]
    UNPLACED_BYTES_FIELD_NUMBER: _ClassVar[int]
    width_ns: int
    bucket_zero_ns: int
    first_bucket: int
    bucket_count: int
    series: bytes
    unplaced_bytes: int
    def __init__(self, width_ns: _Optional[int] = ..., bucket_zero_ns: _Optional[int] = ..., first_bucket: _Optional[int] = ..., bucket_count: _Optional[int] = ..., series: _Optional[bytes] = ..., unplaced_bytes: _Optional[int] = ...) -> None: ...

class LeaseRefusal(_message.Message):
    __slots__ = ("reason", "count", "text", "at_ns")
    REASON_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    AT_NS_FIELD_NUMBER: _ClassVar[int]
    reason: str
    count: int
    text: str
    at_ns: int
    def __init__(self, reason: _Optional[str] = ..., count: _Optional[int] = ..., text: _Optional[str] = ..., at_ns: _Optional[int] = ...) -> None: ...

class LimitsReading(_message.Message):
    __slots__ = ("backend", "unavailable", "highest_sequence", "limiters", "refusals")
    BACKEND_FIELD_NUMBER: _ClassVar[int]
    UNAVAILABLE_FIELD_NUMBER: _ClassVar[int]
    HIGHEST_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    LIMITERS_FIELD_NUMBER: _ClassVar[int]
    REFUSALS_FIELD_NUMBER: _ClassVar[int]
    backend: str
    unavailable: str
    highest_sequence: int
    limiters: _containers.RepeatedCompositeFieldContainer[LimiterReading]
    refusals: _containers.RepeatedCompositeFieldContainer[LeaseRefusal]
    def __init__(self, backend: _Optional[str] = ..., unavailable: _Optional[str] = ..., highest_sequence: _Optional[int] = ..., limiters: _Optional[_Iterable[_Union[LimiterReading, _Mapping]]] = ..., refusals: _Optional[_Iterable[_Union[LeaseRefusal, _Mapping]]] = ...) -> None: ...

class LeaseReply(_message.Message):
    __slots__ = ("refused", "text", "limits", "boot_id", "monotonic_ns")
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    BOOT_ID_FIELD_NUMBER: _ClassVar[int]
    MONOTONIC_NS_FIELD_NUMBER: _ClassVar[int]
    refused: str
    text: str
    limits: LimitsReading
    boot_id: str
    monotonic_ns: int
    def __init__(self, refused: _Optional[str] = ..., text: _Optional[str] = ..., limits: _Optional[_Union[LimitsReading, _Mapping]] = ..., boot_id: _Optional[str] = ..., monotonic_ns: _Optional[int] = ...) -> None: ...

class DescribeLeasesRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
