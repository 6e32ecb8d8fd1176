"""Damaged answers are never taken, do not escape and do not make the reader wait: a small part of the bench's runs."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator

import pytest

from hil.bench import switch_fuzz
from hil.bench.switch_lab import Lab, lab
from switch import varbinds
from switch.exchange import VarBind

CLIENTS = ("pysnmp", "direct")


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with lab(tmp_path_factory.mktemp("lab"), ports=1) as made:
        yield made


def run(agent: Lab, name: str, mutants: int, *, udp: bool = False) -> switch_fuzz.Tally:
    how = switch_fuzz.over_udp if udp else switch_fuzz.in_process
    with agent.inside():
        return asyncio.run(how(name, agent, mutants, random.Random(11)))


@pytest.mark.rig
@pytest.mark.parametrize("name", CLIENTS)
def test_no_mutant_of_an_open_questions_answer_is_taken_or_escapes(agent: Lab, name: str) -> None:
    tally = run(agent, name, 1_000)
    assert (tally.taken, tally.escaped, tally.hung) == (0, 0, 0)
    assert (tally.mutants, tally.questions) == (1_000, 4)


@pytest.mark.rig
@pytest.mark.parametrize("name", CLIENTS)
def test_no_mutant_over_udp_is_taken_and_the_reader_recovers(agent: Lab, name: str) -> None:
    tally = run(agent, name, 100, udp=True)
    assert (tally.taken, tally.escaped, tally.hung) == (0, 0, 0)
    assert tally.questions >= 10


@pytest.mark.rig
def test_a_reader_that_believed_any_digest_would_be_seen(agent: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("switch.session.authentic", lambda *_: True)
    assert run(agent, "direct", 2_000).taken > 0


def test_damaged_lists_of_bindings_are_read_as_pysnmp_reads_them_or_refused() -> None:
    tally = switch_fuzz.damaged_lists(1_000, random.Random(11))
    assert (tally.taken, tally.escaped) == (0, 0)
    assert tally.questions > 50


def test_a_decoder_that_reads_another_value_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    read = varbinds.decode

    def one_more(data: bytes, at: int, end: int) -> tuple[VarBind, ...]:
        found = read(data, at, end)
        return tuple(VarBind(b.oid, b.type, b.value + 1) if isinstance(b.value, int) else b for b in found)

    monkeypatch.setattr("switch.varbinds.decode", one_more)
    assert switch_fuzz.damaged_lists(200, random.Random(11)).taken > 0
