"""Puts limits in force at the agent's start: closed first, then what leases allow."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from dpu_agent.clock import Clock
from dpu_agent.config import AgentConfig, PortConfig
from dpu_agent.disk import Disk
from dpu_agent.home import cannot_write
from dpu_agent.leasestore import LeaseStore
from dpu_agent.limiting import Limiting, NoLimiting
from dpu_agent.limits.leases import Leases
from dpu_agent.limits.order import Limiter, LimiterError
from dpu_agent.limits.police import Policer
from dpu_agent.limits.settings import NONE, SHAPE
from dpu_agent.limits.shape import Shaper
from protos.reading import Direction, Observer

log = logging.getLogger(__name__)

DIRECTION = {Observer.DPU_HOST_PORT: Direction.EGRESS, Observer.DPU_UPLINK: Direction.INGRESS}
"""What a port's ingress is to the node."""


def limiting_of(config: AgentConfig, disk: Disk, clock: Clock, limiter: Limiter | None = None) -> Limiting:
    """Return the limits of ``config``, in force.

    An agent that is told to limit and cannot goes on measuring, takes no lease, and says in every frame that it limits
    nothing, and why.

    Raises:
        StateError: what is remembered of leases cannot be read.
    """
    if config.limits.backend == NONE:
        return NoLimiting()
    ports = {port.name: DIRECTION[port.role] for port in config.ports}
    try:
        store, remembered = LeaseStore.open(disk, config.state_directory)
        return Leases(
            terms=config.limits.terms(config.agent, config.verifier_public_key, ports),
            floors=config.limits.floors,
            limiter=limiter or limiter_of(config),
            store=store,
            remembered=remembered,
            clock=clock,
            clock_offset_ns=config.clock_offset_ns,
        )
    except LimiterError as error:
        log.error("limits.backend %s cannot be used: %s. NOTHING IS LIMITED.", config.limits.backend, error)  # noqa: TRY400
        return NoLimiting(config.limits.backend, str(error))
    except OSError as error:
        raise cannot_write(config.state_directory, error) from error


def limiter_of(config: AgentConfig) -> Limiter:
    """Return the limiter that the configuration names; the meters must be open.

    Raises:
        LimiterError: it cannot be used here.
    """
    if not config.bucket_ns:
        raise LimiterError("it limits in the meter's program, and the configuration has meter.bucket_us 0")
    policer = Policer([port.name for port in config.ports], bucket_ns=config.bucket_ns, gated=True)
    return Shaper(policer, ways_out(config.ports)) if config.limits.backend == SHAPE else policer


def ways_out(ports: Sequence[PortConfig]) -> dict[str, list[str]]:
    """Return where what comes in at a port leaves: at every port of the other role."""
    return {port.name: [other.name for other in ports if other.role is not port.role] for port in ports}
