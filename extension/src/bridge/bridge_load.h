/*
 * bridge_load.h
 *		Blocks that are read from a relation's file because somebody wants them
 *		in the cache, not because a query needs them now.
 *
 * Plain C: neither PostgreSQL's headers nor core's.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef PGFLASH_BRIDGE_LOAD_H
#define PGFLASH_BRIDGE_LOAD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* The most blocks of a run. */
#define BRIDGE_LOAD_BLOCKS 16

/* Enough for the path of a relation's file. */
#define BRIDGE_LOAD_PATH 256

/* What became of the blocks of a run. */
typedef struct BridgeLoad
{
	unsigned looked;  /* at so many, until the end of the file */
	unsigned cached;  /* before */
	unsigned loaded;  /* put into the cache */
	unsigned refused; /* not put there: see pgflash_cache */
	bool end;         /* the file ends in this run */
	int error;        /* errno of a read that failed, or 0 */
	uint64_t read_bytes;
	uint64_t read_ns;
} BridgeLoad;

/* NULL, or why no block can be loaded at present. */
extern const char *bridge_load_hindrance(void);

/* Blocks in a segment file. */
extern uint32_t bridge_load_segment_blocks(void);

/* The path of a segment of a relation's main fork. */
extern void bridge_load_path(uint32_t tablespace, uint32_t database,
                             uint32_t relation, uint32_t segment,
                             char path[BRIDGE_LOAD_PATH]);

/*
 * Read those blocks of a run that are not cached.  The server has opened the
 * segment file for reading.  buffer is aligned for direct reads and has
 * BRIDGE_LOAD_BLOCKS blocks; it and *out must stay until bridge_load_fill() has
 * returned true.  A process loads one run at a time.
 */
extern void bridge_load_read(int fd, uint32_t first, unsigned count,
                             void *buffer, BridgeLoad *out);

/*
 * Put them into the cache.  False: the writer has no room for more now; call it
 * again after a moment, or give up, which refuses the rest.
 */
extern bool bridge_load_fill(bool give_up, BridgeLoad *out);

#endif
