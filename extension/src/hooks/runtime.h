/*
 * runtime.h
 *		What hooks use in each process: the cache, and a few of the server's
 *		variables, without including PostgreSQL's headers.
 *
 * bridge.c fills it in in the postmaster; children inherit it by fork.  Hooks
 * run anywhere: before shared memory exists, after it is gone, in processes
 * that never see it (the logger detaches), in signal handlers and critical
 * sections.  So each calls runtime_attached() first, and none allocates,
 * reports, waits or takes a lock.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef PGFLASH_RUNTIME_H
#define PGFLASH_RUNTIME_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "fcache/cache.h"
#include "hooks/paths.h"

/* Relations are told apart by so many classes, by their hash. */
#define NEIGHBOUR_CLASSES 64

/* So many blocks are watched for their first hit. */
#define NEIGHBOUR_WATCHED 512

/* A block is read alone, in a small window, or in a large one. */
#define NEIGHBOUR_SIZES 3

/*
 * What reads of neighbours have cost and brought (neighbours.c).  Processes
 * change it without a lock; a lost update costs a little accuracy.
 */
typedef struct Neighbourhood
{
	struct
	{
		_Atomic uint32_t misses; /* that could have read neighbours */
		_Atomic uint32_t known;  /* watched blocks, once their fate is known */
		_Atomic uint32_t used;   /* ... of which so many were hit */
		_Atomic uint64_t mean_ns[NEIGHBOUR_SIZES]; /* of reads; 0: none yet */
	} class[NEIGHBOUR_CLASSES];
	_Atomic uint32_t sample_mask; /* 0: no block is watched */

	/* Hashes, with the class in place of their lowest bits; 0: none. */
	_Atomic uint64_t watched[NEIGHBOUR_WATCHED];
} Neighbourhood;

/* What the extension itself keeps in shared memory, besides core's part. */
typedef struct Board
{
	/*
	 * The last block that verification found to differ from its file.  The
	 * process that finds one writes it, without a lock: two at once may garble
	 * a log line, but not the count.
	 */
	_Atomic uint64_t mismatches;
	FcFileId mismatch_id;
	uint32_t mismatch_block;

	/* The last file found to be changed behind the cache's back; likewise. */
	_Atomic uint64_t foreign;
	FcFileId foreign_id;

	/*
	 * The self-test saw file calls pass through the hooks.  Before that,
	 * nothing is served.
	 */
	_Atomic bool self_tested;

	/* So much of the cache's memory was put into huge pages. */
	_Atomic uint64_t huge_bytes;

	/* The fd that could not be classified, for the log line. */
	_Atomic int unknown_fd;
	_Atomic int unknown_errno;

	/*
	 * Why the cache does not have the size of the setting.  0: it has it, or
	 * soon will; otherwise RESIZE_OUT_OF_RANGE, or the errno of a cache file
	 * that could not grow.
	 */
	_Atomic int resize_refused;

	/* The cache files grow, so that the cache can. */
	_Atomic bool resize_reserves;

	Neighbourhood neighbourhood;
} Board;

#define RESIZE_OUT_OF_RANGE (-1)

typedef struct Runtime
{
	FcCache cache; /* cache.shared is NULL when there is none */
	FcDevice device[FC_DEVICES_MAX];
	Board *board;
	PathsRoot root;
	uint32_t segment_blocks;

	/* PostgreSQL's variables. */
	void *const *shared_memory;  /* NULL in a process that has none */
	uint32_t *const *wait_event; /* where the current wait is shown */
	const bool *is_walsender;
	const int *backend_type;
	int checkpointer_type; /* of the process that writes at a checkpoint */

	/*
	 * Whether the server syncs what it writes, and where in its control file
	 * the CRC is.
	 */
	const bool *syncs;
	size_t control_crc_offset;

	/* ... and whether it accepts a page as this block of a fork. */
	bool (*page_valid)(void *page, uint32_t block);

	uint32_t flash_read_event;
} Runtime;

extern Runtime runtime;

/*
 * How long checkpoints may wait for flash in total while there is no writer,
 * which at a shutdown ends before the last checkpoint.  Only the checkpointer
 * ever waits.
 */
#define STAND_IN_NS 5000000000ULL

static inline bool
runtime_is_checkpointer(void)
{
	return *runtime.backend_type == runtime.checkpointer_type;
}

/* May this process touch the cache? */
static inline bool
runtime_attached(void)
{
	return runtime.cache.shared != NULL && *runtime.shared_memory != NULL;
}

/* Show a wait event, and return the one shown before. */
static inline uint32_t
runtime_wait(uint32_t event)
{
	volatile uint32_t *shown = *runtime.wait_event;
	uint32_t before = *shown;

	*shown = event;
	return before;
}

#endif
