/*
 * account.h
 *		Exact accounting of file calls: how the extension sets it up and reads
 *		it.
 *
 * Includes neither PostgreSQL's headers nor core's.  Hooks use account_calls.h.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef PGFLASH_ACCOUNT_H
#define PGFLASH_ACCOUNT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a call is counted under: the class of its file ... */
typedef enum AccountClass
{
	ACCOUNT_DATA,
	ACCOUNT_TEMP_RELATION,
	ACCOUNT_TEMP,
	ACCOUNT_WAL,
	ACCOUNT_WAL_INIT, /* a segment being created */
	ACCOUNT_SLRU,
	ACCOUNT_CONTROL,
	ACCOUNT_OTHER,
	ACCOUNT_CLASSES
} AccountClass;

/* ... and what it did; for reads, who served it. */
typedef enum AccountKind
{
	ACCOUNT_DISK_READ,
	ACCOUNT_PAGE_CACHE_READ,
	ACCOUNT_FLASH_READ,
	ACCOUNT_WRITE,
	ACCOUNT_EXTEND,
	ACCOUNT_SYNC,
	ACCOUNT_KINDS
} AccountKind;

/*
 * Bucket i counts times from 2^(FIRST + i) ns to twice that.  No file call is
 * faster than the first bucket; the last one takes everything slower.
 */
#define ACCOUNT_BUCKET_FIRST 5
#define ACCOUNT_BUCKETS      35

/* Tablespaces with numbers of their own; the last number is for all others. */
#define ACCOUNT_TABLESPACES 32

/* ---- start --------------------------------------------------------------- */

/* What must be known about the server; pointers are to its variables. */
typedef struct AccountServer
{
	const int *backend_type;      /* of this process, 0 .. backend_types - 1 */
	const int *parallel_number;   /* 0 or more in a parallel worker */
	const int *wal_segment_bytes; /* known once files are used */
	unsigned backend_types;       /* parallel workers come after them */
	uint64_t many;                /* bit set: a type with many processes */
	uint32_t relations;           /* with counters of their own */
	const int *process_number;    /* of this process; negative: none yet */
	const int *leader_number;     /* of a parallel worker's leader */
	uint32_t process_count;

	/* NULL unless processes read for others. */
	int (*read_asked_by)(int fd); /* the requester; negative: own */
} AccountServer;

/* Ask for accounting. */
extern void account_want(const AccountServer *server);

/* Shared memory to ask for; 0 if there is no accounting. */
extern size_t account_memory_size(void);

/*
 * account_since() returns since.  After a crash has taken the memory away,
 * counting continues where account_detach() left it, if that was told to keep
 * it.
 */
extern void account_create(void *memory, int64_t since);
extern void account_detach(bool keep);
extern void account_in_child(void);

/* ---- views --------------------------------------------------------------- */

typedef struct AccountSum
{
	uint64_t calls;
	uint64_t bytes;
	uint64_t ns;
	uint64_t told_calls;   /* whose source was asked, not inferred */
	uint64_t worker_calls; /* made by another process for this one */
	uint64_t worker_ns;
	uint64_t bucket[ACCOUNT_BUCKETS];
} AccountSum;

typedef struct AccountCount
{
	uint64_t calls;
	uint64_t bytes; /* 0 for reads: see read_bytes */
	uint64_t ns;
} AccountCount;

typedef struct AccountRelation
{
	uint32_t tablespace;
	uint32_t database;
	uint32_t relation;
	uint32_t fork;
	bool gone; /* the file was removed */
	uint64_t read_bytes;
	AccountCount kind[ACCOUNT_KINDS];
} AccountRelation;

typedef struct AccountWal
{
	AccountSum write;
	AccountSum sync;
	uint64_t rewritten_bytes;
} AccountWal;

/* If false, nothing is counted, and no other function here may be called. */
extern bool account_attached(void);
extern int64_t account_since(void);

/* Backend types are 0 .. this - 1; the last stands for parallel workers. */
extern unsigned account_backend_types(void);
extern void account_sum(unsigned backend_type, AccountClass class,
                        AccountKind kind, AccountSum *out);

/*
 * The calls on all files of a tablespace, in the form of a relation's counters;
 * false: no tablespace has this number.  OID 0: all other tablespaces.
 */
extern bool account_tablespace(unsigned number, AccountRelation *out);

/*
 * The counters of a place, 0 ..  account_relation_places() - 1; false: it is
 * empty.  The place after them counts relations that found no place.
 */
extern uint32_t account_relation_places(void);
extern bool account_relation(uint32_t place, AccountRelation *out);

/*
 * What a reader saw of a place when it last looked there; 0: it has never
 * looked.
 */
typedef struct AccountSeen
{
	uint64_t tag;
	uint64_t sum;
} AccountSeen;

/*
 * Has anything changed in a place since then?  If so, *out has the counters of
 * this place alone: a relation with two places has a part of its counts in
 * each.
 */
extern bool account_relation_changed(uint32_t place, AccountSeen *seen,
                                     AccountRelation *out);

extern void account_wal(AccountWal *out);

/* Sources of reads: the first kinds. */
#define ACCOUNT_SOURCES (ACCOUNT_FLASH_READ + 1)

/* Reads of data files. */
typedef struct AccountReads
{
	uint64_t calls[ACCOUNT_SOURCES];
	uint64_t bytes[ACCOUNT_SOURCES];
	uint64_t ns[ACCOUNT_SOURCES];
	uint64_t worker_ns; /* of all sources: see AccountSum */
} AccountReads;

/*
 * What was read for this process, by itself and by others, since a time that is
 * fixed for each process.  So the difference of two results is what was read in
 * between.  See account_asked.c.
 */
extern void account_asked(AccountReads *out);

/*
 * Has anything been read for this process since *calls was set here?  This is
 * cheaper, and must be called before account_asked(), so that what is counted
 * in between is seen next time.
 */
extern bool account_asked_since(uint64_t *calls);

/* ---- hooks --------------------------------------------------------------- */

/* What an open file's entry remembers; all 0 when it is opened. */
typedef struct AccountFile
{
	uint64_t end_bytes;   /* the file is at least this long, ... */
	uint64_t truncations; /* ... unless a file was cut off since */
	uint32_t place;       /* of its relation, + 1; 0: none */
	uint32_t life;        /* of what lies there */
	uint32_t full_epoch;  /* when no place was found, + 1 */
	uint8_t tablespace;   /* number, + 1 */
} AccountFile;

#endif
