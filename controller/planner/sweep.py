"""Sweeps: one or two parameters over a range, everything else as given."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from controller.planner.marks import PlanError
from controller.planner.plot import Line, draw
from controller.planner.quantities import LATENCY, RATE, SECONDS, SIZE, Quantity, read
from controller.planner.training import PARAMETERS as TRAINING
from controller.planner.training import TrainingPlan, plan_training
from protos.units import format_bytes, format_rate

MOST_LINES = 6
POINTS = 13
MOST_POINTS = 10_000
_FORM = re.compile(r"(?P<name>[a-z-]+)=(?P<rest>.+)")


@dataclass(frozen=True, slots=True)
class Sweep:
    """A parameter and the texts that it takes, in order, with their values."""

    name: str
    texts: tuple[str, ...]
    values: tuple[float, ...]
    logarithmic: bool


def parse_sweep(text: str, known: Mapping[str, Quantity | None]) -> Sweep:
    """Return the sweep of ``NAME=FROM:TO:log[:POINTS]`` or ``:lin``; or of the words ``NAME=one,two``.

    Raises:
        PlanError: it cannot be read; the message has the form.
    """
    match = _FORM.fullmatch(text.strip())
    if match is None or match["name"] not in known:
        raise PlanError(f"--sweep: {text!r} names no parameter. Write `--sweep limit=100kB/s:100MB/s:log`")
    name, quantity = match["name"], known[match["name"]]
    if quantity is None:
        words = tuple(match["rest"].split(","))
        return Sweep(name, words, tuple(float(at) for at in range(len(words))), logarithmic=False)
    parts = match["rest"].split(":")
    if len(parts) not in {3, 4} or parts[2] not in {"log", "lin"}:
        raise PlanError(f"--sweep: {text!r} is no range. Write `--sweep {name}=FROM:TO:log`, or `:lin`, or `:log:25`")
    low, high = read(quantity, name, parts[0]), read(quantity, name, parts[1])
    count = POINTS if len(parts) == 3 else _points(parts[3])
    if not low < high:
        raise PlanError(f"--sweep: {text!r} does not rise. Write the smaller end first")
    if parts[2] == "log" and low <= 0:
        raise PlanError(f"--sweep: {text!r}: a logarithm has no zero. Begin above it, or use `:lin`")
    texts: dict[str, float] = {}
    for at in range(count):
        value = _between(low, high, Fraction(at, count - 1), logarithmic=parts[2] == "log")
        written = quantity.write(value)
        texts[written] = float(read(quantity, name, written))
    return Sweep(name, tuple(texts), tuple(texts.values()), logarithmic=parts[2] == "log")


def _points(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 6 and 2 <= int(text) <= MOST_POINTS):
        raise PlanError(f"--sweep: {text!r} is no number of points from 2 to {MOST_POINTS}")
    return int(text)


def _between(low: Fraction, high: Fraction, share: Fraction, *, logarithmic: bool) -> Fraction:
    if share in {0, 1}:
        return high if share else low
    if not logarithmic:
        return low + (high - low) * share
    return Fraction(math.exp(math.log(low) + (math.log(high) - math.log(low)) * float(share)))


def points(given: Mapping[str, str], sweeps: tuple[Sweep, ...]) -> Iterator[tuple[dict[str, str], tuple[float, ...]]]:
    """Yield the parameters of every point, the last sweep the fastest, and the swept values."""
    if not sweeps:
        yield dict(given), ()
        return
    first, rest = sweeps[0], sweeps[1:]
    for text, value in zip(first.texts, first.values, strict=True):
        for settings, values in points({**given, first.name: text}, rest):
            yield settings, (value, *values)


@dataclass(frozen=True, slots=True)
class Swept:
    """A sweep's points in order: the swept values as texts and numbers, and the plan at each."""

    sweeps: tuple[Sweep, ...]
    texts: tuple[tuple[str, ...], ...]
    values: tuple[tuple[float, ...], ...]
    plans: tuple[TrainingPlan, ...]

    def drawing(self) -> str:
        """Return the plot: slowdowns over the first parameter; with a second one, overlapped, a line a value of it.

        Raises:
            PlanError: there is no axis to draw along, or more lines than can be told apart.
        """
        along = self.sweeps[0]
        if len(along.values) < 2 or not any(along.values):
            raise PlanError(f"--plot: {along.name} has too few values to draw along. Sweep a quantity first")
        if TRAINING[along.name] is None:
            raise PlanError(f"--plot: {along.name} is no quantity to draw along. Sweep it second")
        lines: list[Line] = []
        if len(self.sweeps) == 1:
            lines.append(Line("blocking", self._line(None, blocking=True)))
            lines.append(Line("overlapped", self._line(None, blocking=False)))
        else:
            other = self.sweeps[1]
            if len(other.texts) > MOST_LINES:
                raise PlanError(f"--plot: {len(other.texts)} lines cannot be told apart. Sweep {MOST_LINES} values")
            lines += [Line(self._named(other, text), self._line(text, blocking=False)) for text in other.texts]
        kind = (
            "each as overlapped with computing" if len(self.sweeps) > 1 else "overlapped with computing, and blocking"
        )
        return draw(
            lines,
            title=f"What {along.name} does to {self.plans[0].method}",
            note=f"Times slower than without a limit, {kind}. 1 is not slowed at all.",
            x_name=along.name,
            y_name="times slower",
            x_text=lambda value: _tick(along.name, value),
        )

    @staticmethod
    def _named(sweep: Sweep, text: str) -> str:
        quantity = TRAINING[sweep.name]
        return (
            f"{sweep.name} {text if quantity is None else _tick(sweep.name, float(read(quantity, sweep.name, text)))}"
        )

    def rows(self) -> list[list[str]]:
        """Return the swept values as people read them, a row a point."""
        return [
            [
                text if TRAINING[each.name] is None else _tick(each.name, value)
                for each, text, value in zip(self.sweeps, texts, values, strict=True)
            ]
            for texts, values in zip(self.texts, self.values, strict=True)
        ]

    def _line(self, second: str | None, *, blocking: bool) -> tuple[tuple[float, float], ...]:
        return tuple(
            (values[0], float(plan.slowdown.blocking if blocking else plan.slowdown.overlapped))
            for texts, values, plan in zip(self.texts, self.values, self.plans, strict=True)
            if second is None or texts[1] == second
        )


def _tick(name: str, value: float) -> str:
    quantity = TRAINING[name]
    if quantity is RATE:
        return format_rate(value)
    if quantity is SIZE:
        return format_bytes(round(value))
    return f"{value:.10g} s" if quantity in {SECONDS, LATENCY} else f"{value:,.6g}"


def swept_training(given: Mapping[str, str], texts: Sequence[str]) -> Swept:
    """Return the plans of every point of one or two sweeps.

    Raises:
        PlanError: a sweep or a point of it is impossible.
    """
    if len(texts) > 2:
        raise PlanError("--sweep: more than two parameters at once cannot be read. Sweep two")
    sweeps = tuple(parse_sweep(text, TRAINING) for text in texts)
    names = [each.name for each in sweeps]
    if len(set(names)) < len(names):
        raise PlanError(f"--sweep: {names[0]} is swept twice. Sweep it once")
    if math.prod(len(each.texts) for each in sweeps) > MOST_POINTS:
        raise PlanError(f"--sweep: more than {MOST_POINTS} points. Ask for fewer")
    for name in names:
        if name in given:
            raise PlanError(f"--sweep: {name} is given and swept. Leave out --{name}")
    found = [(settings, values, plan_training(settings)) for settings, values in points(given, sweeps)]
    return Swept(
        sweeps,
        tuple(tuple(settings[name] for name in names) for settings, _, _ in found),
        tuple(values for _, values, _ in found),
        tuple(plan for _, _, plan in found),
    )
