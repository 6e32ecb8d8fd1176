"""``weighbridge rules``: what recorded traffic resembles, and which rules it breaks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from controller.cli_options import SITE_FILE, AsJson, SiteFile, counted
from controller.errors import OperatorError

app = typer.Typer(no_args_is_help=True, help="Rules and shapes: what traffic exceeds, and what it looks like.")

RulesFile = Annotated[
    Path | None,
    typer.Option("--rules", metavar="RULES.yaml", help="The rules file; the defaults if none is given."),
]


@app.command()
def replay(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Recorded series.")],
    rules_file: RulesFile = None,
    window: Annotated[
        str | None,
        typer.Option(
            "--rate-window",
            metavar="DURATION",
            help="The rates in the files are averages over so long, `0s` for none. Else as the name of a series says "
            "([5m]); else 5 minutes for rates with a unit.",
        ),
    ] = None,
    counter: Annotated[
        bool | None,
        typer.Option("--counters/--rates", help="What the values are; else told by units, names and values."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say what recorded series resemble, and what the rules and detectors find in them.

    Takes Grafana CSV exports, plain CSV (a header, a time, values in bytes per second or counters), the JSON answer of
    Prometheus to query_range, and OpenMetrics text with timestamps; a file of any length.

    Exit code 0: nothing that is an alarm; 1: something is.
    """
    from controller.replay.answer import answer  # noqa: PLC0415  the command is parsed before numpy is loaded
    from controller.replay.record import read_record  # noqa: PLC0415
    from controller.rulesfile import load_rules  # noqa: PLC0415
    from protos.units import UnitError, parse_duration_ns  # noqa: PLC0415

    rules = load_rules(rules_file)
    try:
        window_ns = None if window is None else parse_duration_ns(window)
    except UnitError as error:
        raise OperatorError(f"--rate-window: {error}") from error
    records = [read_record(path, window_ns=window_ns, counter=counter) for path in files]
    found = answer(records, rules.shape, rules.limits)
    _say(found, as_json=as_json)


def _say(found: dict[str, Any], *, as_json: bool) -> None:
    """Print the answer; end with 1 if something in it is an alarm."""
    from controller.replay.answer import lines  # noqa: PLC0415  see above

    for note in found["notes"]:
        for text in note["notes"]:
            typer.echo(f"note: {note['file']}: {text}", err=True)
    if as_json:
        typer.echo(json.dumps(found, ensure_ascii=False, indent=2))
    else:
        for line in lines(found):
            typer.echo(line)
    said = [
        *found.get("findings", ()),
        *found["together"],
        *(each for one in found["series"] for each in one["findings"]),
    ]
    alarms = any(each["alarm"] for each in said)
    raise typer.Exit(1 if alarms else 0)


@app.command()
def history(
    site_file: SiteFile = SITE_FILE,
    rules_file: RulesFile = None,
    last: Annotated[str, typer.Option("--last", metavar="DURATION", help="How far to look back.")] = "6h",
    as_json: AsJson = False,
) -> None:
    """Say what rules and detectors find in the journal, and what the traffic of each link in it resembles.

    What is found is what `run` found, or would have found with these rules: the same code looks at the same entries. It
    is what the DPUs' uplinks counted. Proof that a limit was exceeded is `crosscheck`'s to give.

    Exit code 0: nothing that is an alarm; 1: something is; 3: no readings.
    """
    from controller.cli_period import parse_period  # noqa: PLC0415  see above
    from controller.journal import Journal  # noqa: PLC0415
    from controller.judgement import in_force  # noqa: PLC0415
    from controller.observations.gather import links  # noqa: PLC0415
    from controller.replay.answer import answer, told_finding  # noqa: PLC0415
    from controller.replay.record import Record  # noqa: PLC0415
    from controller.rules_history import evaluated, flows  # noqa: PLC0415
    from controller.rulesfile import load_rules  # noqa: PLC0415
    from controller.site import load  # noqa: PLC0415
    from controller.timeline import Timeline  # noqa: PLC0415

    rules = load_rules(rules_file)
    site = load(site_file, secrets=False)
    with Journal.open(site.controller.journal, read_only=True) as journal:
        period = parse_period(last=last, start=None, end=None, now_ns=Timeline.view(journal).now_ns())
        judged = in_force(journal)
        found = flows(links(journal, judged, period), period)
        told = evaluated(journal, judged, rules, period)
    if not found and not told:
        typer.echo(f"no DPU's uplink has two readings of one epoch in the last {last}", err=True)
        raise typer.Exit(3)
    said = answer([Record(site.controller.journal, tuple(found), ())], rules.shape, ())
    said["findings"] = [told_finding(each.finding, each.resolved_ns) for each in told]
    _say(said, as_json=as_json)


@app.command()
def check(rules_file: Annotated[Path, typer.Argument(metavar="RULES.yaml", help="The rules file.")]) -> None:
    """Check a rules file: every error with its line and its remedy."""
    from controller.rulesfile import load_rules  # noqa: PLC0415  see above

    rules = load_rules(rules_file)
    typer.echo(f"{rules_file}: in order, {counted(len(rules.rules), 'rule')}")


@app.command("show-defaults")
def show_defaults() -> None:
    """Print the rules that hold where no rules file says otherwise; a rules file to begin with."""
    from controller.rulesfile import DEFAULTS  # noqa: PLC0415  see above

    typer.echo(DEFAULTS.read_text(encoding="utf-8"), nl=False)


@app.command()
def score(  # noqa: PLR0917  typer reads options from the signature
    rules_file: RulesFile = None,
    nodes: Annotated[int, typer.Option("--nodes", min=1, help="Nodes of each class.")] = 4,
    days: Annotated[float, typer.Option("--days", min=1.0, help="Days of each node.")] = 3.0,
    seed: Annotated[int, typer.Option("--seed", min=0, help="The same seed makes the same traffic.")] = 1,
    honest_only: Annotated[bool, typer.Option("--honest", help="Only the honest classes.")] = False,
    as_json: AsJson = False,
) -> None:
    """Score the shape detectors on made traffic: what is caught, how soon, and what is wrongly accused.

    Exit code 0 always: a table is a report, not a gate.
    """
    from controller.corpus.score import rows, table  # noqa: PLC0415  see above
    from controller.rulesfile import load_rules  # noqa: PLC0415

    found = rows(load_rules(rules_file).shape, seed=seed, nodes=nodes, days=days, honest_only=honest_only)
    for line in (json.dumps(row) for row in found) if as_json else table(found):
        typer.echo(line)
