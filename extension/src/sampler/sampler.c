/*
 * sampler.c
 *		The background worker that samples what sessions are doing.
 *
 * PostgreSQL neither counts nor times waits, so they have to be observed.
 * pgflash.sample_rate times a second the sampler looks at all sessions
 * (sampler_look.c) and records those that are not idle in a ring in shared
 * memory (sample_ring.c).  Once a second it reads how much CPU time
 * processes use (sampler_cpu.c).  The views read the ring (sampler_views.c).
 *
 * Looks are scheduled by the clock: a late look does not delay the next, and
 * missed looks are not repeated.  Each look records the time since the previous
 * one.  If that is more than two intervals (an overloaded machine, a sampler
 * that was stopped), the look represents one interval, and the time before it
 * is a gap: nothing is known of it, which is not the same as idle.
 *
 * The worker needs no database and no cache, and runs during recovery and on a
 * standby.  The only lock that it waits for is that on the list of background
 * workers.
 *
 * Crash: an error or a signal ends the worker, and the postmaster restarts it;
 * the ring stays, and the time without a sampler is a gap.  If it is killed,
 * PostgreSQL restarts all processes with fresh memory, as always.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include <sys/resource.h>
#include <time.h>

#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/pmsignal.h"
#include "storage/proc.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

#include "sampler/sampler.h"
#include "server/background.h"
#include "settings.h"
#include "server/shmem.h"

#define SECOND_NS      UINT64CONST(1000000000)
#define MICROSECOND_NS UINT64CONST(1000)
#define MILLISECOND_NS UINT64CONST(1000000)
#define SECOND_US      1000000U

/* Waits this short use a sleep, since a latch counts in milliseconds. */
#define SLEEP_NS_MAX (10 * MILLISECOND_NS)

/* How often CPU time is read. */
#define CPU_INTERVAL_NS SECOND_NS

PGDLLEXPORT void pgflash_sampler_main(Datum argument);

SamplerShared *sampler_shared;
SampleRing *sampler_ring;
uint32 sampler_process_count;

static SampleRecord *records;

/* ---- shared memory ------------------------------------------------------- */

static size_t
shared_size_bytes(void)
{
	/* PostgreSQL's formula, since it has not created them yet. */
	sampler_process_count = (uint32) (MaxBackends + NUM_AUXILIARY_PROCS);
	return MAXALIGN(offsetof(SamplerShared, process) +
	                sampler_process_count * sizeof(SamplerProcess));
}

/* At least enough for two looks that find all processes active. */
static uint64
slot_count(void)
{
	uint64 asked = (uint64) setting_sample_memory_kb * 1024 / SAMPLE_SLOT_BYTES;

	Assert(sampler_process_count > 0);
	return Max(asked, 2 * ((uint64) sampler_process_count + 1));
}

/* Called after shared_size_bytes(), which counts the processes. */
static size_t
ring_size_bytes(void)
{
	return sample_ring_memory_size(slot_count());
}

static void
start_ring(void *memory)
{
	sampler_ring = sample_ring_create(memory, slot_count());
}

static void
create_cpu(SamplerCpu *cpu)
{
	pg_atomic_init_u64(&cpu->user_us, 0);
	pg_atomic_init_u64(&cpu->system_us, 0);
	pg_atomic_init_u32(&cpu->processes, 0);
}

static void
start_shared(void *memory)
{
	SamplerShared *shared = memory;

	Assert(sampler_process_count > 0 && !IsUnderPostmaster);
	memset(shared, 0, shared_size_bytes());
	pg_atomic_init_u32(&shared->pid, 0);
	pg_atomic_init_u32(&shared->rate_hz, 0);
	pg_atomic_init_u64(&shared->looks, 0);
	pg_atomic_init_u64(&shared->missed, 0);
	pg_atomic_init_u64(&shared->gap_us, 0);
	pg_atomic_init_u64(&shared->own_cpu_us, 0);

	/* In the order of SAMPLER_TYPE_PARALLEL and SAMPLER_TYPE_WORKER. */
	snprintf(shared->name[0], BGW_MAXLEN, "%s", "parallel worker");
	snprintf(shared->name[1], BGW_MAXLEN, "%s", "background worker");
	pg_atomic_init_u32(&shared->names, 2);

	for (int i = 0; i < SAMPLER_TYPES; i++)
		create_cpu(&shared->cpu[i]);
	create_cpu(&shared->postmaster);
	create_cpu(&shared->unattributed);
	create_cpu(&shared->exited);
	sampler_cpu_create(shared);
	sampler_shared = shared;
}

/* ---- looks --------------------------------------------------------------- */

static uint64
now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64) now.tv_sec * SECOND_NS + (uint64) now.tv_nsec;
}

/*
 * Determine the time that the look represents, and the time that no look
 * covers.
 */
static void
judge_cadence(SampleLook *look, uint64 at_ns, bool was_off)
{
	SamplerShared *shared = sampler_shared;
	uint64 elapsed_us = (at_ns - shared->last_look_ns) / MICROSECOND_NS;
	uint64 gap_us = 0;
	/* After a change of the rate, a look within either interval is on time. */
	uint64 expected_us = Max(look->interval_us, shared->last_interval_us);

	look->covers_us = look->interval_us;
	if (shared->last_look_ns == 0)
		return;

	if (elapsed_us <= (was_off ? look->interval_us : 2 * expected_us))
		look->covers_us = (uint32) elapsed_us;
	else
		gap_us = elapsed_us - look->interval_us;
	if (!was_off)
		look->missed = (uint32) Min(gap_us / look->interval_us, PG_UINT32_MAX);
	look->gap_ms = (uint32) Min(gap_us / 1000, PG_UINT32_MAX);

	Assert(look->covers_us <= 2 * expected_us);
	pg_atomic_fetch_add_u64(&shared->gap_us, gap_us);
	pg_atomic_fetch_add_u64(&shared->missed, look->missed);
}

static void
look_now(uint64 at_ns, uint32 interval_us, bool was_off)
{
	SamplerShared *shared = sampler_shared;
	SampleLook look = { .interval_us = interval_us };

	look.at = GetCurrentTimestamp();
	look.number = pg_atomic_read_u64(&shared->looks) + 1;
	judge_cadence(&look, at_ns, was_off);
	look.count = sampler_look(records, look.covers_us, &look.idle);
	Assert((uint64) look.count + look.idle <= sampler_process_count);
	sample_ring_put(sampler_ring, &look, records);

	shared->last_look_ns = at_ns;
	shared->last_interval_us = interval_us;
	pg_atomic_write_u64(&shared->looks, look.number);
}

/* ---- the worker ---------------------------------------------------------- */

static uint64
own_cpu_us(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (uint64) (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) *
	           SECOND_US +
	       (uint64) (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

static void
rest(uint64 until_ns)
{
	uint64 now = now_ns();
	uint64 left_ns = until_ns > now ? until_ns - now : 0;

	if (left_ns <= SLEEP_NS_MAX)
	{
		/* A signal ends the sleep. */
		if (left_ns > 0)
			pg_usleep((long) (left_ns / MICROSECOND_NS));
		if (!PostmasterIsAlive())
			proc_exit(1);
		return;
	}
	/*
	 * This is up to a millisecond late, which costs less than waking up twice.
	 */
	(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
	                 (long) (left_ns / MILLISECOND_NS + 1), PG_WAIT_EXTENSION);
	ResetLatch(MyLatch);
}

/* Wait while the rate is 0. */
static void
rest_while_off(void)
{
	(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_EXIT_ON_PM_DEATH, -1,
	                 PG_WAIT_EXTENSION);
	ResetLatch(MyLatch);
}

/* Look at the given rate until a signal has to be handled. */
static void
run(void)
{
	static uint64 booked_us;
	static uint64 next_cpu_ns;
	uint32 interval_us = SECOND_US / (uint32) setting_sample_rate_hz;
	uint64 interval_ns = interval_us * MICROSECOND_NS;
	bool was_off = pg_atomic_read_u32(&sampler_shared->rate_hz) == 0;
	/*
	 * Count from the last look, so that repeated reloads do not postpone the
	 * next one.
	 */
	uint64 next_ns = Max(now_ns(), sampler_shared->last_look_ns + interval_ns);

	Assert(setting_sample_rate_hz > 0);
	pg_atomic_write_u32(&sampler_shared->rate_hz,
	                    (uint32) setting_sample_rate_hz);
	while (!ShutdownRequestPending && !ConfigReloadPending)
	{
		uint64 now;

		CHECK_FOR_INTERRUPTS();
		now = now_ns();
		if (now < next_ns)
		{
			rest(next_ns);
			continue;
		}

		look_now(now, interval_us, was_off);
		was_off = false;
		next_ns += interval_ns;
		if (next_ns <= now)
			next_ns = now + interval_ns;

		if (now >= next_cpu_ns)
		{
			uint64 used_us;

			sampler_cpu_look();
			used_us = own_cpu_us();
			pg_atomic_fetch_add_u64(&sampler_shared->own_cpu_us,
			                        used_us - booked_us);
			booked_us = used_us;
			next_cpu_ns = now + CPU_INTERVAL_NS;
		}
	}
}

static void
leave(int code, Datum argument)
{
	(void) code;
	(void) argument;
	Assert(pg_atomic_read_u32(&sampler_shared->pid) == (uint32) MyProcPid);
	pg_atomic_write_u32(&sampler_shared->pid, 0);
}

void
pgflash_sampler_main(Datum argument)
{
	(void) argument;
	Assert(pg_atomic_read_u32(&sampler_shared->pid) == 0); /* the only one */
	background_begin();

	sampler_look_begin();
	records = MemoryContextAlloc(TopMemoryContext,
	                             sizeof(SampleRecord) * sampler_process_count);
	before_shmem_exit(leave, (Datum) 0);
	pg_atomic_write_u32(&sampler_shared->pid, (uint32) MyProcPid);

	while (!ShutdownRequestPending)
	{
		CHECK_FOR_INTERRUPTS();
		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
		}
		if (setting_sample_rate_hz > 0)
			run();
		else
		{
			pg_atomic_write_u32(&sampler_shared->rate_hz, 0);
			rest_while_off();
		}
	}

	/* Not 0: after a signal the sampler must be restarted. */
	proc_exit(1);
}

void
sampler_install(void)
{
	static const SharedPart shared = { .name = "pgflash sampler",
		                               .size_bytes = shared_size_bytes,
		                               .start = start_shared };
	static const SharedPart ring = { .name = "pgflash samples",
		                             .size_bytes = ring_size_bytes,
		                             .start = start_ring };

	if (setting_sample_memory_kb == 0 || !IsPostmasterEnvironment ||
	    IsBinaryUpgrade)
		return;

	shmem_add(&shared);
	shmem_add(&ring);
	sampler_locks_install();
	background_register("pgflash sampler", "pgflash_sampler_main");
}
