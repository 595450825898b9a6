/*
 * map.h
 *		The map in the cache files: what is cached, over a shutdown and a
 *		reboot.
 *
 * After the slots of each cache file comes a record for each of its sets (keys,
 * checksums, the policy's state), and after the records of the first file come
 * the files with their stamps (ondisk.h defines the bytes).  map_save.c writes
 * the map at the end of one life of the cache, map_load.c takes it in at the
 * beginning of the next.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef FCACHE_MAP_H
#define FCACHE_MAP_H

#include <sys/types.h>

#include "ondisk.h"
#include "shared.h"

/*
 * Bytes read or written at once; no record crosses the border of such a chunk.
 */
#define FC_MAP_CHUNK (1U << 20)

extern uint32_t fc_map_record_size(const FcShared *shared);
extern uint32_t fc_map_records_per_chunk(const FcShared *shared);
extern uint32_t fc_map_record_crc(const FcDiskRecord *record, uint32_t size);

/* Sets of each cache file. */
extern uint32_t fc_map_sets_of_file(const FcShared *shared);

/* Offsets in a cache file. */
extern off_t fc_map_records_begin(const FcShared *shared);
extern off_t fc_map_files_begin(const FcShared *shared);

/*
 * Bytes of so many files, including the replacement policy's state after them.
 */
extern uint64_t fc_map_files_size(uint32_t count, uint64_t replacement_size);

/* Bytes of the replacement policy's state of all sets. */
extern uint64_t fc_map_replacement_size(const FcShared *shared);

/* Transfer the whole piece; false if that fails. */
extern bool fc_map_transfer(int fd, void *buffer, size_t size, off_t offset,
                            bool writes);

/*
 * Is the map's record of this set yet to be processed?  Then leave the set
 * alone.
 */
extern bool fc_map_load_expects(const FcShared *shared, uint32_t set_number);

#endif
