"""Which agent this is: its version, and the bundle it runs from."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

MANIFEST = Path(__file__).resolve().parent.parent / "manifest.json"


@dataclass(frozen=True, slots=True)
class Release:
    """Version, and the SHA-256 of the bundle's manifest in hex (empty when not run from a bundle)."""

    version: str
    bundle_sha256: str


def this_release(manifest: Path = MANIFEST) -> Release:
    """Return what the bundle's manifest says, or, outside a bundle, what the installed package says."""
    try:
        content = manifest.read_bytes()
    except FileNotFoundError:
        try:
            return Release(version("weighbridge"), "")
        except PackageNotFoundError:
            return Release("unknown", "")
    return Release(str(json.loads(content)["version"]), hashlib.sha256(content).hexdigest())
