/*
 * names_test.c
 *		The file of a name: emptied, unlinked or replaced, by any name, and the
 *		name's present owner.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "faults.h"

#include <limits.h>
#include <sys/resource.h>

typedef int (*OpenatHook)(int, const char *, int, ...);
typedef int (*CreatHook)(const char *, mode_t);

/* ---- by which name ------------------------------------------------------- */

static void
test_calls_that_empty_a_file(void)
{
	int fd = lettered_relation(BLOCKS);
	int folder = open("base/5", O_RDONLY | O_DIRECTORY);
	int opened = HOOK("openat", OpenatHook)(folder, "16384", O_RDWR | O_TRUNC);

	OK(opened >= 0 && nothing_is_cached(),
	   "a file is emptied by a name below another folder");
	server_close(opened);
	server_close(fd);
	close(folder);

	fd = lettered_relation(BLOCKS);
	opened = HOOK("creat", CreatHook)(PATH, 0600);
	OK(opened >= 0 && nothing_is_cached(), "a file is emptied by creat");
	server_close(opened);
	server_close(fd);
}

/* A symbolic link outside the data directory, as in hooks_test.c. */
static void
test_foreign_names(void)
{
	char link[PATH_MAX];
	struct rlimit before;
	struct rlimit none;
	Page page = page_of('W');
	int fd = lettered_relation(BLOCKS);
	int writer;

	snprintf(link, sizeof(link), "%s-link", runtime.root.directory);
	if (symlink("data/" PATH, link) != 0)
		abort();
	writer = server_open(link, O_WRONLY);
	OK(changes_pwrite(writer, &page, sizeof(page), 0) == FC_BLOCK_SIZE &&
	       all_true(fd),
	   "a symbolic link's file is asked for, also by who only writes");
	server_close(writer);
	server_close(fd);

	fd = lettered_relation(BLOCKS);
	if (getrlimit(RLIMIT_NOFILE, &before) != 0)
		abort();
	none = before;
	none.rlim_cur = 0;
	if (setrlimit(RLIMIT_NOFILE, &none) != 0)
		abort();
	OK(changes_truncate(link, 0) == 0 &&
	       setrlimit(RLIMIT_NOFILE, &before) == 0 && nothing_is_cached(),
	   "a symbolic link whose file cannot be asked for may lead to any");
	server_close(fd);
	unlink(link);
}

static void
test_alias_that_goes(void)
{
	char path[PATH_MAX];
	int fd = lettered_relation(BLOCKS);

	snprintf(path, sizeof(path), "%s/../data/" PATH, runtime.root.directory);
	OK(names_unlink(path) == 0, "a file is unlinked by another name");
	plant_letters(PATH, 'A');
	server_close(fd);
	fd = server_open(PATH, O_RDWR);
	OK(all_true(fd), "its name's next file is read again");
	server_close(fd);
}

#define IN_SPACE "pg_tblspc/16400/PG_18_202506291/5/16401"

/* The folder of a tablespace, with a file of 8 blocks. */
static void
make_space(const char *folder, int letter)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "mkdir -p ../other/%s/PG_18_202506291/5",
	         folder);
	if (system(path) != 0)
		abort();
	snprintf(path, sizeof(path), "../other/%s/PG_18_202506291/5/16401", folder);
	plant(path, BLOCKS, letter);
}

static void
test_tablespace_that_goes(void)
{
	int fd;

	make_space("first", 'a');
	make_space("second", 'b');
	if (mkdir("pg_tblspc", 0700) != 0 ||
	    symlink("../../other/first", "pg_tblspc/16400") != 0)
		abort();
	fd = cached_relation(IN_SPACE);
	server_close(fd);
	if (names_unlink("pg_tblspc/16400") != 0 ||
	    symlink("../../other/second", "pg_tblspc/16400") != 0)
		abort();
	fd = server_open(IN_SPACE, O_RDWR);
	OK(reads_true(fd), "what is in a tablespace goes with its link");
	server_close(fd);
	names_unlink("pg_tblspc/16400");
}

/* ---- who has the name now ------------------------------------------------ */

static void
others_replace_it(void)
{
	if (names_unlink(PATH) != 0)
		abort();
	plant_letters(PATH, 'A');
}

static bool
the_dictionary_knows(uint32_t relation)
{
	FcFileInfo info;

	for (uint32_t number = 1; number < fc_file_count(&runtime.cache); number++)
	{
		if (fc_file_info(&runtime.cache, number, &info) &&
		    info.id.relation == relation)
			return true;
	}
	return false;
}

static void
test_name_that_is_looked_at(void)
{
	int fd = lettered_relation(0);
	int new;

	/* The reader's file still has its name; later it has not. */
	fault = (Fault){ .name = "lstat", .fd = -1, .after = others_replace_it };
	(void) all_true(fd);
	new = server_open(PATH, O_RDWR);
	OK(fault.name == NULL && all_true(new),
	   "a file that is replaced when its name was looked at is not the next");
	server_close(new);
	server_close(fd);

	fd = lettered_relation(0);
	fault = (Fault){ .name = "lstat", .fd = -1, .other_device = true };
	OK(all_true(fd) && fault.name == NULL && nothing_is_cached(),
	   "a file of the same inode on another device is another file");
	server_close(fd);

	fd = lettered_relation(0);
	names_unlink(PATH);
	OK(all_true(fd) && !the_dictionary_knows(16384),
	   "a file without a name gets no number for good");
	server_close(fd);
}

/* Give the number to a file whose name could have it, too. */
static void
take_number(uint32_t number)
{
	FcFile other = fc_file((FcFileId){ 1663, 5, 0, 0, 0 });

	for (uint32_t relation = 100000; other.number != number; relation++)
	{
		fc_file_retire(&runtime.cache, other.id);
		other = fc_file((FcFileId){ 1663, 5, relation, 0, 0 });
		if (fc_file_enter(&runtime.cache, &other) != FC_OK)
			abort();
	}
}

/*
 * Is a dropped file's block served for the next file, whose number has another
 * generation?
 */
static bool
next_is_true(const char *path, bool *alike)
{
	Page page = page_of('w');
	FcFile before;
	int old;
	int new;
	bool right;

	plant(path, BLOCKS, 'a');
	old = server_open(path, O_RDWR);
	(void) server_read(old, &page, 0);
	before = descriptors_entry(old)->file;
	names_unlink(path);
	take_number(before.number);

	plant(path, BLOCKS, 'n');
	new = server_open(path, O_RDWR);
	right = reads_true(new) && reads_true(new);
	*alike = descriptors_entry(new)->file.number != before.number &&
	         descriptors_entry(new)->file.generation == before.generation;
	right = right &&
	        changes_pwrite(old, &page, sizeof(page), 0) == FC_BLOCK_SIZE &&
	        reads_true(new);
	server_close(old);
	server_close(new);
	names_unlink(path);
	return right;
}

static void
test_two_numbers_of_one_generation(void)
{
	bool right = true;
	bool alike = false;

	/* Until the numbers are ones that were never used before. */
	for (uint32_t relation = 30000; right && !alike; relation++)
	{
		char path[64];

		snprintf(path, sizeof(path), "base/5/%u", relation);
		right = next_is_true(path, &alike);
	}
	OK(right && alike, "a number is not another one of the same generation");
}

int
main(void)
{
	set_up();
	test_calls_that_empty_a_file();
	test_foreign_names();
	test_alias_that_goes();
	test_tablespace_that_goes();
	test_name_that_is_looked_at();
	test_two_numbers_of_one_generation();
	tear_down();
	return tap_done();
}
