/*
 * advice.h
 *		What a cache of another size would bring.
 *
 * Includes neither PostgreSQL's headers nor, except for what hooks pass in,
 * core's.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef PGFLASH_ADVICE_H
#define PGFLASH_ADVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- start --------------------------------------------------------------- */

/* Ask for advice, for a cache of so many blocks; 0: there is no cache. */
extern void advice_want(uint32_t cache_blocks);

/* How much shared memory to ask for; 0 if there is no advice. */
extern size_t advice_memory_size(void);
extern void advice_create(void *memory);
extern void advice_detach(void);
extern void advice_in_child(void);

/* ---- hooks --------------------------------------------------------------- */

struct FcFileId;

/* May this process report its reads? */
extern bool advice_attached(void);

/* A run of blocks that neither shared_buffers nor the page cache has. */
extern void advice_requested(struct FcFileId id, uint32_t first,
                             unsigned count);

/*
 * While the cache does not serve, asking the page cache about each read would
 * cost more than everything else.  So one read in ADVICE_TURNS stands for all
 * in counts and times; of the others, only those with a block in the sample are
 * looked at.
 */
#define ADVICE_TURNS 32

extern bool advice_turn(void);
extern bool advice_wants(struct FcFileId id, uint32_t first, unsigned count);
extern void advice_count(unsigned blocks, unsigned times);
extern void advice_note(struct FcFileId id, uint32_t first, unsigned count);

/* So many blocks, requested at once, came from disk or flash in this time. */
extern void advice_disk_read(unsigned blocks, uint64_t ns);
extern void advice_flash_read(unsigned blocks, uint64_t ns);

/* ---- the view ------------------------------------------------------------ */

/* Sizes from 1/8 to 16 times the present one. */
#define ADVICE_ROWS 8

typedef struct Advice
{
	double size_factor[ADVICE_ROWS];
	uint64_t size_blocks[ADVICE_ROWS];
	double hit_ratio[ADVICE_ROWS]; /* all negative: unknown */
	double requests_per_second;    /* blocks */
	/* Per block, for the mix of requests seen: single ones and runs. */
	double disk_read_ms; /* 0: none was timed */
	double flash_read_ms;
	bool flash_measured; /* else flash_read_ms is an assumption */
	double window_seconds;
	double sample_rate;
	uint32_t sampled_blocks;
} Advice;

/* Returns false if there is no advice. */
extern bool advice_read(uint64_t present_blocks, Advice *out);

#endif
