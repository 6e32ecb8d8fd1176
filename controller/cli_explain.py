"""``weighbridge explain``: one finding in full: what was seen, its margin, and the entries it rests on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from controller.cli_judged import Asked, from_journal
from controller.cli_options import SITE_FILE, AsJson, SiteFile
from controller.errors import OperatorError

COLUMNS = 100

app = typer.Typer()


@app.command()
def explain(  # noqa: PLR0917  typer reads options from the signature
    finding: Annotated[
        str, typer.Argument(metavar="FINDING", help="Its id, the beginning of it, or its number in the result.")
    ],
    result: Annotated[
        Path | None,
        typer.Option(
            "--result", metavar="FILE.json", help="A result of `crosscheck --json`; else the journal is judged."
        ),
    ] = None,
    site_file: SiteFile = SITE_FILE,
    last: Annotated[str | None, typer.Option("--last", metavar="DURATION", help="As for `crosscheck`.")] = None,
    start: Annotated[str | None, typer.Option("--from", metavar="TIME", help="As for `crosscheck`.")] = None,
    end: Annotated[str | None, typer.Option("--to", metavar="TIME", help="As for `crosscheck`.")] = None,
    start_ns: Annotated[int | None, typer.Option("--from-ns", metavar="NS", help="As for `crosscheck`.")] = None,
    end_ns: Annotated[int | None, typer.Option("--to-ns", metavar="NS", help="As for `crosscheck`.")] = None,
    rules_file: Annotated[
        Path | None,
        typer.Option("--rules", metavar="RULES.yaml", help="For a finding of rules: those it was made by."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Tell one finding of a cross-check, or of rules and detectors, in full, so that it can be disputed.

    With --result nothing but that file is needed. From the journal, the period has to be the one in which the finding
    was made; then the entries it rests on are named by their leaves.
    """
    from controller.explanation import Section, explained, find  # noqa: PLC0415  what a wrong option does not need

    asked = Asked(last, start, end, start_ns, end_ns)
    if result is None and _is_of_rules(finding):
        _of_rules(site_file, asked, finding, rules_file, as_json=as_json)
        return
    if rules_file is not None:
        raise OperatorError("--rules is for findings of rules, whose ids begin with their kind. Leave it out.")
    entries: tuple[str, ...] = ()
    if result is not None:
        if asked != Asked():
            raise OperatorError("--result has a period already: leave --last, --from and --to out")
        found, part = find(_read(result), finding)
    else:
        found, part, entries = _judged(site_file, asked, finding)
    sections = explained(found, part)
    if entries:
        sections.append(Section("Evidence, by leaf of the journal", entries))
    if as_json:
        body = {"finding": found, "sections": [{"heading": one.heading, "lines": list(one.lines)} for one in sections]}
        typer.echo(json.dumps(body, indent=2))
        return
    typer.echo(_text(str(found["id"]), [(one.heading, one.lines) for one in sections]))


def _read(path: Path) -> dict[str, Any]:
    try:
        body = json.loads(path.read_bytes())
    except OSError as error:
        raise OperatorError(
            f"{path}: cannot be read ({error.strerror}). Give a result of `crosscheck --json`."
        ) from error
    except (ValueError, RecursionError) as error:
        raise OperatorError(f"{path}: not JSON ({error}). Give a result of `crosscheck --json`.") from error
    if not isinstance(body, dict):
        raise OperatorError(f"{path}: not a result. Give one of `crosscheck --json`.")
    return body


def _judged(site_file: Path, asked: Asked, wanted: str) -> tuple[Any, Any, tuple[str, ...]]:
    from controller.crosscheck.json_form import finding_id  # noqa: PLC0415  see above
    from controller.explanation import find  # noqa: PLC0415
    from controller.finding_entries import entries_of  # noqa: PLC0415
    from controller.journal import Journal  # noqa: PLC0415
    from controller.judgement import json_text  # noqa: PLC0415
    from controller.site import load  # noqa: PLC0415

    parts, _ = from_journal(site_file, asked)
    found, part = find(json.loads(json_text(parts)), wanted)
    with Journal.open(load(site_file, secrets=False).controller.journal, read_only=True) as journal:
        for judged in parts:
            for one in judged.result.findings:
                if finding_id(one) == found["id"]:
                    return found, part, tuple(str(each) for each in entries_of(journal, judged.site, one))
    return found, part, ()


def _is_of_rules(wanted: str) -> bool:
    from controller.rules.finding import Kind  # noqa: PLC0415  see above

    return wanted.rpartition("-")[0] in {kind.value for kind in Kind}


def _of_rules(site_file: Path, asked: Asked, wanted: str, rules_file: Path | None, *, as_json: bool) -> None:
    from controller.cli_period import parse_period  # noqa: PLC0415  see above
    from controller.journal import Journal  # noqa: PLC0415
    from controller.rules_explain import explanation  # noqa: PLC0415
    from controller.rulesfile import load_rules  # noqa: PLC0415
    from controller.site import load  # noqa: PLC0415
    from controller.timeline import Timeline  # noqa: PLC0415

    rules = load_rules(rules_file)
    with Journal.open(load(site_file, secrets=False).controller.journal, read_only=True) as journal:
        now_ns = Timeline.view(journal).now_ns()
        period = asked.exact or parse_period(last=asked.last, start=asked.start, end=asked.end, now_ns=now_ns)
        found, sections = explanation(journal, rules, period, wanted)
    if as_json:
        body = {"finding": found, "sections": [{"heading": one.heading, "lines": list(one.lines)} for one in sections]}
        typer.echo(json.dumps(body, indent=2))
        return
    typer.echo(_text(wanted, [(one.heading, one.lines) for one in sections]))


def _text(title: str, sections: list[tuple[str, tuple[str, ...]]]) -> str:
    import textwrap  # noqa: PLC0415

    lines = [title]
    for heading, told in sections:
        lines += ["", heading]
        for line in told:
            deeper = "    " if line.startswith("    ") else ""
            wrapped = textwrap.wrap(line.strip(), COLUMNS - 4 - len(deeper), break_on_hyphens=False) or [""]
            lines += [f"{deeper}  - {wrapped[0]}", *(f"{deeper}    {more}" for more in wrapped[1:])]
    return "\n".join(lines)
