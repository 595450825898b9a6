# SPDX-License-Identifier: PostgreSQL
"""Which class a wait belongs to, across the majors' spellings."""

import pytest

from pgflash.model.waits import WaitClass, wait_class

CLIENT = "client backend"


@pytest.mark.parametrize(
    ("wait_type", "event", "expected"),
    [
        ("", "", WaitClass.CPU),
        ("IO", "DataFileRead", WaitClass.USER_IO),
        ("IO", "BufFileWrite", WaitClass.USER_IO),
        ("IO", "BuffileWrite", WaitClass.USER_IO),
        ("IO", "AioIoCompletion", WaitClass.USER_IO),
        ("IO", "SLRURead", WaitClass.USER_IO),
        ("IO", "SlruRead", WaitClass.USER_IO),
        ("IPC", "BufferIO", WaitClass.USER_IO),
        ("IPC", "BufferIo", WaitClass.USER_IO),
        ("Extension", "FlashCacheRead", WaitClass.USER_IO),
        ("LWLock", "FlashCacheRead", WaitClass.USER_IO),
        ("IO", "WALSync", WaitClass.COMMIT),
        ("IO", "WalSync", WaitClass.COMMIT),
        ("IO", "WALWrite", WaitClass.COMMIT),
        ("LWLock", "WALWrite", WaitClass.COMMIT),
        ("IPC", "SyncRep", WaitClass.COMMIT),
        ("LWLock", "WALBufMapping", WaitClass.CONFIGURATION),
        ("IO", "WALInitWrite", WaitClass.CONFIGURATION),
        ("IO", "DataFileWrite", WaitClass.CONFIGURATION),
        ("Timeout", "RegisterSyncRequest", WaitClass.CONFIGURATION),
        ("IPC", "CheckpointDone", WaitClass.CONFIGURATION),
        ("LWLock", "BufferMapping", WaitClass.CONCURRENCY),
        ("BufferPin", "BufferPin", WaitClass.CONCURRENCY),
        ("Lock", "extend", WaitClass.CONCURRENCY),
        ("Timeout", "SpinDelay", WaitClass.CONCURRENCY),
        ("Lock", "transactionid", WaitClass.APPLICATION),
        ("Timeout", "PgSleep", WaitClass.APPLICATION),
        ("Client", "ClientWrite", WaitClass.NETWORK),
        ("Client", "ClientRead", WaitClass.IDLE),
        ("Activity", "WalWriterMain", WaitClass.IDLE),
        ("Timeout", "VacuumDelay", WaitClass.IDLE),
        ("IPC", "ParallelFinish", WaitClass.OTHER),
        ("Extension", "Extension", WaitClass.OTHER),
    ],
)
def test_a_clients_wait_has_its_class(wait_type: str, event: str, expected: WaitClass) -> None:
    assert wait_class(backend_type=CLIENT, wait_type=wait_type, event=event) is expected


@pytest.mark.parametrize("backend", ["checkpointer", "walwriter", "io worker", "walsender"])
def test_what_serves_no_client_is_system_io_and_no_db_time(backend: str) -> None:
    found = wait_class(backend_type=backend, wait_type="IO", event="WalSync")
    assert found is WaitClass.SYSTEM_IO
    assert not found.counts


def test_a_background_process_at_work_is_no_db_time() -> None:
    assert not wait_class(backend_type="checkpointer", wait_type="", event="").counts


def test_a_parallel_worker_is_a_session() -> None:
    found = wait_class(backend_type="parallel worker", wait_type="IO", event="DataFileRead")
    assert found is WaitClass.USER_IO
