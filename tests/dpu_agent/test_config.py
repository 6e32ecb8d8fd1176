from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpu_agent import config, configfile
from dpu_agent.errors import ConfigError
from dpu_agent.leasechecks import LoadTerms
from dpu_agent.limits.order import LimitClass
from dpu_agent.limits.settings import CLOSED, L2_CONTROL, NONE, POLICE, Floor
from protos.buckets import TrafficClass
from protos.lease import Bound
from protos.reading import Observer

_WHOLE: dict[str, Any] = {
    "agent": "node1-dpu0",
    "listen": "10.250.0.11:7443",
    "ca": "/etc/ca.pem",
    "certificate": "agent.pem",
    "key": "agent.key",
    "state_directory": "/var/lib/weighbridge",
    "ports": [{"name": "pf0hpf", "role": "host_port"}, {"name": "p0", "role": "uplink", "refresh_ms": 2000}],
    "frame_interval_ms": 250,
    "spool": {"max_bytes": 8388608, "max_age_s": 3600},
    "clock_offset_ns": 7,
}


def _written(folder: Path, content: object) -> Path:
    path = folder / "agent.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_a_whole_file(tmp_path: Path) -> None:
    read = config.load(_written(tmp_path, _WHOLE))
    assert read.ca == Path("/etc/ca.pem")
    assert read.certificate == tmp_path / "agent.pem"
    assert read.ports == (
        config.PortConfig("pf0hpf", Observer.DPU_HOST_PORT),
        config.PortConfig("p0", Observer.DPU_UPLINK, 2_000_000_000),
    )
    assert (read.frame_interval_ns, read.clock_offset_ns) == (250_000_000, 7)
    assert read.spool == config.SpoolLimits(8388608, 3600 * 10**9)


def test_defaults_are_those_of_the_docstring(tmp_path: Path) -> None:
    least = {key: _WHOLE[key] for key in ("agent", "listen", "ca", "certificate", "key", "state_directory", "ports")}
    read = config.load(_written(tmp_path, least))
    assert (read.frame_interval_ns, read.clock_offset_ns) == (10**9, 0)
    assert read.spool == config.SpoolLimits(1 << 30, 72 * 3600 * 10**9)
    assert config.__doc__ is not None
    for number in (1000, 1 << 30, 72 * 3600, config.MIN_SPOOL_BYTES, config.MAX_PORTS):
        assert str(number) in config.__doc__


def test_the_example_of_the_docstring_is_read(tmp_path: Path) -> None:
    assert config.__doc__ is not None
    example = config.__doc__.split("::\n", 1)[1].split("=====", 1)[0]
    assert config.load(_written(tmp_path, example)).agent == "node1-dpu0"


@pytest.mark.parametrize(
    ("change", "key", "says"),
    [
        ({"agnet": "x"}, "agnet", "is not a key of this file"),
        ({"agent": None}, "agent", "is not a text"),
        ({"agent": ""}, "agent", "is not a text"),
        ({"agent": "a b"}, "agent", "is not a name"),
        ({"agent": "é"}, "agent", "is not a name"),
        ({"listen": "10.250.0.11"}, "listen", "is not an address and port"),
        ({"listen": "dpu:7443"}, "listen", "is not an address and port"),
        ({"listen": "10.250.0.11:0"}, "listen", "is not an address and port"),
        ({"listen": "10.250.0.11:07443"}, "listen", "is not an address and port"),
        ({"listen": "10.250.0.11:70000"}, "listen", "is not an address and port"),
        ({"listen": "10.250.0.311:7443"}, "listen", "is not an address and port"),
        ({"listen": "0.0.0.0:7443"}, "listen", "every interface"),
        ({"listen": "[::]:7443"}, "listen", "every interface"),
        ({"listen": 7443}, "listen", "is not a text"),
        ({"ca": ["x"]}, "ca", "is not a text"),
        ({"ports": []}, "ports", "names 0 ports"),
        ({"ports": {}}, "ports", "is not a list"),
        ({"ports": ["p0"]}, "ports[0]", "is not an object"),
        ({"ports": [{"name": "p0"}]}, "ports[0].role", "is missing"),
        ({"ports": [{"name": "p0", "role": "up"}]}, "ports[0].role", "is not a role"),
        ({"ports": [{"name": "p0", "role": "uplink", "source": "mlx5"}]}, "ports[0].source", "is not a source"),
        ({"ports": [{"name": "p0", "role": "uplink", "x": 1}]}, "ports[0].x", "is not a key of this file"),
        ({"ports": [{"name": "p0", "role": "uplink"}] * 2}, "ports[1].name", "is given twice"),
        ({"ports": [{"name": "a" * 16, "role": "uplink"}]}, "ports[0].name", "is not a name"),
        ({"ports": [{"name": "../p0", "role": "uplink"}]}, "ports[0].name", "is not an interface's name"),
        ({"ports": [{"name": f"p{n}", "role": "uplink"} for n in range(65)]}, "ports", "names 65 ports"),
        ({"frame_interval_ms": "1s"}, "frame_interval_ms", "is not a whole number"),
        ({"frame_interval_ms": 1000.0}, "frame_interval_ms", "is not a whole number"),
        ({"frame_interval_ms": True}, "frame_interval_ms", "is not a whole number"),
        ({"frame_interval_ms": 99}, "frame_interval_ms", "is out of range"),
        ({"frame_interval_ms": 10**30}, "frame_interval_ms", "is out of range"),
        ({"spool": 5}, "spool", "is not an object"),
        ({"spool": {"max_bytes": "1GiB"}}, "spool.max_bytes", "is not a whole number"),
        ({"spool": {"max_bytes": 1000}}, "spool.max_bytes", "is out of range"),
        ({"spool": {"max_age_h": 3}}, "spool.max_age_h", "is not a key of this file"),
        ({"clock_offset_ns": -1}, "clock_offset_ns", "is out of range"),
        ({"limits": {"backend": "hope"}}, "limits.backend", "is not a backend"),
        ({"limits": {"backend": ["police"]}}, "limits.backend", "is not a backend"),
        ({"limits": {"floors": {"management": {}}}}, "limits.floors.management", "is not a class that is limited"),
        ({"limits": {"floors": {"storage": {"depth_bytes": 0}}}}, "limits.floors.storage.rate_bytes_per_s", "missing"),
        ({"limits": {"prover_public_key": "00"}}, "limits.prover_public_key", "is not an Ed25519 public key"),
        ({"limits": {"agreement": {"sha256": "00"}}}, "limits.agreement.sha256", "is not a SHA-256"),
        ({"limits": {"agreement": {"sha256": 5}}}, "limits.agreement.sha256", "is not a SHA-256"),
        ({"limits": {"agreement": {"bounds": [{}]}}}, "limits.agreement.bounds[0].class", "is missing"),
        (
            {"limits": {"agreement": {"bounds": [{"class": "unknown", "window_ms": 1, "bytes": 1}]}}},
            "limits.agreement.bounds[0].class",
            "is not a class that is leased",
        ),
        ({"limits": {"agreement": {"loads": {"classes": []}}}}, "limits.agreement.loads.classes", "is not a list"),
        ({"limits": {"agreement": {"longest_lifetime_ms": 0}}}, "limits.agreement.longest_lifetime_ms", "out of range"),
    ],
)
def test_a_wrong_value_is_refused_with_file_and_key(
    tmp_path: Path, change: dict[str, Any], key: str, says: str
) -> None:
    path = _written(tmp_path, _WHOLE | change)
    with pytest.raises(ConfigError) as refused:
        config.load(path)
    assert refused.value.key == key
    assert str(refused.value).startswith(f"{path}: {key}: ")
    assert says in refused.value.problem
    assert refused.value.remedy
    assert refused.value.exit_code == 2


@pytest.mark.parametrize("key", ["agent", "listen", "ca", "certificate", "key", "state_directory", "ports"])
def test_a_missing_key_is_named(tmp_path: Path, key: str) -> None:
    with pytest.raises(ConfigError) as refused:
        config.load(_written(tmp_path, {name: value for name, value in _WHOLE.items() if name != key}))
    assert (refused.value.key, refused.value.problem) == (key, "is missing")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ('{"agent": "a", "agent": "b"}', "is given twice"),
        ('{"agent": "a", "ports": [{"name": "p0", "name": "p1"}]}', "is given twice"),
        ('{"frame_interval_ms": NaN}', "NaN is not a value of JSON"),
        ("[]", "is not a JSON object"),
        ("", "is not JSON at line 1, column 1"),
        ('{"agent": "a",\n}', "is not JSON at line"),
        ("[" * 100_000, "is not JSON"),
        ('{"frame_interval_ms": ' + "9" * 5000 + "}", "is not JSON that can be read"),
        ("{}" + " " * configfile.MAX_CONFIG_BYTES, "is larger than"),
    ],
)
def test_what_is_not_the_json_we_mean_is_refused(tmp_path: Path, content: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        config.load(_written(tmp_path, content))


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is not there"):
        config.load(tmp_path / "none.json")
    with pytest.raises(ConfigError, match="cannot be read"):
        config.load(tmp_path)
    (tmp_path / "latin.json").write_bytes(b'{"agent": "\xe9"}')
    with pytest.raises(ConfigError, match="is not UTF-8 at byte 11"):
        config.load(tmp_path / "latin.json")


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(sorted(_WHOLE)), inner, max_size=4),
    max_leaves=12,
)


@given(change=st.dictionaries(st.sampled_from([*_WHOLE, "other"]), _JSON, max_size=3), text=st.none() | st.text())
def test_nothing_but_a_config_or_its_error_comes_out(
    tmp_path_factory: pytest.TempPathFactory, change: dict[str, Any], text: str | None
) -> None:
    path = tmp_path_factory.mktemp("config") / "agent.json"
    path.write_text(json.dumps(_WHOLE | change) if text is None else text, encoding="utf-8", errors="surrogatepass")
    with contextlib.suppress(ConfigError):
        assert config.load(path).path == path


def test_limits_that_were_agreed(tmp_path: Path) -> None:
    agreed = {
        "sha256": "07" * 32,
        "longest_lifetime_ms": 60_000,
        "bounds": [
            {"class": "other-pod", "window_ms": 300_000, "bytes": 300_000_000},
            {"class": "other-pod", "window_ms": 3_600_000, "bytes": 2_000_000_000},
        ],
        "loads": {
            "classes": ["storage"],
            "most_bytes": 3 * 10**11,
            "longest_ms": 1_800_000,
            "reverse_ppm": 10_000,
            "both_sign": 1,
        },
    }
    floors = {"same-pod": {"rate_bytes_per_s": 5, "depth_bytes": 6}}
    told = {"backend": "police", "agreement": agreed, "floors": floors}
    limits = config.load(_written(tmp_path, _WHOLE | {"limits": told})).limits
    assert limits.backend == POLICE
    assert limits.bounds == {
        TrafficClass.OTHER_POD: (Bound(300 * 10**9, 300_000_000), Bound(3_600 * 10**9, 2_000_000_000))
    }
    assert limits.longest_lifetime_ns == 60 * 10**9
    assert limits.loads == LoadTerms(
        frozenset({TrafficClass.STORAGE}), 3 * 10**11, 1_800 * 10**9, 10_000, both_sign=True
    )
    assert limits.agreement_sha256 == bytes([7] * 32)
    assert limits.floors[LimitClass.SAME_POD] == Floor(5, 6)
    assert limits.floors[LimitClass.OTHER_POD] == CLOSED


def test_without_a_word_about_limits_nothing_is_limited_and_classes_would_be_closed(tmp_path: Path) -> None:
    limits = config.load(_written(tmp_path, _WHOLE)).limits
    assert limits.backend == NONE
    assert {each: floor for each, floor in limits.floors.items() if floor != CLOSED} == {
        LimitClass.L2_CONTROL: L2_CONTROL
    }
    # Same-pod traffic is free unless the file says otherwise, so there is nothing to lease for it.
    assert TrafficClass.SAME_POD not in limits.terms("a", b"", {}).classes
