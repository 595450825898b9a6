/*
 * chunk.c
 *		How much of each file is in the index, so that blocks that are not there
 *		are not searched for.
 *
 * For each 1024 blocks of a file, a counter (hashed, so files may share one)
 * says how many of them are in the index or on their way there.  Dropping a
 * large file means looking only where a counter is not zero.
 *
 * Counters, and the file's own sum of them, rise before a block enters and fall
 * after it left.  The process whose compare-and-swap made the block leave
 * counts it out.  So counters may be too high (a process was killed, or files
 * share one), but never too low.
 *
 * In memory that outlived a crash the counters may hold anything.  Until
 * fc_revive_audit() has counted again (revive.c), no process trusts them or
 * counts down.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "file.h"

FcAtomic32 *
fc_chunk_of(const FcShared *shared, uint32_t number, uint32_t block)
{
	uint64_t hash =
		fc_mix(((uint64_t) number << 32) | (block / FC_CHUNK_BLOCKS));

	FC_ASSERT(number != FC_FILE_NONE && number < shared->file_count);
	return &fc_chunks(shared)[hash & (shared->chunk_count - 1)];
}

void
fc_chunk_enter(const FcShared *shared, uint32_t number, uint32_t block)
{
	FcFileEntry *entry = &fc_files(shared)[number];
	uint32_t high = atomic_load(&entry->high);

	FC_ASSERT(block < FC_BLOCKS_ALL);
	if (FC_BROKEN(CHUNKS))
		return;
	while (high <= block &&
	       !atomic_compare_exchange_weak(&entry->high, &high, block + 1))
		;
	atomic_fetch_add(&entry->cached_blocks, 1);
	atomic_fetch_add(fc_chunk_of(shared, number, block), 1);
}

void
fc_chunk_leave(const FcShared *shared, uint32_t number, uint32_t block)
{
	if (FC_BROKEN(CHUNKS))
		return;
	FC_ASSERT(!FC_WHOLE || !fc_blocks_counted(shared) ||
	          atomic_load(fc_chunk_of(shared, number, block)) > 0);
	atomic_fetch_sub(fc_chunk_of(shared, number, block), 1);

	/* The line may belong to another file by now: see file.c. */
	atomic_fetch_sub(&fc_files(shared)[number].cached_blocks, 1);
}
