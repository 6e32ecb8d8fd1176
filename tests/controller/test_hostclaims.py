"""A host's claim is read exactly, or said not to be there."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from controller.errors import ClaimError
from controller.hostclaims import (
    MAX_LINE_BYTES,
    MAX_LINES,
    MAX_LINES_PER_INTERFACE,
    ClaimedEpochs,
    Counter,
    HostClaim,
    InterfaceClaim,
    parse_claim,
)
from protos.reading import Direction, Missing

BYTES = "node_network_transmit_bytes_total"


def _bytes(text: str, device: str = "eth0") -> Counter | Missing:
    return parse_claim(text.encode(), [device]).interfaces[device, Direction.EGRESS].bytes


def go_format(value: int) -> str:
    """As node_exporter prints: Go's FormatFloat(v, 'g', -1, 64), shortest, exponent from 21 digits or precision up."""
    number = float(value)
    mantissa, exponent = np.format_float_scientific(number, unique=True, trim="-", exp_digits=2).split("e")
    digits = len(mantissa.replace(".", ""))
    if int(exponent) >= max(digits, 6) if digits <= 6 else int(exponent) >= 21:
        return f"{mantissa}e{exponent}"
    return f"{mantissa}e{exponent}" if int(exponent) >= 6 else np.format_float_positional(number, trim="-")


@given(value=st.integers(0, 2**64 - 2048))
@example(value=2**53 - 1)
@example(value=2**53 + 1)
@example(value=1_500_000_000)
@example(value=999_999)
def test_what_node_exporter_prints_holds_the_counter(value: int) -> None:
    claim = _bytes(f'{BYTES}{{device="eth0"}} {go_format(value)}\n')
    if value and Decimal(go_format(value)) % 10_000_000 == 0 and claim is Missing.MALFORMED:
        return  # so many zeros left out that the claim could be a rounded one
    assert isinstance(claim, Counter)
    assert claim.value <= value <= claim.value + claim.slack
    if value < 2**53 and value % 10:
        assert claim == Counter(value, 0), "every digit is printed: the claim is one number"


@given(value=st.integers(0, 10**15), digits=st.integers(1, 12))
def test_what_a_rounding_exporter_prints_holds_the_counter(value: int, digits: int) -> None:
    claim = _bytes(f'{BYTES}{{device="eth0"}} {value:.{digits}e}\n')
    if isinstance(claim, Counter):
        assert claim.value <= value <= claim.value + claim.slack
    else:
        few, many = value < 10**digits, value >= 10 ** (digits + 6)
        assert few or many, "more digits than the number has: no whole number; or known to no better than MB"


@given(body=st.binary(max_size=300))
@example(body=b'node_network_transmit_bytes_total{device="eth0"\n')
@example(body=b"node_network_transmit_bytes_total 1\n")
@example(body=b'node_network_transmit_bytes_total{device="eth0"} 1 # x\n')
def test_any_bytes_are_a_claim_or_a_claim_error(body: bytes) -> None:
    try:
        parse_claim(body, ["eth0"])
    except ClaimError:
        return


@given(tail=st.text(alphabet='{}=",\\ abc0123456789.e+-#\t', max_size=60))
def test_any_line_is_read_or_malformed(tail: str) -> None:
    claim = _bytes(f"{BYTES}{tail}\n")
    assert isinstance(claim, Counter | Missing)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("0", Counter(0)),
        ("12", Counter(12)),
        ("12 1395066363000", Counter(12)),
        ("1.234567e+06", Counter(1_234_567)),
        ("1.5e+07", Counter(14_500_000, 1_000_000)),
        ("1.5e+09", Missing.MALFORMED),
        ("1e+19", Missing.MALFORMED),
        ("0e999999999", Counter(0)),
        ("9.007199254740992e+15", Counter(2**53 - 1, 2)),
        ("NaN", Missing.MALFORMED),
        ("+Inf", Missing.MALFORMED),
        ("-1", Missing.MALFORMED),
        ("1.5", Missing.MALFORMED),
        ("1.8446744073709552e+19", Missing.MALFORMED),
        ("1e999999999", Missing.MALFORMED),
        ("twelve", Missing.MALFORMED),
        ("", Missing.MALFORMED),
        ("0x10", Missing.MALFORMED),
        ("1_000", Missing.MALFORMED),
    ],
)
def test_values(value: str, expected: Counter | Missing) -> None:
    assert _bytes(f'{BYTES}{{device="eth0"}} {value}\n') == expected


def test_absent_is_not_zero_and_other_devices_do_not_count() -> None:
    assert _bytes(f'{BYTES}{{device="eth1"}} 5\n') is Missing.ABSENT
    assert _bytes("") is Missing.ABSENT
    assert _bytes(f'{BYTES}{{device="eth0"}} 0\n') == Counter(0)
    assert _bytes(f'# {BYTES}{{device="eth0"}} 0\n') is Missing.ABSENT


def test_a_counter_told_twice_is_malformed_unless_it_says_the_same() -> None:
    line = f'{BYTES}{{device="eth0"}} 5\n'
    assert _bytes(line + line) == Counter(5)
    assert _bytes(line + line.replace("5", "6")) is Missing.MALFORMED
    assert _bytes(line + line.replace("5", "6") + line) is Missing.MALFORMED


def test_label_values_are_unescaped_by_the_standard_parser() -> None:
    assert _bytes(BYTES + '{device="a\\"}b"} 7\n', device='a"}b') == Counter(7)


@pytest.mark.parametrize("body", [b"\xff\xfe\n", f'{BYTES}{{device="eth0"}} 12'.encode()])
def test_a_body_that_is_no_text_is_refused(body: bytes) -> None:
    with pytest.raises(ClaimError):
        parse_claim(body, ["eth0"])


def test_a_scrape_gives_both_directions_and_the_boot_time() -> None:
    body = (
        "node_boot_time_seconds 1.7e+09\n"
        'node_network_transmit_bytes_total{device="eth0"} 100\n'
        'node_network_transmit_packets_total{device="eth0"} 1\n'
        'node_network_receive_bytes_total{device="eth0"} 200\n'
    )
    claim = parse_claim(body.encode(), ["eth0"])
    assert claim.boot_time_s == Decimal(1_700_000_000)
    assert claim.interfaces["eth0", Direction.EGRESS] == InterfaceClaim(Counter(100), Counter(1))
    assert claim.interfaces["eth0", Direction.INGRESS] == InterfaceClaim(Counter(200), Missing.ABSENT)
    assert parse_claim(body.encode() + b"node_boot_time_seconds 5\n", []).boot_time_s is None


def _claim(sent: int, *, boot: int | None = 1000, slack: int = 0) -> HostClaim:
    counted = InterfaceClaim(Counter(sent, slack), Counter(3))
    absent = InterfaceClaim(Missing.ABSENT, Missing.ABSENT)
    return HostClaim(
        None if boot is None else Decimal(boot),
        {("eth0", Direction.EGRESS): counted, ("eth0", Direction.INGRESS): absent},
    )


def _epochs(*claims: HostClaim) -> tuple[ClaimedEpochs, list[int]]:
    epochs = ClaimedEpochs()
    numbers: list[int] = []
    for at, claim in enumerate(claims):
        readings = epochs.readings(claim, "eth0", earliest_ns=at * 10, latest_ns=at * 10 + 5)
        numbers.extend(reading.epoch for reading in readings.values())
    return epochs, numbers


def test_a_host_that_goes_on_has_one_epoch() -> None:
    epochs, numbers = _epochs(_claim(100), _claim(100), _claim(5000, boot=1001), _claim(6000))
    assert numbers == [0, 0, 0, 0]
    assert epochs.proven == {0}


def test_a_boot_or_a_decrease_begins_another() -> None:
    epochs, numbers = _epochs(_claim(900), _claim(1000, boot=1005), _claim(10, boot=1005), _claim(20, boot=1005))
    assert numbers == [0, 1, 2, 2]
    assert epochs.reasons == {1: "the host says it booted again", 2: "the host's egress bytes decreased"}
    assert epochs.proven == {0, 1, 2}


def test_a_boot_time_that_creeps_is_a_boot_in_the_end() -> None:
    _, numbers = _epochs(_claim(1), _claim(2, boot=1001), _claim(3, boot=1002))
    assert numbers == [0, 0, 1]


def test_a_decrease_within_the_slack_is_none() -> None:
    _, numbers = _epochs(_claim(1000, slack=50), _claim(960, slack=50), _claim(900, slack=50))
    assert numbers == [0, 0, 1]


def test_without_a_boot_time_nothing_is_proven() -> None:
    epochs, numbers = _epochs(_claim(1, boot=None), _claim(2, boot=None), _claim(3), _claim(4, boot=None))
    assert numbers == [0, 0, 1, 2]
    assert epochs.proven == {1}


def test_a_scrape_without_the_interface_gives_no_reading() -> None:
    absent = InterfaceClaim(Missing.ABSENT, Missing.ABSENT)
    nothing = HostClaim(Decimal(1), dict.fromkeys((("eth0", d) for d in Direction), absent))
    epochs, numbers = _epochs(nothing)
    assert numbers == []
    assert epochs.reasons == {}


def test_a_flood_of_lines_is_not_read() -> None:
    """A host that repeats itself 60,000 times would keep the controller's one loop busy for seconds, every second."""
    line = f'{BYTES}{{device="eth0"}} 1\n'
    most = MAX_LINES + MAX_LINES_PER_INTERFACE
    with pytest.raises(ClaimError, match="no exporter prints such"):
        parse_claim((line * (most + 1)).encode(), ["eth0"])
    assert _bytes(line * most) == Counter(1)
    assert _bytes(f'{BYTES}{{device="eth1"}} 1\n' * (2 * most) + line) == Counter(1), "others' lines cost nothing"
    labels = ",".join(f'x{number}="1"' for number in range(MAX_LINE_BYTES // 7))
    with pytest.raises(ClaimError, match="no exporter prints such"):
        parse_claim(f'{BYTES}{{{labels},device="eth0"}} 1\n'.encode(), ["eth0"])


@pytest.mark.parametrize("boots", [("1e9999999", "1"), ("1", "1e9999999"), ("-1e9999999", "1"), ("NaN", "1")])
def test_a_boot_time_that_cannot_be_is_none(boots: tuple[str, str]) -> None:
    """Arithmetic on it would overflow, and no period with this scrape in it could ever be judged again."""
    epochs = ClaimedEpochs()
    for boot in boots:
        claim = parse_claim(f'{BYTES}{{device="eth0"}} 1\nnode_boot_time_seconds {boot}\n'.encode(), ["eth0"])
        epochs.readings(claim, "eth0", earliest_ns=1, latest_ns=2)
    assert epochs.epoch == 1, "knowing it, or no longer knowing it, ends the epoch"
    assert len(epochs.proven) == 1
