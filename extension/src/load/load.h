/*
 * load.h
 *		Files to load into the cache.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef PGFLASH_LOAD_H
#define PGFLASH_LOAD_H

#include "postgres.h"

#include "datatype/timestamp.h"

/* Files in the list: waiting, being loaded, or done last. */
#define LOAD_FILES_MAX 512

typedef enum LoadState
{
	LOAD_WAITING,
	LOAD_RUNNING,
	LOAD_DONE,
	LOAD_CANCELLED,
	LOAD_FAILED
} LoadState;

/* The main fork of a relation. */
typedef struct LoadFile
{
	uint64 id; /* 0: the place is free */
	Oid relation;
	Oid tablespace;
	Oid database;
	Oid filenode;
	int32 state; /* a LoadState */
	int32 error; /* errno, if it failed */
	uint64 blocks;
	uint64 done;
	uint64 cached; /* of those done: before the load */
	uint64 loaded;
	uint64 refused;
	TimestampTz queued_at;
	TimestampTz began_at; /* 0: not yet */
	TimestampTz ended_at;
} LoadFile;

/* ---- the list ------------------------------------------------------------ */

/* Requests memory; call it while the library is being loaded. */
extern void load_install(void);

/* Is there a list? */
extern bool load_attached(void);

/*
 * Add a file, unless it is waiting or being loaded already.  False: the list is
 * full of files that are not done yet.
 */
extern bool load_add(const LoadFile *file);

/* Cancel the files of a relation, or all; returns how many were not done. */
extern uint64 load_cancel(Oid database, Oid relation);

/* Is anything left to load? */
extern bool load_pending(void);

/* The file to load next, or the one that is being loaded; false: none. */
extern bool load_next(LoadFile *out);

/* Store the progress of a file.  False: it was cancelled. */
extern bool load_store(const LoadFile *file);

/* The file in a place; false: there is none. */
extern bool load_get(uint32 place, LoadFile *out);

/* Why nothing can be loaded now, in static memory; NULL: something can. */
extern void load_set_reason(const char *why);
extern const char *load_reason(void);

/* Write the list to its file, if it has changed. */
extern void load_save(void);

/* ---- the process that loads ---------------------------------------------- */

/*
 * Start it if there is something to load and it is not running.  The
 * housekeeping worker calls this about once a second.
 */
extern void load_worker_tick(void);

#endif
