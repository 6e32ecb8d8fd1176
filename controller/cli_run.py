"""``weighbridge run``: collect from agents, switches and hosts into the journal until stopped."""

from __future__ import annotations

import typer

from controller.cli_options import SITE_FILE, SiteFile
from controller.journal import Journal
from controller.site import load

app = typer.Typer()


@app.command()
def run(site_file: SiteFile = SITE_FILE) -> None:
    """Collect from agents, switches and host exporters into the journal until Ctrl-C or SIGTERM.

    Whatever does not answer is named, retried and journaled as a look that failed; collection goes on. Nothing that
    was received is lost when the run is killed: the next one goes on from what is on the disk.
    """
    from controller.collect.run import run_until_signalled  # noqa: PLC0415  not needed to refuse a wrong site file

    site = load(site_file)
    # A journal that cannot be used is refused before anything, the run's lock included, is put beside it.
    Journal.open(site.controller.journal, read_only=True).close()
    run_until_signalled(site, site.controller.journal)
