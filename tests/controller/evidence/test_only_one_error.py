"""Whatever bytes come in, only the verification error goes out; and not after long, nor with much memory."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller import journal_leaf as leaf
from controller.evidence import checkpoint, envelope, note, policy, statement
from controller.evidence.refusal import VerificationError

KEY = note.decode_key("example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k")

PARSERS: dict[str, Callable[[bytes], object]] = {
    "envelope": lambda raw: envelope.open_envelope(raw, [KEY.public_key], 1),
    "statement": statement.decode,
    "leaf": leaf.decode,
    "leaf after its prefix": lambda raw: leaf.decode(leaf.PREFIX + raw),
    "note": note.decode,
    "signed checkpoint": lambda raw: checkpoint.open_checkpoint(raw, KEY),
    "checkpoint": lambda raw: checkpoint.decode(raw.decode("utf-8", "surrogateescape")),
    "signature lines": lambda raw: note.decode_signatures(raw.decode("utf-8", "surrogateescape")),
    "key": lambda raw: note.decode_key(raw.decode("utf-8", "surrogateescape")),
    "policy": lambda raw: policy.policy_of({"version": 1, "log": raw, "report": {}, "witnesses": {}}),
}

TOKENS = st.sampled_from(
    [
        *('{"payload":"', '","payloadType":"', '","signatures":[{"sig":"', '"}]}', '{"_type":', "null", "[", "]", "{"),
        *("}", ",", ":", '"', "\n", "\n\n", "— ", "example.com/foo", " ", "+", "AAAA", "=", "1", "0", "-1", "NaN"),
        *(
            "1e9",
            "\\ud800",
            "\ud800",
            "\x00",
            "é",
            "9" * 30,
            "Uw2QOkn8",
            "+530d903a+",
            "https://in-toto.io/Statement/v1",
        ),
    ]
)
LIKELY = st.lists(TOKENS, max_size=40).map(lambda parts: "".join(parts).encode("utf-8", "surrogatepass"))


@pytest.mark.parametrize("name", PARSERS)
@given(raw=st.binary(max_size=300) | LIKELY)
def test_only_the_verification_error_leaves(name: str, raw: bytes) -> None:
    with contextlib.suppress(VerificationError):
        PARSERS[name](raw)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.binary(max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
)


@given(
    values=st.fixed_dictionaries(
        {"version": JSON, "log": JSON, "report": JSON, "witnesses": JSON}, optional={"agents": JSON, "more": JSON}
    )
)
def test_policies_of_any_values(values: dict[str, object]) -> None:
    for each in (values, {**values, "version": 1}):
        with pytest.raises(VerificationError):
            policy.policy_of(each)


JUNK = """
import re, sys, time
from controller import journal_leaf as leaf
from controller.evidence import checkpoint, envelope, note, statement
from controller.evidence.refusal import VerificationError
key = note.decode_key("example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k")
parsers = [lambda raw: envelope.open_envelope(raw, [key.public_key], 1), statement.decode, leaf.decode, note.decode,
           lambda raw: leaf.decode(leaf.PREFIX + raw), lambda raw: checkpoint.open_checkpoint(raw, key)]
slowest = 0.0
for seed in (b"[", b'{"a":', b"\\x00", b'"', b"\\n", b"1,", b"\\xff", "— a AAAA\\n".encode(), b"{}"):
    raw = seed * (10_000_000 // len(seed))
    for parse in parsers:
        begin = time.process_time()
        try:
            parse(raw)
        except VerificationError:
            slowest = max(slowest, time.process_time() - begin)
        else:
            sys.exit("junk was read")
# Of this program alone: ru_maxrss would count the process that started it.
print(slowest, re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])
"""


def test_ten_megabytes_of_junk_are_refused_within_a_second_and_200_mb() -> None:
    project = Path(__file__).resolve().parents[3]
    done = subprocess.run(
        [sys.executable, "-c", JUNK], cwd=project, env=os.environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    seconds, kilobytes = (float(each) for each in done.stdout.split())
    assert seconds < 1
    assert kilobytes < 200_000
