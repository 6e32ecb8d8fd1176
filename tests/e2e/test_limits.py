"""Limits on a rig, end to end: agreed by both, leased, enforced, and closed when nobody is there to renew."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from hil.bench import limit_scene
from hil.bench.limit_scene import AGENT, NS, OWN_DEPTH, RATE, Scene, listed
from protos.lease import most_bytes

pytestmark = [pytest.mark.rig, pytest.mark.slow]

LIFE_NS = 15 * NS
"""Long enough for a controller to stop and start within what is left of a lease, on a slow computer too."""
REFUSAL_NS = 10_000_000
"""A frame of 1442 bytes has its tokens after 1.4 ms, however the machine runs."""


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with limit_scene.scene(tmp_path_factory.mktemp("limits")) as found:
        yield found


def test_limits_hold_and_fail_closed(scene: Scene) -> None:
    operation, rig = scene.operation, scene.operation.rig
    agent = scene.agent
    # 1. Without a lease nothing passes but the network's own frames.
    closed_ns = time.monotonic_ns()
    operation.start()
    assert scene.passed(closed_ns, time.monotonic_ns())[0] < OWN_DEPTH
    # 2. Leased: the rate comes through, and no window holds more, through a restart of the controller.
    leased_ns = time.monotonic_ns()
    scene.grant("15s")
    opened_ns = time.monotonic_ns()
    time.sleep(2)
    operation.stop()
    operation.start()
    time.sleep(max(0, opened_ns + LIFE_NS - time.monotonic_ns()) / NS + 2)
    renewed_ns = time.monotonic_ns()
    came, took_ns = scene.passed(opened_ns, renewed_ns)
    assert took_ns > LIFE_NS  # longer than one lease lives: they were renewed
    assert came > most_bytes(RATE, 0, took_ns) * 8 // 10
    assert scene.worst_window(leased_ns, renewed_ns) <= 1
    refused_ns, told = scene.longest_refusal_ns(
        operation.now_ns() - (time.monotonic_ns() - opened_ns), operation.now_ns()
    )
    assert told > 0
    assert refused_ns < REFUSAL_NS
    # The agent is cut off from everybody: the limit ends with the lease, and it is open again when the agent is back.
    scene.grant("6s")
    time.sleep(1)
    scene.cut_management(cut=True)
    cut_ns = time.monotonic_ns()
    end_ns = scene.last_lease_end_ns()
    scene.wait_for_end(end_ns)
    assert scene.last_traffic_ns(cut_ns) <= end_ns + NS
    assert scene.worst_window(leased_ns, time.monotonic_ns()) <= 1
    scene.cut_management(cut=False)
    assert scene.wait_until_open()
    # 3. Controller and agent are killed: the limit stays in the kernel, and ends with the lease.
    operation.kill()
    scene.kill_agent()
    killed_ns = time.monotonic_ns()
    end_ns = scene.last_lease_end_ns()
    scene.wait_for_end(end_ns)
    over_ns = time.monotonic_ns()
    assert scene.passed(killed_ns, max(killed_ns + NS, end_ns - 2 * NS))[0] > 0
    assert scene.last_traffic_ns(killed_ns) <= end_ns + NS
    assert scene.worst_window(leased_ns, over_ns) <= 1
    # 4. The agent comes back: closed. The controller comes back: open.
    agent.supervise("start", AGENT)
    time.sleep(3)
    assert scene.passed(over_ns, time.monotonic_ns())[0] < OWN_DEPTH
    operation.start()
    assert scene.wait_until_open()
    # 5. Revoked: closed at once.
    operation.weighbridge("leases", "revoke", agent.name)
    revoked_ns = time.monotonic_ns()
    time.sleep(2)
    assert scene.passed(revoked_ns + NS // 2, time.monotonic_ns())[0] < OWN_DEPTH
    # 6. What the limiters did is what the leases allowed: nobody is accused, and no law broke on what was dropped.
    to_ns = operation.now_ns()
    time.sleep(2)
    operation.stop()
    result = operation.crosscheck(to_ns - (time.monotonic_ns() - closed_ns), to_ns)
    kinds = {finding["kind"] for finding in result["findings"] if finding["certain"]}
    assert not kinds & {"limit-not-enforced", "observers-disagree", "host-under-reports", "host-over-reports"}, result[
        "findings"
    ]
    # 7. A reboot ends a lease that would have lived on; the ports are closed before the network comes up again.
    # Nobody renews while the controller is stopped, so the far end's lease may be over as well.
    scene.grant("60s")
    granted_ns = time.monotonic_ns()
    time.sleep(1)
    assert scene.passed(granted_ns, time.monotonic_ns())[0] > OWN_DEPTH
    rebooted_ns = time.monotonic_ns()
    rig.reboot(agent.name)
    deadline = time.monotonic() + 60
    while not (rows := listed(operation, agent.name)) and time.monotonic() < deadline:
        time.sleep(0.3)
    assert {row["floor_reason"] for row in rows if row["state"] == "floor"} >= {"rebooted"}
    time.sleep(2)
    assert scene.passed(rebooted_ns + NS // 10, time.monotonic_ns())[0] < OWN_DEPTH
    assert time.monotonic_ns() < granted_ns + 60 * NS
