/*
 * snapshot_sections.c
 *		The sections of a snapshot.
 *
 * definitions/snapshot_sections.toml declares them; most are a query whose rows
 * are kept as they are.  Each is read in a subtransaction.  A section that
 * cannot be read (a view of another version, a library that was not loaded) is
 * listed in the section "missing" with the server's own message, and the
 * snapshot continues.  It ends if the query is cancelled, or if the machine
 * forces it to, as with a full disk.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include <unistd.h>

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/resowner.h"

#include "server/compat.h"
#include "server/memory_limit.h"
#include "snapshot/snapshot.h"

static SnapshotWrite snapshot_server;

static const SnapshotSection sections[] = {
#define SNAPSHOT_SECTION(...) { __VA_ARGS__ },
#include "snapshot/snapshot_sections.def"
};

/* ---- one section --------------------------------------------------------- */

const char *
snapshot_query(const Snapshooting *now, const SnapshotSection *section,
               StringInfo text)
{
	bool is_delta = strcmp(section->kind, "delta") == 0;
	Oid types[] = { TIMESTAMPTZOID, TIMESTAMPTZOID };
	Datum period[] = { TimestampTzGetDatum(now->previous_at),
		               TimestampTzGetDatum(now->taken_at) };

	Assert(section->query != NULL && now->schema != NULL);
	if (is_delta && now->previous_id == 0)
		return "nothing before: it is counted from this snapshot on";
	snapshot_read(psprintf(section->query, now->schema),
	              is_delta ? lengthof(types) : 0, types, period);
	section_of_result(text);
	return NULL;
}

static const char *
snapshot_server(const Snapshooting *now, const SnapshotSection *section,
                StringInfo text)
{
	Oid types[] = { OIDOID, INT8OID, INT8OID, INT8OID };
	Datum values[] = { ObjectIdGetDatum(now->extension),
		               Int64GetDatum(sysconf(_SC_NPROCESSORS_ONLN)),
		               Int64GetDatum((int64) memory_limit_bytes("")),
		               Int64GetDatum(sysconf(_SC_PAGESIZE)) };

	snapshot_read(psprintf(section->query, now->schema), lengthof(types), types,
	              values);
	section_of_result(text);
	return NULL;
}

static void
insert(const Snapshooting *now, const char *name, const char *kind,
       const char *content)
{
	Oid types[] = { INT8OID, TEXTOID, TEXTOID, JSONBOID };
	Datum values[] = { Int64GetDatum(now->id), CStringGetTextDatum(name),
		               CStringGetTextDatum(kind),
		               DirectFunctionCall1(jsonb_in,
		                                   CStringGetDatum(content)) };

	SPI_execute_with_args(psprintf("insert into %spgflash_snapshot_sections "
	                               "(snapshot_id, section, kind, content) "
	                               "values ($1, $2, $3, $4)",
	                               now->schema),
	                      4, types, values, NULL, false, 0);
}

static const char *
keep(const Snapshooting *now, const void *what)
{
	const SnapshotSection *section = what;
	StringInfoData text;
	const char *reason;

	if (COMPAT_MAJOR < section->major_min)
		return psprintf("PostgreSQL has it from version %d on",
		                section->major_min);
	initStringInfo(&text);
	reason = section->write(now, section, &text);
	Assert(reason != NULL || (text.len > 0 && text.data[text.len - 1] == '}'));
	if (reason == NULL)
		insert(now, section->name, section->kind, text.data);
	return reason;
}

/* ---- all of them --------------------------------------------------------- */

/* Errors that are not the section's fault end the whole snapshot. */
static bool
ends_everything(const ErrorData *error)
{
	switch (ERRCODE_TO_CATEGORY(error->sqlerrcode))
	{
		case ERRCODE_OPERATOR_INTERVENTION:
		case ERRCODE_INSUFFICIENT_RESOURCES:
		case ERRCODE_SYSTEM_ERROR:
		case ERRCODE_TRANSACTION_ROLLBACK:
		case ERRCODE_INTERNAL_ERROR:
			return true;
		default:
			return false;
	}
}

const char *
snapshot_attempt(SnapshotPart *part, const Snapshooting *now, const void *what)
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	const char *volatile reason = NULL;

	Assert(part != NULL && IsTransactionState());
	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(context);
	PG_TRY();
	{
		reason = part(now, what);
		ReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		ErrorData *error;

		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
		MemoryContextSwitchTo(context);
		CurrentResourceOwner = owner;
		if (ends_everything(error))
			ReThrowError(error);
		reason = error->message;
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
	CurrentResourceOwner = owner;
	return reason;
}

static void
note(StringInfo missing, const char *name, const char *reason)
{
	if (reason == NULL)
		return;
	section_row(missing);
	section_text(missing, name);
	section_text(missing, reason);
}

void
snapshot_sections_write(const Snapshooting *now)
{
	static const char *const columns[] = { "section", "reason" };
	StringInfoData missing;

	initStringInfo(&missing);
	section_begin(&missing, columns, lengthof(columns));
	for (Size i = 0; i < lengthof(sections); i++)
		note(&missing, sections[i].name,
		     snapshot_attempt(keep, now, &sections[i]));
	note(&missing, "texts of statements", *now->texts_missing);
	section_end(&missing);
	insert(now, "missing", "gauge", missing.data);
}
