"""Commands of ``weighbridge journal`` that hand it to others, make it smaller, and change its key."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from controller.cli_options import SITE_FILE, SiteFile, counted
from controller.cli_period import format_utc, parse_instant
from controller.errors import EvidenceError, OperatorError
from controller.evidence.note import KeyKind, NoteKey, decode_key
from controller.evidence.refusal import VerificationError
from controller.journal import Journal
from controller.site import load
from protos.units import format_bytes

app = typer.Typer()

JournalFile = Annotated[
    Path | None,
    typer.Option("--journal", metavar="FILE", help="The journal itself, instead of the one that the site file names."),
]

_MAX_LINE_BYTES = 4096
_RECENT_CHECKPOINTS = 10_000
"""A week of them: an answer that comes later is of no use."""


def journal_path(site_file: Path, journal_file: Path | None) -> Path:
    """Return the journal that was named, or the site file's."""
    return journal_file if journal_file is not None else load(site_file, secrets=False).controller.journal


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

    with Journal.open(journal_path(site_file, journal_file), read_only=True) as journal:
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
    with Journal.open(journal_path(site_file, journal_file)) as journal:
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


@app.command()
def export(
    output: Annotated[Path, typer.Argument(metavar="FILE", help="The copy.")],
    site_file: SiteFile = SITE_FILE,
) -> None:
    """Write a copy of the whole journal for the other side: entries, checkpoints, cosignatures; no private key.

    `weighbridge journal fsck --journal FILE --log KEY` checks it on any machine.
    """
    from controller.journal_export import export as copy_to  # noqa: PLC0415
    from controller.journal_log import publish  # noqa: PLC0415
    from controller.logkeys import make_site_keys  # noqa: PLC0415

    site = load(site_file, secrets=False)
    with Journal.open(site.controller.journal) as journal:
        # What is handed over is committed to.
        publish(journal, make_site_keys(journal.path, site.name).log)
        entries = copy_to(journal, output)
    size = format_bytes(output.stat().st_size)
    typer.echo(f"{output}: {counted(entries, 'entry', 'entries')}, {size}", err=True)


@app.command()
def prune(
    before: Annotated[
        str, typer.Option("--before", metavar="TIME", help="UTC like 2026-11-30T21:00:00Z, or -90d before now.")
    ],
    site_file: SiteFile = SITE_FILE,
    settled: Annotated[
        list[int] | None,
        typer.Option("--settled", metavar="ENTRY", help="An open report whose evidence may go; can be repeated."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would go; change nothing.")] = False,
) -> None:
    """Drop what was measured before a time; leaves, tree, checkpoints, reports and decisions stay.

    Refused while a report that goes with it is open, where nobody judged what would go, and where no checkpoint (with
    the site's witnesses: no cosigned one) commits to it. The decision is an entry of the journal.
    """
    from controller.journal_prune import carry_out, decide, plan, refuse_if_needed  # noqa: PLC0415
    from controller.timeline import Timeline  # noqa: PLC0415

    site = load(site_file, secrets=False)
    with Journal.open(site.controller.journal) as journal:
        now_ns = Timeline.view(journal).now_ns()
        what = plan(journal, parse_instant("--before", before, now_ns=now_ns))
        refuse_if_needed(journal, what, settled or [])
        _refuse_uncommitted(journal, site.name, what.stop, [decode_key(each.key) for each in site.witnesses])
        told = f"{counted(what.entries, 'body', 'bodies')} of {format_bytes(what.body_bytes)}"
        if dry_run:
            typer.echo(f"would go: {told}, recorded before {format_utc(what.before_ns)}", err=True)
            return
        leaf = decide(journal, site.name, what, settled or [], now_ns=now_ns)
        dropped = carry_out(journal)
    typer.echo(
        f"dropped {counted(dropped, 'body', 'bodies')}, as entry {leaf} decides ({told}); the file keeps its size "
        "and fills what is free first",
        err=True,
    )


@app.command()
def rotate_key(site_file: SiteFile = SITE_FILE) -> None:
    """Give the log a new key: the handover is an entry signed by both; the old private key is removed.

    Readers' policies and witnesses need the new key: `weighbridge journal keys`, `weighbridge witness trust`. Reports'
    keys need no handover: move `report.pem` and `report.pub` away, and a new pair is made.
    """
    from controller.collect.runlock import only_run  # noqa: PLC0415
    from controller.keychange import change_log_key  # noqa: PLC0415
    from controller.timeline import Timeline  # noqa: PLC0415

    site = load(site_file, secrets=False)
    path = site.controller.journal
    with Journal.open(path) as journal, only_run(path):
        key = change_log_key(journal, site.name, now_ns=Timeline.view(journal).now_ns())
    typer.echo(key.public.encode())


def _refuse_uncommitted(journal: Journal, site: str, stop: int, witnesses: list[NoteKey]) -> None:
    from controller.journal_log import cosigned_size, publish  # noqa: PLC0415
    from controller.logkeys import make_site_keys  # noqa: PLC0415

    publish(journal, make_site_keys(journal.path, site).log)
    if witnesses and all(cosigned_size(journal, witness) < stop for witness in witnesses):
        raise OperatorError(
            "none of the site's witnesses cosigned what would go. Let `weighbridge run` reach one of them first."
        )
