/*
 * snapshot_host.c
 *		The machine, from /proc: what vmstat and iostat show.
 *
 * /proc/stat, /proc/vmstat, /proc/diskstats, /proc/meminfo and /proc/loadavg
 * are read as they are; in a container they may be those of the host.  Python's
 * pgflash.collect.host reads the same for a server without the extension.
 *
 * Counters are the kernel's own, since the machine started.  Only whole disks
 * are listed, because a partition's reads are also counted for its disk.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "storage/fd.h"

#include "snapshot/snapshot.h"

/* The unit of diskstats, whatever the disk's own sector size is. */
#define SECTOR_BYTES 512

/* A thousand disks need some 100 kB. */
#define FILE_BYTES_MAX (4 * 1024 * 1024)

/* Read a whole file; NULL if that fails. */
static char *
read_file(const char *path)
{
	int fd = OpenTransientFile(path, O_RDONLY);
	StringInfoData text;
	ssize_t got = 0;

	if (fd < 0)
		return NULL;
	initStringInfo(&text);
	do
	{
		text.len += (int) got;
		enlargeStringInfo(&text, 8192);
		got = read(fd, text.data + text.len, 8192);
	} while (got > 0 && text.len < FILE_BYTES_MAX);
	text.data[text.len] = '\0';
	CloseTransientFile(fd);
	return got < 0 || text.len == 0 ? NULL : text.data;
}

/*
 * The number after a word at the start of a line; -1 if the word is not there.
 */
static int64
number_of(const char *text, const char *word)
{
	Size length = strlen(word);

	for (const char *line = text; line != NULL;)
	{
		if (strncmp(line, word, length) == 0 &&
		    (line[length] == ' ' || line[length] == ':'))
			return strtoll(line + length + 1, NULL, 10);
		line = strchr(line, '\n');
		if (line != NULL)
			line++;
	}
	return -1;
}

/* Add a word and its number, multiplied by unit, as a value of the section. */
static void
add_number(StringInfo text, const char *from, const char *word, int64 unit)
{
	int64 number = number_of(from, word);

	if (number < 0)
		section_null(text);
	else
		section_integer(text, number * unit);
}

const char *
snapshot_host_cpu(const Snapshooting *now, const SnapshotSection *section,
                  StringInfo text)
{
	char *stat = read_file("/proc/stat");
	double ticks_per_s = (double) sysconf(_SC_CLK_TCK);
	char *place;

	(void) now;
	if (stat == NULL || strncmp(stat, "cpu ", 4) != 0)
		return "/proc/stat could not be read";
	place = stat + 4;
	section_begin(text, section->columns, section->column_count);
	section_row(text);
	for (int i = 0; i < section->column_count; i++)
		section_number(text, (double) strtoll(place, &place, 10) / ticks_per_s);
	section_end(text);
	return NULL;
}

const char *
snapshot_host_memory(const Snapshooting *now, const SnapshotSection *section,
                     StringInfo text)
{
	static const char *const words[] = { "pgpgin",  "pgpgout", "pswpin",
		                                 "pswpout", "pgfault", "pgmajfault" };
	char *vmstat = read_file("/proc/vmstat");
	char *stat = read_file("/proc/stat");

	(void) now;
	Assert(section->column_count == (int) lengthof(words) + 3);
	if (vmstat == NULL || stat == NULL)
		return "/proc/vmstat or /proc/stat could not be read";
	section_begin(text, section->columns, section->column_count);
	section_row(text);
	for (Size i = 0; i < lengthof(words); i++)
		add_number(text, vmstat, words[i], 1);
	add_number(text, stat, "ctxt", 1);
	add_number(text, stat, "intr", 1);
	add_number(text, stat, "processes", 1);
	section_end(text);
	return NULL;
}

static bool
is_whole_disk(const char *name)
{
	char path[MAXPGPATH];
	struct stat found;

	if (strncmp(name, "loop", 4) == 0 || strncmp(name, "ram", 3) == 0)
		return false;
	snprintf(path, sizeof(path), "/sys/block/%s", name);
	for (char *slash = path + strlen("/sys/block/"); *slash != '\0'; slash++)
	{
		if (*slash == '/') /* cciss/c0d0 is cciss!c0d0 there */
			*slash = '!';
	}
	return stat(path, &found) == 0;
}

/* Fields of /proc/diskstats after the name; kernels before 5.5 have fewer. */
enum
{
	READS,
	READS_MERGED,
	READ_SECTORS,
	READ_MS,
	WRITES,
	WRITES_MERGED,
	WRITE_SECTORS,
	WRITE_MS,
	IN_FLIGHT,
	IO_MS,
	WEIGHTED_MS,
	DISCARDS,
	DISCARDS_MERGED,
	DISCARD_SECTORS,
	DISCARD_MS,
	FLUSHES,
	FLUSH_MS,
	FIELDS
};

static void
add_disk(StringInfo text, const char *name, const char *numbers)
{
	static const int fields[] = { READS,         READS_MERGED, READ_SECTORS,
		                          READ_MS,       WRITES,       WRITES_MERGED,
		                          WRITE_SECTORS, WRITE_MS,     IO_MS,
		                          WEIGHTED_MS,   DISCARDS,     DISCARD_SECTORS,
		                          FLUSHES,       FLUSH_MS };
	int64 number[FIELDS] = { 0 };
	char *place = unconstify(char *, numbers);

	for (int i = 0; i < FIELDS && *place != '\n' && *place != '\0'; i++)
		number[i] = strtoll(place, &place, 10);

	section_row(text);
	section_text(text, name);
	for (Size i = 0; i < lengthof(fields); i++)
	{
		bool sectors = fields[i] == READ_SECTORS ||
		               fields[i] == WRITE_SECTORS ||
		               fields[i] == DISCARD_SECTORS;

		section_integer(text, number[fields[i]] * (sectors ? SECTOR_BYTES : 1));
	}
}

const char *
snapshot_host_disks(const Snapshooting *now, const SnapshotSection *section,
                    StringInfo text)
{
	char *stats = read_file("/proc/diskstats");
	char *rest;

	(void) now;
	if (stats == NULL)
		return "/proc/diskstats could not be read";
	section_begin(text, section->columns, section->column_count);
	for (char *line = strtok_r(stats, "\n", &rest); line != NULL;
	     line = strtok_r(NULL, "\n", &rest))
	{
		char name[NAMEDATALEN * 2];
		int behind = 0;

		if (sscanf(line, "%*u %*u %127s%n", name, &behind) == 1 &&
		    is_whole_disk(name))
			add_disk(text, name, line + behind);
	}
	section_end(text);
	return NULL;
}

const char *
snapshot_host_state(const Snapshooting *now, const SnapshotSection *section,
                    StringInfo text)
{
	static const char *const words[] = { "MemTotal", "MemFree", "MemAvailable",
		                                 "Buffers",  "Cached",  "SwapTotal",
		                                 "SwapFree" };
	char *stat = read_file("/proc/stat");
	char *memory = read_file("/proc/meminfo");
	char *load = read_file("/proc/loadavg");

	(void) now;
	Assert(section->column_count == 2 + 3 + (int) lengthof(words));
	if (stat == NULL || memory == NULL || load == NULL)
		return "/proc/stat, /proc/meminfo or /proc/loadavg could not be read";
	section_begin(text, section->columns, section->column_count);
	section_row(text);
	add_number(text, stat, "procs_running", 1);
	add_number(text, stat, "procs_blocked", 1);
	for (int i = 0; i < 3; i++)
		section_number(text, strtod(load, &load));
	for (Size i = 0; i < lengthof(words); i++)
		add_number(text, memory, words[i], 1024);
	section_end(text);
	return NULL;
}
