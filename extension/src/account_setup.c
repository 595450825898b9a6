/*
 * account_setup.c
 *		What the accounting has to know of this server.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "access/parallel.h"
#include "access/xlog.h"
#include "miscadmin.h"
#include "storage/proc.h"

#include "account.h"
#include "compat.h"
#include "settings.h"

StaticAssertDecl(sizeof(BackendType) == sizeof(int),
                 "the accounting reads a backend type as an int");
StaticAssertDecl(COMPAT_BACKEND_TYPES < 64, "backend types are bits of a word");

void
account_setup(void)
{
	AccountServer server = {
		.backend_type = (const int *) &MyBackendType,
		.parallel_number = &ParallelWorkerNumber,
		.wal_segment_bytes = &wal_segment_size,
		.backend_types = COMPAT_BACKEND_TYPES,
		.many = UINT64CONST(1) << B_BACKEND,
		.relations = (uint32) setting_account_relations,
	};

	if (COMPAT_READS_FOR_OTHERS)
	{
		server.process_number = compat_process_number;
		server.process_count = (uint32) (MaxBackends + NUM_AUXILIARY_PROCS);
		server.read_asked_by = compat_read_asked_by;
	}
	account_want(&server);
}
