"""``weighbridge witness``: keep the other side's eye on a log: cosign checkpoints that continue what it saw before."""

from __future__ import annotations

import json
import signal
import sys
import threading
from pathlib import Path
from typing import Annotated

import typer

from controller.cli_options import AsJson, counted
from controller.errors import OperatorError

app = typer.Typer(
    no_args_is_help=True,
    help="A witness for the other side: it cosigns a log's checkpoints if each continues the one before.",
)

Folder = Annotated[Path, typer.Option("--folder", metavar="FOLDER", help="Where the witness keeps what it knows.")]
FOLDER = Path("witness")


@app.command()
def init(
    name: Annotated[str, typer.Argument(help="The witness's name, without spaces: prover.example/witness.")],
    folder: Folder = FOLDER,
) -> None:
    """Make a witness's key, and print what the log's site file and readers' policies name."""
    from controller.witness_store import Witness  # noqa: PLC0415

    typer.echo(Witness.make(folder, name).key.public.encode())


@app.command()
def trust(
    log: Annotated[str, typer.Argument(help="The log's verifier key, as `weighbridge journal keys` prints it there.")],
    folder: Folder = FOLDER,
) -> None:
    """Watch a log; or trust one more key of a log that is watched, after it changed its key."""
    from controller.evidence.note import decode_key  # noqa: PLC0415
    from controller.evidence.refusal import VerificationError  # noqa: PLC0415
    from controller.witness_store import Witness  # noqa: PLC0415

    try:
        key = decode_key(log)
    except VerificationError as error:
        raise OperatorError(f"{error}. Copy the whole key, from `weighbridge journal keys`.") from error
    new = Witness(folder).trust(key)
    typer.echo(f"{key.name}: {'watched under this key from now on' if new else 'known already'}", err=True)


@app.command()
def show(folder: Folder = FOLDER, as_json: AsJson = False) -> None:
    """Say what was cosigned last for each log. Exit code 1: what is kept is not what the witness wrote."""
    from controller.evidence import checkpoint as checkpoints  # noqa: PLC0415
    from controller.witness_store import Witness  # noqa: PLC0415

    witness = Witness(folder)
    logs = []
    for origin in witness.logs():
        note = witness.last(origin)
        found = None if note is None else checkpoints.decode(note.text)
        time_s = None if note is None else checkpoints.check_cosignature(note, witness.key.public)
        logs.append(
            {
                "log": origin,
                "keys": [key.encode() for key in witness.trusted(origin)],
                "size": None if found is None else str(found.size),
                "root": None if found is None else found.root.hex(),
                "time_s": time_s,
                "refused": witness.refused(origin),
            }
        )
    if as_json:
        typer.echo(json.dumps({"witness": witness.key.public.encode(), "logs": logs}, indent=2))
        return
    typer.echo(witness.key.public.encode())
    for each in logs:
        what = "nothing yet" if each["size"] is None else f"{each['size']} entries, root {str(each['root'])[:16]}..."
        kept = f"; {each['refused']} refused requests kept" if each["refused"] else ""
        typer.echo(f"{each['log']}: {what}{kept}")


@app.command()
def cosign(
    request: Annotated[Path, typer.Argument(metavar="REQUEST", help="From `weighbridge journal request`.")],
    folder: Folder = FOLDER,
) -> None:
    """Cosign one request that came as a file, and print the cosignature. Exit code 1: the log did not show enough."""
    from controller.errors import EvidenceError  # noqa: PLC0415
    from controller.witness import MAX_REQUEST_BYTES, RefusalError  # noqa: PLC0415
    from controller.witness_store import Witness  # noqa: PLC0415

    witness = Witness(folder)
    try:
        with request.open("rb") as file:
            raw = file.read(MAX_REQUEST_BYTES + 1)
        line = witness.add_checkpoint(raw)
    except OSError as error:
        raise OperatorError(f"{request}: cannot be read ({error.strerror}). Name the request.") from error
    except RefusalError as refusal:
        raise EvidenceError(f"not cosigned: {refusal}.") from refusal
    sys.stdout.write(line.decode("utf-8"))


@app.command()
def serve(
    folder: Folder = FOLDER,
    listen: Annotated[
        str, typer.Option("--listen", metavar="ADDRESS", help="Where to listen, for example 192.0.2.9:7480.")
    ] = "127.0.0.1:7480",
) -> None:
    """Cosign over HTTP until Ctrl-C or SIGTERM. Put TLS in front of it where others share the network.

    A cosignature counts by itself and a checkpoint is no secret, so nothing is lost where the network is plain.
    """
    from controller.site_values import split_address  # noqa: PLC0415
    from controller.witness_server import WitnessServer  # noqa: PLC0415
    from controller.witness_store import Witness  # noqa: PLC0415

    witness = Witness(folder)
    try:
        server = WitnessServer(split_address(listen), witness)
    except (OSError, ValueError) as error:
        raise OperatorError(f"{listen}: cannot listen there ({error}). Name an address of this machine.") from error
    with server:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: threading.Thread(target=server.shutdown).start())
        host, port = server.server_address[:2]
        logs = counted(len(witness.logs()), "log")
        typer.echo(f"{witness.key.public.name}: watching {logs}, at {host!s}:{port}; stop with Ctrl-C", err=True)
        server.serve_forever(poll_interval=0.2)
