# SPDX-License-Identifier: PostgreSQL
"""Whether storage is the bottleneck, and if not, what is.

The decision is by shares of DB time: waits for reads, temporary files, commits and the writing of
data are storage; CPU time and waits for a processor are not.  A server whose sessions are
idle has no bottleneck, whatever its few waits are for.
"""

from pgflash.advise.work import Work
from pgflash.model.advice import Bottleneck
from pgflash.model.words import figure, percent

#: From this share on, the database waits for storage; below the second, hardly at all.
STORAGE_MIN = 0.5
STORAGE_SOME = 0.2
#: If processors are busy, storage is the bottleneck only from this share on.
STORAGE_SURE = 0.75
#: Processors this busy are a limit of their own.
BUSY = 0.85
#: Share of the processors; from here on, the use by other programs is mentioned.
OTHERS = 0.3
#: Fewer active sessions than this are not a load.
IDLE = 0.2

STORAGE = ("reads", "commits", "temporary files", "writing of data")


def find_bottleneck(work: Work) -> Bottleneck:
    """Return what limits a period's throughput."""
    seconds = {
        "reads": work.reads.seconds + work.buffer_s,
        "commits": work.commit_s,
        "temporary files": work.temp.seconds,
        "writing of data": work.write_wait_s,
        "processors": work.cpu_s + work.run_queue_s,
        "the flash cache": work.flash.seconds,
        "locks": work.lock_s,
        "the synchronous standby": work.standby_s,
        "other waits": work.other_s - work.standby_s,
    }
    shares = sorted(((n, s / work.db_time_s) for n, s in seconds.items()), key=lambda p: -p[1])
    storage = sum(share for name, share in shares if name in STORAGE)
    busy = others = 0.0
    if work.cores:
        # They are measured separately, and rounded.
        busy = min((work.cpu_s / work.elapsed_s + work.other_cores) / work.cores, 1.0)
        others = min(work.other_cores / work.cores, busy)
    first, most = shares[0]
    if work.sessions < IDLE:
        kind = "nothing"
        sentence = (
            f"The server was mostly idle: {figure(work.sessions)} active sessions on average, "
            "so its clients needed no more."
        )
    elif storage >= STORAGE_MIN and (busy < BUSY or storage >= STORAGE_SURE):
        kind = "storage"
        named = [f"{percent(share)} {name}" for name, share in shares if name in STORAGE]
        sentence = (
            f"Storage is the bottleneck: {percent(storage)} of DB time waits for it "
            f"({', '.join(named[:2])})."
        )
        if others >= OTHERS:
            sentence += f" Other programs use {percent(others)} of the processors."
    elif busy >= BUSY or first == "processors":
        kind = "processors"
        sentence = f"Storage is not the bottleneck (it takes {percent(storage)} of DB time)"
        if busy >= BUSY:
            sentence = f"The processors are the bottleneck: they are {percent(busy)} busy"
            sentence += f", {percent(others)} with other programs" if others >= OTHERS else ""
            sentence += f"; storage takes {percent(storage)} of DB time."
        else:
            sentence += f": {percent(_of(shares))} is CPU time."
    else:
        kind = first if storage < STORAGE_SOME else "mixed"
        also = "not the bottleneck" if storage < STORAGE_SOME else "a part of it only"
        sentence = (
            f"Storage is {also}, with {percent(storage)} of DB time; the largest part is "
            f"{first} with {percent(most)}."
        )
    return Bottleneck(
        kind=kind,
        is_storage=kind == "storage",
        sentence=sentence,
        shares=tuple((name, share) for name, share in shares if share > 0),
    )


def _of(shares: list[tuple[str, float]]) -> float:
    return next(share for name, share in shares if name == "processors")
