"""The secret files a site file names: they must be there, be files, be private and hold something.

A secret never stands in the site file, which goes into the journal and into reports.
"""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

from controller.errors import OperatorError
from controller.site_schema import SiteSection, Snmp3Section
from controller.site_yaml import Place, Problem

SNMP_PASS_PHRASE_CHARACTERS = 8
"""The least an SNMPv3 pass phrase may have (RFC 3414, section 11.2)."""

MAX_SECRET_BYTES = 1_024

_MAKE_PHRASE = "openssl rand -hex 16"


def problems(site: SiteSection, folder: Path) -> list[Problem]:
    """Return what is wrong with the secret files of ``site``, whose relative paths start at ``folder``."""
    return [
        Problem(place, f"{what}: {fault}", remedy)
        for place, what, path, least in _secrets(site, folder)
        for fault, remedy in _faults(path, least)
    ]


def read_secret(path: Path, least_characters: int = 1) -> str:
    """Return the secret in ``path``: its text without the newline at its end.

    Raises:
        OperatorError: it is missing, open to others, or not a secret; the text never holds the secret.
    """
    for fault, remedy in _faults(path, least_characters):
        raise OperatorError(f"{fault}. {remedy}")
    return _text(path)


def _secrets(site: SiteSection, folder: Path) -> Iterator[tuple[Place, str, Path, int]]:
    for s, switch in enumerate(site.switches):
        place = ("switches", s, "snmp")
        if isinstance(switch.snmp, Snmp3Section):
            for key, what in (("auth_key_file", "authentication"), ("privacy_key_file", "privacy")):
                path = folder / getattr(switch.snmp, key)
                yield (*place, key), f"the {what} secret of switch {switch.name}", path, SNMP_PASS_PHRASE_CHARACTERS
        else:
            path = folder / switch.snmp.community_file
            yield (*place, "community_file"), f"the community of switch {switch.name}", path, 1


def _faults(path: Path, least_characters: int) -> Iterator[tuple[str, str]]:
    """Yield the first fault of a secret file and its remedy, if it has one."""
    make = f"Make it with `(umask 077; {_MAKE_PHRASE} > {path})` and give the device the same"
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            yield f"{path} is not a file", make
        elif stat.S_IMODE(status.st_mode) & 0o077:
            yield f"{path} can be read or written by others than its owner", f"Run `chmod 600 {path}`"
        elif len(_text(path)) < least_characters:
            yield f"{path} holds less than the {least_characters} characters a secret needs", make
    except FileNotFoundError:
        yield f"{path} is missing", make
    except OSError as error:
        yield f"{path} cannot be read ({error.strerror})", "Check the rights of the file and of its folder"
    except UnicodeDecodeError:
        yield f"{path} is not text", make


def _text(path: Path) -> str:
    with path.open("rb") as file:
        content = file.read(MAX_SECRET_BYTES)
    return content.decode("utf-8").rstrip("\r\n")
