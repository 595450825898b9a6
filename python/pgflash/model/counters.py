# SPDX-License-Identifier: PostgreSQL
"""The counters of the flash cache.

Generated from definitions/ by `make generate`.
"""

#: Columns of pgflash_cache, with Oracle's name of the statistic if it has one.
COUNTERS = {
    "hits": "physical read flash cache hits",
    "staged_hits": "",
    "misses": "",
    "page_cache_reads": "",
    "inserts": "flash cache inserts",
    "eviction_invalidated": "flash cache eviction: invalidated",
    "eviction_aged_out": "flash cache eviction: aged out",
    "eviction_buffer_pinned": "flash cache eviction: buffer pinned",
    "insert_skip_not_current": "flash cache insert skip: not current",
    "insert_skip_writer_overloaded": "flash cache insert skip: DBWR overloaded",
    "insert_skip_exists": "flash cache insert skip: exists",
    "insert_skip_not_useful": "flash cache insert skip: not useful",
    "insert_skip_modification": "flash cache insert skip: modification",
    "insert_skip_corrupt": "flash cache insert skip: corrupt",
    "insert_skip_budget": "",
    "insert_skip_device": "",
    "insert_skip_invalid": "",
    "bypass_reads": "",
    "updates": "",
    "coalesced_updates": "",
    "invalidations": "",
    "prefetches_swallowed": "",
    "flash_reads": "",
    "flash_read_bytes": "",
    "flash_writes": "",
    "flash_write_bytes": "",
    "flash_read_errors": "",
    "read_timeouts": "",
    "flash_write_errors": "",
    "corrupt_slots": "",
    "disk_reads": "",
    "disk_read_bytes": "",
    "verify_compared": "",
    "verify_mismatches": "",
    "moved_blocks": "",
    "takeovers": "",
    "file_displacements": "",
    "file_shortages": "",
    "clears": "",
    "foreign_changes": "",
    "files_kept": "",
    "files_dropped": "",
}

#: Those that reports leave out: details, and what their other tables show.
DETAILS = (
    "staged_hits",
    "flash_read_bytes",
    "flash_write_bytes",
    "disk_reads",
    "disk_read_bytes",
    "moved_blocks",
    "takeovers",
    "file_displacements",
    "file_shortages",
    "clears",
    "foreign_changes",
    "files_kept",
    "files_dropped",
)
