/*
 * sampler_views.c
 *		The SQL functions behind the views of the sampler.
 *
 * They copy one look after another from the ring and turn them into rows; looks
 * overwritten meanwhile are skipped.  In the ring a wait event is a number; its
 * name and class are looked up once per query.
 *
 * A user who is not a member of pg_read_all_stats sees only the sessions of
 * roles whose privileges the user has, as in pg_stat_activity.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "catalog/pg_authid.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/lwlock.h"
#include "utils/acl.h"
#include "utils/backend_status.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

#include "broken.h"
#include "sampler/sampler.h"
#include "sampler/wait_class.h"
#include "server/columns.h"
#include "server/compat.h"
#include "server/shmem.h"

PG_FUNCTION_INFO_V1(pgflash_active_sessions_rows);
PG_FUNCTION_INFO_V1(pgflash_sample_summary);
PG_FUNCTION_INFO_V1(pgflash_sample_minutes);
PG_FUNCTION_INFO_V1(pgflash_sampler_row);
PG_FUNCTION_INFO_V1(pgflash_backend_cpu_rows);

#define COLUMNS_MAX 16

typedef struct Row
{
	int columns;
	Datum values[COLUMNS_MAX];
	bool nulls[COLUMNS_MAX];
} Row;

/* ---- rows ---------------------------------------------------------------- */

static void
add(Row *row, Datum value)
{
	Assert(row->columns < COLUMNS_MAX);
	row->values[row->columns++] = value;
}

static void
add_if(Row *row, bool known, Datum value)
{
	row->nulls[row->columns] = !known;
	add(row, value);
}

/* Add a text made earlier; 0 is null. */
static void
add_text(Row *row, Datum text)
{
	add_if(row, text != (Datum) 0, text);
}

static void
add_seconds(Row *row, uint64 us)
{
	add(row, Float8GetDatum((double) us / 1e6));
}

static void
put(ReturnSetInfo *result, Row *row)
{
	/* One value for each column of the row's type. */
	Assert(row->columns == result->setDesc->natts || FC_BROKEN(ROW_TYPE));
	tuplestore_putvalues(result->setResult, result->setDesc, row->values,
	                     row->nulls);
}

static Datum
text_or_null(const char *text)
{
	return text == NULL ? (Datum) 0 : CStringGetTextDatum(text);
}

/* ---- words --------------------------------------------------------------- */

/*
 * A wait event's names, and its class for client processes [1] and others [0].
 */
typedef struct EventWords
{
	uint32 wait_event; /* key */
	Datum type;
	Datum event;
	Datum wait_class[2];
} EventWords;

typedef struct Words
{
	HTAB *events;
	Datum types[SAMPLER_TYPES];
	Datum states[PG_UINT8_MAX + 1];
	Datum idle;
} Words;

static Words *
make_words(void)
{
	Words *words = palloc0(sizeof(Words));
	HASHCTL control = { .keysize = sizeof(uint32),
		                .entrysize = sizeof(EventWords),
		                .hcxt = CurrentMemoryContext };

	words->events = hash_create("pgflash wait events", 64, &control,
	                            HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	words->idle = CStringGetTextDatum(wait_class_name(WAIT_CLASS_IDLE));
	return words;
}

static const EventWords *
words_of_event(Words *words, uint32 wait_event)
{
	bool found;
	EventWords *entry =
		hash_search(words->events, &wait_event, HASH_ENTER, &found);

	if (!found)
	{
		const char *type = pgstat_get_wait_event_type(wait_event);
		const char *event = pgstat_get_wait_event(wait_event);

		entry->type = text_or_null(type);
		entry->event = text_or_null(event);
		for (int foreground = 0; foreground < 2; foreground++)
			entry->wait_class[foreground] = CStringGetTextDatum(
				wait_class_name(wait_class_of(foreground, type, event)));
	}
	return entry;
}

static void
add_who(Row *row, Words *words, const SampleRecord *record)
{
	Assert(record->backend_type < SAMPLER_TYPES);
	if (words->types[record->backend_type] == (Datum) 0)
		words->types[record->backend_type] =
			CStringGetTextDatum(sampler_type_name(record->backend_type));

	add(row, words->types[record->backend_type]);
	add_if(row, OidIsValid(record->database),
	       ObjectIdGetDatum(record->database));
	add_if(row, OidIsValid(record->user), ObjectIdGetDatum(record->user));
	add_if(row, record->query_id != 0, Int64GetDatum(record->query_id));
}

/*
 * Was the session between two statements of a transaction, about to wait for
 * its client?  This is not a statement's time, nor is it part of active_time.
 */
static bool
is_between_statements(const SampleRecord *record)
{
	return record->wait_event == 0 &&
	       (record->state == STATE_IDLEINTRANSACTION ||
	        record->state == STATE_IDLEINTRANSACTION_ABORTED);
}

static void
add_what(Row *row, Words *words, const SampleRecord *record)
{
	const EventWords *event = words_of_event(words, record->wait_event);
	bool foreground = sampler_type_is_foreground(record->backend_type);

	if (words->states[record->state] == (Datum) 0)
		words->states[record->state] =
			text_or_null(sampler_state_name(record->state));

	add_text(row, words->states[record->state]);
	add_text(row, event->type);
	add_text(row, event->event);
	add_text(row, is_between_statements(record)
	                  ? words->idle
	                  : event->wait_class[foreground]);
}

/* ---- looks --------------------------------------------------------------- */

/* One user's reading of the ring, over one period. */
typedef struct Reading
{
	SampleCursor cursor;
	SampleLook look;
	SampleRecord *records;
	TimestampTz since;
	TimestampTz until;
	bool all; /* sees all sessions */
	Oid last_user;
	bool last_user_seen;
} Reading;

static void
begin(Reading *reading, FunctionCallInfo fcinfo)
{
	Assert(sampler_ring != NULL && sampler_process_count > 0);
	reading->since = PG_GETARG_TIMESTAMPTZ(0);
	reading->cursor = sample_cursor_since(sampler_ring, reading->since);
	reading->records = palloc(sizeof(SampleRecord) * sampler_process_count);
	reading->until = PG_GETARG_TIMESTAMPTZ(1);
	reading->all = FC_BROKEN(SAMPLE_RIGHTS) ||
	               has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_STATS);
	reading->last_user = InvalidOid;
	reading->last_user_seen = false;
}

static bool
next(Reading *reading)
{
	while (sample_cursor_next(&reading->cursor, &reading->look,
	                          reading->records, sampler_process_count))
	{
		CHECK_FOR_INTERRUPTS();
		if (reading->look.at >= reading->since &&
		    reading->look.at < reading->until)
			return true;
	}
	return false;
}

static bool
sees(Reading *reading, const SampleRecord *record)
{
	if (reading->all)
		return true;
	if (record->user != reading->last_user)
	{
		reading->last_user = record->user;
		reading->last_user_seen = has_privs_of_role(GetUserId(), record->user);
	}
	return reading->last_user_seen;
}

static void
put_session(ReturnSetInfo *result, Words *words, const SampleLook *look,
            const SampleRecord *record)
{
	Row row = { 0 };

	add(&row, Int64GetDatum((int64) look->number));
	add(&row, TimestampTzGetDatum(look->at));
	add_seconds(&row, look->covers_us);
	add(&row, Int32GetDatum(record->pid));
	add_if(&row, record->leader_pid != 0, Int32GetDatum(record->leader_pid));
	add_who(&row, words, record);
	add_if(&row, record->query_start != 0,
	       TimestampTzGetDatum(record->query_start));
	add_what(&row, words, record);
	put(result, &row);
}

Datum
pgflash_active_sessions_rows(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result;
	Reading reading;
	Words *words;

	shmem_require_preloaded();
	result = row_type_rows(fcinfo, &active_sessions_columns);
	if (sampler_ring == NULL)
		return (Datum) 0;

	words = make_words();
	begin(&reading, fcinfo);
	while (next(&reading))
	{
		for (uint32 i = 0; i < reading.look.count; i++)
		{
			if (sees(&reading, &reading.records[i]))
				put_session(result, words, &reading.look, &reading.records[i]);
		}
	}
	return (Datum) 0;
}

/* ---- by the minute ------------------------------------------------------- */

/* What samples of one minute have in common, and their number. */
typedef struct Bucket
{
	/* The key; common is a record without its process. */
	int64 minute;
	SampleRecord common;

	int64 samples;
	uint64 covers_us;
} Bucket;

#define BUCKET_KEY_BYTES (sizeof(int64) + sizeof(SampleRecord))

static int64
minute_of(int64 at)
{
	return at - at % USECS_PER_MINUTE;
}

/*
 * Count a record.  The bucket last used for its place in the look is likely to
 * match again, which saves most searches.
 */
static void
count(HTAB *buckets, Bucket **last, const SampleLook *look,
      const SampleRecord *record)
{
	Bucket key = { .minute = minute_of(look->at), .common = *record };
	Bucket *bucket = *last;

	key.common.pid = 0;
	key.common.leader_pid = 0;
	key.common.query_start = 0;
	if (bucket == NULL || memcmp(bucket, &key, BUCKET_KEY_BYTES) != 0)
	{
		bool found;

		bucket = hash_search(buckets, &key, HASH_ENTER, &found);
		if (!found)
		{
			bucket->samples = 0;
			bucket->covers_us = 0;
		}
		*last = bucket;
	}
	bucket->samples++;
	bucket->covers_us += look->covers_us;
}

static void
put_bucket(ReturnSetInfo *result, Words *words, const Bucket *bucket)
{
	Row row = { 0 };

	add(&row, TimestampTzGetDatum(bucket->minute));
	add_who(&row, words, &bucket->common);
	add_what(&row, words, &bucket->common);
	add(&row, Int64GetDatum(bucket->samples));
	add_seconds(&row, bucket->covers_us);
	put(result, &row);
}

Datum
pgflash_sample_summary(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result;
	HASHCTL control = { .keysize = BUCKET_KEY_BYTES,
		                .entrysize = sizeof(Bucket),
		                .hcxt = CurrentMemoryContext };
	HASH_SEQ_STATUS sequence;
	Reading reading;
	HTAB *buckets;
	Bucket **last;
	Bucket *bucket;
	Words *words;

	shmem_require_preloaded();
	result = row_type_rows(fcinfo, &sample_summary_columns);
	if (sampler_ring == NULL)
		return (Datum) 0;

	buckets = hash_create("pgflash samples", 1024, &control,
	                      HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	last = palloc0(sizeof(Bucket *) * sampler_process_count);
	begin(&reading, fcinfo);
	while (next(&reading))
	{
		for (uint32 i = 0; i < reading.look.count; i++)
		{
			if (sees(&reading, &reading.records[i]))
				count(buckets, &last[i], &reading.look, &reading.records[i]);
		}
	}

	words = make_words();
	hash_seq_init(&sequence, buckets);
	while ((bucket = hash_seq_search(&sequence)) != NULL)
		put_bucket(result, words, bucket);
	return (Datum) 0;
}

typedef struct Minute
{
	int64 minute;
	int64 looks;
	uint64 covers_us;
	uint64 gap_us;
	int64 missed;
	int64 idle;
} Minute;

static void
put_minute(ReturnSetInfo *result, const Minute *minute)
{
	Row row = { 0 };

	if (minute->looks == 0)
		return;
	add(&row, TimestampTzGetDatum(minute->minute));
	add(&row, Int64GetDatum(minute->looks));
	add_seconds(&row, minute->covers_us);
	add_seconds(&row, minute->gap_us);
	add(&row, Int64GetDatum(minute->missed));
	add(&row, Float8GetDatum((double) minute->idle / (double) minute->looks));
	put(result, &row);
}

Datum
pgflash_sample_minutes(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result;
	Minute minute = { 0 };
	Reading reading;

	shmem_require_preloaded();
	result = row_type_rows(fcinfo, &sample_minutes_columns);
	if (sampler_ring == NULL)
		return (Datum) 0;

	begin(&reading, fcinfo);
	while (next(&reading))
	{
		const SampleLook *look = &reading.look;

		if (minute_of(look->at) != minute.minute)
		{
			put_minute(result, &minute);
			minute = (Minute){ .minute = minute_of(look->at) };
		}
		minute.looks++;
		minute.covers_us += look->covers_us;
		minute.gap_us += (uint64) look->gap_ms * 1000;
		minute.missed += look->missed;
		minute.idle += look->idle;
	}
	put_minute(result, &minute);
	return (Datum) 0;
}

/* ---- the sampler itself -------------------------------------------------- */

static bool
find_look(SampleCursor cursor, SampleLook *look)
{
	SampleRecord *records =
		palloc(sizeof(SampleRecord) * sampler_process_count);
	bool found =
		sample_cursor_next(&cursor, look, records, sampler_process_count);

	pfree(records);
	return found;
}

static void
add_ring(Row *row)
{
	SampleLook oldest = { 0 };
	SampleLook newest = { 0 };
	uint64 used = sample_ring_used(sampler_ring);
	bool any = find_look(sample_cursor(sampler_ring), &oldest) &&
	           find_look(sample_cursor_newest(sampler_ring), &newest);
	uint64 looks = any ? newest.number - oldest.number + 1 : 0;

	add_if(row, any, TimestampTzGetDatum(oldest.at));
	add_if(row, any, TimestampTzGetDatum(newest.at));
	add(row, Int64GetDatum((int64) looks));
	add(row, Int64GetDatum((int64) (used > looks ? used - looks : 0)));
	add(row, Int64GetDatum((int64) sample_ring_slots(sampler_ring) *
	                       SAMPLE_SLOT_BYTES));
}

static void
add_client_cpu(Row *row)
{
	SamplerShared *shared = sampler_shared;
	uint64 user_us = 0;
	uint64 system_us = 0;

	for (int i = 0; i < SAMPLER_TYPES; i++)
	{
		if (!sampler_type_is_foreground((uint8) i))
			continue;
		user_us += pg_atomic_read_u64(&shared->cpu[i].user_us);
		system_us += pg_atomic_read_u64(&shared->cpu[i].system_us);
	}
	add_if(row, shared->cpu_readable, Float8GetDatum((double) user_us / 1e6));
	add_if(row, shared->cpu_readable, Float8GetDatum((double) system_us / 1e6));
}

Datum
pgflash_sampler_row(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result;
	SamplerShared *shared = sampler_shared;
	Row row = { 0 };
	uint32 pid;

	shmem_require_preloaded();
	result = row_type_rows(fcinfo, &sampler_columns);
	if (sampler_ring == NULL)
		return (Datum) 0;

	pid = pg_atomic_read_u32(&shared->pid);
	add(&row, BoolGetDatum(pid != 0));
	add_if(&row, pid != 0, Int32GetDatum((int32) pid));
	add(&row, Int32GetDatum((int32) pg_atomic_read_u32(&shared->rate_hz)));
	add(&row, Int64GetDatum((int64) pg_atomic_read_u64(&shared->looks)));
	add(&row, Int64GetDatum((int64) pg_atomic_read_u64(&shared->missed)));
	add_seconds(&row, pg_atomic_read_u64(&shared->gap_us));
	add_ring(&row);
	add_seconds(&row, pg_atomic_read_u64(&shared->own_cpu_us));
	add_client_cpu(&row);
	put(result, &row);
	return (Datum) 0;
}

/* ---- processors ---------------------------------------------------------- */

static void
put_cpu(ReturnSetInfo *result, const char *type, SamplerCpu *cpu)
{
	uint64 user_us = pg_atomic_read_u64(&cpu->user_us);
	uint64 system_us = pg_atomic_read_u64(&cpu->system_us);
	uint32 processes = pg_atomic_read_u32(&cpu->processes);
	Row row = { 0 };

	if (user_us + system_us + processes == 0)
		return;
	add(&row, CStringGetTextDatum(type));
	add(&row, Int64GetDatum(processes));
	add_seconds(&row, user_us);
	add_seconds(&row, system_us);
	add_seconds(&row, user_us + system_us);
	put(result, &row);
}

Datum
pgflash_backend_cpu_rows(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result;
	SamplerShared *shared = sampler_shared;

	shmem_require_preloaded();
	result = row_type_rows(fcinfo, &backend_cpu_columns);
	if (sampler_ring == NULL)
		return (Datum) 0;

	for (int i = 0; i < SAMPLER_TYPES; i++)
	{
		/* A type without a name has no processes yet. */
		if (pg_atomic_read_u64(&shared->cpu[i].user_us) +
		        pg_atomic_read_u64(&shared->cpu[i].system_us) +
		        pg_atomic_read_u32(&shared->cpu[i].processes) ==
		    0)
			continue;

		/*
		 * A type that has used time has a name, which was stored before that,
		 * with a barrier.
		 */
		pg_read_barrier();
		put_cpu(result, sampler_type_name((uint8) i), &shared->cpu[i]);
	}
	put_cpu(result, "postmaster", &shared->postmaster);
	put_cpu(result, "unattributed", &shared->unattributed);
	return (Datum) 0;
}
