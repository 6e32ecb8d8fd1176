"""The maps of one port's meter, pinned so that they outlive the agent, and the program that fills them.

A restarted or upgraded agent finds the maps under the port's name in the BPF file system and loads its program over
them, if each is of the kind and size that this agent would make; else they are made anew, and counting starts at zero.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from dataclasses import dataclass
from pathlib import Path

from dpu_agent.meter.errors import MeterUnavailableError, NoMeter
from dpu_agent.meter.layout import (
    JUDGED_WORDS,
    KEY4,
    KEY6,
    LABEL,
    LANE_WORDS,
    MARKS_BYTES,
    ORDER,
    PEER_WORDS,
    POLICED,
    SLOT_WORDS,
    WORD,
    Shape,
)
from dpu_agent.meter.libbpf import BpfObject, LibBpf, MapInfo, ProgramId
from protos.buckets import CLASSES

OBJECT = Path(__file__).with_name("meter.bpf.o")
PROGRAM, GATE = "weighbridge_meter", "weighbridge_gate"
BPF_FILE_SYSTEM = Path("/sys/fs/bpf")
PINS = "weighbridge"
_BPF_FS_MAGIC = 0xCAFE4A11
_HASH, _ARRAY, _LPM_TRIE = 1, 2, 11
_MMAPABLE, _NO_PREALLOC = 1 << 10, 1
_TABLE_ENTRIES = 65_536
_ENTERED_ENTRIES = 4_096
_MAPPED = ("lanes", "ring", "peer_totals", "marks")
TABLE4, TABLE6 = "table4", "table6"
ORDERS, POLICED_MAP, JUDGED_MAP = "orders", "policed", "judged"
ENTERED, GATE_PIN = "entered", "gate"
"""The gate's map, and the gate's program itself: pinned for the limiter, which puts it in place."""


def wanted(shape: Shape) -> dict[str, MapInfo]:
    """Return what each map of a meter of ``shape`` is."""
    entries = shape.entries()
    return {
        "lanes": MapInfo(_ARRAY, 4, LANE_WORDS * WORD, entries["lanes"], _MMAPABLE),
        "ring": MapInfo(_ARRAY, 4, SLOT_WORDS * WORD, entries["ring"], _MMAPABLE),
        "peer_totals": MapInfo(_ARRAY, 4, PEER_WORDS * WORD, entries["peer_totals"], _MMAPABLE),
        "marks": MapInfo(_ARRAY, 4, MARKS_BYTES, 1, _MMAPABLE),
        ORDERS: MapInfo(_ARRAY, 4, ORDER.size, len(CLASSES), 0),
        POLICED_MAP: MapInfo(_ARRAY, 4, POLICED.size, len(CLASSES), 0),
        JUDGED_MAP: MapInfo(_ARRAY, 4, JUDGED_WORDS * WORD, entries["judged"], _MMAPABLE),
        ENTERED: MapInfo(_HASH, 4, 8, _ENTERED_ENTRIES, 0),
        TABLE4: MapInfo(_LPM_TRIE, KEY4.size, LABEL.size, _TABLE_ENTRIES, _NO_PREALLOC),
        TABLE6: MapInfo(_LPM_TRIE, KEY6.size, LABEL.size, _TABLE_ENTRIES, _NO_PREALLOC),
    }


@dataclass(slots=True)
class Maps:
    """A loaded meter: its program, and its memory as this process sees it.

    Attributes:
        adopted: whether the maps were there before; else they are all zero.
        program: descriptor, for attaching.
        lanes, ring, peers: 64-bit words.
        marks: bytes.
    """

    adopted: bool
    program: int
    program_id: ProgramId
    lanes: memoryview
    ring: memoryview
    peers: memoryview
    marks: memoryview
    lanes_map: int
    table4: int
    table6: int
    _object: BpfObject
    _mappings: list[mmap.mmap]

    def close(self) -> None:
        """Unmap and let go; pins and hooks keep the maps and the program alive."""
        for view in (self.lanes, self.ring, self.peers, self.marks):
            view.release()
        for mapping in self._mappings:
            mapping.close()
        self._object.close()


def image() -> bytes:
    """Return the compiled program.

    Raises:
        MeterUnavailableError: it is not in this installation.
    """
    try:
        return OBJECT.read_bytes()
    except OSError as error:
        raise MeterUnavailableError(
            NoMeter.NO_OBJECT, f"{OBJECT}: the compiled meter cannot be read ({error}); build it with `make meter`"
        ) from error


def require_file_system(path: Path = BPF_FILE_SYSTEM) -> None:
    """Return if ``path`` is a BPF file system.

    Raises:
        MeterUnavailableError: it is not.
    """
    buffer = ctypes.create_string_buffer(256)
    done = ctypes.CDLL(None, use_errno=True).statfs(os.fsencode(path), buffer)
    if done != 0 or int.from_bytes(buffer.raw[:8], "little") != _BPF_FS_MAGIC:
        raise MeterUnavailableError(
            NoMeter.NO_BPF_FILE_SYSTEM,
            f"{path} is no BPF file system, so counts would not outlive the agent; mount one: mount -t bpf bpf {path}",
        )


def open_maps(library: LibBpf, code: bytes, shape: Shape, folder: Path) -> Maps:
    """Return the meter whose maps are pinned in ``folder``, made if they are not.

    1. Open the object and size it.
    2. Take the pinned maps if all of them are there and are what would be made; else take the pins away.
    3. Load: the kernel checks the program and makes what is missing. Pin what was made.
    4. Map the memory.

    Raises:
        MeterUnavailableError: the kernel refuses, or does not permit it.
        OSError: the BPF file system cannot be used.
    """
    opened = BpfObject(library, code, "meter")
    pinned: dict[str, int] = {}
    try:
        opened.set_constants(shape.constants())
        for name, entries in shape.entries().items():
            opened.resize(name, entries)
        pinned = _pinned(library, shape, folder)
        for name, descriptor in pinned.items():
            opened.reuse(name, descriptor)
        opened.load()
        if not pinned:
            _pin(library, opened, shape, folder)
        (folder / GATE_PIN).unlink(missing_ok=True)
        library.pin(opened.program(GATE), str(folder / GATE_PIN))
        sizes = {name: info.entries * info.value_bytes for name, info in wanted(shape).items()}
        mappings = [mmap.mmap(opened.map(name), sizes[name], mmap.MAP_SHARED) for name in _MAPPED]
        views = [memoryview(mapping) for mapping in mappings]
        program = opened.program(PROGRAM)
        return Maps(
            adopted=bool(pinned),
            program=program,
            program_id=library.program_id(program),
            lanes=views[0].cast("Q"),
            ring=views[1].cast("Q"),
            peers=views[2].cast("Q"),
            marks=views[3],
            lanes_map=opened.map("lanes"),
            table4=opened.map(TABLE4),
            table6=opened.map(TABLE6),
            _object=opened,
            _mappings=mappings,
        )
    except BaseException:
        opened.close()
        raise
    finally:
        for descriptor in pinned.values():
            os.close(descriptor)


def forget(folder: Path) -> None:
    """Take the pins away: the next meter of this port starts at zero.

    Raises:
        OSError: a pin cannot be removed.
    """
    if folder.is_dir():
        for path in folder.iterdir():
            path.unlink()


def _pinned(library: LibBpf, shape: Shape, folder: Path) -> dict[str, int]:
    found: dict[str, int] = {}
    for name, info in wanted(shape).items():
        try:
            found[name] = library.pinned(str(folder / name))
        except OSError:
            break
        if library.map_info(found[name]) != info:
            break
    else:
        return found
    for descriptor in found.values():
        os.close(descriptor)
    forget(folder)
    return {}


def _pin(library: LibBpf, opened: BpfObject, shape: Shape, folder: Path) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name in wanted(shape):
        library.pin(opened.map(name), str(folder / name))
