"""Strict JSON with a place for every error: the file says each thing once, and every key of it is known.

What the keys are is in :mod:`dpu_agent.config`.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import NoReturn

from dpu_agent.errors import ConfigError
from protos.signing import load_public_key

MAX_CONFIG_BYTES = 1 << 20


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_CONFIG_BYTES + 1)
    except FileNotFoundError as error:
        raise ConfigError(path, None, "is not there", "give the agent's configuration with --config") from error
    except OSError as error:
        problem = f"cannot be read ({error.strerror})"
        raise ConfigError(path, None, problem, "check the path, its owner and its mode") from error
    if len(content) > MAX_CONFIG_BYTES:
        raise ConfigError(path, None, f"is larger than {MAX_CONFIG_BYTES} bytes", "give the agent's configuration")
    return content


def parse(path: Path) -> dict[str, object]:
    """Return the JSON object in ``path``.

    Raises:
        ConfigError: it is not there, no JSON object, or says something twice.
    """

    def once(pairs: list[tuple[str, object]]) -> dict[str, object]:
        seen: dict[str, object] = {}
        for key, value in pairs:
            if key in seen:
                raise ConfigError(path, key, "is given twice", "say it once")
            seen[key] = value
        return seen

    def constant(name: str) -> NoReturn:
        raise ConfigError(path, None, f"{name} is not a value of JSON", "write a whole number")

    content = _read(path)
    try:
        value = json.loads(content.decode("utf-8"), object_pairs_hook=once, parse_constant=constant)
    except UnicodeDecodeError as error:
        raise ConfigError(path, None, f"is not UTF-8 at byte {error.start}", "save it as UTF-8") from error
    except json.JSONDecodeError as error:
        problem = f"is not JSON at line {error.lineno}, column {error.colno} ({error.msg})"
        raise ConfigError(path, None, problem, "correct it there") from error
    except (RecursionError, ValueError) as error:
        raise ConfigError(path, None, f"is not JSON that can be read ({error})", "correct it") from error
    if not isinstance(value, dict):
        raise ConfigError(path, None, "is not a JSON object", 'begin it with {"agent": ...}')
    return value


class Section:
    """One object of the file; every key that is taken is struck off, what is left is unknown."""

    def __init__(self, path: Path, prefix: str, values: dict[str, object]) -> None:
        self._path, self._prefix, self._left = path, prefix, dict(values)
        self._known: list[str] = []

    def error(self, key: str, problem: str, remedy: str) -> ConfigError:
        """Return the error at ``key``."""
        return ConfigError(self._path, self._prefix + key, problem, remedy)

    def take(self, key: str, default: object = None) -> object:
        """Take the value of ``key``; without a default it must be there."""
        self._known.append(key)
        if key not in self._left:
            if default is None:
                raise self.error(key, "is missing", "add it")
            return default
        return self._left.pop(key)

    def text(self, key: str) -> str:
        """Take a text that is not empty."""
        value = self.take(key)
        if not isinstance(value, str) or not value or "\0" in value:
            raise self.error(key, f"{shown(value)} is not a text", "write a text in quotes, not empty")
        return value

    def matching(self, key: str, grammar: re.Pattern[str], wanted: str) -> str:
        """Take a text of this grammar."""
        value = self.text(key)
        if not grammar.fullmatch(value):
            raise self.error(key, f"{shown(value)} is not a name", f"use {wanted}")
        return value

    def integer(self, key: str, default: int, least: int, most: int) -> int:
        """Take a whole number within bounds."""
        value = self.take(key, default)
        if not isinstance(value, int) or isinstance(value, bool):
            raise self.error(key, f"{shown(value)} is not a whole number", f"write a number without quotes: {default}")
        if not least <= value <= most:
            raise self.error(key, f"{value} is out of range", f"give {least} to {most}")
        return value

    def whole(self, key: str, least: int, most: int) -> int:
        """Take a whole number within bounds that must be there."""
        if key not in self._left:
            self.take(key)
        return self.integer(key, least, least, most)

    def section(self, key: str) -> Section:
        """Take an object; empty where it is not there."""
        value = self.take(key, {})
        if not isinstance(value, dict):
            raise self.error(key, f"{shown(value)} is not an object", "write {...}")
        return Section(self._path, f"{self._prefix}{key}.", value)

    def names(self) -> list[str]:
        """Return the keys that were not taken yet."""
        return list(self._left)

    def sections(self, key: str, default: object = None) -> list[Section]:
        """Take a list of objects."""
        value = self.take(key, default)
        if not isinstance(value, list):
            raise self.error(key, f"{shown(value)} is not a list", "write [...]")
        found = []
        for index, item in enumerate(value):
            if not isinstance(item, dict):
                raise self.error(f"{key}[{index}]", f"{shown(item)} is not an object", "write {...}")
            found.append(Section(self._path, f"{self._prefix}{key}[{index}].", item))
        return found

    def refuse_rest(self) -> None:
        """Refuse what was not taken."""
        for key in self._left:
            raise self.error(key, "is not a key of this file", f"remove it, or use one of {', '.join(self._known)}")


def shown(value: object) -> str:
    """Return ``value`` as the file has it, for a message."""
    text = json.dumps(value, ensure_ascii=True)
    return text if len(text) <= 60 else text[:57] + "..."


def public_key(section: Section, key: str) -> bytes:
    """Take an Ed25519 public key in hexadecimal; empty where it is not there."""
    value = section.take(key, "")
    if value == "":
        return b""
    try:
        raw = bytes.fromhex(value) if isinstance(value, str) else b""
        load_public_key(raw)
    except ValueError as error:
        problem = f"{shown(value)} is not an Ed25519 public key ({error})"
        raise section.error(key, problem, "write its 32 bytes as 64 hexadecimal digits") from error
    return raw
