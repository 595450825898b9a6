/*
 * benefit.c
 *		How much read time the flash cache saved: the view
 *		pgflash_cache_benefit.
 *
 * The accounting knows how many reads each source served, and how long they
 * took, since the server started.  For the last hour and the last day, the
 * housekeeper notes these counters every five minutes in a ring in shared
 * memory, which holds the notes of a day.
 *
 * A read that an I/O worker or io_uring made for a session counts with all of
 * its time, although the session waited for a part of it: which part is only
 * sampled.
 *
 * How long a read from flash would have taken without the cache is modelled: as
 * long as the average read from disk.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "fmgr.h"
#include "miscadmin.h"
#include "storage/spin.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "account/account.h"
#include "bridge/bridge_runtime.h"
#include "bridge/bridge_views.h"
#include "server/benefit.h"
#include "server/columns.h"
#include "server/compat.h"
#include "server/shmem.h"

PG_FUNCTION_INFO_V1(pgflash_cache_benefit_rows);

/* The interval of notes, and how many of them make an hour and a day. */
#define NOTE_US       (5 * USECS_PER_MINUTE)
#define NOTES_OF_HOUR 12
#define NOTES_OF_DAY  288
#define NS_OF_MS      1000000.0

/* Fewer disk reads do not give a useful mean. */
#define DISK_READS_MIN 100

/*
 * If a smaller share of the reads comes from flash and disk, there is next to
 * nothing to save.
 */
#define LITTLE 0.01

/* Flash that is less than so many times as fast as the disk brings no gain. */
#define FASTER_MIN 1.1

/* Reads of relations by clients since the server started. */
typedef struct Reads
{
	AccountCount flash;
	AccountCount disk;
	AccountCount page_cache;
} Reads;

typedef struct Note
{
	int64 number; /* of its five minutes since the epoch of timestamps */
	TimestampTz at;
	Reads reads;
} Note;

/* A note's place follows from its number. */
typedef struct Shared
{
	slock_t mutex;
	int64 last_number; /* only the housekeeper uses it */
	Note note[NOTES_OF_DAY + 1];
} Shared;

static Shared *shared;

/* ---- shared memory ------------------------------------------------------- */

static size_t
size_bytes(void)
{
	return sizeof(Shared);
}

static void
start(void *memory)
{
	shared = memory;
	memset(shared, 0, sizeof(Shared));
	SpinLockInit(&shared->mutex);
}

void
benefit_install(void)
{
	static const SharedPart part = { .name = "pgflash benefit",
		                             .size_bytes = size_bytes,
		                             .start = start };

	shmem_add(&part);
}

/* ---- notes --------------------------------------------------------------- */

static void
add_reads(AccountCount *count, unsigned type, AccountKind kind)
{
	AccountSum sum;

	account_sum(type, ACCOUNT_DATA, kind, &sum);
	count->calls += sum.calls;
	count->ns += sum.ns;
}

/* Of client backends and their parallel workers, whose number is the last. */
static bool
is_foreground(unsigned type)
{
	return type == B_BACKEND || type == account_backend_types() - 1;
}

static void
read_counters(Reads *reads)
{
	memset(reads, 0, sizeof(*reads));
	for (unsigned type = 0; type < account_backend_types(); type++)
	{
		if (!is_foreground(type))
			continue;
		add_reads(&reads->flash, type, ACCOUNT_FLASH_READ);
		add_reads(&reads->disk, type, ACCOUNT_DISK_READ);
		add_reads(&reads->page_cache, type, ACCOUNT_PAGE_CACHE_READ);
	}
}

static int64
number_of(TimestampTz at)
{
	return at / NOTE_US;
}

static Note *
place_of(int64 number)
{
	int64 place = number % (NOTES_OF_DAY + 1);

	/* A clock that was never set is before the epoch of timestamps. */
	if (place < 0)
		place += NOTES_OF_DAY + 1;
	Assert(place >= 0 && place <= NOTES_OF_DAY);
	return &shared->note[place];
}

void
benefit_note(void)
{
	Note note = { .at = GetCurrentTimestamp() };

	note.number = number_of(note.at);
	if (shared == NULL || !account_attached() ||
	    note.number == shared->last_number)
		return;

	read_counters(&note.reads);
	SpinLockAcquire(&shared->mutex);
	*place_of(note.number) = note;
	SpinLockRelease(&shared->mutex);
	shared->last_number = note.number;
}

static bool
find_note(int64 number, Note *note)
{
	SpinLockAcquire(&shared->mutex);
	*note = *place_of(number);
	SpinLockRelease(&shared->mutex);
	return note->number == number;
}

/* The oldest of the last notes; false: there is none. */
static bool
find_oldest(int64 notes, Note *note)
{
	int64 now = number_of(GetCurrentTimestamp());

	for (int64 number = now - notes; number <= now; number++)
	{
		if (find_note(number, note))
			return true;
	}
	return false;
}

/* ---- the view ------------------------------------------------------------ */

typedef struct Benefit
{
	Reads reads;
	double disk_mean_ms; /* negative: not known */
	double saved_ms;
	double saved_share;
} Benefit;

static AccountCount
count_since(AccountCount now, AccountCount then)
{
	/* A note can be newer: it may be taken after the counters were read. */
	return (AccountCount){ .calls = now.calls > then.calls
		                                ? now.calls - then.calls
		                                : 0,
		                   .ns = now.ns > then.ns ? now.ns - then.ns : 0 };
}

static double
ms(AccountCount count)
{
	return (double) count.ns / NS_OF_MS;
}

static double
mean_ms(AccountCount count)
{
	return count.calls == 0 ? 0 : ms(count) / (double) count.calls;
}

static void
judge(Benefit *benefit, const Reads *all)
{
	const Reads *reads = &benefit->reads;
	double took_ms = ms(reads->flash) + ms(reads->disk) + ms(reads->page_cache);

	benefit->disk_mean_ms = -1;
	if (reads->disk.calls >= DISK_READS_MIN)
		benefit->disk_mean_ms = mean_ms(reads->disk);
	else if (all->disk.calls >= DISK_READS_MIN)
		benefit->disk_mean_ms = mean_ms(all->disk);
	if (benefit->disk_mean_ms < 0)
		return;

	benefit->saved_ms =
		(double) reads->flash.calls * benefit->disk_mean_ms - ms(reads->flash);
	if (benefit->saved_ms + took_ms > 0)
		benefit->saved_share =
			benefit->saved_ms / (benefit->saved_ms + took_ms);
}

/*
 * The finding if flash has served reads, and the time of a disk read is known.
 */
static const char *
finding_of_times(const Benefit *benefit)
{
	double flash_mean_ms = mean_ms(benefit->reads.flash);

	if (benefit->disk_mean_ms < FASTER_MIN * flash_mean_ms)
		return psprintf("Flash is no faster than the disk here: %.3f ms a read "
		                "from flash, %.3f ms from disk.",
		                flash_mean_ms, benefit->disk_mean_ms);
	return psprintf("Reads took %.0f %% less time than they would have without "
	                "the cache: %.3f ms a read from flash, %.3f ms from disk.",
	                100 * benefit->saved_share, flash_mean_ms,
	                benefit->disk_mean_ms);
}

static const char *
finding_of(const Benefit *benefit)
{
	const Reads *reads = &benefit->reads;
	uint64 asked = reads->flash.calls + reads->disk.calls;
	uint64 all = asked + reads->page_cache.calls;
	const char *reason;
	const char *mode = bridge_mode(&reason);

	if (all == 0)
		return "No block was read: shared_buffers had all of them.";
	if ((double) asked < LITTLE * (double) all)
		return psprintf("The page cache served %.1f %% of the reads: there was "
		                "next to nothing for flash to save.",
		                100 * (double) reads->page_cache.calls / (double) all);
	if (reads->flash.calls == 0 && strcmp(mode, "serve") != 0)
		return psprintf("The cache served nothing; it is in mode %s: %s.", mode,
		                reason);
	if (reads->flash.calls == 0)
		return "Flash had none of the blocks that were read: the cache fills "
			   "with blocks that are read again.";
	if (benefit->disk_mean_ms < 0)
		return "Too few reads came from disk to tell what flash saved.";
	return finding_of_times(benefit);
}

static void
put(ReturnSetInfo *result, const char *period, TimestampTz since,
    const Benefit *benefit)
{
	const Reads *reads = &benefit->reads;
	bool known = benefit->disk_mean_ms >= 0;
	bool nulls[CACHE_BENEFIT_COLUMNS] = { false };
	Datum values[CACHE_BENEFIT_COLUMNS];

	values[CACHE_BENEFIT_ROW_PERIOD] = CStringGetTextDatum(period);
	values[CACHE_BENEFIT_ROW_SINCE] = TimestampTzGetDatum(since);
	values[CACHE_BENEFIT_ROW_FLASH_READS] =
		Int64GetDatum((int64) reads->flash.calls);
	values[CACHE_BENEFIT_ROW_FLASH_READ_MS] = Float8GetDatum(ms(reads->flash));
	values[CACHE_BENEFIT_ROW_DISK_READS] =
		Int64GetDatum((int64) reads->disk.calls);
	values[CACHE_BENEFIT_ROW_DISK_READ_MS] = Float8GetDatum(ms(reads->disk));
	values[CACHE_BENEFIT_ROW_PAGE_CACHE_READS] =
		Int64GetDatum((int64) reads->page_cache.calls);
	values[CACHE_BENEFIT_ROW_PAGE_CACHE_READ_MS] =
		Float8GetDatum(ms(reads->page_cache));
	nulls[CACHE_BENEFIT_ROW_SAVED_MS] = !known;
	values[CACHE_BENEFIT_ROW_SAVED_MS] = Float8GetDatum(benefit->saved_ms);
	nulls[CACHE_BENEFIT_ROW_SAVED_SHARE] = !known;
	values[CACHE_BENEFIT_ROW_SAVED_SHARE] =
		Float8GetDatum(benefit->saved_share);
	values[CACHE_BENEFIT_ROW_FINDING] =
		CStringGetTextDatum(finding_of(benefit));
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}

/* The row of a period, which begins with the oldest note in it. */
static void
put_period(ReturnSetInfo *result, const char *period, int64 notes,
           const Reads *all)
{
	Benefit benefit = { 0 };
	Note note;

	if (!find_oldest(notes, &note))
		return;
	benefit.reads.flash = count_since(all->flash, note.reads.flash);
	benefit.reads.disk = count_since(all->disk, note.reads.disk);
	benefit.reads.page_cache =
		count_since(all->page_cache, note.reads.page_cache);
	judge(&benefit, all);
	put(result, period, note.at, &benefit);
}

Datum
pgflash_cache_benefit_rows(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result;
	Benefit benefit = { 0 };

	shmem_require_preloaded();
	result = row_type_rows(fcinfo, &cache_benefit_columns);
	if (shared == NULL || !account_attached() || bridge_slot_count() == 0)
		return (Datum) 0;

	read_counters(&benefit.reads);
	put_period(result, "hour", NOTES_OF_HOUR, &benefit.reads);
	put_period(result, "day", NOTES_OF_DAY, &benefit.reads);
	judge(&benefit, &benefit.reads);
	put(result, "start", account_since(), &benefit);
	return (Datum) 0;
}
