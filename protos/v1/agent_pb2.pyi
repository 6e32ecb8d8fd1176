from protos.v1 import frame_pb2 as _frame_pb2
from protos.v1 import lease_pb2 as _lease_pb2
from protos.v1 import meter_pb2 as _meter_pb2
from protos.v1 import reading_pb2 as _reading_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class DescribeRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class PortDescription(_message.Message):
    __slots__ = ("port", "role", "speed_bytes_per_s", "mtu_bytes", "source", "framing", "refresh_ns", "sees", "cannot_see", "missing")
    PORT_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    SPEED_BYTES_PER_S_FIELD_NUMBER: _ClassVar[int]
    MTU_BYTES_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    FRAMING_FIELD_NUMBER: _ClassVar[int]
    REFRESH_NS_FIELD_NUMBER: _ClassVar[int]
    SEES_FIELD_NUMBER: _ClassVar[int]
    CANNOT_SEE_FIELD_NUMBER: _ClassVar[int]
    MISSING_FIELD_NUMBER: _ClassVar[int]
    port: str
    role: _reading_pb2.PortRole
    speed_bytes_per_s: int
    mtu_bytes: int
    source: str
    framing: _reading_pb2.Framing
    refresh_ns: int
    sees: _containers.RepeatedScalarFieldContainer[str]
    cannot_see: _containers.RepeatedScalarFieldContainer[str]
    missing: _reading_pb2.MissingReason
    def __init__(self, port: _Optional[str] = ..., role: _Optional[_Union[_reading_pb2.PortRole, str]] = ..., speed_bytes_per_s: _Optional[int] = ..., mtu_bytes: _Optional[int] = ..., source: _Optional[str] = ..., framing: _Optional[_Union[_reading_pb2.Framing, str]] = ..., refresh_ns: _Optional[int] = ..., sees: _Optional[_Iterable[str]] = ..., cannot_see: _Optional[_Iterable[str]] = ..., missing: _Optional[_Union[_reading_pb2.MissingReason, str]] = ...) -> None: ...

class AgentDescription(_message.Message):
    __slots__ = ("agent", "agent_version", "bundle_sha256", "frame_public_key", "python_version", "kernel", "machine", "clock", "frame_interval_ns", "ports", "spool", "last_sequence", "agent_start", "meters", "class_table_sequence", "class_table_sha256")
    AGENT_FIELD_NUMBER: _ClassVar[int]
    AGENT_VERSION_FIELD_NUMBER: _ClassVar[int]
    BUNDLE_SHA256_FIELD_NUMBER: _ClassVar[int]
    FRAME_PUBLIC_KEY_FIELD_NUMBER: _ClassVar[int]
    PYTHON_VERSION_FIELD_NUMBER: _ClassVar[int]
    KERNEL_FIELD_NUMBER: _ClassVar[int]
    MACHINE_FIELD_NUMBER: _ClassVar[int]
    CLOCK_FIELD_NUMBER: _ClassVar[int]
    FRAME_INTERVAL_NS_FIELD_NUMBER: _ClassVar[int]
    PORTS_FIELD_NUMBER: _ClassVar[int]
    SPOOL_FIELD_NUMBER: _ClassVar[int]
    LAST_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    AGENT_START_FIELD_NUMBER: _ClassVar[int]
    METERS_FIELD_NUMBER: _ClassVar[int]
    CLASS_TABLE_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    CLASS_TABLE_SHA256_FIELD_NUMBER: _ClassVar[int]
    agent: str
    agent_version: str
    bundle_sha256: str
    frame_public_key: bytes
    python_version: str
    kernel: str
    machine: str
    clock: _frame_pb2.ClockStamp
    frame_interval_ns: int
    ports: _containers.RepeatedCompositeFieldContainer[PortDescription]
    spool: _frame_pb2.SpoolState
    last_sequence: int
    agent_start: int
    meters: _containers.RepeatedCompositeFieldContainer[MeterDescription]
    class_table_sequence: int
    class_table_sha256: bytes
    def __init__(self, agent: _Optional[str] = ..., agent_version: _Optional[str] = ..., bundle_sha256: _Optional[str] = ..., frame_public_key: _Optional[bytes] = ..., python_version: _Optional[str] = ..., kernel: _Optional[str] = ..., machine: _Optional[str] = ..., clock: _Optional[_Union[_frame_pb2.ClockStamp, _Mapping]] = ..., frame_interval_ns: _Optional[int] = ..., ports: _Optional[_Iterable[_Union[PortDescription, _Mapping]]] = ..., spool: _Optional[_Union[_frame_pb2.SpoolState, _Mapping]] = ..., last_sequence: _Optional[int] = ..., agent_start: _Optional[int] = ..., meters: _Optional[_Iterable[_Union[MeterDescription, _Mapping]]] = ..., class_table_sequence: _Optional[int] = ..., class_table_sha256: _Optional[bytes] = ...) -> None: ...

class MeterDescription(_message.Message):
    __slots__ = ("port", "unavailable", "unavailable_text", "width_ns", "source", "framing", "sees", "cannot_see", "findings", "texts", "epoch", "lost_buckets", "offloaded_ppm", "classes", "peers")
    PORT_FIELD_NUMBER: _ClassVar[int]
    UNAVAILABLE_FIELD_NUMBER: _ClassVar[int]
    UNAVAILABLE_TEXT_FIELD_NUMBER: _ClassVar[int]
    WIDTH_NS_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    FRAMING_FIELD_NUMBER: _ClassVar[int]
    SEES_FIELD_NUMBER: _ClassVar[int]
    CANNOT_SEE_FIELD_NUMBER: _ClassVar[int]
    FINDINGS_FIELD_NUMBER: _ClassVar[int]
    TEXTS_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    LOST_BUCKETS_FIELD_NUMBER: _ClassVar[int]
    OFFLOADED_PPM_FIELD_NUMBER: _ClassVar[int]
    CLASSES_FIELD_NUMBER: _ClassVar[int]
    PEERS_FIELD_NUMBER: _ClassVar[int]
    port: str
    unavailable: str
    unavailable_text: str
    width_ns: int
    source: str
    framing: _reading_pb2.Framing
    sees: _containers.RepeatedScalarFieldContainer[str]
    cannot_see: _containers.RepeatedScalarFieldContainer[str]
    findings: _containers.RepeatedScalarFieldContainer[str]
    texts: _containers.RepeatedScalarFieldContainer[str]
    epoch: int
    lost_buckets: int
    offloaded_ppm: int
    classes: _containers.RepeatedCompositeFieldContainer[_meter_pb2.ClassTotals]
    peers: _containers.RepeatedCompositeFieldContainer[_meter_pb2.PeerTotals]
    def __init__(self, port: _Optional[str] = ..., unavailable: _Optional[str] = ..., unavailable_text: _Optional[str] = ..., width_ns: _Optional[int] = ..., source: _Optional[str] = ..., framing: _Optional[_Union[_reading_pb2.Framing, str]] = ..., sees: _Optional[_Iterable[str]] = ..., cannot_see: _Optional[_Iterable[str]] = ..., findings: _Optional[_Iterable[str]] = ..., texts: _Optional[_Iterable[str]] = ..., epoch: _Optional[int] = ..., lost_buckets: _Optional[int] = ..., offloaded_ppm: _Optional[int] = ..., classes: _Optional[_Iterable[_Union[_meter_pb2.ClassTotals, _Mapping]]] = ..., peers: _Optional[_Iterable[_Union[_meter_pb2.PeerTotals, _Mapping]]] = ...) -> None: ...

class ClockRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ClockReply(_message.Message):
    __slots__ = ("received_monotonic_ns", "sent_monotonic_ns", "clock")
    RECEIVED_MONOTONIC_NS_FIELD_NUMBER: _ClassVar[int]
    SENT_MONOTONIC_NS_FIELD_NUMBER: _ClassVar[int]
    CLOCK_FIELD_NUMBER: _ClassVar[int]
    received_monotonic_ns: int
    sent_monotonic_ns: int
    clock: _frame_pb2.ClockStamp
    def __init__(self, received_monotonic_ns: _Optional[int] = ..., sent_monotonic_ns: _Optional[int] = ..., clock: _Optional[_Union[_frame_pb2.ClockStamp, _Mapping]] = ...) -> None: ...

class Acknowledgement(_message.Message):
    __slots__ = ("acknowledged_sequence",)
    ACKNOWLEDGED_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    acknowledged_sequence: int
    def __init__(self, acknowledged_sequence: _Optional[int] = ...) -> None: ...

class SignedClassTable(_message.Message):
    __slots__ = ("body", "signature")
    BODY_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    body: bytes
    signature: bytes
    def __init__(self, body: _Optional[bytes] = ..., signature: _Optional[bytes] = ...) -> None: ...

class ClassTableReply(_message.Message):
    __slots__ = ("sequence", "sha256")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    sha256: bytes
    def __init__(self, sequence: _Optional[int] = ..., sha256: _Optional[bytes] = ...) -> None: ...
