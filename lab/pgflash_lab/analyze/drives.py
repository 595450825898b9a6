# SPDX-License-Identifier: PostgreSQL
"""The devices of a run as the queueing model sees them."""

from pgflash.advise.media import Drive, drive_of_class
from pgflash_lab.model.run import Device

#: A process that an emulated device wakes is late by this much while processors are idle (reads of
#: nvme.toml by a lone query: 0.098 ms for 27 kB, of which the profile accounts for 0.085 + 0.011,
#: and the rest of the call for the remainder); the processors' queue models the wait for a busy
#: one.
EMULATED_WAKE_MS = 0.03

_NS_PER_MS = 1e6
_PPM = 1e6


def drive_of_run(device: Device) -> Drive:
    """Return a device of the lab: from its full profile, or by its class."""
    facts = device.facts
    if not device.emulated or "servers" not in facts:
        return drive_of_class(device.name, flash=device.role == "flash")

    def ms(name: str) -> float:
        return float(facts[name]) / _NS_PER_MS

    def mean_ms(name: str) -> float:
        return (ms(f"{name}_min_ns") + ms(f"{name}_max_ns")) / 2

    def limit(name: str) -> float | None:
        return float(facts.get(name, 0)) or None

    flash = facts["kind"] == "flash"
    late_ms = EMULATED_WAKE_MS if flash else 0.0
    layout = facts["layout"]
    rotation_ms = ms("rotation_max_ns") / 2
    cache_bytes = float(facts["cache_bytes"])
    sorted_part = float(facts["destage_factor_ppm"]) / _PPM if cache_bytes else 1.0
    # RAID-10 writes both copies; RAID-5 reads and writes data and parity.
    turns = {"raid10": 2, "raid5": 4}.get(layout, 1)
    return Drive(
        name=device.title,
        flash=flash,
        servers=int(facts["servers"]),
        copies=2 if layout == "raid10" else 1,
        read_ms=mean_ms("read_position") + rotation_ms + late_ms,
        bytes_s=float(facts["bandwidth_bytes_s"]),
        stripe_bytes=float(facts["stripe_bytes"]),
        write_ms=turns * (mean_ms("write_position") + rotation_ms) * sorted_part,
        write_share=float(facts["destage_share_ppm"]) / _PPM if cache_bytes else 1.0,
        cache_bytes=cache_bytes,
        log_ms=mean_ms("log_sync") + late_ms,
        pipe_bytes_s=limit("limit_bytes_s"),
        iops_max=limit("limit_iops"),
        known=True,
        source=f"emulated profile {device.name}",
    )
