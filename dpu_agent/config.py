"""The agent's configuration file: strict JSON, refused as a whole at the first doubt.

A whole file, with every key there is::

    {
      "agent": "node1-dpu0",
      "listen": "10.250.0.11:7443",
      "ca": "/opt/weighbridge/etc/ca.pem",
      "certificate": "/opt/weighbridge/etc/agent.pem",
      "key": "/opt/weighbridge/etc/agent.key",
      "state_directory": "/var/lib/weighbridge",
      "ports": [
        {"name": "pf0hpf", "role": "host_port"},
        {"name": "p0", "role": "uplink", "refresh_ms": 0, "source": "netlink"}
      ],
      "frame_interval_ms": 1000,
      "spool": {"max_bytes": 1073741824, "max_age_s": 259200},
      "meter": {"bucket_us": 1000},
      "verifier_public_key": "",
      "limits": {"backend": "none"},
      "clock_offset_ns": 0
    }

========================  ==========  ============================================================================
key                       default     meaning
========================  ==========  ============================================================================
``agent``                 required    the agent's name; its certificate must carry it
``listen``                required    management address and port, ``IPv4:PORT`` or ``[IPv6]:PORT``; never a wildcard,
                                      which would listen on the data ports as well
``ca``                    required    the site's authority, PEM; relative paths start at the configuration file
``certificate``, ``key``  required    the agent's own, PEM; the key's mode must be 0600
``state_directory``       required    frame key, numbers and spool; made (mode 0700) if it is not there
``ports``                 required    1 to 64 of ``{"name", "role", "refresh_ms", "source"}``; ``role`` is
                                      ``host_port`` (towards the host) or ``uplink`` (towards the switch)
``ports[].source``        netlink     whose counters are the port's totals: ``netlink``, ``mlx5-phy``, ``mlx5-vport``
                                      or ``infiniband`` (:mod:`dpu_agent.sources.hardware`)
``ports[].refresh_ms``    0           how old a value the driver serves can be, 0 to 60000. 0 is right for drivers
                                      that count in the kernel; mlx5 representors serve the copy of the read before
                                      (give frame interval plus 1000)
``frame_interval_ms``     1000        one frame every so often, 100 to 60000
``spool.max_bytes``       1073741824  disk that unacknowledged frames may take, 4194304 or more
``spool.max_age_s``       259200      how long an unacknowledged frame is kept at least (72 h), 60 or more
``meter.bucket_us``       1000        width of the in-kernel meter's buckets: 100, 1000 or 10000; 0: no meter
``verifier_public_key``   empty       the Ed25519 key that signs class tables and leases, 64 hexadecimal digits; without
                                      it none is taken
``limits``                none        what is limited, and how: :mod:`dpu_agent.limits.settings`
``clock_offset_ns``       0           added to both monotonic clocks, 0 or more; rigs give it, so that agents on one
                                      machine differ
========================  ==========  ============================================================================

Unknown keys, keys given twice, numbers in quotes, floats and ``true`` for a number are refused.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, field
from pathlib import Path

from dpu_agent.configfile import Section, parse, public_key, shown
from dpu_agent.limits.settings import LimitsConfig, limits_of
from protos.reading import Observer

MAX_PORTS = 64
# IFNAMSIZ is 16 with the terminating NUL (linux/if.h).
MAX_INTERFACE_NAME = 15
MAX_FRAME_INTERVAL_MS = 60_000
MIN_FRAME_INTERVAL_MS = 100
MAX_REFRESH_MS = 60_000
# Eight segments of twice the largest frame.
MIN_SPOOL_BYTES = 4 << 20
MIN_SPOOL_AGE_S = 60
DEFAULT_SPOOL_BYTES = 1 << 30
DEFAULT_SPOOL_AGE_S = 72 * 3_600
NS_PER_MS = 1_000_000
NS_PER_S = 1_000_000_000
PORT_SOURCES = ("netlink", "mlx5-phy", "mlx5-vport", "infiniband")
# 0: no meter.
BUCKET_WIDTHS_US = (0, 100, 1_000, 10_000)
# Half of what a signed 64-bit clock holds: an offset never overflows the sum.
MAX_OFFSET_NS = 1 << 62

_ROLES = {"host_port": Observer.DPU_HOST_PORT, "uplink": Observer.DPU_UPLINK}
# The grammar of names in certificates (controller/pki.py): nothing in it needs escaping in a URI or a file name.
_AGENT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", re.ASCII)
_INTERFACE_NAME = re.compile(rf"[!-~]{{1,{MAX_INTERFACE_NAME}}}", re.ASCII)
_LISTEN = re.compile(r"(?:\[(?P<v6>[0-9A-Fa-f:.]+)\]|(?P<v4>[0-9.]+)):(?P<port>[1-9][0-9]{0,4})", re.ASCII)


@dataclass(frozen=True, slots=True)
class PortConfig:
    """One port to meter. ``refresh_ns``: how old a value its driver serves can be; ``source``: whose totals."""

    name: str
    role: Observer
    refresh_ns: int = 0
    source: str = "netlink"


@dataclass(frozen=True, slots=True)
class SpoolLimits:
    """Bounds of the spool: bytes on disk, and the age below which nothing is dropped for its age."""

    max_bytes: int = DEFAULT_SPOOL_BYTES
    max_age_ns: int = DEFAULT_SPOOL_AGE_S * NS_PER_S


@dataclass(frozen=True, slots=True)
class AgentConfig:
    """What the module's docstring says, in nanoseconds and absolute paths."""

    path: Path
    agent: str
    listen: str
    ca: Path
    certificate: Path
    key: Path
    state_directory: Path
    ports: tuple[PortConfig, ...]
    frame_interval_ns: int = 1_000 * NS_PER_MS
    spool: SpoolLimits = SpoolLimits()
    clock_offset_ns: int = 0
    bucket_ns: int = 1_000_000
    verifier_public_key: bytes = b""
    limits: LimitsConfig = field(default_factory=LimitsConfig)


def load(path: Path) -> AgentConfig:
    """Return the configuration in ``path``.

    1. Read the file and parse it as JSON that says each thing once.
    2. Take each key by its type and range.
    3. Whatever was not taken is unknown.

    Raises:
        ConfigError: the file is not there, or wrong at a key; the message names both and the remedy.
    """
    top = Section(path, "", parse(path))
    base = path.absolute().parent
    spool, meter, limits = top.section("spool"), top.section("meter"), top.section("limits")
    config = AgentConfig(
        path=path,
        agent=top.matching("agent", _AGENT_NAME, "up to 63 ASCII letters, digits, '.', '_' and '-'"),
        listen=_listen(top),
        ca=base / top.text("ca"),
        certificate=base / top.text("certificate"),
        key=base / top.text("key"),
        state_directory=base / top.text("state_directory"),
        ports=_ports(top),
        frame_interval_ns=NS_PER_MS
        * top.integer("frame_interval_ms", 1_000, MIN_FRAME_INTERVAL_MS, MAX_FRAME_INTERVAL_MS),
        spool=SpoolLimits(
            max_bytes=spool.integer("max_bytes", DEFAULT_SPOOL_BYTES, MIN_SPOOL_BYTES, 1 << 50),
            max_age_ns=NS_PER_S * spool.integer("max_age_s", DEFAULT_SPOOL_AGE_S, MIN_SPOOL_AGE_S, 10**9),
        ),
        clock_offset_ns=top.integer("clock_offset_ns", 0, 0, MAX_OFFSET_NS),
        bucket_ns=_bucket_ns(meter),
        verifier_public_key=public_key(top, "verifier_public_key"),
        limits=limits_of(limits),
    )
    spool.refuse_rest()
    meter.refuse_rest()
    top.refuse_rest()
    return config


def _listen(top: Section) -> str:
    value = top.text("listen")
    match = _LISTEN.fullmatch(value)
    remedy = "write the management address and a port, for example 10.250.0.11:7443 or [fd00::11]:7443"
    if match is None or not 1 <= int(match["port"]) <= 65_535:
        raise top.error("listen", f"{shown(value)} is not an address and port", remedy)
    try:
        address = ipaddress.ip_address(match["v6"] or match["v4"])
    except ValueError as error:
        raise top.error("listen", f"{shown(value)} is not an address and port", remedy) from error
    if address.is_unspecified:
        problem = f"{shown(value)} would listen on every interface, the data ports too"
        raise top.error("listen", problem, remedy)
    return value


def _bucket_ns(meter: Section) -> int:
    width_us = meter.integer("bucket_us", 1_000, 0, max(BUCKET_WIDTHS_US))
    if width_us not in BUCKET_WIDTHS_US:
        widths = ", ".join(str(width) for width in BUCKET_WIDTHS_US)
        raise meter.error("bucket_us", f"{width_us} is not a width", f"use one of {widths}")
    return width_us * 1_000


def _ports(top: Section) -> tuple[PortConfig, ...]:
    sections = top.sections("ports")
    if not 1 <= len(sections) <= MAX_PORTS:
        raise top.error("ports", f"names {len(sections)} ports", f"name 1 to {MAX_PORTS}")
    ports: dict[str, PortConfig] = {}
    for section in sections:
        name = section.matching(
            "name", _INTERFACE_NAME, f"an interface's name, up to {MAX_INTERFACE_NAME} ASCII characters without spaces"
        )
        # The kernel refuses these as names (dev_valid_name), so they can only be mistakes.
        if name in {".", ".."} or "/" in name or ":" in name:
            raise section.error("name", f"{shown(name)} is not an interface's name", "give the name `ip link` shows")
        role = section.text("role")
        if role not in _ROLES:
            raise section.error("role", f"{shown(role)} is not a role", f"use one of {', '.join(_ROLES)}")
        if name in ports:
            raise section.error("name", f"{shown(name)} is given twice", "name each port once")
        refresh_ns = NS_PER_MS * section.integer("refresh_ms", 0, 0, MAX_REFRESH_MS)
        source = section.take("source", PORT_SOURCES[0])
        if source not in PORT_SOURCES:
            raise section.error("source", f"{shown(source)} is not a source", f"use one of {', '.join(PORT_SOURCES)}")
        section.refuse_rest()
        ports[name] = PortConfig(name, _ROLES[role], refresh_ns, str(source))
    return tuple(ports.values())
