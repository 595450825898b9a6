/*
 * wait_views.c
 *		Which wait events this server knows, and the class of each.
 *
 * PostgreSQL lists its wait events since 17 (pg_wait_events).  Here they are
 * queried by number, until one is unknown.  So 15 and 16 have a list as well,
 * and the list includes the class that the sampler assigns.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "fmgr.h"
#include "storage/lock.h"
#include "storage/lwlock.h"
#include "utils/builtins.h"
#include "utils/wait_event.h"

#include "bridge/bridge.h"
#include "sampler/wait_class.h"
#include "server/columns.h"
#include "server/compat.h"

PG_FUNCTION_INFO_V1(pgflash_wait_class);
PG_FUNCTION_INFO_V1(pgflash_wait_events_rows);

/* Types whose events are numbered from 0 without gaps. */
static const uint32 numbered[] = { PG_WAIT_ACTIVITY, PG_WAIT_CLIENT,
	                               PG_WAIT_IPC,      PG_WAIT_TIMEOUT,
	                               PG_WAIT_IO,       COMPAT_WAIT_BUFFER };

Datum
pgflash_wait_class(PG_FUNCTION_ARGS)
{
	char *words[3] = { NULL, NULL, NULL };

	for (int i = 0; i < 3; i++)
	{
		if (!PG_ARGISNULL(i))
			words[i] = text_to_cstring(PG_GETARG_TEXT_PP(i));
	}
	PG_RETURN_TEXT_P(cstring_to_text(wait_class_name(
		wait_class_of(words[0] == NULL || wait_class_is_foreground(words[0]),
	                  words[1], words[2] == NULL ? "" : words[2]))));
}

static void
put(ReturnSetInfo *result, const char *type, const char *event)
{
	Assert(type != NULL && event != NULL);

	const char *class = wait_class_name(wait_class_of(true, type, event));
	bool nulls[WAIT_EVENTS_COLUMNS] = { false };
	Datum values[WAIT_EVENTS_COLUMNS] = {
		[WAIT_EVENTS_ROW_WAIT_EVENT_TYPE] = CStringGetTextDatum(type),
		[WAIT_EVENTS_ROW_WAIT_EVENT] = CStringGetTextDatum(event),
		[WAIT_EVENTS_ROW_WAIT_CLASS] = CStringGetTextDatum(class),
	};

	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}

static void
put_event(ReturnSetInfo *result, uint32 wait_event)
{
	put(result, pgstat_get_wait_event_type(wait_event),
	    pgstat_get_wait_event(wait_event));
}

static void
put_locks(ReturnSetInfo *result)
{
	for (int tag = 0; tag <= LOCKTAG_LAST_TYPE; tag++)
		put_event(result, PG_WAIT_LOCK | (uint32) tag);

	/* Unused numbers have no name, or one in angle brackets. */
	for (int tranche = 0; tranche < LWTRANCHE_FIRST_USER_DEFINED; tranche++)
	{
		uint32 wait_event = PG_WAIT_LWLOCK | (uint32) tranche;
		const char *name = pgstat_get_wait_event(wait_event);

		if (name != NULL && name[0] != '<')
			put_event(result, wait_event);
	}
}

Datum
pgflash_wait_events_rows(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = row_type_rows(fcinfo, &wait_events_columns);

	put_locks(result);
	for (size_t i = 0; i < lengthof(numbered); i++)
	{
		const char *before = "unknown wait event";

		/* 15 and 16 have one event for buffers, with any number. */
		for (uint32 number = 0; number <= PG_UINT16_MAX; number++)
		{
			uint32 wait_event = numbered[i] | number;
			const char *name = pgstat_get_wait_event(wait_event);

			if (strcmp(name, "unknown wait event") == 0 ||
			    strcmp(name, before) == 0)
				break;
			put_event(result, wait_event);
			before = name;
		}
	}
	put_event(result, PG_WAIT_EXTENSION);
	put(result, COMPAT_WAIT_TYPE_OF_EXTENSIONS, BRIDGE_WAIT_EVENT);
	return (Datum) 0;
}
