"""The one error of verification."""

from __future__ import annotations


class VerificationError(Exception):
    """What was looked at is not evidence; the text says why.

    Nothing else leaves a parser or verifier of this package, whatever bytes it is given. The text never holds a
    secret, nor the value that would have been right.
    """
