/*
 * stop.h
 *		Stopping once at a point within the library, to let another process act.
 *
 * For this, fc_test_point must be on_point.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef STOP_H
#define STOP_H

#include <stddef.h>
#include <string.h>

static const char *stop_name;
static void (*stop_act)(void);

static void
on_point(const char *name)
{
	if (stop_act == NULL || strcmp(name, stop_name) != 0)
		return;

	void (*act)(void) = stop_act;

	stop_act = NULL;
	act();
}

static void
stop_at(const char *name, void (*act)(void))
{
	stop_name = name;
	stop_act = act;
}

#endif
