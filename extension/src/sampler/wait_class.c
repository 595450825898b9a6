/*
 * wait_class.c
 *		Which wait class a wait event belongs to.
 *
 * The classes and the rules are declared in definitions/wait_classes.toml;
 * Python classifies by the same rules (pgflash.model.waits).
 *
 * Time of clients (client backends and their parallel workers) in any class but
 * Idle is DB time.  Waits of all other processes are System I/O, or Idle
 * where no client can depend on them.  Neither is DB time; nor is the
 * work of background processes.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "sampler/wait_class.h"

#include <stddef.h>
#include <string.h>
#include <strings.h>

#include "fcache/assert.h"

typedef enum WaitProcesses
{
	WAIT_PROCESSES_ALL,
	WAIT_PROCESSES_CLIENT,
	WAIT_PROCESSES_OTHER
} WaitProcesses;

typedef struct Rule
{
	WaitProcesses processes;
	const char *type;  /* "": there is no wait event; "*": any */
	const char *event; /* "name*": with this prefix */
	WaitClass wait_class;
} Rule;

/* The first rule that fits is used; the last ones fit everything. */
static const Rule rules[] = {
#define WAIT_RULE(...) { __VA_ARGS__ },
#include "sampler/wait_class.def"
};

static const char *const names[WAIT_CLASSES] = {
#define WAIT_CLASS(constant, name) [constant] = name,
#include "sampler/wait_class.def"
};

static const char *const clients[] = {
#define WAIT_CLIENT(backend_type) backend_type,
#include "sampler/wait_class.def"
};

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

bool
wait_class_is_foreground(const char *backend_type)
{
	for (size_t i = 0; i < COUNT_OF(clients); i++)
	{
		if (strcmp(backend_type, clients[i]) == 0)
			return true;
	}
	return false;
}

/* Case is ignored: it changed between major versions (WALWrite, WalWrite). */
static bool
fits(const char *pattern, const char *text)
{
	size_t length = strlen(pattern);

	if (length > 0 && pattern[length - 1] == '*')
		return strncasecmp(pattern, text, length - 1) == 0;
	return strcasecmp(pattern, text) == 0;
}

WaitClass
wait_class_of(bool foreground, const char *type, const char *event)
{
	WaitProcesses process =
		foreground ? WAIT_PROCESSES_CLIENT : WAIT_PROCESSES_OTHER;

	if (type == NULL || type[0] == '\0')
		type = event = "";
	FC_ASSERT(event != NULL);
	for (size_t i = 0; i < COUNT_OF(rules); i++)
	{
		const Rule *rule = &rules[i];

		if ((rule->processes == WAIT_PROCESSES_ALL ||
		     rule->processes == process) &&
		    fits(rule->type, type) && fits(rule->event, event))
			return rule->wait_class;
	}
	return WAIT_CLASS_OTHER;
}

const char *
wait_class_name(WaitClass wait_class)
{
	FC_ASSERT(wait_class < WAIT_CLASSES);
	return names[wait_class];
}
