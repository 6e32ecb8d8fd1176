"""``weighbridge init``: check the site file and its secrets, and make the site's journal."""

from __future__ import annotations

from importlib.metadata import version

import typer

from controller.cli_options import SITE_FILE, SiteFileArgument, counted
from controller.journal import Journal, Kind, NewEntry
from controller.journal_log import publish
from controller.logkeys import make_site_keys
from controller.site import load
from controller.site_credential import load_site_credential
from controller.timeline import Timeline
from controller.verifierkey import verifier_key

app = typer.Typer()


@app.command()
def init(site_file: SiteFileArgument = SITE_FILE) -> None:
    """Check the site file, its secrets and certificates, and make the journal with the site file in it, and its keys.

    Nothing is written unless everything is right. A journal that is there already is left alone, and so is the site
    file in it: `weighbridge run` journals the site file again whenever it has changed.
    """
    site = load(site_file)
    load_site_credential(site)
    timeline, anchor = Timeline.first()
    entry = NewEntry(Kind.SITE, site.name, timeline.now_ns(), site.content, {"version": version("weighbridge")})
    with Journal.create(site.controller.journal, anchor, entry) as journal:
        publish(journal, make_site_keys(journal.path, site.name).log)
        verifier_key(journal.path)
    devices = (
        counted(len(site.links), "link"),
        counted(len(site.agents()), "agent"),
        counted(len(site.switches), "switch", "switches"),
    )
    typer.echo(
        f"{site.controller.journal}: journal of site {site.name} made: {', '.join(devices)}. "
        "Next: `weighbridge agents deploy --all`.",
        err=True,
    )
