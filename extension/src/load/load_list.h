/*
 * load_list.h
 *		A list of blocks to load into the cache, hottest first.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef PGFLASH_LOAD_LIST_H
#define PGFLASH_LOAD_LIST_H

#include "postgres.h"

#include "datatype/timestamp.h"
#include "port/pg_crc32c.h"

#include "bridge/bridge_load.h"
#include "load/load.h"

/* Blocks of one heat in a segment file, as pgflash_cache_list() shows them. */
typedef struct LoadPart
{
	Oid tablespace;
	Oid database;
	Oid filenode;
	uint32 fork;
	uint32 segment;
	uint32 heat;
	uint32 blocks; /* bits that are set in the bitmap */
	uint32 size;   /* of the bitmap, in bytes */
	uint64 offset; /* of the bitmap in the list's file */
	pg_crc32c bitmap_crc;
	pg_crc32c crc; /* of everything above */
} LoadPart;

typedef struct LoadPartSource
{
	LoadPart part; /* offset and checksums are not set yet */
	const uint8 *bitmap;
} LoadPartSource;

/* What became of a list's blocks. */
typedef struct LoadCounts
{
	uint64 done; /* the sum of the others */
	uint64 cached;
	uint64 loaded;
	uint64 refused;
	uint64 missing; /* not in the file, or the file is not there */
} LoadCounts;

typedef struct LoadList
{
	uint64 id;      /* 0: there is none */
	uint64 stored;  /* number of the stored list it is; 0: a session's */
	int32 state;    /* a LoadState */
	uint32 parts;   /* hottest first */
	uint32 next;    /* the part to load next */
	uint32 working; /* parts that are being loaded */
	uint64 blocks;
	LoadCounts counts;
	TimestampTz taken_at;
	TimestampTz queued_at;
	TimestampTz began_at; /* 0: not yet */
	TimestampTz ended_at;
} LoadList;

/* Requests memory; call it while the library is being loaded. */
extern void load_list_install(void);

/* Replace the current list by a new one; sorts the parts. */
extern void load_list_replace(LoadPartSource *parts, uint32 count,
                              TimestampTz taken_at, uint64 stored);

/* The current list; false: there is none. */
extern bool load_list_get(LoadList *out);

/* Cancel it; returns whether it was waiting or being loaded. */
extern bool load_list_cancel(void);

/* The segment file of a part. */
extern BridgeLoadFile load_list_file(const LoadPart *part);

/* ---- its file ------------------------------------------------------------ */

/* Open it for reading, as a transient file; -1: this list has none. */
extern int load_list_open(uint64 id);

/* Read a part; false: it is damaged. */
extern bool load_list_part(int fd, uint32 number, LoadPart *out);

/* Read a part's bitmap, palloc'd; NULL: it is damaged. */
extern uint8 *load_list_bitmap(int fd, const LoadPart *part);

/* ---- for the processes that load ----------------------------------------- */

/* Is there a part that no process has begun? */
extern bool load_list_pending(void);

/* Begin the next part; false: there is none. */
extern bool load_list_begin(uint64 *id_out, uint32 *number_out);

/* Add to the list's counts; false: it is no longer wanted. */
extern bool load_list_count(uint64 id, const LoadCounts *more);

/* A part has ended. */
extern void load_list_end(uint64 id);

/* The processes that load have numbers below this. */
#define LOAD_WORKERS_MAX 32

/* Take a process's number; false: another process has it. */
extern bool load_list_join(int number);
extern void load_list_leave(int number);

/* Has a process this number? */
extern bool load_list_joined(int number);

/* How many processes load? */
extern int load_list_workers(void);

#endif
