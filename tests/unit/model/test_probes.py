# SPDX-License-Identifier: PostgreSQL
"""Probes as files: what no device can do is refused."""

import json

import pytest

from pgflash.model.device import DepthPoint, Probe
from pgflash.model.probes import ProbedDevice, StoredProbeError, probe_from_json, probe_to_json

PROBED = ProbedDevice(
    name="sdb",
    mount_point="/mnt",
    folder="/mnt/probed",
    probe=Probe(
        random_reads=(DepthPoint(depth=1, iops=200.0, mean_ms=5.0, p99_ms=9.0),),
        read_bytes_s=1e8,
        write_bytes_s=0.0,
        sync_ms=0.0,
        sync_p99_ms=0.0,
        by="pgflash",
        at="2026-11-22T10:00:00+00:00",
    ),
)


def test_a_probe_comes_back_as_it_was() -> None:
    assert probe_from_json(probe_to_json(PROBED), name="p.json") == PROBED


@pytest.mark.parametrize(
    ("where", "value"),
    [
        ("mean_ms", 0.0),
        ("mean_ms", -5.0),
        ("iops", 0.0),
        ("iops", -200.0),
        ("p99_ms", -9.0),
        ("read_bytes_s", -1.0),
        ("write_bytes_s", -1.0),
        ("sync_ms", -1.0),
        ("sync_p99_ms", -1.0),
    ],
)
def test_a_number_that_no_device_has_is_refused(where: str, value: float) -> None:
    content = json.loads(probe_to_json(PROBED))
    probe = content["probe"]
    (probe if where in probe else probe["random_reads"][0])[where] = value
    with pytest.raises(StoredProbeError, match=r'"p\.json" has a time or a rate'):
        probe_from_json(json.dumps(content).encode(), name="p.json")


@pytest.mark.parametrize("number", [b"NaN", b"Infinity", b"1e999"])
def test_a_number_that_is_none_is_refused(number: bytes) -> None:
    text = probe_to_json(PROBED).replace(b"5.0", number)
    with pytest.raises(StoredProbeError, match=r'"p\.json" is not a probe of pgflash'):
        probe_from_json(text, name="p.json")
