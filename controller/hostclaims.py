"""What a host claims about its own interfaces: node_exporter's text as exact integers, or why they are not there.

Nothing here is trusted. The text is kept as received by the journal; this module reads it with the standard parser.
A claim is a float in print, so it is an integer only where print and float both keep every digit:

- a float from 2**53 up may stand for any integer that rounds to it (IEEE 754 binary64, half a unit in the last place);
- ``1.5e+09`` leaves digits out. Go prints the shortest text that reads back the same, so node_exporter means exactly
  1,500,000,000; a ``%g`` exporter means "about". Both are covered by half a unit of the last digit printed.

Either way the claim becomes ``[bytes, bytes + slack]``. A host is a claimant: its own boot time and its counters'
not decreasing make its epochs (``bounds.md`` 3); if it lies about them the claim is its own.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation

from prometheus_client.parser import text_string_to_metric_families

from controller.errors import ClaimError
from protos.reading import Direction, Missing, Reading

BOOT_TIME_JITTER_S = 1
"""btime is whole seconds and moves by one when the wall clock is stepped a little; no machine boots in that time."""

EXACT_BELOW = 2**53
"""Every integer below is a binary64 of its own."""

MAX_COUNTER = 2**64
"""Kernel counters have 64 bits; a claim beyond cannot be one."""

COARSEST = 1_000_000
"""A claim known to no better than this claims nothing: `1e+19` would agree with whatever passed. Six digits, as ``%g``
prints them, stay within up to 1 TB; all that Go leaves out are zeros, so many of them one time in ten million."""

LATEST_BOOT_S = 2**63
"""Beyond any clock; arithmetic on what lies further out overflows."""

MAX_LINES, MAX_LINES_PER_INTERFACE = 100, 8
"""node_exporter prints four lines an interface. Each costs the parser some 100 us: a host must not be able to keep the
controller busy with reading."""

MAX_LINE_BYTES = 4_096
"""A line of node_exporter's is some 60 bytes long."""

_BOOT_TIME = "node_boot_time_seconds"
_DIRECTIONS = {"transmit": Direction.EGRESS, "receive": Direction.INGRESS}
SERIES = (
    _BOOT_TIME,
    *(f"node_network_{way}_{what}_total" for way in _DIRECTIONS for what in ("bytes", "packets")),
)
"""What is read of a node's text."""

# Only lines that can matter reach the parser: the rest of a node's text is a thousand lines a second for nothing.
# Sound, since a line feed inside a label value is written as backslash and n.
_LINES = re.compile(rb"^[ \t]*(?:" + "|".join(SERIES).encode("ascii") + rb")[ \t{][^\n]*", re.MULTILINE)
_COUNTER = re.compile(r"node_network_(transmit|receive)_(bytes|packets)_total", re.ASCII)


@dataclass(frozen=True, slots=True)
class Counter:
    """A claimed counter: an integer in ``[value, value + slack]``."""

    value: int
    slack: int = 0


@dataclass(frozen=True, slots=True)
class InterfaceClaim:
    """What a host says of one interface in one direction; each counter or why it is not there."""

    bytes: Counter | Missing
    packets: Counter | Missing


@dataclass(frozen=True, slots=True)
class HostClaim:
    """One scrape, read. ``boot_time_s`` is None where the host does not say when it booted."""

    boot_time_s: Decimal | None
    interfaces: Mapping[tuple[str, Direction], InterfaceClaim]


def parse_claim(body: bytes, interfaces: Collection[str]) -> HostClaim:
    """Return what ``body`` claims about ``interfaces``.

    1. The text must be UTF-8 and end its last line: a cut line would be a smaller number.
    2. Read each line of interest with the standard parser, and its digits as a decimal.
    3. A counter that stands there twice with different values, or is not a counter's value, or is known only to more
       than :data:`COARSEST`, is malformed.

    Raises:
        ClaimError: the body is not such a text at all, or says more about its interfaces than there is to say.
    """
    try:
        body.decode()
    except UnicodeDecodeError as error:
        raise ClaimError(
            f"the scrape is not UTF-8 text (byte {error.start}); check what answers at the exporter's address"
        ) from error
    if body and not body.endswith(b"\n"):
        raise ClaimError("the scrape stops in the middle of a line; it was cut short on its way")
    found: dict[tuple[str, str, Direction], Counter | Missing] = {}
    boot_times: set[Decimal | None] = set()
    for name, labels, value in _samples(body, interfaces):
        if name == _BOOT_TIME:
            boot_times.add(value if value is not None and 0 <= value < LATEST_BOOT_S else None)
            continue
        match = _COUNTER.fullmatch(name)
        device = labels.get("device")
        if match is None or device is None or device not in interfaces:
            continue
        key = (device, match[2], _DIRECTIONS[match[1]])
        counter = _counter(value)
        found[key] = counter if found.get(key, counter) == counter else Missing.MALFORMED
    boot_time = boot_times.pop() if len(boot_times) == 1 else None
    return HostClaim(
        boot_time_s=boot_time,
        interfaces={
            (device, direction): InterfaceClaim(
                bytes=found.get((device, "bytes", direction), Missing.ABSENT),
                packets=found.get((device, "packets", direction), Missing.ABSENT),
            )
            for device in interfaces
            for direction in Direction
        },
    )


def _samples(body: bytes, interfaces: Collection[str]) -> Iterator[tuple[str, Mapping[str, str], Decimal | None]]:
    """Yield name, labels and exact value of each line of interest; None for a value that is no finite number."""
    # A name stands in its label as it is, unless it holds a quote or a backslash.
    quoted = tuple(f'"{name}"' for name in interfaces)
    plain = not any('"' in name or "\\" in name for name in interfaces)
    taken, allowed = 0, MAX_LINES + MAX_LINES_PER_INTERFACE * len(interfaces)
    for match in _LINES.finditer(body):
        line = match[0].decode()
        if plain and _BOOT_TIME not in line and not any(name in line for name in quoted):
            continue
        taken += 1
        if taken > allowed or len(match[0]) > MAX_LINE_BYTES:
            raise ClaimError(
                f"the scrape has more than {allowed} lines about the interfaces asked for, or one of more than "
                f"{MAX_LINE_BYTES} bytes: no exporter prints such; it was not read further"
            )
        try:
            families = list(text_string_to_metric_families(line + "\n"))
        except (ValueError, KeyError, IndexError):
            # The parser's own word for "not the text format"; the device's name may still be readable.
            yield from _unreadable(line)
            continue
        for family in families:
            for sample in family.samples:
                yield sample.name, sample.labels, _decimal(line, sample.value)


_DEVICE = re.compile(r'[{,]\s*device="((?:[^"\\]|\\.)*)"', re.ASCII)


def _unreadable(line: str) -> Iterator[tuple[str, Mapping[str, str], None]]:
    name = re.split(r"[ \t{]", line.strip(), maxsplit=1)[0]
    device = _DEVICE.search(line)
    if name == _BOOT_TIME:
        yield name, {}, None
    elif device is not None:
        yield name, {"device": device[1]}, None


def _decimal(line: str, value: float) -> Decimal | None:
    """The digits of the line's value, checked against what the parser made of them."""
    text = (line[line.rfind("}") + 1 :] if "}" in line else line.strip().partition(" ")[2]).split()
    try:
        exact = Decimal(text[0])
    except (InvalidOperation, IndexError):
        return None
    return exact if exact.is_finite() and float(exact) == value else None


def _counter(value: Decimal | None) -> Counter | Missing:
    """The integers that a printed value may stand for."""
    if value is None or not 0 <= value < MAX_COUNTER or value != value.to_integral_value():
        return Missing.MALFORMED
    # Zero is zero, whatever exponent is printed after it.
    exponent = value.as_tuple().exponent if value else 0
    # Half of a unit of the last printed digit, rounded up; 0 if the units are printed.
    printed = 10**exponent // 2 if isinstance(exponent, int) and exponent > 0 else 0
    binary = math.ceil(math.ulp(float(value)) / 2) if value >= EXACT_BELOW else 0
    half = max(printed, binary)
    low, high = max(int(value) - half, 0), min(int(value) + half, MAX_COUNTER - 1)
    return Counter(low, high - low) if high - low <= COARSEST else Missing.MALFORMED


@dataclass(slots=True)
class ClaimedEpochs:
    """The counter epochs of one interface of a host, from its claims in the order they were made.

    Attributes:
        epoch: the number of the epoch in force.
        reasons: why each epoch after the first began.
        proven: epochs in which the host said when it booted; without, it may have booted unseen.
    """

    epoch: int = 0
    reasons: dict[int, str] = field(default_factory=dict)
    proven: set[int] = field(default_factory=set)
    _boot_time_s: Decimal | None = None
    _highest: dict[tuple[Direction, str], int] = field(default_factory=dict)
    _started: bool = False

    def readings(
        self, claim: HostClaim, interface: str, *, earliest_ns: int, latest_ns: int
    ) -> dict[Direction, Reading]:
        """Return the readings in ``claim``, numbered by epoch. Claims must come in order and not overlap in time.

        ``earliest_ns`` is when the scrape was first sent, ``latest_ns`` when its answer was there.
        """
        counters = {
            (direction, unit): counter
            for direction in Direction
            for unit, counter in (
                ("bytes", claim.interfaces[interface, direction].bytes),
                ("packets", claim.interfaces[interface, direction].packets),
            )
            if isinstance(counter, Counter)
        }
        if not any(unit == "bytes" for _, unit in counters):
            return {}
        reason = self._reason_to_end(claim.boot_time_s, counters)
        if reason is not None:
            self.epoch += 1
            self.reasons[self.epoch] = reason
            self._highest.clear()
        if reason is not None or not self._started:
            self._boot_time_s, self._started = claim.boot_time_s, True
            if claim.boot_time_s is not None:
                self.proven.add(self.epoch)
        for key, counter in counters.items():
            self._highest[key] = max(counter.value, self._highest.get(key, 0))
        out = {}
        for direction in Direction:
            count = counters.get((direction, "bytes"))
            packets = counters.get((direction, "packets"))
            if count is not None:
                out[direction] = Reading(
                    earliest_ns=earliest_ns,
                    latest_ns=latest_ns,
                    bytes=count.value,
                    bytes_slack=count.slack,
                    packets=packets.value if packets is not None and packets.slack == 0 else None,
                    epoch=self.epoch,
                )
        return out

    def _reason_to_end(
        self, boot_time_s: Decimal | None, counters: Mapping[tuple[Direction, str], Counter]
    ) -> str | None:
        if not self._started:
            return None
        if (boot_time_s is None) != (self._boot_time_s is None):
            return (
                "the host's boot time is no longer reported" if boot_time_s is None else "the host's boot time is known"
            )
        if (
            boot_time_s is not None
            and self._boot_time_s is not None
            and abs(boot_time_s - self._boot_time_s) > BOOT_TIME_JITTER_S
        ):
            return "the host says it booted again"
        for (direction, unit), counter in counters.items():
            if counter.value + counter.slack < self._highest.get((direction, unit), 0):
                return f"the host's {direction.value} {unit} decreased"
        return None
