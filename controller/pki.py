"""The site's own small X.509 authority: who may speak to whom on the management network.

One ECDSA P-256 key signs every certificate of a site. A certificate says who its holder is in one URI,
``weighbridge://<site>/<role>/<name>``; the role there, not the subject, decides what an RPC may do. An agent's
certificate serves and never calls, a controller's calls and never serves (extended key usage), so that a key stolen
from a DPU cannot read another DPU. P-256 rather than Ed25519 because gRPC's TLS does not offer Ed25519 by default.

Here certificates are made and written; :mod:`controller.credentials` reads and checks them.
"""

from __future__ import annotations

import enum
import ipaddress
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from controller.errors import OperatorError

# Short enough that a forgotten DPU falls silent within a quarter, long enough for one renewal a month to be late twice.
LEAF_LIFETIME = timedelta(days=90)
# The authority's key stays with the operator, off the network; replacing it means deploying to every DPU.
CA_LIFETIME = timedelta(days=3650)
# Certificates begin a little in the past: a DPU's clock may be behind the controller's by some minutes.
CLOCK_SKEW = timedelta(minutes=5)

PRIVATE_MODE = 0o600
PUBLIC_MODE = 0o644

# Names become file names and parts of a URI, so the grammar leaves nothing to escape.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", re.ASCII)


class Role(enum.Enum):
    """What the holder of a certificate is."""

    CONTROLLER = "controller"
    AGENT = "agent"


_USAGE = {Role.CONTROLLER: ExtendedKeyUsageOID.CLIENT_AUTH, Role.AGENT: ExtendedKeyUsageOID.SERVER_AUTH}


@dataclass(frozen=True, slots=True)
class Identity:
    """Who the holder of a certificate is, as its URI says."""

    site: str
    role: Role
    name: str

    @property
    def uri(self) -> str:
        """``weighbridge://<site>/<role>/<name>``."""
        return f"weighbridge://{self.site}/{self.role.value}/{self.name}"


@dataclass(frozen=True, slots=True)
class CertificateAuthority:
    """A site's authority with its private key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def site(self) -> str:
        """The site's name, from the authority's subject."""
        return ca_site(self.certificate)

    @property
    def certificate_pem(self) -> bytes:
        """The certificate, PEM."""
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    @property
    def key_pem(self) -> bytes:
        """The private key, PKCS #8 PEM, not encrypted."""
        return encode_key(self.key)


@dataclass(frozen=True, slots=True)
class IssuedCertificate:
    """A certificate and its private key, both PEM, not yet on disk."""

    identity: Identity
    certificate_pem: bytes
    key_pem: bytes
    not_after: datetime


def check_name(what: str, name: str) -> str:
    """Return ``name`` if it can stand in a file name and a URI.

    Raises:
        OperatorError: it cannot.
    """
    if not _NAME.fullmatch(name):
        raise OperatorError(
            f"the {what} name {name!r} cannot stand in a certificate; use up to 63 ASCII letters, digits, "
            "'.', '_' and '-', the first a letter or digit"
        )
    return name


def create_ca(site: str, *, lifetime: timedelta = CA_LIFETIME, now: datetime | None = None) -> CertificateAuthority:
    """Return a new authority for ``site``, nothing written.

    Raises:
        OperatorError: the site's name cannot stand in a certificate.
    """
    start = whole_second(now)
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _subject(check_name("site", site), f"weighbridge {site} CA"[:64])
    builder = (
        _builder(subject, subject, key.public_key(), start, start + lifetime)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
    )
    return CertificateAuthority(builder.sign(key, hashes.SHA256()), key)


def issue_certificate(
    ca: CertificateAuthority,
    role: Role,
    name: str,
    ip: str | None,
    lifetime: timedelta = LEAF_LIFETIME,
    *,
    now: datetime | None = None,
) -> IssuedCertificate:
    """Return a new key and its certificate, nothing written.

    1. Check the name and the address; an agent must have an address, clients check it.
    2. Make a fresh P-256 key.
    3. Sign: the identity as URI, the address as IP, one extended key usage by role, never an authority itself,
       ending with the authority at the latest.

    Args:
        ca: the site's authority.
        role: decides the extended key usage.
        name: the agent's or controller's name.
        ip: the address others connect to, without port; ``None`` for who never serves.
        lifetime: from ``now``; the certificate begins :data:`CLOCK_SKEW` earlier.
        now: the time to count from; the wall clock's when absent.

    Raises:
        OperatorError: a bad name or address, or an authority that is not valid at ``now``.
    """
    identity = Identity(ca.site, role, check_name(role.value, name))
    alternatives: list[x509.GeneralName] = [x509.UniformResourceIdentifier(identity.uri)]
    if ip is not None:
        try:
            alternatives.append(x509.IPAddress(ipaddress.ip_address(ip)))
        except ValueError as error:
            raise OperatorError(
                f"{identity.uri}: {ip!r} is not an IP address; give the management address alone, without port"
            ) from error
    elif role is Role.AGENT:
        raise OperatorError(f"{identity.uri}: an agent's certificate needs its management IP address; give it")
    start = whole_second(now)
    if not ca.certificate.not_valid_before_utc <= start < ca.certificate.not_valid_after_utc:
        raise OperatorError(
            f"the authority of site {ca.site!r} is valid from {ca.certificate.not_valid_before_utc} to "
            f"{ca.certificate.not_valid_after_utc}, not now ({start}); make a new one with `weighbridge pki init`"
        )
    end = min(start + lifetime, ca.certificate.not_valid_after_utc)
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = (
        _builder(_subject(ca.site, f"{role.value} {name}"[:64]), ca.certificate.subject, key.public_key(), start, end)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([_USAGE[role]]), critical=False)
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ca.key.public_key()), critical=False)
        .sign(ca.key, hashes.SHA256())
    )
    pem = certificate.public_bytes(serialization.Encoding.PEM)
    return IssuedCertificate(identity, pem, encode_key(key), certificate.not_valid_after_utc)


def create_site_pki(
    directory: Path, *, site: str, controller: str, agents: Mapping[str, str], lifetime: timedelta = LEAF_LIFETIME
) -> None:
    """Write a new authority and a certificate for the controller and for each agent.

    Files: ``ca.pem``, ``ca.key``, ``controller.pem``, ``controller.key``, ``agents/<name>.pem``, ``agents/<name>.key``;
    keys with mode 0600.

    Args:
        directory: made when it is not there; other files in it are left alone.
        site: the site's name.
        controller: the controller's name.
        agents: agent name -> management IP address.
        lifetime: of the certificates, not of the authority.

    Raises:
        OperatorError: a bad name or address, or one of the files is already there; nothing was written.
    """
    ca = create_ca(site)
    stems = {directory / "controller": issue_certificate(ca, Role.CONTROLLER, controller, None, lifetime)}
    for name, ip in agents.items():
        stems[agent_stem(directory, name)] = issue_certificate(ca, Role.AGENT, name, ip, lifetime)
    authority = (directory / "ca.key", directory / "ca.pem")
    refuse_existing([*authority, *(with_ending(stem, ending) for stem in stems for ending in (".key", ".pem"))])
    write_new(authority[0], ca.key_pem, PRIVATE_MODE)
    write_new(authority[1], ca.certificate_pem, PUBLIC_MODE)
    for stem, issued in stems.items():
        write_issued(stem, issued)


def write_issued(stem: Path, issued: IssuedCertificate, *, renew: bool = False) -> None:
    """Write ``issued`` as ``<stem>.pem`` and ``<stem>.key``.

    With ``renew`` what is there is replaced, the key first: should this stop between the two, loading the pair says
    that they do not belong together, and nothing runs on half of a renewal.

    Raises:
        OperatorError: without ``renew`` one of the files is there; or they cannot be written.
    """
    key, certificate = with_ending(stem, ".key"), with_ending(stem, ".pem")
    if not renew:
        refuse_existing([key, certificate])
    for path, content, mode in (
        (key, issued.key_pem, PRIVATE_MODE),
        (certificate, issued.certificate_pem, PUBLIC_MODE),
    ):
        if not renew:
            write_new(path, content, mode)
            continue
        fresh = with_ending(path, ".new")
        fresh.unlink(missing_ok=True)
        write_new(fresh, content, mode)
        fresh.replace(path)


def agent_stem(directory: Path, name: str) -> Path:
    """Return the path of agent ``name``'s files without their ending."""
    return directory / "agents" / check_name("agent", name)


def with_ending(stem: Path, ending: str) -> Path:
    """Return ``stem`` + ``ending``; :meth:`Path.with_suffix` would eat the end of a name with a dot in it."""
    return stem.with_name(stem.name + ending)


def refuse_existing(paths: Iterable[Path]) -> None:
    """Return if none of ``paths`` is there.

    Raises:
        OperatorError: one is; a key that is in use is never replaced silently.
    """
    for path in paths:
        if path.exists() or path.is_symlink():
            raise OperatorError(
                f"{path}: is already there and was left alone; move it away first if it is to be replaced "
                "(agents that trust the old authority must then be deployed again)"
            )


def write_new(path: Path, content: bytes, mode: int) -> None:
    """Write a file that must not be there yet, on disk when this returns, never readable by more than ``mode`` says.

    Raises:
        OperatorError: it is there, or cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        try:
            with os.fdopen(descriptor, "wb") as file:
                os.fchmod(file.fileno(), mode)
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        except OSError:
            # Half a file would stand in the way of the whole one for ever.
            path.unlink(missing_ok=True)
            raise
    except FileExistsError as error:
        raise OperatorError(f"{path}: is already there and was left alone; move it away first") from error
    except OSError as error:
        raise OperatorError(
            f"{path}: cannot be written ({error.strerror}); check the directory and its owner"
        ) from error


def ca_site(certificate: x509.Certificate) -> str:
    """Return the site an authority's certificate is for, empty when it names none."""
    values = certificate.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    return str(values[0].value) if values else ""


def whole_second(now: datetime | None) -> datetime:
    """Return ``now``, or the wall clock's time, cut to the second: X.509 times have no fraction."""
    return (now if now is not None else datetime.now(timezone.utc)).replace(microsecond=0)


def _subject(site: str, common_name: str) -> x509.Name:
    return x509.Name(
        [x509.NameAttribute(NameOID.ORGANIZATION_NAME, site), x509.NameAttribute(NameOID.COMMON_NAME, common_name)]
    )


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, start: datetime, end: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(start - CLOCK_SKEW)
        .not_valid_after(end)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def encode_key(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Return ``key`` as PKCS #8 PEM, not encrypted."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
