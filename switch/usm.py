"""The User-based Security Model of an SNMPv3 client: keys, digests, encryption, time window. No socket, no clock.

Sources: RFC 3414 (the model, its key localization in 2.6 and A.2, the time window in 3.2.7), RFC 7860 (SHA-2
digests), RFC 3826 (AES-128), draft-blumenthal-aes-usm-04 (AES-256; its key is the localized one, as every digest
offered here is at least as long). The primitives are hashlib's, hmac's and cryptography's.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass

from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES

from switch.security import Authentication, Privacy, UserSecurity

try:  # where AES in CFB mode lives: SNMP is the last to use it
    from cryptography.hazmat.decrepit.ciphers.modes import CFB
except ImportError:  # cryptography before 47
    from cryptography.hazmat.primitives.ciphers.modes import CFB

SALT_OCTETS = 8
TIME_WINDOW_S = 150
MOST_BOOTS = 2**31 - 1
"""An engine that was started this often answers nobody (RFC 3414, section 2.2.1)."""
LEAST_ENGINE_ID_OCTETS, MOST_ENGINE_ID_OCTETS = 5, 32  # RFC 3411, SnmpEngineID

_NS_PER_S = 1_000_000_000
_EXPANDED_OCTETS = 1_048_576  # RFC 3414, A.2
_DIGEST_OCTETS = {"sha256": 24, "sha384": 32, "sha512": 48}  # RFC 7860, section 4.2
_CIPHER_KEY_OCTETS = {Privacy.AES128: 16, Privacy.AES256: 32}


@dataclass(frozen=True, slots=True, repr=False)
class Keys:
    """A user's keys for one engine."""

    hash_name: str
    digest_octets: int
    authentication: bytes
    privacy: bytes


def localized(security: UserSecurity, engine_id: bytes) -> Keys:
    """Return the keys of a user for the engine ``engine_id``. Takes some milliseconds: a megabyte is hashed for each.

    Raises:
        ValueError: ``engine_id`` has a length that no engine id has.
    """
    if not LEAST_ENGINE_ID_OCTETS <= len(engine_id) <= MOST_ENGINE_ID_OCTETS:
        raise ValueError(f"it has {len(engine_id)} octets, not {LEAST_ENGINE_ID_OCTETS} to {MOST_ENGINE_ID_OCTETS}")
    name = {Authentication.SHA256: "sha256", Authentication.SHA384: "sha384", Authentication.SHA512: "sha512"}[
        security.authentication
    ]
    return Keys(
        name,
        _DIGEST_OCTETS[name],
        _localize(name, security.authentication_phrase, engine_id),
        _localize(name, security.privacy_phrase, engine_id)[: _CIPHER_KEY_OCTETS[security.privacy]],
    )


def _localize(name: str, phrase: str, engine_id: bytes) -> bytes:
    octets = phrase.encode()
    repeated = octets * (_EXPANDED_OCTETS // len(octets) + 1)
    key = hashlib.new(name, repeated[:_EXPANDED_OCTETS]).digest()
    return hashlib.new(name, key + engine_id + key).digest()


def digest(keys: Keys, message: bytes) -> bytes:
    """Return the authentication parameters of ``message``, which has zeros in their place."""
    return hmac.digest(keys.authentication, message, keys.hash_name)[: keys.digest_octets]


def authentic(keys: Keys, message: bytes, start: int, stop: int) -> bool:
    """Whether the octets from ``start`` to ``stop`` of ``message`` are its digest."""
    if stop - start != keys.digest_octets:
        return False
    blank = message[:start] + bytes(stop - start) + message[stop:]
    return hmac.compare_digest(digest(keys, blank), message[start:stop])


def encrypted(keys: Keys, boots: int, seconds: int, salt: bytes, plain: bytes) -> bytes:
    """Return ``plain`` encrypted; boots, time and salt make the initialization vector (RFC 3826, section 3.1.2.1)."""
    encryptor = _cipher(keys, boots, seconds, salt).encryptor()
    return encryptor.update(plain) + encryptor.finalize()


def decrypted(keys: Keys, boots: int, seconds: int, salt: bytes, octets: bytes) -> bytes:
    """Return what :func:`encrypted` made ``octets`` of."""
    decryptor = _cipher(keys, boots, seconds, salt).decryptor()
    return decryptor.update(octets) + decryptor.finalize()


def _cipher(keys: Keys, boots: int, seconds: int, salt: bytes) -> Cipher[CFB]:
    return Cipher(AES(keys.privacy), CFB(boots.to_bytes(4, "big") + seconds.to_bytes(4, "big") + salt))


class EngineClock:
    """Our notion of an engine's boots and time (RFC 3414, section 2.3), moved by authenticated messages only."""

    def __init__(self) -> None:
        self._boots = self._latest_s = self._at_ns = 0

    def now(self, now_ns: int) -> tuple[int, int]:
        """Return boots and time in seconds; 0 and 0 before anything was learnt."""
        if not self._boots and not self._latest_s:
            return 0, 0
        return self._boots, min(MOST_BOOTS, self._latest_s + (now_ns - self._at_ns) // _NS_PER_S)

    def accept(self, boots: int, seconds: int, now_ns: int) -> bool:
        """Learn from an authenticated message; return whether it is in the time window (RFC 3414, section 3.2.7 b)."""
        if boots > self._boots or (boots == self._boots and seconds > self._latest_s):
            self._boots, self._latest_s, self._at_ns = boots, seconds, now_ns
        if boots == MOST_BOOTS or boots < self._boots:
            return False
        return seconds >= self.now(now_ns)[1] - TIME_WINDOW_S
