/*
 * sampler_look.c
 *		One look at what all sessions are doing.
 *
 * pg_stat_activity copies every session's strings and searches the list of
 * processes for each, which is too slow for ten times a second.  Everything
 * needed here is in two arrays of shared memory, which are read in place:
 * PGPROC has the wait event, PgBackendStatus has state, user, database and
 * query id.
 *
 * Locking: none, except for the name of a background worker that is seen for
 * the first time, and for lock waits (sampler_locks.c).  PgBackendStatus counts
 * its changes, so a reader notices that it has read in the middle of one; it
 * then retries a few times.  The wait event is a single word, read by itself,
 * as pg_stat_activity does, so state and event may be from slightly different
 * moments.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/lwlock.h"
#include "storage/proc.h"
#include "storage/shmem.h"
#include "utils/backend_status.h"
#include "utils/memutils.h"
#include "utils/wait_event.h"

#include "sampler/sampler.h"
#include "sampler/wait_class.h"
#include "server/compat.h"

/* A session that changes at each attempt will be seen at the next look. */
#define TRIES_MAX 8

#define WAIT_CLASS_MASK 0xFF000000U

/*
 * The name of a background worker, looked up once in the life of the process.
 */
typedef struct Known
{
	int pid;
	TimestampTz start;
	uint8 type;
} Known;

StaticAssertDecl(COMPAT_BACKEND_TYPES <= SAMPLER_TYPE_NAMED,
                 "names are numbered after PostgreSQL's own types");

static PgBackendStatus *statuses;
static Known *known;

void
sampler_look_begin(void)
{
	bool found;

	Assert(known == NULL && sampler_process_count > 0);

	/*
	 * PostgreSQL has created it before forking any process; this call finds it.
	 */
	statuses = ShmemInitStruct(
		"Backend Status Array",
		mul_size(sizeof(PgBackendStatus), (Size) COMPAT_STATUS_SLOTS), &found);
	if (!found)
		elog(ERROR, "could not find the sessions in shared memory");
	known = MemoryContextAllocZero(TopMemoryContext,
	                               sizeof(Known) * sampler_process_count);
}

/* ---- types of processes -------------------------------------------------- */

static uint8
type_of_name(const char *name)
{
	uint32 names = pg_atomic_read_u32(&sampler_shared->names);

	/* One process adds names, so none is written twice. */
	Assert(pg_atomic_read_u32(&sampler_shared->pid) == (uint32) MyProcPid);
	Assert(names > SAMPLER_TYPE_WORKER - SAMPLER_TYPE_NAMED);
	for (uint32 i = 0; i < names; i++)
	{
		if (strcmp(sampler_shared->name[i], name) == 0)
			return (uint8) (SAMPLER_TYPE_NAMED + i);
	}
	if (names == SAMPLER_NAMES)
		return SAMPLER_TYPE_WORKER;

	/*
	 * Store the name before the number of names.  A reader has the number from
	 * a look in the ring, which was released later.
	 */
	snprintf(sampler_shared->name[names], BGW_MAXLEN, "%s", name);
	pg_write_barrier();
	pg_atomic_write_u32(&sampler_shared->names, names + 1);
	return (uint8) (SAMPLER_TYPE_NAMED + names);
}

bool
sampler_type_of_worker(int pid, uint8 *type)
{
	const char *name = GetBackgroundWorkerTypeByPid(pid);

	if (name != NULL)
		*type = type_of_name(name);
	return name != NULL;
}

static uint8
known_type(uint32 place, int pid, TimestampTz start)
{
	Known *entry = &known[place];

	if (entry->pid != pid || entry->start != start)
	{
		uint8 type;

		/* A process can run before the postmaster has stored its pid. */
		if (!sampler_type_of_worker(pid, &type))
			return SAMPLER_TYPE_WORKER;
		*entry = (Known){ .pid = pid, .start = start, .type = type };
	}
	return entry->type;
}

const char *
sampler_type_name(uint8 type)
{
	Assert(type < SAMPLER_TYPES);
	if (type < SAMPLER_TYPE_NAMED)
		return GetBackendTypeDesc((BackendType) type);
	return sampler_shared->name[type - SAMPLER_TYPE_NAMED];
}

bool
sampler_type_is_foreground(uint8 type)
{
	return type == B_BACKEND || type == SAMPLER_TYPE_PARALLEL;
}

/* As in pg_stat_activity; NULL where that shows none. */
const char *
sampler_state_name(uint8 state)
{
	if (state == COMPAT_STATE_STARTING)
		return "starting";
	switch (state)
	{
		case STATE_IDLE:
			return "idle";
		case STATE_RUNNING:
			return "active";
		case STATE_IDLEINTRANSACTION:
			return "idle in transaction";
		case STATE_FASTPATH:
			return "fastpath function call";
		case STATE_IDLEINTRANSACTION_ABORTED:
			return "idle in transaction (aborted)";
		case STATE_DISABLED:
			return "disabled";
		default:
			return NULL;
	}
}

/* ---- one session --------------------------------------------------------- */

/*
 * Is the session idle?  If the state is unknown (track_activities is off, or
 * the process has no client), the wait event tells: an idle process waits for
 * work.
 */
static bool
is_idle(uint8 type, uint8 state, uint32 wait_event)
{
	uint32 wait_type = wait_event & WAIT_CLASS_MASK;

	if (state == STATE_IDLE || wait_type == PG_WAIT_ACTIVITY)
		return true;
	if (sampler_type_is_foreground(type))
		return wait_event == WAIT_EVENT_CLIENT_READ &&
		       (state == STATE_UNDEFINED || state == STATE_DISABLED ||
		        state == COMPAT_STATE_STARTING);
	return wait_event == WAIT_EVENT_CLIENT_READ ||
	       wait_event == COMPAT_WAIT_EVENT_NO_WAL ||
	       (wait_type == PG_WAIT_EXTENSION && state != STATE_RUNNING);
}

/* Copy the wanted fields of a status. */
static SamplerPresence
read_status(volatile PgBackendStatus *status, SamplerSession *session,
            BackendType *type, TimestampTz *start)
{
	for (int i = 0; i < TRIES_MAX; i++)
	{
		int before;
		int after;

		pgstat_begin_read_activity(status, before);
		session->pid = status->st_procpid;
		*type = status->st_backendType;
		*start = status->st_proc_start_timestamp;
		session->state = (uint8) status->st_state;
		session->database = status->st_databaseid;
		session->user = status->st_userid;
		session->query_id = (int64) status->st_query_id;
		session->query_start = status->st_activity_start_timestamp;
		session->state_start = status->st_state_start_timestamp;
		pgstat_end_read_activity(status, after);
		if (pgstat_read_activity_complete(before, after))
			return session->pid > 0 ? SAMPLER_PRESENT : SAMPLER_ABSENT;
	}
	return SAMPLER_CHANGING;
}

SamplerPresence
sampler_session(uint32 place, SamplerSession *session)
{
	volatile PGPROC *proc = &ProcGlobal->allProcs[place];
	volatile PGPROC *leader = proc->lockGroupLeader;
	volatile PgBackendStatus *status;
	BackendType type;
	TimestampTz start;
	int pid = proc->pid;
	SamplerPresence presence;

	Assert(place < sampler_process_count && known != NULL);
	status = pid == 0
	             ? NULL
	             : compat_status_of(statuses, place, (const PGPROC *) proc);
	if (status == NULL)
		return SAMPLER_ABSENT;
	presence = read_status(status, session, &type, &start);
	if (presence != SAMPLER_PRESENT)
		return presence;
	if (session->pid != pid)
		return SAMPLER_ABSENT;

	session->wait_event = proc->wait_event_info;
	session->leader_pid = leader != NULL ? leader->pid : 0;
	if (session->leader_pid == pid)
		session->leader_pid = 0;
	if (type != B_BG_WORKER)
		session->type = (uint8) type;
	else if (session->leader_pid != 0)
		session->type = SAMPLER_TYPE_PARALLEL;
	else
		session->type = known_type(place, pid, start);
	session->idle = is_idle(session->type, session->state, session->wait_event);
	return SAMPLER_PRESENT;
}

uint32
sampler_look(SampleRecord *records, uint32 covers_us, uint32 *idle)
{
	uint32 count = 0;

	Assert(records != NULL);
	*idle = 0;
	for (uint32 i = 0; i < sampler_process_count; i++)
	{
		SamplerSession session;

		if (sampler_session(i, &session) != SAMPLER_PRESENT)
			continue;
		if (session.idle)
		{
			(*idle)++;
			continue;
		}
		if ((session.wait_event & WAIT_CLASS_MASK) == PG_WAIT_LOCK &&
		    sampler_type_is_foreground(session.type))
			sampler_locks_count(i, session.wait_event, covers_us);
		records[count++] = (SampleRecord){
			.pid = session.pid,
			.leader_pid = session.leader_pid,
			.database = session.database,
			.user = session.user,
			.wait_event = session.wait_event,
			.backend_type = session.type,
			.state = session.state,
			.query_id = session.query_id,
			.query_start = session.query_start,
		};
	}
	return count;
}
