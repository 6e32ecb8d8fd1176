"""Files on the device: everything is put beside what runs, checked there, and comes into force by one rename.

Layout under the root (:class:`controller.deploy.paths.DeployPaths`)::

    releases/<bundle>/     unpacked bundles, named by the SHA-256 of their manifest
    settings/<hash>/       configuration, certificate, key and authority, named by the hash of all of them
    current -> releases/…  in force
    etc -> settings/…      in force
    incoming-<random>/     being sent; private; whatever an interrupted deployment left is removed by a later one
"""

from __future__ import annotations

import hashlib
import secrets
import shlex
from collections.abc import Collection
from pathlib import PurePosixPath
from typing import final

from controller.deploy.bundle import CHECKER, LAUNCHER, Bundle
from controller.deploy.paths import DeployPaths
from controller.deploy.settings import Settings
from controller.deploy.ssh import COMMAND_TIMEOUT_S, Connection
from controller.errors import DeviceError

# Unpacking and hashing 38 MB on a loaded Arm core with slow flash.
UNPACK_TIMEOUT_S = 300.0
# Left free for the machine itself after a release is unpacked.
SPARE_BYTES = 16 * 2**20
KEPT = 2
STALE_AFTER_MINUTES = 60


@final
class Install:
    """The agent's files on one device."""

    def __init__(self, connection: Connection, paths: DeployPaths) -> None:
        self._connection, self._paths = connection, paths
        self._incoming = f"{paths.root}/incoming-{secrets.token_hex(8)}"

    def must(self, command: str, doing: str, *, timeout_s: float = COMMAND_TIMEOUT_S) -> str:
        """Run a shell command that must succeed, and return what it printed.

        Raises:
            DeviceError: it failed; the text has its last words.
        """
        outcome = self._connection.run(command, timeout_s=timeout_s)
        if outcome.exit_code != 0:
            words = (outcome.stderr.strip() or outcome.stdout.strip() or "it said nothing").splitlines()[-1]
            raise DeviceError(
                f"{self._connection.place}: {doing} failed with exit code {outcome.exit_code}: {words[:300]}; "
                "repair that on the device, then deploy again"
            )
        return outcome.stdout

    def begin(self) -> None:
        """Make the folders, and remove what interrupted deployments left an hour ago or longer."""
        root, incoming = shlex.quote(self._paths.root), shlex.quote(self._incoming)
        self.must(
            f"mkdir -p {root}/releases && mkdir -p -m 0700 {root}/settings {shlex.quote(self._paths.state)} && "
            f"find {root} -maxdepth 1 -name 'incoming-*' -mmin +{STALE_AFTER_MINUTES} -exec rm -rf {{}} + && "
            f"mkdir -m 0700 {incoming}",
            f"making {self._paths.root}",
        )

    def end(self) -> None:
        """Remove what is left of this deployment's own sending."""
        self.must(f"rm -rf {shlex.quote(self._incoming)}", "removing what was sent")

    # Releases

    def holds_release(self, sha256: str) -> bool:
        """Whether the release is there and every file of it is as it was sent."""
        folder = f"{self._paths.root}/releases/{sha256}"
        told = self._connection.run(self._check(folder), timeout_s=UNPACK_TIMEOUT_S)
        return told.exit_code == 0 and told.stdout.strip() == sha256

    def send_release(self, bundle: Bundle) -> None:
        """Put the release in its place; it is not in force yet.

        1. There must be room for the archive and what it unpacks to.
        2. Send the archive into a private folder, and compare its hash there.
        3. Unpack it beside, check every file against the manifest, put it on the disk.
        4. Rename it into its place; a damaged one that stands there is moved out first.

        Raises:
            DeviceError: one of these failed; what runs was not touched.
        """
        content = bundle.archive.read_bytes()
        if hashlib.sha256(content).hexdigest() != bundle.archive_sha256:
            raise DeviceError(f"{bundle.archive}: changed since it was built; deploy again")
        self._check_room(len(content) + bundle.unpacked_bytes)
        archive, unpacked = f"{self._incoming}/bundle.tar.gz", f"{self._incoming}/release"
        self._connection.upload(content, archive, mode=0o600)
        quoted = shlex.quote(unpacked)
        self.must(
            f"mkdir {quoted} && tar -xzf {shlex.quote(archive)} --no-same-owner -C {quoted}",
            "unpacking the bundle",
            timeout_s=UNPACK_TIMEOUT_S,
        )
        told = self.must(self._check(unpacked), "checking the unpacked bundle", timeout_s=UNPACK_TIMEOUT_S).strip()
        if told != bundle.sha256:
            raise DeviceError(
                f"{self._connection.place}: unpacked release {told[:12]} where {bundle.sha256[:12]} was sent; "
                "check the device's disk, then deploy again"
            )
        self._put_in_place(unpacked, f"{self._paths.root}/releases/{bundle.sha256}")

    # Settings

    def holds_settings(self, settings: Settings) -> bool:
        """Whether these settings are there, with the modes they must have."""
        folder = f"{self._paths.root}/settings/{settings.name}"
        expected = sorted(
            f"{hashlib.sha256(file.content).hexdigest()} {file.mode:o} {name}" for name, file in settings.files.items()
        )
        told = self._connection.run(
            f"cd {shlex.quote(folder)} && for file in *; do "
            'echo "$(sha256sum "$file" | cut -c -64) $(stat -c %a "$file") $file"; done'
        )
        return told.exit_code == 0 and sorted(told.stdout.splitlines()) == expected

    def send_settings(self, settings: Settings) -> None:
        """Put the settings in their place; they are not in force yet.

        Raises:
            DeviceError: they could not be written; what runs was not touched.
        """
        sent = f"{self._incoming}/settings"
        self.must(f"mkdir -m 0700 {shlex.quote(sent)}", "making a folder for the settings")
        for name, file in settings.files.items():
            self._connection.upload(file.content, f"{sent}/{name}", mode=file.mode)
        self._put_in_place(sent, f"{self._paths.root}/settings/{settings.name}")

    def check_settings(self, settings: Settings, bundle: Bundle) -> None:
        """Let the release that was sent check the settings that were sent; neither is in force yet.

        Raises:
            DeviceError: it does not start, or refuses them (unknown key, certificate not valid by the device's clock).
        """
        agent = f"{self._paths.root}/releases/{bundle.sha256}/{LAUNCHER}"
        config = f"{self._paths.root}/settings/{settings.name}/agent.json"
        command = shlex.join([self._paths.python, agent, "check-config", "--config", config])
        self.must(command, "the new release's own check of its settings")

    # In force

    def point(self, link: str, target: str | None) -> None:
        """Let ``<root>/<link>`` point to ``target`` (relative to the root) by one rename; ``None`` removes it.

        Raises:
            DeviceError: it could not; the link is what it was.
        """
        place, new = f"{self._paths.root}/{link}", f"{self._incoming}/{link}"
        if target is None:
            self.must(f"rm -f {shlex.quote(place)}", f"removing {place}")
            return
        self.must(
            f"rm -f {shlex.quote(new)} && ln -s {shlex.quote(target)} {shlex.quote(new)} && "
            f"mv -T {shlex.quote(new)} {shlex.quote(place)} && sync -f {shlex.quote(self._paths.root)}",
            f"switching {place}",
        )

    def read(self, path: str) -> bytes | None:
        """Return a small text file's content, ``None`` when it is not there."""
        quoted = shlex.quote(path)
        told = self.must(f"if [ -e {quoted} ]; then echo there; cat {quoted}; fi", f"reading {path}")
        return told.removeprefix("there\n").encode() if told else None

    def write(self, path: str, content: bytes) -> None:
        """Replace a small file at once; its folder is made when it is not there.

        Raises:
            DeviceError: it could not be written; what was there stays.
        """
        place = PurePosixPath(path)
        # Beside its place, so that the rename stays within one file system.
        new = f"{place.parent}/.{place.name}.{secrets.token_hex(8)}"
        self.must(f"mkdir -p {shlex.quote(str(place.parent))}", f"making {place.parent}")
        try:
            self._connection.upload(content, new, mode=0o644)
            self.must(f"mv -T {shlex.quote(new)} {shlex.quote(path)}", f"writing {path}")
        except DeviceError:
            self._connection.run(f"rm -f {shlex.quote(new)}")
            raise

    def prune(self, *, releases: Collection[str | None], settings: Collection[str | None]) -> int:
        """Remove releases and settings beyond the newest :data:`KEPT`; those named stay in any case.

        Returns:
            How many releases were removed.
        """
        removed = 0
        for kind, named in (("releases", releases), ("settings", settings)):
            folder = f"{self._paths.root}/{kind}"
            there = self.must(f"ls -1t {shlex.quote(folder)}", f"listing {folder}").split()
            kept = [name for name in there if name in named]
            kept += [name for name in there if name not in named][: max(0, KEPT - len(kept))]
            gone = [name for name in there if name not in kept]
            if gone:
                listed = " ".join(shlex.quote(f"{folder}/{name}") for name in gone)
                self.must(f"rm -rf {listed}", f"removing old {kind}", timeout_s=UNPACK_TIMEOUT_S)
                removed += len(gone) if kind == "releases" else 0
        return removed

    def _check(self, folder: str) -> str:
        return shlex.join([self._paths.python, "-I", "-S", "-B", f"{folder}/{CHECKER}", folder])

    def _check_room(self, needed: int) -> None:
        told = self.must(f"df -P -B1 {shlex.quote(self._paths.root)}", "asking for free space")
        free = int(told.strip().splitlines()[-1].split()[3])
        if free < needed + SPARE_BYTES:
            raise DeviceError(
                f"{self._connection.place}: {self._paths.root} has {free // 10**6} MB free; the release needs "
                f"{needed // 10**6} MB and {SPARE_BYTES // 10**6} MB to spare. Make room there, then deploy again"
            )

    def _put_in_place(self, sent: str, place: str) -> None:
        old = f"{self._incoming}/replaced"
        self.must(
            f"sync -f {shlex.quote(sent)} && rm -rf {shlex.quote(old)} && "
            f"if [ -e {shlex.quote(place)} ]; then mv -T {shlex.quote(place)} {shlex.quote(old)}; fi && "
            f"mv -T {shlex.quote(sent)} {shlex.quote(place)} && touch {shlex.quote(place)}",
            f"putting {place} in place",
            timeout_s=UNPACK_TIMEOUT_S,
        )
