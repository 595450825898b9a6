/*
 * chunk.c
 *		How much of each file is in the index, so that what is not need not be
 *		looked for.
 *
 * A counter for each 1024 blocks of a file (hashed, so files may share one) tells
 * how many of them are in the index or on their way.  Dropping a large file means
 * looking only where a counter is not zero.
 *
 * Counters, and the file's own sum of them, go up before a block enters and down
 * after it left, by whoever's compare-and-swap made it leave: they may be too high
 * (a process was killed, or files share one), never too low.
 *
 * In memory that outlived a crash they may be anything.  Until fc_revive_audit() has
 * counted again (revive.c) nobody believes them and nobody counts down.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "file.h"

FcAtomic32 *
fc_chunk_of(const FcShared *shared, uint32_t number, uint32_t block)
{
	uint64_t hash =
		fc_mix(((uint64_t) number << 32) | (block / FC_CHUNK_BLOCKS));

	return &fc_chunks(shared)[hash & (shared->chunk_count - 1)];
}

void
fc_chunk_enter(const FcShared *shared, uint32_t number, uint32_t block)
{
	FcFileEntry *entry = &fc_files(shared)[number];
	uint32_t high = atomic_load(&entry->high);

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
	atomic_fetch_sub(fc_chunk_of(shared, number, block), 1);

	/* The line may have been given to another file since: see file.c. */
	atomic_fetch_sub(&fc_files(shared)[number].cached_blocks, 1);
}
