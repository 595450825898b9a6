/*
 * wait_class.h
 *		Which wait class a wait event belongs to.
 *
 * Plain C, no PostgreSQL.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef PGFLASH_WAIT_CLASS_H
#define PGFLASH_WAIT_CLASS_H

#include <stdbool.h>

typedef enum WaitClass
{
	WAIT_CLASS_CPU,
	WAIT_CLASS_USER_IO,
	WAIT_CLASS_COMMIT,
	WAIT_CLASS_CONFIGURATION,
	WAIT_CLASS_CONCURRENCY,
	WAIT_CLASS_APPLICATION,
	WAIT_CLASS_NETWORK,
	WAIT_CLASS_OTHER,
	WAIT_CLASS_SYSTEM_IO,
	WAIT_CLASS_IDLE
} WaitClass;

#define WAIT_CLASSES (WAIT_CLASS_IDLE + 1)

/* Does a client wait whenever a process of this type waits? */
extern bool wait_class_is_foreground(const char *backend_type);

/* type NULL or empty: there is no wait event. */
extern WaitClass wait_class_of(bool foreground, const char *type,
                               const char *event);

extern const char *wait_class_name(WaitClass wait_class);

#endif
