"""Rules for every test: no network for unit tests, and no silent skips where they must run.

A test without a marker has no sockets. ``loopback`` gives it 127.0.0.1 and Unix sockets; ``rig`` lifts the
rule (it works in network namespaces of its own). Under ``CI=true`` any skipped test fails the run.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import pytest_socket
from hypothesis import settings

PROJECT = Path(__file__).resolve().parent.parent
# The recorded counters lie beside the project; nothing of them is copied into it.
TRACES = PROJECT.parent / "shared" / "traces"

_ONE_WORKER = "daemons"

if "CI" not in os.environ:
    # Hypothesis has a profile of its own for CI; here as there, no test fails because the machine was busy.
    settings.register_profile("here", deadline=None)
    settings.load_profile("here")


@pytest.hookimpl(tryfirst=True)  # before xdist writes the groups into the names of tests
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    in_workers = config.pluginmanager.hasplugin("xdist")
    for item in items:
        if item.get_closest_marker("rig") and os.geteuid() != 0:
            item.add_marker(pytest.mark.skip(reason="needs root for network namespaces"))
        if in_workers and (item.get_closest_marker("rig") or item.get_closest_marker("loopback")):
            # Real daemons share this computer's ports and interfaces' names: one worker runs them, one after another.
            item.add_marker(pytest.mark.xdist_group(_ONE_WORKER))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Fail at once where the group is not honoured: rigs would be built over one another."""
    in_a_worker = hasattr(session.config, "workerinput")
    for item in session.items if in_a_worker else ():
        if item.get_closest_marker("xdist_group") and not item.nodeid.endswith(f"@{_ONE_WORKER}"):
            raise pytest.UsageError(f"{item.nodeid} is not kept to one worker; is pytest as in constraints.txt?")


@pytest.hookimpl(trylast=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("rig"):
        return
    if item.get_closest_marker("loopback"):
        pytest_socket.socket_allow_hosts(["127.0.0.1", "::1", "localhost"], allow_unix_socket=True)
    else:
        pytest_socket.disable_socket(allow_unix_socket=True)


def pytest_runtest_teardown() -> None:
    pytest_socket.enable_socket()


@pytest.fixture(scope="session")
def traces() -> Path:
    """The folder of recorded counters; the test skips, visibly, where it is absent."""
    if not TRACES.is_dir():
        pytest.skip(f"the recorded traces are not at {TRACES}")
    return TRACES


def _skipped_in_ci(config: pytest.Config) -> list[str]:
    """Return what was skipped though nothing may be, as the process that reports knows it."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("CI") != "true" or reporter is None:
        return []
    return [report.nodeid for report in reporter.stats.get("skipped", [])]


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    if _skipped_in_ci(session.config):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    skipped = _skipped_in_ci(config)
    if skipped:
        terminalreporter.section("skipped in CI, which counts as failed", red=True)
        for nodeid in skipped:
            terminalreporter.write_line(nodeid)
