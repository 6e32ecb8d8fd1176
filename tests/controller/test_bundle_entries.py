"""The entries of a bundle: packed and unpacked they are the same bytes, and nothing unpacks to more than it may."""

from __future__ import annotations

import contextlib
import hashlib
import io
import lzma

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller import bundle_entries
from controller.bundle_entries import MOST_EXPANSION, read_entries, write_entries
from controller.bundle_sections import write_section
from controller.evidence.refusal import VerificationError

Entries = list[tuple[bytes, bytes | None]]


def written(entries: Entries, *, packed: bool = True) -> bytes:
    file = io.BytesIO()
    write_entries(file, entries, packed=packed)
    return file.getvalue()


def read(raw: bytes) -> Entries:
    return list(read_entries(io.BytesIO(raw)))


def chunk(packed: bytes) -> bytes:
    file = io.BytesIO()
    write_section(file, "chunk", packed)
    return file.getvalue()


ENTRIES = st.lists(st.tuples(st.binary(max_size=60), st.none() | st.binary(max_size=300)), max_size=20)


@settings(deadline=None)
@given(entries=ENTRIES, packed=st.booleans(), most=st.integers(1, 2000))
def test_what_went_in_comes_out(entries: Entries, packed: bool, most: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bundle_entries, "CHUNK_BYTES", most)
        assert read(written(entries, packed=packed)) == entries


def test_what_repeats_takes_a_fraction() -> None:
    text = bytes(range(256)) * 40
    entries: Entries = [(hashlib.sha256(b"%d" % n).digest(), text + b"%d" % n) for n in range(300)]
    assert len(written(entries)) < len(written(entries, packed=False)) / 20


def test_what_would_unpack_to_too_much_is_written_as_it_is() -> None:
    entries: Entries = [(b"leaf", bytes(10_000_000))]
    raw = written(entries)
    assert len(raw) > 10_000_000
    assert read(raw) == entries


def bomb(size: int) -> bytes:
    return lzma.compress(b"leaf 1\nx\nbody %d\n%s\n" % (size, bytes(size)))


@pytest.mark.parametrize(
    ("name", "packed"),
    [
        ("a bomb", bomb(60_000_000)),
        ("a little beyond what it may", bomb(1000 * MOST_EXPANSION)),
        ("something else", b"x" * 1000),
        ("nothing", b""),
        ("cut short", lzma.compress(b"leaf 1\nx\nbody 1\nx\n")[:-1]),
        ("two streams", lzma.compress(b"leaf 1\nx\nbody 1\nx\n") * 2),
        ("an old format", lzma.compress(b"leaf 1\nx\nbody 1\nx\n", format=lzma.FORMAT_ALONE)),
        (
            "a reader's memory",
            lzma.compress(
                b"leaf 1\nx\nbody 1\nx\n", filters=[{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 2**28}]
            ),
        ),
        ("a chunk in a chunk", lzma.compress(chunk(lzma.compress(b"leaf 1\nx\nbody 1\nx\n")))),
        ("half an entry", lzma.compress(b"leaf 1\nx\n")),
        ("a flipped bit", bytes(byte ^ (n == 40) for n, byte in enumerate(lzma.compress(b"leaf 1\nx\nbody 1\nx\n")))),
    ],
)
def test_chunks_that_are_none(name: str, packed: bytes) -> None:
    assert name
    with pytest.raises(VerificationError):
        read(chunk(packed))


@given(raw=st.binary(max_size=200))
def test_only_the_verification_error_leaves(raw: bytes) -> None:
    for text in (raw, chunk(raw), chunk(lzma.compress(raw)), b"leaf 1\nx\n" + raw):
        with contextlib.suppress(VerificationError):
            read(text)
