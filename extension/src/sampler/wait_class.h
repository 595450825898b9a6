/*
 * wait_class.h
 *		Which wait class a wait event belongs to.
 *
 * Includes no headers of PostgreSQL.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef PGFLASH_WAIT_CLASS_H
#define PGFLASH_WAIT_CLASS_H

#include <stdbool.h>

/*
 * WAIT_CLASS_CPU and so on; definitions/wait_classes.toml says what they are.
 */
typedef enum WaitClass
{
#define WAIT_CLASS(constant, name) constant,
#include "sampler/wait_class.def"
	WAIT_CLASSES
} WaitClass;

/* Does a client wait whenever a process of this type waits? */
extern bool wait_class_is_foreground(const char *backend_type);

/* type NULL or empty: there is no wait event. */
extern WaitClass wait_class_of(bool foreground, const char *type,
                               const char *event);

extern const char *wait_class_name(WaitClass wait_class);

#endif
