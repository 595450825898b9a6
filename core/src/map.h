/*
 * map.h
 *		The map in the cache files: what is cached, over a shutdown and a reboot.
 *
 * Behind the slots of each cache file a record for each of its sets (keys, checksums,
 * the policy's state), and behind the records of the first file the files, with their
 * stamps (ondisk.h has the bytes).  map_save.c writes it at the end of one life of the
 * cache, map_load.c takes it in at the beginning of the next.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef FCACHE_MAP_H
#define FCACHE_MAP_H

#include <sys/types.h>

#include "ondisk.h"
#include "shared.h"

/* Bytes read or written at once; a record does not cross their border. */
#define FC_MAP_CHUNK (1U << 20)

extern uint32_t fc_map_record_size(const FcShared *shared);
extern uint32_t fc_map_record_crc(const FcDiskRecord *record, uint32_t size);

/* Sets of each cache file. */
extern uint32_t fc_map_sets_of_file(const FcShared *shared);

/* Offsets in a cache file. */
extern off_t fc_map_records_begin(const FcShared *shared);
extern off_t fc_map_files_begin(const FcShared *shared);

/* Bytes of so many files, with the replacement policy's state behind them. */
extern uint64_t fc_map_files_size(uint32_t count, uint64_t replacement_size);

/* What the replacement policy keeps for all sets. */
extern uint64_t fc_map_replacement_size(const FcShared *shared);

/* All of a piece, or not at all. */
extern bool fc_map_transfer(int fd, void *buffer, size_t size, off_t offset,
                            bool writes);

/* Has the saved map's record of this set yet to be looked at?  Then leave the set to it. */
extern bool fc_map_load_expects(const FcShared *shared, uint32_t set_number);

#endif
