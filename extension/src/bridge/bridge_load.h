/*
 * bridge_load.h
 *		Loading: blocks are read from a relation's file to put them into the
 *		cache, not because a query needs them now.
 *
 * Includes neither PostgreSQL's headers nor core's.
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

/* Heats of a block: from 0 to one less. */
#define BRIDGE_LOAD_HEATS 4

/* Enough for the path of a relation's file. */
#define BRIDGE_LOAD_PATH 256

/* A segment file of a relation. */
typedef struct BridgeLoadFile
{
	uint32_t tablespace;
	uint32_t database;
	uint32_t relation;
	uint32_t fork;
	uint32_t segment;
} BridgeLoadFile;

/* Blocks that are wanted, close together in a segment file. */
typedef struct BridgeLoadRun
{
	uint32_t first;
	unsigned count;
	uint32_t wanted; /* a bit for each of them, the lowest for the first */
	unsigned heat;   /* from 0; see pgflash_cache_list() */
} BridgeLoadRun;

_Static_assert(BRIDGE_LOAD_BLOCKS <= 32, "a run's blocks fit");

/* What was done with the blocks of a run. */
typedef struct BridgeLoad
{
	unsigned looked;  /* wanted blocks looked up, to the end of the file */
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

/* Can no block be loaded any more until the server starts again? */
extern bool bridge_load_over(void);

/* Blocks in a segment file. */
extern uint32_t bridge_load_segment_blocks(void);

/* May there be such a file? */
extern bool bridge_load_possible(const BridgeLoadFile *file);

/* The number of the fork of this name; false: there is no such fork. */
extern bool bridge_load_fork(const char *name, uint32_t *fork_out);

/* The path of a file that is possible. */
extern void bridge_load_path(const BridgeLoadFile *file,
                             char path[BRIDGE_LOAD_PATH]);

/* How many of these blocks are cached?  A hint. */
extern unsigned bridge_load_cached(const BridgeLoadFile *file,
                                   const uint32_t blocks[], unsigned count);

/*
 * Read those blocks of a run that are wanted and not cached.  The server has
 * opened the segment file for reading.  buffer is aligned for direct reads and
 * has BRIDGE_LOAD_BLOCKS blocks; it and *out must stay until bridge_load_fill()
 * has returned true.  A process loads one run at a time.
 */
extern void bridge_load_read(int fd, const BridgeLoadRun *wanted, void *buffer,
                             BridgeLoad *out);

/*
 * Put them into the cache.  False: the writer has no room for more now, or a
 * block of the segment is being written; call it again after a moment, or give
 * up, which refuses the rest.
 */
extern bool bridge_load_fill(bool give_up, BridgeLoad *out);

#endif
