"""What an agent is told: its configuration, certificate, key and authority, kept and switched as one set."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from controller.credentials import Credential
from controller.deploy.look import Looked
from controller.deploy.paths import DeployPaths
from controller.errors import OperatorError
from controller.site import Dpu

NS_PER_MS = 1_000_000
NS_PER_S = 1_000_000_000
PRIVATE, PUBLIC = 0o600, 0o644


@dataclass(frozen=True, slots=True)
class SettingsFile:
    """One file of the set."""

    content: bytes
    mode: int


@dataclass(frozen=True, slots=True)
class Settings:
    """The set; ``name`` is a hash of all of it, so that equal settings are recognised and others never overwritten."""

    files: Mapping[str, SettingsFile]

    @property
    def name(self) -> str:
        """SHA-256, hex, over names, modes and contents."""
        sha256 = hashlib.sha256()
        for name in sorted(self.files):
            file = self.files[name]
            sha256.update(f"{name}\0{file.mode:o}\0{len(file.content)}\0".encode() + file.content)
        return sha256.hexdigest()


def settings_for(
    dpu: Dpu,
    credential: Credential,
    paths: DeployPaths,
    looked: Looked,
    *,
    frame_interval_ns: int,
    verifier_public_key: bytes,
    limits: Mapping[str, Any],
    revoked: bytes = b"",
) -> Settings:
    """Return the settings of ``dpu``'s agent.

    Args:
        dpu: names the ports and the address, and what the agent is told besides.
        credential: the agent's own.
        paths: where the files will be.
        looked: the device, for how late its drivers serve values.
        frame_interval_ns: between frames; whole milliseconds.
        verifier_public_key: whose class tables and leases it takes, raw.
        limits: how it limits, and what was agreed (:mod:`controller.deploy.limits`).
        revoked: which certificates count no more (:mod:`controller.revoked`).

    Raises:
        OperatorError: the frame interval is not whole milliseconds, or the spool's age not whole seconds.
    """
    frame_interval_ms = _whole(frame_interval_ns, NS_PER_MS, "collection.frame_interval", "milliseconds")
    sources = dict(dpu.agent_settings.port_sources)
    config: dict[str, Any] = {
        "agent": dpu.name,
        "listen": str(dpu.agent),
        # Beside this file wherever it lies, so that a set can be checked before it is in force.
        "ca": "ca.pem",
        "certificate": "agent.pem",
        "key": "agent.key",
        "state_directory": paths.state,
        "ports": [
            {
                "name": name,
                "role": role,
                "refresh_ms": looked.refresh_ms(name, frame_interval_ms),
                "source": sources.get(name, "netlink"),
            }
            for name, role in ports_of(dpu).items()
        ],
        "meter": {"bucket_us": dpu.agent_settings.bucket_us},
        "frame_interval_ms": frame_interval_ms,
        "verifier_public_key": verifier_public_key.hex(),
        "limits": dict(limits),
    }
    told, spool = dpu.agent_settings, {}
    if told.clock_offset_ns:
        config["clock_offset_ns"] = told.clock_offset_ns
    if told.spool_bytes is not None:
        spool["max_bytes"] = told.spool_bytes
    if told.spool_age_ns is not None:
        spool["max_age_s"] = _whole(told.spool_age_ns, NS_PER_S, f"{dpu.name}: agent_settings.spool_age", "seconds")
    if spool:
        config["spool"] = spool
    return Settings(
        {
            **({"revoked": SettingsFile(revoked, PUBLIC)} if revoked else {}),
            "agent.json": SettingsFile(json.dumps(config, indent=2).encode() + b"\n", PUBLIC),
            "ca.pem": SettingsFile(credential.ca_pem, PUBLIC),
            "agent.pem": SettingsFile(credential.certificate_pem, PUBLIC),
            "agent.key": SettingsFile(credential.key_pem, PRIVATE),
        }
    )


def _whole(value_ns: int, unit_ns: int, where: str, unit: str) -> int:
    count, rest = divmod(value_ns, unit_ns)
    if rest or not count:
        raise OperatorError(f"{where} in the site file is {value_ns} ns; give whole {unit}, at least one")
    return count


def ports_of(dpu: Dpu) -> dict[str, str]:
    """Return the ports of a DPU that are metered, and the role of each as the agent's configuration names it."""
    ports = {port: "host_port" for uplink in dpu.uplinks for port in uplink.host_ports}
    return {**ports, **{uplink.name: "uplink" for uplink in dpu.uplinks}}
