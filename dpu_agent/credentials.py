"""Mutual TLS: the agent's own certificate, and who may call. The one place that makes server credentials.

grpcio asks no certificate of clients unless told to, and goes on serving a client whose certificate has run out on
an open connection. So every RPC is authorised anew from the certificate that its connection showed:
:func:`authorise` is called by :mod:`dpu_agent.service` before any RPC's first line, and again while a stream is open.
"""

from __future__ import annotations

import re
import stat
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import lru_cache
from pathlib import Path

import grpc
from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization

from dpu_agent.config import AgentConfig
from dpu_agent.errors import CredentialError
from dpu_agent.revocation import NAME, Revocations, UnreadableError

CONTROLLER, AGENT = "controller", "agent"
_URI = re.compile(r"weighbridge://([^/]+)/([^/]+)/([^/]+)", re.ASCII)
_RENEW = "issue it again on the controller and deploy the agent again"


class CallerRejectedError(Exception):
    """The caller's certificate does not allow this call; ``str()`` says why and holds no secret."""


@dataclass(frozen=True, slots=True)
class ServerIdentity:
    """What the agent shows its callers, checked; ``site`` is the one it belongs to."""

    site: str
    certificate_pem: bytes
    key_pem: bytes
    ca_pem: bytes
    not_after: datetime


def load(config: AgentConfig, now: datetime) -> ServerIdentity:
    """Return the agent's identity after checking that its three files belong together and are valid at ``now``.

    1. Read authority, certificate and key; nobody else may read the key.
    2. The key is the certificate's, the authority signed it, and it is valid at ``now``.
    3. It names this agent.

    Raises:
        CredentialError: one of these is not so; the message names the file and the remedy.
    """
    ca_pem, certificate_pem, key_pem = (_read(path) for path in (config.ca, config.certificate, config.key))
    authority, certificate = _certificate(config.ca, ca_pem), _certificate(config.certificate, certificate_pem)
    if stat.S_IMODE(config.key.stat().st_mode) & 0o077:
        raise CredentialError(f"{config.key}: the private key can be read by others; run `chmod 600 {config.key}`")
    try:
        key = serialization.load_pem_private_key(key_pem, None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise CredentialError(f"{config.key}: is not an unencrypted private key in PEM; {_RENEW}") from error
    form = (serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    if key.public_key().public_bytes(*form) != certificate.public_key().public_bytes(*form):
        raise CredentialError(f"{config.key}: is not the key of the certificate in {config.certificate}; {_RENEW}")
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature) as error:
        raise CredentialError(
            f"{config.certificate}: was not signed by the authority in {config.ca}; {_RENEW}"
        ) from error
    if not certificate.not_valid_before_utc <= now <= certificate.not_valid_after_utc:
        raise CredentialError(
            f"{config.certificate}: is valid from {certificate.not_valid_before_utc} to "
            f"{certificate.not_valid_after_utc}, now it is {now}; correct the clock, or {_RENEW}"
        )
    try:
        Revocations(config.ca.with_name(NAME)).current()
    except UnreadableError as error:
        raise CredentialError(f"{error}; give one SHA-256 of a certificate a line, or take the file away") from error
    site, role, name = _identity(certificate) or ("", "", "")
    if (role, name) != (AGENT, config.agent):
        raise CredentialError(
            f"{config.certificate}: is not the certificate of agent {config.agent!r}; name the right file, or {_RENEW}"
        )
    return ServerIdentity(site, certificate_pem, key_pem, ca_pem, certificate.not_valid_after_utc)


def server_credentials(identity: ServerIdentity) -> grpc.ServerCredentials:
    """Return credentials that demand a certificate of the site's authority from every client."""
    pair = (identity.key_pem, identity.certificate_pem)
    return grpc.ssl_server_credentials([pair], root_certificates=identity.ca_pem, require_client_auth=True)


@dataclass(frozen=True, slots=True)
class _Caller:
    """What a client certificate says."""

    identity: tuple[str, str, str]
    not_before: datetime
    not_after: datetime
    sha256: str


@lru_cache(maxsize=16)
def _caller(pem: bytes) -> _Caller:
    """Return what a client certificate says; kept, because a stream asks again before every frame.

    Raises:
        CallerRejectedError: it names no identity of ours.
    """
    try:
        certificate = x509.load_pem_x509_certificate(pem)
    except ValueError as error:
        raise CallerRejectedError("the client certificate cannot be read") from error
    identity = _identity(certificate)
    if identity is None:
        raise CallerRejectedError("the client certificate names no identity of the form weighbridge://SITE/ROLE/NAME")
    sha256 = certificate.fingerprint(hashes.SHA256()).hex()
    return _Caller(identity, certificate.not_valid_before_utc, certificate.not_valid_after_utc, sha256)


def authorise(peer_certificates: list[bytes], site: str, now: datetime, revoked: Revocations) -> datetime:
    """Return until when the caller may call: it is a controller of ``site``; its certificate is valid, not revoked.

    That the site's authority signed the certificate is TLS's to check, and was checked before any RPC.

    Raises:
        CallerRejectedError: it may not.
    """
    if len(peer_certificates) != 1:
        raise CallerRejectedError("the connection shows no client certificate")
    caller = _caller(peer_certificates[0])
    site_named, role, _ = caller.identity
    if site_named != site:
        raise CallerRejectedError(f"the client certificate belongs to site {site_named!r}, this agent to {site!r}")
    if role != CONTROLLER:
        raise CallerRejectedError(f"the client certificate has the role {role!r}, this call needs {CONTROLLER!r}")
    if not caller.not_before <= now <= caller.not_after:
        raise CallerRejectedError(
            f"the client certificate is valid from {caller.not_before} to {caller.not_after}; here it is {now}: "
            "connect again with a valid one"
        )
    try:
        if caller.sha256 in revoked.current():
            raise CallerRejectedError("the client certificate was revoked: connect again with another one")
    except UnreadableError as error:
        raise CallerRejectedError(str(error)) from error
    return caller.not_after


def utc_now() -> datetime:
    """Return the wall clock, to which certificates' dates refer."""
    return datetime.now(timezone.utc)


def _identity(certificate: x509.Certificate) -> tuple[str, str, str] | None:
    """Return site, role and name if the certificate names exactly one identity of ours."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, x509.DuplicateExtension, ValueError):
        return None
    uris = names.get_values_for_type(x509.UniformResourceIdentifier)
    match = _URI.fullmatch(uris[0]) if len(uris) == 1 else None
    return (match[1], match[2], match[3]) if match else None


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise CredentialError(f"{path}: is not there; correct the configuration, or {_RENEW}") from error
    except OSError as error:
        raise CredentialError(f"{path}: cannot be read ({error.strerror}); check its owner and mode") from error


def _certificate(path: Path, pem: bytes) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(pem)
    except ValueError as error:
        raise CredentialError(f"{path}: is not a certificate in PEM; {_RENEW}") from error
