/*
 * state.c
 *		Open the state file and look up paths in it.  See state.h.
 */
/* SPDX-License-Identifier: PostgreSQL */
#include "state.h"

#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

uint64_t
em_clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t) now.tv_sec * 1000000000ULL + (uint64_t) now.tv_nsec;
}

static EmState *
check(EmState *state, const char **reason_out)
{
	*reason_out = NULL;
	if (state->magic != EM_STATE_MAGIC)
		*reason_out = "it is not an emulator state file";
	else if (state->version != EM_STATE_VERSION ||
	         state->size != sizeof(EmState))
		*reason_out = "it was made by another version of the emulator";
	else if (state->device_count > EM_DEVICES_MAX ||
	         state->path_count > EM_PATHS_MAX)
		*reason_out = "it is damaged";

	if (*reason_out == NULL)
		return state;

	munmap(state, sizeof(EmState));
	return NULL;
}

EmState *
em_state_open(const char *path, const char **reason_out)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);
	struct stat status;
	void *mapping;

	if (fd < 0)
	{
		*reason_out = "it cannot be opened for reading and writing";
		return NULL;
	}

	if (fstat(fd, &status) != 0 || status.st_size != (off_t) sizeof(EmState))
	{
		close(fd);
		*reason_out = "it does not have the size of a state file";
		return NULL;
	}

	mapping =
		mmap(NULL, sizeof(EmState), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (mapping == MAP_FAILED)
	{
		*reason_out = "it cannot be mapped";
		return NULL;
	}

	return check(mapping, reason_out);
}

EmDevice *
em_state_device_of(EmState *state, const char *path)
{
	const EmPath *longest = NULL;

	for (uint32_t i = 0; i < state->path_count; i++)
	{
		const EmPath *entry = &state->path[i];
		char after;

		if (longest != NULL && entry->length <= longest->length)
			continue;
		if (strncmp(path, entry->text, entry->length) != 0)
			continue;

		/* "/a/b" is a prefix of "/a/b/c" but not of "/a/bc". */
		after = path[entry->length];
		if (after == '/' || after == '\0')
			longest = entry;
	}

	return longest == NULL ? NULL : &state->device[longest->device];
}
