# SPDX-License-Identifier: PostgreSQL
"""The meaning of a wait, in the words of a sentence, for the events that dominate DB time.

A table shows the event's own name, which can be looked up.  A sentence says what it means, with
PostgreSQL's name beside it; an event that has no words here is called by its name.
"""

_WORDS = {
    "DB CPU": "work on the processors (DB CPU)",
    "WAL sync": "WAL syncs",
    "WAL write": "WAL writes",
    "data file read": "reads of data files",
    "data file read, all processes": "reads of data files",
    "data file read, disk": "reads from disk",
    "data file read, flash cache": "reads from the flash cache",
    "data file read, page cache": "reads from the page cache",
    "data file write": "writes of dirty buffers by clients",
    "data file extend": "extending data files",
    "IO:AioIoCompletion": "waiting for reads by I/O workers",
    "IO:AioIoUringExecution": "waiting for reads by io_uring",
    "IO:DataFileRead": "reads of data files",
    "IO:WalSync": "WAL syncs",
    "IPC:SyncRep": "waiting for a synchronous standby",
    "LWLock:BufferMapping": "finding and replacing buffers",
    "LWLock:WALInsert": "waiting to copy records into the WAL buffers",
    "LWLock:WALWrite": "waiting while another session wrote the WAL",
    "Lock:extend": "waiting while another session extended the table",
    "Lock:relation": "waiting for a lock on a table",
    "Lock:transactionid": "waiting for other transactions to end",
    "Lock:tuple": "waiting in line to change a row",
    "Timeout:PgSleep": "sleeping",
}


def event_in_words(event: str) -> str:
    """Return the words for an event, with PostgreSQL's own name among them."""
    words = _WORDS.get(event)
    if words is None:
        return event
    return f"{words} ({event})" if ":" in event else words
