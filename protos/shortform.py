"""Frames of version 2: what version 1 said, in fewer bytes. The one place that knows both forms.

=================================  ==========================================================
long                               short
=================================  ==========================================================
``clock.boot_id``                  ``clock.boot_uuid``: its 16 bytes
``ports[].source``                 ``counted_by``: a number
``ports[].epoch_reason``           ``began``: a number
``ports[].earliest_ns, latest_ns`` ``before_clock_ns``, ``lasted_ns``: counted from the frame's own clock
``meters[].port``                  ``port_number``: which of the frame's ports
=================================  ==========================================================

What has no short word (a source that is not in the list, a boot id that is no UUID) keeps the long one, also in
version 2. :func:`lengthen` undoes :func:`shorten` exactly, so whoever reads a frame sees one form only.
"""

from __future__ import annotations

import uuid

from protos.v1 import frame_pb2, reading_pb2

_SOURCES = {
    "netlink-stats64": reading_pb2.COUNTER_SOURCE_NETLINK_STATS64,
    "mlx5-phy": reading_pb2.COUNTER_SOURCE_MLX5_PHY,
    "mlx5-vport": reading_pb2.COUNTER_SOURCE_MLX5_VPORT,
    "infiniband-port": reading_pb2.COUNTER_SOURCE_INFINIBAND_PORT,
}
_REASONS = {
    "first-reading": reading_pb2.EPOCH_REASON_FIRST_READING,
    "boot": reading_pb2.EPOCH_REASON_BOOT,
    "interface-recreated": reading_pb2.EPOCH_REASON_INTERFACE_RECREATED,
    "counter-decreased": reading_pb2.EPOCH_REASON_COUNTER_DECREASED,
    "configuration-changed": reading_pb2.EPOCH_REASON_CONFIGURATION_CHANGED,
}
_SOURCE_NAMES = {number: name for name, number in _SOURCES.items()}
_REASON_NAMES = {number: name for name, number in _REASONS.items()}
_MOST = (1 << 64) - 1


class FormError(ValueError):
    """A frame that says one thing in two ways, or in a word of its version that does not exist."""


def shorten(frame: frame_pb2.Frame) -> frame_pb2.Frame:
    """Return ``frame``, of version 2 and in long form, in short form."""
    short = frame_pb2.Frame()
    short.CopyFrom(frame)
    clock = short.clock
    if (packed := _packed(clock.boot_id)) is not None:
        clock.boot_uuid = packed
        clock.ClearField("boot_id")
    for port in short.ports:
        if (source := _SOURCES.get(port.source)) is not None:
            port.counted_by = source
            port.ClearField("source")
        if (reason := _REASONS.get(port.epoch_reason)) is not None:
            port.began = reason
            port.ClearField("epoch_reason")
        if port.earliest_ns <= min(port.latest_ns, clock.monotonic_ns):
            port.before_clock_ns = clock.monotonic_ns - port.earliest_ns
            port.lasted_ns = port.latest_ns - port.earliest_ns
            port.ClearField("earliest_ns")
            port.ClearField("latest_ns")
    numbers = {port.port: number for number, port in reversed(list(enumerate(short.ports, 1))) if port.port}
    for meter in short.meters:
        if (place := numbers.get(meter.port)) is not None:
            meter.port_number = place
            meter.ClearField("port")
    return short


def lengthen(frame: frame_pb2.Frame) -> None:
    """Put ``frame`` into long form, in place.

    Raises:
        FormError: it says something in both forms, in a short word that does not exist, or in a short word at all
            though it is of version 1. The frame is then in neither form.
    """
    short = _clock(frame.clock)
    for port in frame.ports:
        short |= _source(port) | _reason(port) | _times(port, frame.clock.monotonic_ns)
    for meter in frame.meters:
        if meter.port_number:
            short = True
            _only(f"meter {meter.port_number}", meter.port)
            if meter.port_number > len(frame.ports):
                raise FormError(f"a meter is of port {meter.port_number} of {len(frame.ports)}")
            meter.port = frame.ports[meter.port_number - 1].port
            meter.ClearField("port_number")
    if short and frame.version == 1:
        raise FormError("it is of version 1, and has short forms, which came with version 2")


def _packed(boot_id: str) -> bytes | None:
    """The bytes of a boot id that is a UUID as the kernel writes it; None of any other text."""
    try:
        found = uuid.UUID(boot_id)
    except ValueError:
        return None
    return found.bytes if str(found) == boot_id else None


def _clock(clock: frame_pb2.ClockStamp) -> bool:
    """Lengthen; return whether there was a short form. So do the following."""
    if not clock.boot_uuid:
        return False
    _only("the boot", clock.boot_id)
    if len(clock.boot_uuid) != 16:
        raise FormError(f"a boot id of {len(clock.boot_uuid)} bytes is no UUID")
    clock.boot_id = str(uuid.UUID(bytes=clock.boot_uuid))
    clock.ClearField("boot_uuid")
    return True


def _source(port: reading_pb2.PortReading) -> bool:
    if not port.counted_by:
        return False
    _only(f"port {port.port!r}", port.source)
    if port.counted_by not in _SOURCE_NAMES:
        raise FormError(f"port {port.port!r} was counted by an unknown source ({port.counted_by})")
    port.source = _SOURCE_NAMES[port.counted_by]
    port.ClearField("counted_by")
    return True


def _reason(port: reading_pb2.PortReading) -> bool:
    if not port.began:
        return False
    _only(f"port {port.port!r}", port.epoch_reason)
    if port.began not in _REASON_NAMES:
        raise FormError(f"port {port.port!r}: its epoch began for an unknown reason ({port.began})")
    port.epoch_reason = _REASON_NAMES[port.began]
    port.ClearField("began")
    return True


def _times(port: reading_pb2.PortReading, clock_ns: int) -> bool:
    if not port.HasField("before_clock_ns"):
        if port.lasted_ns:
            raise FormError(f"port {port.port!r}: its reading lasted {port.lasted_ns} ns from nowhere")
        return False
    _only(f"port {port.port!r}", port.earliest_ns, port.latest_ns)
    earliest_ns = clock_ns - port.before_clock_ns
    latest_ns = earliest_ns + port.lasted_ns
    if earliest_ns < 0 or latest_ns > _MOST:
        raise FormError(
            f"port {port.port!r} was read {port.before_clock_ns} ns before {clock_ns} ns, for {port.lasted_ns} ns"
        )
    port.earliest_ns, port.latest_ns = earliest_ns, latest_ns
    port.ClearField("before_clock_ns")
    port.ClearField("lasted_ns")
    return True


def _only(where: str, *long: object) -> None:
    if any(long):
        raise FormError(f"{where}: one thing is said in two ways")
