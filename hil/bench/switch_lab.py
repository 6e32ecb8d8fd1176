"""A switch to do harm to: a real snmpd in a network namespace, with ports that carry frames and a host behind each."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from hil import linux
from switch.security import Authentication, Privacy, UserSecurity

ADDRESS = ("127.0.0.1", 161)
FRAME_BYTES = 1_000


class Lab:
    """The namespace, the daemon and its ports ``eth1``..., each a veth whose other end is ``host1``..."""

    def __init__(self, folder: Path, *, ports: int) -> None:
        self.namespace = f"wblab{os.getpid()}"
        self.user = UserSecurity(
            "weighbridge", Authentication.SHA256, secrets.token_hex(16), Privacy.AES128, secrets.token_hex(16)
        )
        self._folder = folder
        self._daemon: subprocess.Popen[bytes] | None = None
        subprocess.run(["ip", "netns", "add", self.namespace], check=True)
        self.ip("link", "set", "lo", "up")
        for number in range(1, ports + 1):
            self.add_port(number)

    def close(self) -> None:
        """Stop the daemon and remove the namespace."""
        self.stop()
        subprocess.run(["ip", "netns", "del", self.namespace], check=True)

    def ip(self, *arguments: str) -> str:
        """Run ``ip`` in the namespace; return what it prints."""
        command = ["ip", "-n", self.namespace, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def nft(self, rules: str) -> None:
        """Load nftables rules in the namespace."""
        command = ["ip", "netns", "exec", self.namespace, "nft", "-f", "-"]
        subprocess.run(command, check=True, input=rules, text=True)

    def add_port(self, number: int, *, index: int | None = None, address: str | None = None) -> None:
        """Make a port and its host; with the index and the hardware address of one that was, if they are given."""
        near = ["name", f"eth{number}", *(("index", str(index)) if index else ())]
        near += ["address", address] if address else []
        self.ip("link", "add", *near, "type", "veth", "peer", "name", f"host{number}")
        for name in (f"eth{number}", f"host{number}"):
            self.ip("link", "set", name, "addrgenmode", "none")
            self.ip("link", "set", name, "up")

    def link(self, port: str) -> dict[str, Any]:
        """Return what the kernel says of a port: ``ifindex``, ``address``, ``stats64``."""
        (found,) = json.loads(self.ip("-s", "-j", "link", "show", "dev", port))
        return cast("dict[str, Any]", found)

    def start(self, *, user: UserSecurity | None = None, boots: int | None = None, state: str = "state") -> None:
        """Start the daemon: for another user's pass phrases, or one that believes to have been started ``boots`` times.

        ``state`` is where it keeps its engine id and boots; another one makes it another engine.
        """
        served = user or self.user
        folder = self._folder / state
        folder.mkdir(exist_ok=True)
        kept = folder / "snmpd.conf"
        if kept.exists():
            # It keeps its users' keys too, and believes them rather than new pass phrases.
            drop = ("usmUser", "engineBoots") if boots is not None else ("usmUser",)
            lines = [line for line in kept.read_text().splitlines() if not line.startswith(drop)]
            lines += [] if boots is None else [f"engineBoots {boots}"]
            kept.write_text("\n".join(lines) + "\n")
        (self._folder / "snmpd.conf").write_text(
            f"agentAddress udp:161\nrouser {served.user} authPriv\n"
            f'createUser {served.user} SHA-256 "{served.authentication_phrase}" AES "{served.privacy_phrase}"\n'
        )
        environment = os.environ | {
            "MIBS": "",
            "SNMPCONFPATH": f"{self._folder}:{folder}",
            "SNMP_PERSISTENT_DIR": str(folder),
        }
        command = ["ip", "netns", "exec", self.namespace, "snmpd", "-f", "-m", ":"]
        command += ["-I", "-smux,mteTrigger,mteTriggerConf", "-Lf", str(self._folder / "log")]
        command += ["-p", str(self._folder / "pid")]
        null = subprocess.DEVNULL
        self._daemon = subprocess.Popen(command, env=environment, stdin=null, stdout=null, stderr=null)

    def stop(self) -> None:
        """Stop the daemon, in whatever state it is."""
        if self._daemon is not None:
            self._daemon.send_signal(signal.SIGCONT)
            self._daemon.terminate()
            self._daemon.wait(20)
            self._daemon = None

    def signal(self, number: signal.Signals) -> None:
        """Send the daemon a signal."""
        if self._daemon is not None:
            self._daemon.send_signal(number)

    def wrong_user(self) -> UserSecurity:
        """Return the user with another authentication pass phrase."""
        return replace(self.user, authentication_phrase=secrets.token_hex(16))

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        """Sockets that this thread opens meanwhile are of the namespace."""
        with Path("/proc/self/ns/net").open("rb") as home, Path("/run/netns", self.namespace).open("rb") as there:
            linux.join(there.fileno(), linux.CLONE_NEWNET)
            try:
                yield
            finally:
                linux.join(home.fileno(), linux.CLONE_NEWNET)

    @contextlib.contextmanager
    def sender(self, port: str) -> Iterator[Callable[[int], int]]:
        """Yield a function that sends so many frames into a port from its host, and returns how many were taken."""
        with self.inside(), socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as raw:
            raw.bind((port.replace("eth", "host"), 0))
            header = bytes((2, 0, 0, 0, 0, 0x99, 2, 0, 0, 0, 0, 0x98, 0x88, 0xB5))
            frame = header + bytes(FRAME_BYTES - len(header))

            def send(frames: int) -> int:
                taken = 0
                for _ in range(frames):
                    with contextlib.suppress(OSError):  # the port may be gone at the moment
                        raw.send(frame)
                        taken += 1
                return taken

            yield send


@contextlib.contextmanager
def lab(folder: Path, *, ports: int = 3) -> Iterator[Lab]:
    """A lab whose daemon was started, and nothing is left of afterwards."""
    made = Lab(folder, ports=ports)
    try:
        made.start()
        yield made
    finally:
        made.close()


class Between(asyncio.DatagramProtocol):
    """Stands between a client and an agent; ``answer`` makes what the client gets of each of the agent's answers."""

    def __init__(self, agent: tuple[str, int] = ADDRESS) -> None:
        self._agent = agent
        self.answer: Callable[[bytes], Sequence[bytes]] = lambda genuine: (genuine,)
        self.port = 0
        self._transport: asyncio.DatagramTransport | None = None
        self._client: tuple[str, int] = ("", 0)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember the socket."""
        self._transport = cast("asyncio.DatagramTransport", transport)
        self.port = transport.get_extra_info("sockname")[1]

    def datagram_received(self, data: bytes, addr: tuple[str | Any, int]) -> None:
        """Pass a question on, or what is made of an answer."""
        if self._transport is None:
            return
        if addr != self._agent:
            self._client = (str(addr[0]), addr[1])
            self._transport.sendto(data, self._agent)
            return
        for datagram in self.answer(data):
            self._transport.sendto(datagram, self._client)

    @staticmethod
    @contextlib.asynccontextmanager
    async def standing() -> Any:
        """Yield one that listens; to be called inside the namespace."""
        loop = asyncio.get_running_loop()
        transport, between = await loop.create_datagram_endpoint(Between, local_addr=("127.0.0.1", 0))
        try:
            yield between
        finally:
            transport.close()
            await asyncio.sleep(0)
