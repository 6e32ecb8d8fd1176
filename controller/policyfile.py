"""Reads a policy file: TOML, whose values :mod:`controller.evidence.policy` judges."""

from __future__ import annotations

from pathlib import Path

import tomli

from controller.errors import OperatorError
from controller.evidence.policy import Policy, policy_of
from controller.evidence.refusal import VerificationError

MAX_POLICY_BYTES = 2**20


def load_policy(path: Path) -> Policy:
    """Return the policy in the file at ``path``.

    Raises:
        OperatorError: it cannot be read, or is no policy; names the place.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_POLICY_BYTES + 1)
        if len(raw) > MAX_POLICY_BYTES:
            raise OperatorError(f"{path}: a policy has at most {MAX_POLICY_BYTES} bytes. Name the policy file.")
        return policy_of(tomli.loads(raw.decode("utf-8")))
    except OSError as error:
        raise OperatorError(f"{path}: the policy cannot be read ({error.strerror}). Name the policy file.") from error
    except (ValueError, RecursionError, VerificationError) as error:
        raise OperatorError(f"{path}: {error}. docs/reference/evidence.md shows a policy.") from error
