/*
 * config.c
 *		Read the control tool's configuration file, and check its values.  See
 *		config.h.
 */
/* SPDX-License-Identifier: PostgreSQL */
#include "config.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_MAX_BYTES 1024

#define NS_PER_S 1000000000ULL
#define PPM      1000000ULL

typedef struct Number
{
	const char *key;
	size_t offset; /* of a uint64_t in EmProfile */
} Number;

static const Number numbers[] = {
	{ "stripe_bytes", offsetof(EmProfile, stripe_bytes) },
	{ "bandwidth_bytes_s", offsetof(EmProfile, bandwidth_bytes_s) },
	{ "read_position_min_ns", offsetof(EmProfile, read_position.min_ns) },
	{ "read_position_max_ns", offsetof(EmProfile, read_position.max_ns) },
	{ "write_position_min_ns", offsetof(EmProfile, write_position.min_ns) },
	{ "write_position_max_ns", offsetof(EmProfile, write_position.max_ns) },
	{ "rotation_max_ns", offsetof(EmProfile, rotation_max_ns) },
	{ "log_sync_min_ns", offsetof(EmProfile, log_sync.min_ns) },
	{ "log_sync_max_ns", offsetof(EmProfile, log_sync.max_ns) },
	{ "cache_bytes", offsetof(EmProfile, cache_bytes) },
	{ "cache_latency_ns", offsetof(EmProfile, cache_latency_ns) },
	{ "destage_factor_ppm", offsetof(EmProfile, destage_factor_ppm) },
	{ "destage_share_ppm", offsetof(EmProfile, destage_share_ppm) },
	{ "fsync_destages_ppm", offsetof(EmProfile, fsync_destages_ppm) },
	{ "limit_bytes_s", offsetof(EmProfile, limit_bytes_s) },
	{ "limit_iops", offsetof(EmProfile, limit_iops) },
	{ "limit_burst", offsetof(EmProfile, limit_burst) },
	{ "limit_io_bytes", offsetof(EmProfile, limit_io_bytes) },
};

static char *
trim(char *text)
{
	char *end;

	while (isspace((unsigned char) *text))
		text++;
	end = text + strlen(text);
	while (end > text && isspace((unsigned char) end[-1]))
		*--end = '\0';
	return text;
}

/*
 * Names are written to JSON without escaping, and used in file names, so they
 * must be plain.
 */
static const char *
set_name(char *target, const char *value)
{
	size_t length = strlen(value);

	if (length == 0 || length >= EM_NAME_MAX)
		return "a name must have between 1 and 63 characters";
	for (const char *c = value; *c != '\0'; c++)
		if (!isalnum((unsigned char) *c) && strchr("-_.", *c) == NULL)
			return "a name may hold only letters, digits, '-', '_' and '.'";

	memcpy(target, value, length + 1);
	return NULL;
}

static const char *
set_choice(uint32_t *target, const char *value, const char *const *choices)
{
	for (uint32_t i = 0; choices[i] != NULL; i++)
	{
		if (strcmp(value, choices[i]) == 0)
		{
			*target = i;
			return NULL;
		}
	}

	return "there is no such choice";
}

static const char *
parse_number(const char *value, uint64_t *number_out)
{
	char *end;
	unsigned long long number;

	if (!isdigit((unsigned char) value[0]))
		return "a number must be a plain integer";

	errno = 0;
	number = strtoull(value, &end, 10);
	if (*end != '\0' || errno != 0 || number > INT64_MAX)
		return "a number must be a plain integer";

	*number_out = number;
	return NULL;
}

/* Store a path as the kernel reports it, without symbolic links. */
static const char *
add_path(EmState *state, uint32_t device, const char *value)
{
	char *resolved;
	EmPath *path;

	if (state->path_count == EM_PATHS_MAX)
		return "there are too many paths";
	if (value[0] != '/')
		return "a path must be absolute";

	resolved = realpath(value, NULL);
	if (resolved == NULL)
		return "the path does not exist (create the directory first)";
	if (strlen(resolved) >= EM_PATH_MAX || strcmp(resolved, "/") == 0)
	{
		free(resolved);
		return "the path is too long, or is the root directory";
	}

	for (uint32_t i = 0; i < state->path_count; i++)
	{
		if (strcmp(state->path[i].text, resolved) == 0)
		{
			free(resolved);
			return "the path already belongs to a device";
		}
	}

	path = &state->path[state->path_count++];
	path->device = device;
	path->length = (uint32_t) strlen(resolved);
	memcpy(path->text, resolved, path->length + 1);
	free(resolved);
	return NULL;
}

static const char *
set_key(EmState *state, uint32_t index, const char *key, const char *value)
{
	static const char *const kinds[] = { "disk", "flash", NULL };
	static const char *const layouts[] = { "stripe", "raid10", "raid5", NULL };
	EmProfile *profile = &state->device[index].profile;

	if (strcmp(key, "path") == 0)
		return add_path(state, index, value);
	if (strcmp(key, "profile") == 0)
		return set_name(profile->name, value);
	if (strcmp(key, "kind") == 0)
		return set_choice(&profile->kind, value, kinds);
	if (strcmp(key, "layout") == 0)
		return set_choice(&profile->layout, value, layouts);
	if (strcmp(key, "servers") == 0)
	{
		uint64_t number;
		const char *wrong = parse_number(value, &number);

		if (wrong == NULL)
			profile->server_count =
				(uint32_t) (number > UINT32_MAX ? UINT32_MAX : number);
		return wrong;
	}

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		if (strcmp(key, numbers[i].key) == 0)
			return parse_number(
				value, (uint64_t *) ((char *) profile + numbers[i].offset));

	return "there is no such key";
}

static const char *
begin_device(EmState *state, const char *name)
{
	if (state->device_count == EM_DEVICES_MAX)
		return "there are too many devices";
	for (uint32_t i = 0; i < state->device_count; i++)
		if (strcmp(state->device[i].name, name) == 0)
			return "there are two devices of this name";

	return set_name(state->device[state->device_count++].name, name);
}

static const char *
read_line(EmState *state, char *line)
{
	char *equals = strchr(line, '=');
	size_t length = strlen(line);

	if (line[0] == '[' && line[length - 1] == ']')
	{
		line[length - 1] = '\0';
		return begin_device(state, trim(line + 1));
	}
	if (equals == NULL)
		return "a line must be \"[device]\" or \"key = value\"";
	if (state->device_count == 0)
		return "a key must come after a \"[device]\" line";

	*equals = '\0';
	return set_key(state, state->device_count - 1, trim(line),
	               trim(equals + 1));
}

/*
 * Can this profile be played?  Divisors must not be zero, ranges must not be
 * reversed, and an array needs enough spindles.
 */
const char *
em_profile_check(const EmProfile *profile)
{
	uint32_t servers = profile->server_count;

	if (servers < 1 || servers > EM_SERVERS_MAX)
		return "servers must be between 1 and 64";
	if (profile->layout == EM_RAID10 && servers % 2 != 0)
		return "servers must be even with layout raid10";
	if (profile->layout == EM_RAID5 && servers < 3)
		return "servers must be at least 3 with layout raid5";
	if (profile->stripe_bytes < 4096)
		return "stripe_bytes must be at least 4096";
	if (profile->bandwidth_bytes_s < 4096)
		return "bandwidth_bytes_s must be at least 4096";
	if (profile->read_position.min_ns > profile->read_position.max_ns)
		return "read_position_max_ns must not be below its minimum";
	if (profile->write_position.min_ns > profile->write_position.max_ns)
		return "write_position_max_ns must not be below its minimum";
	if (profile->log_sync.min_ns > profile->log_sync.max_ns)
		return "log_sync_max_ns must not be below its minimum";
	if (profile->read_position.max_ns > 10 * NS_PER_S ||
	    profile->write_position.max_ns > 10 * NS_PER_S ||
	    profile->log_sync.max_ns > 10 * NS_PER_S ||
	    profile->rotation_max_ns > 10 * NS_PER_S ||
	    profile->cache_latency_ns > 10 * NS_PER_S)
		return "a time must not exceed ten seconds";
	if (profile->destage_share_ppm > 900000)
		return "destage_share_ppm must not exceed 900000";
	if (profile->destage_factor_ppm > PPM)
		return "destage_factor_ppm must not exceed 1000000";
	if (profile->fsync_destages_ppm > PPM)
		return "fsync_destages_ppm must not exceed 1000000";
	if (profile->limit_iops > NS_PER_S)
		return "limit_iops must not exceed 1000000000";

	return NULL;
}

static bool
check_devices(const char *config_path, const EmState *state)
{
	if (state->device_count == 0)
	{
		fprintf(stderr, "pgflash-emulator: \"%s\" names no device\n",
		        config_path);
		return false;
	}

	for (uint32_t i = 0; i < state->device_count; i++)
	{
		const char *wrong = em_profile_check(&state->device[i].profile);

		if (wrong != NULL)
		{
			fprintf(stderr, "pgflash-emulator: \"%s\", device \"%s\": %s\n",
			        config_path, state->device[i].name, wrong);
			return false;
		}
	}

	return true;
}

bool
em_config_read(const char *config_path, EmState *state)
{
	FILE *config = fopen(config_path, "r");
	char buffer[LINE_MAX_BYTES];
	const char *wrong = NULL;
	int number = 0;

	if (config == NULL)
	{
		fprintf(stderr, "pgflash-emulator: could not open \"%s\": %s\n",
		        config_path, strerror(errno));
		return false;
	}

	while (wrong == NULL && fgets(buffer, sizeof(buffer), config) != NULL)
	{
		char *line = trim(buffer);

		number++;
		if (line[0] != '\0' && line[0] != '#')
			wrong = read_line(state, line);
	}
	fclose(config);

	if (wrong != NULL)
	{
		fprintf(stderr, "pgflash-emulator: \"%s\", line %d: %s\n", config_path,
		        number, wrong);
		return false;
	}

	return check_devices(config_path, state);
}
