"""Which device proved which SNMP engine id to be its own. One register a process, whatever client reads the device."""

from __future__ import annotations


class SharedEngineIdError(Exception):
    """Two devices answer with one engine id, so neither's identity is proven."""


class EngineClaims:
    """Engine ids and the devices that could authenticate with them; a discovery alone proves nothing."""

    def __init__(self) -> None:
        self._owners: dict[str, str] = {}

    def check_unclaimed(self, engine_id: str, device: str) -> None:
        """Check that no other device has proven ``engine_id`` to be its own.

        Raises:
            SharedEngineIdError: another device of this process has.
        """
        owner = self._owners.get(engine_id, device)
        if owner != device:
            raise SharedEngineIdError(
                f"{device} and {owner} both answer with SNMP engine id {engine_id}; a copied configuration? "
                f"Give each device its own engine id: neither's boots nor identity can be told apart"
            )

    def claim(self, engine_id: str, device: str) -> None:
        """Note that ``device`` answered with ``engine_id`` and could authenticate."""
        self._owners.setdefault(engine_id, device)

    def release(self, device: str) -> None:
        """Forget what ``device`` claimed."""
        self._owners = {engine_id: owner for engine_id, owner in self._owners.items() if owner != device}
