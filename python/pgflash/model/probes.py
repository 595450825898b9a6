# SPDX-License-Identifier: PostgreSQL
"""Probes as files: measurements kept for advice on another machine.

JSON, so that other tools can read it; every field is checked for its type on the way in.
"""

from dataclasses import dataclass

import msgspec

from pgflash.errors import UsageError
from pgflash.model.device import Probe

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
    return msgspec.json.format(msgspec.json.encode(probed), indent=1) + b"\n"


def probe_from_json(text: bytes, *, name: str) -> ProbedDevice:
    """Parse a probe; NAME is the file's name in errors."""
    try:
        probed = msgspec.json.decode(text, type=ProbedDevice)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise StoredProbeError(
            f'"{name}" is not a probe of pgflash: {error}',
            hint="Name a file that 'pgflash devices probe DIR -o FILE' wrote.",
        ) from error
    if probed.format != FORMAT:
        raise StoredProbeError(
            f'"{name}" has format {probed.format}; this version reads format {FORMAT}'
        )
    return probed
