/*
 * hooks_test.c
 *		The hooks, without a server: their effect on a cache when files are read
 *		and changed.
 *
 * Most tests have one form: cache block 0, let something change the file, and
 * ask for the block again.  The result must be the file's content.  The
 * negative controls are this program built with FC_BREAK: the test of the
 * omitted safeguard must fail (negative_controls.sh).
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "stage.h"

#include <limits.h>

/* ---- reads --------------------------------------------------------------- */

static void
test_reads(void)
{
	int fd = cached_relation(PATH);
	uint64_t hits = counter(FC_COUNT_hits);
	Page page;

	plant(PATH, 1, 'z');
	errno = 4711;
	OK(server_read(fd, &page, 0) == FC_BLOCK_SIZE && page_is(&page, 'a') &&
	       counter(FC_COUNT_hits) == hits + 1,
	   "a cached block comes from the cache, the file being changed unseen");
	OK(errno == 4711, "a hit leaves errno alone");
	OK(wait_shown == 0, "and the shown wait as it was");

	page_cache_is_full = true;
	OK(server_read(fd, &page, 0) == FC_BLOCK_SIZE && page_is(&page, 'z') &&
	       counter(FC_COUNT_page_cache_reads) == 1,
	   "what the page cache holds is left to it");
	page_cache_is_full = false;

	is_walsender = true;
	OK(server_read(fd, &page, 0) == FC_BLOCK_SIZE && page_is(&page, 'z'),
	   "a walsender reads the file");
	is_walsender = false;

	OK(reads_pread(fd, &page, 100, 0) == 100 && page.bytes[0] == 'z',
	   "part of a block is read from the file");
	OK(server_read(fd, &page, 100) == 0, "beyond the end there is nothing");
	server_close(fd);

	OK(server_read(fd, &page, 0) == -1 && errno == EBADF,
	   "a closed descriptor is refused by the kernel");
}

static void
test_segments(void)
{
	int first = cached_relation(PATH);
	int second = server_open(PATH ".1", O_RDWR | O_CREAT);
	Page page;

	plant(PATH ".1", 8, 'b');
	OK(server_read(second, &page, 0) == FC_BLOCK_SIZE && page_is(&page, 'b'),
	   "block 0 of the next segment is another block");
	plant(PATH, 1, 'z');
	plant(PATH ".1", 1, 'z');
	OK(server_read(first, &page, 0) == FC_BLOCK_SIZE && page_is(&page, 'a') &&
	       server_read(second, &page, 0) == FC_BLOCK_SIZE &&
	       page_is(&page, 'b'),
	   "both are cached");
	page = page_of('c');
	OK(changes_pwrite(second, &page, sizeof(page), 0) == FC_BLOCK_SIZE &&
	       server_read(first, &page, 0) == FC_BLOCK_SIZE && page_is(&page, 'a'),
	   "and a change of one leaves the other cached");
	server_close(first);
	server_close(second);
	names_unlink(PATH ".1");
}

static void
test_unaligned_page(void)
{
	static unsigned char room[FC_BLOCK_SIZE + 1];
	int fd = cached_relation(PATH);

	plant(PATH, 1, 'z');
	OK(reads_pread(fd, room + 1, FC_BLOCK_SIZE, 0) == FC_BLOCK_SIZE &&
	       room[1] == 'a' && room[FC_BLOCK_SIZE] == 'a',
	   "a buffer of any alignment is served");
	server_close(fd);
}

static void
test_runs(void)
{
	int fd = cached_relation(PATH);
	Page pages[4];
	struct iovec iov[2] = { { pages, FC_BLOCK_SIZE },
		                    { pages + 1, 3 * FC_BLOCK_SIZE } };

	OK(reads_preadv(fd, iov, 2, 0) == 4 * FC_BLOCK_SIZE &&
	       page_is(&pages[3], 'a'),
	   "a run with missing blocks is read from the file");
	plant(PATH, 4, 'z');
	OK(reads_preadv(fd, iov, 2, 0) == 4 * FC_BLOCK_SIZE &&
	       page_is(&pages[0], 'a') && page_is(&pages[3], 'a'),
	   "which filled what was missing: now all of it comes from the cache");
	plant(PATH, 8, 'y');
	OK(reads_pread(fd, pages, 4 * FC_BLOCK_SIZE, 4 * FC_BLOCK_SIZE) ==
	           4 * FC_BLOCK_SIZE &&
	       page_is(&pages[3], 'y'),
	   "a run that is not cached comes from the file");
	OK(reads_pread(fd, pages, 4 * FC_BLOCK_SIZE, 6 * FC_BLOCK_SIZE) ==
	       2 * FC_BLOCK_SIZE,
	   "a run over the end of the file is as short as the file");
	server_close(fd);
}

static void
test_long_runs(void)
{
	static Page pages[32];
	uint64_t inserts;
	int fd;

	unlink(PATH);
	fc_cache_clear(&runtime.cache);
	plant(PATH, 200, 'a');
	fd = server_open(PATH, O_RDWR);
	inserts = counter(FC_COUNT_inserts);
	OK(reads_pread(fd, pages, 31 * FC_BLOCK_SIZE, FC_BLOCK_SIZE) ==
	           31 * FC_BLOCK_SIZE &&
	       counter(FC_COUNT_inserts) == inserts + 31,
	   "a run of 31 blocks is filled");
	server_close(fd);
	fd = server_open(PATH, O_RDWR);
	OK(reads_pread(fd, pages, 32 * FC_BLOCK_SIZE, 100 * FC_BLOCK_SIZE) ==
	           32 * FC_BLOCK_SIZE &&
	       counter(FC_COUNT_inserts) == inserts + 31,
	   "one of 32 is a scan");
	server_close(fd);
	fc_cache_clear(&runtime.cache);
}

/* A full ring has nothing to do with scans. */
static uint64_t
tried_to_fill(void)
{
	return counter(FC_COUNT_inserts) +
	       counter(FC_COUNT_insert_skip_writer_overloaded);
}

static void
test_scans_do_not_fill(void)
{
	uint64_t inserts;
	Page page;
	int fd;

	unlink(PATH);
	fc_cache_clear(&runtime.cache);
	plant(PATH, 200, 'a');
	fd = server_open(PATH, O_RDWR);
	inserts = counter(FC_COUNT_inserts);
	for (uint32_t block = 1; block < 200; block++)
	{
		if (server_read(fd, &page, block) != FC_BLOCK_SIZE)
			abort();
	}
	OK(counter(FC_COUNT_inserts) - inserts < 40,
	   "a scan of 199 blocks fills only the few it begins with");
	inserts = counter(FC_COUNT_inserts);
	for (uint32_t i = 0; i < 50; i++)
	{
		if (server_read(fd, &page, 199 - i * 3) != FC_BLOCK_SIZE)
			abort();
	}
	OK(counter(FC_COUNT_inserts) > inserts, "jumping about fills again");
	server_close(fd);
}

static void
test_small_scans_fill(void)
{
	uint64_t fills = 0;
	Page page;
	int fd;

	unlink(PATH);
	fc_cache_clear(&runtime.cache);
	plant(PATH, 30, 'a');
	fd = server_open(PATH, O_RDWR);
	for (int turn = 0; turn < 3; turn++)
	{
		fc_cache_clear(&runtime.cache);
		fills = tried_to_fill();
		for (uint32_t block = 0; block < 30; block++)
		{
			if (server_read(fd, &page, block) != FC_BLOCK_SIZE)
				abort();
		}
	}
	OK(tried_to_fill() - fills == 30,
	   "a small table that is scanned again and again is filled each time");
	server_close(fd);
}

static void
test_prefetch(void)
{
	int fd = cached_relation(PATH);

	OK(reads_fadvise(fd, 0, FC_BLOCK_SIZE, POSIX_FADV_WILLNEED) == 0 &&
	       counter(FC_COUNT_prefetches_swallowed) == 1,
	   "advice to fetch a cached block is swallowed");
	OK(reads_fadvise(fd, FC_BLOCK_SIZE, FC_BLOCK_SIZE, POSIX_FADV_WILLNEED) ==
	           0 &&
	       counter(FC_COUNT_prefetches_swallowed) == 1,
	   "advice to fetch another one goes to the kernel");
	OK(reads_fadvise(fd, 0, 2 * FC_BLOCK_SIZE, POSIX_FADV_WILLNEED) == 0 &&
	       counter(FC_COUNT_prefetches_swallowed) == 1,
	   "and so does advice to fetch both");
	server_close(fd);
	OK(reads_fadvise(fd, 0, FC_BLOCK_SIZE, POSIX_FADV_WILLNEED) == EBADF,
	   "the kernel's error is the result");
}

/* ---- changes ------------------------------------------------------------- */

/*
 * Read so many cached blocks at once, often; return the longest time of a
 * block.
 */
static double
block_ms_at_most(int fd, unsigned blocks, Advice *advice)
{
	static _Alignas(64) unsigned char memory[1 << 16];
	static Page pages[4];
	uint64_t begin;
	uint64_t ns;

	if (advice_memory_size() > sizeof(memory))
		abort();
	advice_create(memory);
	(void) advice_read(SLOTS, advice); /* its clock begins */
	begin = fc_clock_ns();
	for (int i = 0; i < 100; i++)
	{
		if (reads_pread(fd, pages, blocks * FC_BLOCK_SIZE, 0) !=
		    (ssize_t) (blocks * FC_BLOCK_SIZE))
			abort();
	}
	ns = fc_clock_ns() - begin;
	(void) advice_read(SLOTS, advice);
	advice_detach();
	return (double) ns / 100 / blocks / 1e6;
}

static void
test_advice(void)
{
	int fd = cached_relation(PATH);
	uint64_t hits;
	Advice advice;
	double ms;

	advice_want(SLOTS);
	for (uint32_t block = 0; block < 4; block++)
	{
		Page page;

		(void) server_read(fd, &page, block);
		(void) server_read(fd, &page, block);
	}

	hits = counter(FC_COUNT_hits);
	ms = block_ms_at_most(fd, 1, &advice);
	OK(counter(FC_COUNT_hits) == hits + 100 && advice.flash_measured &&
	       advice.flash_read_ms > 0 && advice.flash_read_ms <= ms,
	   "the advice knows what a block from flash takes: %f of %f ms",
	   advice.flash_read_ms, ms);

	hits = counter(FC_COUNT_hits);
	ms = block_ms_at_most(fd, 4, &advice);
	OK(counter(FC_COUNT_hits) == hits + 400 && advice.flash_measured &&
	       advice.flash_read_ms > 0 && advice.flash_read_ms <= ms,
	   "... and its share of a run: %f of %f ms", advice.flash_read_ms, ms);
	OK(advice.disk_read_ms == 0, "no disk was read");
	server_close(fd);
}

static void
test_writes(void)
{
	Page page = page_of('b');
	struct iovec iov[2] = { { &page, 4096 }, { page.bytes + 4096, 4096 } };
	int fd = cached_relation(PATH);
	uint64_t updates = counter(FC_COUNT_updates);
	off_t from = 0;
	off_t to = 0;

	OK(changes_pwrite(fd, &page, sizeof(page), 0) == FC_BLOCK_SIZE &&
	       reads_true(fd),
	   "WRITE: pwrite");
	OK(FC_BROKEN(WRITE) || FC_BROKEN(CHANGE_END) ||
	       counter(FC_COUNT_updates) == updates + 1,
	   "a block that was cached is refreshed");
	plant(PATH, 1, 'z');
	OK(server_read(fd, &page, 0) == FC_BLOCK_SIZE && page_is(&page, 'b'),
	   "WRITE: and served from the cache");
	server_close(fd);

	fd = cached_relation(PATH);
	OK(changes_pwrite(fd, "xx", 2, 8191) == 2 && reads_true(fd),
	   "WRITE: pwrite of two bytes over the border of two blocks");
	server_close(fd);

	fd = cached_relation(PATH);
	OK(changes_pwritev(fd, iov, 2, 0) == FC_BLOCK_SIZE && reads_true(fd),
	   "ZERO_EXTEND: pwritev");
	server_close(fd);

	fd = cached_relation(PATH);
	OK(changes_write(fd, &page, sizeof(page)) == FC_BLOCK_SIZE &&
	       reads_true(fd),
	   "FILECOPY: write at the file's position");
	server_close(fd);

	fd = cached_relation(PATH);
	OK(changes_writev(fd, iov, 2) == FC_BLOCK_SIZE && reads_true(fd),
	   "FILECOPY: writev at the file's position");
	server_close(fd);

	plant("../other/source", 1, 'c');
	fd = cached_relation(PATH);
	int source = open("../other/source", O_RDONLY);

	OK(changes_copy_range(source, &from, fd, &to, FC_BLOCK_SIZE, 0) ==
	           FC_BLOCK_SIZE &&
	       reads_true(fd),
	   "FILECOPY: copy_file_range");
	close(source);
	server_close(fd);
}

static void
test_failed_write(void)
{
	int fd = cached_relation(PATH);
	int reader = server_open(PATH, O_RDONLY);
	Page page = page_of('b');
	FcFile file = fc_file((FcFileId){ 1663, 5, 16384, 0, 0 });

	OK(changes_pwrite(reader, &page, sizeof(page), FC_BLOCK_SIZE) == -1 &&
	       errno == EBADF,
	   "a write that fails hands the error on");
	if (fc_file_enter(&runtime.cache, &file) != FC_OK)
		abort();
	OK(FC_BROKEN(WRITE) || !fc_read_would_hit(&runtime.cache, &file, 0),
	   "and every block of the file is forgotten, also those it did not write");
	server_close(fd);
	server_close(reader);
}

static void
test_allocation(void)
{
	int fd = cached_relation(PATH);

	plant(PATH, 1, 'b');
	OK(changes_posix_fallocate(fd, 0, FC_BLOCK_SIZE) == 0 && reads_true(fd),
	   "ZERO_EXTEND: posix_fallocate");
	server_close(fd);

	fd = cached_relation(PATH);
	errno = 0;
	if (changes_fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
	                      FC_BLOCK_SIZE) == 0)
		OK(reads_true(fd), "ZERO_EXTEND: fallocate that punches a hole");
	else
		SKIP("fallocate that punches a hole", "the file system has no holes");
	server_close(fd);
}

static void
test_truncation(void)
{
	int fd = cached_relation(PATH);
	int again;

	OK(changes_ftruncate(fd, 0) == 0 && reads_true(fd),
	   "TRUNCATE: ftruncate to nothing");
	server_close(fd);

	fd = cached_relation(PATH);
	OK(changes_ftruncate(fd, 100) == 0 && reads_true(fd),
	   "TRUNCATE: ftruncate to part of a block");
	server_close(fd);

	fd = cached_relation(PATH);
	OK(changes_truncate(PATH, 0) == 0 && reads_true(fd),
	   "TRUNCATE: truncate by path");
	server_close(fd);

	fd = cached_relation(PATH);
	again = server_open(PATH, O_RDWR | O_TRUNC);
	OK(again >= 0 && reads_true(fd), "TRUNCATE: open with O_TRUNC");
	server_close(again);
	server_close(fd);

	fd = cached_relation(PATH);
	OK(changes_ftruncate(fd, 4 * FC_BLOCK_SIZE) == 0 &&
	       counter(FC_COUNT_hits) > 0,
	   "a truncation further on");
	plant(PATH, 1, 'z');
	Page page;

	OK(server_read(fd, &page, 0) == FC_BLOCK_SIZE && page_is(&page, 'a'),
	   "leaves the blocks before it cached");
	server_close(fd);
}

static void
test_names(void)
{
	int fd = cached_relation(PATH);
	int new;

	OK(names_unlink(PATH) == 0, "a file is unlinked");
	plant(PATH, 8, 'b');
	new = server_open(PATH, O_RDWR);
	OK(reads_true(new), "UNLINK: its name's next file is read again");
	server_close(fd);
	server_close(new);

	fd = cached_relation(PATH);
	unlink(PATH);
	new = server_open(PATH, O_RDWR | O_CREAT | O_EXCL);
	Page page = page_of('d');

	if (pwrite(new, &page, sizeof(page), 0) != FC_BLOCK_SIZE)
		abort();
	OK(reads_true(new), "CREATE: a file made again starts with nothing cached");
	server_close(fd);
	server_close(new);
}

/*
 * Names outside the data directory, as a superuser's COPY TO or lo_export() may
 * use.
 */
static char foreign[300];  /* a symbolic link to the data file PATH */
static char in_space[300]; /* a tablespace's file by its own path */
static char number[300];   /* nothing but a number */

static void
make_foreign_names(void)
{
	const char *data = runtime.root.directory;

	snprintf(foreign, sizeof(foreign), "%s-link", data);
	snprintf(in_space, sizeof(in_space), "../other/%s",
	         runtime.root.version_directory);
	if (symlink("data/" PATH, foreign) != 0 || mkdir(in_space, 0700) != 0)
		abort();
	snprintf(number, sizeof(number), "%.*s/other/2026",
	         (int) (strlen(data) - strlen("/data")), data);
	snprintf(in_space, sizeof(in_space), "%.*s/other/%s/16401",
	         (int) (strlen(data) - strlen("/data")), data,
	         runtime.root.version_directory);
}

static void
test_foreign_names(void)
{
	int fd = cached_relation(PATH);
	Page page = page_of('f');
	int writer;

	make_foreign_names();
	writer = server_open(foreign, O_RDWR);
	OK(changes_pwrite(writer, &page, sizeof(page), 0) == FC_BLOCK_SIZE &&
	       reads_true(fd),
	   "FOREIGN: a write by way of a symbolic link");
	server_close(writer);
	server_close(fd);

	fd = cached_relation(PATH);
	writer = server_open(foreign, O_WRONLY | O_TRUNC);
	OK(writer >= 0 && reads_true(fd), "FOREIGN: it is cut off by that name");
	server_close(writer);
	server_close(fd);
}

/*
 * As lo_export() does: a name below the data directory, that is cut off and
 * written.
 */
static bool
export_to(const char *name)
{
	Page page = page_of('x');
	int writer = server_open(name, O_CREAT | O_WRONLY | O_TRUNC);
	ssize_t put = changes_write(writer, &page, sizeof(page));

	server_close(writer);
	return put == FC_BLOCK_SIZE;
}

static void
test_links_within(void)
{
	static const char *const names[] = { "report", "base/5/99999",
		                                 "pg_wal/xlogtemp.1", "pg_xact/0000" };

	if (mkdir("pg_xact", 0700) != 0)
		abort();
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
	{
		int fd = cached_relation(PATH);
		char target[300];

		snprintf(target, sizeof(target), "%s/" PATH, runtime.root.directory);
		if (symlink(target, names[i]) != 0)
			abort();
		OK(export_to(names[i]) && reads_true(fd),
		   "FOREIGN: %s is a link to a data file, and is exported to",
		   names[i]);
		unlink(names[i]);
		server_close(fd);
	}
}

/*
 * A number limits the files that it may be; all others keep their cached
 * blocks.
 */
static void
test_numbers(void)
{
	int other = cached_relation("base/5/16390");
	char whole[300];
	char resolved[PATH_MAX];
	uint64_t clears;
	uint64_t hits;
	int fd;

	unlink(PATH);
	plant(PATH, 8, 'a');
	fd = server_open(PATH, O_RDWR);
	OK(reads_true(fd) && reads_true(fd) && reads_true(other), "two are cached");
	clears = counter(FC_COUNT_clears);
	OK(export_to("../other/2026") && export_to("../other/16384"),
	   "files are exported to whose names are numbers");
	hits = counter(FC_COUNT_hits);
	OK(counter(FC_COUNT_clears) == clears && reads_true(other) &&
	       counter(FC_COUNT_hits) == hits + 1,
	   "that clears nothing, and what has another number stays");
	OK(reads_true(fd) && counter(FC_COUNT_hits) == hits + 1,
	   "a file of the same number is forgotten");
	snprintf(whole, sizeof(whole), "%s/../other/16384", runtime.root.directory);
	(void) names_unlink(realpath(whole, resolved));
	hits = counter(FC_COUNT_hits);
	OK(reads_true(fd) && counter(FC_COUNT_hits) == hits &&
	       counter(FC_COUNT_clears) == clears,
	   "... and once more when the name goes");
	server_close(fd);
	server_close(other);
	unlink("base/5/16390");
}

/* A file with another name may be written by that name, unseen. */
static void
test_relation_elsewhere(void)
{
	int fd;

	unlink(PATH);
	unlink("../other/moved");
	plant("../other/moved", 8, 'a');
	if (symlink("../../../other/moved", PATH) != 0)
		abort();
	fd = server_open(PATH, O_RDWR);
	(void) reads_true(fd);
	plant("../other/moved", 8, 'b');
	OK(reads_true(fd), "DEAD_FILE: a relation that is a link is not cached");
	server_close(fd);
	unlink(PATH);
}

static bool
move_a_database(void)
{
	return names_rename("base/5", "base/7") == 0 &&
	       names_rename("base/7", "base/5") == 0;
}

static bool
move_a_file_away(void)
{
	return names_rename(PATH, "../other/moved") == 0 &&
	       rename("../other/moved", PATH) == 0;
}

static bool
move_another_to_it(void)
{
	plant("../other/new", 8, 'n');
	return names_rename("../other/new", PATH) == 0;
}

static bool
write_a_stream(void)
{
	FILE *stream = names_fopen(PATH, "r+");

	return stream != NULL && fclose(stream) == 0;
}

static bool
read_a_stream(void)
{
	FILE *stream = names_fopen(PATH, "r");

	return stream != NULL && fclose(stream) == 0;
}

/*
 * As a superuser's COPY TO may: by way of a symbolic link, or of a tablespace's
 * path.
 */
static bool
write_a_link(void)
{
	FILE *stream = names_fopen(foreign, "a");

	return stream != NULL && fclose(stream) == 0;
}

static bool
write_a_tablespace(void)
{
	FILE *stream = names_fopen(in_space, "w");

	return stream != NULL && fclose(stream) == 0;
}

static bool
write_a_number(void)
{
	FILE *stream = names_fopen(number, "w");

	return stream != NULL && fclose(stream) == 0;
}

static void
test_what_cannot_be_followed(void)
{
	int fd = cached_relation(PATH);

	OK(goes_offline(move_a_file_away),
	   "UNLINK: a data file that is moved takes the cache offline");
	OK(goes_offline(move_another_to_it), "UNLINK: and one that is replaced");
	OK(goes_offline(write_a_link),
	   "FOREIGN: a stream that a link leads to a data file does so, too");
	OK(goes_offline(write_a_tablespace),
	   "FOREIGN: and one in a tablespace, by its own path");
	OK(!goes_offline(write_a_number), "one that has a number for its name "
	                                  "does not");
	OK(goes_offline(move_a_database),
	   "UNLINK: a database's directory that is moved takes the cache offline");
	OK(goes_offline(write_a_stream),
	   "a stream opened to write a data file takes the cache offline");
	OK(!goes_offline(read_a_stream), "one opened to read does not");
	server_close(fd);
}

/*
 * Process A holds a descriptor of a file that was dropped; the name is by now
 * another file's.  A's reads must not fill the new file's blocks.
 */
static void
test_dead_file(void)
{
	int old = cached_relation(PATH);
	Page page;
	int new;

	names_unlink(PATH);
	plant(PATH, 8, 'n');
	OK(server_read(old, &page, 0) == FC_BLOCK_SIZE && page_is(&page, 'a'),
	   "a descriptor of a dropped file goes on reading it");
	OK(server_read(old, &page, 1) == FC_BLOCK_SIZE && page_is(&page, 'a'),
	   "again and again");
	new = server_open(PATH, O_RDWR);
	OK(reads_true(new), "DEAD_FILE: without giving its blocks to the next one");
	server_close(old);
	server_close(new);
}

/*
 * A change finds a file's number by its name, even if it is another file by
 * now.
 */
static void
test_change_of_dead_file(void)
{
	int old = cached_relation(PATH);
	Page page = page_of('w');
	int new;

	names_unlink(PATH);
	plant(PATH, 8, 'n');
	new = server_open(PATH, O_RDWR);
	OK(reads_true(new) && reads_true(new), "the name's next file is cached");

	OK(changes_pwrite(old, &page, sizeof(page), 0) == FC_BLOCK_SIZE,
	   "who has the dropped file open writes it");
	OK(reads_true(new), "CHECKED: that does not refresh the next file's copy");

	fc_cache_clear(&runtime.cache);
	OK(server_read(old, &page, 0) == FC_BLOCK_SIZE && page_is(&page, 'w'),
	   "and reads it");
	OK(reads_true(new), "CHECKED: that does not fill the next file's blocks");
	server_close(old);
	server_close(new);
}

/* ---- who is who ---------------------------------------------------------- */

static void
test_descriptors(void)
{
	int fd = cached_relation(PATH);
	Page page = page_of('b');
	int copy = HOOK("dup", FdHook)(fd);

	OK(descriptors_entry(copy)->class == FILE_RELATION,
	   "a copy of a descriptor is what that is");
	OK(changes_pwrite(copy, &page, sizeof(page), 0) == FC_BLOCK_SIZE &&
	       reads_true(fd),
	   "WRITE: a write through a dup'ed descriptor");
	HOOK("dup2", Fd2Hook)(copy, 600);
	page = page_of('c');
	OK(changes_pwrite(600, &page, sizeof(page), 0) == FC_BLOCK_SIZE &&
	       reads_true(fd),
	   "WRITE: a write through a dup2'ed descriptor");
	server_close(600);
	server_close(copy);
	server_close(fd);

	copy = server_open("pg_wal/000000010000000000000001", O_RDWR | O_CREAT);
	OK(descriptors_entry(copy)->class == FILE_WAL,
	   "a descriptor used again is what it was opened for last");
	server_close(copy);
	OK(descriptors_entry(copy)->class == FILE_UNKNOWN,
	   "and unknown when closed");
}

static void
test_unknown_descriptors(void)
{
	int fd = cached_relation(PATH);
	Page page = page_of('b');
	int unseen = open(PATH, O_RDWR);

	OK(descriptors_entry(unseen)->class == FILE_UNKNOWN,
	   "a descriptor that no hook saw being opened is unknown");
	OK(changes_pwrite(unseen, &page, sizeof(page), 0) == FC_BLOCK_SIZE &&
	       reads_true(fd),
	   "UNKNOWN_FILE: a write through it is seen all the same");
	OK(FC_BROKEN(UNKNOWN_FILE) ||
	       descriptors_entry(unseen)->class == FILE_RELATION,
	   "and it is known from then on");
	close(unseen);
	descriptors_closed(unseen);

	unseen = fcntl(open(PATH, O_RDWR), F_DUPFD, DESCRIPTORS_MAX + 10);
	if (unseen >= DESCRIPTORS_MAX)
	{
		page = page_of('c');
		OK(changes_pwrite(unseen, &page, sizeof(page), 0) == FC_BLOCK_SIZE &&
		       reads_true(fd),
		   "UNKNOWN_FILE: a write through a descriptor beyond the table");
		close(unseen);
	}
	else
		SKIP("a descriptor beyond the table",
		     "the limit of descriptors is low");
	server_close(fd);
}

static void
test_aliases(void)
{
	int fd = cached_relation(PATH);
	Page page = page_of('b');
	int alias;

	if (link(PATH, "../other/16384") != 0)
		abort();
	alias = server_open(runtime.root.directory, O_RDONLY);
	server_close(alias);

	char path[300];

	snprintf(path, sizeof(path), "%s/../other/16384", runtime.root.directory);
	alias = server_open(path, O_RDWR);
	OK(descriptors_entry(alias)->class == FILE_ALIAS,
	   "a data file reached by another name is an alias");
	OK(changes_pwrite(alias, &page, sizeof(page), 0) == FC_BLOCK_SIZE &&
	       reads_true(fd),
	   "WRITE: a write by that name clears the cache");
	server_close(alias);
	server_close(fd);

	fd = cached_relation(PATH);
	OK(changes_truncate(path, 0) == 0 && reads_true(fd),
	   "TRUNCATE: and so does a truncation");
	server_close(fd);
	unlink("../other/16384");
}

static void
test_pipes(void)
{
	int ends[2];

	if (pipe(ends) != 0)
		abort();
	descriptors_closed(ends[1]);
	OK(changes_write(ends[1], "x", 1) == 1 &&
	       descriptors_entry(ends[1])->class == FILE_DEVICE,
	   "a pipe is no data file");
	close(ends[0]);
	close(ends[1]);
	OK(fc_mode(&runtime.cache, NULL) == FC_SERVE, "and nothing goes offline");
}

/* ---- the rest ------------------------------------------------------------ */

/*
 * Between begin and end of a change a reader must not fill the older content.
 */
static void
test_fill_during_a_change(void)
{
	int fd = cached_relation(PATH);
	FcFile file = descriptors_entry(fd)->file;
	FcTicket ticket;
	Page page;

	fc_cache_clear(&runtime.cache);
	plant(PATH, 1, 'o');
	if (fc_file_enter(&runtime.cache, &file) != FC_OK ||
	    fc_read(&runtime.cache, &file, 0, &page, &ticket) != FC_MISS)
		abort();
	page = page_of('o'); /* what the reader's real read gave */

	Page new = page_of('n');

	changes_pwrite(fd, &new, sizeof(new), 0);
	fc_fill(&runtime.cache, &ticket, &page);
	OK(reads_true(fd), "WRITE: a fill read before a write does not survive it");
	server_close(fd);
}

static void
test_modes(void)
{
	int fd = cached_relation(PATH);
	Page page = page_of('b');

	(void) fc_mode_set(&runtime.cache, FC_PASSTHROUGH, FC_REASON_USER);
	changes_pwrite(fd, &page, sizeof(page), 0);
	(void) fc_mode_set(&runtime.cache, FC_SERVE, FC_REASON_NONE);
	OK(reads_true(fd), "WRITE: passthrough still notes what changes");
	server_close(fd);
}

static void
test_verify(void)
{
	int fd = cached_relation(PATH);
	Page page;

	setting_verify = VERIFY_ALL;
	OK(server_read(fd, &page, 0) == FC_BLOCK_SIZE &&
	       counter(FC_COUNT_verify_compared) == 1 &&
	       counter(FC_COUNT_verify_mismatches) == 0,
	   "verify compares a hit with the file");
	plant(PATH, 1, 'z');
	OK(server_read(fd, &page, 0) == FC_BLOCK_SIZE && page_is(&page, 'z'),
	   "if it differs the file's bytes are served");
	OK(counter(FC_COUNT_verify_mismatches) == 1 &&
	       atomic_load(&runtime.board->mismatches) == 1,
	   "it is counted and noted for the log");
	OK(fc_mode(&runtime.cache, NULL) == FC_OFFLINE,
	   "and the cache goes offline");
	OK(server_read(fd, &page, 0) == FC_BLOCK_SIZE && page_is(&page, 'z'),
	   "while reads go on");
	setting_verify = VERIFY_OFF;
	server_close(fd);
}

/* A process that has given its shared memory back must not touch the cache. */
static void
test_detached(void)
{
	pid_t child = fork();
	int status;

	if (child == 0)
	{
		Page page = page_of('b');
		int fd;

		runtime.cache.shared = (FcShared *) 16; /* to touch it is to die */
		server_memory = NULL;
		fd = server_open(PATH, O_RDWR | O_CREAT | O_TRUNC);
		if (changes_pwrite(fd, &page, sizeof(page), 0) != FC_BLOCK_SIZE ||
		    server_read(fd, &page, 0) != FC_BLOCK_SIZE ||
		    changes_ftruncate(fd, 0) != 0 || names_unlink(PATH) != 0)
			_exit(1);
		_exit(0);
	}
	OK(waitpid(child, &status, 0) == child && WIFEXITED(status) &&
	       WEXITSTATUS(status) == 0,
	   "a process without shared memory does its file calls unharmed");
}

int
main(void)
{
	set_up();
	test_reads();
	test_segments();
	test_unaligned_page();
	test_runs();
	test_long_runs();
	test_scans_do_not_fill();
	test_small_scans_fill();
	test_prefetch();
	test_advice();
	test_writes();
	test_failed_write();
	test_allocation();
	test_truncation();
	test_names();
	test_foreign_names();
	test_links_within();
	test_numbers();
	test_relation_elsewhere();
	test_what_cannot_be_followed();
	test_dead_file();
	test_change_of_dead_file();
	test_descriptors();
	test_unknown_descriptors();
	test_aliases();
	test_pipes();
	test_fill_during_a_change();
	test_modes();
	test_detached();
	test_verify(); /* last: it takes the cache offline */
	tear_down();
	return tap_done();
}
