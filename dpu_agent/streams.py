"""The open streams of frames: the newest one wins, and every one ends when it must.

A stream looks for itself, between two frames, whether it must end. One whose controller has stopped reading is stuck
in a frame and cannot look; :class:`Streams` therefore goes round and cancels those that are overdue.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any

import grpc

from protos.v1 import agent_pb2

# How often an idle stream looks, and how often those that are stuck are looked for.
LOOK_S = 0.5
# Looks after which a stream that must end, and has not ended itself, is cancelled.
_OVERDUE_LOOKS = 4

log = logging.getLogger(__name__)


class Stream:
    """One open stream. ``must_end`` gives status and text once it may not go on."""

    def __init__(self, context: Any, must_end: Callable[[], tuple[grpc.StatusCode, str] | None]) -> None:
        self.context, self._must_end = context, must_end
        self.superseded = False
        self.overdue = 0

    def must_end(self) -> tuple[grpc.StatusCode, str] | None:
        """Return why the stream may not go on, None while it may."""
        if self.superseded:
            return grpc.StatusCode.ABORTED, "a newer stream of frames has begun; this one ends"
        return self._must_end()


class Streams:
    """All open streams, and the thread that goes round."""

    def __init__(self) -> None:
        self._open: list[Stream] = []
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._rounds = threading.Thread(target=self._go_round, name="stream-rounds", daemon=True)
        self._rounds.start()

    def begin(self, stream: Stream) -> None:
        """Let ``stream`` be the one; those before it end."""
        with self._lock:
            for other in self._open:
                other.superseded = True
            self._open.append(stream)

    def end(self, stream: Stream) -> None:
        """Forget ``stream``."""
        with self._lock:
            self._open.remove(stream)

    def close(self) -> None:
        """Stop going round."""
        self._stop.set()
        self._rounds.join()

    def look(self) -> None:
        """Go round once."""
        with self._lock:
            streams = list(self._open)
        for stream in streams:
            why = stream.must_end()
            stream.overdue = stream.overdue + 1 if why else 0
            if why and stream.overdue > _OVERDUE_LOOKS:
                log.warning("cancelled a stream to %s that did not end by itself: %s", stream.context.peer(), why[1])
                stream.context.cancel()

    def _go_round(self) -> None:
        while not self._stop.wait(LOOK_S):
            self.look()


class Acknowledgements:
    """Takes in a stream's acknowledgements on a thread of its own, for the sender's thread is busy sending.

    Attributes:
        first: what the stream's first message acknowledges, None before it came.
        refused: why an acknowledgement was refused, else empty.
        ended: no more will come.
    """

    def __init__(
        self,
        requests: Iterator[agent_pb2.Acknowledgement],
        take: Callable[[agent_pb2.Acknowledgement], str],
        wake: Callable[[], None],
    ) -> None:
        self.first: int | None = None
        self.refused, self.ended = "", False
        self._begun = threading.Event()
        self._requests, self._take, self._wake = requests, take, wake
        threading.Thread(target=self._run, name="acknowledgements", daemon=True).start()

    def wait_for_first(self, timeout_s: float) -> int | None:
        """Return what the first message acknowledges; None if none came in time or none will come."""
        self._begun.wait(timeout_s)
        return self.first

    def _run(self) -> None:
        try:
            for message in self._requests:
                self.refused = self._take(message)
                if self.first is None:
                    self.first = message.acknowledged_sequence
                    self._begun.set()
                if self.refused:
                    break
        except grpc.RpcError:
            log.debug("the call is over; its sender sees that too")
        finally:
            self.ended = True
            self._begun.set()
            self._wake()
