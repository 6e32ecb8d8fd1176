"""The shape that others program against."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace

from controller.crosscheck.check import crosscheck
from controller.crosscheck.json_form import CSV_HEADER, csv_rows, to_json
from controller.crosscheck.model import CrossCheck, Limit, Period, PortEvidence
from protos.reading import Observer, Reading
from tests.controller.crosscheck.scene import S, everywhere, link, site, steady

T0 = 1_790_000_000 * S


def lying() -> CrossCheck:
    truth = steady(T0 + 10 * S, T0 + 40 * S, 20_000_000, frame=100_000)
    said = everywhere(truth) | {Observer.HOST: truth.scaled(0.01)}
    port = PortEvidence("sw1", "eth7", False, True, tuple(Reading(T0 + at * S, T0 + at * S, at) for at in (0, 5, 9)))
    evidence = link(said, limits=(Limit(10 * S, 10_000_000),), start=T0 - 20 * S, end=T0 + 80 * S, drops=False)
    return crosscheck(site(evidence, ports=(port,), period=Period(T0 - 5 * S, T0 + 82 * S)))


def test_the_agreed_shape() -> None:
    result = json.loads(json.dumps(to_json(lying())))
    assert result["period"] == {
        "from_ns": str(T0 - 5 * S),
        "to_ns": str(T0 + 82 * S),
        "evidence_from_ns": str(T0 - 5 * S),
    }
    assert result["verdict"] == "violation"
    (one,) = result["links"]
    assert {"link", "direction", "verdict", "coverage", "hidden_bytes_bound", "observers", "laws"} <= set(one)
    assert (one["link"], one["direction"], one["verdict"]) == ("node1/p0", "egress", "violation")
    assert list(one["observers"]) == ["host", "dpu.host_port", "dpu.uplink", "switch"]
    # The period ends after the last reading: nothing bounds it from above.
    assert one["observers"]["switch"] == {"lower_bytes": "600000000", "upper_bytes": None}
    assert isinstance(one["coverage"], float)
    laws = {law["law"]: law for law in one["laws"]}
    assert {law["holds"] for law in laws.values()} == {"yes", "no", "unknown"}
    assert laws["dpu.host_port <= host"]["gap_at_least_bytes"] == "594000000"
    assert laws["dpu.host_port <= host"]["margin"]
    (port,) = result["ports"]
    assert port == {
        "switch": "sw1",
        "port": "eth7",
        "declared": False,
        "lower_bytes": "9",
        "upper_bytes": None,
        "operational": True,
    }
    finding = next(one for one in result["findings"] if one["kind"] == "host-under-reports")
    assert finding["certain"] is True
    assert finding["bytes_at_least"] == "594000000"
    assert finding["link"] == "node1/p0"
    assert finding["direction"] == "egress"
    assert finding["text"]


def numbers(value: object) -> list[object]:
    """Every number in the JSON that is not a string."""
    if isinstance(value, dict):
        return [found for one in value.values() for found in numbers(one)]
    if isinstance(value, list):
        return [found for one in value for found in numbers(one)]
    return [value] if isinstance(value, (int, float)) and not isinstance(value, bool) else []


def test_no_number_is_too_large_for_a_reader_that_rounds() -> None:
    assert all(abs(float(str(one))) < 2**53 for one in numbers(to_json(lying())))


def test_certain_findings_come_first() -> None:
    idle = PortEvidence("sw1", "eth6", declared=False, operational=True, readings=())
    honest = link(everywhere(steady(T0, T0 + 9 * S, 50_000)), start=T0 - 20 * S, end=T0 + 80 * S, name="node2/p0")
    ports = (idle, replace(idle, port="eth7", readings=(Reading(T0, T0, 0), Reading(T0 + S, T0 + S, 5))))
    result = crosscheck(site(honest, ports=ports, period=Period(T0 - 5 * S, T0 + 20 * S)))
    certain = [finding.certain for finding in result.findings]
    assert certain == sorted(certain, reverse=True)
    assert set(certain) == {True, False}


def test_csv_has_a_row_for_each_observer_and_leaves_the_unbounded_empty() -> None:
    text = io.StringIO()
    csv.writer(text).writerows(csv_rows(lying()))
    rows = list(csv.DictReader(io.StringIO(text.getvalue())))
    assert tuple(rows[0]) == CSV_HEADER
    assert [row["observer"] for row in rows] == [observer.value for observer in Observer]
    assert rows[3]["upper_bytes"] == ""
    assert rows[3]["lower_bytes"] == "600000000"
