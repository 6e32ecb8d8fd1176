"""The meter of one port: opens it, keeps it at its hook, audits it, and says each second what it counted."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from dpu_agent.classtable import Table
from dpu_agent.config import PortConfig
from dpu_agent.meter import attach as attaching
from dpu_agent.meter import marks as marking
from dpu_agent.meter import tables
from dpu_agent.meter.audit import HOOK_LOST, Audit, Look, Verdict
from dpu_agent.meter.drain import Drained, Mark, drain, fresh
from dpu_agent.meter.errors import MeterUnavailableError
from dpu_agent.meter.hooks import Chain, Hooks
from dpu_agent.meter.layout import LANE_WORDS, Shape
from dpu_agent.meter.libbpf import LibBpf
from dpu_agent.meter.maps import Maps, forget, open_maps
from dpu_agent.meter.marks import Marks
from dpu_agent.meter.reading import Counts, class_messages, class_totals, message, peer_messages, peer_totals
from protos.buckets import Totals
from protos.v1 import agent_pb2, meter_pb2
from protos.wire import Gap

log = logging.getLogger(__name__)

FULL_EVERY = 60
"""Every so many readings all classes and peers are told, not only those that changed."""
CREATED, RECREATED = "created", "interface-recreated"


class PortMeter:
    """One port's meter. The frame loop reads it; whoever sees an interface change calls :meth:`check`."""

    def __init__(
        self,
        port: PortConfig,
        *,
        library: LibBpf,
        code: bytes,
        shape: Shape,
        folder: Path,
        kernel_ns: Callable[[], int],
        offset_ns: int,
        last_sequence: int,
    ) -> None:
        """Open the maps, or make them, and put the program at the port's hook if the port is there.

        Raises:
            MeterUnavailableError: there can be no meter; the text says why.
            OSError: the BPF file system cannot be used.
        """
        self.port, self._library, self._shape = port, library, shape
        self._kernel_ns, self._offset_ns = kernel_ns, offset_ns
        self._lock = threading.Lock()
        self._hooks = Hooks()
        self._gaps: list[Gap] = []
        self._table = Table()
        self._reads = self._lost_buckets = 0
        self._told_classes: dict[int, tuple[int, ...]] = {}
        self._told_peers: dict[int, tuple[int, int]] = {}
        self._audit: Audit | None = None
        self._verdict = Verdict(installed=False)
        self._maps: Maps
        self._marks: Marks
        self._open(code, folder, last_sequence)
        self._check()

    def _open(self, code: bytes, folder: Path, last_sequence: int) -> None:
        """Go on where the agent before left off, or begin at zero where that is not known."""
        self._maps = open_maps(self._library, code, self._shape, folder)
        found = marking.read(self._maps.marks, last_sequence) if self._maps.adopted else None
        usable = found is not None and (found.width_ns, found.at_host_port) == (
            self._shape.width_ns,
            self._shape.at_host_port,
        )
        if found is not None and usable:
            self._marks = found
            return
        if self._maps.adopted:
            log.warning("%s: it is not known how far the meter was read; it starts at zero", self.port.name)
            self._maps.close()
            forget(folder)
            self._maps = open_maps(self._library, code, self._shape, folder)
        now_ns = self._kernel_ns()
        self._marks = Marks(
            sequence=last_sequence,
            since_ns=now_ns,
            epoch=1,
            epoch_reason=CREATED,
            width_ns=self._shape.width_ns,
            at_host_port=self._shape.at_host_port,
            seen_ns=now_ns,
            ifindex=0,
            mark=fresh(self._shape, now_ns),
        )
        marking.write(self._maps.marks, self._marks)

    # ------------------------------------------------------------ the hook

    def check(self) -> None:
        """Look at the hook and put the meter back if it is gone; called when an interface or a filter changed."""
        with self._lock:
            self._check()

    def _check(self) -> Chain | None:
        """Return the port's chain, the meter in it; None if the port is not there, or the kernel does not answer."""
        try:
            chain = self._hooks.look(self.port.name)
            if chain is not None and not self._is_installed(chain):
                self._attach(chain)
                chain = self._hooks.look(self.port.name)
        except OSError as error:
            log.warning("%s: its hooks cannot be looked at: %s", self.port.name, error)
            return None
        except MeterUnavailableError as error:
            log.error("%s: %s", self.port.name, error)  # noqa: TRY400 the sentence says it all
            return None
        if chain is not None:
            self._marks = replace(self._marks, seen_ns=self._kernel_ns())
        return chain

    def _is_installed(self, chain: Chain) -> bool:
        own = self._maps.program_id
        return self._audit is not None and any(
            (each.number, each.tag) == (own.number, own.tag) for each in chain.filters
        )

    def _attach(self, chain: Chain) -> None:
        """Put the program at the hook; say how long nothing was there.

        A program of an agent before this one that is still there has counted on in the same maps: then it is replaced
        without a gap.
        """
        own = self._library.map_number(self._maps.lanes_map)
        went_on = any(each.number and own in self._library.maps_of(each.number) for each in chain.filters)
        base = self._totals()
        attaching.attach(chain.ifindex, self._maps.program)
        now_ns = self._kernel_ns()
        after = self._hooks.look(self.port.name)
        if after is None:
            return
        self._audit = Audit(Look(after.packets, after.bytes, base))
        if not went_on and self._marks.ifindex:
            reason = RECREATED if chain.ifindex != self._marks.ifindex else HOOK_LOST
            self._gaps.append(Gap(self._marks.seen_ns + self._offset_ns, now_ns + self._offset_ns, reason))
            self._marks = replace(self._marks, epoch=self._marks.epoch + 1, epoch_reason=reason)
            log.warning("%s: the meter was away (%s); it is back", self.port.name, reason)
        self._marks = replace(self._marks, ifindex=chain.ifindex)

    def _totals(self) -> Totals:
        """What all lanes have counted by now; not at a bucket's edge."""
        raw = wire = segments = 0
        for at in range(0, len(self._maps.lanes), LANE_WORDS):
            counted = self._maps.lanes[at : at + 3].tolist()
            raw, wire, segments = raw + counted[0], wire + counted[1], segments + counted[2]
        return Totals(raw, wire, segments)

    # ------------------------------------------------------------ each second

    def read(self, sequence: int) -> meter_pb2.MeterReading:
        """Return what was counted since the last reading, for the frame of that sequence.

        1. Look at the hook, and judge it with the port's counters and the meter's totals, read in that order.
        2. Drain the buckets.
        3. Keep the mark before the frame is made (:mod:`dpu_agent.meter.marks`).
        4. Say what changed.
        """
        with self._lock:
            chain = self._check()
            if chain is not None and self._audit is not None:
                look = Look(chain.packets, chain.bytes, self._totals())
                self._verdict = self._audit.judge(chain, self._maps.program_id, look)
            else:
                self._verdict = Verdict(installed=False)
            drained = drain(self._shape, self._maps.lanes, self._maps.ring, self._marks.mark, self._kernel_ns())
            self._keep(sequence, drained.end)
            self._lost_buckets += drained.lost
            reading = self._message(drained)
            self._gaps.clear()
            self._reads += 1
            return reading

    def _keep(self, sequence: int, mark: Mark) -> None:
        self._marks = replace(self._marks, sequence=sequence, mark=mark)
        marking.write(self._maps.marks, self._marks)

    def _message(self, drained: Drained) -> meter_pb2.MeterReading:
        full = self._reads % FULL_EVERY == 0
        classes = class_totals(self._maps.lanes)
        half = tables.generation(self._maps.lanes) & 1
        peers = peer_totals(self._maps.peers, self._shape.peers, half, len(self._table.peers))
        changed_classes = {k: v for k, v in classes.items() if full or self._told_classes.get(k) != v}
        changed_peers = {k: v for k, v in peers.items() if full or self._told_peers.get(k) != v}
        self._told_classes, self._told_peers = classes, peers
        counts = Counts(
            changed_classes, {self._table.peers[number - 1]: v for number, v in changed_peers.items()}, full
        )
        return message(
            self.port.name,
            marks=self._marks,
            drained=drained,
            counts=counts,
            verdict=self._verdict,
            program=self._maps.program_id,
            gaps=self._gaps,
            offset_ns=self._offset_ns,
        )

    def describe(self, description: agent_pb2.MeterDescription) -> None:
        """Put into ``description`` how things stand as of the newest reading."""
        with self._lock:
            description.findings.extend(self._verdict.findings)
            description.texts.extend(self._verdict.texts)
            description.epoch = self._marks.epoch
            description.lost_buckets = self._lost_buckets
            description.offloaded_ppm = self._verdict.offloaded_ppm
            description.classes.extend(class_messages(self._told_classes))
            known = {self._table.peers[number - 1]: values for number, values in self._told_peers.items()}
            description.peers.extend(peer_messages(known))

    def set_table(self, table: Table) -> None:
        """Count by ``table`` from now on.

        Raises:
            OSError: the maps cannot be changed; the table before stays.
        """
        with self._lock:
            # A restarted agent finds the table in the maps, with what it has counted by node.
            if self._marks.class_table != table.sha256.hex():
                tables.install(self._library, self._maps, table.prefixes)
                # On its way into memory with the next reading's mark; an agent killed before installs it once more.
                self._marks = replace(self._marks, class_table=table.sha256.hex())
            self._table, self._told_peers = table, {}

    def close(self) -> None:
        """Let go; the program stays at its hook and counts on."""
        with self._lock:
            self._hooks.close()
            self._maps.close()


def unavailable(port: str, error: MeterUnavailableError) -> meter_pb2.MeterReading:
    """Return the reading of a port that has no meter."""
    return meter_pb2.MeterReading(port=port, unavailable=error.why.value, unavailable_text=str(error))
