"""``weighbridge agents``: put agents on DPUs, see how they are, build a bundle for a machine without a network."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated

import typer

from controller import site as sites
from controller.cli_options import SITE_FILE, AsJson, SiteFile
from controller.cli_rows import print_rows
from controller.credentials import load_credential
from controller.deploy.bundle import Bundle, build
from controller.deploy.deploy import deploy as deploy_one
from controller.deploy.options import Deployed, Options, Surroundings
from controller.deploy.status import HEADINGS, METER_HEADINGS, OTHER_KEY, Asked, ask
from controller.deploy.target import TARGETS, Target
from controller.errors import EvidenceError, OperatorError, WeighbridgeError
from controller.journal import Journal
from controller.site import Dpu, Site
from controller.timeline import Timeline

INCONCLUSIVE = 3

app = typer.Typer(
    no_args_is_help=True, add_completion=False, help="The agents on the DPUs: deploy them, see how they are."
)

Names = Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help="Agents by name.")]
BuildDirectory = Annotated[
    Path, typer.Option(envvar="WEIGHBRIDGE_BUILD", help="Where downloaded wheels and built bundles are kept.")
]


@app.command("deploy")
def deploy_command(  # noqa: PLR0917  typer reads arguments and options from the signature
    names: Names = None,
    everyone: Annotated[bool, typer.Option("--all", help="Every agent of the site.")] = False,
    site_file: SiteFile = SITE_FILE,
    build_directory: BuildDirectory = Path("build"),
    replace_key: Annotated[
        bool,
        typer.Option("--replace-key", help="Enrol another frame key than the one enrolled: the DPU was exchanged."),
    ] = False,
    parallel: Annotated[int, typer.Option(min=1, max=64, help="How many DPUs at the same time.")] = 4,
    as_json: AsJson = False,
) -> None:
    """Install or update agents over SSH, start them, and check that what was sent is what answers."""
    site = sites.load(site_file)
    dpus = chosen(site, names or [], everyone=everyone)
    if replace_key and len(dpus) > 1:
        raise OperatorError("--replace-key is for one agent at a time: name the one whose DPU was exchanged")
    options = Options(build_directory=build_directory, replace_key=replace_key)
    surroundings = Surroundings(build=once_a_target())
    with Journal.open(site.controller.journal) as journal:
        timeline = Timeline.start(journal)

        def one(dpu: Dpu) -> Deployed | WeighbridgeError:
            try:
                return deploy_one(
                    site,
                    dpu.name,
                    journal,
                    timeline.now_ns,
                    options=options,
                    progress=lambda text: typer.echo(text, err=True),
                    surroundings=surroundings,
                )
            except WeighbridgeError as error:
                return error

        with ThreadPoolExecutor(parallel) as pool:
            outcomes = list(zip(dpus, pool.map(one, dpus), strict=True))
    _print_outcomes(outcomes, as_json=as_json)
    failures = [outcome for _, outcome in outcomes if isinstance(outcome, WeighbridgeError)]
    if failures:
        evidence = any(isinstance(failure, EvidenceError) for failure in failures)
        raise typer.Exit(EvidenceError.exit_code if evidence else failures[0].exit_code)


@app.command()
def status(
    names: Names = None,
    site_file: SiteFile = SITE_FILE,
    parallel: Annotated[int, typer.Option(min=1, max=64, help="How many agents at the same time.")] = 8,
    as_json: AsJson = False,
) -> None:
    """Ask agents what they are. Exit code 3 when one does not answer, 1 when one shows another key than enrolled."""
    site = sites.load(site_file)
    dpus = chosen(site, names or [], everyone=not names)
    files = site.controller
    own = load_credential(files.certificate, files.key, files.ca)
    with Journal.open(files.journal, read_only=True) as journal, ThreadPoolExecutor(parallel) as pool:
        rows = list(pool.map(lambda dpu: ask(dpu, own, journal), dpus))
    if as_json:
        typer.echo(json.dumps([row.as_json() for row in rows], indent=2))
    else:
        _print_status(rows)
    if any(row.enrolment == OTHER_KEY for row in rows):
        raise typer.Exit(EvidenceError.exit_code)
    if any(row.answer is None for row in rows):
        raise typer.Exit(INCONCLUSIVE)


@app.command()
def bundle(
    python: Annotated[str, typer.Option(help="The DPU's Python, for example 3.10.")],
    machine: Annotated[str, typer.Option(help="The DPU's processor: aarch64 or x86_64.")],
    build_directory: BuildDirectory = Path("build"),
) -> None:
    """Build the bundle for one Python and processor, and print where it is."""
    target = Target(python, machine)
    if target not in TARGETS:
        raise OperatorError(f"there are no wheels for {target}; the targets are {', '.join(map(str, TARGETS))}")
    built = build(target, build_directory)
    typer.echo(built.archive)
    typer.echo(
        f"{built.sha256}: version {built.version}, {built.archive.stat().st_size / 1e6:.1f} MB, "
        f"{built.unpacked_bytes / 1e6:.1f} MB unpacked",
        err=True,
    )


def chosen(site: Site, names: list[str], *, everyone: bool) -> list[Dpu]:
    """Return the named agents in the order of the site file, each once.

    Raises:
        OperatorError: none was named, or one is not in the site file.
    """
    if everyone == bool(names):
        raise OperatorError("name agents, or give --all; `weighbridge agents status` lists them")
    wanted = {site.agent(name).name for name in names}
    return [dpu for dpu in site.agents() if everyone or dpu.name in wanted]


def once_a_target() -> Callable[[Target, Path], Bundle]:
    """Return a builder that several deployments at once may call: one build a target, the others wait for it."""
    lock, built = threading.Lock(), dict[Target, Bundle]()

    def build_once(target: Target, directory: Path) -> Bundle:
        with lock:
            if target not in built:
                built[target] = build(target, directory)
            return built[target]

    return build_once


def _print_outcomes(outcomes: list[tuple[Dpu, Deployed | WeighbridgeError]], *, as_json: bool) -> None:
    if as_json:
        rows = [
            {"agent": dpu.name, "ok": False, "error": str(outcome)}
            if isinstance(outcome, WeighbridgeError)
            else {
                "agent": dpu.name,
                "ok": True,
                "version": outcome.version,
                "bundle_sha256": outcome.bundle_sha256,
                "mode": outcome.mode.name.lower().replace("_", "-"),
                "sent": outcome.sent,
                "restarted": outcome.restarted,
                "enrolled": outcome.enrolled,
            }
            for dpu, outcome in outcomes
        ]
        typer.echo(json.dumps(rows, indent=2))
        return
    shown = []
    for dpu, outcome in outcomes:
        if isinstance(outcome, Deployed):
            done = [
                word
                for word, so in (
                    ("sent", outcome.sent),
                    ("restarted", outcome.restarted),
                    ("enrolled", outcome.enrolled),
                )
                if so
            ]
            shown.append((dpu.name, outcome.version, outcome.bundle_sha256[:12], ", ".join(done) or "nothing to do"))
        else:
            shown.append((dpu.name, "-", "-", "FAILED"))
            typer.echo(f"error: {outcome}", err=True)
    print_rows(("agent", "version", "bundle", "what was done"), shown)


def _print_status(rows: list[Asked]) -> None:
    for row in rows:
        if row.problem:
            typer.echo(f"{row.dpu.name}: {row.problem}", err=True)
    print_rows(HEADINGS, [row.as_row() for row in rows])
    meters = [cells for row in rows for cells in row.meter_rows()]
    if meters:
        typer.echo()
        print_rows(METER_HEADINGS, meters, names=2)
