"""``weighbridge switch``: read a switch's port counters, with or without a site file."""

from __future__ import annotations

import enum
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from controller.cli_options import SITE_FILE, SiteFile
from controller.errors import OperatorError
from protos.reading import Framing
from protos.units import UnitError, parse_duration_ns
from switch.security import Client

if TYPE_CHECKING:  # the SNMP engine is loaded when a command that is right needs it
    from controller.switchpoll import Target

app = typer.Typer(no_args_is_help=True, help="Switch ports: what a switch says, and what its words are worth.")

NOTHING_READ = 3


class Auth(enum.Enum):
    """How SNMPv3 messages are authenticated."""

    SHA256 = "sha256"
    SHA384 = "sha384"
    SHA512 = "sha512"


class Privacy(enum.Enum):
    """How SNMPv3 messages are encrypted."""

    AES128 = "aes128"
    AES256 = "aes256"


@app.callback()
def switch() -> None:
    """Switch ports: what a switch says, and what its words are worth."""


Name = Annotated[str | None, typer.Argument(metavar="SWITCH", help="A switch of the site file.", show_default=False)]
Address = Annotated[
    str | None, typer.Option("--address", metavar="HOST:PORT", help="A switch without a site file; IPv6 in brackets.")
]
User = Annotated[str | None, typer.Option("--user", metavar="NAME", help="With --address: the SNMPv3 user.")]
AuthFile = Annotated[
    Path | None,
    typer.Option("--auth-key-file", metavar="FILE", help="With --user: holds the authentication pass phrase."),
]
PrivacyFile = Annotated[
    Path | None, typer.Option("--priv-key-file", metavar="FILE", help="With --user: holds the privacy pass phrase.")
]
AuthWith = Annotated[Auth, typer.Option("--auth", metavar="HASH", help="sha256, sha384 or sha512.")]
PrivacyWith = Annotated[Privacy, typer.Option("--privacy", metavar="CIPHER", help="aes128 or aes256.")]
Community = Annotated[
    str | None,
    typer.Option("--community", metavar="NAME", help="With --address: SNMPv2c, only together with --insecure."),
]
Insecure = Annotated[
    bool, typer.Option("--insecure", help="Accept SNMPv2c: whoever reaches the network can forge the answers.")
]
Refresh = Annotated[
    str,
    typer.Option("--refresh", metavar="DURATION", help="With --address: how old a counter may be when it is served."),
]
FramingOption = Annotated[
    Framing, typer.Option("--framing", metavar="FRAMING", help="With --address: which bytes of a frame it counts.")
]
ClientOption = Annotated[
    Client | None,
    typer.Option("--client", metavar="CLIENT", help="pysnmp, or direct: the same at a fraction of the cost."),
]
Ports = Annotated[
    list[str] | None,
    typer.Option("--ports", metavar="NAME,...", help="Ports by ifName; else those declared, else all there are."),
]


@app.command()
def poll(  # noqa: PLR0917  typer reads options from the signature
    name: Name = None,
    site_file: SiteFile = SITE_FILE,
    address: Address = None,
    user: User = None,
    auth_key_file: AuthFile = None,
    priv_key_file: PrivacyFile = None,
    auth: AuthWith = Auth.SHA256,
    privacy: PrivacyWith = Privacy.AES128,
    community: Community = None,
    insecure: Insecure = False,
    refresh: Refresh = "60s",
    framing: FramingOption = Framing.L2_WITH_FCS,
    ports: Ports = None,
    client: ClientOption = None,
    interval: Annotated[str, typer.Option("--interval", metavar="DURATION", help="From one poll to the next.")] = "1s",
    count: Annotated[int, typer.Option("--count", metavar="N", min=1, help="How many polls.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON line for each port and poll.")] = False,
    effort: Annotated[
        bool, typer.Option("--effort", help="With --json: at the end a line on requests, retries, latency and rows.")
    ] = False,
) -> None:
    """Read port counters over SNMP, each with the interval of time in which it was true, or the reason there is none.

    In is what the switch received, so what the node at the other end of the cable sent. A reason is one of absent,
    unsupported, malformed, truncated, timeout and auth. Nothing is journaled. Exit code 2: the switch
    refuses the user or a pass phrase; 3: no poll read any port.
    """
    from controller.switchpoll import Target, named, run_polls  # noqa: PLC0415  see above

    direct = {"--user": user, "--auth-key-file": auth_key_file, "--priv-key-file": priv_key_file}
    every_ns = _duration("--interval", interval)
    wanted = [port for each in ports or [] for port in each.split(",") if port]
    if address is not None:
        if name is not None:
            raise OperatorError("SWITCH and --address name two switches: give one of them")
        target: Target = Target.at(
            address,
            user=user,
            auth_key_file=auth_key_file,
            privacy_key_file=priv_key_file,
            auth=auth.value,
            privacy=privacy.value,
            community=community,
            insecure=insecure,
            refresh_ns=_duration("--refresh", refresh),
            framing=framing,
            client=client or Client.PYSNMP,
        )
    elif name is not None:
        unused = [option for option, value in {**direct, "--community": community}.items() if value is not None]
        if unused:
            raise OperatorError(f"{', '.join(unused)}: only with --address; {name}'s are in the site file")
        target = named(site_file, name, client)
    else:
        raise OperatorError("which switch? Name one of the site file, or give --address HOST:PORT")
    if effort and not as_json:
        raise OperatorError("--effort adds a JSON line: give --json too; without it the same is said in words")
    show = _print_json if as_json else _print_text
    read = run_polls(
        target, wanted or target.ports, interval_ns=every_ns, count=count, show=show, say=_say, effort_too=effort
    )
    if not read:
        raise typer.Exit(NOTHING_READ)


@app.command()
def calibrate(  # noqa: PLR0917  as above
    name: Annotated[str, typer.Argument(metavar="SWITCH", help="A switch of the site file.")],
    port: Annotated[str, typer.Option("--port", metavar="PORT", help="A port on which nothing else passes.")],
    site_file: SiteFile = SITE_FILE,
    frames: Annotated[int, typer.Option("--frames", metavar="K", min=1, help="How many frames will be sent.")] = 10_000,
    length: Annotated[
        int, typer.Option("--length", metavar="BYTES", min=60, help="Of each frame, without check sequence.")
    ] = 1_000,
    wait: Annotated[str, typer.Option("--wait", metavar="DURATION", help="For the frames to be counted.")] = "2m",
) -> None:
    """Learn which bytes of a frame a switch counts: send K frames of known length when it says so, through one port.

    In either direction; from the rig, or from a machine on a quiet cable. The octets counted a frame name the framing,
    which is compared with the site file's. Exit code 0: as declared; 1: another framing; 3: nothing could be learnt.
    """
    from controller.switchcalibration import learn  # noqa: PLC0415  see above
    from controller.switchpoll import named  # noqa: PLC0415

    target = named(site_file, name)
    found = learn(target, port, frames=frames, frame_bytes=length, wait_ns=_duration("--wait", wait), say=_say)
    if found is None:
        raise typer.Exit(NOTHING_READ)
    typer.echo(
        f"{name} counts {found.framing.value}: {float(found.octets_per_frame):.3f} octets for each of {found.frames} "
        f"frames of {found.frame_bytes} bytes ({found.direction.value} of the node)"
    )
    if found.framing is not target.device.framing:
        _say(f"the site file declares framing: {target.device.framing.value}; correct it")
        raise typer.Exit(1)


def _duration(option: str, text: str) -> int:
    try:
        length = parse_duration_ns(text)
    except UnitError as error:
        raise OperatorError(f"{option}: {error}") from error
    if length <= 0:
        raise OperatorError(f"{option} {text!r}: must be more than nothing")
    return length


def _say(text: str) -> None:
    typer.echo(text, err=True)


def _print_json(line: dict[str, Any]) -> None:
    typer.echo(json.dumps(line, ensure_ascii=True))


def _print_text(line: dict[str, Any]) -> None:
    head = f"{line['poll']:>4}  {line['port'] or '-':<16}"
    if line["reason"] is not None:
        typer.echo(f"{head}  {line['reason']}: {line['text']}")
        return
    sides = "  ".join(f"{side} {_octets(line, side):>22}" for side in ("in", "out"))
    epoch = f"epoch {line['epoch']} ({line['epoch_reason']})"
    typer.echo(f"{head}  {line['oper_status'] or '?':<6}  {sides}  {epoch}")


def _octets(line: dict[str, Any], side: str) -> str:
    name = f"{side}_octets"
    return f"{line['counters'][name]} B" if name in line["counters"] else str(line["missing"][name])
