"""How an agent is spoken to: who we are, how messages are protected, how long we wait, and by which client."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TypeAlias

LEAST_PASS_PHRASE_OCTETS = 8
"""The least a pass phrase may have (RFC 3414, section 11.2)."""
MOST_USER_OCTETS = 32
"""The most a user name may have (RFC 3414, section 5)."""


class SecurityError(ValueError):
    """Credentials that cannot be used; nothing was sent."""


class Client(enum.Enum):
    """What makes and reads the messages; what is read is the same (docs/adr/0144-a-client-of-our-own.md)."""

    PYSNMP = "pysnmp"
    DIRECT = "direct"


class Authentication(enum.Enum):
    """How messages are authenticated (RFC 7860). MD5 and SHA-1 are not offered: they no longer prove anything."""

    SHA256 = "sha256"
    SHA384 = "sha384"
    SHA512 = "sha512"


class Privacy(enum.Enum):
    """How messages are encrypted: RFC 3826, and the widespread draft for 256 bits. DES is not offered."""

    AES128 = "aes128"
    AES256 = "aes256"


@dataclass(frozen=True, slots=True)
class UserSecurity:
    """SNMPv3 at level authPriv, the only level there is here.

    ``kept_in`` says where user and pass phrases are written down, for whoever has to correct them.

    Raises:
        SecurityError: the user name or a pass phrase has an impossible length.
    """

    user: str
    authentication: Authentication
    authentication_phrase: str = field(repr=False)
    privacy: Privacy
    privacy_phrase: str = field(repr=False)
    kept_in: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        if not 0 < len(self.user.encode()) <= MOST_USER_OCTETS:
            raise SecurityError(f"the SNMPv3 user name {self.user!r} must have 1 to {MOST_USER_OCTETS} octets")
        phrases = (("authentication", self.authentication_phrase), ("privacy", self.privacy_phrase))
        for what, phrase in phrases:
            if len(phrase.encode()) < LEAST_PASS_PHRASE_OCTETS:
                raise SecurityError(
                    f"the {what} pass phrase of SNMPv3 user {self.user!r} is shorter than "
                    f"{LEAST_PASS_PHRASE_OCTETS} octets; agents refuse it (RFC 3414, section 11.2)"
                )


@dataclass(frozen=True, slots=True)
class InsecureCommunity:
    """SNMPv2c: whoever reaches the management network can read and forge the answers.

    Raises:
        SecurityError: ``insecure`` was not said.
    """

    community: str = field(repr=False)
    insecure: bool = False

    def __post_init__(self) -> None:
        if not self.insecure:
            raise SecurityError(
                "SNMPv2c answers can be forged by anyone on the management network; "
                "use SNMPv3, or say insecure explicitly"
            )
        if not self.community:
            raise SecurityError("the SNMPv2c community is empty")


Security: TypeAlias = "UserSecurity | InsecureCommunity"


@dataclass(frozen=True, slots=True)
class Timing:
    """How long an agent may take. All in nanoseconds.

    Attributes:
        timeout_ns: for one transmission. Longer than the agent's worst answer, or it never succeeds: each
            retransmission is a new request whose predecessor's answer is dropped.
        attempts: transmissions of one request, at least 1.
        deadline_ns: for a whole look at a device, whatever happens inside.
    """

    timeout_ns: int = 2_000_000_000
    attempts: int = 2
    deadline_ns: int = 10_000_000_000

    def __post_init__(self) -> None:
        if self.timeout_ns <= 0 or self.attempts < 1 or self.deadline_ns < self.timeout_ns:
            raise SecurityError(f"impossible timing: {self}; the deadline must leave room for one timeout")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where an agent listens: a numeric address or a name, and a UDP port."""

    host: str
    port: int = 161

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"
