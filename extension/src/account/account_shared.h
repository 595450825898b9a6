/*
 * account_shared.h
 *		The accounting's shared memory, for account*.c.
 *
 *	AccountShared
 *	the type of each process, and what others read for it
 *	blocks of cells, by backend type and shard
 *	keys of the relations, then copies of their counters; one more place of
 *	these for "other"
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef PGFLASH_ACCOUNT_SHARED_H
#define PGFLASH_ACCOUNT_SHARED_H

#include <stdatomic.h>

#include "account/account.h"
#include "account/account_calls.h"
#include "hooks/descriptors.h"
#include "hooks/runtime.h"

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

/* Where processes of one backend type count, or some of them. */
typedef struct AccountBlock
{
	AccountCell cell[ACCOUNT_ROWS][ACCOUNT_KINDS];
} AccountBlock;

/*
 * The order of a relation's counters: reads and writes have a cache line each.
 */
enum
{
	RELATION_READ_BYTES,
	RELATION_READS,     /* calls and ns of each source */
	RELATION_WRITE = 8, /* calls, bytes, ns */
	RELATION_EXTEND = RELATION_WRITE + 3,
	RELATION_SYNC = RELATION_EXTEND + 3, /* calls, ns */
	RELATION_COUNTERS = RELATION_SYNC + 2
};

/* Processors fetch two lines together. */
typedef struct RelationCounters
{
	_Alignas(2 * ACCOUNT_LINE) _Atomic uint64_t counter[RELATION_COUNTERS];
} RelationCounters;

_Static_assert(sizeof(RelationCounters) == 2 * ACCOUNT_LINE,
               "a relation takes two lines for each copy");

#define RELATION_COPIES 4

typedef struct RelationPlace
{
	RelationCounters copy[RELATION_COPIES];
} RelationPlace;

/* See account_asked.c.  Processors fetch two lines together. */
#define ASKED_LANES 4

typedef struct AskedLane
{
	_Alignas(2 * ACCOUNT_LINE) _Atomic uint64_t calls[ACCOUNT_SOURCES];
	_Atomic uint64_t bytes[ACCOUNT_SOURCES];
	_Atomic uint64_t ns[ACCOUNT_SOURCES];
	_Atomic uint64_t worker_ns;
} AskedLane;

typedef struct AccountAsked
{
	AskedLane lane[ASKED_LANES];
} AccountAsked;

/* See account_relations.c. */
typedef struct RelationKey
{
	_Alignas(ACCOUNT_LINE / 2) _Atomic uint64_t tag;
	_Atomic uint64_t space_and_database;
	_Atomic uint64_t relation_and_fork;
} RelationKey;

/* Reads are classified by time within one class of size. */
#define ACCOUNT_SIZES 4

typedef struct AccountShared
{
	int64_t since;
	_Atomic uint32_t tablespace[ACCOUNT_TABLESPACES]; /* OIDs; 0: free */
	_Atomic uint8_t limit[ACCOUNT_SIZES];             /* see account_source.c */

	_Alignas(ACCOUNT_LINE) _Atomic uint64_t truncations;
	_Atomic uint64_t relation_epoch; /* moves when a place becomes available */

	_Alignas(ACCOUNT_LINE) _Atomic uint64_t wal_end; /* of what was written */
	_Atomic uint64_t wal_rewritten;

	/* See account_source.c. */
	_Alignas(
		ACCOUNT_LINE) _Atomic uint32_t told[ACCOUNT_SIZES][2][ACCOUNT_BUCKETS];
} AccountShared;

/* The parts of the memory; shared is NULL if there is none. */
typedef struct AccountMemory
{
	AccountShared *shared;
	_Atomic uint32_t *process; /* see account.c */
	AccountAsked *asked;       /* of each process */
	AccountBlock *blocks;
	RelationKey *keys;
	RelationPlace *relations;
	uint32_t places; /* without the place for "other" */
} AccountMemory;

extern AccountMemory account_memory;

/* Is there memory to count in, and is this process attached to it? */
static inline bool
account_is_mapped(void)
{
	return account_memory.shared != NULL && *runtime.shared_memory != NULL;
}

/* account.c */

/* Should a call on this file be counted?  If so, set up *call. */
extern bool account_admit(Accounted *call, OpenFile *file);
extern unsigned account_wal_segment_bytes(void);
/* The blocks of a backend type, one after another. */
extern const AccountBlock *account_blocks_of(unsigned type,
                                             unsigned *count_out);

/* account_asked.c */

/* A read of a data file, to be counted for a process. */
typedef struct AskedRead
{
	int process;         /* that it is for; negative: unknown */
	bool own;            /* that is this process */
	AccountAsked *place; /* else: of that process; NULL: unknown */
	bool worker;         /* another process read it */
	unsigned processor;  /* this one */
	AccountKind kind;
	uint64_t bytes;
	uint64_t ns;
} AskedRead;

extern void account_asked_in_child(void);
extern void account_asked_count(const AskedRead *read);
/* All calls, and the other counts; place: of this process, or NULL. */
extern uint64_t account_asked_calls(const AccountAsked *place);
extern void account_asked_sum(const AccountAsked *place, AccountReads *out);

/* account_relations.c */

/* The counters of an open file's relation, for this processor. */
extern RelationCounters *account_relation_of(OpenFile *file,
                                             unsigned processor);
/*
 * Call it while no process is active: frees places whose claim was not
 * finished.
 */
extern void account_relations_tidy(void);

/* account_source.c */
extern void account_source_begin(void);
extern bool account_source_is_disk(unsigned bucket, size_t size);
extern void account_source_learn(unsigned bucket, size_t size, bool disk);

/*
 * Relaxed, both: nothing depends on the order of two counters, no addition is
 * lost, and a process that reads a counter again never finds an older value.
 */
static inline void
account_add(_Atomic uint64_t *counter, uint64_t amount)
{
	atomic_fetch_add_explicit(counter, amount, memory_order_relaxed);
}

/* Relaxed: see above. */
static inline uint64_t
account_get(const _Atomic uint64_t *counter)
{
	return atomic_load_explicit(counter, memory_order_relaxed);
}

#endif
