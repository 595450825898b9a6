# SPDX-License-Identifier: PostgreSQL
"""The queueing model: it reproduces the present, obeys the laws of queues, and knows its limits."""

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgflash.advise.media import DISK, FLASH, Drive
from pgflash.advise.model import PRESENT, Model, Target
from pgflash.advise.work import NoAdviceError, Reads, Work, work_of_report
from pgflash.model.awr import Row
from support.few import few

#: Eight disks in four pairs, as the lab's array.
ARRAY = Drive(
    name="array",
    flash=False,
    servers=8,
    copies=2,
    read_ms=4.5,
    bytes_s=150e6,
    write_ms=4.5,
    write_share=0.1,
    cache_bytes=1e9,
    log_ms=4.5,
    known=True,
)
ALL = Target(name="all", title="All", wal=True, temp=True, reads=1.0, writes=1.0)
WAL = Target(name="wal", title="WAL", wal=True)
CACHE = Target(name="cache", title="Cache", cached=0.9)


def model(work: Work, array: Drive = ARRAY, **more: float) -> Model:
    return Model(work, array=array, flash=FLASH, **more)


def test_the_model_of_the_present_has_the_reports_own_throughput_and_latencies() -> None:
    # 100 transactions/s of 2 reads of 10 ms, 10 ms of commit, 2 ms of processor: 3.2 sessions.
    work = work_of_report(few())
    present = model(work).present
    assert present.per_s == pytest.approx(100.0, rel=0.01)
    assert present.disk_read_ms == pytest.approx(10.0, rel=0.01)
    assert present.commit_ms == pytest.approx(10.0, rel=0.01)
    assert present.sync_ms == pytest.approx(5.0, rel=0.01)


def test_reads_by_io_workers_are_reads_that_sessions_waited_for() -> None:
    work = work_of_report(
        few(
            reads=(1_000, 10.0),
            flash_reads=(0, 0.0),
            asynchronous={"disk": (9_000, 120.0), "flash cache": (5_000, 30.0)},
            asynchronous_s=50.0,
        )
    )
    assert (work.reads.count, work.flash.count) == (10_000, 5_000)
    # All waits for I/O workers, divided by the times of the devices.
    assert work.reads.seconds == pytest.approx(10.0 + 50.0 * 120 / 150)
    assert work.flash.seconds == pytest.approx(50.0 * 30 / 150)
    assert (work.reads.mean_bytes, work.flash.mean_bytes) == (8192, 8192)
    assert not work.notes


def test_copies_by_io_workers_from_the_page_cache_are_no_reads_from_disk() -> None:
    work = work_of_report(
        few(reads=(1_000, 10.0), asynchronous={"page cache": (9_000, 1.0)}, asynchronous_s=2.0)
    )
    assert work.reads.count == 1_000
    assert work.reads.seconds == pytest.approx(10.0)
    assert work.reads.mean_bytes == 8192


def test_reads_whose_time_is_not_known_are_no_waits_of_a_disk() -> None:
    """The server measured no times (track_io_timing), or the page cache served all its reads."""
    for loaded, noted in ((False, True), (True, False)):
        report = few(reads=(0.0, 0.0), unbuffered=500_000.0, other_s=100.0, loaded=loaded)
        work = work_of_report(report)
        assert work.reads.count == 0
        assert any("track_io_timing" in note for note in work.notes) == noted
        assert not any("extension was not there" in note for note in work.notes)
        model = Model(work, array=DISK, flash=FLASH)
        assert model.predict(PRESENT).per_s == pytest.approx(work.per_s)
        assert model.predict(Target(name="c", title="", cached=1.0)).ratio == pytest.approx(1.0)


def test_reads_that_the_server_timed_are_blocks_not_in_shared_buffers() -> None:
    report = few(reads=(10_000.0, 100.0), unbuffered=20_000.0, loaded=False)
    work = work_of_report(report)
    assert (work.reads.count, work.reads.seconds) == (20_000.0, 100.0)
    assert any("extension was not there" in note for note in work.notes)


def test_without_any_wait_for_storage_flash_brings_nothing() -> None:
    work = work_of_report(few(reads=(0, 0), commit_s=0.0, syncs=(0, 0), cpu_s=400.0))
    found = model(work).predict(ALL)
    assert found.ratio == pytest.approx(1.0, rel=0.01)
    assert found.limit == "the processors"


def test_the_processors_are_the_last_limit() -> None:
    # 50 ms of processor a transaction on 8 cores: 160 transactions/s, whatever the disks do.
    work = work_of_report(few(cpu_s=500.0, reads=(20_000, 2_000), cores=8))
    found = model(work).predict(ALL)
    assert found.per_s <= 160.0
    assert found.per_s > 120.0
    assert found.limit == "the processors"


def test_processor_time_within_file_calls_bounds_throughput_and_is_waited_for_once() -> None:
    # 2 ms of DB CPU a transaction, and 48 more within its reads: 160 transactions/s on 8 cores.
    work = replace(work_of_report(few(reads=(20_000, 2_000), cores=8)), measured_cpu_s=500.0)
    found = model(work).predict(ALL)
    assert found.per_s <= 160.0
    assert found.limit == "the processors"
    assert found.cpu_busy == pytest.approx(1.0, abs=0.05)
    assert model(work).present.per_s == pytest.approx(100.0, rel=0.01)


def test_what_is_a_stream_on_the_array_is_one_on_flash() -> None:
    # Reads of 1.5 ms of an array whose seek alone takes 4.5: two thirds and more need no seek.
    streams = work_of_report(few(reads=(20_000, 30.0), commit_s=0.0, syncs=(0, 0)))
    seeks = work_of_report(few(commit_s=0.0, syncs=(0, 0)))

    def read_ms(work: Work, array: Drive) -> float:
        return model(work, array).predict(replace(ALL, wal=False)).flash_ms / 2

    assert read_ms(seeks, ARRAY) > FLASH.read_ms
    assert read_ms(streams, ARRAY) < FLASH.read_ms / 2
    # If only a device's class is known, the time of a seek is not.
    assert read_ms(streams, replace(DISK, servers=8)) > FLASH.read_ms


def test_one_session_saves_just_what_it_no_longer_waits_for() -> None:
    # One session, no queues: 1 ms processor, 8 ms of reads; a flash read takes 0.1 ms.
    work = work_of_report(
        few(transactions=10_000, elapsed_s=90, cpu_s=10.0, reads=(10_000, 80), commit_s=0.0)
    )
    quick = replace(FLASH, read_ms=0.1, bytes_s=1e12)
    target = Target(name="data", title="", reads=1.0)
    found = Model(work, array=replace(ARRAY, read_ms=7.9), flash=quick).predict(target)
    assert found.db_time_ms == pytest.approx(1.1, rel=0.02)
    assert found.ratio == pytest.approx(9.0 / 1.1, rel=0.02)


def test_the_wal_on_flash_lets_reads_queue_for_the_array() -> None:
    work = work_of_report(
        few(
            transactions=60_000,
            reads=(90_000, 800),
            syncs=(11_000, 95.0),
            commit_s=700.0,
            cpu_s=50.0,
        )
    )
    here = model(work)
    found = here.predict(WAL)
    assert found.ratio > 1.1
    assert found.disk_read_ms > here.present.disk_read_ms


def test_a_cache_speeds_up_the_syncs_that_share_its_array() -> None:
    work = work_of_report(
        few(
            transactions=60_000,
            reads=(90_000, 800),
            syncs=(11_000, 95.0),
            commit_s=700.0,
            cpu_s=50.0,
        )
    )
    here = model(work)
    assert here.predict(CACHE).sync_ms < here.present.sync_ms


def test_locks_shrink_with_the_waits_of_who_holds_them() -> None:
    work = work_of_report(few(lock_s=100.0))
    here = model(work)
    found = here.predict(ALL)
    assert found.lock_ms < here.present.lock_ms / 2


def test_processes_of_a_parallel_query_wait_for_each_other_as_for_locks() -> None:
    report = few(reads=(20_000, 200.0), other_s=50.0)
    top = report.table("top-events")
    queue = Row(cells=("IPC:MessageQueueSend", None, 50.0, "Other"))
    tables = tuple(
        replace(table, rows=(*table.rows, queue)) if table is top else table
        for table in report.tables
    )
    alone = work_of_report(report)
    parallel = work_of_report(replace(report, tables=tables))
    assert (alone.lock_s, parallel.lock_s) == (0.0, 50.0)
    assert parallel.other_s == pytest.approx(alone.other_s - 50.0)
    assert model(parallel).predict(ALL).ratio > model(alone).predict(ALL).ratio


def test_users_who_think_gain_response_time_and_little_throughput() -> None:
    work = work_of_report(few())
    idle = model(work, users=300.0).predict(ALL)
    busy = model(work).predict(ALL)
    # 300 users and 3.2 at work: 2.97 s of thought; without a wait at all 300 / 2.97 = 101/s.
    assert idle.ratio < 1.02
    assert busy.ratio > 3.0
    assert idle.db_time_ms < 10.0


def test_spindles_bound_what_can_be_written_in_the_long_run() -> None:
    # 2 writes a transaction, 4.5 ms of 8 spindles each: 889 transactions/s at most.
    work = work_of_report(
        few(transactions=60_000, writes=120_000, reads=(90_000, 800), commit_s=700.0, cpu_s=10.0)
    )
    target = Target(name="reads", title="", wal=True, cached=1.0)
    long_run = model(work).predict(target, horizon_s=1e9)
    burst = model(work).predict(target, horizon_s=10.0)
    assert long_run.per_s == pytest.approx(889.0, rel=0.01)
    assert long_run.limit == "the array's spindles"
    assert burst.per_s > long_run.per_s


def test_a_pipe_bounds_the_bytes_that_stay_on_the_array() -> None:
    work = work_of_report(few(reads=(20_000, 200.0)))
    # 2 blocks of 8 kB, of which one moves; 100 of those a second fit into 0.82 MB/s.
    narrow = replace(ARRAY, pipe_bytes_s=100 * 2 * 8192.0)
    found = model(work, narrow).predict(Target(name="half", title="", wal=True, reads=0.5))
    assert found.per_s <= 200.1


def test_a_slow_flash_device_bounds_what_is_moved_to_it() -> None:
    work = work_of_report(few())
    volume = replace(FLASH, iops_max=150.0)
    found = Model(work, array=ARRAY, flash=volume).predict(Target(name="d", title="", reads=1.0))
    # 2 reads a transaction at 150 IOPS are 75/s; but 100/s were measured: never worse.
    assert found.per_s == pytest.approx(100.0, rel=0.01)


def test_an_array_of_which_only_the_class_is_known_is_fitted_to_its_latency() -> None:
    work = work_of_report(few(transactions=100_000, reads=(200_000, 4_000.0), commit_s=0.0))
    present = model(work, DISK).present
    assert present.disk_read_ms == pytest.approx(20.0, rel=0.02)
    assert present.per_s == pytest.approx(1000.0, rel=0.02)


def test_a_period_without_work_is_refused_in_a_sentence() -> None:
    with pytest.raises(NoAdviceError, match="no work"):
        work_of_report(few(transactions=0))


_parts = st.floats(min_value=0.01, max_value=2_000.0)


@settings(max_examples=50)
@given(
    cpu_s=st.floats(min_value=0.5, max_value=700.0),
    read_s=_parts,
    commit_s=_parts,
    lock_s=st.floats(min_value=0.0, max_value=100.0),
    writes=st.floats(min_value=0.0, max_value=50_000.0),
    hits=st.floats(min_value=0.0, max_value=1.0),
)
def test_more_flash_is_never_slower(
    cpu_s: float, read_s: float, commit_s: float, lock_s: float, writes: float, hits: float
) -> None:
    work = Work(
        source="drawn",
        elapsed_s=100.0,
        transactions=10_000.0,
        db_time_s=cpu_s + read_s + commit_s + lock_s,
        cpu_s=cpu_s,
        cores=8.0,
        reads=Reads(count=20_000, bytes=20_000 * 8192, seconds=read_s),
        writes=writes,
        commit_s=commit_s,
        syncs=5_000.0,
        sync_s=commit_s / 3,
        lock_s=lock_s,
    )
    # A flash device without limits: one that is slower than the array is not considered.
    quick = replace(FLASH, servers=256, read_ms=0.001, bytes_s=1e12, pipe_bytes_s=None)
    here = Model(work, array=ARRAY, flash=quick)
    cache = here.predict(Target(name="c", title="", cached=hits))
    both = here.predict(Target(name="b", title="", cached=hits, wal=True))
    everything = here.predict(ALL)
    present = here.predict(PRESENT)
    assert present.ratio == pytest.approx(1.0)
    slack = 1.001
    assert cache.per_s * slack >= present.per_s
    assert both.per_s * slack >= cache.per_s
    assert everything.per_s * slack >= both.per_s
    # Little's law: as many sessions are busy as there are, or a limit holds.
    assert everything.sessions <= work.sessions * slack


_amounts = st.one_of(st.just(0.0), st.floats(min_value=1e-3, max_value=1e6))
_maybe = st.one_of(st.none(), _amounts)
_drives = st.sampled_from(
    (DISK, ARRAY, replace(ARRAY, pipe_bytes_s=40e6), replace(DISK, servers=24), FLASH)
)


@settings(max_examples=150)
@given(data=st.data())
def test_whatever_a_report_says_there_is_a_finite_answer(data: st.DataObject) -> None:
    def reads() -> Reads:
        count = data.draw(_amounts)
        seconds = data.draw(_amounts) if count else 0.0
        return Reads(count=count, bytes=count * data.draw(_amounts), seconds=seconds)

    names = ("cpu_s", "run_queue_s", "write_wait_s", "commit_s", "lock_s", "other_s", "buffer_s")
    times = {name: data.draw(_amounts, label=name) for name in names}
    disk, flash, temp = reads(), reads(), reads()
    total = sum(times.values()) + disk.seconds + flash.seconds + temp.seconds
    work = Work(
        source="drawn",
        elapsed_s=data.draw(st.floats(min_value=1.0, max_value=1e5)),
        transactions=data.draw(st.floats(min_value=1.0, max_value=1e7)),
        db_time_s=max(total, 1e-3),
        cores=data.draw(st.one_of(st.none(), st.floats(min_value=0.5, max_value=256))),
        other_cores=data.draw(_amounts),
        reads=disk,
        flash=flash,
        system_reads=reads(),
        temp=temp,
        writes=data.draw(_maybe),
        write_bytes=data.draw(_amounts),
        syncs=data.draw(_maybe),
        sync_s=data.draw(_maybe),
        wal_bytes=data.draw(_amounts),
        archive_read_bytes=data.draw(_amounts),
        archive_write_bytes=data.draw(_amounts),
        cpu_s=times["cpu_s"],
        run_queue_s=times["run_queue_s"],
        write_wait_s=times["write_wait_s"],
        commit_s=times["commit_s"],
        lock_s=times["lock_s"],
        other_s=times["other_s"],
        buffer_s=times["buffer_s"],
    )
    here = Model(work, array=data.draw(_drives), flash=data.draw(_drives))
    for target in (PRESENT, WAL, CACHE, ALL, Target(name="t", title="", temp=True, archive=True)):
        found = here.predict(target)
        for value in (found.per_s, found.ratio, found.db_time_ms, found.sync_ms):
            assert math.isfinite(value)
            assert value >= 0
        assert found.per_s > 0
