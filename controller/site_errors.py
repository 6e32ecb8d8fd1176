"""Turns what pydantic found wrong with a site file into problems a person can act on.

A problem says which key of which element is wrong and what to write: the field's own description and example, or
the key that was probably meant.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from controller.site import did_you_mean
from controller.site_schema import SiteSection
from controller.site_yaml import Place, Problem

_EXPECTED = {
    "model_type": "a mapping of keys",
    "list_type": "a list",
    "int_type": "a whole number",
    "float_type": "a number",
    "bool_type": "`true` or `false`",
}
"""What pydantic's names of types mean to a person."""


def problems(error: ValidationError, values: Mapping[str, Any]) -> list[Problem]:
    """Return one problem for each thing ``error`` found in ``values``."""
    return [_problem(detail, values) for detail in error.errors(include_url=False)]


def _problem(detail: ErrorDetails, values: Mapping[str, Any]) -> Problem:
    kind = detail["type"]
    place = _real_place(detail["loc"], values, missing=kind == "missing")
    where = describe(place, values)
    if kind == "site_file":
        return Problem(place, f"{where}: {detail['ctx']['problem']}", detail["ctx"]["remedy"])
    if kind == "missing":
        return _missing(place, where)
    if kind == "extra_forbidden":
        return _unknown_key(place, where)
    if kind == "literal_error":
        return Problem(place, f"{where}: `{detail['input']}` is not known", f"Write {detail['ctx']['expected']}")
    if kind in _EXPECTED:
        return Problem(place, f"{where}: {_EXPECTED[kind]} is expected here", _write_it_like(place))
    return Problem(place, f"{where}: {detail['msg'][:1].lower()}{detail['msg'][1:]}", _write_it_like(place))


def _real_place(location: tuple[int | str, ...], values: Any, *, missing: bool) -> Place:
    """Return ``location`` without the steps that are pydantic's own (tags of unions)."""
    place: list[int | str] = []
    for number, step in enumerate(location):
        inside = (isinstance(values, dict) and step in values) or (
            isinstance(values, list) and isinstance(step, int) and step < len(values)
        )
        if inside:
            place.append(step)
            values = values[step]
        elif number == len(location) - 1 and missing:
            place.append(step)
    return tuple(place)


def describe(place: Place, values: Any) -> str:
    """Return ``place`` in words: keys, and for elements of lists their names: ``nodes: node1: dpus: #2: agent``."""
    words: list[str] = []
    for step in place:
        values = _inside(values, step)
        if isinstance(step, int):
            name = values.get("name", values.get("port")) if isinstance(values, dict) else None
            words.append(name if isinstance(name, str) else f"#{step + 1}")
        else:
            words.append(step)
    return ": ".join(words) if words else "the file"


def _inside(values: Any, step: int | str) -> Any:
    """Return what is at ``step`` of ``values``, or None."""
    if isinstance(values, dict):
        return values.get(step)
    if isinstance(values, list) and isinstance(step, int) and step < len(values):
        return values[step]
    return None


def _missing(place: Place, where: str) -> Problem:
    key = str(place[-1])
    field = _field(place)
    what = f" ({field.description})" if field is not None and field.description else ""
    upper = where.rpartition(": ")[0] or "the file"
    if len(place) == 3 and place[0] == "links" and key in ("switch", "port"):
        return Problem(
            place,
            f"{upper}: the link names no switch port: `{key}`{what} is missing",
            f"Add {_line_like(place)}: every link ends on a port that the switch counts",
        )
    return Problem(place, f"{upper}: `{key}`{what} is missing", f"Add {_line_like(place)}")


def _unknown_key(place: Place, where: str) -> Problem:
    upper = where.rpartition(": ")[0]
    model = _model(place[:-1])
    known = [] if model is None else list(model.model_fields)
    return Problem(
        place, f"unknown key `{place[-1]}`" + (f" in {upper}" if upper else ""), did_you_mean(str(place[-1]), known)
    )


def _line_like(place: Place) -> str:
    field = _field(place)
    example = f" {field.examples[0]}" if field is not None and field.examples else " ..."
    return f"`{place[-1]}:{example}`"


def _write_it_like(place: Place) -> str:
    named = [step for step in place if isinstance(step, str)]
    return (
        f"Write it like {_line_like(named)}"
        if named and _field(place) is not None
        else "See the site file's reference."
    )


def _field(place: Place) -> FieldInfo | None:
    while place and isinstance(place[-1], int):
        place = place[:-1]
    model = _model(place[:-1]) if place else None
    return None if model is None else model.model_fields.get(str(place[-1]))


def _model(place: Place) -> type[BaseModel] | None:
    """Return the section at ``place``; where several are possible, the one that knows most (SNMPv3)."""
    model: type[BaseModel] | None = SiteSection
    for step in place:
        if isinstance(step, int):
            continue
        field = None if model is None else model.model_fields.get(step)
        model = None if field is None else _model_in(field.annotation)
    return model


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if typing.get_origin(annotation) in (list, Annotated, typing.Union, types.UnionType):
        for argument in typing.get_args(annotation):
            found = _model_in(argument)
            if found is not None:
                return found
    return None
