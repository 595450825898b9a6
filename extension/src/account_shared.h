/*
 * account_shared.h
 *		The accounting's shared memory, for account*.c.
 *
 *	AccountShared
 *	backend type of each process		(only where processes read for others)
 *	blocks of cells, by backend type and shard
 *	keys of the relations, then their counters; one more of these for "other"
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef PGFLASH_ACCOUNT_SHARED_H
#define PGFLASH_ACCOUNT_SHARED_H

#include <stdatomic.h>

#include "account.h"
#include "files.h"

#define ACCOUNT_LINE 64

/* Counters of one kind of call.  calls is the sum of the buckets. */
typedef struct AccountCell
{
	_Alignas(ACCOUNT_LINE) _Atomic uint64_t bytes;
	_Atomic uint64_t ns;
	_Atomic uint64_t told_calls;
	_Atomic uint64_t worker_calls;
	_Atomic uint64_t worker_ns;
	_Atomic uint64_t bucket[ACCOUNT_BUCKETS];
} AccountCell;

/* Data files have a row for each tablespace, the other classes one each. */
#define ACCOUNT_ROWS (ACCOUNT_TABLESPACES + ACCOUNT_CLASSES - 1)

/* What processes of one backend type count in, or some of them. */
typedef struct AccountBlock
{
	AccountCell cell[ACCOUNT_ROWS][ACCOUNT_KINDS];
} AccountBlock;

/* A relation's counters in their order: what reads touch is one cache line. */
enum
{
	RELATION_READ_BYTES,
	RELATION_READS,                          /* calls and ns of each source */
	RELATION_WRITE = RELATION_READS + 2 * 3, /* calls, bytes, ns */
	RELATION_EXTEND = RELATION_WRITE + 3,
	RELATION_SYNC = RELATION_EXTEND + 3, /* calls, ns */
	RELATION_COUNTERS = RELATION_SYNC + 2
};

/* See account_relations.c. */
typedef struct RelationCounters
{
	_Alignas(2 * ACCOUNT_LINE) _Atomic uint64_t tag;
	_Atomic uint64_t counter[RELATION_COUNTERS];
} RelationCounters;

typedef struct RelationKey
{
	_Atomic uint64_t space_and_database;
	_Atomic uint64_t relation_and_fork;
} RelationKey;

/* Reads are told apart by their time within one class of size. */
#define ACCOUNT_SIZES 4

typedef struct AccountShared
{
	int64_t since;
	_Atomic uint32_t tablespace[ACCOUNT_TABLESPACES]; /* OIDs; 0: free */

	_Alignas(ACCOUNT_LINE) _Atomic uint64_t truncations;
	_Atomic uint64_t relation_epoch; /* moves when a place may be had again */

	_Alignas(ACCOUNT_LINE) _Atomic uint64_t wal_end; /* of what was written */
	_Atomic uint64_t wal_rewritten;

	/* See account_source.c. */
	_Alignas(ACCOUNT_LINE) _Atomic uint8_t limit[ACCOUNT_SIZES];
	_Atomic uint32_t told[ACCOUNT_SIZES][2][ACCOUNT_BUCKETS];
} AccountShared;

/* The parts of the memory; shared is NULL where there is none. */
typedef struct AccountMemory
{
	AccountShared *shared;
	_Atomic uint8_t *process_type;
	AccountBlock *blocks;
	RelationKey *keys;
	RelationCounters *relations;
	uint32_t places; /* without the one for "other" */
} AccountMemory;

extern AccountMemory account_memory;

/* account_relations.c */

/* The counters of an open file's relation. */
extern RelationCounters *account_relation_of(OpenFile *file);
/* No process is in the middle of anything: free what one left half done. */
extern void account_relations_tidy(void);

/* account_source.c */
extern void account_source_begin(void);
extern bool account_source_is_disk(unsigned bucket, size_t size);
extern void account_source_learn(unsigned bucket, size_t size, bool disk);

static inline void
account_add(_Atomic uint64_t *counter, uint64_t amount)
{
	atomic_fetch_add_explicit(counter, amount, memory_order_relaxed);
}

static inline uint64_t
account_get(const _Atomic uint64_t *counter)
{
	return atomic_load_explicit(counter, memory_order_relaxed);
}

#endif
