# SPDX-License-Identifier: PostgreSQL
"""Findings about DB time: where it went, and how certain that is."""

from pgflash.analyze.cache_advice import cache_advice
from pgflash.analyze.cpu import CPU_WAIT, is_page_cache
from pgflash.analyze.dbtime import TimePart, total_of
from pgflash.analyze.event_words import event_in_words
from pgflash.analyze.events import RESIDUAL
from pgflash.analyze.figures import databases, sent_by_clients
from pgflash.analyze.load import commit_wait, cores_of
from pgflash.analyze.locks import NOT_KNOWN, segments_row_locks
from pgflash.analyze.locks import locks as lock_waits
from pgflash.analyze.parts import DbTime
from pgflash.analyze.period import Period
from pgflash.analyze.rules import SESSIONS_MIN, WARN_MIN, Weighed, by_cost, finding, of_db_time
from pgflash.analyze.samples import error_s
from pgflash.analyze.sections import number, total
from pgflash.analyze.segments import REST, relations
from pgflash.analyze.sql import statements_that_wait
from pgflash.model.awr import Severity
from pgflash.model.waits import FOREGROUND, WaitClass
from pgflash.model.words import count, duration, figure, listed, percent, size, things

#: A part of DB time below this share is not mentioned.
SHARE_MIN = 0.05
#: A residual above this share is reported.
RESIDUAL_MAX = 0.1

#: A sync on flash takes less than this.
FAST_SYNC_S = 1e-3

DISK_READ = "data file read, disk"


def where_the_time_went(period: Period, found: DbTime) -> Weighed | None:
    """Name the largest parts of DB time in one sentence."""
    composition = found.composition
    sessions = composition.sessions(composition.db_time_s) or 0.0
    if sessions < SESSIONS_MIN:
        return finding(
            "where-the-time-went",
            Severity.NOTE,
            f"The server was nearly idle: {duration(composition.db_time_s)} of DB time in "
            f"{duration(composition.elapsed_s)}.",
            table="db-time",
        )
    named: list[str] = []
    for part in composition.counted[:3]:
        share = composition.share(part.total_s) or 0.0
        if share >= SHARE_MIN or (share > 0 and not named):
            much = percent(share) if named and share <= 1 else of_db_time(composition, part.total_s)
            named.append(f"{much} was {_part_in_words(period, part)}")
    unnamed = composition.share(composition.residual_s) or 0.0
    if unnamed > 0.5:
        named.append(
            f"{percent(min(unnamed, 1.0))} {'of DB time ' if not named else ''}is not explained by "
            "anything that was counted or sampled"
        )
    if not named:
        return None
    return finding(
        "where-the-time-went",
        Severity.NOTE,
        f"{'; '.join(named)}.",
        f"DB time {duration(composition.db_time_s)} in {duration(composition.elapsed_s)}: "
        f"{figure(sessions)} average active sessions",
        *(
            f"{part.event}: {duration(part.total_s)}"
            + (f" in {things(part.waits, 'call')}" if part.waits else "")
            + f" ({part.source})"
            for part in composition.counted[:3]
        ),
        table="top-events",
    )


def disk_reads(period: Period, found: DbTime) -> Weighed | None:
    """Say how long clients waited for the disk, and what flash would change."""
    parts = [p for p in found.composition.counted if p.event in _READS]
    share = found.composition.share(total_of(parts)) or 0.0
    if share < WARN_MIN:
        return None
    mean = _mean_of(parts)
    at = f", {mean} each" if mean else ""
    advice, gain = _advised(period, found)
    return finding(
        "disk-reads",
        by_cost(share),
        f"Clients spent {of_db_time(found.composition, total_of(parts))} waiting for reads of "
        f"data files{at}.",
        *_hottest(period),
        *_few_statements(period),
        gain,
        table="segments-read-time" if _hottest(period) else "top-events",
        advice=advice,
        cost=share,
    )


_READS = (
    DISK_READ,
    "data file read",
    "data file read, all processes",
    "IO:DataFileRead",
    "IO:AioIoCompletion",
    "IO:AioIoUringExecution",
)


def commits(period: Period, found: DbTime) -> Weighed | None:
    """Say how long clients waited for commits."""
    parts = found.composition.of_class(WaitClass.COMMIT)
    share = found.composition.share(total_of(parts)) or 0.0
    if share < WARN_MIN:
        return None
    own, counted = period.record("wal"), databases(period)
    syncs = number(own.get("syncs")) if own else 0.0
    mean_s = number((own or {}).get("sync_time_ms")) / 1000 / syncs if syncs else None
    fast = mean_s is not None and mean_s < FAST_SYNC_S
    waited = commit_wait(found, counted) if counted is not None else None
    return finding(
        "commit-waits",
        by_cost(share),
        f"Commits took {of_db_time(found.composition, total_of(parts))}"
        + (f": a WAL sync took {duration(mean_s)} on average." if mean_s else "."),
        f"a commit waited {duration(waited.value / 1000)} on average ({waited.source})"
        if waited is not None
        else "",
        *(f"{p.event}: {duration(p.total_s)} ({p.source})" for p in parts[:3]),
        f"{count(syncs)} WAL syncs, by all processes" if syncs else "",
        table="wal",
        advice="The device is fast: commit less often, with more work each time, or asynchronously "
        "where the latest transactions may be lost (synchronous_commit)."
        if fast
        else "Move pg_wal to flash, or commit asynchronously where the latest transactions may be "
        "lost (synchronous_commit).",
        cost=share,
    )


def buffer_writes(_period: Period, found: DbTime) -> Weighed | None:
    """Say that backends had to write others' dirty buffers."""
    parts = found.composition.of_class(WaitClass.CONFIGURATION)
    share = found.composition.share(total_of(parts)) or 0.0
    if share < SHARE_MIN:
        return None
    return finding(
        "configuration-waits",
        by_cost(share),
        f"{of_db_time(found.composition, total_of(parts))} went into waits that settings "
        f"could avoid, most of it into {event_in_words(parts[0].event)}.",
        *(f"{p.event}: {duration(p.total_s)} ({p.source})" for p in parts[:3]),
        table="top-events",
        advice="Clients write data files when they have to free a buffer: raise shared_buffers or "
        "bgwriter_lru_maxpages."
        if parts[0].event == "data file write"
        else "",
        cost=share,
    )


def locks(period: Period, found: DbTime) -> Weighed | None:
    """Say that sessions waited for each other."""
    parts = [
        *found.composition.of_class(WaitClass.APPLICATION),
        *found.composition.of_class(WaitClass.CONCURRENCY),
    ]
    parts.sort(key=lambda part: -part.total_s)
    share = found.composition.share(total_of(parts)) or 0.0
    if share < SHARE_MIN:
        return None
    return finding(
        "locks",
        by_cost(share),
        f"Sessions spent {of_db_time(found.composition, total_of(parts))} waiting for each other, "
        f"most of it {event_in_words(parts[0].event)}.",
        *(f"{p.event}: {duration(p.total_s)} ({p.source})" for p in parts[:3]),
        *_most_locked(period),
        table="locks" if lock_waits(period).rows else "top-events",
        advice="Several transactions changed the same rows: change such rows last, just before "
        "COMMIT. SQL ordered by elapsed time shows which statements were seen waiting."
        if parts[0].event in _ROW_LOCKS
        else "",
        cost=share,
    )


def _most_locked(period: Period) -> tuple[str, ...]:
    """Name the relation whose rows were waited for longest, if it is known."""
    table = segments_row_locks(period)
    if not table.rows or table.rows[0].cells[0] == NOT_KNOWN:
        return ()
    seconds = [float(str(one)) for one in table.values("seconds")]
    share = seconds[0] / seconds[-1]  # the last row is their sum
    return (f"{table.rows[0].cells[0]} accounted for {percent(share)} of row lock waits (sampled)",)


#: Row locks: a session that waits for one wants to change a row that another transaction changed.
_ROW_LOCKS = frozenset({"Lock:transactionid", "Lock:tuple"})


def processors(period: Period, found: DbTime) -> Weighed | None:
    """Say whether there were too few processors."""
    composition = found.composition
    waiting = [p for p in composition.counted if p.event == CPU_WAIT]
    waiting_share = composition.share(total_of(waiting)) or 0.0
    cores = cores_of(period)
    used = found.cpu_s / (cores * period.elapsed_s) if cores and found.cpu_s is not None else None
    if waiting_share < 0.1 and (used is None or used < 0.8):
        return None
    parts = []
    if used is not None:
        parts.append(
            f"sessions used {percent(min(used, 1.0))} of {things(cores or 0, 'processor')}"
        )
    if waiting_share >= 0.1:
        parts.append(f"spent {of_db_time(composition, total_of(waiting))} waiting for one")
    return finding(
        "processors",
        Severity.WARNING,
        f"There were too few processors: {listed(parts)}.",
        f"DB CPU {duration(found.cpu_s)} (exact)" if found.cpu_s is not None else "",
        *(f"{p.event}: {duration(p.total_s)} ({p.source})" for p in waiting),
        table="db-time",
        weight=used or 0.0,
        cost=waiting_share if waiting_share >= 0.1 else None,
    )


def unexplained(_period: Period, found: DbTime) -> Weighed | None:
    """Say how much of DB time has no name."""
    composition = found.composition
    share = composition.share(composition.residual_s) or 0.0
    sessions = composition.sessions(composition.db_time_s) or 0.0
    if abs(share) <= RESIDUAL_MAX or sessions < SESSIONS_MIN:
        return None
    if found.samples is not None:
        counted = [w for w in found.samples.waits if w.foreground and w.wait_class.counts]
        if abs(composition.residual_s) <= 2 * error_s(counted):
            return None  # sampling error alone explains this much
    why = (
        "nothing was sampled, so only waits for timed I/O are known"
        if found.samples is None
        else "samples are estimates, and sessions that waited for their client within a statement "
        "count as active"
    )
    text = (
        f"{percent(min(share, 1.0))} of DB time is "
        f"{RESIDUAL.removesuffix(' by the rows above')} by any row"
        if share > 0
        else f"The parts add up to {percent(-share)} more than DB time"
    )
    return finding(
        "unexplained", Severity.NOTE, f"{text}: {why}.", table="db-time", weight=abs(share)
    )


def outside_the_executor(period: Period, found: DbTime) -> Weighed | None:
    """Say how much of DB time is not attributed to any statement."""
    records = [r for r in period.records("statements") if sent_by_clients(r)]
    if not records or found.client_s <= 0:
        return None
    inside_s = (total(records, "exec_time_ms") + total(records, "plan_time_ms")) / 1000
    share = 1 - inside_s / found.client_s
    if share < WARN_MIN or found.client_s / period.elapsed_s < SESSIONS_MIN:
        return None
    return finding(
        "outside-the-executor",
        Severity.NOTE,
        f"{percent(share)} of DB time passed outside the execution that pg_stat_statements times, "
        "typically in commits.",
        f"statements: {duration(inside_s)} of {duration(found.client_s)}",
        table="sql-elapsed",
        weight=share,
    )


def page_cache(period: Period, found: DbTime) -> Weighed | None:
    """Say that the page cache had nearly all blocks, and hardly anybody waited for the others."""
    waits = [part for part in found.composition.counted if part.event in _READS]
    if (found.composition.share(total_of(waits)) or 0.0) >= SHARE_MIN:
        return None
    reads = [
        r
        for r in period.records("io")
        if (r.get("file_class"), r.get("operation")) == ("data", "read")
        and r.get("backend_type") in FOREGROUND
    ]
    calls = total(reads, "calls")
    cached = [r for r in reads if is_page_cache(r)]
    if calls < 1000 or total(cached, "calls") / calls < 0.9:
        return None
    mean_s = total(cached, "time_ms") / 1000 / max(total(cached, "calls"), 1)
    return finding(
        "page-cache",
        Severity.GOOD,
        f"The page cache served {percent(total(cached, 'calls') / calls)} of the reads of data "
        f"files, at {duration(mean_s)} each: faster storage would help little.",
        f"{count(calls)} reads by clients",
        table="read-latency",
        weight=total(cached, "calls") / calls,
    )


def _part_in_words(period: Period, part: TimePart) -> str:
    mean = f" at {duration(part.mean_ms / 1000)}" if part.mean_ms is not None else ""
    if part.event != DISK_READ:
        return f"{event_in_words(part.event)}{mean}"
    records = [
        r
        for r in period.records("io")
        if (r.get("file_class"), r.get("operation"), r.get("source")) == ("data", "read", "disk")
        and r.get("backend_type") in FOREGROUND
    ]
    blocks = total(records, "bytes") / period.block_bytes / max(total(records, "calls"), 1)
    kind = "single-block reads from disk" if 0 < blocks < 1.05 else "reads from disk"
    hot = _hot_relation(period)
    return f"{kind}{f', mostly of {hot[0]},' if hot and hot[1] > 0.5 else ''}{mean}"


def _hot_relation(period: Period) -> tuple[str, float] | None:
    """Return the relation with the longest wait for the disk, and its share of that time."""
    seconds: dict[str, float] = {}
    for (name, _, _, _), sums in relations(period).items():
        seconds[name] = seconds.get(name, 0) + sums.get("disk_read_time_ms", 0)
    whole = sum(seconds.values())
    named = {name: value for name, value in seconds.items() if name != REST}
    if not named or whole <= 0:
        return None
    top = max(sorted(named), key=named.__getitem__)
    return top, named[top] / whole


def _hottest(period: Period) -> tuple[str, ...]:
    hot = _hot_relation(period)
    if hot is None:
        return ()
    return (f"{hot[0]} accounted for {percent(hot[1])} of the time of reads from disk",)


def _few_statements(period: Period) -> tuple[str, ...]:
    """Say that few statements had most of the time of reads from disk, if they had."""
    found = statements_that_wait(period)
    if found is None:
        return ()
    some = "one statement" if found[0] == 1 else things(found[0], "statement")
    return (
        f"{some} accounted for {percent(found[1])} of the time in which statements read from disk: "
        "see SQL ordered by disk read time",
    )


def _advised(period: Period, found: DbTime) -> tuple[str, str]:
    """Return what to do about reads from disk, and its benefit."""
    advice = cache_advice(period, found.composition.db_time_s)
    rows = [row for row in advice.rows if number(row.get("saved_share")) > 0]
    if not rows:
        return "Move the most-read tables and indexes to flash, or add a flash cache.", ""
    # Choose the smallest size that brings nine tenths of the largest one's benefit.
    most = max(number(row.get("saved_share")) for row in rows)
    enough = min(
        (row for row in rows if number(row.get("saved_share")) >= 0.9 * most),
        key=lambda row: number(row.get("size_bytes")),
    )
    hits = percent(number(enough.get("hit_ratio")))
    if enough.get("size_of") == "cache" and number(enough.get("size_factor")) <= 1:
        return (
            "A larger flash cache would help little: move the most-read tables and indexes to "
            "flash.",
            "",
        )
    large = size(number(enough.get("size_bytes")))
    return (
        f"A flash cache of {large} would serve {hits} of the reads that miss the page cache.",
        f"a flash cache of {large} would save {percent(number(enough.get('saved_share')))} of DB "
        "time, compared with none (modelled)",
    )


def _mean_of(parts: list[TimePart]) -> str:
    waits = [part.waits for part in parts]
    if not parts or any(one is None for one in waits):
        return ""
    calls = sum(one or 0 for one in waits)
    return duration(total_of(parts) / calls) if calls else ""


TIME_RULES = (
    where_the_time_went,
    disk_reads,
    commits,
    buffer_writes,
    locks,
    processors,
    unexplained,
    outside_the_executor,
    page_cache,
)
