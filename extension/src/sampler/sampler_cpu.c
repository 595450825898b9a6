/*
 * sampler_cpu.c
 *		CPU time of the server's processes by type, from /proc.
 *
 * /proc/PID/stat has a process's time in user and system mode.  Reading it
 * costs some microseconds, so each is read at most once a second, and not at
 * all while the session is idle.  The increase since the previous reading is
 * added to the process's type.
 *
 * What a process uses between its last reading and its end cannot be read, but
 * the postmaster's own stat has the total of all children that have ended.  The
 * part of that total that was not counted before is shown as "unattributed";
 * most of it belongs to short sessions.  So the rows add up to the server's
 * whole time.
 *
 * Locking: none; only the sampler writes.  The readings are kept in shared
 * memory, so that a restarted sampler continues from them.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "miscadmin.h"
#include "storage/proc.h"

#include "sampler/sampler.h"

/* Fields of /proc/PID/stat after the name; see proc(5). */
typedef struct Stat
{
	uint64 user_us;
	uint64 system_us;
	uint64 children_user_us;
	uint64 children_system_us;
	uint64 started;
} Stat;

#define FIELD_USER            11
#define FIELD_SYSTEM          12
#define FIELD_CHILDREN_USER   13
#define FIELD_CHILDREN_SYSTEM 14
#define FIELD_STARTED         19

static uint64
ticks_us(uint64 ticks)
{
	static uint64 tick_us;

	if (tick_us == 0)
		tick_us = UINT64CONST(1000000) / (uint64) sysconf(_SC_CLK_TCK);
	return ticks * tick_us;
}

static bool
parse(const char *text, Stat *stat)
{
	/* The name is in parentheses, and may contain parentheses. */
	const char *at = strrchr(text, ')');
	uint64 fields[FIELD_STARTED + 1] = { 0 };

	if (at == NULL || at[1] != ' ')
		return false;
	at += 2;
	for (int i = 0; i <= FIELD_STARTED; i++)
	{
		fields[i] = strtoull(at, NULL, 10);
		at = strchr(at, ' ');
		if (at == NULL)
			return false;
		at++;
	}
	stat->user_us = ticks_us(fields[FIELD_USER]);
	stat->system_us = ticks_us(fields[FIELD_SYSTEM]);
	stat->children_user_us = ticks_us(fields[FIELD_CHILDREN_USER]);
	stat->children_system_us = ticks_us(fields[FIELD_CHILDREN_SYSTEM]);
	stat->started = fields[FIELD_STARTED];
	return true;
}

/* No allocation, no report: the postmaster calls this, too. */
static bool
read_stat(pid_t pid, Stat *stat)
{
	char path[32];
	char text[1024];
	ssize_t got;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int) pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	got = read(fd, text, sizeof(text) - 1);
	(void) close(fd);
	if (got <= 0)
		return false;
	text[got] = '\0';
	return parse(text, stat);
}

/*
 * Called by the postmaster, before there are other processes: notes the time
 * used earlier.
 */
void
sampler_cpu_create(SamplerShared *shared)
{
	Stat stat;

	Assert(!IsUnderPostmaster);
	shared->cpu_readable = read_stat(MyProcPid, &stat);
	if (!shared->cpu_readable)
		return;
	shared->base_postmaster[0] = stat.user_us;
	shared->base_postmaster[1] = stat.system_us;
	shared->base_children[0] = stat.children_user_us;
	shared->base_children[1] = stat.children_system_us;
}

/* ---- a look -------------------------------------------------------------- */

static void
add(SamplerCpu *cpu, uint64 user_us, uint64 system_us)
{
	pg_atomic_write_u64(&cpu->user_us,
	                    pg_atomic_read_u64(&cpu->user_us) + user_us);
	pg_atomic_write_u64(&cpu->system_us,
	                    pg_atomic_read_u64(&cpu->system_us) + system_us);
}

static void
grow(pg_atomic_uint64 *number, uint64 value)
{
	if (value > pg_atomic_read_u64(number))
		pg_atomic_write_u64(number, value);
}

static uint64
above(uint64 value, uint64 base)
{
	return value > base ? value - base : 0;
}

static void
forget(SamplerProcess *process)
{
	Assert(process->pid != 0);
	add(&sampler_shared->exited, process->user_us, process->system_us);
	process->pid = 0;
}

/*
 * Count what a process has used since the previous reading.  The kernel scales
 * ticks to the exact sum of both modes, so one of the two can shrink a little;
 * then it is not counted until it exceeds its previous value.
 */
static void
count_use(SamplerProcess *process, uint8 type, const Stat *stat)
{
	uint64 user = above(stat->user_us, process->user_us);
	uint64 system = above(stat->system_us, process->system_us);

	Assert(process->pid != 0 && type < SAMPLER_TYPES);
	process->type = type;
	process->user_us += user;
	process->system_us += system;
	add(&sampler_shared->cpu[type], user, system);
}

/*
 * Is the process of this place alive, and of which type is it?  It may have no
 * session.
 */
static SamplerPresence
find(uint32 place, pid_t pid, SamplerSession *session)
{
	SamplerPresence presence = sampler_session(place, session);

	if (presence != SAMPLER_ABSENT)
		return presence;
	session->idle = false;
	session->state_start = 0;
	return pid != 0 && sampler_type_of_worker(pid, &session->type)
	           ? SAMPLER_PRESENT
	           : SAMPLER_ABSENT;
}

static void
look_at(uint32 place, uint32 *processes)
{
	SamplerProcess *process = &sampler_shared->process[place];
	pid_t pid = ProcGlobal->allProcs[place].pid;
	SamplerSession session;
	SamplerPresence presence = find(place, pid, &session);
	Stat stat;

	if (presence == SAMPLER_CHANGING)
		return;
	if (process->pid != 0 &&
	    (presence == SAMPLER_ABSENT || process->pid != pid))
		forget(process);
	if (presence == SAMPLER_ABSENT)
		return;
	Assert(session.type < SAMPLER_TYPES);
	processes[session.type]++;
	if (process->pid == pid && session.idle &&
	    session.state_start == process->state_start)
		return;

	if (!read_stat(pid, &stat))
	{
		if (process->pid != 0 && errno == ENOENT)
			forget(process);
		return;
	}
	if (process->pid != 0 && process->started != stat.started)
		forget(process);
	if (process->pid == 0)
	{
		process->pid = pid;
		process->started = stat.started;
		process->user_us = 0;
		process->system_us = 0;
	}
	process->state_start = session.state_start;
	count_use(process, session.type, &stat);
}

/*
 * The time of children that the postmaster had waited for when the look began.
 * All of them had left the list of processes by then, so what was counted for
 * them is in "exited".
 */
static void
look_at_postmaster(const Stat *stat)
{
	SamplerShared *shared = sampler_shared;

	pg_atomic_write_u32(&shared->postmaster.processes, 1);
	grow(&shared->postmaster.user_us,
	     above(stat->user_us, shared->base_postmaster[0]));
	grow(&shared->postmaster.system_us,
	     above(stat->system_us, shared->base_postmaster[1]));
	grow(&shared->unattributed.user_us,
	     above(stat->children_user_us,
	           shared->base_children[0] +
	               pg_atomic_read_u64(&shared->exited.user_us)));
	grow(&shared->unattributed.system_us,
	     above(stat->children_system_us,
	           shared->base_children[1] +
	               pg_atomic_read_u64(&shared->exited.system_us)));
}

void
sampler_cpu_look(void)
{
	uint32 processes[SAMPLER_TYPES] = { 0 };
	Stat postmaster;

	Assert(pg_atomic_read_u32(&sampler_shared->pid) == (uint32) MyProcPid);
	if (!sampler_shared->cpu_readable || !read_stat(PostmasterPid, &postmaster))
		return;
	for (uint32 i = 0; i < sampler_process_count; i++)
		look_at(i, processes);
	for (int i = 0; i < SAMPLER_TYPES; i++)
		pg_atomic_write_u32(&sampler_shared->cpu[i].processes, processes[i]);
	look_at_postmaster(&postmaster);
}
