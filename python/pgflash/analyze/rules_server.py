# SPDX-License-Identifier: PostgreSQL
"""Findings about the server, the machine, and the figures themselves."""

from pgflash.analyze.background import images_share, oldest_database
from pgflash.analyze.changes import settings_changed
from pgflash.analyze.dbtime import total_of
from pgflash.analyze.figures import checkpoints, databases, wal
from pgflash.analyze.host import disk_row
from pgflash.analyze.parts import DbTime, timed
from pgflash.analyze.period import Period
from pgflash.analyze.rules import Weighed, by_cost, finding, of_db_time
from pgflash.analyze.sections import number
from pgflash.analyze.timeline import cpu_shares
from pgflash.model.awr import Severity
from pgflash.model.waits import WaitClass
from pgflash.model.words import count, duration, figure, listed, percent, size, things

#: Fewer full-page images, or a smaller part of the WAL, are normal.
IMAGES_PER_S_MIN = 10.0
IMAGES_SHARE_MIN = 0.3
#: Transactions without a freeze: autovacuum forces one at 0.2 billion, and 2.1 billion is the end.
AGE_MIN, AGE_CRITICAL = 1.0e9, 1.6e9
#: A slot that keeps less does no harm yet.
RETAINED_MIN = 2**30
#: A transaction that waits less than this for its client does no harm.
IDLE_S_MIN = 1.0


def checksum_failures(period: Period, _found: DbTime) -> Weighed | None:
    """Say that data pages were found corrupt."""
    counted = databases(period)
    if counted is None or not counted.checksum_failures:
        return None
    return finding(
        "checksum-failures",
        Severity.CRITICAL,
        f"PostgreSQL found {things(counted.checksum_failures, 'data page')} with a wrong checksum.",
        table="summary",
        advice="Check the storage and the newest backup before anything else.",
        weight=1.0,
    )


def requested_checkpoints(period: Period, _found: DbTime) -> Weighed | None:
    """Say that checkpoints were requested more often than scheduled."""
    done = checkpoints(period)
    if done is None or done.requested < 2 or done.requested <= done.timed:
        return None
    return finding(
        "requested-checkpoints",
        Severity.NOTE,
        f"{things(done.requested, 'checkpoint was', 'checkpoints were')} requested and "
        f"{done.timed} scheduled.",
        f"{count(done.buffers_written)} blocks written by checkpoints in {duration(done.write_s)}",
        table="checkpoints",
        advice="Raise max_wal_size if the WAL reaches it before checkpoint_timeout; base backups "
        "and commands request checkpoints, too.",
        weight=0.1,
    )


def full_page_images(period: Period, found: DbTime) -> Weighed | None:
    """Say that much of the WAL was whole pages."""
    logged, done = wal(period, timed=False), checkpoints(period)
    images = logged.full_page_images if logged is not None else 0
    share = None
    if logged is not None:
        share = images_share(images, logged.bytes, period.block_bytes)
    if logged is None or share is None or share < IMAGES_SHARE_MIN:
        return None
    if images / period.elapsed_s < IMAGES_PER_S_MIN:
        return None
    # A write takes longer the more there is to write; a sync waits for the device.
    writes = [part for part in found.composition.counted if part.event == "WAL write"]
    waited = found.composition.share(total_of(writes)) or 0.0
    made = done.timed + done.requested if done is not None else 0
    compressed = period.setting("wal_compression") not in (None, "off")
    return finding(
        "full-page-images",
        by_cost(waited * share),
        f"Full-page images made up as much as {percent(share)} of the WAL: {count(images)} of "
        f"them, {figure(images / period.elapsed_s)} a second.",
        f"{size(logged.bytes)} of WAL, {size(logged.bytes / period.elapsed_s)} a second",
        f"{things(made, 'checkpoint')} in {duration(period.elapsed_s)}" if made else "",
        f"WAL writes took {of_db_time(found.composition, total_of(writes))}" if waited else "",
        table="checkpoints",
        advice="The first change to a page after a checkpoint logs the whole page: make "
        "checkpoints less frequent (checkpoint_timeout, max_wal_size)"
        + ("." if compressed else ", or compress the images (wal_compression is off)."),
        cost=waited * share or None,
    )


def old_rows(period: Period, _found: DbTime) -> Weighed | None:
    """Say that transaction numbers may run out."""
    oldest = oldest_database(period)
    if oldest is None or oldest[1] < AGE_MIN:
        return None
    name, age = oldest
    return finding(
        "transaction-ids",
        Severity.CRITICAL if age >= AGE_CRITICAL else Severity.WARNING,
        f"The oldest unfrozen rows of database {name} are {count(age)} transactions old: at 2.1 "
        "billion the server stops accepting changes.",
        table="vacuum",
        advice="Find out what holds vacuum back: an old transaction, a replication slot, a "
        "prepared transaction, or cancelled autovacuums. Then vacuum the oldest tables.",
        weight=age / AGE_CRITICAL,
    )


def retained_wal(period: Period, _found: DbTime) -> Weighed | None:
    """Say that a slot that nobody reads keeps WAL."""
    kept = [
        (number(one.get("retained_bytes")), str(one.get("slot")))
        for one in period.gauge("replication_slots")
        if not one.get("active")
    ]
    most, slot = max(kept, default=(0.0, ""))
    if most < RETAINED_MIN:
        return None
    return finding(
        "retained-wal",
        Severity.WARNING,
        f"The inactive replication slot {slot} retains {size(most)} of WAL.",
        table="replication-slots",
        advice="Drop the slot if it is no longer needed, or limit it (max_slot_wal_keep_size): "
        "otherwise the WAL may fill its disk.",
        weight=0.3,
    )


def temporary_files(period: Period, _found: DbTime) -> Weighed | None:
    """Say that sorts or hashes used much space on disk."""
    counted = databases(period)
    if counted is None or counted.temp_bytes / period.elapsed_s < 2**20:
        return None
    return finding(
        "temporary-files",
        Severity.NOTE,
        f"Statements wrote {size(counted.temp_bytes)} to temporary files, "
        f"{size(counted.temp_bytes / period.elapsed_s)} a second.",
        things(counted.temp_files, "file"),
        table="sql-temp",
        advice="Raise work_mem for the statements at the top of the table.",
        weight=0.1,
    )


def idle_transactions(period: Period, _found: DbTime) -> Weighed | None:
    """Say that sessions sat in open transactions."""
    counted = databases(period)
    if counted is None:
        return None
    sessions = counted.idle_in_transaction_s / period.elapsed_s
    each_s = counted.idle_in_transaction_s / max(counted.transactions, 1)
    if sessions < 0.5 or each_s < IDLE_S_MIN:
        return None
    return finding(
        "idle-in-transaction",
        Severity.NOTE,
        f"On average, {figure(sessions)} sessions were idle in an open transaction, for "
        f"{duration(each_s)} per transaction.",
        table="load-profile",
        advice="Such sessions hold their locks and keep VACUUM from removing dead rows.",
        weight=0.05,
    )


def rollbacks(period: Period, _found: DbTime) -> Weighed | None:
    """Say that much work was thrown away."""
    counted = databases(period)
    if counted is None or counted.transactions < 1000:
        return None
    share = counted.rollbacks / counted.transactions
    if share < 0.1:
        return None
    return finding(
        "rollbacks",
        Severity.NOTE,
        f"{percent(share)} of the transactions were rolled back.",
        f"{count(counted.rollbacks)} of {count(counted.transactions)}",
        table="load-profile",
        weight=share,
    )


def deadlocks(period: Period, _found: DbTime) -> Weighed | None:
    """Say that there were deadlocks."""
    counted = databases(period)
    if counted is None or not counted.deadlocks:
        return None
    return finding(
        "deadlocks",
        Severity.NOTE,
        f"There {'was' if counted.deadlocks == 1 else 'were'} "
        f"{things(counted.deadlocks, 'deadlock')}.",
        table="summary",
        weight=0.05,
    )


def long_lock_waits(period: Period, _found: DbTime) -> Weighed | None:
    """Say that sessions waited for locks for long."""
    records = period.records("stat_lock")
    waits = sum(number(one.get("waits")) for one in records)
    waited_s = sum(number(one.get("wait_time")) for one in records) / 1000
    if not waits or waited_s < 0.01 * period.elapsed_s:
        return None
    worst = max(records, key=lambda one: number(one.get("wait_time")))
    return finding(
        "long-lock-waits",
        Severity.NOTE,
        f"{things(int(waits), 'wait')} for locks lasted longer than deadlock_timeout, "
        f"{duration(waited_s)} in total, most of it for locks of type {worst.get('locktype')}.",
        table="locks-long",
        advice="With log_lock_waits, the server's log names the waiting and the blocking sessions.",
        weight=min(0.5, waited_s / period.elapsed_s),
    )


def machine(period: Period, _found: DbTime) -> Weighed | None:
    """Say that the machine itself was short of processors or memory."""
    shares = cpu_shares(period)
    memory = period.record("host_memory") or {}
    page = next((number(r.get("page_size")) for r in period.gauge("server")), 0.0) or 4096
    swapped = page * (number(memory.get("swap_in_pages")) + number(memory.get("swap_out_pages")))
    said = []
    if shares is not None and shares["steal"] >= 0.05:
        said.append(f"the hypervisor took away {percent(shares['steal'])} of the CPU time")
    if swapped / period.elapsed_s >= 2**20:
        said.append(f"{size(swapped)} were swapped")
    if not said:
        return None
    return finding(
        "machine",
        Severity.WARNING,
        f"The machine was short of resources: {listed(said)}.",
        table="host-vmstat",
        weight=0.3,
    )


def busy_disk(period: Period, found: DbTime) -> Weighed | None:
    """Say that a device was fully busy; it is a note if hardly anybody waited for a device."""
    busiest = max(
        period.records("host_disks"), key=lambda r: number(r.get("io_time_ms")), default=None
    )
    if busiest is None:
        return None
    util = number(busiest.get("io_time_ms")) / 1000 / period.elapsed_s
    if util < 0.9:
        return None
    cells = disk_row(busiest, elapsed_s=period.elapsed_s).cells
    requests = number(busiest.get("reads")) + number(busiest.get("writes"))
    each = duration(float(cells[9]) / 1000) if isinstance(cells[9], (int, float)) else "?"
    waits = [
        *found.composition.of_class(WaitClass.USER_IO),
        *found.composition.of_class(WaitClass.COMMIT),
    ]
    waited = found.composition.share(total_of(waits)) or 0.0
    known = bool(period.records("io")) or found.samples is not None
    return finding(
        "busy-device",
        by_cost(waited) if known else Severity.WARNING,
        f"The device {busiest.get('disk')} was busy for {percent(min(util, 1.0))} of the time, at "
        f"{each} a request.",
        f"{figure(requests / period.elapsed_s)} requests a second",
        f"sessions waited for reads, writes and commits for "
        f"{of_db_time(found.composition, total_of(waits))}"
        if known
        else "",
        table="host-iostat",
        advice="A device that serves many requests at once can be busy all the time and still have "
        "capacity left: judge it by the time of a request.",
        weight=0.2,
    )


def buffers(period: Period, _found: DbTime) -> Weighed | None:
    """Say that shared_buffers held nearly all blocks read."""
    counted = databases(period)
    looked_up = counted.blocks_hit + counted.blocks_read if counted is not None else 0
    if counted is None or looked_up < 10_000 or counted.blocks_hit / looked_up < 0.99:
        return None
    return finding(
        "shared-buffers",
        Severity.GOOD,
        f"Only {percent(1 - counted.blocks_hit / looked_up)} of the requested blocks were not in "
        "shared_buffers.",
        f"{count(looked_up)} blocks",
        table="load-profile",
        weight=0.1,
    )


def changed_settings(period: Period, _found: DbTime) -> Weighed | None:
    """Say that settings changed within the period."""
    rows = settings_changed(period).rows
    if not rows:
        return None
    names = [str(row.cells[0]) for row in rows]
    shown = listed(names if len(names) <= 4 else [*names[:3], f"{len(names) - 3} others"])
    return finding(
        "settings-changed",
        Severity.NOTE,
        f"{things(len(names), 'setting')} changed during the period: {shown}.",
        table="settings-changed",
        weight=0.2,
    )


def resets(period: Period, _found: DbTime) -> Weighed | None:
    """Say that counters started over within the period."""
    if not period.resets:
        return None
    names = sorted({reset.section for reset in period.resets})
    at = sorted({reset.at for reset in period.resets if reset.at})
    when = f" at {at[0][:19]}" if len(at) == 1 else ""
    return finding(
        "statistics-reset",
        Severity.WARNING,
        f"Statistics were reset during the period{when} ({listed(names)}): what they had counted "
        "since the previous snapshot is lost.",
        table="missing",
        advice="pgflash never resets statistics: find out what did.",
        weight=1.0,
    )


def gaps(period: Period, found: DbTime) -> Weighed | None:
    """Say that the sampler did not cover the whole period."""
    seen = found.samples
    if seen is None or seen.covered_s >= 0.95 * period.elapsed_s:
        return None
    return finding(
        "sampler-gaps",
        Severity.WARNING,
        f"The sampler covered only {percent(seen.covered_s / period.elapsed_s)} of the period: "
        "waits in the rest are not explained.",
        f"{things(seen.looks, 'sample')}, {count(seen.missed)} missed",
        table="db-time",
        weight=0.5,
    )


def untimed(period: Period, _found: DbTime) -> Weighed | None:
    """Say that I/O was not timed."""
    if period.records("io") or timed(period):
        return None
    now_on = period.setting("track_io_timing") == "on"
    changed = now_on or period.setting("track_io_timing", at_begin=True) == "on"
    return finding(
        "io-not-timed",
        Severity.WARNING,
        "I/O was not timed: the extension pgflash was not loaded, and track_io_timing was off"
        f"{' for a part of the period' if changed else ''}.",
        table="missing",
        advice="Choose a period in which track_io_timing was on from the beginning."
        if now_on
        else "Load the extension, or turn on track_io_timing.",
        weight=0.6,
    )


SERVER_RULES = (
    checksum_failures,
    old_rows,
    requested_checkpoints,
    full_page_images,
    retained_wal,
    temporary_files,
    idle_transactions,
    rollbacks,
    deadlocks,
    long_lock_waits,
    machine,
    busy_disk,
    buffers,
    changed_settings,
    resets,
    gaps,
    untimed,
)
