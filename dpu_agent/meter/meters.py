"""All ports' meters: opened together, watched for interfaces that come and go, read each second.

A port whose meter cannot run has none, and says so in every frame; the other ports and the ports' own totals go on.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import socket
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from dpu_agent.classtable import ClassTables, Table
from dpu_agent.config import AgentConfig, PortConfig
from dpu_agent.counters import PortSample, SourceDescription
from dpu_agent.errors import AgentError
from dpu_agent.meter import attach, hooks, maps
from dpu_agent.meter.errors import MeterUnavailableError, NoMeter, PortInUseError
from dpu_agent.meter.layout import PEERS_A_TABLE, Shape, possible_cpus
from dpu_agent.meter.libbpf import LibBpf
from dpu_agent.meter.port import PortMeter, unavailable
from protos.reading import Framing, Observer
from protos.v1 import agent_pb2, meter_pb2
from protos.wire import FRAMING_TO_WIRE

log = logging.getLogger(__name__)

DESCRIPTION = SourceDescription(
    name="ebpf-meter",
    framing=Framing.L2_WITHOUT_FCS,
    sees=(
        "every frame at the port's ingress: the host port's is what the node sends, the uplink's what it gets",
        "VLAN tags, also those the kernel keeps beside the frame",
        "segmentation-offloaded packets both as handed over and as the frames they become",
    ),
    cannot_see=(
        "frames that hardware forwards, or an XDP or tcx program takes, before the hook; the audit looks for both",
        "the port's other direction, which is the ingress of its neighbour",
        "padding of short frames and the frame check sequence",
    ),
)
_POSSIBLE_CPUS = Path("/sys/devices/system/cpu/possible")
# Another try for a meter that could not be opened: a library that is installed, a file system that is mounted.
RETRY_NS = 60_000_000_000
_SETTLE_S = 0.005


class Meters:
    """The meters of an agent's ports; :class:`dpu_agent.metering.Metering` by its shape."""

    def __init__(
        self,
        config: AgentConfig,
        tables: ClassTables,
        *,
        last_sequence: int,
        kernel_ns: Callable[[], int] = time.monotonic_ns,
        bpf_file_system: Path = maps.BPF_FILE_SYSTEM,
        load_library: Callable[[], LibBpf] = LibBpf,
    ) -> None:
        """Hold the ports against other agents, and open what can be opened.

        Raises:
            AgentError: another agent meters one of the ports.
        """
        self._config, self._tables, self._kernel_ns = config, tables, kernel_ns
        self._file_system, self._load_library = bpf_file_system, load_library
        self._library: LibBpf | None = None
        self._ports: dict[str, PortMeter] = {}
        self._lacking: dict[str, tuple[MeterUnavailableError, int]] = {}
        self._held: list[socket.socket] = []
        try:
            self._held = [attach.hold(port.name) for port in config.ports]
        except PortInUseError as error:
            raise AgentError(str(error)) from error
        for port in config.ports:
            self._open(port, last_sequence)
        self._watcher = Watcher(self._check)

    @property
    def table(self) -> Table:
        """The class table in force."""
        return self._tables.table

    def read(self, sequence: int, _samples: Sequence[PortSample]) -> list[meter_pb2.MeterReading]:
        """Return each port's reading for frame ``sequence``."""
        found = []
        for port in self._config.ports:
            lacking = self._lacking.get(port.name)
            if lacking is not None and lacking[1] <= self._kernel_ns():
                self._open(port, sequence - 1)
            meter = self._ports.get(port.name)
            found.append(unavailable(port.name, self._lacking[port.name][0]) if meter is None else meter.read(sequence))
        return found

    def describe(self) -> list[agent_pb2.MeterDescription]:
        """Return what each port's meter is, or why there is none."""
        found = []
        for port in self._config.ports:
            meter, lacking = self._ports.get(port.name), self._lacking.get(port.name)
            description = agent_pb2.MeterDescription(
                port=port.name,
                source=DESCRIPTION.name,
                framing=FRAMING_TO_WIRE[DESCRIPTION.framing],
                width_ns=self._config.bucket_ns,
                sees=DESCRIPTION.sees,
                cannot_see=DESCRIPTION.cannot_see,
            )
            if meter is not None:
                meter.describe(description)
            elif lacking is not None:
                description.unavailable, description.unavailable_text = lacking[0].why.value, str(lacking[0])
            found.append(description)
        return found

    def set_table(self, signed: bytes) -> Table:
        """Put a class table in force at every port.

        Raises:
            ClassTableRejectedError: it is not taken.
            OSError: it cannot be stored or loaded.
        """
        table = self._tables.accept(signed)
        for meter in self._ports.values():
            meter.set_table(table)
        log.info("class table %d is in force: %d prefixes", table.sequence, len(table.prefixes))
        return table

    def close(self) -> None:
        """Stop watching and let go of everything; the programs count on."""
        self._watcher.close()
        for meter in self._ports.values():
            meter.close()
        for held in self._held:
            held.close()

    def _open(self, port: PortConfig, last_sequence: int) -> None:
        try:
            self._ports[port.name] = self._opened(port, last_sequence)
            self._lacking.pop(port.name, None)
        except MeterUnavailableError as error:
            self._lack(port, error)
        except OSError as error:
            self._lack(port, MeterUnavailableError(NoMeter.REFUSED, f"the kernel does not make a meter: {error}"))

    def _lack(self, port: PortConfig, error: MeterUnavailableError) -> None:
        before = self._lacking.get(port.name)
        self._lacking[port.name] = (error, self._kernel_ns() + RETRY_NS)
        if before is None or str(before[0]) != str(error):
            log.warning("%s has no millisecond meter: %s. Its totals go on.", port.name, error)

    def _opened(self, port: PortConfig, last_sequence: int) -> PortMeter:
        if self._config.bucket_ns == 0:
            raise MeterUnavailableError(NoMeter.SWITCHED_OFF, "the configuration has meter.bucket_us 0")
        if self._library is None:
            self._library = self._load_library()
        maps.require_file_system(self._file_system)
        shape = Shape(
            width_ns=self._config.bucket_ns,
            cpus=possible_cpus(_POSSIBLE_CPUS.read_text(encoding="ascii")),
            peers=2 * PEERS_A_TABLE,
            at_host_port=port.role is Observer.DPU_HOST_PORT,
        )
        meter = PortMeter(
            port,
            library=self._library,
            code=maps.image(),
            shape=shape,
            folder=self._file_system / maps.PINS / port.name,
            kernel_ns=self._kernel_ns,
            offset_ns=self._config.clock_offset_ns,
            last_sequence=last_sequence,
        )
        meter.set_table(self._tables.table)
        return meter

    def _check(self) -> None:
        for meter in list(self._ports.values()):
            meter.check()


class Watcher:
    """Calls ``changed`` soon after an interface or a filter of this network namespace changes, on its own thread."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._events = hooks.watch()
        self._stop, self._stopped = os.pipe()
        self._thread = threading.Thread(target=self._run, name="interfaces", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop."""
        os.close(self._stopped)
        self._thread.join()
        os.close(self._stop)
        self._events.close()

    def _run(self) -> None:
        while True:
            ready, _, _ = select.select([self._events.fileno(), self._stop], [], [])
            if self._stop in ready:
                return
            # One change makes several messages, and a meter put back makes more; an overrun (ENOBUFS) is news too.
            with contextlib.suppress(OSError):
                self._events.recv(1 << 16)
            self._changed()
            if select.select([self._stop], [], [], _SETTLE_S)[0]:
                return
