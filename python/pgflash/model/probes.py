# SPDX-License-Identifier: PostgreSQL
"""Probes as files: measurements kept for advice on another machine.

JSON, so that other tools can read it; every field is checked for its type on the way in.
"""

import math
from dataclasses import dataclass

from pgflash.errors import UsageError
from pgflash.model.device import Probe
from pgflash.model.typed_json import indented, parsed

#: Format version of a stored probe.
FORMAT = 1


class StoredProbeError(UsageError):
    """A stored probe cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbedDevice:
    """A probe and its device."""

    format: int = FORMAT
    name: str
    mount_point: str
    folder: str
    probe: Probe


def probe_to_json(probed: ProbedDevice) -> bytes:
    """Return a probe as indented JSON."""
    return indented(probed)


def probe_from_json(text: bytes, *, name: str) -> ProbedDevice:
    """Parse a probe; NAME is the file's name in errors."""
    probed = parsed(
        text,
        ProbedDevice,
        name=name,
        noun="probe",
        error=StoredProbeError,
        hint="Name a file that 'pgflash devices probe DIR -o FILE' wrote.",
    )
    if probed.format != FORMAT:
        raise StoredProbeError(
            f'"{name}" has format {probed.format}; this version reads format {FORMAT}'
        )
    _refuse_impossible(probed.probe, name)
    return probed


def _refuse_impossible(probe: Probe, name: str) -> None:
    """Refuse figures that no device has: the model divides by them."""
    points = probe.random_reads
    above_zero = [value for point in points for value in (point.iops, point.mean_ms)]
    others = [probe.read_bytes_s, probe.write_bytes_s, probe.sync_ms, probe.sync_p99_ms]
    others += [point.p99_ms for point in points]
    possible = all(map(math.isfinite, (*above_zero, *others)))
    if not possible or min(above_zero, default=1) <= 0 or min(others) < 0:
        raise StoredProbeError(
            f'"{name}" has a time or a rate that no device has: below zero, or a read of zero',
            hint="Probe the device again: pgflash devices probe DIR -o FILE.",
        )
