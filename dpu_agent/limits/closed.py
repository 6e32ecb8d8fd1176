"""Closes the ports at boot, before the network is set up: what no lease allows does not pass from the first frame on.

A service manager runs it before the DPU's network comes up, and before each start of the agent
(``controller/deploy/service.py``). It leaves behind what the agent then takes over: the meter's program at each port
with the floors as its orders. What is in force already stays.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from dpu_agent import home, state
from dpu_agent.classtable import ClassTables
from dpu_agent.config import AgentConfig
from dpu_agent.disk import Disk
from dpu_agent.errors import AgentError
from dpu_agent.limits.order import LimiterError, Order
from dpu_agent.limits.police import Policer
from dpu_agent.limits.settings import NONE
from dpu_agent.meter.attach import NAME, PREFERENCE
from dpu_agent.meter.hooks import Hooks
from dpu_agent.meter.maps import BPF_FILE_SYSTEM
from dpu_agent.meter.meters import Meters

log = logging.getLogger(__name__)


class NotClosedError(AgentError):
    """A port could not be closed by the limiter, so it was taken down."""

    exit_code = 1


def close_ports(config: AgentConfig, *, bpf_file_system: Path = BPF_FILE_SYSTEM, down: Callable[[str], None]) -> str:
    """Close the ports of ``config``; return in words what was done.

    1. An agent that limits nothing closes nothing.
    2. Load the program over the maps that are there, or make them, and put it at each port that is there.
    3. Where no order is in force, the floor is put in force.
    4. A port at which the program does not stand then, or all of them if it cannot be loaded, is taken down by
       ``down``: nothing passes rather than everything.

    Raises:
        NotClosedError: something was taken down; the text says why.
        AgentError: an agent runs and holds the ports, or what it remembers cannot be read; nothing was changed.
    """
    if config.limits.backend == NONE:
        return "this agent limits nothing; nothing was closed"
    names = [port.name for port in config.ports]
    try:
        remembered = state.read_only(config.state_directory / home.STATE)
        tables = ClassTables(Disk(), config.state_directory, agent=config.agent, verifier=config.verifier_public_key)
    except OSError as error:
        raise home.cannot_read(config.state_directory, error) from error
    last_sequence = 0 if remembered is None else remembered.sequence
    meters = Meters(config, tables, last_sequence=last_sequence, bpf_file_system=bpf_file_system)
    try:
        made = _close(config, names, bpf_file_system)
        open_ports = _open_ports(names)
        why = "the program is not the first at its ingress"
    except (LimiterError, OSError) as error:
        made, open_ports, why = 0, names, str(error)
    finally:
        meters.close()
    for name in open_ports:
        down(name)
    if open_ports:
        raise NotClosedError(
            f"{', '.join(open_ports)}: cannot be closed ({why}), so taken down; look at the agent's log, repair that, "
            "and start the agent: `ip link set PORT up` opens a port without a limit"
        )
    return f"{', '.join(names)}: closed, {made} orders at their floor were put in force"


def _close(config: AgentConfig, names: list[str], bpf_file_system: Path) -> int:
    policer = Policer(names, bpf_file_system=bpf_file_system, bucket_ns=config.bucket_ns or 1, gated=True)
    try:
        there = {(order.port, order.traffic_class) for order in policer.read_back()}
        floors = [
            Order(name, traffic_class, *pair, None, None, *pair)
            for name in names
            for traffic_class, floor in config.limits.floors.items()
            for pair in ((floor.rate_bytes_per_s, floor.depth_bytes),)
            if (name, traffic_class) not in there
        ]
        policer.apply(floors)
    finally:
        policer.close()
    return len(floors)


def _open_ports(names: list[str]) -> list[str]:
    """Return the ports that are there and at whose ingress ours is not the first filter."""
    hooks = Hooks()
    try:
        chains = {name: hooks.look(name) for name in names}
    finally:
        hooks.close()
    return [
        name
        for name, chain in chains.items()
        if chain is not None
        and not (chain.filters and (chain.filters[0].preference, chain.filters[0].name) == (PREFERENCE, NAME))
    ]


def take_down(port: str) -> None:
    """Take an interface down, if it is there; a failure is told in the log."""
    try:
        with IPRoute() as netlink:
            for index in netlink.link_lookup(ifname=port):
                netlink.link("set", index=index, state="down")
    except (NetlinkError, OSError) as error:
        log.error("%s cannot be taken down: %s. It is OPEN.", port, error)  # noqa: TRY400 the sentence says it all
