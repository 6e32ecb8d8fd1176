"""Whether a received frame is the agent's next: signature, number and chain, in that order. Pure.

Rules:

1. The bytes are a signed frame of a version this controller knows, and it names the agent it came from.
2. The signature over the body is the enrolled key's.
3. The frame numbered one above the last carries the SHA-256 of the last one's signed bytes; frame 1 carries none.
4. A number passed over is frames that never came. The frame is still the agent's word and is kept; the hole is said.
   The agent declares what it dropped (``Frame.losses``) in a signed frame; that frame may come later.
5. A number above 2^62 is none: the journal could not hold it, or nothing after it.
6. A number not above the last is a repetition. The journal knows the bytes it has under that number and decides.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from controller.collect.attempts import Look, LookFailed, Reason
from protos.signing import SignatureRejected, SigningDomain, verify
from protos.v1 import frame_pb2
from protos.wire import WireError, parse_signed_frame

MAX_SEQUENCE = 2**62
"""Far above what counting reaches, and what the journal can still number."""


@dataclass(frozen=True, slots=True)
class ReceivedFrame:
    """A frame that may be journaled.

    Attributes:
        raw: the exact bytes of the SignedFrame as received.
        received_ns: when it was received, on the timeline.
        sequence: its own number.
        number: the journal's number for it (:mod:`controller.framenumbers`).
        missing: first and last number passed over before it, or None.
        repeated: its number was there before.
        class_table_sha256: of the class table it was counted by; empty where there was none.
    """

    raw: bytes
    received_ns: int
    sequence: int
    number: int
    missing: tuple[int, int] | None
    repeated: bool
    class_table_sha256: bytes = b""


class FrameChain:
    """One agent's chain, from the last frame that the controller holds."""

    def __init__(self, agent: str, public_key: Ed25519PublicKey, *, last: bytes | None, base: int = 0) -> None:
        """Continue after ``last``, the SignedFrame bytes of this key's newest journaled frame; None at the beginning.

        ``base`` is what the journal adds to the frames' own numbers.

        Raises:
            WireError: ``last`` is not a frame.
        """
        self._agent, self._key, self._base = agent, public_key, base
        self.last_sequence = 0
        self._last_sha256 = b""
        if last is not None:
            signed, frame = parse_signed_frame(last)
            self._hold(signed, frame)

    def accept(self, raw: bytes, *, received_ns: int) -> ReceivedFrame:
        """Return the frame in ``raw``, received then, by the module's rules, and hold it as the last.

        Raises:
            LookFailed: it breaks a rule; the chain stays where it was.
        """
        try:
            signed, frame = parse_signed_frame(raw)
        except WireError as error:
            raise LookFailed(Look.FRAMES, Reason.MALFORMED, f"agent {self._agent} sent {error}") from error
        try:
            verify(self._key, SigningDomain.FRAME, signed.body, signed.signature)
        except SignatureRejected as error:
            raise LookFailed(
                Look.FRAMES,
                Reason.BAD_SIGNATURE,
                f"agent {self._agent} sent frame {frame.sequence} with a signature that is not of its enrolled key; "
                "it was not accepted. If the DPU was replaced, enrol the new one under a new name.",
            ) from error
        if frame.agent != self._agent:
            raise LookFailed(
                Look.FRAMES,
                Reason.BROKEN_CHAIN,
                f"agent {self._agent} sent a frame that names {frame.agent!r}; it was not accepted.",
                evidence=raw,
            )
        if frame.sequence > MAX_SEQUENCE:
            raise LookFailed(
                Look.FRAMES,
                Reason.MALFORMED,
                f"agent {self._agent} sent a frame numbered {frame.sequence}, which no agent reaches by counting; "
                "it was not accepted. Look into the agent.",
                evidence=raw,
            )
        if frame.sequence <= self.last_sequence:
            number = self._base + frame.sequence
            return ReceivedFrame(
                raw,
                received_ns,
                frame.sequence,
                number,
                missing=None,
                repeated=True,
                class_table_sha256=frame.class_table_sha256,
            )
        expected = self.last_sequence + 1
        if frame.sequence == expected and frame.previous_sha256 != self._last_sha256:
            raise LookFailed(
                Look.FRAMES,
                Reason.BROKEN_CHAIN,
                f"agent {self._agent} sent frame {frame.sequence}, which does not follow from frame "
                f"{self.last_sequence} as the controller has it; it was not accepted. Both are signed: keep them, they "
                "show that the agent's record was changed.",
                evidence=raw,
            )
        self._hold(signed, frame)
        missing = (expected, frame.sequence - 1) if frame.sequence > expected else None
        number = self._base + frame.sequence
        return ReceivedFrame(
            raw,
            received_ns,
            frame.sequence,
            number,
            missing=missing,
            repeated=False,
            class_table_sha256=frame.class_table_sha256,
        )

    def _hold(self, signed: frame_pb2.SignedFrame, frame: frame_pb2.Frame) -> None:
        self.last_sequence = frame.sequence
        self._last_sha256 = hashlib.sha256(signed.body).digest()
