/*
 * control.c
 *		pgflash-emulator: create the state file, switch the delays, show the
 *		devices' statistics.
 *
 *	pgflash-emulator create STATE CONFIG [--owner UID] [--off]
 *	pgflash-emulator on|off STATE
 *	pgflash-emulator reset STATE
 *	pgflash-emulator stall STATE DEVICE MS
 *	pgflash-emulator slow STATE DEVICE PPM
 *	pgflash-emulator stats STATE
 *	pgflash-emulator destroy STATE
 *
 * Exit status: 0 done, 1 failed (with a message), 2 wrong arguments.
 */
/* SPDX-License-Identifier: PostgreSQL */
#include "config.h"
#include "state.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define NS_PER_MS 1000000ULL

static const char usage[] =
	"usage: pgflash-emulator create STATE CONFIG [--owner UID] [--off]\n"
	"       pgflash-emulator on|off|reset|stats|destroy STATE\n"
	"       pgflash-emulator stall STATE DEVICE MS\n"
	"       pgflash-emulator slow STATE DEVICE PPM\n";

static int
bad_arguments(void)
{
	fputs(usage, stderr);
	return 2;
}

static int
fail(const char *doing, const char *path)
{
	fprintf(stderr, "pgflash-emulator: could not %s \"%s\": %s\n", doing, path,
	        strerror(errno));
	return 1;
}

static EmState *
open_state(const char *path)
{
	const char *reason;
	EmState *state = em_state_open(path, &reason);

	if (state == NULL)
		fprintf(stderr, "pgflash-emulator: could not use \"%s\": %s\n", path,
		        reason);
	return state;
}

static int
write_all(int fd, const char *bytes, size_t size)
{
	while (size > 0)
	{
		ssize_t written = write(fd, bytes, size);

		if (written < 0 && errno == EINTR)
			continue;
		if (written <= 0)
			return -1;
		bytes += written;
		size -= (size_t) written;
	}

	return 0;
}

/*
 * Write the state under another name and rename it, so that no process maps an
 * incomplete one, and a server that still uses an older state keeps it.
 */
static int
store_state(const char *path, const EmState *state, long owner)
{
	char draft[4096];
	int fd;
	bool stored;

	if (snprintf(draft, sizeof(draft), "%s.draft", path) >= (int) sizeof(draft))
	{
		errno = ENAMETOOLONG;
		return fail("create", path);
	}

	fd = open(draft, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
	if (fd < 0)
		return fail("create", draft);

	stored = write_all(fd, (const char *) state, sizeof(EmState)) == 0 &&
	         (owner < 0 || fchown(fd, (uid_t) owner, (gid_t) -1) == 0);
	if (close(fd) != 0 || !stored || rename(draft, path) != 0)
	{
		fail("write", draft);
		unlink(draft);
		return 1;
	}

	return 0;
}

static int
create(int count, char **arguments)
{
	EmState *state = aligned_alloc(64, sizeof(EmState));
	long owner = -1;
	int result;

	if (state == NULL)
		return fail("allocate memory for", arguments[0]);
	memset(state, 0, sizeof(EmState));
	state->magic = EM_STATE_MAGIC;
	state->version = EM_STATE_VERSION;
	state->size = sizeof(EmState);
	state->delays_on = 1;
	state->reset_at_ns = em_clock_ns();

	for (int i = 2; i < count; i++)
	{
		char *end = NULL;

		if (strcmp(arguments[i], "--off") == 0)
			state->delays_on = 0;
		else if (strcmp(arguments[i], "--owner") == 0 && i + 1 < count)
			owner = strtol(arguments[++i], &end, 10);
		else
			end = arguments[i];

		if (end != NULL && (*end != '\0' || owner < 0))
		{
			free(state);
			return bad_arguments();
		}
	}

	result = em_config_read(arguments[1], state)
	             ? store_state(arguments[0], state, owner)
	             : 1;
	free(state);
	return result;
}

static int
turn(const char *path, bool on)
{
	EmState *state = open_state(path);

	if (state == NULL)
		return 1;

	/* Requests queued when the delays were last on have finished long ago. */
	if (on && atomic_load(&state->delays_on) == 0)
		for (uint32_t i = 0; i < state->device_count; i++)
			em_device_forget_queues(&state->device[i]);
	atomic_store(&state->delays_on, on ? 1 : 0);
	return 0;
}

static int
reset(const char *path)
{
	EmState *state = open_state(path);

	if (state == NULL)
		return 1;

	for (uint32_t i = 0; i < state->device_count; i++)
		em_device_forget_tallies(&state->device[i]);
	atomic_store(&state->reset_at_ns, em_clock_ns());
	return 0;
}

/*
 * "stall": the device finishes nothing for MS ms; 0 ends a stall.
 * "slow": from now on everything takes PPM millionths of the profile's time.
 */
static int
misbehave(char **arguments, bool stalls)
{
	const uint64_t most =
		stalls ? EM_QUEUE_MAX_NS / NS_PER_MS : EM_SLOWNESS_MAX;
	EmDevice *device = NULL;
	EmState *state;
	char *end;
	unsigned long long number = strtoull(arguments[2], &end, 10);

	if (arguments[2][0] < '0' || arguments[2][0] > '9' || *end != '\0' ||
	    number > most || (!stalls && number == 0))
		return bad_arguments();
	state = open_state(arguments[0]);
	if (state == NULL)
		return 1;

	for (uint32_t i = 0; i < state->device_count; i++)
		if (strcmp(state->device[i].name, arguments[1]) == 0)
			device = &state->device[i];
	if (device == NULL)
	{
		fprintf(stderr, "pgflash-emulator: there is no device \"%s\"\n",
		        arguments[1]);
		return 1;
	}

	if (stalls)
		em_device_stall(device, em_clock_ns() + number * NS_PER_MS);
	else
		em_device_slow(device, number);
	return 0;
}

static void
print_tally(const char *name, EmTally *tally)
{
	printf("\"%s\":{\"count\":%" PRIu64 ",\"bytes\":%" PRIu64
	       ",\"service_ns\":%" PRIu64 ",\"wait_ns\":%" PRIu64
	       ",\"latency_ns\":%" PRIu64 ",\"histogram_log2_us\":[",
	       name, atomic_load(&tally->count), atomic_load(&tally->bytes),
	       atomic_load(&tally->service_ns), atomic_load(&tally->wait_ns),
	       atomic_load(&tally->latency_ns));
	for (int b = 0; b < EM_HISTOGRAM_BUCKETS; b++)
		printf("%s%" PRIu64, b > 0 ? "," : "",
		       atomic_load(&tally->histogram[b]));
	printf("]}");
}

static void
print_device(EmDevice *device, uint64_t elapsed_ns, uint64_t now_ns)
{
	static const char *const operations[EM_OPERATION_COUNT] = {
		"read", "write", "log_write", "log_sync", "data_sync", "metadata"
	};
	uint64_t dirty_bytes = em_device_dirty_bytes(device, now_ns);
	uint64_t stalled_until_ns = em_device_stalled_until(device, now_ns);
	uint64_t slowness_ppm = atomic_load(&device->slowness_ppm);

	printf("{\"name\":\"%s\",\"profile\":\"%s\",\"kind\":\"%s\","
	       "\"servers\":%" PRIu32 ",\"used_ns\":%" PRIu64
	       ",\"pipe_used_ns\":%" PRIu64 ",\"admitted_used_ns\":%" PRIu64
	       ",\"utilisation\":%.6f,\"dirty_bytes\":%" PRIu64
	       ",\"stalled_ns\":%" PRIu64 ",\"slowness_ppm\":%" PRIu64
	       ",\"operations\":{",
	       device->name, device->profile.name,
	       device->profile.kind == EM_DISK ? "disk" : "flash",
	       device->profile.server_count, em_device_used_ns(device),
	       atomic_load(&device->pipe_used_ns),
	       atomic_load(&device->admitted_used_ns),
	       em_device_utilisation(device, elapsed_ns), dirty_bytes,
	       stalled_until_ns > now_ns ? stalled_until_ns - now_ns : 0,
	       slowness_ppm > 0 ? slowness_ppm : EM_SLOWNESS_NONE);
	for (int operation = 0; operation < EM_OPERATION_COUNT; operation++)
	{
		if (operation > 0)
			printf(",");
		print_tally(operations[operation], &device->tally[operation]);
	}
	printf("}}");
}

static int
stats(const char *path)
{
	EmState *state = open_state(path);
	uint64_t now_ns = em_clock_ns();
	uint64_t elapsed_ns;

	if (state == NULL)
		return 1;

	elapsed_ns = now_ns - atomic_load(&state->reset_at_ns);
	printf("{\"emulated\":true,\"delays_on\":%s,\"elapsed_ns\":%" PRIu64
	       ",\"devices\":[",
	       atomic_load(&state->delays_on) ? "true" : "false", elapsed_ns);
	for (uint32_t i = 0; i < state->device_count; i++)
	{
		if (i > 0)
			printf(",");
		print_device(&state->device[i], elapsed_ns, now_ns);
	}
	printf("]}\n");

	if (fflush(stdout) != 0)
		return fail("write", "standard output");
	return 0;
}

/* Check the file first, so that a typing error does not delete another one. */
static int
destroy(const char *path)
{
	if (open_state(path) == NULL)
		return 1;

	return unlink(path) == 0 ? 0 : fail("remove", path);
}

int
main(int count, char **arguments)
{
	const char *verb = count > 1 ? arguments[1] : "";

	if (count >= 4 && strcmp(verb, "create") == 0)
		return create(count - 2, arguments + 2);

	if (count == 3)
	{
		if (strcmp(verb, "on") == 0 || strcmp(verb, "off") == 0)
			return turn(arguments[2], strcmp(verb, "on") == 0);
		if (strcmp(verb, "reset") == 0)
			return reset(arguments[2]);
		if (strcmp(verb, "stats") == 0)
			return stats(arguments[2]);
		if (strcmp(verb, "destroy") == 0)
			return destroy(arguments[2]);
	}

	if (count == 5 && (strcmp(verb, "stall") == 0 || strcmp(verb, "slow") == 0))
		return misbehave(arguments + 2, strcmp(verb, "stall") == 0);

	return bad_arguments();
}
