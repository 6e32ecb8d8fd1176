"""The one error of verification."""


class VerificationError(Exception):
    """What was looked at is not evidence; the text says why.

    The text never holds a secret, nor the value that would have been right.
    """
