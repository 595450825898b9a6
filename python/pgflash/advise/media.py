# SPDX-License-Identifier: PostgreSQL
"""A device as the queueing model sees it: servers, service times, limits.

A disk array is a set of spindles in groups of copies (RAID-10: pairs).  A read waits for one
spindle of one group; a small write costs time on each copy; writes that a controller has promised
come after the reads as long as its memory lasts.  A flash drive is a set of channels.  The figures
come from an emulated profile (all of them), from a probe (some of them), or only from the word
"disk": then the model fits the missing ones to the latency in the report.
"""

from dataclasses import dataclass, replace

from pgflash.model.device import DeviceFacts, Media, Probe

_BLOCK_BYTES = 8192
#: A probe with this many requests at once cannot tell more servers from this number.
_SERVERS_MAX = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Drive:
    """A device in the model."""

    name: str
    flash: bool
    #: Spindles or channels.  None: fit to the report.
    servers: int | None = None
    #: How many of the servers hold each block.
    copies: int = 1
    #: A random read, without transfer and without a queue.
    read_ms: float
    #: Bytes per second of one server.
    bytes_s: float
    #: A larger request is spread over servers; None: bytes_s is the sum of all servers.
    stripe_bytes: float | None = None
    #: Time that a random write finally takes from all servers together.
    write_ms: float
    #: How much of a server's time written blocks may take from waiting reads; 1: they queue like
    #: reads.
    write_share: float = 1.0
    #: Memory that takes writes before they reach the servers.
    cache_bytes: float = 0.0
    #: A sync of the WAL, without a queue.
    log_ms: float
    #: How much the whole device moves at most.
    pipe_bytes_s: float | None = None
    iops_max: float | None = None
    #: Its figures are known, and are not just those of its class.
    known: bool = False
    #: Where the figures are from, in words.
    source: str = ""

    @property
    def groups(self) -> float:
        """Return the number of groups of copies."""
        return (self.servers or 1) / self.copies

    def service_ms(self, request_bytes: float, *, streamed: float = 0.0) -> float:
        """Return a read's time without a queue; the part STREAMED of the reads follow a stream."""
        wide = request_bytes / self.stripe_bytes if self.stripe_bytes else 1.0
        together = max(min(wide, float(self.servers or 1)), 1.0)
        bytes_s = self.bytes_s * together
        if self.pipe_bytes_s:
            bytes_s = min(bytes_s, self.pipe_bytes_s)
        return (1 - streamed) * self.read_ms + 1000 * request_bytes / bytes_s


#: A disk and a flash drive if only the class is known. 5 ms: seek and half a revolution of a
#: 10,000-15,000 rpm disk. 0.1 ms: data sheets of SAS, SATA and NVMe drives (0.07-0.15 ms) of a
#: decade.
DISK = Drive(
    name="disk array",
    flash=False,
    copies=1,
    read_ms=5.0,
    bytes_s=150e6,
    write_ms=10.0,
    log_ms=5.0,
    source="class of device: 5 ms a read, number of disks fitted to the report",
)
FLASH = Drive(
    name="flash",
    flash=True,
    servers=8,
    read_ms=0.1,
    bytes_s=400e6,
    stripe_bytes=16384,
    write_ms=0.05,
    log_ms=0.1,
    pipe_bytes_s=2e9,
    source="class of device: 0.1 ms a read, 0.1 ms a sync",
)


def drive_of_class(name: str, *, flash: bool) -> Drive:
    """Return a device of which only the class is known."""
    return replace(FLASH if flash else DISK, name=name)


def drive_of_facts(facts: DeviceFacts) -> Drive:
    """Return a device of a machine: from its probe, else by its class."""
    flash = facts.media in (Media.FLASH, Media.MEMORY)
    if facts.probe is None:
        return drive_of_class(facts.name, flash=flash)
    return drive_of_probe(facts.probe, name=facts.name, flash=flash)


def drive_of_probe(probe: Probe, *, name: str, flash: bool) -> Drive:
    """Return a device from a probe's figures: latency alone, and throughput at depth."""
    alone_ms = probe.read_ms(1) or min((p.mean_ms for p in probe.random_reads), default=5.0)
    most = max((point.iops for point in probe.random_reads), default=1000 / alone_ms)
    servers = min(max(round(most * alone_ms / 1000), 1), _SERVERS_MAX)
    bytes_s = max(probe.read_bytes_s, 1.0)
    # Large requests are spread over all servers; small ones are not.
    transfer_ms = 1000 * _BLOCK_BYTES / bytes_s
    return Drive(
        name=name,
        flash=flash,
        servers=servers,
        read_ms=max(alone_ms - transfer_ms, 0.01),
        bytes_s=bytes_s,
        write_ms=alone_ms,
        log_ms=probe.sync_ms,
        pipe_bytes_s=bytes_s,
        known=True,
        source=f"probed by {probe.by}",
    )
