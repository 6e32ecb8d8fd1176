"""``weighbridge attest``: ask a DPU's TPM which software it booted, and check its answer: challenge and quote."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Annotated

import typer

from controller.cli_options import SITE_FILE, AsJson, SiteFile
from controller.errors import OperatorError

app = typer.Typer(
    no_args_is_help=True,
    help="Which software a DPU booted, by its TPM's word: a challenge, and the quote that answers it.",
)

Agent = Annotated[str, typer.Argument(metavar="DPU", help="The DPU's name in the site file.")]
_MAX_FILE_BYTES = 16_384


@app.command()
def challenge(agent: Agent, site_file: SiteFile = SITE_FILE) -> None:
    """Journal a new challenge and print it: 64 hexadecimal digits, for `tpm2_quote --qualification` on the DPU.

    It can be answered once, within ten minutes.
    """
    from controller.attestation.session import challenge as make  # noqa: PLC0415
    from controller.journal import Journal  # noqa: PLC0415
    from controller.timeline import Timeline  # noqa: PLC0415

    with Journal.open(_journal(site_file, agent)) as journal:
        typer.echo(make(journal, agent, now_ns=Timeline.view(journal).now_ns()).hex())


@app.command()
def check(  # noqa: PLR0917  typer reads options from the signature
    agent: Agent,
    message: Annotated[Path, typer.Option("--message", metavar="FILE", help="What `tpm2_quote --message` wrote.")],
    signature: Annotated[Path, typer.Option("--signature", metavar="FILE", help="What `--signature` wrote.")],
    key: Annotated[
        Path,
        typer.Option("--key", metavar="FILE", help="The attestation key (PEM) that you pinned."),
    ],
    registers: Annotated[str, typer.Option("--registers", metavar="LIST", help="Which were asked for: 0,1,7.")],
    digest: Annotated[
        str, typer.Option("--digest", metavar="HEX", help="SHA-256 over the values that they should have, in order.")
    ],
    site_file: SiteFile = SITE_FILE,
    as_json: AsJson = False,
) -> None:
    """Check the quote that answers a DPU's newest challenge, and journal it. Exit code 1: it is no answer."""
    from controller.attestation.quote import REGISTERS  # noqa: PLC0415
    from controller.attestation.session import Answer, answer  # noqa: PLC0415
    from controller.journal import Journal  # noqa: PLC0415
    from controller.timeline import Timeline  # noqa: PLC0415

    if not re.fullmatch(r"[0-9]{1,2}(,[0-9]{1,2})*", registers) or not set(_numbers(registers)) <= set(REGISTERS):
        raise OperatorError(f"--registers {registers!r}: give numbers from 0 to 23 with commas between, like 0,1,7.")
    if not re.fullmatch(r"[0-9a-f]{64}", digest):
        raise OperatorError("--digest: give 64 lower-case hexadecimal digits, the SHA-256 over the expected values.")
    given = Answer(_read(message), _read(signature), _read(key))
    with Journal.open(_journal(site_file, agent)) as journal:
        now_ns = Timeline.view(journal).now_ns()
        quote = answer(journal, agent, given, set(_numbers(registers)), bytes.fromhex(digest), now_ns=now_ns)
    if as_json:
        body = {"agent": agent, "registers": sorted(quote.registers), "digest": quote.digest.hex()}
        times = {"clock_ms": str(quote.clock_ms), "resets": quote.resets, "restarts": quote.restarts}
        typer.echo(json.dumps({**body, **times, "safe": quote.safe, "firmware": f"{quote.firmware:016x}"}))
        return
    typer.echo(
        f"{agent}: registers {registers} have the expected values, by its TPM's word to this challenge "
        f"({quote.resets} resets, {quote.restarts} restarts, firmware {quote.firmware:016x})"
    )


def _numbers(text: str) -> list[int]:
    return [int(each) for each in text.split(",")]


def _journal(site_file: Path, agent: str) -> Path:
    from controller.site import load  # noqa: PLC0415

    site = load(site_file, secrets=False)
    if agent not in {dpu.name for dpu in site.agents()}:
        raise OperatorError(
            f"{site_file}: there is no DPU {agent!r}. There: {', '.join(d.name for d in site.agents())}."
        )
    return site.controller.journal


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_MAX_FILE_BYTES)
    except OSError as error:
        raise OperatorError(f"{path}: cannot be read ({error.strerror}). Name the file.") from error
