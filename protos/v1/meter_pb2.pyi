from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class MeterTotals(_message.Message):
    __slots__ = ("raw_bytes", "wire_bytes", "segments")
    RAW_BYTES_FIELD_NUMBER: _ClassVar[int]
    WIRE_BYTES_FIELD_NUMBER: _ClassVar[int]
    SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    raw_bytes: int
    wire_bytes: int
    segments: int
    def __init__(self, raw_bytes: _Optional[int] = ..., wire_bytes: _Optional[int] = ..., segments: _Optional[int] = ...) -> None: ...

class Unplaced(_message.Message):
    __slots__ = ("first_bucket", "count", "moved")
    FIRST_BUCKET_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    MOVED_FIELD_NUMBER: _ClassVar[int]
    first_bucket: int
    count: int
    moved: MeterTotals
    def __init__(self, first_bucket: _Optional[int] = ..., count: _Optional[int] = ..., moved: _Optional[_Union[MeterTotals, _Mapping]] = ...) -> None: ...

class ClassTotals(_message.Message):
    __slots__ = ("traffic_class", "total", "tunnelled_bytes", "tagged_segments")
    TRAFFIC_CLASS_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    TUNNELLED_BYTES_FIELD_NUMBER: _ClassVar[int]
    TAGGED_SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    traffic_class: int
    total: MeterTotals
    tunnelled_bytes: int
    tagged_segments: int
    def __init__(self, traffic_class: _Optional[int] = ..., total: _Optional[_Union[MeterTotals, _Mapping]] = ..., tunnelled_bytes: _Optional[int] = ..., tagged_segments: _Optional[int] = ...) -> None: ...

class PeerTotals(_message.Message):
    __slots__ = ("peer", "wire_bytes", "segments")
    PEER_FIELD_NUMBER: _ClassVar[int]
    WIRE_BYTES_FIELD_NUMBER: _ClassVar[int]
    SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    peer: str
    wire_bytes: int
    segments: int
    def __init__(self, peer: _Optional[str] = ..., wire_bytes: _Optional[int] = ..., segments: _Optional[int] = ...) -> None: ...

class MeterAudit(_message.Message):
    __slots__ = ("findings", "texts", "unmetered_packets", "unmetered_bytes", "offloaded_ppm", "program_id", "program_tag")
    FINDINGS_FIELD_NUMBER: _ClassVar[int]
    TEXTS_FIELD_NUMBER: _ClassVar[int]
    UNMETERED_PACKETS_FIELD_NUMBER: _ClassVar[int]
    UNMETERED_BYTES_FIELD_NUMBER: _ClassVar[int]
    OFFLOADED_PPM_FIELD_NUMBER: _ClassVar[int]
    PROGRAM_ID_FIELD_NUMBER: _ClassVar[int]
    PROGRAM_TAG_FIELD_NUMBER: _ClassVar[int]
    findings: _containers.RepeatedScalarFieldContainer[str]
    texts: _containers.RepeatedScalarFieldContainer[str]
    unmetered_packets: int
    unmetered_bytes: int
    offloaded_ppm: int
    program_id: int
    program_tag: bytes
    def __init__(self, findings: _Optional[_Iterable[str]] = ..., texts: _Optional[_Iterable[str]] = ..., unmetered_packets: _Optional[int] = ..., unmetered_bytes: _Optional[int] = ..., offloaded_ppm: _Optional[int] = ..., program_id: _Optional[int] = ..., program_tag: _Optional[bytes] = ...) -> None: ...

class MeterGap(_message.Message):
    __slots__ = ("from_ns", "to_ns", "reason")
    FROM_NS_FIELD_NUMBER: _ClassVar[int]
    TO_NS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    from_ns: int
    to_ns: int
    reason: str
    def __init__(self, from_ns: _Optional[int] = ..., to_ns: _Optional[int] = ..., reason: _Optional[str] = ...) -> None: ...

class MeterReading(_message.Message):
    __slots__ = ("port", "unavailable", "unavailable_text", "since_ns", "epoch", "epoch_reason", "width_ns", "bucket_zero_ns", "first_bucket", "bucket_count", "start", "moved", "series", "unplaced", "lost_buckets", "classes", "peers", "full", "audit", "gaps", "port_number")
    PORT_FIELD_NUMBER: _ClassVar[int]
    UNAVAILABLE_FIELD_NUMBER: _ClassVar[int]
    UNAVAILABLE_TEXT_FIELD_NUMBER: _ClassVar[int]
    SINCE_NS_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    EPOCH_REASON_FIELD_NUMBER: _ClassVar[int]
    WIDTH_NS_FIELD_NUMBER: _ClassVar[int]
    BUCKET_ZERO_NS_FIELD_NUMBER: _ClassVar[int]
    FIRST_BUCKET_FIELD_NUMBER: _ClassVar[int]
    BUCKET_COUNT_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    MOVED_FIELD_NUMBER: _ClassVar[int]
    SERIES_FIELD_NUMBER: _ClassVar[int]
    UNPLACED_FIELD_NUMBER: _ClassVar[int]
    LOST_BUCKETS_FIELD_NUMBER: _ClassVar[int]
    CLASSES_FIELD_NUMBER: _ClassVar[int]
    PEERS_FIELD_NUMBER: _ClassVar[int]
    FULL_FIELD_NUMBER: _ClassVar[int]
    AUDIT_FIELD_NUMBER: _ClassVar[int]
    GAPS_FIELD_NUMBER: _ClassVar[int]
    PORT_NUMBER_FIELD_NUMBER: _ClassVar[int]
    port: str
    unavailable: str
    unavailable_text: str
    since_ns: int
    epoch: int
    epoch_reason: str
    width_ns: int
    bucket_zero_ns: int
    first_bucket: int
    bucket_count: int
    start: MeterTotals
    moved: MeterTotals
    series: bytes
    unplaced: _containers.RepeatedCompositeFieldContainer[Unplaced]
    lost_buckets: int
    classes: _containers.RepeatedCompositeFieldContainer[ClassTotals]
    peers: _containers.RepeatedCompositeFieldContainer[PeerTotals]
    full: bool
    audit: MeterAudit
    gaps: _containers.RepeatedCompositeFieldContainer[MeterGap]
    port_number: int
    def __init__(self, port: _Optional[str] = ..., unavailable: _Optional[str] = ..., unavailable_text: _Optional[str] = ..., since_ns: _Optional[int] = ..., epoch: _Optional[int] = ..., epoch_reason: _Optional[str] = ..., width_ns: _Optional[int] = ..., bucket_zero_ns: _Optional[int] = ..., first_bucket: _Optional[int] = ..., bucket_count: _Optional[int] = ..., start: _Optional[_Union[MeterTotals, _Mapping]] = ..., moved: _Optional[_Union[MeterTotals, _Mapping]] = ..., series: _Optional[bytes] = ..., unplaced: _Optional[_Iterable[_Union[Unplaced, _Mapping]]] = ..., lost_buckets: _Optional[int] = ..., classes: _Optional[_Iterable[_Union[ClassTotals, _Mapping]]] = ..., peers: _Optional[_Iterable[_Union[PeerTotals, _Mapping]]] = ..., full: _Optional[bool] = ..., audit: _Optional[_Union[MeterAudit, _Mapping]] = ..., gaps: _Optional[_Iterable[_Union[MeterGap, _Mapping]]] = ..., port_number: _Optional[int] = ...) -> None: ...

class ClassEntry(_message.Message):
    __slots__ = ("network", "prefix_length", "traffic_class", "peer")
    NETWORK_FIELD_NUMBER: _ClassVar[int]
    PREFIX_LENGTH_FIELD_NUMBER: _ClassVar[int]
    TRAFFIC_CLASS_FIELD_NUMBER: _ClassVar[int]
    PEER_FIELD_NUMBER: _ClassVar[int]
    network: bytes
    prefix_length: int
    traffic_class: int
    peer: str
    def __init__(self, network: _Optional[bytes] = ..., prefix_length: _Optional[int] = ..., traffic_class: _Optional[int] = ..., peer: _Optional[str] = ...) -> None: ...

class ClassTable(_message.Message):
    __slots__ = ("version", "sequence", "agent", "entries")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    version: int
    sequence: int
    agent: str
    entries: _containers.RepeatedCompositeFieldContainer[ClassEntry]
    def __init__(self, version: _Optional[int] = ..., sequence: _Optional[int] = ..., agent: _Optional[str] = ..., entries: _Optional[_Iterable[_Union[ClassEntry, _Mapping]]] = ...) -> None: ...
