"""``weighbridge journal``: say what the journal holds, and check all of it."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from controller.cli_options import SITE_FILE, AsJson, SiteFile, counted
from controller.cli_period import format_utc
from controller.errors import EvidenceError, OperatorError
from controller.evidence.note import KeyKind, NoteKey, decode_key
from controller.evidence.refusal import VerificationError
from controller.journal import Journal
from controller.journal_fsck import Fsck
from controller.journal_fsck import fsck as check_journal
from controller.journal_log import publish
from controller.journal_survey import Summary, summary
from controller.logkeys import load_log_public, make_site_keys
from controller.site import load
from protos.units import format_bytes

app = typer.Typer(no_args_is_help=True, help="The journal.")

JournalFile = Annotated[
    Path | None,
    typer.Option("--journal", metavar="FILE", help="The journal itself, instead of the one that the site file names."),
]

_MAX_LINE_BYTES = 4096
_RECENT_CHECKPOINTS = 10_000
"""A week of them: an answer that comes later is of no use."""


@app.command()
def stats(site_file: SiteFile = SITE_FILE, journal_file: JournalFile = None, as_json: AsJson = False) -> None:
    """Say how much there is of what, from when to when."""
    path = _journal_path(site_file, journal_file)
    with Journal.open(path, read_only=True) as journal:
        rows, entries = summary(journal), len(journal)
    size = sum(file.stat().st_size for file in path.parent.glob(f"{path.name}*") if file.name in _files(path))
    if as_json:
        typer.echo(
            json.dumps(
                {
                    "journal": str(path),
                    "entries": entries,
                    "file_bytes": str(size),
                    "kinds": [_as_json(row) for row in rows],
                },
                indent=2,
            )
        )
        return
    _print_table(rows)
    typer.echo(f"{path}: {counted(entries, 'entry', 'entries')}, {format_bytes(size)} on disk", err=True)


@app.command()
def fsck(site_file: SiteFile = SITE_FILE, journal_file: JournalFile = None, as_json: AsJson = False) -> None:
    """Check every entry, leaf number, digest, signature, chain and checkpoint. Exit code 1: something is wrong."""
    path = _journal_path(site_file, journal_file)
    with Journal.open(path, read_only=True) as journal:
        found = check_journal(journal, load_log_public(path))
    if as_json:
        typer.echo(json.dumps({"journal": str(path), "ok": not found.faults, **asdict(found)}, indent=2))
    else:
        for line in _sentences(found):
            typer.echo(line)
    if found.faults:
        raise EvidenceError(
            f"{path}: {counted(len(found.faults), 'fault')}. Keep the file as it is and compare it with its last copy."
        )


@app.command()
def keys(site_file: SiteFile = SITE_FILE) -> None:
    """Print the public keys of the journal as a policy file names them; make them if an old journal has none.

    Whoever writes a policy takes the keys from here once, by a way that they trust, never from a bundle.
    """
    site = load(site_file, secrets=False)
    with Journal.open(site.controller.journal, read_only=True) as journal:
        made = make_site_keys(journal.path, site.name)
    typer.echo(f'[log]\nkey = "{made.log.public.encode()}"\n')
    typer.echo(f'[report]\nthreshold = 1\nkeys = ["{made.report_public.hex()}"]')


@app.command()
def checkpoint(site_file: SiteFile = SITE_FILE) -> None:
    """Sign a checkpoint of all that the journal holds now, and print the newest with its cosignatures.

    `weighbridge run` does so every minute and when it stops.
    """
    site = load(site_file, secrets=False)
    with Journal.open(site.controller.journal) as journal:
        found = publish(journal, make_site_keys(journal.path, site.name).log)
    typer.echo(found.note.encode().decode("utf-8"), nl=False)


@app.command()
def request(
    witness: Annotated[
        str, typer.Argument(help="The witness's verifier key, as `weighbridge witness init` printed it.")
    ],
    site_file: SiteFile = SITE_FILE,
    journal_file: JournalFile = None,
    old: Annotated[
        int | None, typer.Option("--old", metavar="SIZE", help="What it cosigned last, if the journal does not know.")
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The request.")] = Path(
        "cosign.request"
    ),
) -> None:
    """Write what a witness without a network needs to cosign the newest checkpoint: `weighbridge witness cosign`."""
    from controller.cosigning import request_for  # noqa: PLC0415

    with Journal.open(_journal_path(site_file, journal_file), read_only=True) as journal:
        asked, made = request_for(journal, _witness_key(witness), old)
    try:
        output.write_bytes(made.encode())
    except OSError as error:
        raise OperatorError(f"{output}: cannot be written ({error.strerror}). Check the folder.") from error
    typer.echo(f"{output}: from {made.old} to {asked.checkpoint.size} entries", err=True)


@app.command()
def cosignature(
    witness: Annotated[str, typer.Argument(help="The witness's verifier key.")],
    answer: Annotated[Path, typer.Argument(metavar="FILE", help="What `weighbridge witness cosign` printed.")],
    site_file: SiteFile = SITE_FILE,
    journal_file: JournalFile = None,
) -> None:
    """Keep a cosignature that came as a file. Exit code 1: it is not that witness's, of no checkpoint that is here."""
    from controller.journal_log import keep_cosignature, sizes  # noqa: PLC0415

    key = _witness_key(witness)
    try:
        line = answer.read_bytes()[:_MAX_LINE_BYTES].decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise OperatorError(f"{answer}: cannot be read ({error}). Name the cosignature.") from error
    with Journal.open(_journal_path(site_file, journal_file)) as journal:
        # The answer does not say which checkpoint it is of; of the last few it fits one, or none.
        for size in reversed(sizes(journal)[-_RECENT_CHECKPOINTS:]):
            try:
                keep_cosignature(journal, size, line, key)
            except EvidenceError:
                continue
            typer.echo(f"{key.name} cosigned {counted(size, 'entry', 'entries')}: kept", err=True)
            return
    raise EvidenceError(
        f"{answer}: is no cosignature of {key.name} for a checkpoint of this journal; nothing was kept."
    )


def _witness_key(text: str) -> NoteKey:
    try:
        key = decode_key(text)
    except VerificationError as error:
        raise OperatorError(f"{error}. Copy the whole key, from `weighbridge witness init`.") from error
    if key.kind is not KeyKind.WITNESS:
        raise OperatorError(f"{key.name} is a log's key, not a witness's. Copy it from `weighbridge witness init`.")
    return key


def _journal_path(site_file: Path, journal_file: Path | None) -> Path:
    return journal_file if journal_file is not None else load(site_file, secrets=False).controller.journal


def _files(path: Path) -> tuple[str, ...]:
    return path.name, f"{path.name}-wal", f"{path.name}-shm"


def _as_json(row: Summary) -> dict[str, Any]:
    sequence = None if row.last_sequence is None else str(row.last_sequence)
    return {
        "kind": row.kind,
        "source": row.source,
        "entries": row.entries,
        "body_bytes": str(row.body_bytes),
        "first_ns": str(row.first_ns),
        "last_ns": str(row.last_ns),
        "last_sequence": sequence,
    }


def _print_table(rows: list[Summary]) -> None:
    from rich import box  # noqa: PLC0415  loaded by who prints a table
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    days = {format_utc(time_ns)[:10] for row in rows for time_ns in (row.first_ns, row.last_ns)}
    # Eighty columns: the time where all is of one day, which is said once; else day and minute.
    shown = slice(11, 19) if len(days) == 1 else slice(5, 16)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
    table.add_column("kind", no_wrap=True)
    table.add_column("source", overflow="ellipsis", no_wrap=True, max_width=18)
    for heading in ("entries", "bytes", "first", "last", "number"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        # Sources are named by the site's devices: text, never markup, and nothing that moves the cursor.
        source = "".join(each if each.isprintable() else "?" for each in row.source)
        table.add_row(
            row.kind,
            Text(source),
            str(row.entries),
            format_bytes(row.body_bytes),
            *(format_utc(time_ns)[shown] for time_ns in (row.first_ns, row.last_ns)),
            "-" if row.last_sequence is None else str(row.last_sequence),
        )
    Console().print(table)
    if len(days) == 1:
        typer.echo(f"all on {days.pop()}, UTC")


def _sentences(found: Fsck) -> list[str]:
    lines = [fault.text for fault in found.faults]
    lines += [
        f"{hole.agent} dropped frames {hole.first} to {hole.last} before anyone had them, and said so"
        for hole in found.holes
        if hole.declared
    ]
    checked = (
        counted(found.entries, "entry", "entries"),
        f"{counted(found.frames, 'frame')} of {counted(found.agents, 'agent')}",
        counted(found.checkpoints, "checkpoint"),
    )
    outcome = counted(len(found.faults), "fault") if found.faults else "in order"
    return [*lines, f"{', '.join(checked)} checked: {outcome}"]
