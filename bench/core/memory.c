/*
 * memory.c
 *		What a cached block costs in memory, all included, for caches of all sizes.
 *
 * The size is what core asks its host for; that the host maps no more for it is
 * tested in a server (tests/cluster/test_resize.py).
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <stdio.h>

#include "files.h"
#include "index.h"

#define MB_SLOTS (1024U * 1024 / FC_BLOCK_SIZE)

int
main(void)
{
	static const unsigned sizes_mb[] = { 200, 1024, 10240, 102400, 1024000 };

	printf("%-10s %12s %14s %10s %8s %8s %8s\n", "cache", "memory, MB",
	       "bytes a block", "entries", "policy", "files", "ring");
	for (unsigned i = 0; i < sizeof(sizes_mb) / sizeof(sizes_mb[0]); i++)
	{
		FcConfig config = { .slot_count = sizes_mb[i] * MB_SLOTS,
			                .process_count = 200,
			                .policy = &fc_policy_gittins };
		double slots = config.slot_count;
		FcShared shared;

		if (!fc_lay_out(&config, &shared))
			return 1;
		printf("%7u MB %12.1f %14.2f %10.2f %8.2f %8.2f %8.2f\n", sizes_mb[i],
		       (double) shared.memory_size / 1048576,
		       (double) shared.memory_size / slots,
		       (double) sizeof(FcSet) / FC_WAYS,
		       (double) config.policy->set_state_size / FC_WAYS +
		           (double) config.policy->shared_state_size / slots,
		       (double) shared.file_count *
		           (sizeof(FcFileEntry) + sizeof(FcAtomic64) +
		            sizeof(FcAtomic32)) /
		           slots,
		       (double) shared.ring_count * FC_BLOCK_SIZE / slots);
	}
	return 0;
}
