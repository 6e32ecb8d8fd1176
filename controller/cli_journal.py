"""``weighbridge journal``: say what the journal holds, and check all of it."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from controller import cli_journalcare as care
from controller import logkeys
from controller.agreement.inforce import parties_in_force
from controller.cli_journalcare import JournalFile, journal_path
from controller.cli_options import SITE_FILE, AsJson, SiteFile, counted
from controller.cli_period import format_utc
from controller.errors import EvidenceError, OperatorError
from controller.evidence.note import decode_key
from controller.evidence.refusal import VerificationError
from controller.journal import Journal
from controller.journal_fsck import Fault, Fsck
from controller.journal_fsck import fsck as check_journal
from controller.journal_log import publish
from controller.journal_survey import Summary, summary
from controller.logkeys import make_site_keys
from controller.site import load
from controller.verifierkey import load_verifier_public, read_public_file
from protos.units import format_bytes

app = typer.Typer(no_args_is_help=True, help="The journal.")


@app.command()
def stats(site_file: SiteFile = SITE_FILE, journal_file: JournalFile = None, as_json: AsJson = False) -> None:
    """Say how much there is of what, from when to when."""
    path = journal_path(site_file, journal_file)
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
def fsck(
    site_file: SiteFile = SITE_FILE,
    journal_file: JournalFile = None,
    log: Annotated[
        str | None,
        typer.Option("--log", metavar="KEY", help="The log's verifier key, for a copy that lies without its keys."),
    ] = None,
    verifier_key: Annotated[
        Path | None,
        typer.Option("--verifier-key", metavar="FILE.pub", help="Who signs leases, likewise; else as agreed."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check the file, every entry, leaf number, digest, signature, chain, checkpoint and cosignature.

    Exit code 1: something is wrong. 3: nothing is, but there was no key to check some signatures with.
    """
    path = journal_path(site_file, journal_file)
    try:
        public = decode_key(log) if log is not None else logkeys.load_log_public(path)
    except VerificationError as error:
        raise OperatorError(f"{error}. Copy the whole key, from `weighbridge journal keys`.") from error
    except OperatorError:
        public = None  # it is among the faults of the keys
    verifier = [read_public_file(verifier_key)] if verifier_key is not None else _own_verifier(path)
    with Journal.open(path, read_only=True) as journal:
        checked = check_journal(journal, public, verifier=verifier)
    key_faults, unread = logkeys.key_faults(path, signed=checked.checkpoints > 0)
    found = replace(
        checked,
        faults=(*checked.faults, *(Fault(None, text) for text in key_faults)),
        unchecked=(*checked.unchecked, *unread),
    )
    if as_json:
        ok = not found.faults and not found.unchecked
        typer.echo(json.dumps({"journal": str(path), "ok": ok, **asdict(found)}, indent=2))
    else:
        for line in _sentences(found):
            # A damaged file can hold anything, and so can what is told of it.
            typer.echo("".join(each if each.isprintable() else "?" for each in line))
    if found.faults:
        raise EvidenceError(
            f"{path}: {counted(len(found.faults), 'fault')}. Keep the file as it is and compare it with its last copy."
        )
    if found.unchecked:
        typer.echo("not everything could be checked; name the keys with --log and --verifier-key", err=True)
        raise typer.Exit(3)


def _own_verifier(path: Path) -> list[bytes]:
    try:
        key = load_verifier_public(path)
    except OperatorError:
        return []  # it is among the faults of the keys
    return [] if key is None else [key]


@app.command()
def keys(site_file: SiteFile = SITE_FILE) -> None:
    """Print the public keys of the journal as a policy file names them; make them if an old journal has none.

    Whoever writes a policy takes the keys from here once, by a way that they trust, never from a bundle.
    """
    site = load(site_file, secrets=False)
    with Journal.open(site.controller.journal, read_only=True) as journal:
        made = make_site_keys(journal.path, site.name)
        parties = parties_in_force(journal, site.name)
    typer.echo(f'[log]\nkey = "{made.log.public.encode()}"\n')
    typer.echo(f'[report]\nthreshold = 1\nkeys = ["{made.report_public.hex()}"]')
    if parties:
        typer.echo("\n[agreement]\n" + "\n".join(f'{party.value} = "{key.hex()}"' for party, key in parties.items()))


@app.command()
def checkpoint(site_file: SiteFile = SITE_FILE) -> None:
    """Sign a checkpoint of all that the journal holds now, and print the newest with its cosignatures.

    `weighbridge run` does so every minute and when it stops.
    """
    site = load(site_file, secrets=False)
    with Journal.open(site.controller.journal) as journal:
        found = publish(journal, make_site_keys(journal.path, site.name).log)
    typer.echo(found.note.encode().decode("utf-8"), nl=False)


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
    lines += [f"not checked: {text}" for text in found.unchecked]
    if found.pruned:
        lines.append(
            f"of {counted(found.pruned, 'entry', 'entries')} the body was dropped by decision; the leaf is there"
        )
    outcome = counted(len(found.faults), "fault") if found.faults else "in order"
    if found.unchecked and not found.faults:
        outcome = "in order, as far as it could be checked"
    return [*lines, f"{', '.join(checked)} checked: {outcome}"]


app.add_typer(care.app)
