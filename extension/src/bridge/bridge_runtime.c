/*
 * bridge_runtime.c
 *		Fills in what hooks use (runtime.h).
 *
 * Hooks know nothing of PostgreSQL.  They read a few of its variables through
 * pointers, which are set here in the postmaster; children inherit them.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include <limits.h>
#include <stdlib.h>

#include "common/relpath.h"
#include "miscadmin.h"
#include "catalog/pg_control.h"
#include "replication/walsender.h"
#include "storage/pg_shmem.h"
#include "utils/wait_event.h"

#include "bridge/bridge_runtime.h"
#include "bridge/page.h"
#include "hooks/runtime.h"

Runtime runtime;

static char data_directory[MAXPGPATH];
static char real_data_directory[PATH_MAX];

void
bridge_runtime_fill(void)
{
	Assert(!IsUnderPostmaster && DataDir != NULL);
	snprintf(data_directory, sizeof(data_directory), "%s", DataDir);
	canonicalize_path(data_directory);
	if (realpath(DataDir, real_data_directory) == NULL)
		snprintf(real_data_directory, sizeof(real_data_directory), "%s",
		         data_directory);

	Assert(is_absolute_path(data_directory)); /* as the names of open files */
	runtime.root.directory = data_directory;
	runtime.root.real_directory = real_data_directory;
	runtime.root.version_directory = TABLESPACE_VERSION_DIRECTORY;
	runtime.segment_blocks = RELSEG_SIZE;
	runtime.shared_memory = &UsedShmemSegAddr;
	runtime.wait_event = &my_wait_event_info;
	runtime.is_walsender = &am_walsender;
	runtime.backend_type = (const int *) &MyBackendType;
	runtime.checkpointer_type = B_CHECKPOINTER;
	runtime.syncs = &enableFsync;
	runtime.control_crc_offset = offsetof(ControlFileData, crc);
	runtime.page_valid = page_valid;
}

bool
bridge_attached(void)
{
	return runtime.shared_memory != NULL && runtime_attached();
}
