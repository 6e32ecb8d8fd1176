"""The controller's own metrics for Prometheus: what polling each switch costs and yields."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, Metric, SummaryMetricFamily
from prometheus_client.registry import Collector

from controller.errors import OperatorError
from switch.effort import Effort

_COUNTS: tuple[tuple[str, str, Callable[[Effort], int]], ...] = (
    ("polls", "Looks at the switch, with or without an answer.", lambda effort: effort.polls),
    ("requests", "Messages sent that were answered, or whose later attempt was.", lambda effort: effort.transmissions),
    ("retries", "Messages sent again before there was an answer.", lambda effort: effort.retries),
    ("varbinds", "Variable bindings in answers.", lambda effort: effort.varbinds),
    ("answer_octets", "Octets of answers.", lambda effort: effort.octets),
    ("rows_expected", "Ports asked for.", lambda effort: effort.rows_expected),
    ("rows_got", "Ports read.", lambda effort: effort.rows_got),
)


class SwitchMetrics(Collector):
    """Metrics of efforts that grow elsewhere, read when they are asked for."""

    def __init__(self, efforts: Mapping[str, Effort]) -> None:
        self._efforts = efforts

    def collect(self) -> Iterable[Metric]:
        """See prometheus_client."""
        for name, about, count in _COUNTS:
            family = CounterMetricFamily(f"weighbridge_switch_{name}", about, labels=["switch"])
            for switch, effort in self._efforts.items():
                family.add_metric([switch], count(effort))
            yield family
        missing = CounterMetricFamily("weighbridge_switch_rows_missing", "Ports not read.", labels=["switch", "reason"])
        answers = SummaryMetricFamily(
            "weighbridge_switch_answer_seconds", "From a question's first message to its answer.", labels=["switch"]
        )
        for switch, effort in self._efforts.items():
            for reason, rows in sorted(list(effort.missing.items())):  # noqa: C414  a copy: polling goes on meanwhile
                missing.add_metric([switch, reason], rows)
            answers.add_metric([switch], effort.exchanges, effort.answering_ns / 1e9)
        yield missing
        yield answers


@contextmanager
def served(efforts: Mapping[str, Effort], host: str, port: int) -> Iterator[int]:
    """Answer Prometheus at an address, in a thread, until the end; yields the port, which 0 leaves to the system.

    Raises:
        OperatorError: the address cannot be listened on.
    """
    registry = CollectorRegistry()
    registry.register(SwitchMetrics(efforts))
    try:
        server, thread = start_http_server(port, host, registry)
    except OSError as error:
        raise OperatorError(
            f"--metrics {host}:{port}: {error}. Give an address of this machine that is free"
        ) from error
    try:
        yield int(server.server_address[1])
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
