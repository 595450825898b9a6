/*
 * hooks_faults_test.c
 *		The hooks, when a call fails or other processes act during it.
 *
 * faults.h determines what the calls do. Every call that changes a file is in
 * changes_test.c, and changes of names are in names_test.c.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "faults.h"

#include <limits.h>
#include <linux/magic.h>
#include <sys/resource.h>
#include <sys/vfs.h>

#include "fcache/writer.h"
#include "hooks/volume.h"

/* Acts of other processes during a call, through their own descriptors. */
static int other_fd;
static Page *callers_page;

static void
others_write_block_2(void)
{
	Page page = page_of('X');

	if (changes_pwrite(other_fd, &page, sizeof(page), 2 * FC_BLOCK_SIZE) !=
	    FC_BLOCK_SIZE)
		abort();
}

static void
others_read_block_0(void)
{
	Page page;

	(void) server_read(other_fd, &page, 0);
}

static void
hint_bit_is_set(void)
{
	callers_page->bytes[4711] = '!';
}

/* ---- reads --------------------------------------------------------------- */

static void
test_short_reads(void)
{
	static unsigned char pages[4 * FC_BLOCK_SIZE];
	int fd = lettered_relation(0);
	struct iovec iov[2] = { { pages, 3 * FC_BLOCK_SIZE },
		                    { pages + 3 * FC_BLOCK_SIZE, FC_BLOCK_SIZE } };
	Page page;

	fault = (Fault){ .name = "pread", .fd = fd, .at_most = 4096 };
	OK(server_read(fd, &page, 0) == 4096, "a short read is handed on");
	OK(!block_is_cached(0) && all_true(fd), "and not cached");
	server_close(fd);

	fd = lettered_relation(0);
	fault = (Fault){ .name = "preadv", .fd = fd, .at_most = 12288 };
	OK(reads_preadv(fd, iov, 2, 0) == 12288, "a short run is handed on");
	OK(block_is_cached(0) && !block_is_cached(1) && !block_is_cached(2) &&
	       all_true(fd),
	   "and cached as far as blocks are whole");
	server_close(fd);

	fd = lettered_relation(BLOCKS);
	OK(reads_pread(fd, &page, sizeof(page), 100) == FC_BLOCK_SIZE &&
	       page.bytes[0] == 'a' && page.bytes[FC_BLOCK_SIZE - 1] == 'b',
	   "a read across the border of two blocks is the file's");
	server_close(fd);
}

/* No change is announced for the blocks beyond: they must not be cached. */
static void
test_run_beyond_a_segment(void)
{
	static unsigned char pages[4 * FC_BLOCK_SIZE];
	int fd = lettered_relation(0);

	runtime.segment_blocks = 4;
	OK(reads_pread(fd, pages, sizeof(pages), 2 * FC_BLOCK_SIZE) ==
	           sizeof(pages) &&
	       nothing_is_cached(),
	   "a run that goes on beyond a segment's end is not cached");
	runtime.segment_blocks = SEGMENT_BLOCKS;
	server_close(fd);
}

static void
test_run_in_whose_midst_a_block_goes(void)
{
	static unsigned char pages[4 * FC_BLOCK_SIZE];
	static unsigned char stored[4 * FC_BLOCK_SIZE];
	int fd = lettered_relation(BLOCKS);
	uint64_t hits = counter(FC_COUNT_hits);

	/* On flash, so that the slots are read one by one. */
	if (fc_writer_flush(&runtime.cache, PATIENCE_NS) != FC_OK)
		abort();
	other_fd = server_open(PATH, O_RDWR);
	fault = (Fault){ .name = "pread",
		             .fd = runtime.cache.devices[0].fd,
		             .before = others_write_block_2 };
	OK(reads_pread(fd, pages, sizeof(pages), 0) == sizeof(pages) &&
	       fault.name == NULL && counter(FC_COUNT_hits) > hits,
	   "a block of a run changes while another one is read from flash");
	OK(pread(fd, stored, sizeof(stored), 0) == sizeof(stored) &&
	       memcmp(pages, stored, sizeof(stored)) == 0,
	   "the run is what the file holds");
	server_close(other_fd);
	server_close(fd);
}

static void
test_hit_that_changes_while_it_is_verified(void)
{
	int fd = lettered_relation(BLOCKS);
	Page page;

	other_fd = server_open(PATH, O_RDWR);
	setting_verify = VERIFY_ALL;
	fault =
		(Fault){ .name = "pread", .fd = fd, .before = others_write_block_2 };
	OK(server_read(fd, &page, 2) == FC_BLOCK_SIZE && page_is(&page, 'c') &&
	       fault.name == NULL,
	   "a hit whose block changes before it is compared stands");
	OK(counter(FC_COUNT_verify_mismatches) == 0 &&
	       fc_mode(&runtime.cache, NULL) == FC_SERVE,
	   "and is no mismatch");
	setting_verify = VERIFY_OFF;
	server_close(other_fd);
	server_close(fd);
}

/* ---- writes -------------------------------------------------------------- */

static void
test_writes_that_go_wrong(void)
{
	Page page = page_of('z');
	int fd = lettered_relation(BLOCKS);

	fault = (Fault){ .name = "pwrite", .fd = fd, .error = EIO };
	OK(changes_pwrite(fd, &page, sizeof(page), 0) == -1 && errno == EIO,
	   "the error of a write of a cached block is handed on");
	OK(nothing_is_cached(), "and the whole file forgotten");
	server_close(fd);

	fd = lettered_relation(BLOCKS);
	fault = (Fault){ .name = "pwrite", .fd = fd, .at_most = 4096 };
	OK(changes_pwrite(fd, &page, sizeof(page), 0) == 4096 &&
	       !block_is_cached(0) && all_true(fd),
	   "a short write of a cached block does not refresh it");
	server_close(fd);

	fd = lettered_relation(BLOCKS);
	fault = (Fault){ .name = "fsync", .fd = fd, .error = EIO };
	OK(changes_fsync(fd) == -1 && errno == EIO && nothing_is_cached(),
	   "after an fsync that failed nothing of the file is cached");
	server_close(fd);
}

/*
 * Nobody knows which file's data is lost: none of these blocks may outlive the
 * server.
 */
static void
test_file_system_that_fails(void)
{
	const FcIdentity identity = { .system = 1 };
	const FcCheckpoint checkpoint = { .location = 1 };
	int fd = lettered_relation(BLOCKS);

	if (fc_life_begin(&runtime.cache, &identity, 1) != FC_OK)
		abort();
	OK(changes_syncfs(fd) == 0 && block_is_cached(0) &&
	       fc_map_save(&runtime.cache, &checkpoint) == FC_OK,
	   "a file system is synced, all stays cached, and a map can be saved");
	fault = (Fault){ .name = "syncfs", .fd = fd, .error = EIO };
	OK(changes_syncfs(fd) == -1 && errno == EIO && nothing_is_cached(),
	   "SYNCFS: after a syncfs that failed nothing at all is cached");
	OK(fc_map_save(&runtime.cache, &checkpoint) == FC_SKIP,
	   "SYNCFS: and no map of what is cached later is saved");
	server_close(fd);
}

static void
test_hint_bits(void)
{
	Page page = page_of('z');
	int fd = lettered_relation(BLOCKS);

	callers_page = &page;
	fault = (Fault){ .name = "pwrite", .fd = fd, .before = hint_bit_is_set };
	OK(changes_pwrite(fd, &page, sizeof(page), 0) == FC_BLOCK_SIZE &&
	       page.bytes[4711] == '!' && block_is_cached(0) && all_true(fd),
	   "a page that changes while it is written is cached as the file has it");
	server_close(fd);
}

static void
test_ranges(void)
{
	Page pages[2] = { page_of('y'), page_of('z') };
	struct iovec iov[2] = { { &pages[0], FC_BLOCK_SIZE },
		                    { &pages[1], FC_BLOCK_SIZE } };
	off_t from = 0;
	off_t to = 2 * FC_BLOCK_SIZE;
	int fd = lettered_relation(BLOCKS);
	int source;

	OK(changes_pwrite(fd, "xxxxxx", 6, FC_BLOCK_SIZE - 3) == 6 && all_true(fd),
	   "a write across a border changes the blocks on both sides");
	OK(changes_pwritev(fd, iov, 2, 4 * FC_BLOCK_SIZE) == 2 * FC_BLOCK_SIZE &&
	       all_true(fd),
	   "a write of two buffers the blocks of both");
	server_close(fd);

	fd = lettered_relation(BLOCKS);
	plant("../other/source", 1, 'z');
	source = open("../other/source", O_RDONLY);
	OK(changes_copy_range(source, &from, fd, &to, FC_BLOCK_SIZE, 0) ==
	           FC_BLOCK_SIZE &&
	       all_true(fd),
	   "a copy the blocks at its offset");
	from = 0;
	if (lseek(fd, 5 * FC_BLOCK_SIZE, SEEK_SET) < 0)
		abort();
	OK(changes_copy_range(source, &from, fd, NULL, FC_BLOCK_SIZE, 0) ==
	           FC_BLOCK_SIZE &&
	       all_true(fd),
	   "or at the file's position");
	close(source);
	server_close(fd);

	fd = lettered_relation(BLOCKS);
	OK(changes_ftruncate(fd, FC_BLOCK_SIZE) == 0, "a file is cut off");
	plant_letters(PATH, 'A');
	OK(block_is_cached(0) && !block_is_cached(1) && !block_is_cached(7),
	   "all blocks after it are forgotten");
	server_close(fd);

	fd = lettered_relation(BLOCKS);
	(void) changes_fallocate(fd, FALLOC_FL_COLLAPSE_RANGE, 2 * FC_BLOCK_SIZE,
	                         FC_BLOCK_SIZE);
	OK(block_is_cached(1) && !block_is_cached(2) && !block_is_cached(7),
	   "a hole that moves the bytes after it changes them all");
	server_close(fd);

	/*
	 * Cached, and beyond the file's end: the offset of an append is not known
	 * in advance.
	 */
	fd = lettered_relation(BLOCKS);
	server_close(fd);
	if (truncate(PATH, 4 * FC_BLOCK_SIZE) != 0)
		abort();
	fd = server_open(PATH, O_RDWR | O_APPEND);
	OK(changes_write(fd, &pages[0], FC_BLOCK_SIZE) == FC_BLOCK_SIZE &&
	       nothing_is_cached(),
	   "an append may change any block");
	server_close(fd);
}

/* ---- names --------------------------------------------------------------- */

/* The name's next file, made where no hook saw it. */
static bool
next_file_is_read_true(void)
{
	bool right;
	int fd;

	if (access(PATH, F_OK) != 0)
		plant_letters(PATH, 'A');
	fd = server_open(PATH, O_RDWR);
	right = all_true(fd);
	server_close(fd);
	return right;
}

static bool read_true_at_once;

static void
others_read_the_next(void)
{
	read_true_at_once = next_file_is_read_true();
}

/* Calls that remove the file's name. */
static int
unlink_it(void)
{
	return names_unlink(PATH);
}

static int
remove_it(void)
{
	return names_remove(PATH);
}

static const struct
{
	const char *call;
	int (*take_name)(void);
} takers[] = {
	{ "unlink", unlink_it },
	{ "remove", remove_it },
};

static void
test_names_that_go(void)
{
	for (size_t i = 0; i < sizeof(takers) / sizeof(takers[0]); i++)
	{
		const char *call = takers[i].call;
		int fd = lettered_relation(BLOCKS);

		other_fd = server_open(PATH, O_RDONLY);
		fault =
			(Fault){ .name = call, .fd = -1, .before = others_read_block_0 };
		OK(takers[i].take_name() == 0 && fault.name == NULL &&
		       next_file_is_read_true(),
		   "%s: what was read just before it is not the next file's", call);
		server_close(other_fd);
		server_close(fd);

		fd = lettered_relation(BLOCKS);
		read_true_at_once = false;
		fault =
			(Fault){ .name = call, .fd = -1, .after = others_read_the_next };
		OK(takers[i].take_name() == 0 && read_true_at_once,
		   "%s: who reads the next file just after it reads that", call);
		server_close(fd);
	}
}

static void
test_alias_that_is_written(void)
{
	char path[PATH_MAX];
	Page page = page_of('z');
	int fd = lettered_relation(BLOCKS);
	int alias;

	snprintf(path, sizeof(path), "%s/../data/" PATH, runtime.root.directory);
	alias = server_open(path, O_RDWR);
	other_fd = server_open(PATH, O_RDONLY);
	fault =
		(Fault){ .name = "pwrite", .fd = alias, .before = others_read_block_0 };
	OK(changes_pwrite(alias, &page, sizeof(page), 0) == FC_BLOCK_SIZE &&
	       fault.name == NULL && all_true(fd),
	   "what is read while a block is written by another name is not kept");
	server_close(alias);
	server_close(other_fd);
	server_close(fd);
}

/* ---- a disk that gives what is not the block ----------------------------- */

static void
spoil_callers_page(void)
{
	callers_page->bytes[0] = INVALID;
}

static void
test_invalid_blocks(void)
{
	int fd = lettered_relation(0);
	uint64_t skipped = counter(FC_COUNT_insert_skip_invalid);
	Page page;
	unsigned before;

	callers_page = &page;
	fault = (Fault){ .name = "pread", .fd = fd, .after = spoil_callers_page };
	errno = 4711;
	OK(server_read(fd, &page, 2) == FC_BLOCK_SIZE && page.bytes[0] == INVALID &&
	       errno == 4711,
	   "what the disk gives is handed on, valid or not");
	OK(!block_is_cached(2) &&
	       counter(FC_COUNT_insert_skip_invalid) == skipped + 1,
	   "INVALID_PAGE: a block that is not valid is not cached, but counted");
	OK(server_read(fd, &page, 2) == FC_BLOCK_SIZE && page_is(&page, 'c') &&
	       block_is_cached(2),
	   "INVALID_PAGE: so the next read gives the block, and caches it");
	before = judged;
	OK(server_read(fd, &page, 2) == FC_BLOCK_SIZE && judged == before,
	   "a hit is not judged");
	server_close(fd);
}

static void
test_run_with_an_invalid_block(void)
{
	int fd = lettered_relation(0);
	uint64_t skipped = counter(FC_COUNT_insert_skip_invalid);
	Page pages[4];
	struct iovec iov = { pages, sizeof(pages) };

	callers_page = &pages[1];
	fault = (Fault){ .name = "preadv", .fd = fd, .after = spoil_callers_page };
	OK(reads_preadv(fd, &iov, 1, 0) == (ssize_t) sizeof(pages) &&
	       pages[1].bytes[0] == INVALID && block_is_cached(0) &&
	       block_is_cached(2) && block_is_cached(3),
	   "of a run the valid blocks are cached");
	OK(!block_is_cached(1) &&
	       counter(FC_COUNT_insert_skip_invalid) == skipped + 1,
	   "INVALID_PAGE: and the other one is not");
	OK(reads_preadv(fd, &iov, 1, 0) == (ssize_t) sizeof(pages) &&
	       page_is(&pages[1], 'b') && block_is_cached(1),
	   "INVALID_PAGE: so the next read of the run gives the block");
	server_close(fd);
}

/* A page's checksum depends on where in the relation's fork it belongs. */
static void
test_what_block_a_page_is(void)
{
	static const struct
	{
		const char *path;
		uint32_t first_block;
	} files[] = { { PATH, 0 },
		          { PATH ".1", SEGMENT_BLOCKS },
		          { PATH "_fsm", 0 },
		          { PATH "_vm.3", 3 * SEGMENT_BLOCKS } };

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
	{
		unsigned before = judged;
		Page page;
		int fd;

		names_unlink(files[i].path);
		plant_letters(files[i].path, 'a');
		fd = server_open(files[i].path, O_RDWR);
		OK(server_read(fd, &page, 5) == FC_BLOCK_SIZE && judged == before + 1 &&
		       judged_block == files[i].first_block + 5,
		   "block 5 of %s is judged as block %u", files[i].path, judged_block);
		server_close(fd);
	}
}

/* Block 2, behind the cache's back. */
static void
put_block_2(int letter)
{
	Page page = page_of(letter);
	int fd = open(PATH, O_RDWR);

	if (pwrite(fd, &page, sizeof(page), 2 * FC_BLOCK_SIZE) != FC_BLOCK_SIZE)
		abort();
	close(fd);
}

static void
spoil_block_2(void)
{
	put_block_2('X');
}

static void
restore_block_2(void)
{
	put_block_2('c');
}

/* Its last byte was wrong; the next read gives only what comes before that. */
static void
restore_block_2_and_stutter(void)
{
	restore_block_2();
	fault = (Fault){ .name = "pread", .fd = -1, .at_most = 4096 };
}

static void
spoil_end_of_block_2(void)
{
	int fd = open(PATH, O_RDWR);

	if (pwrite(fd, "X", 1, 3 * FC_BLOCK_SIZE - 1) != 1)
		abort();
	close(fd);
}

/* From now on each read returns something else. */
static void
another_block_2(void)
{
	static int letter = 'G';

	put_block_2(letter++);
	fault = (Fault){ .name = "pread", .fd = -1, .before = another_block_2 };
}

static bool
serves_without_mismatch(void)
{
	return counter(FC_COUNT_verify_mismatches) == 0 &&
	       fc_mode(&runtime.cache, NULL) == FC_SERVE;
}

/* Last: a mismatch ends in a cache that is offline. */
static void
test_disk_that_stutters_while_a_hit_is_verified(void)
{
	int fd = lettered_relation(BLOCKS);
	uint64_t compared = counter(FC_COUNT_verify_compared);
	Page page;

	setting_verify = VERIFY_ALL;
	fault = (Fault){ .name = "pread", .fd = fd, .at_most = 4096 };
	OK(server_read(fd, &page, 2) == FC_BLOCK_SIZE && page_is(&page, 'c') &&
	       fault.name == NULL && serves_without_mismatch(),
	   "SECOND_LOOK: a hit stands if the file is read short but once");
	fault = (Fault){ .name = "pread",
		             .fd = fd,
		             .before = spoil_block_2,
		             .after = restore_block_2 };
	OK(server_read(fd, &page, 2) == FC_BLOCK_SIZE && page_is(&page, 'c') &&
	       fault.name == NULL && serves_without_mismatch(),
	   "SECOND_LOOK: or gives other bytes but once");
	fault = (Fault){ .name = "pread",
		             .fd = fd,
		             .before = spoil_end_of_block_2,
		             .after = restore_block_2_and_stutter };
	OK(server_read(fd, &page, 2) == FC_BLOCK_SIZE && page_is(&page, 'c') &&
	       fault.name == NULL && serves_without_mismatch(),
	   "or other bytes once, and then but a part of the block");
	OK(counter(FC_COUNT_verify_compared) == compared + 3,
	   "a hit counts as compared once, however often the file was read");

	another_block_2();
	OK(server_read(fd, &page, 2) == FC_BLOCK_SIZE && !page_is(&page, 'c') &&
	       serves_without_mismatch(),
	   "a file that never gives the same twice is believed, but proves "
	   "nothing");
	fault.name = NULL;
	OK(!block_is_cached(2), "and the block is not kept");
	server_close(fd);

	fd = lettered_relation(BLOCKS);
	spoil_block_2();
	fault = (Fault){ .name = "pread", .fd = fd, .at_most = 4096 };
	OK(server_read(fd, &page, 2) == FC_BLOCK_SIZE && page_is(&page, 'X') &&
	       fault.name == NULL && counter(FC_COUNT_verify_mismatches) == 1 &&
	       fc_mode(&runtime.cache, NULL) == FC_OFFLINE,
	   "what is really stale is found on a disk that stutters, too");
	setting_verify = VERIFY_OFF;
	server_close(fd);
}

/* ---- stamps -------------------------------------------------------------- */

static void
test_stamps(void)
{
	int fd = lettered_relation(0);
	struct stat status;
	Volume volume;
	FcStamp stamp;

	if (fstat(fd, &status) != 0 || !volume_ask(fd, NULL, &volume))
		abort();
	OK(descriptors_stamp(fd, NULL, NULL, &stamp) &&
	       stamp.inode == (uint64_t) status.st_ino &&
	       stamp.volume == (volume.number != 0 ? volume.number
	                                           : (uint64_t) status.st_dev) &&
	       stamp.size == (uint64_t) status.st_size &&
	       stamp.changed_ns % 1000000000 == status.st_ctim.tv_nsec &&
	       stamp.changed_ns / 1000000000 == status.st_ctim.tv_sec,
	   "a stamp is all that the inode says, to the nanosecond");
	server_close(fd);
}

/* The file system that is mounted, if the kernel is not asked: its magic. */
static uint32_t mounted;
static uint64_t mounted_uuid;

static int
as_mounted(struct statfs *system)
{
	system->f_type = mounted;
	if (mounted == EXT4_SUPER_MAGIC)
		memcpy(&system->f_fsid, &mounted_uuid, sizeof(mounted_uuid));
	return 0;
}

int
fstatfs(int fd, struct statfs *system)
{
	Fault met = fault_of("fstatfs", fd);
	int result = MEETS(&met, REAL("fstatfs", AskSystem)(fd, system));

	return result == 0 && mounted != 0 ? as_mounted(system) : result;
}

int
statfs(const char *path, struct statfs *system)
{
	int result = REAL("statfs", AskSystemOf)(path, system);

	return result == 0 && mounted != 0 ? as_mounted(system) : result;
}

/* Only XFS is asked for its UUID like this. */
extern int ioctl(int fd, unsigned long request, ...);

int
ioctl(int fd, unsigned long request, ...)
{
	va_list arguments;
	uint64_t *geometry;

	(void) fd;
	(void) request;
	va_start(arguments, request);
	geometry = va_arg(arguments, uint64_t *);
	va_end(arguments);
	geometry[8] = mounted_uuid;
	return 0;
}

/* What a process that begins now says of the file. */
static FcStamp
stamp_of_another_process(int fd)
{
	struct stat status;

	if (fstat(fd, &status) != 0)
		abort();
	return (FcStamp){ .volume = mounted_uuid | 1ULL << 63,
		              .inode = (uint64_t) status.st_ino,
		              .size = (uint64_t) status.st_size,
		              .changed_ns =
		                  (int64_t) status.st_ctim.tv_sec * 1000000000 +
		                  status.st_ctim.tv_nsec };
}

/* Write, and then be looked after by another process. */
static bool
is_accused(int fd)
{
	FcFile file = fc_file((FcFileId){ 1663, 5, 16384, 0, 0 });
	uint64_t changes = counter(FC_COUNT_foreign_changes);
	Page page = page_of('w');
	FcStampPermit permit;
	FcStamp stamp;

	if (changes_pwrite(fd, &page, sizeof(page), 0) != FC_BLOCK_SIZE ||
	    fc_file_enter(&runtime.cache, &file) != FC_OK)
		abort();
	permit = fc_stamp_permit(&runtime.cache, &file);
	stamp = stamp_of_another_process(fd);
	if (fc_stamp_age(&runtime.cache, &permit) != FC_STAMP_PRESENT)
		abort();
	descriptors_hand_in(file.id, &permit, &stamp);
	return counter(FC_COUNT_foreign_changes) > changes;
}

/*
 * A tablespace's file system goes, and another one gets its device number.
 */
static void
test_volumes_of_one_number(void)
{
	int fd;

	mounted = EXT4_SUPER_MAGIC;
	mounted_uuid = 4711;
	fd = lettered_relation(1);
	OK(!is_accused(fd), "processes agree about a file system");
	server_close(fd);
	mounted_uuid = 4712;
	fd = lettered_relation(1);
	OK(!is_accused(fd), "and about another one of the same number");
	server_close(fd);
	mounted = 0;
}

static void
test_volume_that_did_not_answer(void)
{
	struct rlimit files;
	struct rlimit no_files;
	FcStamp stamp;
	int fd;

	mounted = XFS_SUPER_MAGIC;
	mounted_uuid = 4713;
	fd = lettered_relation(0);
	if (getrlimit(RLIMIT_NOFILE, &files) != 0)
		abort();
	no_files = (struct rlimit){ .rlim_cur = 0, .rlim_max = files.rlim_max };
	if (setrlimit(RLIMIT_NOFILE, &no_files) != 0)
		abort();
	OK(!descriptors_stamp(-1, PATH, NULL, &stamp),
	   "while the file system does not answer there is no stamp");
	if (setrlimit(RLIMIT_NOFILE, &files) != 0)
		abort();
	OK(descriptors_stamp(-1, PATH, NULL, &stamp) &&
	       stamp.volume == stamp_of_another_process(fd).volume,
	   "which is not remembered");
	fault = (Fault){ .name = "fstatfs", .fd = fd, .error = EIO };
	OK(!descriptors_stamp(fd, NULL, descriptors_entry(fd), &stamp) &&
	       descriptors_stamp(fd, NULL, descriptors_entry(fd), &stamp),
	   "nor is it of an open file");
	server_close(fd);
	mounted = 0;
}

int
main(void)
{
	set_up();
	test_volumes_of_one_number(); /* while no file's stamps are distrusted */
	test_volume_that_did_not_answer();
	test_short_reads();
	test_run_beyond_a_segment();
	test_run_in_whose_midst_a_block_goes();
	test_hit_that_changes_while_it_is_verified();
	test_writes_that_go_wrong();
	test_hint_bits();
	test_ranges();
	test_names_that_go();
	test_alias_that_is_written();
	test_invalid_blocks();
	test_run_with_an_invalid_block();
	test_what_block_a_page_is();
	test_stamps();
	test_file_system_that_fails(); /* no file gets a stamp from now on */
	test_disk_that_stutters_while_a_hit_is_verified(); /* offline */
	tear_down();
	return tap_done();
}
