/*
 * wait_class.c
 *		Which wait class a wait event belongs to.
 *
 * PostgreSQL names some 250 wait events of nine types, by what a process waits
 * for.  The classes say what that means to a client: a wait for the log to
 * reach the disk belongs to a commit, whether it appears as a read, a lock or a
 * message.  They are Oracle's, so that a profile can be compared with those of
 * other databases.
 *
 * Time of clients (client backends and their parallel workers) in any class but
 * Idle is database time.  Waits of all other processes are System I/O, or Idle
 * where no client can be waiting for them.  Neither is database time, nor is a
 * background process's work.
 *
 * Names changed case between major versions (WALWrite, WalWrite), so case is
 * ignored.  The report classifies by the same table in Python
 * (pgflash.model.waits); a test compares the two for every event that a server
 * knows.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "sampler/wait_class.h"

#include <stddef.h>
#include <string.h>
#include <strings.h>

typedef struct Rule
{
	const char *type;  /* NULL: any */
	const char *event; /* NULL: all of the type; "name*": with this prefix */
	WaitClass wait_class;
} Rule;

/* The first match counts. */
static const Rule rules[] = {
	/* Since 17 an event of type Extension; before, a lightweight lock. */
	{ NULL, "FlashCacheRead", WAIT_CLASS_USER_IO },

	{ "IO", "WalSync", WAIT_CLASS_COMMIT },
	{ "IO", "WalWrite", WAIT_CLASS_COMMIT },
	{ "LWLock", "WALWrite", WAIT_CLASS_COMMIT },
	{ "IPC", "SyncRep", WAIT_CLASS_COMMIT },

	{ "LWLock", "WALBufMapping", WAIT_CLASS_CONFIGURATION },
	{ "Timeout", "RegisterSyncRequest", WAIT_CLASS_CONFIGURATION },
	/*
	 * A process that must clean a buffer before it can read has too few of
	 * them.
	 */
	{ "IO", "DataFileWrite", WAIT_CLASS_CONFIGURATION },
	{ "IO", "WalInit*", WAIT_CLASS_CONFIGURATION },
	{ "IPC", "Checkpoint*", WAIT_CLASS_CONFIGURATION },

	{ "IO", "DataFile*", WAIT_CLASS_USER_IO },
	{ "IO", "BufFile*", WAIT_CLASS_USER_IO },
	{ "IO", "AioIo*", WAIT_CLASS_USER_IO },
	{ "IO", "Slru*", WAIT_CLASS_USER_IO },
	{ "IPC", "BufferIo", WAIT_CLASS_USER_IO },

	{ "LWLock", NULL, WAIT_CLASS_CONCURRENCY },
	{ "BufferPin", NULL, WAIT_CLASS_CONCURRENCY },
	{ "Buffer", NULL, WAIT_CLASS_CONCURRENCY },
	{ "Lock", "extend", WAIT_CLASS_CONCURRENCY },
	{ "Lock", "page", WAIT_CLASS_CONCURRENCY },
	{ "Timeout", "SpinDelay", WAIT_CLASS_CONCURRENCY },

	{ "Lock", NULL, WAIT_CLASS_APPLICATION },
	{ "Timeout", "PgSleep", WAIT_CLASS_APPLICATION },

	{ "Client", NULL, WAIT_CLASS_NETWORK },

	/* Throttling: a vacuum's delay, a base backup's rate. */
	{ "Timeout", NULL, WAIT_CLASS_IDLE },
};

#define RULES (sizeof(rules) / sizeof(rules[0]))

static const char *const names[WAIT_CLASSES] = {
	[WAIT_CLASS_CPU] = "CPU",
	[WAIT_CLASS_USER_IO] = "User I/O",
	[WAIT_CLASS_COMMIT] = "Commit",
	[WAIT_CLASS_CONFIGURATION] = "Configuration",
	[WAIT_CLASS_CONCURRENCY] = "Concurrency",
	[WAIT_CLASS_APPLICATION] = "Application",
	[WAIT_CLASS_NETWORK] = "Network",
	[WAIT_CLASS_OTHER] = "Other",
	[WAIT_CLASS_SYSTEM_IO] = "System I/O",
	[WAIT_CLASS_IDLE] = "Idle",
};

bool
wait_class_is_foreground(const char *backend_type)
{
	return strcmp(backend_type, "client backend") == 0 ||
	       strcmp(backend_type, "parallel worker") == 0;
}

static bool
is(const char *text, const char *other)
{
	return strcasecmp(text, other) == 0;
}

static bool
fits(const Rule *rule, const char *type, const char *event)
{
	size_t length;

	if (rule->type != NULL && !is(rule->type, type))
		return false;
	if (rule->event == NULL)
		return true;

	length = strlen(rule->event);
	if (rule->event[length - 1] == '*')
		return strncasecmp(rule->event, event, length - 1) == 0;
	return is(rule->event, event);
}

WaitClass
wait_class_of(bool foreground, const char *type, const char *event)
{
	bool waits = type != NULL && type[0] != '\0';

	if (waits && (is(type, "Activity") ||
	              (is(type, "Client") && is(event, "ClientRead"))))
		return WAIT_CLASS_IDLE;
	if (!foreground)
		return !waits || is(type, "Timeout") ? WAIT_CLASS_IDLE
		                                     : WAIT_CLASS_SYSTEM_IO;
	if (!waits)
		return WAIT_CLASS_CPU;

	for (size_t i = 0; i < RULES; i++)
	{
		if (fits(&rules[i], type, event))
			return rules[i].wait_class;
	}
	return WAIT_CLASS_OTHER;
}

const char *
wait_class_name(WaitClass wait_class)
{
	return names[wait_class];
}
