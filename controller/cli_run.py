"""``weighbridge run``: collect from agents, switches and hosts into the journal until stopped."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from controller.cli_options import SITE_FILE, SiteFile
from controller.errors import OperatorError
from controller.journal import Journal
from controller.site import load
from controller.site_values import split_address

app = typer.Typer()


@app.command()
def run(
    site_file: SiteFile = SITE_FILE,
    rules_file: Annotated[
        Path | None,
        typer.Option("--rules", metavar="RULES.yaml", help="Rules to watch by; the defaults if none are given."),
    ] = None,
    alerts_file: Annotated[
        Path | None,
        typer.Option("--alerts", metavar="ALERTS.yaml", help="Who is told of findings; nobody if none is given."),
    ] = None,
    metrics: Annotated[
        str | None,
        typer.Option(
            "--metrics", metavar="HOST:PORT", help="Where Prometheus may ask what polling switches costs; else nowhere."
        ),
    ] = None,
) -> None:
    """Collect from agents, switches and host exporters into the journal until Ctrl-C or SIGTERM.

    What comes in is looked at by rules and detectors as it comes; what they find is said, and told to the receivers of
    the alerts file.

    Whatever does not answer is named, retried and journaled as a look that failed; collection goes on. Nothing that
    was received is lost when the run is killed: the next one goes on from what is on the disk.
    """
    site = load(site_file)
    # Not needed to refuse a wrong site file.
    from controller.alerts.alertsfile import load_alerts  # noqa: PLC0415
    from controller.collect.run import run_until_signalled  # noqa: PLC0415
    from controller.collect.watch import Watching  # noqa: PLC0415
    from controller.rulesfile import load_rules  # noqa: PLC0415

    metrics_at = None if metrics is None else _address(metrics)
    receivers = () if alerts_file is None else load_alerts(alerts_file)
    watching = Watching(load_rules(rules_file), None if rules_file is None else rules_file.resolve(), receivers)
    # A journal that cannot be used is refused before anything, the run's lock included, is put beside it.
    Journal.open(site.controller.journal, read_only=True).close()
    run_until_signalled(site, site.controller.journal, watching=watching, metrics_at=metrics_at)


def _address(text: str) -> tuple[str, int]:
    try:
        return split_address(text)
    except ValueError as error:
        raise OperatorError(f"--metrics {text!r}: {error}. Write it like 127.0.0.1:9464, IPv6 in brackets") from error
