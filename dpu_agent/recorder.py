"""What happens once a second: samples become a frame that is on disk, and only then anyone may see it.

:class:`Recorder` holds state, spool and key together, under one lock: the frame loop records, the controller's
stream reads and acknowledges. Nothing that a disk can do stops it; what the disk did is in the next frame.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from dataclasses import replace

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from dpu_agent.clock import Clock, Stamp
from dpu_agent.config import SpoolLimits
from dpu_agent.counters import PortSample
from dpu_agent.epochs import advance
from dpu_agent.frames import Identity, SpoolFigures, next_frame, seal, state_after
from dpu_agent.limiting import Limiting
from dpu_agent.metering import Metering
from dpu_agent.ranges import Ranges
from dpu_agent.segment import Moment, boot_tag
from dpu_agent.segments import FULL_ERRNOS
from dpu_agent.spool import DISK_ERROR, DISK_FULL, SPOOL_DAMAGED, Recovered, Spool
from dpu_agent.state import AgentState, Loss, StateFile

log = logging.getLogger(__name__)


class AcknowledgementRejectedError(Exception):
    """The controller acknowledges a frame that this agent never made: one of the two lost its memory."""


class Recorder:
    """The agent's memory: appends frames, hands them out, forgets what is acknowledged."""

    def __init__(
        self,
        *,
        identity: Identity,
        clock: Clock,
        limits: SpoolLimits,
        state_file: StateFile,
        state: AgentState,
        spool: Spool,
        recovered: Recovered,
    ) -> None:
        """Begin another start of the agent: settle what the last one left, and put that on disk.

        Raises:
            OSError: the state cannot be written.
        """
        self._identity, self._clock, self._limits = identity, clock, limits
        self._state_file, self._spool = state_file, spool
        self._changed = threading.Condition()
        self._boot_tag = boot_tag(clock.boot_id)
        self._troubles: dict[str, str] = {}
        # What stored frames of this start record as lost, until they are acknowledged.
        self._recorded: dict[int, tuple[Loss, ...]] = {}
        state = settle(state, spool, recovered)
        self._state = replace(state, agent_start=state.agent_start + 1)
        self._state_file.write(self._state)
        self._samples: Sequence[PortSample] = ()
        self._stamp: Stamp | None = None

    @property
    def public_key(self) -> Ed25519PublicKey:
        """The key by which this agent's frames are checked."""
        return self._identity.key.public_key()

    @property
    def last_sequence(self) -> int:
        """Of the newest frame, stored or lost."""
        return self._state.sequence

    def record(
        self, samples: Sequence[PortSample], metering: Metering | None = None, limiting: Limiting | None = None
    ) -> int:
        """Make a frame of ``samples``, of what the meters counted and of the limits; return its sequence.

        1. Drop what is older than the spool's bound; take in what was lost since the last frame.
        2. Decide each port's epoch; build, chain and sign the frame, with the losses no stored frame records yet.
        3. Put it on disk. If that fails it is lost, and the next frame will say so.
        4. Put the state on disk: a sequence that was used is never used again, whatever happened to its frame.
        5. Show it to the readers, if it is on disk.
        """
        with self._changed:
            stamp = self._clock.stamp()
            moment = Moment(self._boot_tag, stamp.monotonic_ns)
            self._expire(moment)
            self._take_losses()
            ports, readings = advance(self._state.ports, stamp.boot_id, samples)
            frame = next_frame(
                self._identity,
                self._state,
                stamp,
                readings,
                self._figures(),
                before=self._stamp,
                meters=metering.read(self._state.sequence + 1, samples) if metering else (),
                class_table_sha256=metering.table.sha256 if metering else b"",
                limits=limiting.read() if limiting else None,
            )
            if frame.clock.wall_step_ns:
                log.warning(
                    "the wall clock was set by %g s; no time of a frame follows it", frame.clock.wall_step_ns / 1e9
                )
            self._stamp = stamp
            signed, sha256 = seal(self._identity, frame)
            lost = self._append(frame.sequence, moment, signed, has_losses=bool(frame.losses))
            kept = self._state.losses if lost else ()
            if frame.losses and not lost:
                self._recorded[frame.sequence] = self._state.losses
            self._state = replace(
                self._state,
                sequence=frame.sequence,
                previous_sha256=sha256,
                ports=ports,
                losses=merged([*kept, lost]) if lost else kept,
                lost_frames=self._state.lost_frames + (1 if lost else 0),
            )
            self._take_losses()
            self._write_state()
            self._samples = tuple(samples)
            self._changed.notify_all()
            return frame.sequence

    def acknowledge(self, sequence: int) -> None:
        """Let go of the frames up to ``sequence``: the controller has them on disk.

        The acknowledgement is on disk before the first frame is freed for it: else a crash in between would take the
        freed frames for lost.

        Raises:
            AcknowledgementRejectedError: this agent never made that frame.
        """
        with self._changed:
            if sequence > self._state.sequence:
                raise AcknowledgementRejectedError(
                    f"the controller acknowledges frame {sequence}, this agent's newest is {self._state.sequence}: "
                    "its state was put back or wiped, or the journal belongs to another agent; enrol the agent anew"
                )
            if sequence <= self._state.acknowledged:
                return
            self._state = replace(self._state, acknowledged=sequence)
            self._recorded = {number: losses for number, losses in self._recorded.items() if number > sequence}
            if self._spool.would_release(sequence) and not self._write_state():
                return
            try:
                self._spool.release(sequence)
            except OSError as error:
                self._trouble("acknowledged frames cannot be freed", error)
            else:
                self._trouble("acknowledged frames cannot be freed", None)

    def frames_after(self, sequence: int, max_frames: int) -> list[tuple[int, bytes]]:
        """Return stored frames above ``sequence``, oldest first; each is the bytes of a SignedFrame."""
        with self._changed:
            return self._spool.read_after(max(sequence, self._state.acknowledged), max_frames)

    def wait_beyond(self, sequence: int, timeout_s: float) -> None:
        """Return when there may be a frame above ``sequence``, when :meth:`wake` is called, or after the timeout."""
        with self._changed:
            if not self._spool.has_after(sequence):
                self._changed.wait(timeout_s)

    def wake(self) -> None:
        """Let everyone who waits look again."""
        with self._changed:
            self._changed.notify_all()

    def snapshot(self) -> tuple[AgentState, SpoolFigures, Sequence[PortSample]]:
        """Return where things stand: state, spool, and the newest samples."""
        with self._changed:
            return self._state, self._figures(), self._samples

    def close(self) -> None:
        """Put the newest acknowledgement on disk and close the files."""
        with self._changed:
            self._write_state()
            self._state_file.close()
            self._spool.close()

    def _expire(self, moment: Moment) -> None:
        try:
            self._spool.expire(moment, self._limits.max_age_ns)
        except OSError as error:
            self._trouble("expired frames cannot be freed", error)
        else:
            self._trouble("expired frames cannot be freed", None)

    def _append(self, sequence: int, moment: Moment, signed: bytes, *, has_losses: bool) -> Loss | None:
        try:
            self._spool.append(sequence, moment, signed, has_losses=has_losses)
        except OSError as error:
            full = error.errno in FULL_ERRNOS
            self._trouble("frames cannot be stored", error)
            return Loss(sequence, sequence, DISK_FULL if full else DISK_ERROR)
        self._trouble("frames cannot be stored", None)
        return None

    def _take_losses(self) -> None:
        losses, lost = self._spool.take_losses()
        if losses:
            gone = Ranges()
            for loss in losses:
                gone.add(loss.first, loss.last)
            # A frame that is lost takes with it what it recorded as lost: that is recorded anew.
            again = [old for number in list(self._recorded) if number in gone for old in self._recorded.pop(number)]
            self._state = replace(
                self._state,
                losses=merged([*self._state.losses, *losses, *again]),
                lost_frames=self._state.lost_frames + lost,
            )

    def _write_state(self) -> bool:
        try:
            self._state_file.write(self._state)
        except OSError as error:
            self._trouble("the state cannot be written", error)
            return False
        self._trouble("the state cannot be written", None)
        return True

    def _trouble(self, what: str, error: OSError | None) -> None:
        """Say once when something begins to fail and once when it is over."""
        before = self._troubles.pop(what, None)
        if error is not None:
            self._troubles[what] = str(error)
            if str(error) != before:
                log.error("%s: %s; the agent goes on, and records what is lost", what, error)
        elif before is not None:
            log.warning("%s: this is over", what)

    def _figures(self) -> SpoolFigures:
        return SpoolFigures(
            oldest_sequence=self._spool.oldest,
            frames=self._spool.frames,
            bytes=self._spool.disk_bytes,
            lost_frames=self._state.lost_frames,
            trouble="; ".join([*(f"{what}: {why}" for what, why in self._troubles.items()), *self._spool.troubles]),
        )


def settle(state: AgentState, spool: Spool, recovered: Recovered) -> AgentState:
    """Return the state that agrees with what the spool holds after a crash.

    1. A stored frame that the state had not got to moves the state on.
    2. What is recorded as lost stays lost, though it may be readable.
    3. What is neither stored nor acknowledged nor recorded as lost is a loss that the next frame records.
    """
    if recovered.tail is not None and recovered.tail[0] > state.sequence:
        state = state_after(state, recovered.tail[1])
    known = Ranges(recovered.explained)
    for loss in state.losses:
        known.add(loss.first, loss.last)
    for first, last in known:
        spool.forget(first, last)
    missing = spool.missing(state.sequence)
    for first, last in known:
        missing.remove(first, last)
    found = [Loss(first, last, SPOOL_DAMAGED) for first, last in missing]
    for loss in found:
        log.error("frames %d to %d are not in the spool any more; they are recorded as lost", loss.first, loss.last)
    return replace(state, losses=merged([*state.losses, *found]), lost_frames=state.lost_frames + len(missing))


def merged(losses: Sequence[Loss]) -> tuple[Loss, ...]:
    """Return ``losses`` in order, those of one reason that touch or overlap as one."""
    result: list[Loss] = []
    for loss in sorted(losses, key=lambda item: (item.first, item.last)):
        before = result[-1] if result else None
        if before is not None and before.reason == loss.reason and loss.first <= before.last + 1:
            result[-1] = Loss(before.first, max(before.last, loss.last), before.reason)
        else:
            result.append(loss)
    return tuple(result)
