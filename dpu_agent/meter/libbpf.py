"""libbpf through ctypes: open an object from memory, set its constants and sizes, load it, pin and reuse its maps.

The DPU has neither a compiler nor kernel headers, only the library: ``libbpf.so.1`` (1.0 and later; Debian 12) or
``libbpf.so.0`` (Ubuntu 22.04 has 0.5). Only functions that both have, with the same meaning, are used: pointers are
asked for their error by ``libbpf_get_error``, numbers are errors when negative. What libbpf says of a failure (the
verifier's reasons) is captured and stands in the error.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from dpu_agent.meter.errors import MeterUnavailableError, NoMeter

NAMES = ("libbpf.so.1", "libbpf.so.0")
_WARNING = 0
_LONGEST_MESSAGE = 4096
# The verifier's last lines say what it refused; the rest retells the program.
_SHOWN_LINES = 12

_Pointer = ctypes.c_void_p
_Int = ctypes.c_int
_PrintFunction = ctypes.CFUNCTYPE(_Int, _Int, ctypes.c_char_p, _Pointer)
_PROTOTYPES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "libbpf_get_error": (ctypes.c_long, (_Pointer,)),
    "libbpf_set_print": (_Pointer, (_PrintFunction,)),
    "bpf_object__open_mem": (_Pointer, (ctypes.c_char_p, ctypes.c_size_t, _Pointer)),
    "bpf_object__close": (None, (_Pointer,)),
    "bpf_object__load": (_Int, (_Pointer,)),
    "bpf_object__find_map_by_name": (_Pointer, (_Pointer, ctypes.c_char_p)),
    "bpf_object__find_program_by_name": (_Pointer, (_Pointer, ctypes.c_char_p)),
    "bpf_program__fd": (_Int, (_Pointer,)),
    "bpf_map__fd": (_Int, (_Pointer,)),
    "bpf_map__set_max_entries": (_Int, (_Pointer, ctypes.c_uint32)),
    "bpf_map__set_initial_value": (_Int, (_Pointer, ctypes.c_char_p, ctypes.c_size_t)),
    "bpf_map__reuse_fd": (_Int, (_Pointer, _Int)),
    "bpf_map_lookup_elem": (_Int, (_Int, ctypes.c_char_p, _Pointer)),
    "bpf_map_lookup_elem_flags": (_Int, (_Int, ctypes.c_char_p, _Pointer, ctypes.c_uint64)),
    "bpf_map_update_elem": (_Int, (_Int, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_uint64)),
    "bpf_map_delete_elem": (_Int, (_Int, ctypes.c_char_p)),
    "bpf_map_get_next_key": (_Int, (_Int, ctypes.c_char_p, _Pointer)),
    "bpf_obj_pin": (_Int, (_Int, ctypes.c_char_p)),
    "bpf_obj_get": (_Int, (ctypes.c_char_p,)),
    "bpf_prog_get_fd_by_id": (_Int, (ctypes.c_uint32,)),
    "bpf_obj_get_info_by_fd": (_Int, (_Int, _Pointer, ctypes.POINTER(ctypes.c_uint32))),
}
# struct bpf_object_open_opts (libbpf.h): size, name; the library takes a shorter struct than its own.
_OPEN_OPTIONS = struct.Struct("=QQ")
# struct bpf_map_info and bpf_prog_info (linux/bpf.h), their first fields.
_MAP_INFO = struct.Struct("=IIIIII")
_PROGRAM_INFO = struct.Struct("=II8s")
# bpf_prog_info: where the number of its maps and the address for their numbers stand.
_MAP_COUNT_AT, _MAPS_AT = 52, 56
_MOST_MAPS = 64
# BPF_F_LOCK, linux/bpf.h.
_F_LOCK = 4
_INFO_BYTES = 256


@dataclass(frozen=True, slots=True)
class MapInfo:
    """What a map is; two maps of equal info can stand for each other."""

    kind: int
    key_bytes: int
    value_bytes: int
    entries: int
    flags: int


@dataclass(frozen=True, slots=True)
class ProgramId:
    """A loaded program: the kernel's number of it, and the tag, a hash of its instructions."""

    number: int
    tag: str


class LibBpf:
    """The library, one a process."""

    def __init__(self, names: tuple[str, ...] = NAMES) -> None:
        """Load it.

        Raises:
            MeterUnavailableError: it is not installed, or lacks a function.
        """
        said = []
        for name in names:
            try:
                self._library = ctypes.CDLL(name, use_errno=True)
            except OSError as error:
                said.append(str(error))
                continue
            self.name = name
            break
        else:
            raise MeterUnavailableError(
                NoMeter.NO_LIBRARY,
                f"libbpf cannot be loaded ({'; '.join(said)}); install the package libbpf1 or libbpf0",
            )
        for function, (result, arguments) in _PROTOTYPES.items():
            try:
                found = getattr(self._library, function)
            except AttributeError as error:
                raise MeterUnavailableError(
                    NoMeter.NO_LIBRARY, f"{self.name} has no {function}; install libbpf 0.5 or later"
                ) from error
            found.restype, found.argtypes = result, arguments
        self._said: list[str] = []
        self._print = _PrintFunction(self._take)  # kept: the library holds only its address
        self._library.libbpf_set_print(self._print)

    def _take(self, level: int, form: bytes, arguments: int) -> int:
        """Keep what the library says; a va_list is passed on as the pointer that it is on x86-64 and arm64."""
        if level == _WARNING:
            text = ctypes.create_string_buffer(_LONGEST_MESSAGE)
            ctypes.CDLL(None).vsnprintf(text, ctypes.c_size_t(len(text)), form, _Pointer(arguments))
            self._said += text.value.decode("utf-8", "replace").splitlines()
            del self._said[: -8 * _SHOWN_LINES]
        return 0

    def said(self) -> str:
        """Return the newest of what the library said since the last call, and forget it."""
        lines = [line.removeprefix("libbpf: ").strip() for line in self._said if line.strip()]
        self._said.clear()
        return "; ".join(lines[-_SHOWN_LINES:])

    def call(self, function: str, *arguments: Any) -> int:
        """Call a function that returns a number.

        Raises:
            OSError: it returned a negative one.
        """
        ctypes.set_errno(0)
        result: int = getattr(self._library, function)(*arguments)
        if result < 0:
            # 0.x returns -1 and sets errno, 1.x returns -errno and sets it too.
            number = ctypes.get_errno() or -result
            raise OSError(number, f"{function}: {os.strerror(number)}")
        return result

    def pointer(self, function: str, *arguments: Any) -> int:
        """Call a function that returns a pointer.

        Raises:
            OSError: it returned none.
        """
        ctypes.set_errno(0)
        result: int | None = getattr(self._library, function)(*arguments)
        number = -int(self._library.libbpf_get_error(_Pointer(result)))
        if result is None or number:
            number = number or ctypes.get_errno() or errno.ENOENT
            raise OSError(number, f"{function}: {os.strerror(number)}")
        return result

    def release(self, opened: int) -> None:
        """Close an object."""
        self._library.bpf_object__close(_Pointer(opened))

    # ------------------------------------------------------------ maps and programs by descriptor

    def update(self, descriptor: int, key: bytes, value: bytes) -> None:
        """Set an element.

        Raises:
            OSError: it cannot be set.
        """
        self.call("bpf_map_update_elem", descriptor, key, value, 0)

    def look_up(self, descriptor: int, key: bytes, value_bytes: int) -> bytes:
        """Return an element.

        Raises:
            OSError: it is not there.
        """
        found = ctypes.create_string_buffer(value_bytes)
        self.call("bpf_map_lookup_elem", descriptor, key, ctypes.byref(found))
        return found.raw

    def look_up_locked(self, descriptor: int, key: bytes, value_bytes: int) -> bytes:
        """Return an element as a whole, read under its own lock; the lock's bytes are zero.

        Raises:
            OSError: it is not there, or has no lock.
        """
        found = ctypes.create_string_buffer(value_bytes)
        self.call("bpf_map_lookup_elem_flags", descriptor, key, ctypes.byref(found), _F_LOCK)
        return found.raw

    def update_locked(self, descriptor: int, key: bytes, value: bytes) -> None:
        """Set an element as a whole, under its own lock.

        Raises:
            OSError: it cannot be set, or has no lock.
        """
        self.call("bpf_map_update_elem", descriptor, key, value, _F_LOCK)

    def delete(self, descriptor: int, key: bytes) -> None:
        """Take an element out.

        Raises:
            OSError: it is not there.
        """
        self.call("bpf_map_delete_elem", descriptor, key)

    def keys(self, descriptor: int, key_bytes: int) -> Iterator[bytes]:
        """Yield the keys of a map that nobody else changes meanwhile."""
        found = ctypes.create_string_buffer(key_bytes)
        before: bytes | None = None
        while True:
            try:
                self.call("bpf_map_get_next_key", descriptor, before, ctypes.byref(found))
            except OSError as error:
                if error.errno == errno.ENOENT:
                    return
                raise
            before = found.raw
            yield before

    def pin(self, descriptor: int, path: str) -> None:
        """Give a map or program a name in the BPF file system.

        Raises:
            OSError: the name is taken, or no BPF file system is there.
        """
        self.call("bpf_obj_pin", descriptor, os.fsencode(path))

    def pinned(self, path: str) -> int:
        """Return a descriptor of what is pinned at ``path``.

        Raises:
            OSError: nothing is.
        """
        return self.call("bpf_obj_get", os.fsencode(path))

    def map_info(self, descriptor: int) -> MapInfo:
        """Return what a map is.

        Raises:
            OSError: it is no map.
        """
        kind, _, key, value, entries, flags = _MAP_INFO.unpack_from(self._info(descriptor))
        return MapInfo(kind, key, value, entries, flags)

    def program_id(self, descriptor: int) -> ProgramId:
        """Return which program a descriptor is.

        Raises:
            OSError: it is no program.
        """
        _, number, tag = _PROGRAM_INFO.unpack_from(self._info(descriptor))
        return ProgramId(number, tag.hex())

    def map_number(self, descriptor: int) -> int:
        """Return the kernel's number of a map.

        Raises:
            OSError: it is no map.
        """
        return int(_MAP_INFO.unpack_from(self._info(descriptor))[1])

    def maps_of(self, number: int) -> frozenset[int]:
        """Return the numbers of the maps that program ``number`` uses; none if it is gone.

        Raises:
            OSError: not permitted.
        """
        try:
            descriptor = self.call("bpf_prog_get_fd_by_id", number)
        except OSError as error:
            if error.errno == errno.ENOENT:
                return frozenset()
            raise
        numbers, request = (ctypes.c_uint32 * _MOST_MAPS)(), bytearray(_INFO_BYTES)
        struct.pack_into("=IQ", request, _MAP_COUNT_AT, _MOST_MAPS, ctypes.addressof(numbers))
        try:
            info = self._info(descriptor, bytes(request))
        finally:
            os.close(descriptor)
        count = min(_MOST_MAPS, struct.unpack_from("=I", info, _MAP_COUNT_AT)[0])
        return frozenset(numbers[:count])

    def _info(self, descriptor: int, request: bytes = bytes(_INFO_BYTES)) -> bytes:
        info, length = ctypes.create_string_buffer(request, _INFO_BYTES), ctypes.c_uint32(_INFO_BYTES)
        self.call("bpf_obj_get_info_by_fd", descriptor, ctypes.byref(info), ctypes.byref(length))
        return info.raw


class BpfObject:
    """One object file, opened; its maps and programs live as long as it, or a pin or a hook holds them."""

    def __init__(self, library: LibBpf, image: bytes, name: str) -> None:
        """Open ``image``; maps of its own sections are called ``name`` and the section.

        Raises:
            MeterUnavailableError: it is not an object that this library understands.
        """
        self._library, self._name, self._image = library, name, image
        title = ctypes.create_string_buffer(name.encode())
        options = ctypes.create_string_buffer(_OPEN_OPTIONS.pack(_OPEN_OPTIONS.size, ctypes.addressof(title)), 16)
        try:
            self._object: int | None = library.pointer("bpf_object__open_mem", image, len(image), options)
        except OSError as error:
            raise MeterUnavailableError(
                NoMeter.REFUSED, f"{library.name} cannot open the meter ({error}): {library.said()}"
            ) from error

    def set_constants(self, value: bytes) -> None:
        """Write .rodata as a whole.

        Raises:
            OSError: it has another size.
        """
        self._library.call("bpf_map__set_initial_value", self._map(f"{self._name[:8]}.rodata"), value, len(value))

    def resize(self, name: str, entries: int) -> None:
        """Give a map another number of entries.

        Raises:
            OSError: there is no such map, or it is loaded already.
        """
        self._library.call("bpf_map__set_max_entries", self._map(name), entries)

    def reuse(self, name: str, descriptor: int) -> None:
        """Let a map that exists stand for this one.

        Raises:
            OSError: they differ in kind or size.
        """
        self._library.call("bpf_map__reuse_fd", self._map(name), descriptor)

    def load(self) -> None:
        """Make the maps and have the program checked.

        Raises:
            MeterUnavailableError: not permitted, or refused by the kernel; the text has its reasons.
        """
        self._library.said()
        try:
            self._library.call("bpf_object__load", self._object)
        except OSError as error:
            if error.errno == errno.EPERM:
                raise MeterUnavailableError(
                    NoMeter.NO_PERMISSION,
                    "the kernel does not let this process load a meter; run the agent as root, or with the "
                    "capabilities CAP_BPF and CAP_NET_ADMIN",
                ) from error
            raise MeterUnavailableError(
                NoMeter.REFUSED, f"the kernel refuses the meter ({error}): {self._library.said()}"
            ) from error

    def map(self, name: str) -> int:
        """Return the descriptor of a loaded map; it is the object's."""
        return self._library.call("bpf_map__fd", self._map(name))

    def program(self, name: str) -> int:
        """Return the descriptor of a loaded program; it is the object's."""
        found = self._library.pointer("bpf_object__find_program_by_name", self._object, name.encode())
        return self._library.call("bpf_program__fd", found)

    def close(self) -> None:
        """Let go of everything the object holds."""
        if self._object is not None:
            self._library.release(self._object)
            self._object = None

    def _map(self, name: str) -> int:
        return self._library.pointer("bpf_object__find_map_by_name", self._object, name.encode())
