"""What a client shares with an agent over SNMPv3: its engine, the user's keys for it, boots and time. No socket."""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from switch.asking import Level
from switch.ber import OCTET_STRING, BerError, element
from switch.message import (
    AUTH_FLAG,
    PRIV_FLAG,
    REPORT,
    REPORTABLE_FLAG,
    Outer,
    Pdu,
    Protected,
    discovery_pdu,
    read_ciphertext,
    read_protected,
    read_scoped,
    scoped,
    write_v3,
)
from switch.security import UserSecurity
from switch.usm import SALT_OCTETS, EngineClock, Keys, authentic, decrypted, digest, encrypted, localized

_FLAGS = {Level.NO_AUTH: 0, Level.AUTH_NO_PRIV: AUTH_FLAG, Level.AUTH_PRIV: AUTH_FLAG | PRIV_FLAG}
_LEVELS = {flags: level for level, flags in _FLAGS.items()}


class UnusableError(Exception):
    """A readable message that must not be used; ``str()`` says why."""


@dataclass(frozen=True, slots=True)
class Opened:
    """A message that passed: its content, and engine id in hex, boots and time in seconds from its header."""

    pdu: Pdu
    header: tuple[str, int, int]


def discovery(identity: int, most_octets: int) -> bytes:
    """Return the message that asks whoever receives it for its engine id (RFC 3414, section 4)."""
    content = scoped(b"", discovery_pdu(identity))
    return write_v3(identity, most_octets, REPORTABLE_FLAG, content=content)[0]


def named_engine(datagram: bytes, outer: Outer) -> bytes:
    """Return the engine id in the answer to a discovery. It proves nothing: anyone could have sent it.

    Raises:
        BerError: the message is not readable.
    """
    return read_protected(datagram, outer).engine_id


class UserSession:
    """Protects questions to an engine, and opens its answers."""

    def __init__(self, security: UserSecurity) -> None:
        self._security, self._user = security, security.user.encode()
        self._engine = b""
        self._keys: Keys | None = None
        self._known: tuple[bytes, Keys] | None = None
        self._clock = EngineClock()
        self._salt = secrets.randbits(8 * SALT_OCTETS)

    def adopt(self, engine_id: bytes) -> None:
        """Speak to this engine from now on; its keys are made once.

        Raises:
            ValueError: it is no engine id.
        """
        if self._known is None or self._known[0] != engine_id:
            self._known = (engine_id, localized(self._security, engine_id))
        self._engine, self._keys = self._known

    def forget(self) -> None:
        """Forget which engine it is, and its boots and time.

        What an agent answers still has to bear the random id of a question of ours, encrypted: older answers stay
        worthless, and an agent that lost count of its boots can be read again.
        """
        self._engine, self._keys, self._clock = b"", None, EngineClock()

    def protect(self, identity: int, most_octets: int, pdu: bytes, level: Level, now_ns: int) -> bytes:
        """Return the message that carries ``pdu`` at a level of authentication.

        Raises:
            ValueError: no engine was adopted.
        """
        if self._keys is None:
            raise ValueError("no engine is known to speak to")
        boots, seconds = self._clock.now(now_ns)
        salt, content = b"", scoped(self._engine, pdu)
        if level is Level.AUTH_PRIV:
            # Counted from a random start, so that none is used twice with a key (RFC 3826, section 3.1.2.1).
            self._salt = (self._salt + 1) % 2 ** (8 * SALT_OCTETS)
            salt = self._salt.to_bytes(SALT_OCTETS, "big")
            content = element(OCTET_STRING, encrypted(self._keys, boots, seconds, salt, content))
        message, place = write_v3(
            identity,
            most_octets,
            _FLAGS[level] | REPORTABLE_FLAG,
            engine_id=self._engine,
            boots=boots,
            seconds=seconds,
            user=self._user,
            digest_octets=self._keys.digest_octets,
            salt=salt,
            content=content,
        )
        return message[:place] + digest(self._keys, message) + message[place + self._keys.digest_octets :]

    def unprotect(self, datagram: bytes, outer: Outer, level: Level, now_ns: int) -> Opened:
        """Return what a message says that answers one of ours at ``level``.

        1. Whatever says that it is authenticated must come from our engine to our user, with our digest, in the time
           window (RFC 3414, section 3.2); only then are boots and time learnt from it.
        2. Decrypt what is encrypted.
        3. A response must have the level of its question and be about our engine's default context. A report may
           have a lower one: an agent that does not know our keys can use none.

        Raises:
            BerError: it is not readable.
            UnusableError: it must not be used.
        """
        parts = read_protected(datagram, outer)
        found = _LEVELS.get(outer.flags & (AUTH_FLAG | PRIV_FLAG))
        if found is None:
            raise BerError("encrypted and not authenticated")
        content, at = datagram, parts.content
        if found is not Level.NO_AUTH:
            keys = self._authenticate(datagram, parts, now_ns)
            if found is Level.AUTH_PRIV:
                if len(parts.salt) != SALT_OCTETS:
                    raise BerError("a salt of another length")
                ciphertext = read_ciphertext(datagram, at)
                content, at = decrypted(keys, parts.boots, parts.seconds, parts.salt, ciphertext), 0
        engine_id, context, pdu = read_scoped(content, at)
        if pdu.tag != REPORT and (found is not level or engine_id != self._engine or context):
            raise UnusableError("it is less protected than the question, or about another context")
        return Opened(pdu, (parts.engine_id.hex(), parts.boots, parts.seconds))

    def _authenticate(self, datagram: bytes, parts: Protected, now_ns: int) -> Keys:
        if self._keys is None or parts.engine_id != self._engine or parts.user != self._user:
            raise UnusableError("it comes from another engine or is for another user")
        if not authentic(self._keys, datagram, parts.digest_start, parts.digest_stop):
            raise UnusableError("its digest is wrong")
        if not self._clock.accept(parts.boots, parts.seconds, now_ns):
            raise UnusableError("it is not in the time window: the agent's boots or time went back")
        return self._keys
