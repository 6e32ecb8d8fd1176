"""Reads a YAML file into plain values and remembers the line of each key, so that errors can name it.

Round-trip loading keeps the lines. Duplicate keys, tags, non-text keys and files that grow out of bounds when their
anchors are followed are refused: two readers of an agreement must not be able to read it two ways.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedBase
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.reader import ReaderError
from ruamel.yaml.scalarbool import ScalarBoolean

from controller.errors import SiteFileError

MAX_FILE_BYTES = 4 * 2**20
"""A site of a thousand nodes is below 1 MB."""

MAX_VALUES = 200_000
"""More values than any file of that size holds, unless it multiplies them by referring to itself."""

Place = Sequence[str | int]
"""A path of keys and indices from the top of the file."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong at a place of the file, and what to do."""

    place: Place
    problem: str
    remedy: str


class SeveralSiteFileErrors(SiteFileError):  # noqa: N818  it is several
    """Everything that is wrong with a site file, in the order of its lines; itself the first of them."""

    def __init__(self, errors: Sequence[SiteFileError]) -> None:
        first = errors[0]
        super().__init__(first.path, first.line, first.problem, first.remedy)
        self.errors = tuple(errors)
        self.args = ("\n".join(str(error) for error in errors),)


@dataclass(frozen=True, slots=True)
class YamlFile:
    """A file's plain values, and where they stand."""

    path: Path
    values: dict[str, Any]
    tree: Any

    def line(self, place: Place) -> int:
        """Return the line, from 1, of the deepest part of ``place`` that is in the file."""
        line, node = 1, self.tree
        for step in place:
            if not isinstance(node, CommentedBase):
                break
            position = node.lc.data or {}
            if step not in position:
                break
            line = position[step][0] + 1
            node = node[step]  # type: ignore[index]
        return line

    def raise_problems(self, problems: Sequence[Problem]) -> None:
        """Return if there are none.

        Raises:
            SiteFileError: all of them, in the order of the lines.
        """
        errors = sorted(
            (SiteFileError(self.path, self.line(each.place), each.problem, each.remedy) for each in problems),
            key=lambda error: error.line or 0,
        )
        if len(errors) == 1:
            raise errors[0]
        if errors:
            raise SeveralSiteFileErrors(errors)


def read_file(path: Path) -> bytes:
    """Return the content of ``path``.

    Raises:
        SiteFileError: it cannot be read.
    """
    try:
        with path.open("rb") as file:
            return file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        remedy = "Name the site file: as argument, with --site, in WEIGHBRIDGE_SITE, or put it at ./site.yaml"
        raise SiteFileError(path, None, f"cannot read the site file ({error.strerror})", remedy) from error


def parse(content: bytes, path: Path) -> YamlFile:
    """Return what ``content``, from ``path``, says.

    Raises:
        SiteFileError: not YAML, or more than plain values.
    """
    if len(content) > MAX_FILE_BYTES:
        raise SiteFileError(path, None, f"has more than {MAX_FILE_BYTES} bytes", "Is this the site file?")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise SiteFileError(path, line, "is not UTF-8 text", "Save the file as UTF-8") from error
    reader = YAML(typ="rt")
    reader.allow_duplicate_keys = False
    try:
        tree = reader.load(io.StringIO(text))
    except MarkedYAMLError as error:
        raise _in_words(path, error) from error
    except ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise SiteFileError(
            path, line, f"holds a character YAML does not allow ({error.reason})", "Remove it"
        ) from error
    except (YAMLError, ValueError, IndexError, RecursionError) as error:  # IndexError: a lone sign with underscores
        raise SiteFileError(path, None, f"is not YAML that can be read ({error})", "Correct it") from error
    if not isinstance(tree, dict):
        what = "is empty" if tree is None else "is not a mapping of keys"
        raise SiteFileError(path, 1, f"the site file {what}", "Begin with `version: 1`; see the site file's reference")
    return YamlFile(path, _Plain(path).mapping(tree, 1), tree)


def _in_words(path: Path, error: MarkedYAMLError) -> SiteFileError:
    mark = error.problem_mark or error.context_mark
    line = None if mark is None else mark.line + 1
    problem = str(error.problem or error.context or "not YAML").split("\n", maxsplit=1)[0]
    if "found duplicate key" in problem:
        key = problem.split('"')[1]
        return SiteFileError(path, line, f"the key `{key}` stands twice in one mapping", "Keep one of them")
    return SiteFileError(path, line, f"is not YAML: {problem}", "Check indentation, quotes and colons around this line")


class _Plain:
    """Turns the reader's values into plain ones, or says which one cannot be."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen = 0

    def mapping(self, node: dict[Any, Any], line: int) -> dict[str, Any]:
        plain = {}
        for key, value in node.items():
            at = self._line(node, key, line)
            if not isinstance(key, str):
                raise SiteFileError(self._path, at, f"the key {key!r} is not text", "Put it in quotes")
            plain[str(key)] = self._value(value, at)
        return plain

    def _value(self, node: Any, line: int) -> Any:
        self._seen += 1
        if self._seen > MAX_VALUES:
            problem = f"the file has more than {MAX_VALUES} values"
            raise SiteFileError(self._path, line, problem, "Anchors (`&`, `*`) multiply them: write the values out")
        if isinstance(node, dict):
            return self.mapping(node, line)
        if isinstance(node, list):
            return [self._value(item, self._line(node, index, line)) for index, item in enumerate(node)]
        if node is None or isinstance(node, bool):
            return node
        if isinstance(node, ScalarBoolean):  # an int to Python: a boolean with an anchor
            return bool(node)
        for kind in (str, int, float):
            if isinstance(node, kind):
                return kind(node)
        raise SiteFileError(
            self._path, line, f"`{node}` is neither text, number, list nor mapping", "Put it in quotes if it is text"
        )

    @staticmethod
    def _line(node: Any, key: Any, otherwise: int) -> int:
        position = (node.lc.data or {}).get(key) if isinstance(node, CommentedBase) else None
        return otherwise if position is None else int(position[0]) + 1
