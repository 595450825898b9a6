/*
 * paths_test.c
 *		What a path reveals about a file.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "hooks/paths.h"

#include <string.h>

#include "tap.h"

static const PathsRoot root = {
	.directory = "/srv/pg/data",
	.real_directory = "/mnt/disk1/data",
	.version_directory = "PG_18_202506291",
};

typedef struct Case
{
	const char *path;
	FileClass class;
} Case;

static bool
is_relation(const char *path, uint32_t tablespace, uint32_t database,
            uint32_t relation, uint32_t fork, uint32_t segment)
{
	FilePlace place = paths_classify(&root, path);

	return place.class == FILE_RELATION && place.id.tablespace == tablespace &&
	       place.id.database == database && place.id.relation == relation &&
	       place.id.fork == fork && place.id.segment == segment;
}

static void
test_relations(void)
{
	OK(is_relation("base/5/16384", 1663, 5, 16384, 0, 0), "a main fork");
	OK(is_relation("base/5/16384_fsm", 1663, 5, 16384, 1, 0),
	   "a free space map");
	OK(is_relation("base/5/16384_vm", 1663, 5, 16384, 2, 0),
	   "a visibility map");
	OK(is_relation("base/5/16384_init", 1663, 5, 16384, 3, 0), "an init fork");
	OK(is_relation("base/5/16384.17", 1663, 5, 16384, 0, 17), "a segment");
	OK(is_relation("base/5/16384_fsm.2", 1663, 5, 16384, 1, 2),
	   "a segment of a fork");
	OK(is_relation("base/4294967294/4294967295", 1663, 4294967294U, 4294967295U,
	               0, 0),
	   "the largest numbers");
	OK(is_relation("global/1262", 1664, 0, 1262, 0, 0), "a shared catalog");
	OK(is_relation("global/1262_vm", 1664, 0, 1262, 2, 0),
	   "a shared catalog's visibility map");
	OK(is_relation("pg_tblspc/16400/PG_18_202506291/5/16401.1", 16400, 5, 16401,
	               0, 1),
	   "a segment in a tablespace");
}

static void
test_spellings(void)
{
	OK(is_relation("./base/5/16384", 1663, 5, 16384, 0, 0), "a leading ./");
	OK(is_relation("base//5/./16384", 1663, 5, 16384, 0, 0),
	   "double slashes and dots inside");
	OK(is_relation("/srv/pg/data/base/5/16384", 1663, 5, 16384, 0, 0),
	   "the data directory's absolute path");
	OK(is_relation("/mnt/disk1/data/base/5/16384", 1663, 5, 16384, 0, 0),
	   "its real path");
	OK(is_relation("/srv/pg/data//global/1262", 1664, 0, 1262, 0, 0),
	   "an absolute path with a double slash");
}

static void
test_the_rest(void)
{
	static const Case cases[] = {
		{ "base/5/t3_16384", FILE_TEMP_RELATION },
		{ "base/5/t3_16384_fsm.1", FILE_TEMP_RELATION },
		{ "base/pgsql_tmp/pgsql_tmp123.0", FILE_TEMPORARY },
		{ "base/pgsql_tmp/pgsql_tmp123.0.fileset/0.0", FILE_TEMPORARY },
		{ "pg_tblspc/16400/PG_18_202506291/pgsql_tmp/pgsql_tmp1.1",
		  FILE_TEMPORARY },
		{ "pg_wal/000000010000000000000001", FILE_WAL },
		{ "pg_wal/xlogtemp.4711", FILE_WAL_INIT },
		{ "pg_wal/00000001.history", FILE_OTHER },
		{ "pg_wal/00000001000000000000000G", FILE_OTHER },
		{ "pg_wal/000000010000000000000001.partial", FILE_OTHER },
		{ "pg_wal/archive_status/000000010000000000000001.done", FILE_OTHER },
		{ "pg_wal", FILE_OTHER },
		{ "pg_xact/0000", FILE_SLRU },
		{ "pg_multixact/members/0000", FILE_SLRU },
		{ "global/pg_control", FILE_CONTROL },
		{ "base/5/pg_filenode.map", FILE_OTHER },
		{ "base/5/pg_internal.init.77", FILE_OTHER },
		{ "base/5/PG_VERSION", FILE_OTHER },
		{ "global/pg_internal.init", FILE_OTHER },
		{ "postmaster.pid", FILE_OTHER },
		{ "pg_stat/pgstat.stat", FILE_OTHER },
		{ "pg_tblspc/16400/PG_17_202406281/5/16401", FILE_OTHER },
		{ "base", FILE_DATA_DIRECTORY },
		{ "base/5", FILE_DATA_DIRECTORY },
		{ "base/5/", FILE_DATA_DIRECTORY },
		{ "global", FILE_DATA_DIRECTORY },
		{ "pg_tblspc/16400", FILE_DATA_DIRECTORY },
		{ "pg_tblspc/16400/PG_18_202506291", FILE_DATA_DIRECTORY },
		{ "/srv/pg/data", FILE_DATA_DIRECTORY },
		{ "/dev/null", FILE_DEVICE },
		{ "/dev/pts/0", FILE_DEVICE },
		{ "/proc/self/oom_score_adj", FILE_DEVICE },
		{ "/var/log/postgresql.log", FILE_OTHER },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		OK(paths_classify(&root, cases[i].path).class == cases[i].class,
		   "%s is of class %d", cases[i].path, (int) cases[i].class);
}

static void
test_regular_files_of_devices(void)
{
	OK(paths_classify_regular(&root, "/dev/shm/space/PG_18_202506291/5/16384")
	           .class
	       == paths_classify(&root, "/srv/space/PG_18_202506291/5/16384").class,
	   "a regular file below /dev is told by its name, as any other");
}

static void
test_wal_segments(void)
{
	FilePlace place = paths_classify(&root, "pg_wal/0000000A000000F20000001C");

	OK(place.class == FILE_WAL && place.id.relation == 0xf2 &&
	       place.id.segment == 0x1c,
	   "a WAL segment's number is told by its name");
}

/* Each of these names no file that PostgreSQL would read as a relation. */
static void
test_near_misses(void)
{
	static const char *const paths[] = {
		"base/5/016384",         "base/5/16384_",  "base/5/16384_x",
		"base/5/16384.",         "base/5/16384.a", "base/5/16384x",
		"base/5/16384_fsmx",     "base/5/0",       "base/5/99999999999",
		"base/x/16384",          "base/5/6/16384", "global/5/16384",
		"base/5/.16384",         "xbase/5/16384",  "base/5/-16384",
		"base/5/16384.1.2",      "base/5/16384 ",  "base/05/16384",
		"base/5/16384.16777216",
	};

	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
		OK(paths_classify(&root, paths[i]).class == FILE_OTHER,
		   "\"%s\" is no relation", paths[i]);
}

static void
test_aliases(void)
{
	static const char *const paths[] = {
		"/mnt/space/PG_18_202506291/5/16401", /* a tablespace's real path */
		"/srv/pg/data2/base/5/16384",         /* not below /srv/pg/data */
		"/elsewhere/16384_fsm",               /* a hard link, a symbolic link */
		/* tablespaces below the data directory, by their real path */
		"/mnt/disk1/data/space/PG_18_202506291/5/16401",
		"pg_tblspc/space/PG_18_202506291/5/16401",
		"pg_tblspc/16400/inner/PG_18_202506291/5/16401",
		"base/space/PG_18_202506291/5/16401_vm",
		"a/b/c/d/e/f/space/PG_18_202506291/5/16401", "base/../base/5/16384",
		"../data/base/5/16384", "/srv/pg/data/../data/base/5/16384",
		"/srv/pg/other/../data/base", /* all databases, even */
	};

	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
		OK(paths_classify(&root, paths[i]).class == FILE_ALIAS,
		   "\"%s\" may be a data file under a foreign name", paths[i]);
}

static void
test_round_trip(void)
{
	static const FcFileId ids[] = {
		{ 1663, 5, 16384, 0, 0 },
		{ 1663, 4294967295U, 1, 3, 1 },
		{ 1664, 0, 1262, 2, 32767 },
		{ 16400, 5, 16401, 1, FC_SEGMENTS_MAX - 1 },
	};

	for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++)
	{
		char path[PATHS_MAX];

		paths_of_file(&root, ids[i], path);
		OK(is_relation(path, ids[i].tablespace, ids[i].database,
		               ids[i].relation, ids[i].fork, ids[i].segment),
		   "the path %s leads back to its file", path);
	}
}

int
main(void)
{
	test_relations();
	test_spellings();
	test_the_rest();
	test_regular_files_of_devices();
	test_wal_segments();
	test_near_misses();
	test_aliases();
	test_round_trip();
	return tap_done();
}
