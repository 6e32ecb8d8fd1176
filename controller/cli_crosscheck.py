"""``weighbridge crosscheck``: who saw what on each link, which laws and limits hold, and the verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from controller.cli_judged import Asked, from_journal, now_ns
from controller.cli_options import SITE_FILE, SiteFile
from controller.cli_period import parse_period
from controller.cli_results import Format, Writing, print_result
from controller.errors import OperatorError
from protos.units import UnitError, parse_duration_ns

if TYPE_CHECKING:  # the command is parsed, and refused where it is wrong, before what it needs is loaded
    from controller.crosscheck.model import CrossCheck, SiteEvidence
    from controller.judgement import Judged
    from controller.selection import Selection

LONGEST_LINE_BYTES = 1 << 16
"""A file without line feeds is not read into memory whole."""

app = typer.Typer()


@app.command()
def crosscheck(  # noqa: PLR0917  typer reads options from the signature
    site_file: SiteFile = SITE_FILE,
    last: Annotated[
        str | None, typer.Option("--last", metavar="DURATION", help="The last 5m, 1h30m...; 5m if no period is given.")
    ] = None,
    start: Annotated[
        str | None,
        typer.Option("--from", metavar="TIME", help="Begin: UTC like 2026-11-30T21:00:00Z, or -5m before now."),
    ] = None,
    end: Annotated[str | None, typer.Option("--to", metavar="TIME", help="End, as --from; or `now`.")] = None,
    start_ns: Annotated[
        int | None, typer.Option("--from-ns", metavar="NS", help="Begin, in nanoseconds of the readings' timeline.")
    ] = None,
    end_ns: Annotated[int | None, typer.Option("--to-ns", metavar="NS", help="End, as --from-ns.")] = None,
    links: Annotated[
        list[str] | None, typer.Option("--link", metavar="LINK", help="Only this link; may be given more than once.")
    ] = None,
    pods: Annotated[
        list[str] | None,
        typer.Option("--pod", metavar="POD", help="Only links of this pod; more than once, if wanted."),
    ] = None,
    window: Annotated[
        str | None, typer.Option("--window", metavar="DURATION", help="Of the limits, only those of this window.")
    ] = None,
    readings: Annotated[
        Path | None,
        typer.Option("--readings", metavar="FILE.jsonl", help="Judge readings in a file, one JSON object a line."),
    ] = None,
    limits: Annotated[
        list[str] | None,
        typer.Option("--limit", metavar="WINDOW:BYTES", help="With --readings: a limit, for example 300s:300MB."),
    ] = None,
    line_rates: Annotated[
        list[str] | None,
        typer.Option("--line-rate", metavar="LINK=RATE", help="With --readings: what a link's cable carries."),
    ] = None,
    in_flight: Annotated[
        str | None,
        typer.Option("--in-flight", metavar="BYTES", help="With --readings: most bytes between neighbours; 0 if none."),
    ] = None,
    assumed: Annotated[
        list[str] | None,
        typer.Option("--assume", metavar="NAME=VALUE", help="With --readings: as in a site file's `assumptions`."),
    ] = None,
    form: Annotated[
        Format, typer.Option("--format", metavar="FORMAT", help="How to print the result: table, json, csv or html.")
    ] = Format.TABLE,
    as_json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write to FILE instead of standard output.")
    ] = None,
) -> None:
    """Test what the observers say against each other and against the limits, over all windows of a period.

    A period that ends now ends where every observer has looked, a few seconds ago. The site file in force then counts,
    as the journal has it; where it changed, the period is judged in parts. With --readings neither a site file nor a
    journal is needed.

    Exit code 0: compliant; 1: violation; 3: inconclusive.
    """
    from controller.judgement import EXIT_CODES, worst  # noqa: PLC0415  see above
    from controller.selection import Selection  # noqa: PLC0415

    wanted = Selection(tuple(links or ()), tuple(pods or ()), _window(window))
    asked = Asked(last, start, end, start_ns, end_ns)
    told = _Told(tuple(limits or ()), tuple(line_rates or ()), in_flight, tuple(assumed or ()))
    parts: Sequence[Judged]
    if readings is not None:
        parts, writing = _from_file(readings, asked, told)
    else:
        if told != _Told():
            raise OperatorError(
                "--limit, --line-rate, --in-flight and --assume go with --readings: a site file has them"
            )
        parts, writing = from_journal(site_file, asked)
    parts = [_selected(part, wanted) for part in parts]
    print_result(parts, Format.JSON if as_json else form, output, writing)
    raise typer.Exit(EXIT_CODES[worst(parts)])


@dataclass(frozen=True, slots=True)
class _Told:
    """The options that say what a site file would."""

    limits: tuple[str, ...] = ()
    line_rates: tuple[str, ...] = ()
    in_flight: str | None = None
    assumed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Result:
    """What was found, and what it was found in."""

    evidence: SiteEvidence
    result: CrossCheck


def _window(text: str | None) -> int | None:
    try:
        return None if text is None else parse_duration_ns(text)
    except UnitError as error:
        raise OperatorError(f"--window: {error}") from error


def _selected(part: Judged, wanted: Selection) -> Judged:
    from controller.selection import select, select_evidence  # noqa: PLC0415

    if wanted.everything:
        return part
    kept = select(part.result, wanted)
    return _Result(select_evidence(part.evidence, kept), kept)


def _from_file(path: Path, asked: Asked, options: _Told) -> tuple[list[Judged], Writing]:
    from controller.crosscheck.check import crosscheck as check  # noqa: PLC0415
    from controller.observations.offline import Told, evidence_of, read_lines  # noqa: PLC0415
    from controller.told import parse_assumptions, parse_limit, parse_line_rates  # noqa: PLC0415

    period = asked.exact
    if period is None:
        if asked.last is not None or asked.start is None or asked.end is None:
            raise OperatorError("--readings needs a period of its own: give --from-ns and --to-ns, or --from and --to")
        period = parse_period(last=None, start=asked.start, end=asked.end, now_ns=now_ns())
    assumptions, liars = parse_assumptions(options.assumed, options.in_flight)
    rates = parse_line_rates(options.line_rates)
    told = Told(period, tuple(dict.fromkeys(map(parse_limit, options.limits))), assumptions, liars, rates)
    try:
        with open(0 if path == Path("-") else path, "rb", closefd=path != Path("-")) as file:
            lines = read_lines(iter(lambda: file.readline(LONGEST_LINE_BYTES), b""), str(path))
    except OSError as error:
        raise OperatorError(f"{path}: cannot be read ({error.strerror}). Give a file of readings.") from error
    evidence = evidence_of(lines, told, path.name)
    typer.echo(f"note: the verdict is about {evidence.scope}", err=True)
    return [_Result(evidence, check(evidence))], Writing(now_ns(), None)
