# SPDX-License-Identifier: PostgreSQL
"""The rule about checkpoints: whether WAL fills up before it is time for one.

After a checkpoint the first change of each page writes the whole page to WAL.  So a checkpoint that
comes early makes the next one come early, too.  A larger max_wal_size makes recovery longer and
takes room: a device that is full of WAL ends the server, so it is advised where there is room.
"""

import math
from collections.abc import Iterator

from pgflash.advise.doctor.lasting import set_parameter
from pgflash.advise.doctor.rules import SERVER, Rule, found, good, postgres, unknown
from pgflash.model.doctor import Checkpoints, Diagnosis, DoctorFacts, Outcome
from pgflash.model.sizes import GB
from pgflash.model.words import duration, figure, percent, size

#: Fewer requested ones may be base backups and people.
REQUESTED_MIN = 10
REQUESTED_SHARE = 0.1
#: The share of a device's free space that WAL may take.
ROOM_SHARE = 0.5


def max_wal_size(facts: DoctorFacts) -> Iterator[Diagnosis]:
    """Check whether checkpoints come when it is time, and not because WAL is full."""
    rule, seen = "max-wal-size", facts.server.checkpoints
    now = facts.server.size_bytes("max_wal_size")
    if seen is None or now is None:
        yield unknown(rule, SERVER, "It counts no checkpoints of its own, or they may not be seen.")
        return
    all_of_them = seen.timed + seen.requested
    # Others are those of base backups, of people and of CREATE DATABASE.
    by_wal = min(seen.requested, seen.wal_bytes_s * seen.since_s / _full_bytes(facts, now))
    share = by_wal / all_of_them if all_of_them else 0.0
    requested = seen.requested / all_of_them if all_of_them else 0.0
    hours = seen.since_s / 3600
    sentence = (
        f"In {duration(seen.since_s)} {percent(requested)} of the "
        f"checkpoints were requested, {figure(seen.requested / hours)} an hour; WAL grew by "
        f"{size(seen.wal_bytes_s)}/s, max_wal_size is {size(now)}."
    )
    if by_wal < REQUESTED_MIN or share < REQUESTED_SHARE:
        yield good(rule, SERVER, sentence)
        return
    wanted = _wanted(facts, seen, now)
    yield found(
        rule,
        Outcome.WARNING if share >= 0.5 else Outcome.NOTE,
        SERVER,
        sentence,
        reason="They come early because WAL reaches max_wal_size. Each one writes what is dirty in "
        "less time, and then the first change of each page writes all of it to WAL again. "
        + (
            "Recovery after a crash takes longer with more."
            if wanted
            else "More needs room where WAL is, and there is none, or it is not seen."
        ),
        source=postgres("WAL Configuration"),
        commands=set_parameter("max_wal_size", f"'{wanted}GB'") if wanted else (),
    )


def _wanted(facts: DoctorFacts, seen: Checkpoints, now: int) -> int | None:
    """Return a size in GB of 2^30 bytes, as settings have them, if there is room for it.

    The rate is a mean, and busy hours have twice of it.
    """
    device = facts.device_of("wal")
    timeout_s = facts.server.number("checkpoint_timeout") or 300
    if device is None or device.free_bytes is None:
        return None
    needed = max(2 * now, 2 * seen.wal_bytes_s * timeout_s * now / _full_bytes(facts, now))
    most = now + ROOM_SHARE * device.free_bytes
    wanted = min(math.ceil(needed / GB), math.floor(most / GB))
    return wanted if wanted * GB > now else None


def _full_bytes(facts: DoctorFacts, max_wal_size: int) -> float:
    """Return after how much WAL a checkpoint is requested (CalculateCheckpointSegments())."""
    target = facts.server.number("checkpoint_completion_target") or 0.9
    return max_wal_size / (1 + target)


CHECKPOINT_RULES: tuple[Rule, ...] = (max_wal_size,)
