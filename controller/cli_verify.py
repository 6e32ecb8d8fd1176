"""``weighbridge verify``: check a bundle against a policy, step by step; no site, no journal and no network needed."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from controller.errors import OperatorError

if TYPE_CHECKING:
    from controller.bundle_steps import Step

app = typer.Typer()

_YEAR_10000_S = 253_402_300_800


@app.command()
def verify(
    bundle: Annotated[Path, typer.Argument(metavar="BUNDLE", help="The bundle that `weighbridge report` wrote.")],
    policy: Annotated[
        Path, typer.Option("--policy", metavar="FILE", help="Whom you trust: a TOML file that you wrote or checked.")
    ],
    result: Annotated[
        Path | None,
        typer.Option("--result", metavar="FILE", help="Write the result as computed here, from a full bundle."),
    ] = None,
) -> None:
    """Check a bundle in numbered steps, printed one by one. The policy alone says whose keys count.

    Exit code 0: the report follows from the evidence; 1: a step failed. What the report says is printed, and does not
    change the exit code: a verified violation is verified.
    """
    from controller.bundle_steps import verify as verify_bundle  # noqa: PLC0415
    from controller.cli_period import format_utc  # noqa: PLC0415
    from controller.policyfile import load_policy  # noqa: PLC0415

    def say(step: Step, text: str) -> None:
        typer.echo(f"{step.value:2}. {step.name.lower().replace('_', ' ')}: {text}")

    trusted = load_policy(policy)
    try:
        with bundle.open("rb") as file:
            found = verify_bundle(file, trusted, say)
    except OSError as error:
        raise OperatorError(f"{bundle}: cannot be read ({error.strerror}). Name the bundle.") from error
    if result is not None:
        _write(result, found.computed)
    for name, time_s in found.witness_times.items():
        typer.echo(f"{name} saw the log at {_utc(time_s)}")
    period = found.report.period
    how = "recomputed from the evidence" if found.recomputed else "as signed; a full bundle lets you recompute it"
    if found.recomputed and not found.same_program:
        typer.echo(
            "another program made the report: read the result computed here (--result FILE), not the words in it"
        )
    typer.echo(
        f"verified: {found.report.site} from {format_utc(period.from_ns)} to {format_utc(period.to_ns)}: "
        f"{found.report.verdict} ({how})"
    )


def _utc(time_s: int) -> str:
    # A witness may claim any time at all; a calendar ends with the year 9999.
    if time_s >= _YEAR_10000_S:
        return f"{time_s} seconds after 1970, which is no time of ours"
    return f"{datetime.fromtimestamp(time_s, timezone.utc):%Y-%m-%d %H:%M:%S} UTC"


def _write(path: Path, computed: str | None) -> None:
    if computed is None:
        raise OperatorError("a summary has no evidence to compute a result from. Ask for a full bundle.")
    try:
        path.write_text(computed, encoding="utf-8")
    except OSError as error:
        raise OperatorError(f"{path}: cannot be written ({error.strerror}). Check the folder.") from error
