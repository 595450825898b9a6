/*
 * hooks_strangers_test.c
 *		A change of a data file behind the cache is detected, and no other
 *		change is taken for one; where reading a file's time is expensive, it is
 *		read after a sync.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "faults.h"

#include <linux/magic.h>
#include <sys/vfs.h>

/* ---- the stage ----------------------------------------------------------- */

static bool remote; /* the files are on a server */

typedef int (*AskSystem)(int, struct statfs *);

int
fstatfs(int fd, struct statfs *system)
{
	int result = REAL("fstatfs", AskSystem)(fd, system);

	if (remote)
		system->f_type = NFS_SUPER_MAGIC;
	return result;
}

/* Wait until a change of a file gets another time than the last one. */
static void
let_clock_tick(void)
{
	struct stat before;
	struct stat now;
	int fd = open("../other/clock", O_RDWR | O_CREAT, 0600);

	if (fchmod(fd, 0600) != 0 || REAL("fstat", AskFd)(fd, &before) != 0)
		abort();
	do
	{
		if (fchmod(fd, 0600) != 0 || REAL("fstat", AskFd)(fd, &now) != 0)
			abort();
	} while (now.st_ctim.tv_sec == before.st_ctim.tv_sec &&
	         now.st_ctim.tv_nsec == before.st_ctim.tv_nsec);
	close(fd);
}

/* A program that knows nothing of us writes block 0. */
static void
stranger_writes(int letter)
{
	Page page = page_of(letter);
	int fd = open(PATH, O_RDWR);

	let_clock_tick();
	if (REAL("pwrite", WriteAt)(fd, &page, sizeof(page), 0) != FC_BLOCK_SIZE)
		abort();
	close(fd);
	let_clock_tick();
}

static bool
we_write(int fd, uint32_t block, int letter)
{
	Page page = page_of(letter);

	return changes_pwrite(fd, &page, sizeof(page),
	                      (off_t) block * FC_BLOCK_SIZE) == FC_BLOCK_SIZE;
}

static FcStampAge
age(void)
{
	FcFile file = fc_file((FcFileId){ 1663, 5, 16384, 0, 0 });
	FcStampPermit permit;

	if (!fc_file_resolve(&runtime.cache, &file))
		return FC_STAMP_NONE;
	permit = fc_stamp_permit(&runtime.cache, &file);
	return fc_stamp_age(&runtime.cache, &permit);
}

/* ---- strangers ----------------------------------------------------------- */

static void
test_met_by_a_reader(void)
{
	int fd = cached_relation(PATH);
	int other;

	stranger_writes('s');
	other = server_open(PATH, O_RDWR);
	OK(reads_true(other) && counter(FC_COUNT_foreign_changes) == 1,
	   "who opens a file that a stranger wrote meets that");
	OK(reads_true(fd), "and who had it open reads what is there, too");
	OK(reads_true(fd) && reads_true(other) &&
	       counter(FC_COUNT_foreign_changes) == 1,
	   "once");
	OK(atomic_load(&runtime.board->foreign) == 1 &&
	       runtime.board->foreign_id.relation == 16384,
	   "its name is noted for the log");
	server_close(other);
	server_close(fd);
}

static void
test_met_by_a_writer(void)
{
	int fd = cached_relation(PATH);
	uint64_t before = counter(FC_COUNT_foreign_changes);

	stranger_writes('t');
	OK(we_write(fd, 3, 'w') && reads_true(fd) &&
	       counter(FC_COUNT_foreign_changes) == before + 1,
	   "who writes to a file that a stranger wrote does not cover that up");
	OK(we_write(fd, 3, 'x') && we_write(fd, 4, 'x') && reads_true(fd) &&
	       counter(FC_COUNT_foreign_changes) == before + 1,
	   "and is not taken for one");
	server_close(fd);
}

static void
test_nobody_else(void)
{
	int fd = cached_relation(PATH);
	uint64_t before = counter(FC_COUNT_foreign_changes);
	int old;
	int same;

	for (int i = 0; i < 8; i++)
	{
		let_clock_tick();
		(void) we_write(fd, (uint32_t) i, 'a' + i);
		(void) reads_true(fd);
		let_clock_tick();
		same = server_open(PATH, O_RDWR);
		(void) reads_true(same);
		(void) changes_fsync(same);
		server_close(same);
	}
	if (changes_ftruncate(fd, 4 * FC_BLOCK_SIZE) != 0 ||
	    changes_posix_fallocate(fd, 0, 8 * FC_BLOCK_SIZE) != 0)
		abort();
	OK(reads_true(fd) && counter(FC_COUNT_foreign_changes) == before,
	   "nobody is accused who passes the hooks");

	/* Its inode changes when it loses its name. */
	old = fd;
	(void) names_unlink(PATH);
	let_clock_tick();
	plant(PATH, 8, 'n');
	fd = server_open(PATH, O_RDWR);
	OK(reads_true(fd) && we_write(old, 1, 'o') && reads_true(fd) &&
	       we_write(fd, 1, 'p') && reads_true(fd) && reads_true(old) &&
	       counter(FC_COUNT_foreign_changes) == before,
	   "nor who writes to a file that was dropped");
	server_close(fd);
	server_close(old);
}

/* ---- files on a server --------------------------------------------------- */

static void
test_remote_files(void)
{
	int fd = cached_relation(PATH);
	unsigned asked;

	OK(age() == FC_STAMP_PRESENT && we_write(fd, 1, 'r'), "a file is written");
	asked = fstat_calls;
	for (uint32_t i = 0; i < 8; i++)
		(void) we_write(fd, i, 'r');
	OK(fstat_calls == asked + 16 && age() == FC_STAMP_PRESENT,
	   "here it is asked before and after each write");
	server_close(fd);

	remote = true;
	fd = cached_relation(PATH);
	OK(age() == FC_STAMP_PRESENT && we_write(fd, 1, 's') &&
	       age() == FC_STAMP_PAST,
	   "on a server, after the first write its stamp is of the past");
	asked = fstat_calls;
	for (uint32_t i = 0; i < 8; i++)
		(void) we_write(fd, i, 't');
	OK(fstat_calls == asked, "and it is not asked again by those that follow");
	server_close(fd);
	fd = server_open(PATH, O_RDWR);
	asked = fstat_calls;
	OK(reads_true(fd) && reads_true(fd) && fstat_calls == asked,
	   "nor by readers");
	OK(changes_fsync(fd) == 0 && fstat_calls == asked + 1 &&
	       age() == FC_STAMP_PRESENT,
	   "but when it has been synced");
	server_close(fd);

	stranger_writes('u');
	fd = server_open(PATH, O_RDWR);
	OK(reads_true(fd), "a stranger is met here, too");
	server_close(fd);
	remote = false;
}

int
main(void)
{
	set_up();
	test_met_by_a_reader();
	test_met_by_a_writer();
	test_nobody_else();
	test_remote_files();
	tear_down();
	return tap_done();
}
