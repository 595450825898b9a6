/*
 * memory_limit.c
 *		How much memory this process may have.
 *
 * In a container sysconf() reports the memory of the machine, and a process
 * that takes that much is killed.  The limit is set by the process's control
 * group and by every enclosing group: memory.max in the hierarchy of version 2,
 * memory.limit_in_bytes in the one of version 1 that has the memory controller.
 * A machine may have both.
 *
 *	/proc/self/cgroup		the group, as seen from the root of a hierarchy
 *	/proc/self/mountinfo	where hierarchies are mounted, and which part of
 *							each
 *
 * A container may see only its own part of a hierarchy, as if that were the
 * root.  So a group that is not below the mounted part is taken as that part
 * itself.  In version 1, memory.stat has the combined limit of all enclosing
 * groups, visible or not.
 *
 * A file that does not exist sets no limit.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "server/memory_limit.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/*
 * Enough for a line of mountinfo, in which an overlay may list many long paths.
 */
#define LINE_MAX_BYTES 16384

/* A hierarchy: our group in it, and the names of its files. */
typedef struct Hierarchy
{
	const char *root;     /* of the kernel's files */
	const char *type;     /* of the file system */
	const char *option;   /* that its mount has; NULL: any */
	const char *limit;    /* the file with the limit */
	char group[PATH_MAX]; /* our group, from the hierarchy's root */
} Hierarchy;

static uint64_t
least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static FILE *
open_below(const char *root, const char *name)
{
	char path[2 * PATH_MAX];

	snprintf(path, sizeof(path), "%s%s", root, name);
	return fopen(path, "re");
}

/* Is the word in a comma-separated list? */
static bool
has_word(const char *list, const char *word)
{
	size_t length = strlen(word);

	for (; list != NULL; list = strchr(list, ','))
	{
		list += *list == ',';
		if (strncmp(list, word, length) == 0 &&
		    (list[length] == ',' || list[length] == '\0'))
			return true;
	}
	return false;
}

/* The number after a word, or that of the whole file if the word is "". */
static uint64_t
number_in(const char *root, const char *directory, const char *name,
          const char *word)
{
	char path[2 * PATH_MAX];
	char line[256];
	uint64_t number = UINT64_MAX;
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	file = open_below(root, path);
	while (file != NULL && fgets(line, sizeof(line), file) != NULL)
	{
		char *end;

		if (strncmp(line, word, strlen(word)) != 0)
			continue;
		number = strtoull(line + strlen(word), &end, 10);

		/* "max" means no limit. */
		if (end == line + strlen(word))
			number = UINT64_MAX;
		break;
	}
	if (file != NULL)
		fclose(file);
	return number;
}

/*
 * The lowest limit of the group in this directory and of all enclosing groups,
 * up to where they are mounted.
 */
static uint64_t
limit_from(const Hierarchy *hierarchy, char *directory, size_t mount_length)
{
	uint64_t limit = number_in(hierarchy->root, directory, "memory.stat",
	                           "hierarchical_memory_limit ");

	for (;;)
	{
		char *slash;

		limit = least(
			limit, number_in(hierarchy->root, directory, hierarchy->limit, ""));
		slash = strrchr(directory, '/');
		if (strlen(directory) <= mount_length || slash == NULL)
			return limit;
		*slash = '\0';
	}
}

/* mountinfo writes blanks and similar characters as three octal digits. */
static void
unescape(char *word)
{
	char *out = word;

	for (; *word != '\0'; word++)
	{
		char digits[4] = { 0 };

		if (word[0] == '\\' && strlen(word) > 3)
		{
			memcpy(digits, word + 1, 3);
			*out++ = (char) strtol(digits, NULL, 8);
			word += 3;
		}
		else
			*out++ = *word;
	}
	*out = '\0';
}

/* The part of the group's path below the mounted part. */
static const char *
below(const char *group, const char *part)
{
	size_t length = strcmp(part, "/") == 0 ? 0 : strlen(part);

	if (strncmp(group, part, length) != 0 ||
	    (group[length] != '/' && group[length] != '\0') ||
	    strncmp(group + length, "/..", 3) == 0 || strcmp(group, "/") == 0)
		return "";
	return group + length;
}

/*
 * The limit according to a line of mountinfo: "ID PARENT DEVICE PART PLACE ...
 * - TYPE SOURCE OPTIONS".
 */
static uint64_t
limit_of_mount(const Hierarchy *hierarchy, char *line)
{
	char directory[2 * PATH_MAX];
	char *words[5];
	char *rest = strstr(line, " - ");
	char *type;
	char *options;
	char *state = NULL;

	if (rest == NULL)
		return UINT64_MAX;
	*rest = '\0';
	type = strtok_r(rest + 3, " \n", &state);
	(void) strtok_r(NULL, " \n", &state);
	options = strtok_r(NULL, " \n", &state);
	if (type == NULL || strcmp(type, hierarchy->type) != 0 ||
	    (hierarchy->option != NULL && !has_word(options, hierarchy->option)))
		return UINT64_MAX;
	for (int i = 0; i < 5; i++)
	{
		words[i] = strtok_r(i == 0 ? line : NULL, " ", &state);
		if (words[i] == NULL)
			return UINT64_MAX;
	}
	unescape(words[3]);
	unescape(words[4]);
	snprintf(directory, sizeof(directory), "%s%s", words[4],
	         below(hierarchy->group, words[3]));
	return limit_from(hierarchy, directory, strlen(words[4]));
}

static uint64_t
limit_of(const Hierarchy *hierarchy)
{
	FILE *file = open_below(hierarchy->root, "/proc/self/mountinfo");
	char *line = malloc(LINE_MAX_BYTES);
	uint64_t limit = UINT64_MAX;

	while (file != NULL && line != NULL &&
	       fgets(line, LINE_MAX_BYTES, file) != NULL)
		limit = least(limit, limit_of_mount(hierarchy, line));
	free(line);
	if (file != NULL)
		fclose(file);
	return limit;
}

uint64_t
machine_memory_bytes(void)
{
	return (uint64_t) sysconf(_SC_PHYS_PAGES) *
	       (uint64_t) sysconf(_SC_PAGESIZE);
}

uint64_t
memory_limit_bytes(const char *root)
{
	FILE *file = open_below(root, "/proc/self/cgroup");
	char line[PATH_MAX + 256];
	uint64_t limit =
		(uint64_t) sysconf(_SC_PHYS_PAGES) * (uint64_t) sysconf(_SC_PAGESIZE);

	/* "ID:CONTROLLERS:GROUP"; a line without controllers is version 2's. */
	while (file != NULL && fgets(line, sizeof(line), file) != NULL)
	{
		Hierarchy hierarchy = { .root = root,
			                    .type = "cgroup2",
			                    .limit = "memory.max" };
		char *controllers = strchr(line, ':');
		char *group = controllers == NULL ? NULL : strchr(controllers + 1, ':');

		if (group == NULL)
			continue;
		*group++ = '\0';
		if (controllers[1] != '\0')
		{
			if (!has_word(controllers + 1, "memory"))
				continue;
			hierarchy.type = "cgroup";
			hierarchy.option = "memory";
			hierarchy.limit = "memory.limit_in_bytes";
		}
		snprintf(hierarchy.group, sizeof(hierarchy.group), "%.*s",
		         (int) strcspn(group, "\n"), group);
		limit = least(limit, limit_of(&hierarchy));
	}
	if (file != NULL)
		fclose(file);
	return limit;
}
