"""The values of a site file: names, quantities with their units, addresses, keys; each with what to write instead.

Quantities become integers (bytes, bytes per second, nanoseconds, parts per million).
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
import urllib.parse
from collections.abc import Callable
from typing import Annotated, Any

from pydantic import BeforeValidator
from pydantic_core import PydanticCustomError

from controller.evidence.note import KeyKind, decode_key
from controller.evidence.refusal import VerificationError
from protos.units import UnitError, parse_bytes, parse_duration_ns, parse_rate_bytes_per_s

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", re.ASCII)
_LINK_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,126}", re.ASCII)
_PORT_NAME = re.compile(r"[!-~](?:[ -~]{0,61}[!-~])?", re.ASCII)
_INTERFACE_NAME = re.compile(r"[!-.0-~]{1,15}", re.ASCII)  # what Linux allows: 15 characters, no space, no slash
_HOST_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?", re.ASCII)
_ADDRESS = re.compile(r"(?:\[(?P<v6>[0-9A-Fa-f:.%]+)\]|(?P<host>[^\[\]:]+)):(?P<port>[1-9][0-9]{0,4})", re.ASCII)
_PPM = re.compile(r"([0-9]{1,6})\s*ppm", re.ASCII)


def wrong(problem: str, remedy: str) -> PydanticCustomError:
    """Return the error of a validator: what is wrong with the value, and what to write instead."""
    # The texts are passed as values: a brace in them must not be taken for a placeholder.
    return PydanticCustomError("site_file", "{problem}. {remedy}", {"problem": problem, "remedy": remedy})


def _text(value: Any, example: str) -> str:
    if not isinstance(value, str):
        shown = "nothing" if value is None else f"`{value}`"
        raise wrong(f"{shown} stands where text is expected", f"Write it like `{example}`")
    return value


def _quantity(parse: Callable[[str], int], example: str, least: int) -> BeforeValidator:
    def validate(value: Any) -> int:
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            raise wrong(f"`{value}` has no unit", f"Write a number and a unit, for example `{example}`")
        text = _text(value, example)
        try:
            number = parse(text)
        except UnitError as error:
            raise wrong(str(error), f"For example `{example}`") from error
        if number < least:
            raise wrong(f"{text!r} must be positive", f"For example `{example}`")
        return number

    return BeforeValidator(validate)


def _matching(pattern: re.Pattern[str], example: str, rule: str) -> BeforeValidator:
    def validate(value: Any) -> str:
        text = _text(value, example)
        if pattern.fullmatch(text) is None:
            raise wrong(f"{text!r} is not a name that can stand here", f"Use {rule}")
        return text

    return BeforeValidator(validate)


def _line_rate(value: Any) -> int | None:
    if value == "unlimited":
        return None
    rate: int = _quantity(parse_rate_bytes_per_s, "100Gbit/s", 1).func(value)  # type: ignore[call-arg]
    return rate


def _parse_ppm(text: str) -> int:
    match = _PPM.fullmatch(text)
    if match is None:
        raise UnitError(f"{text!r} is not parts per million")
    return int(match[1])


def split_address(text: str) -> tuple[str, int]:
    """Return host and port of ``10.0.0.1:161``, ``[fd00::1]:161`` or ``name:161``.

    Raises:
        ValueError: it is neither.
    """
    match = _ADDRESS.fullmatch(text)
    if match is None or int(match["port"]) > 65_535:
        raise ValueError(f"{text!r} is not an address with a port")
    if match["v6"]:
        return str(ipaddress.IPv6Address(match["v6"])), int(match["port"])
    try:
        return str(ipaddress.IPv4Address(match["host"])), int(match["port"])
    except ValueError:
        # Digits and dots that are no IPv4 address are a slip of the finger, never a name.
        if _HOST_NAME.fullmatch(match["host"]) is None or re.fullmatch(r"[0-9.]+", match["host"]):
            raise
        return match["host"], int(match["port"])


def _address(example: str, *, literal: bool) -> BeforeValidator:
    def validate(value: Any) -> str:
        text = _text(value, example)
        try:
            host, _ = split_address(text)
            if literal:
                ipaddress.ip_address(host)
        except ValueError as error:
            what = "an IP address and a port" if literal else "an address and a port"
            raise wrong(f"{text!r} is not {what}", f"Write it like `{example}`, IPv6 in brackets") from error
        return text

    return BeforeValidator(validate)


def _url(value: Any, example: str, what: str, use: str) -> str:
    text = _text(value, example)
    if "@" in text:
        # Not shown: what stands before it is a user and a password.
        raise wrong(f"a URL with a user or a password stands here; {use} without", f"Write `{example}`")
    try:
        parts = urllib.parse.urlsplit(text)
        fits = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        fits = False
    if not fits or any(character.isspace() for character in text):
        raise wrong(f"{text!r} is not the URL of {what}", f"Write it like `{example}`")
    return text


def _exporter_url(value: Any) -> str:
    return _url(value, "http://10.250.0.31:9100/metrics", "an exporter", "exporters are read")


def _prefix(value: Any) -> str:
    example = "10.77.0.0/24"
    text = _text(value, example)
    remedy = f"Write it like `{example}` or `fd00:77::/64`; one address is `/32` or `/128`"
    if "/" not in text:
        raise wrong(f"{text!r} has no prefix length", remedy)
    try:
        network = ipaddress.ip_network(text)
    except ValueError as error:
        raise wrong(f"{text!r} is not a prefix ({error})", remedy) from error
    return str(network)


def _witness_url(value: Any) -> str:
    return _url(value, "http://192.0.2.9:7480", "a witness", "witnesses are asked")


def _witness_key(value: Any) -> str:
    text = _text(value, "prover.example/witness+0a1b2c3d+BN...")
    remedy = "Copy the line that `weighbridge witness init` printed where the witness runs"
    try:
        key = decode_key(text)
    except VerificationError as error:
        raise wrong(str(error), remedy) from error
    if key.kind is not KeyKind.WITNESS:
        raise wrong(f"{key.name} is a log's key, not a witness's", remedy)
    return text


def _host_key(value: Any) -> str:
    example = "ssh-ed25519 AAAAC3Nza..."
    text = _text(value, example)
    remedy = "Copy it from the DPU's console: `cat /etc/ssh/ssh_host_ed25519_key.pub`, the first two words"
    kind, _, encoded = text.strip().partition(" ")
    encoded = encoded.split(" ", maxsplit=1)[0]
    try:
        blob = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError) as error:
        raise wrong("the host key is not a public key in OpenSSH's form", remedy) from error
    length = int.from_bytes(blob[:4], "big")
    if len(blob) <= 4 + length or blob[4 : 4 + length] != kind.encode():
        raise wrong("the host key is not a public key in OpenSSH's form", remedy)
    return f"{kind} {encoded}"


Name = Annotated[
    str, _matching(_NAME, "node1", "up to 63 letters, digits, '.', '_' and '-', beginning with a letter or digit")
]
LinkName = Annotated[str, _matching(_LINK_NAME, "node1/p0", "letters, digits, '.', '_', '-' and '/'")]
SwitchPort = Annotated[str, _matching(_PORT_NAME, "Ethernet1/1", "the port's ifName, up to 63 printable characters")]
Interface = Annotated[str, _matching(_INTERFACE_NAME, "p0", "an interface name as Linux has it, up to 15 characters")]
Text = Annotated[str, _matching(re.compile(r"(?s).{1,255}"), "some text", "some text")]
Bytes = Annotated[int, _quantity(parse_bytes, "64kB", 0)]
PositiveBytes = Annotated[int, _quantity(parse_bytes, "10MB", 1)]
Rate = Annotated[int, _quantity(parse_rate_bytes_per_s, "10kB/s", 0)]
LineRate = Annotated[int | None, BeforeValidator(_line_rate)]
Duration = Annotated[int, _quantity(parse_duration_ns, "3.5s", 0)]
PositiveDuration = Annotated[int, _quantity(parse_duration_ns, "10s", 1)]
Ppm = Annotated[int, _quantity(_parse_ppm, "1000ppm", 0)]
AgentAddress = Annotated[str, _address("10.250.0.11:7443", literal=True)]
Address = Annotated[str, _address("10.250.0.2:161", literal=False)]
ExporterUrl = Annotated[str, BeforeValidator(_exporter_url)]
Prefix = Annotated[str, BeforeValidator(_prefix)]
WitnessUrl = Annotated[str, BeforeValidator(_witness_url)]
WitnessKey = Annotated[str, BeforeValidator(_witness_key)]
HostKey = Annotated[str, BeforeValidator(_host_key)]
