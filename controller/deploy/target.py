"""What a bundle is built for: one Python, one processor, and the oldest C library its wheels run on."""

from __future__ import annotations

import re
from dataclasses import dataclass

from controller.errors import DeviceError, InternalError

# The wheels' floor: manylinux_2_28, which Ubuntu 22.04 (2.35), Debian 12 (2.36) and the BlueField images meet.
OLDEST_GLIBC = (2, 28)
PLATFORMS = ("manylinux_2_28_{}", "manylinux_2_17_{}", "manylinux2014_{}")

_WHEEL = re.compile(r"([^-]+)-([^-]+)(?:-\d[^-]*)?-([^-]+)-([^-]+)-([^-]+)\.whl")


@dataclass(frozen=True, slots=True, order=True)
class Target:
    """A Python such as ``3.10`` on a machine such as ``aarch64`` (both as ``platform`` names them)."""

    python: str
    machine: str

    def __str__(self) -> str:
        return f"cp{self.python.replace('.', '')}-{self.machine}"

    @property
    def platforms(self) -> tuple[str, ...]:
        """The wheel platforms it accepts, the newest first."""
        return tuple(platform.format(self.machine) for platform in PLATFORMS)

    def accepts(self, wheel: Wheel) -> bool:
        """Whether a wheel of these tags runs here (PEP 425; only the tags that CPython on Linux needs)."""
        minor = int(self.python.split(".")[1])
        for python in wheel.pythons:
            exact = python == f"cp{self.python.replace('.', '')}"
            older = re.fullmatch(r"cp3(\d+)", python)
            stable = "abi3" in wheel.abis and older is not None and int(older[1]) <= minor
            pure = python == "py3" and "none" in wheel.abis
            if exact or stable or pure:
                return any(platform == "any" or platform in self.platforms for platform in wheel.platforms)
        return False


@dataclass(frozen=True, slots=True)
class Wheel:
    """A wheel's file name, taken apart (PEP 427)."""

    file: str
    name: str
    version: str
    pythons: frozenset[str]
    abis: frozenset[str]
    platforms: frozenset[str]

    @property
    def newest_python(self) -> int:
        """The newest minor version of CPython in its tags, 0 when it is for any."""
        return max((int(tag[3:]) for tag in self.pythons if re.fullmatch(r"cp3\d+", tag)), default=0)


# Ubuntu 22.04 of the BlueField images, Debian 12 of the emulated rig, Ubuntu 24.04 of the images that follow.
TARGETS = tuple(Target(python, machine) for python in ("3.10", "3.11", "3.12") for machine in ("aarch64", "x86_64"))


def parse_wheel(file: str) -> Wheel:
    """Return the parts of a wheel's file name.

    Raises:
        InternalError: it is not a wheel's name.
    """
    match = _WHEEL.fullmatch(file)
    if match is None:
        raise InternalError(f"{file!r} is not the file name of a wheel")
    tags = (frozenset(match[group].split(".")) for group in (3, 4, 5))
    return Wheel(file, canonical(match[1]), match[2], *tags)


def canonical(name: str) -> str:
    """Return a package's name as indexes compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def target_for(python: str, machine: str, glibc: str, place: str) -> Target:
    """Return the target for what a device says of itself.

    Args:
        python: for example ``3.10``.
        machine: for example ``aarch64``.
        glibc: for example ``glibc 2.35``; empty for another C library.
        place: the device, for the message.

    Raises:
        DeviceError: nothing can be built for it.
    """
    target = Target(python, machine)
    if target not in TARGETS:
        known = ", ".join(sorted({t.python for t in TARGETS}, key=lambda v: int(v.split(".")[1])))
        machines = " and ".join(sorted({t.machine for t in TARGETS}))
        raise DeviceError(
            f"{place}: has Python {python} on {machine}; there are wheels for Python {known} on {machines}. "
            "Install one of these as /usr/bin/python3, or add the target in controller/deploy/target.py"
        )
    match = re.fullmatch(r"glibc (\d+)\.(\d+)", glibc)
    if match is None or (int(match[1]), int(match[2])) < OLDEST_GLIBC:
        raise DeviceError(
            f"{place}: has the C library {glibc or 'other than glibc'!r}; the wheels need glibc "
            f"{OLDEST_GLIBC[0]}.{OLDEST_GLIBC[1]} or later. Update the DPU's image"
        )
    return target
