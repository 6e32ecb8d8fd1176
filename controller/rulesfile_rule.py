"""One rule of a rules file: which keys each kind takes, and what becomes of them.

==========  ===========================================  ============================================================
kind        keys of its own                              exceeded when
==========  ===========================================  ============================================================
rate        window or windows, rate                      the mean over a window is above ``rate``
volume      window, bytes; or windows, a list of such    a window holds more than ``bytes``
packets     window, packets; or windows                  a window holds more than ``packets``
burst       bytes, rate                                  a bucket that drains at ``rate`` holds more than ``bytes``
budget      rate, windows, levels                        every window holds a level's share of what ``rate`` gives it
absence     for                                          an agent or a switch was not heard of for so long
==========  ===========================================  ============================================================

All take ``name``, ``kind``, ``severity`` (not budget, whose levels are severities) and ``text``; all but absence also
``scope``, ``classes``, ``for`` and ``load_windows``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

from controller.rules.finding import Kind, Severity
from controller.rules.rule import Bound, Measure, Rule, Scope, share_of
from controller.site_yaml import Place
from controller.strictreader import StrictReader
from protos.buckets import CLASSES, TrafficClass
from protos.units import NS_PER_S, UnitError, parse_bytes, parse_duration_ns, parse_rate

LONGEST_WINDOW_NS = 31 * 86_400 * NS_PER_S
_COMMON = ("name", "kind", "text")
_SUMMED = ("scope", "classes", "for", "load_windows")
_KEYS: dict[str, tuple[str, ...]] = {
    "rate": ("severity", *_SUMMED, "window", "windows", "rate"),
    "volume": ("severity", *_SUMMED, "window", "windows", "bytes"),
    "packets": ("severity", *_SUMMED, "window", "windows", "packets"),
    "burst": ("severity", *_SUMMED, "bytes", "rate"),
    "budget": (*_SUMMED, "rate", "windows", "levels"),
    "absence": ("severity", "for"),
}
_FINDINGS = {
    "rate": Kind.RATE_OVER_WINDOW,
    "volume": Kind.VOLUME_OVER_WINDOW,
    "packets": Kind.PACKETS_OVER_WINDOW,
    "burst": Kind.BURST,
    "budget": Kind.BUDGET_BURN,
    "absence": Kind.TELEMETRY_ABSENT,
}
_SEVERITIES = tuple(each.value for each in Severity)
_TITLES = {each.title: each for each in CLASSES}


class RuleReader:
    """Reads rules; problems go to the file's reader."""

    def __init__(self, reader: StrictReader) -> None:
        self._reader = reader

    def rules(self, place: Place, found: Any) -> list[Rule]:
        """Return what one entry of the list asks for: a rule, of a budget one a level; none if something is wrong."""
        reader, before = self._reader, len(self._reader.problems)
        kind = found.get("kind", "volume") if isinstance(found, dict) else "volume"
        kind = reader.choice((*place, "kind"), kind, tuple(_KEYS), "kind of rule")
        section = reader.section(place, found, (*_COMMON, *_KEYS[kind]))
        self._need(place, section, ("name", "kind"))
        severity = Severity(
            reader.choice((*place, "severity"), section.get("severity", "page"), _SEVERITIES, "severity")
        )
        rule = Rule(
            name=reader.name((*place, "name"), section.get("name", "x")),
            kind=_FINDINGS[kind],
            scope=Scope(
                reader.choice(
                    (*place, "scope"), section.get("scope", "node"), tuple(each.value for each in Scope), "scope"
                )
            ),
            measure=Measure.PACKETS if kind == "packets" else Measure.BYTES,
            classes=self._classes((*place, "classes"), section.get("classes", [])),
            severity=severity,
            for_ns=self._duration((*place, "for"), section["for"]) if "for" in section else 0,
            with_loads=reader.choice(
                (*place, "load_windows"),
                section.get("load_windows", "exempt"),
                ("exempt", "counted"),
                "way to count loads",
            )
            == "counted",
            text=reader.text((*place, "text"), section.get("text", "")),
        )
        made = getattr(self, f"_{kind}")(place, section, rule)
        if rule.scope is Scope.PAIR and (rule.measure is Measure.PACKETS or rule.classes):
            reader.wrong((*place, "scope"), "of a pair only bytes of all classes are counted", "Leave that out")
        return made if len(reader.problems) == before else []

    def _need(self, place: Place, section: dict[str, Any], keys: tuple[str, ...]) -> bool:
        missing = [key for key in keys if key not in section]
        for key in missing:
            self._reader.wrong(place, f"the rule has no `{key}`", f"Add `{key}:`")
        return not missing

    def _duration(self, place: Place, found: Any) -> int:
        length = self._reader.quantity(place, found, parse_duration_ns, "5min")
        if length > LONGEST_WINDOW_NS:
            self._reader.wrong(place, f"`{found}` is longer than 31 days", "Use a shorter one")
            return NS_PER_S
        return length

    def _classes(self, place: Place, found: Any) -> tuple[TrafficClass, ...]:
        if not isinstance(found, list):
            self._reader.wrong(place, "a list of traffic classes is expected", f"Known: {', '.join(_TITLES)}")
            return ()
        titles = [
            self._reader.choice((*place, at), each, tuple(_TITLES), "traffic class") for at, each in enumerate(found)
        ]
        return tuple(sorted({_TITLES[title] for title in titles}))

    # ------------------------------------------------------------ kinds, each by its name

    def _rate(self, place: Place, section: dict[str, Any], rule: Rule) -> list[Rule]:
        if not self._need(place, section, ("rate",)):
            return []
        rate = self._rate_of((*place, "rate"), section["rate"])
        lengths = self._lengths(place, section)
        return [replace(rule, bounds=tuple(Bound(each, int(rate * each / NS_PER_S)) for each in lengths))]

    def _volume(self, place: Place, section: dict[str, Any], rule: Rule) -> list[Rule]:
        return self._counted(place, section, rule, "bytes", parse_bytes, "300MB")

    def _packets(self, place: Place, section: dict[str, Any], rule: Rule) -> list[Rule]:
        return self._counted(place, section, rule, "packets", None, "1000000")

    def _burst(self, place: Place, section: dict[str, Any], rule: Rule) -> list[Rule]:
        if not self._need(place, section, ("bytes", "rate")):
            return []
        depth = self._reader.quantity((*place, "bytes"), section["bytes"], parse_bytes, "150MB")
        rate = max(1, int(self._rate_of((*place, "rate"), section["rate"])))
        window_ns = min(LONGEST_WINDOW_NS, max(NS_PER_S, depth * NS_PER_S // rate))
        return [replace(rule, bounds=(Bound(window_ns, depth),), drain_bytes_per_s=rate)]

    def _budget(self, place: Place, section: dict[str, Any], rule: Rule) -> list[Rule]:
        if not self._need(place, section, ("rate", "windows", "levels")):
            return []
        rate = self._rate_of((*place, "rate"), section["rate"])
        lengths = self._lengths(place, section)
        levels = self._reader.section((*place, "levels"), section["levels"], _SEVERITIES)
        if not levels:
            self._reader.wrong((*place, "levels"), "there is no level", "Write `levels: {warning: 0.8, page: 1.0}`")
        made = []
        for name, found in levels.items():
            level = self._reader.number((*place, "levels", name), found, 0.0, 1000.0)
            bounds = tuple(Bound(each, share_of(level, float(rate * each / NS_PER_S))) for each in lengths)
            made.append(
                replace(rule, name=f"{rule.name}-{name}", severity=Severity(name), bounds=bounds, all_bounds=True)
            )
        return made

    def _absence(self, place: Place, section: dict[str, Any], rule: Rule) -> list[Rule]:
        return [rule] if self._need(place, section, ("for",)) else []

    # ------------------------------------------------------------ windows

    def _rate_of(self, place: Place, found: Any) -> Fraction:
        """Return bytes a second, exactly: 2 GB an hour are no whole number of them."""
        self._reader.quantity(place, found, _positive_rate, "1MB/s")
        try:
            return parse_rate(found) if isinstance(found, str) else Fraction(1)
        except UnitError:
            return Fraction(1)  # noted above

    def _lengths(self, place: Place, section: dict[str, Any]) -> list[int]:
        if ("window" in section) == ("windows" in section):
            self._reader.wrong(place, "either `window` or `windows` is expected", "Write for example `window: 5min`")
            return [NS_PER_S]
        if "window" in section:
            return [self._duration((*place, "window"), section["window"])]
        found = section["windows"]
        if not isinstance(found, list) or not found:
            self._reader.wrong((*place, "windows"), "a list of durations is expected", "Write `windows: [1h, 5min]`")
            return [NS_PER_S]
        return [self._duration((*place, "windows", at), each) for at, each in enumerate(found)]

    def _counted(  # noqa: PLR0917  what the two kinds differ in
        self,
        place: Place,
        section: dict[str, Any],
        rule: Rule,
        key: str,
        parse: Callable[[str], int] | None,
        example: str,
    ) -> list[Rule]:
        """Return a rule over one window, or over a list of windows, each with its own most."""
        if "windows" not in section:
            parts = [(place, section)] if self._need(place, section, ("window", key)) else []
        elif not isinstance(section["windows"], list) or not section["windows"]:
            remedy = f"Write `windows: [{{window: 5min, {key}: {example}}}, ...]`"
            self._reader.wrong((*place, "windows"), "a list of windows is expected", remedy)
            return []
        else:
            for other in ("window", key):
                if other in section:
                    self._reader.wrong((*place, other), f"`{other}` stands beside `windows`", "Keep one of them")
            places: list[Place] = [(*place, "windows", at) for at in range(len(section["windows"]))]
            found = zip(places, section["windows"], strict=True)
            parts = [(at, self._reader.section(at, each, ("window", key))) for at, each in found]
            parts = [(at, each) for at, each in parts if self._need(at, each, ("window", key))]
        bounds = []
        for at, each in parts:
            window_ns = self._duration((*at, "window"), each["window"])
            most = each[key]
            if parse is not None:
                most = self._reader.quantity((*at, key), most, parse, example)
            elif isinstance(most, bool) or not isinstance(most, int) or most < 1:
                self._reader.wrong((*at, key), f"`{most}` is no number of {key}", f"Write it like `{example}`")
                most = 1
            bounds.append(Bound(window_ns, most))
        return [replace(rule, bounds=tuple(bounds))]


def _positive_rate(text: str) -> int:
    return 1 if parse_rate(text) > 0 else 0
