"""``weighbridge report``: sign the result of a period, put it into the log, and write it as a bundle for others."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from controller.cli_judged import Asked, settled
from controller.cli_options import SITE_FILE, SiteFile
from controller.cli_results import Writing

if TYPE_CHECKING:
    from controller.journal import Journal
    from controller.site import Site

app = typer.Typer()


@app.command()
def report(  # noqa: PLR0917  typer reads options from the signature
    site_file: SiteFile = SITE_FILE,
    last: Annotated[
        str | None, typer.Option("--last", metavar="DURATION", help="The last 5m, 1h30m...; 5m if no period is given.")
    ] = None,
    start: Annotated[
        str | None,
        typer.Option("--from", metavar="TIME", help="Begin: UTC like 2026-11-30T21:00:00Z, or -5m before now."),
    ] = None,
    end: Annotated[str | None, typer.Option("--to", metavar="TIME", help="End, as --from; or `now`.")] = None,
    full: Annotated[
        bool,
        typer.Option("--full/--summary", help="Carry all evidence, so that the verdict can be recomputed; or digests."),
    ] = False,
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="FILE|FOLDER", help="X.bundle, or a folder for the bundle and its pages."
        ),
    ] = Path("report.bundle"),
) -> None:
    """Judge a period as `crosscheck` does, sign the result, log it, and write a bundle that anybody can verify.

    In a folder the same result stands as HTML, PDF, CSV and JSON too; the PDF needs a Chromium. `weighbridge verify`
    checks the bundle, without a network.

    Exit code 0: compliant; 1: violation; 3: inconclusive.
    """
    from controller.bundle import Extent  # noqa: PLC0415  what a wrong option does not need
    from controller.bundle_make import issue, write  # noqa: PLC0415
    from controller.journal import Journal  # noqa: PLC0415
    from controller.judgement import EXIT_CODES, json_text, judge_period, worst  # noqa: PLC0415
    from controller.logkeys import make_site_keys  # noqa: PLC0415
    from controller.report_set import bundle_path, write_pages  # noqa: PLC0415
    from controller.site import load  # noqa: PLC0415
    from controller.timeline import Timeline, clock_error  # noqa: PLC0415

    site = load(site_file, secrets=False)
    path = site.controller.journal
    with Journal.open(path, read_only=True) as reader, reader.snapshot() as size:
        timeline = Timeline.view(reader)
        period = settled(reader, Asked(last, start, end), timeline.now_ns())
        parts = judge_period(reader, period)
        error = clock_error(reader, from_ns=period.from_ns, to_ns=period.to_ns)
    bundle = bundle_path(output)
    with Journal.open(path) as journal:
        keys = make_site_keys(path, site.name)
        leaf = issue(journal, keys, parts, size=size, period=period, now_ns=timeline.now_ns())
        _ask_witnesses(journal, site)
        extent = Extent.FULL if full else Extent.SUMMARY
        result = json_text(parts).encode()
        write(journal, keys, bundle, leaf=leaf, size=size, result=result, extent=extent)
    typer.echo(f"{bundle}: {worst(parts).value}, entry {leaf} of the log, {bundle.stat().st_size} bytes", err=True)
    if bundle != output:
        writing = Writing(timeline.now_ns() + timeline.clock_error_ns(), error)
        for said in write_pages(output, parts, writing, result.decode()):
            typer.echo(said, err=True)
    raise typer.Exit(EXIT_CODES[worst(parts)])


def _ask_witnesses(journal: Journal, site: Site) -> None:
    """Have the site's witnesses cosign the checkpoint that has the report, and say which of them did."""
    import asyncio  # noqa: PLC0415

    from controller.collect.witnesses import WitnessAt, ask_all, witnesses_of  # noqa: PLC0415
    from controller.errors import WeighbridgeError  # noqa: PLC0415

    def said(witness: WitnessAt, what: int | WeighbridgeError) -> None:
        text = str(what) if isinstance(what, WeighbridgeError) else f"cosigned {what} entries"
        typer.echo(f"{witness.key.name}: {text}", err=True)

    asyncio.run(ask_all(journal, witnesses_of(site), said))
