"""A host, a DPU and a far end in three network namespaces, the real meter between them: for figures and rig tests.

``host eth0 - pf0hpf | bridge | p0 - eth0 far``. The meter's maps are pinned in a BPF file system of their own. A
process enters a namespace with one thread; what it opens there (sockets) stays there.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType

from dpu_agent.classtable import ClassTables
from dpu_agent.config import AgentConfig, PortConfig
from dpu_agent.disk import Disk
from dpu_agent.meter.meters import Meters
from protos.reading import Observer
from protos.wire import MeterReading, meter_reading

HOST, DPU, FAR = "host", "dpu", "far"
HOST_PORT, UPLINK = "pf0hpf", "p0"
HOST_ADDRESS, FAR_ADDRESS = "10.78.0.1", "10.78.0.2"
_CLONE_NEWNET = 0x4000_0000
_numbers = itertools.count(1)


class MeteredPath:
    """The path, built on entering, gone on leaving."""

    def __init__(self, *, mtu: int = 9000, offloads: bool = False) -> None:
        self._mtu, self._offloads = mtu, offloads
        self._name = f"wbm{os.getpid()}x{next(_numbers)}"
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._folder = tempfile.TemporaryDirectory(prefix="weighbridge-path-")
        self.folder = Path(self._folder.name)
        self.bpf = self.folder / "bpf"

    def __enter__(self) -> MeteredPath:  # noqa: PYI034  Self is not in Python 3.10
        self.bpf.mkdir()
        run("mount", "-t", "bpf", "bpf", str(self.bpf))
        for place in (HOST, DPU, FAR):
            run("ip", "netns", "add", self.namespace(place))
            self.run(
                place, "sysctl", "-q", "-w", "net.ipv6.conf.all.disable_ipv6=1", "net.ipv6.conf.default.disable_ipv6=1"
            )
            self.run(place, "ip", "link", "set", "lo", "up")
        # Where br_netfilter is there, it would send bridged frames through the firewall, which drops malformed ones.
        for kind in ("iptables", "ip6tables", "arptables"):
            self.run(DPU, "sysctl", "-q", "-w", f"net.bridge.bridge-nf-call-{kind}=0", check=False)
        self.run(DPU, "ip", "link", "add", "br0", "mtu", str(self._mtu), "type", "bridge", "mcast_snooping", "0")
        self.run(DPU, "ip", "link", "set", "br0", "up")
        self.plug_host()
        self._cable(FAR, "eth0", UPLINK)
        for place, address in ((HOST, HOST_ADDRESS), (FAR, FAR_ADDRESS)):
            self.run(place, "ip", "addr", "add", f"{address}/24", "dev", "eth0")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for place in (HOST, DPU, FAR):
            run("ip", "netns", "del", self.namespace(place), check=False)
        run("umount", str(self.bpf), check=False)
        self._folder.cleanup()

    def namespace(self, place: str) -> str:
        """Return the name of a network namespace."""
        return f"{self._name}-{place}"

    def run(self, place: str, *command: str, check: bool = True) -> str:
        """Run a command in a network namespace and return its output."""
        return run("nsenter", f"--net=/run/netns/{self.namespace(place)}", *command, check=check)

    def start(self, place: str, command: Sequence[str], stderr: int | None = None) -> subprocess.Popen[str]:
        """Start a command in a network namespace, with the path's BPF file system where a DPU has it."""
        script = f'mount --bind "{self.bpf}" /sys/fs/bpf && exec "$@"'
        network = f"--net=/run/netns/{self.namespace(place)}"
        argv = ["unshare", "--mount", "nsenter", network, "sh", "-c", script, "sh", *command]
        return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=stderr, text=True)

    @contextlib.contextmanager
    def inside(self, place: str) -> Iterator[None]:
        """Have this thread in a network namespace."""
        back = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        there = os.open(f"/run/netns/{self.namespace(place)}", os.O_RDONLY | os.O_CLOEXEC)
        try:
            self._enter(there)
            yield
        finally:
            self._enter(back)
            os.close(there)
            os.close(back)

    def plug_host(self) -> None:
        """Give host and DPU the interfaces between them."""
        self._cable(HOST, "eth0", HOST_PORT)

    def unplug_host(self) -> None:
        """Delete the host's interface, and the DPU's with it."""
        self.run(HOST, "ip", "link", "del", "eth0")

    def counters(self, place: str, interface: str) -> dict[str, int]:
        """Return ``rx_bytes``, ``rx_packets``, ``tx_bytes``, ``tx_packets`` of an interface."""
        for line in self.run(place, "cat", "/proc/net/dev").splitlines():
            name, colon, numbers = line.partition(":")
            if colon and name.strip() == interface:
                fields = [int(field) for field in numbers.split()]
                return dict(
                    zip(("rx_bytes", "rx_packets", "tx_bytes", "tx_packets"), (*fields[:2], *fields[8:10]), strict=True)
                )
        raise ValueError(f"{place} has no interface {interface}")

    def raw_socket(self, place: str = HOST) -> socket.socket:
        """Return a socket that sends frames out of a machine's eth0 as they are."""
        with self.inside(place):
            sender = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
            try:
                sender.bind(("eth0", 0))
            except OSError:
                sender.close()
                raise
        return sender

    def config(self, *, bucket_ns: int = 1_000_000, verifier: bytes = b"") -> AgentConfig:
        """Return an agent's configuration for this DPU."""
        state = self.folder / "state"
        state.mkdir(exist_ok=True)
        return AgentConfig(
            path=state / "agent.json",
            agent="dpu0",
            listen="127.0.0.1:7443",
            ca=state,
            certificate=state,
            key=state,
            state_directory=state,
            ports=(PortConfig(HOST_PORT, Observer.DPU_HOST_PORT), PortConfig(UPLINK, Observer.DPU_UPLINK)),
            bucket_ns=bucket_ns,
            verifier_public_key=verifier,
        )

    def meters(self, config: AgentConfig | None = None, *, last_sequence: int = 0, **options: object) -> Meters:
        """Return the meters of the DPU's ports, as a new agent opens them."""
        config = config or self.config()
        tables = ClassTables(Disk(), config.state_directory, agent=config.agent, verifier=config.verifier_public_key)
        make: Callable[..., Meters] = Meters
        with self.inside(DPU):
            return make(config, tables, last_sequence=last_sequence, bpf_file_system=self.bpf, **options)

    def read(self, meters: Meters, sequence: int) -> dict[str, MeterReading]:
        """Return what the meters tell for frame ``sequence``, by port."""
        with self.inside(DPU):
            return {found.port: meter_reading(found) for found in meters.read(sequence, ())}

    def _cable(self, place: str, interface: str, port: str) -> None:
        run(
            "ip",
            "link",
            "add",
            interface,
            "mtu",
            str(self._mtu),
            "netns",
            self.namespace(place),
            "type",
            "veth",
            "peer",
            "name",
            port,
            "mtu",
            str(self._mtu),
            "netns",
            self.namespace(DPU),
        )
        # A tag that is kept beside the frame is not in the interface's byte counter; in the frame it is.
        tags = ["rxvlan", "off", "txvlan", "off", "tx-vlan-stag-hw-insert", "off", "rx-vlan-stag-hw-parse", "off"]
        ends = ((place, interface), (DPU, port))
        for where, name in ends:
            settings = list(tags)
            # The uplink cuts packets into frames in any case, so that the far end counts frames as on a wire.
            if not self._offloads or name == UPLINK:
                settings += [word for offload in ("tso", "gso", "gro", "tx") for word in (offload, "off")]
            self.run(where, "ethtool", "-K", name, *settings)
        self.run(DPU, "ip", "link", "set", port, "master", "br0")
        for where, name in ends:
            self.run(where, "ip", "link", "set", name, "up")

    def _enter(self, descriptor: int) -> None:
        if self._libc.setns(descriptor, _CLONE_NEWNET) != 0:
            number = ctypes.get_errno()
            raise OSError(number, f"setns: {os.strerror(number)}")


def run(*command: str, check: bool = True) -> str:
    """Run a command and return its output.

    Raises:
        RuntimeError: it failed; the text has what it said.
    """
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if check and done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: exit code {done.returncode}: {(done.stderr or done.stdout).strip()}")
    return done.stdout
