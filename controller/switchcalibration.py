"""Watches a port while frames of known length pass it, and learns the switch's framing from them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

from controller.switchpoll import Target
from protos.reading import Direction
from protos.units import format_duration
from switch.calibration import Calibration, CalibrationError, arrived, calibrate
from switch.connect import SnmpClients
from switch.ports import PortSample
from switch.reader import SwitchReader

_LOOK_AGAIN_S = 1.0


def learn(
    target: Target, port: str, *, frames: int, frame_bytes: int, wait_ns: int, say: Callable[[str], None]
) -> Calibration | None:
    """Return what the switch counts, None if nothing could be learnt; ``say`` then has told why.

    1. Read the port twice, longer apart than the refresh period: only a direction in which nothing passed is used.
    2. Ask for the frames; look until as many have been counted, and once more after another refresh period.
    3. Judge by :func:`switch.calibration.calibrate`.
    """
    return asyncio.run(_learn(target, port, frames, frame_bytes, wait_ns, say))


async def _learn(  # noqa: PLR0917  the arguments of learn
    target: Target, port: str, frames: int, frame_bytes: int, wait_ns: int, say: Callable[[str], None]
) -> Calibration | None:
    clients = SnmpClients(time.monotonic_ns)
    reader = clients.connect(target.name, target.endpoint, target.security, target.device, client=target.client)
    settle_s = target.device.refresh_ns / 1e9 + _LOOK_AGAIN_S
    try:
        before, quiet = await _quiet(reader, port, settle_s)
        say(f"send {frames} frames of {frame_bytes} bytes (without check sequence) through port {port} now")
        direction = await _until_counted(reader, before, quiet, frames, wait_ns)
        await asyncio.sleep(settle_s)
        after = await _read(reader, port)
        return calibrate(before, after, direction, frames=frames, frame_bytes=frame_bytes)
    except CalibrationError as error:
        say(f"nothing was learnt: {error}")
        return None
    finally:
        await reader.close()
        await clients.close()


async def _quiet(reader: SwitchReader, port: str, settle_s: float) -> tuple[PortSample, list[Direction]]:
    """Return the port's sample, and the directions in which nothing passed for longer than a refresh period.

    Raises:
        CalibrationError: something passed in both, or the port could not be read.
    """
    first = await _read(reader, port)
    await asyncio.sleep(settle_s)
    before = await _read(reader, port)
    quiet = [direction for direction in Direction if arrived(first, before, direction) == 0]
    if not quiet:
        raise CalibrationError(f"port {port} is not quiet: frames passed within {settle_s:g} s before any was sent")
    return before, quiet


async def _until_counted(
    reader: SwitchReader, before: PortSample, quiet: Sequence[Direction], frames: int, wait_ns: int
) -> Direction:
    """Wait until ``frames`` have been counted in one of the quiet directions, and return it.

    Raises:
        CalibrationError: they were not in time, or the port could not be read.
    """
    ends_ns = time.monotonic_ns() + wait_ns
    while True:
        after = await _read(reader, before.port)
        moved = {direction: arrived(before, after, direction) or 0 for direction in quiet}
        direction = max(moved, key=lambda each: moved[each])
        if moved[direction] >= frames:
            return direction
        if time.monotonic_ns() > ends_ns:
            counted = f"counted {moved[direction]} of {frames} frames within {format_duration(wait_ns)}"
            raise CalibrationError(f"port {before.port} {counted}")
        await asyncio.sleep(_LOOK_AGAIN_S)


async def _read(reader: SwitchReader, port: str) -> PortSample:
    """Return the port's sample.

    Raises:
        CalibrationError: it could not be read.
    """
    (entry,) = (await reader.read_ports([port])).ports
    if not isinstance(entry, PortSample):
        raise CalibrationError(entry.text)
    return entry
