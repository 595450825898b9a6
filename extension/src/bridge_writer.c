/*
 * bridge_writer.c
 *		The writer's side of the bridge: core's loop, for the background worker.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "bridge.h"
#include "bridge_runtime.h"

#include "fcache/writer.h"
#include "runtime.h"

#define MS 1000000ULL

/* This process's, if it is the writer. */
static FcWriter *writer;

bool
bridge_writer_begin(void)
{
	return fc_writer_begin(&runtime.cache, &writer) == FC_OK;
}

void
bridge_writer_run(unsigned rest_ms)
{
	fc_writer_run(writer, rest_ms * MS);
}

void
bridge_writer_wake(void)
{
	if (bridge_attached())
		fc_writer_wake(&runtime.cache);
}

void
bridge_writer_end(unsigned limit_ms)
{
	/* What does not get done in time is lost to the cache, no more. */
	if (fc_writer_drain(writer, limit_ms * MS) == FC_OK)
		(void) fc_writer_end(writer, 0);
}
