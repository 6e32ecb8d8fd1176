"""``weighbridge run``: every collector of a site at work until it is stopped, its own starts and stops journaled.

A run that is killed leaves a start without a stop; what it had acknowledged is on the disk, what it had not comes
again. The next run of the same journal goes on from there.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import uuid
from collections.abc import Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from importlib.metadata import version
from pathlib import Path
from random import Random, SystemRandom
from typing import Any, TextIO, TypeAlias

import httpx

from controller.classtables import entries_for
from controller.collect.agents import AgentCollector
from controller.collect.classtables import ClassTableSender
from controller.collect.hosts import HostCollector, scrape_client
from controller.collect.narrator import Narrator
from controller.collect.recorder import Recorder
from controller.collect.runlock import only_run
from controller.collect.switches import ReaderFactory, SwitchCollector, snmp_readers
from controller.collect.watch import Watching, watched
from controller.collect.witnesses import WitnessAt, ask_all, witnesses_of
from controller.collect.writer import GroupWriter
from controller.errors import EvidenceError, OperatorError, WeighbridgeError
from controller.journal import Journal, Kind, NewEntry
from controller.journal_log import publish
from controller.leases.renew import LeaseRenewer
from controller.logkeys import SiteKeys, load_site_keys
from controller.site import Site
from controller.site_credential import load_site_credential
from controller.timeline import Timeline
from protos.units import format_duration
from switch.effort import Effort

WALL_CLOCK_INTERVAL_S = 60.0
"""How often the wall clock is compared with the timeline."""

CANCEL_AGAIN_S = 1.0
"""How long a cancelled collector may take before it is cancelled again."""

CHECKPOINT_INTERVAL_S = 60.0
"""How often what came in is committed to: until then, who holds the disk could rewrite it."""


async def run(
    site: Site,
    journal_path: Path,
    *,
    stop: asyncio.Event,
    rng: Random | None = None,
    stream: TextIO | None = None,
    readers: ReaderFactory | None = None,
    watching: Watching | None = None,
    metrics_at: tuple[str, int] | None = None,
) -> None:
    """Collect from every device of ``site`` into the journal at ``journal_path`` until ``stop`` is set.

    1. The controller's certificate can be used, and no other run collects into this journal.
    2. Open the journal; it is this site's. Journal the site file, if it changed, and that a run began.
    3. One collector for each agent, switch and host exporter, and for each agent one that renews its leases; they end
       only when cancelled.
    4. When stopped, or when one of them fails as none should: cancel them, write what waits, journal the stop.

    Args:
        site: what to collect from.
        journal_path: must exist (``weighbridge init`` makes it).
        stop: set it to end the run.
        rng: for phases and waits; the system's own unless a test gives one.
        stream: where the progress lines go; stderr when absent.
        readers: makes the readers of switches; SNMP when absent.
        watching: the rules, and who is told; the default rules, and nobody, when absent.
        metrics_at: host and port where Prometheus may ask what polling costs; nowhere when absent.

    Raises:
        OperatorError: a certificate, the journal or its lock cannot be used; nothing was changed. Or the disk failed.
    """
    load_site_credential(site)
    with only_run(journal_path), Journal.open(journal_path) as journal:
        _check_site(journal, site)
        timeline = Timeline.start(journal)
        narrator = Narrator(timeline.now_ns, stream)
        run_id = uuid.uuid4().hex
        keys = load_site_keys(journal_path)
        witnesses = witnesses_of(site) if keys is not None else ()
        now_ns = timeline.now_ns()
        journal.append(*_site_entry(journal, site, now_ns), _run_entry(Kind.RUN_START, run_id, now_ns, "started"))
        reason = "failed"
        try:
            async with AsyncExitStack() as stack:
                writer = await stack.enter_async_context(GroupWriter(journal))
                watch = await stack.enter_async_context(
                    watched(site, watching or Watching(), journal, narrator, timeline, rng or SystemRandom())
                )
                recorder = Recorder(writer, narrator, timeline.now_ns, rng or SystemRandom(), watch.kept)
                client = await stack.enter_async_context(scrape_client())
                if readers is None:
                    readers = await stack.enter_async_context(
                        snmp_readers(
                            timeline.now_ns,
                            offset_ns=timeline.anchor.offset_ns,
                            processes=site.collection.poll_processes,
                        )
                    )
                efforts = {switch.name: Effort() for switch in site.switches}
                if metrics_at is not None:
                    from controller.collect.metrics import served  # noqa: PLC0415  few ask for them

                    stack.enter_context(served(efforts, *metrics_at))
                works = [
                    _watch_wall_clock(journal, timeline, narrator),
                    _sign_checkpoints(journal, keys, witnesses, narrator),
                    *_agents(site, journal, recorder, timeline.anchor.boot_id),
                    *_switches(site, recorder, readers, efforts),
                    *_hosts(site, recorder, client),
                    *_leases(site, journal, recorder),
                    *watch.works(),
                ]
                narrator.say(_what(site, journal_path))
                if keys is None:
                    narrator.say(
                        "the journal has no keys, so no checkpoints are signed; `weighbridge journal keys` makes them"
                    )
                await _work_until(stop, works)
            reason = "stopped"
        finally:
            journal.append(_run_entry(Kind.RUN_STOP, run_id, timeline.now_ns(), reason))
            _sign(journal, keys, narrator)
            await _ask(journal, witnesses, narrator)
        narrator.say("stopped; everything received is in the journal")


def run_until_signalled(
    site: Site,
    journal_path: Path,
    *,
    rng: Random | None = None,
    watching: Watching | None = None,
    metrics_at: tuple[str, int] | None = None,
) -> None:
    """Collect until SIGINT or SIGTERM; a second one ends the program at once, which loses nothing.

    Raises:
        OperatorError: as :func:`run`.
    """

    async def go() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, _stop_once, loop, stop)
        await run(site, journal_path, stop=stop, rng=rng, watching=watching, metrics_at=metrics_at)

    asyncio.run(go())


def _stop_once(loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
    stop.set()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.remove_signal_handler(number)


# ---------------------------------------------------------------- the collectors

_Work: TypeAlias = "Coroutine[Any, Any, None]"


def _agents(site: Site, journal: Journal, recorder: Recorder, timeline: str) -> Iterator[_Work]:
    for dpu in site.agents():
        yield AgentCollector(
            dpu,
            journal=journal,
            recorder=recorder,
            load_credential=lambda: load_site_credential(site),
            clock_interval_ns=site.collection.clock_interval_ns,
            timeline=timeline,
            tables=ClassTableSender(dpu, entries_for(site, dpu), journal=journal, recorder=recorder),
        ).run()


def _switches(
    site: Site, recorder: Recorder, make_reader: ReaderFactory, efforts: Mapping[str, Effort]
) -> Iterator[_Work]:
    for switch in site.switches:
        declared: dict[str, str | None] = {link.port: None for link in site.links_of(switch.name)}
        declared |= {other.port: other.role for other in switch.other_ports}
        interval_ns = site.collection.poll_interval_ns
        yield SwitchCollector(
            make_reader(switch), declared, recorder=recorder, interval_ns=interval_ns, effort=efforts[switch.name]
        ).run()


def _hosts(site: Site, recorder: Recorder, client: httpx.AsyncClient) -> Iterator[_Work]:
    for node in site.nodes:
        if node.exporter is not None:
            yield HostCollector(
                node.name,
                node.exporter,
                [name for link in site.links if link.node == node.name for name in link.uplink.host_interfaces or ()],
                client=client,
                recorder=recorder,
                interval_ns=site.collection.scrape_interval_ns,
            ).run()


def _leases(site: Site, journal: Journal, recorder: Recorder) -> Iterator[_Work]:
    for dpu in site.agents():
        yield LeaseRenewer(
            dpu, site, journal=journal, recorder=recorder, load_credential=lambda: load_site_credential(site)
        ).run()


async def _work_until(stop: asyncio.Event, works: Iterable[_Work]) -> None:
    """Let ``works`` run until ``stop`` is set, then cancel them; raise what the first that failed raised."""
    stopping = asyncio.ensure_future(stop.wait())
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        done, _ = await asyncio.wait([stopping, *tasks], return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        await _end([stopping, *tasks])


async def _end(tasks: Iterable[asyncio.Future[Any]]) -> None:
    """Cancel tasks until all have ended; what each of them raised was looked at, or no longer matters.

    Once is not enough: a cancellation that meets a task as the call it waits for ends (a stream that breaks, a timeout
    that runs out) can be taken for that end, and the task goes on with its next look.
    """
    left = set(tasks)
    while left:
        for task in left:
            task.cancel()
        done, left = await asyncio.wait(left, timeout=CANCEL_AGAIN_S)
        for task in done:
            if not task.cancelled():
                task.exception()


async def _watch_wall_clock(journal: Journal, timeline: Timeline, narrator: Narrator) -> None:
    while True:
        await asyncio.sleep(WALL_CLOCK_INTERVAL_S)
        change_ns = await asyncio.to_thread(timeline.note_wall_clock, journal)
        if change_ns is not None:
            narrator.say(
                f"this machine's wall clock moved by {format_duration(change_ns)}; times here do not follow it"
            )


async def _sign_checkpoints(
    journal: Journal, keys: SiteKeys | None, witnesses: Sequence[WitnessAt], narrator: Narrator
) -> None:
    while True:
        await asyncio.sleep(CHECKPOINT_INTERVAL_S)
        await asyncio.to_thread(_sign, journal, keys, narrator)
        await _ask(journal, witnesses, narrator)


def _sign(journal: Journal, keys: SiteKeys | None, narrator: Narrator) -> None:
    # A journal that does not check is no reason to stop looking: what comes in is kept, and the operator is told.
    try:
        if keys is not None:
            publish(journal, keys.log)
    except EvidenceError as error:
        narrator.say(str(error))


async def _ask(journal: Journal, witnesses: Sequence[WitnessAt], narrator: Narrator) -> None:
    def said(witness: WitnessAt, what: int | WeighbridgeError) -> None:
        if isinstance(what, WeighbridgeError):
            narrator.trouble(witness.key.name, "witness", type(what).__name__, str(what))
        else:
            narrator.well(witness.key.name, "witness", f"the witness at {witness.url} cosigns")

    await ask_all(journal, witnesses, said)


# ---------------------------------------------------------------- what is journaled of the run itself


def _check_site(journal: Journal, site: Site) -> None:
    entry = journal.last(Kind.SITE)
    if entry is not None and entry.source != site.name:
        raise OperatorError(
            f"{journal.path} is the journal of site {entry.source!r}, {site.path} is of site {site.name!r}. "
            "Name this site's journal under `controller:`; nothing was changed."
        )


def _site_entry(journal: Journal, site: Site, now_ns: int) -> list[NewEntry]:
    last = journal.last(Kind.SITE)
    if last is not None and last.body == site.content:
        return []
    return [NewEntry(Kind.SITE, site.name, now_ns, site.content, {"version": version("weighbridge")})]


def _run_entry(kind: Kind, run_id: str, now_ns: int, reason: str) -> NewEntry:
    body = {"run_id": run_id, "version": version("weighbridge"), "pid": os.getpid(), "reason": reason}
    return NewEntry(kind, "controller", now_ns, json.dumps(body).encode())


def _what(site: Site, journal_path: Path) -> str:
    exporters = sum(node.exporter is not None for node in site.nodes)
    parts = [(len(site.agents()), "agent", "agents"), (len(site.switches), "switch", "switches")]
    parts.append((exporters, "host exporter", "host exporters"))
    said = ", ".join(f"{count} {one if count == 1 else many}" for count, one, many in parts)
    return f"collecting from {said} into {journal_path}; stop with Ctrl-C"
