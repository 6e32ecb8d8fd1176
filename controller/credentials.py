"""Read certificates and keys from files, and refuse what would fail later, at the first call to a DPU.

Each refusal names the file, what is wrong with it and the remedy.
"""

from __future__ import annotations

import re
import stat
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from controller.errors import OperatorError
from controller.pki import CertificateAuthority, Identity, Role, ca_site, encode_key, whole_second

_URI = re.compile(r"weighbridge://([^/]+)/([^/]+)/([^/]+)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Credential:
    """What one end of a mutual TLS connection needs, checked: all PEM; ``addresses`` are those it may serve at."""

    identity: Identity
    ca_pem: bytes
    certificate_pem: bytes
    key_pem: bytes
    not_before: datetime
    not_after: datetime
    addresses: tuple[str, ...] = ()


def load_ca_certificate(path: Path, *, now: datetime | None = None) -> x509.Certificate:
    """Return the authority's certificate in ``path``.

    Raises:
        OperatorError: missing, unreadable, not an authority of ours, or not valid at ``now``.
    """
    certificate = _load_certificate(path)
    try:
        constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value
    except (x509.ExtensionNotFound, ValueError) as error:
        raise OperatorError(f"{path}: is not an authority's certificate; give the site's ca.pem") from error
    if not constraints.ca:
        raise OperatorError(f"{path}: is not an authority's certificate; give the site's ca.pem")
    _check_dates(path, certificate, whole_second(now), "make a new authority with `weighbridge pki init`")
    return certificate


def load_ca(directory: Path, *, now: datetime | None = None) -> CertificateAuthority:
    """Return the authority in ``directory`` (``ca.pem`` and ``ca.key``), able to sign.

    Raises:
        OperatorError: as :func:`load_ca_certificate`, or the key is missing, unreadable,
            readable by others, or not its.
    """
    certificate = load_ca_certificate(directory / "ca.pem", now=now)
    key = _load_key(directory / "ca.key")
    _check_pair(directory / "ca.pem", certificate, directory / "ca.key", key)
    return CertificateAuthority(certificate, key)


def load_credential(certificate: Path, key: Path, ca: Path, *, now: datetime | None = None) -> Credential:
    """Return one end's credential after checking that its three files belong together and are valid at ``now``.

    1. Read the authority, the certificate and the key.
    2. The key is the certificate's; the authority signed the certificate; both are valid at ``now``.
    3. The certificate names one identity of the authority's site.

    Raises:
        OperatorError: one of these is not so; the message names the file and the remedy.
    """
    trusted = load_ca_certificate(ca, now=now)
    leaf = _load_certificate(certificate)
    private = _load_key(key)
    _check_pair(certificate, leaf, key, private)
    try:
        leaf.verify_directly_issued_by(trusted)
    except (ValueError, TypeError, InvalidSignature) as error:
        raise OperatorError(
            f"{certificate}: was not signed by the authority in {ca}; issue it again with `weighbridge pki issue`, "
            "or name the authority that signed it"
        ) from error
    _check_dates(certificate, leaf, whole_second(now), "issue a new one with `weighbridge pki issue --renew`")
    identity = identity_of(leaf, certificate)
    if identity.site != ca_site(trusted):
        raise OperatorError(
            f"{certificate}: belongs to site {identity.site!r}, the authority in {ca} to {ca_site(trusted)!r}; "
            "use the certificate of this site"
        )
    return Credential(
        identity,
        trusted.public_bytes(serialization.Encoding.PEM),
        leaf.public_bytes(serialization.Encoding.PEM),
        encode_key(private),
        leaf.not_valid_before_utc,
        leaf.not_valid_after_utc,
        _addresses(leaf),
    )


def identity_of(certificate: x509.Certificate, place: Path | str) -> Identity:
    """Return the one identity ``certificate`` names; ``place`` is where it came from, for the message.

    Raises:
        OperatorError: it names none, more than one, or one that is not ours.
    """
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        uris = names.get_values_for_type(x509.UniformResourceIdentifier)
    except (x509.ExtensionNotFound, ValueError):
        uris = []
    match = _URI.fullmatch(uris[0]) if len(uris) == 1 else None
    if match is None or match[2] not in {role.value for role in Role}:
        raise OperatorError(
            f"{place}: names no identity of the form weighbridge://SITE/controller|agent/NAME; "
            "issue it with `weighbridge pki issue`"
        )
    return Identity(match[1], Role(match[2]), match[3])


def _addresses(certificate: x509.Certificate) -> tuple[str, ...]:
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return tuple(str(address) for address in names.get_values_for_type(x509.IPAddress))


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise OperatorError(
            f"{path}: is not there; make it with `weighbridge pki init` or `weighbridge pki issue`, "
            "or correct the path in the site file"
        ) from error
    except OSError as error:
        raise OperatorError(f"{path}: cannot be read ({error.strerror}); check its owner and mode") from error


def _load_certificate(path: Path) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(_read(path))
    except ValueError as error:
        raise OperatorError(f"{path}: is not a PEM certificate; issue it again with `weighbridge pki issue`") from error


def _load_key(path: Path) -> ec.EllipticCurvePrivateKey:
    content = _read(path)
    if stat.S_IMODE(path.stat().st_mode) & 0o077:
        raise OperatorError(f"{path}: a private key that others can read; run `chmod 600 {path}`")
    try:
        key = serialization.load_pem_private_key(content, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise OperatorError(
            f"{path}: is not an unencrypted PEM private key; issue it again with `weighbridge pki issue`"
        ) from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise OperatorError(f"{path}: is not an ECDSA key; issue it again with `weighbridge pki issue`")
    return key


def _check_pair(
    certificate_path: Path, certificate: x509.Certificate, key_path: Path, key: ec.EllipticCurvePrivateKey
) -> None:
    if certificate.public_key() != key.public_key():
        raise OperatorError(
            f"{key_path}: is not the key of {certificate_path}; "
            "put the two that belong together beside each other, or issue both again with `weighbridge pki issue`"
        )


def _check_dates(path: Path, certificate: x509.Certificate, now: datetime, remedy: str) -> None:
    if now >= certificate.not_valid_after_utc:
        raise OperatorError(f"{path}: expired at {certificate.not_valid_after_utc} (it is {now}); {remedy}")
    if now < certificate.not_valid_before_utc:
        raise OperatorError(
            f"{path}: is valid only from {certificate.not_valid_before_utc} (it is {now}); check this machine's clock, "
            f"or {remedy}"
        )
