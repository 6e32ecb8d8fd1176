"""What a poll of a switch says: one sample a port, or why there is none.

Counters are named as the switch names them, In and Out. A switch port's In is what the node at the other end
of the cable sent, so **switch In is the node's egress** and switch Out its ingress; :meth:`PortSample.toward`
is the only place that knows. Every value is an int or a :class:`protos.reading.Missing`: absent, unsupported
and zero are three values.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TypeAlias

from protos.reading import Direction, Framing, Missing
from switch.exchange import Exchange

Value: TypeAlias = "int | Missing"
Text: TypeAlias = "str | Missing"


class OperStatus(enum.IntEnum):
    """ifOperStatus (RFC 2863)."""

    UP = 1
    DOWN = 2
    TESTING = 3
    UNKNOWN = 4
    DORMANT = 5
    NOT_PRESENT = 6
    LOWER_LAYER_DOWN = 7


@dataclass(frozen=True, slots=True)
class PortIdentity:
    """Which port of which device this is; verified in the very message that carried the counters.

    Attributes:
        engine_id: the SNMP engine's id, hex; empty where the protocol does not authenticate one (v2c).
        if_name: ifName of the row, as text (bytes that are not UTF-8 with backslashes).
        if_index: the row. It may change at any restart; the name is the key.
    """

    engine_id: str
    if_name: str
    if_index: int


@dataclass(frozen=True, slots=True)
class PortCounters:
    """One direction of one port, cumulative, as the switch names directions.

    ``octets`` and the packet counters are 64 bits wide, ``discards`` and ``errors`` 32 (RFC 2863).
    """

    octets: Value
    unicast_packets: Value
    multicast_packets: Value
    broadcast_packets: Value
    discards: Value
    errors: Value

    @property
    def missing_packets(self) -> tuple[str, ...]:
        """The kinds of packets that the agent does not count here."""
        kinds = {
            "unicast": self.unicast_packets,
            "multicast": self.multicast_packets,
            "broadcast": self.broadcast_packets,
        }
        return tuple(kind for kind, value in kinds.items() if isinstance(value, Missing))

    def packets(self, framing: Framing) -> int | None:
        """Return all packets, or None when the agent leaves a kind out.

        A software switch (Linux; its framing has no check sequence) folds broadcast into unicast, and on its
        way out multicast too, so there the unicast counter and whatever stands beside it are complete
        (net-snmp 5.9.3, interface.c: the source is /proc/net/dev). A hardware agent counts each kind apart,
        so one that is missing makes the sum too small: None.
        """
        if isinstance(self.unicast_packets, Missing):
            return None
        if self.missing_packets and framing is not Framing.L2_WITHOUT_FCS:
            return None
        counted = (self.unicast_packets, self.multicast_packets, self.broadcast_packets)
        return sum(value for value in counted if not isinstance(value, Missing))


@dataclass(frozen=True, slots=True)
class PortSample:
    """One port read once: every value came in one message.

    Attributes:
        port: the name that was asked for (:mod:`switch.bindings` says when it is more than the ifName).
        identity: verified in the same message.
        first_sent_ns: controller's timeline, first transmission of the request.
        received_ns: controller's timeline, arrival of the answer.
        refresh_ns: the device's refresh period: a value may be that much older than the request.
        framing: which bytes of a frame this device's octet counters count.
        alias: ifAlias, the text an administrator gave.
        if_type: IANA ifType.
        physical_address: hardware address, hex; a new one under an old name is another interface.
        oper_status: ifOperStatus.
        high_speed_mbit_per_s: ifHighSpeed. For plausibility only: speeds lie.
        sys_uptime_ticks: sysUpTime in hundredths of a second, modulo 2^32.
        engine_boots: snmpEngineBoots.
        engine_time_s: snmpEngineTime.
        discontinuity_ticks: ifCounterDiscontinuityTime; 0 proves nothing.
        last_change_ticks: ifLastChange.
        switch_in: counters of what the switch received on the port.
        switch_out: counters of what the switch sent on the port.
    """

    port: str
    identity: PortIdentity
    first_sent_ns: int
    received_ns: int
    refresh_ns: int
    framing: Framing
    alias: Text
    if_type: Value
    physical_address: Text
    oper_status: Value
    high_speed_mbit_per_s: Value
    sys_uptime_ticks: Value
    engine_boots: Value
    engine_time_s: Value
    discontinuity_ticks: Value
    last_change_ticks: Value
    switch_in: PortCounters
    switch_out: PortCounters

    @property
    def earliest_ns(self) -> int:
        """Earliest time the counters can have been true: first transmission less the refresh period."""
        return self.first_sent_ns - self.refresh_ns

    @property
    def latest_ns(self) -> int:
        """Latest time the counters can have been true: arrival."""
        return self.received_ns

    @property
    def operational(self) -> bool | None:
        """Whether the port is up; None if the agent did not say."""
        return None if isinstance(self.oper_status, Missing) else self.oper_status == OperStatus.UP

    def toward(self, direction: Direction) -> PortCounters:
        """Return the counters of what left the node (switch In) or entered it (switch Out)."""
        return self.switch_in if direction is Direction.EGRESS else self.switch_out


@dataclass(frozen=True, slots=True)
class PortFault:
    """A port that was asked for and not read: the reason as a type and as a sentence."""

    port: str
    reason: Missing
    text: str
    first_sent_ns: int
    gave_up_ns: int
    if_index: int | None = None


@dataclass(frozen=True, slots=True)
class Agent:
    """What the device said about itself when its ports were last resolved.

    Attributes:
        engine_id: authoritative engine id, hex; empty for v2c.
        system_name: sysName.
        object_id: sysObjectID, dotted: names the agent's maker and class.
        management_if_index: the interface that holds the very address that was polled.
    """

    engine_id: str = ""
    system_name: Text = Missing.ABSENT
    object_id: Text = Missing.ABSENT
    management_if_index: Value = Missing.ABSENT


@dataclass(frozen=True, slots=True)
class Poll:
    """One look at one switch: for each port that was asked for, in order, a sample or a fault.

    Attributes:
        switch: the switch's name in the site file.
        first_sent_ns: first transmission of the look's first request.
        received_ns: arrival of the last answer, or the moment of giving up.
        agent: the device, as it described itself.
        ports: one entry for each name asked for.
        exchanges: the messages behind it, as received.
        notes: sentences for a person: shrunk requests, ignored rows, names that are not unique.
    """

    switch: str
    first_sent_ns: int
    received_ns: int
    agent: Agent
    ports: tuple[PortSample | PortFault, ...]
    exchanges: tuple[Exchange, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def samples(self) -> tuple[PortSample, ...]:
        """The ports that were read."""
        return tuple(entry for entry in self.ports if isinstance(entry, PortSample))

    @property
    def faults(self) -> tuple[PortFault, ...]:
        """The ports that were not."""
        return tuple(entry for entry in self.ports if isinstance(entry, PortFault))

    @property
    def failure(self) -> PortFault | None:
        """The first fault if no port at all was read, else None."""
        return self.faults[0] if self.faults and not self.samples else None


@dataclass(frozen=True, slots=True)
class Discovery:
    """Every port the device has. ``poll.ports`` names them; classify with :mod:`switch.discovery`.

    Attributes:
        poll: all rows read as :meth:`switch.reader.SwitchReader.read_ports` reads them; journal it like any other.
        complete: the list of ports ended because the table ended. When False some port may be unseen.
        text: why the list is not complete; empty if it is.
        reason: the type of that, where the list could not be read at all.
    """

    poll: Poll
    complete: bool
    text: str = ""
    reason: Missing | None = None
