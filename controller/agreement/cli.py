"""``weighbridge agreement``: the limits that both parties sign: propose, show, sign, verify, accept."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from controller.agreement.envelope import Party
from controller.cli_options import SITE_FILE, AsJson, SiteFile
from controller.errors import OperatorError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from controller.agreement.envelope import SignedAgreement

app = typer.Typer(no_args_is_help=True, help="The agreement: the limits that both parties sign.")

Agreed = Annotated[Path, typer.Argument(metavar="FILE", help="A signed agreement, or an agreement's document (TOML).")]
As = Annotated[Party, typer.Option("--as", metavar="PARTY", help="verifier or prover.")]
Key = Annotated[
    Path | None,
    typer.Option("--key", metavar="STEM", help="The party's key: STEM.pem and STEM.pub. Else the site's verifier key."),
]
ProverKey = Annotated[
    Path, typer.Option("--prover-key", metavar="FILE.pub", help="The prover's public key, had from the prover itself.")
]
VerifierKey = Annotated[
    Path | None,
    typer.Option("--verifier-key", metavar="FILE.pub", help="The verifier's public key; else this site's own."),
]


@app.callback()
def agreement() -> None:
    """Say what both parties agreed."""


@app.command()
def key(stem: Annotated[Path, typer.Argument(metavar="STEM", help="STEM.pem and STEM.pub are made.")]) -> None:
    """Make a party's key. The prover gives STEM.pub to the verifier, and keeps STEM.pem."""
    from controller.verifierkey import make_key_file  # noqa: PLC0415

    typer.echo(make_key_file(stem).public_key().public_bytes_raw().hex())


@app.command()
def propose(
    document: Annotated[Path, typer.Argument(metavar="FILE.toml", help="The agreement's document.")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The signed agreement to write.")],
    party: As = Party.VERIFIER,
    key_stem: Key = None,
    site_file: SiteFile = SITE_FILE,
) -> None:
    """Sign a document as a proposal. A counter-proposal is the other party's, with its own document.

    A document that contradicts itself is refused, and so is one that does not fit the site file, where there is one.
    """
    from controller.agreement.envelope import unsigned  # noqa: PLC0415

    proposal = unsigned(_read(document), str(document))
    _refuse_contradictions(proposal)
    if party is Party.VERIFIER:
        _check_site(proposal, site_file)
    _write_new(output, proposal.signed(party, _key(party, key_stem, site_file)).encode())
    _explain(proposal)


@app.command()
def sign(
    file: Agreed,
    party: As = Party.PROVER,
    key_stem: Key = None,
    site_file: SiteFile = SITE_FILE,
) -> None:
    """Sign a proposal of the other party: the same bytes, with one's own key. The signature is added to the file."""
    from controller.agreement.envelope import decode  # noqa: PLC0415

    signed = decode(_read(file), str(file))
    _refuse_contradictions(signed)
    _explain(signed)
    _replace(file, signed.signed(party, _key(party, key_stem, site_file)).encode())


@app.command()
def show(file: Agreed, as_json: AsJson = False) -> None:
    """Show what an agreement says, which of its limits is the stricter, and who signed it (not whether rightly)."""
    agreed = _load(file)
    if as_json:
        typer.echo(json.dumps(_json(agreed), indent=2))
    else:
        _explain(agreed)
    _refuse_contradictions(agreed)


@app.command()
def verify(
    file: Agreed, prover_key: ProverKey, verifier_key: VerifierKey = None, site_file: SiteFile = SITE_FILE
) -> None:
    """Check that both parties signed the same bytes, each with its own key. Exit code 1: they did not."""
    from controller.agreement.envelope import check, decode  # noqa: PLC0415

    signed = decode(_read(file), str(file))
    check(signed, _keys(prover_key, verifier_key, site_file))
    _refuse_contradictions(signed)
    typer.echo(f"{file}: agreement {signed.sha256.hex()}, signed by verifier and prover")


@app.command()
def accept(
    file: Agreed, prover_key: ProverKey, verifier_key: VerifierKey = None, site_file: SiteFile = SITE_FILE
) -> None:
    """Put an agreement that both signed in force: journal it. Leases are granted under it from then on."""
    from controller.agreement.envelope import decode  # noqa: PLC0415
    from controller.agreement.inforce import accept as put_in_force  # noqa: PLC0415
    from controller.journal import Journal  # noqa: PLC0415
    from controller.site import load  # noqa: PLC0415
    from controller.timeline import Timeline  # noqa: PLC0415

    signed, site = decode(_read(file), str(file)), load(site_file)
    keys = _keys(prover_key, verifier_key, site_file)
    with Journal.open(site.controller.journal) as journal:
        timeline = Timeline.start(journal)
        put_in_force(journal, site, signed, keys, now_ns=timeline.now_ns(), wall_ns=time.time_ns())
    typer.echo(
        f"agreement {signed.agreement.number} ({signed.sha256.hex()[:16]}) is in force. Next: "
        "`weighbridge agents deploy --all` tells the agents, `weighbridge leases grant` opens what it allows.",
        err=True,
    )


# ---------------------------------------------------------------- files and keys


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise OperatorError(f"{path}: cannot be read ({error.strerror}). Name the agreement's file.") from error


def _load(path: Path) -> SignedAgreement:
    from controller.agreement.envelope import decode, unsigned  # noqa: PLC0415

    content = _read(path)
    return decode(content, str(path)) if content.lstrip().startswith(b"{") else unsigned(content, str(path))


def _write_new(path: Path, content: bytes) -> None:
    from controller.pki import write_new  # noqa: PLC0415

    write_new(path, content, 0o644)


def _replace(path: Path, content: bytes) -> None:
    scratch = path.with_name(f"{path.name}.new")
    scratch.unlink(missing_ok=True)
    _write_new(scratch, content)
    scratch.replace(path)


def _key(party: Party, stem: Path | None, site_file: Path) -> Ed25519PrivateKey:
    from controller.verifierkey import read_key_file, verifier_key  # noqa: PLC0415

    if stem is not None:
        return read_key_file(stem)
    if party is Party.PROVER:
        raise OperatorError("the prover signs with its own key: give --key STEM; `weighbridge agreement key` makes one")
    from controller.site import load  # noqa: PLC0415

    return verifier_key(load(site_file, secrets=False).controller.journal)


def _keys(prover_key: Path, verifier_key: Path | None, site_file: Path) -> dict[Party, bytes]:
    from controller.verifierkey import load_verifier_public, read_public_file  # noqa: PLC0415

    if verifier_key is not None:
        own = read_public_file(verifier_key)
    else:
        from controller.site import load  # noqa: PLC0415

        found = load_verifier_public(load(site_file, secrets=False).controller.journal)
        if found is None:
            raise OperatorError("the site has no verifier key yet: give --verifier-key, or run `weighbridge init`")
        own = found
    return {Party.VERIFIER: own, Party.PROVER: read_public_file(prover_key)}


def _check_site(proposal: SignedAgreement, site_file: Path) -> None:
    from controller.agreement.inforce import check_fits  # noqa: PLC0415
    from controller.site import load  # noqa: PLC0415

    if site_file.exists():
        check_fits(proposal, load(site_file, secrets=False))


# ---------------------------------------------------------------- words


def _refuse_contradictions(agreed: SignedAgreement) -> None:
    from controller.agreement.arithmetic import contradictions  # noqa: PLC0415

    wrong = contradictions(agreed.agreement)
    if wrong:
        raise OperatorError("\n".join(f"{agreed.name}: {one}" for one in wrong))


def _explain(agreed: SignedAgreement) -> None:
    from controller.agreement.arithmetic import explained  # noqa: PLC0415
    from protos.units import format_bytes, format_duration  # noqa: PLC0415

    said = agreed.agreement
    valid = f"valid from {_utc(said.valid_from_ns)} to {_utc(said.valid_to_ns)}"
    lines = [
        f"agreement {said.number} of site {said.site}: {agreed.sha256.hex()}",
        f"{valid}; leases live {format_duration(said.longest_lease_ns)} at most",
    ]
    for limit in said.limits:
        directions = " and ".join(sorted(each.value for each in limit.directions))
        who = ", ".join("every " + limit.scope if name == "*" else f"{limit.scope} {name}" for name in limit.names)
        lines.append(f"{who}, {limit.traffic_class.title}, {directions}: {explained(limit)}")
    if said.loads is not None:
        loads = said.loads
        classes = ", ".join(sorted(each.title for each in loads.classes))
        lines.append(
            f"load windows: {classes} from {', '.join(loads.sources)}: {format_bytes(loads.most_bytes)} in "
            f"{format_duration(loads.longest_ns)}, {loads.per_day} a day for each node, "
            f"{loads.reverse_ppm / 10_000:g} % back{', signed by both' if loads.both_sign else ''}"
        )
    else:
        lines.append("load windows: none")
    names = ", ".join(sorted(party.value for party in agreed.signatures)) or "nobody"
    typer.echo("\n".join([*lines, f"signed by: {names}"]))


def _utc(ns: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(ns // 10**9))


def _json(agreed: SignedAgreement) -> dict[str, Any]:
    from controller.agreement.arithmetic import strictest  # noqa: PLC0415
    from protos.lease import greatest_rate  # noqa: PLC0415

    said = agreed.agreement
    limits = []
    for limit in said.limits:
        rules, rate = strictest(limit.bounds), greatest_rate(limit.depth_bytes, limit.bounds)
        limits.append(
            {
                "of": limit.scope,
                "names": list(limit.names),
                "class": limit.traffic_class.title,
                "directions": sorted(each.value for each in limit.directions),
                "depth_bytes": str(limit.depth_bytes),
                "bounds": [{"window_ns": str(each.window_ns), "bytes": str(each.bytes)} for each in limit.bounds],
                "strictest": {"window_ns": str(rules.window_ns), "bytes": str(rules.bytes)},
                "greatest_rate_bytes_per_s": None if rate is None else str(rate),
            }
        )
    loads = said.loads
    return {
        "site": said.site,
        "number": str(said.number),
        "sha256": agreed.sha256.hex(),
        "valid_from_ns": str(said.valid_from_ns),
        "valid_to_ns": str(said.valid_to_ns),
        "longest_lease_ns": str(said.longest_lease_ns),
        "limits": limits,
        "loads": None
        if loads is None
        else {
            "classes": sorted(each.title for each in loads.classes),
            "sources": list(loads.sources),
            "most_bytes": str(loads.most_bytes),
            "longest_ns": str(loads.longest_ns),
            "per_day": loads.per_day,
            "reverse_ppm": loads.reverse_ppm,
            "both_sign": loads.both_sign,
        },
        "signed_by": sorted(party.value for party in agreed.signatures),
    }
