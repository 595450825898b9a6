/*
 * sampler.h
 *		What the sampler's files share.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef PGFLASH_SAMPLER_H
#define PGFLASH_SAMPLER_H

#include "port/atomics.h"
#include "postmaster/bgworker.h"
#include "utils/timestamp.h"

#include "sampler/sample_ring.h"

/*
 * A process type is a number: PostgreSQL's own, or that of a background
 * worker's name; names are numbered as they appear.
 */
#define SAMPLER_TYPE_NAMED    32
#define SAMPLER_TYPE_PARALLEL SAMPLER_TYPE_NAMED
#define SAMPLER_TYPE_WORKER   (SAMPLER_TYPE_NAMED + 1) /* of any name */
#define SAMPLER_NAMES         64
#define SAMPLER_TYPES         (SAMPLER_TYPE_NAMED + SAMPLER_NAMES)

/* CPU time, in microseconds. */
typedef struct SamplerCpu
{
	pg_atomic_uint64 user_us;
	pg_atomic_uint64 system_us;
	pg_atomic_uint32 processes;
} SamplerCpu;

/* What the process of one PGPROC had used at its last reading. */
typedef struct SamplerProcess
{
	pid_t pid; /* 0: there was none */
	uint8 type;
	uint64 started; /* ticks since boot: a pid may be reused */
	uint64 user_us;
	uint64 system_us;
	TimestampTz state_start;
} SamplerProcess;

/*
 * All shared state except the ring; only the sampler writes it, any process may
 * read it.
 */
typedef struct SamplerShared
{
	pg_atomic_uint32 pid; /* 0: it is not running */
	pg_atomic_uint32 rate_hz;
	pg_atomic_uint64 looks;
	pg_atomic_uint64 missed;
	pg_atomic_uint64 gap_us;
	pg_atomic_uint64 own_cpu_us;
	uint64 last_look_ns; /* monotonic; 0: there was none */
	uint32 last_interval_us;

	pg_atomic_uint32 names; /* in use */
	char name[SAMPLER_NAMES][BGW_MAXLEN];

	bool cpu_readable;
	SamplerCpu cpu[SAMPLER_TYPES];
	SamplerCpu postmaster;
	SamplerCpu unattributed;   /* of processes that ended unseen */
	SamplerCpu exited;         /* as far as they were seen */
	uint64 base_postmaster[2]; /* before this memory was created */
	uint64 base_children[2];
	SamplerProcess process[]; /* one for each PGPROC */
} SamplerShared;

extern SamplerShared *sampler_shared; /* NULL: there is no sampler */
extern SampleRing *sampler_ring;
extern uint32 sampler_process_count;

/* ---- sampler.c ----------------------------------------------------------- */

extern void sampler_install(void);

/* ---- sampler_look.c ------------------------------------------------------ */

typedef enum SamplerPresence
{
	SAMPLER_ABSENT,
	SAMPLER_CHANGING, /* too fast to be read */
	SAMPLER_PRESENT
} SamplerPresence;

typedef struct SamplerSession
{
	int pid;
	uint8 type;
	uint8 state;
	bool idle;
	uint32 wait_event;
	int leader_pid;
	Oid database;
	Oid user;
	int64 query_id;
	TimestampTz query_start;
	TimestampTz state_start;
} SamplerSession;

/* Called once, by the sampler. */
extern void sampler_look_begin(void);

/*
 * Record the active sessions, at most sampler_process_count; returns how many.
 * The look represents covers_us of time.
 */
extern uint32 sampler_look(SampleRecord *records, uint32 covers_us,
                           uint32 *idle);

/* Read the session at one place in the list of processes. */
extern SamplerPresence sampler_session(uint32 place, SamplerSession *session);

/* The type of a background worker without a session; false: it is none. */
extern bool sampler_type_of_worker(int pid, uint8 *type);

extern const char *sampler_type_name(uint8 type);
extern bool sampler_type_is_foreground(uint8 type);

/* The state as in pg_stat_activity; NULL where that shows none. */
extern const char *sampler_state_name(uint8 state);

/* ---- sampler_locks.c ----------------------------------------------------- */

/* Request its memory. */
extern void sampler_locks_install(void);

/*
 * Count a look at a session that waits for a lock; place is its place in the
 * list of processes.
 */
extern void sampler_locks_count(uint32 place, uint32 wait_event,
                                uint32 covers_us);

/* ---- sampler_cpu.c ------------------------------------------------------- */

/* Called by the postmaster, before there are other processes. */
extern void sampler_cpu_create(SamplerShared *shared);

/* Called once a second. */
extern void sampler_cpu_look(void);

#endif
