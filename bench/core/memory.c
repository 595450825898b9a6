/*
 * memory.c
 *		The memory that a cached block costs, all included, by the cache's size.
 *
 * The size is what core requests from its host, including the advice; a test
 * with a server checks that the host maps no more for it
 * (tests/cluster/bridge/test_resize.py).
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <stdio.h>

#include "fcache/curve.h"
#include "file.h"
#include "index.h"

#define MB_SLOTS (1024U * 1024 / FC_BLOCK_SIZE)

static void
show(unsigned mb)
{
	FcConfig config = { .slot_count = mb * MB_SLOTS,
		                .process_count = 200,
		                .replacement = &fc_replacement_gittins };
	double slots = config.slot_count;
	double advice =
		(double) fc_curve_memory_size(fc_curve_tracked_for(config.slot_count));
	FcShared shared;

	if (!fc_layout(&config, &shared))
		return;

	double all = (double) shared.memory_size + advice;
	double sets = (double) (shared.memory_size - shared.sets_offset);
	double policy = (double) (shared.sets_offset - shared.replacement_offset);
	double files = (double) (shared.chunks_offset - shared.generations_offset);
	double ring = (double) (shared.processes_offset - shared.staged_offset);

	printf("%7u MB %10.1f %14.2f %7.2f %7.2f %7.2f %7.2f %7.2f %7.2f %7u %7u\n",
	       mb, all / 1048576, all / slots, sets / slots, policy / slots,
	       files / slots, ring / slots, advice / slots,
	       (all - sets - policy - files - ring - advice) / slots,
	       shared.file_count, shared.ring_count);
}

int
main(void)
{
	static const unsigned sizes_mb[] = {
		16, 32, 64, 128, 200, 256, 512, 1024, 2048, 10240, 102400, 1024000
	};

	printf("%-10s %10s %14s %7s %7s %7s %7s %7s %7s %7s %7s\n", "cache",
	       "memory, MB", "bytes a block", "sets", "policy", "files", "ring",
	       "advice", "rest", "files", "pages");
	for (unsigned i = 0; i < sizeof(sizes_mb) / sizeof(sizes_mb[0]); i++)
		show(sizes_mb[i]);
	return 0;
}
