from protos.v1 import lease_pb2 as _lease_pb2
from protos.v1 import meter_pb2 as _meter_pb2
from protos.v1 import reading_pb2 as _reading_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ClockSync(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CLOCK_SYNC_UNSPECIFIED: _ClassVar[ClockSync]
    CLOCK_SYNC_SYNCHRONISED: _ClassVar[ClockSync]
    CLOCK_SYNC_UNSYNCHRONISED: _ClassVar[ClockSync]
CLOCK_SYNC_UNSPECIFIED: ClockSync
CLOCK_SYNC_SYNCHRONISED: ClockSync
CLOCK_SYNC_UNSYNCHRONISED: ClockSync

class ClockStamp(_message.Message):
    __slots__ = ("boot_id", "boot_uuid", "monotonic_ns", "monotonic_raw_ns", "wall_ns", "sync", "max_error_us", "wall_step_ns")
    BOOT_ID_FIELD_NUMBER: _ClassVar[int]
    BOOT_UUID_FIELD_NUMBER: _ClassVar[int]
    MONOTONIC_NS_FIELD_NUMBER: _ClassVar[int]
    MONOTONIC_RAW_NS_FIELD_NUMBER: _ClassVar[int]
    WALL_NS_FIELD_NUMBER: _ClassVar[int]
    SYNC_FIELD_NUMBER: _ClassVar[int]
    MAX_ERROR_US_FIELD_NUMBER: _ClassVar[int]
    WALL_STEP_NS_FIELD_NUMBER: _ClassVar[int]
    boot_id: str
    boot_uuid: bytes
    monotonic_ns: int
    monotonic_raw_ns: int
    wall_ns: int
    sync: ClockSync
    max_error_us: int
    wall_step_ns: int
    def __init__(self, boot_id: _Optional[str] = ..., boot_uuid: _Optional[bytes] = ..., monotonic_ns: _Optional[int] = ..., monotonic_raw_ns: _Optional[int] = ..., wall_ns: _Optional[int] = ..., sync: _Optional[_Union[ClockSync, str]] = ..., max_error_us: _Optional[int] = ..., wall_step_ns: _Optional[int] = ...) -> None: ...

class SpoolState(_message.Message):
    __slots__ = ("oldest_sequence", "frames", "bytes", "lost_frames", "trouble")
    OLDEST_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    FRAMES_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    LOST_FRAMES_FIELD_NUMBER: _ClassVar[int]
    TROUBLE_FIELD_NUMBER: _ClassVar[int]
    oldest_sequence: int
    frames: int
    bytes: int
    lost_frames: int
    trouble: str
    def __init__(self, oldest_sequence: _Optional[int] = ..., frames: _Optional[int] = ..., bytes: _Optional[int] = ..., lost_frames: _Optional[int] = ..., trouble: _Optional[str] = ...) -> None: ...

class Loss(_message.Message):
    __slots__ = ("first_sequence", "last_sequence", "reason")
    FIRST_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    LAST_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    first_sequence: int
    last_sequence: int
    reason: str
    def __init__(self, first_sequence: _Optional[int] = ..., last_sequence: _Optional[int] = ..., reason: _Optional[str] = ...) -> None: ...

class Frame(_message.Message):
    __slots__ = ("version", "agent", "sequence", "previous_sha256", "clock", "ports", "spool", "losses", "agent_version", "agent_start", "meters", "class_table_sha256", "limits")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_SHA256_FIELD_NUMBER: _ClassVar[int]
    CLOCK_FIELD_NUMBER: _ClassVar[int]
    PORTS_FIELD_NUMBER: _ClassVar[int]
    SPOOL_FIELD_NUMBER: _ClassVar[int]
    LOSSES_FIELD_NUMBER: _ClassVar[int]
    AGENT_VERSION_FIELD_NUMBER: _ClassVar[int]
    AGENT_START_FIELD_NUMBER: _ClassVar[int]
    METERS_FIELD_NUMBER: _ClassVar[int]
    CLASS_TABLE_SHA256_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    version: int
    agent: str
    sequence: int
    previous_sha256: bytes
    clock: ClockStamp
    ports: _containers.RepeatedCompositeFieldContainer[_reading_pb2.PortReading]
    spool: SpoolState
    losses: _containers.RepeatedCompositeFieldContainer[Loss]
    agent_version: str
    agent_start: int
    meters: _containers.RepeatedCompositeFieldContainer[_meter_pb2.MeterReading]
    class_table_sha256: bytes
    limits: _lease_pb2.LimitsReading
    def __init__(self, version: _Optional[int] = ..., agent: _Optional[str] = ..., sequence: _Optional[int] = ..., previous_sha256: _Optional[bytes] = ..., clock: _Optional[_Union[ClockStamp, _Mapping]] = ..., ports: _Optional[_Iterable[_Union[_reading_pb2.PortReading, _Mapping]]] = ..., spool: _Optional[_Union[SpoolState, _Mapping]] = ..., losses: _Optional[_Iterable[_Union[Loss, _Mapping]]] = ..., agent_version: _Optional[str] = ..., agent_start: _Optional[int] = ..., meters: _Optional[_Iterable[_Union[_meter_pb2.MeterReading, _Mapping]]] = ..., class_table_sha256: _Optional[bytes] = ..., limits: _Optional[_Union[_lease_pb2.LimitsReading, _Mapping]] = ...) -> None: ...

class SignedFrame(_message.Message):
    __slots__ = ("body", "signature")
    BODY_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    body: bytes
    signature: bytes
    def __init__(self, body: _Optional[bytes] = ..., signature: _Optional[bytes] = ...) -> None: ...
