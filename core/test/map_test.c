/*
 * map_test.c
 *		The map in the cache file: saved, found again, taken in beside everything else.
 *
 * A life of a cache ends by saving or by a kill; the next one opens the same file with
 * memory of its own.  Relation 7's blocks have a version each and one inode.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <fcntl.h>

#include "fcache/writer.h"
#include "staging.h"
#include "support.h"
#include "tap.h"

#define SLOTS  (4 * FC_WAYS)
#define BLOCKS 100

static const FcIdentity home = {
	.system = 1, .directory_device = 2, .directory_inode = 3, .boot = { 4, 5 }
};

static const FcConfig config = { .slot_count = SLOTS,
	                             .file_count = 64,
	                             .process_count = 8,
	                             .policy = &fc_policy_lfu };

static char path[200];

typedef struct Life
{
	FcDevice device;
	FcCache cache;
	void *memory;
	FcStart start;
} Life;

static Life life;
static FcStamp inode;
static uint64_t disk[BLOCKS];
static FcFile file;

/* ---- lives ---------------------------------------------------------------------- */

static void
begin_as(const FcIdentity *identity)
{
	static uint64_t nonce = 100;

	memset(&life, 0, sizeof(life));
	MUST(fc_device_file_open(&life.device, path, SLOTS, 0) == FC_DEVICE_FINE);
	life.memory = shared_memory(fc_cache_memory_size(&config));
	MUST(fc_cache_create(&life.cache, life.memory, &config, &life.device) ==
	     FC_OK);
	life.start = fc_map_begin(&life.cache, identity);
	MUST(fc_life_begin(&life.cache, identity, ++nonce) == FC_OK);
	MUST(fc_process_begin(&life.cache) == FC_OK);
	MUST(fc_mode_set(&life.cache, FC_SERVE, FC_REASON_NONE) == FC_OK);
	file = fc_file((FcFileId){ 1663, 5, 7, 0, 0 });
}

static void
begin(void)
{
	begin_as(&home);
}

static void
load(void)
{
	while (fc_map_load(&life.cache))
		;
}

static void
kill_life(void)
{
	life.device.ops->close(&life.device);
	fc_cache_close(&life.cache);
	munmap(life.memory, fc_cache_memory_size(&config));
}

static void
flush(void)
{
	if (fc_ring_info(&life.cache).used > 0)
		MUST(fc_writer_flush(&life.cache, 10000000000ULL) == FC_OK);
}

static void
end(void)
{
	flush();
	MUST(fc_map_save(&life.cache) == FC_OK);
	kill_life();
}

static void
enter(void)
{
	FcStampPermit permit;

	if (fc_file_asleep(&life.cache, &file))
		fc_file_wake(&life.cache, &file, &inode);
	MUST(fc_file_enter(&life.cache, &file) == FC_OK);
	permit = fc_stamp_permit(&life.cache, &file);
	fc_stamp_set(&life.cache, &permit, &inode);
}

/* FC_OK: a hit, and true; FC_FAILED: a hit, and wrong. */
static FcStatus
read_block(uint32_t block)
{
	Page page;
	FcTicket ticket;
	FcStatus status;

	enter();
	status = fc_read(&life.cache, &file, block, &page, &ticket);
	if (status == FC_OK)
		return page_is(&page, 7, block, disk[block]) ? FC_OK : FC_FAILED;
	page_make(&page, 7, block, disk[block]);
	(void) fc_fill(&life.cache, &ticket, &page);
	return status;
}

static unsigned
read_all(FcStatus wanted)
{
	unsigned count = 0;

	for (uint32_t block = 0; block < BLOCKS; block++)
	{
		count += read_block(block) == wanted;
		if (fc_ring_info(&life.cache).used >= 16)
			flush();
	}
	flush();
	return count;
}

static void
change(uint32_t first, uint32_t count)
{
	FcChange change;

	if (fc_file_asleep(&life.cache, &file))
		fc_file_wake(&life.cache, &file, &inode);
	fc_change_begin(&life.cache, &file, first, count, &change);
	for (uint32_t i = first; i < BLOCKS && i - first < count; i++)
		disk[i]++;
	inode.changed_ns++;
	fc_change_end(&life.cache, &file, &change);
	fc_stamp_set(&life.cache, &change.permit, &inode);
}

/* A file of its own with everything cached, and a map of that. */
static void
save_full(void)
{
	(void) unlink(path);
	begin();
	(void) read_all(FC_MISS);
	MUST(read_all(FC_OK) == BLOCKS);
	end();
}

/* ---- what is found again ----------------------------------------------------------- */

static void
test_saved_and_found(void)
{
	(void) unlink(path);
	begin();
	OK(life.start == FC_START_NOTHING, "a new file has no map");
	(void) read_all(FC_MISS);
	end();

	begin();
	OK(life.start == FC_START_MAP && fc_used_slots(&life.cache) == 0,
	   "the next start finds the map, and takes no blocks in yet");
	load();
	OK(fc_used_slots(&life.cache) == BLOCKS, "then it does");
	OK(read_all(FC_OK) == BLOCKS, "all blocks are hits, and true");
	OK(fc_counter(&life.cache, FC_COUNT_files_kept) == 1,
	   "their file was compared");
	change(5, 1);
	OK(read_block(5) == FC_MISS && read_block(5) == FC_OK,
	   "they live as others do");
	end();

	begin();
	load();
	end();
	begin();
	load();
	OK(read_all(FC_OK) == BLOCKS,
	   "what slept through a life is found in the one after");
	kill_life();

	begin();
	OK(life.start == FC_START_UNCLEAN, "a map is used once");
	kill_life();
}

/* The server starts anew, after a crash, before its first life had begun. */
static void
test_found_twice_by_one_process(void)
{
	FcDevice device;
	FcCache cache;
	void *memory;

	save_full();
	MUST(fc_device_file_open(&device, path, SLOTS, 0) == FC_DEVICE_FINE);
	for (int time = 0; time < 2; time++)
	{
		memory = shared_memory(fc_cache_memory_size(&config));
		MUST(fc_cache_create(&cache, memory, &config, &device) == FC_OK);
		OK(fc_map_begin(&cache, &home) ==
		       (time == 0 ? FC_START_MAP : FC_START_UNCLEAN),
		   "a map is found once (time %d) by one process", time + 1);
		fc_cache_close(&cache);
		munmap(memory, fc_cache_memory_size(&config));
	}
	device.ops->close(&device);
}

/* Is a life found in two files, when the second one's label is not as it should be? */
static uint64_t
found_with(FcLabel second)
{
	static const FcDeviceOps ops;
	FcDevice devices[2] = {
		{ .ops = &ops,
		  .label = { .whole = true, .position = 0, .count = 2, .nonce = 9 } },
		{ .ops = &ops, .label = second },
	};

	return fc_life_found(devices, 2);
}

static void
test_life_of_two_files(void)
{
	const FcLabel right = {
		.whole = true, .position = 1, .count = 2, .nonce = 9
	};
	FcLabel label = right;

	OK(found_with(right) == 9, "two files of one life are found");
	label.nonce = 8;
	OK(found_with(label) == 0, "two of different lives are not");
	label = right;
	label.position = 0;
	OK(found_with(label) == 0, "nor two in another order");
	label = right;
	label.count = 3;
	OK(found_with(label) == 0, "nor two of three");
	label = right;
	label.whole = false;
	OK(found_with(label) == 0, "nor one, and one that is damaged");
}

static void
test_not_ours(void)
{
	FcIdentity other = home;
	int fd;

	save_full();
	other.system++;
	begin_as(&other);
	OK(life.start == FC_START_SYSTEM, "another cluster's map is refused");
	kill_life();

	save_full();
	other = home;
	other.directory_inode++;
	begin_as(&other);
	OK(life.start == FC_START_DIRECTORY,
	   "another data directory's map is refused");
	kill_life();

	save_full();
	fd = open(path, O_RDWR);
	MUST(pwrite(fd, "x", 1, 12) == 1);
	close(fd);
	begin();
	OK(life.start == FC_START_CORRUPT, "a damaged superblock is refused");
	kill_life();

	save_full();
	inode.changed_ns++;
	begin();
	load();
	disk[3]++;
	OK(read_all(FC_FAILED) == 0 &&
	       fc_counter(&life.cache, FC_COUNT_files_dropped) == 1,
	   "of a file that was changed meanwhile nothing counts");
	kill_life();
}

/* ---- while it is taken in ------------------------------------------------------------- */

static void
change_one(void)
{
	change(3, 1);
}

static void
change_each(void)
{
	for (uint32_t block = 0; block < BLOCKS; block++)
		change(block, 1);
}

static void
change_all(void)
{
	change(0, FC_BLOCKS_ALL);
}

static void
drop_file(void)
{
	fc_file_retire(&life.cache, file.id);
	for (uint32_t i = 0; i < BLOCKS; i++)
		disk[i]++;
	inode.inode++;
	fc_file_retire(&life.cache, file.id);
}

static void
clear(void)
{
	fc_change_all_begin(&life.cache);
	for (uint32_t i = 0; i < BLOCKS; i++)
		disk[i]++;
	fc_change_all_end(&life.cache);
}

static const char *stop_name;
static void (*stop_act)(void);

static void
on_point(const char *name)
{
	if (stop_act != NULL && strcmp(name, stop_name) == 0)
	{
		void (*act)(void) = stop_act;

		stop_act = NULL;
		act();
	}
}

/* Wrong blocks if something happens before, at a point of, or after taking in. */
static unsigned
wrong_with(const char *point, void (*act)(void), uint64_t broken)
{
	unsigned wrong;

	save_full();
	begin();
	fc_test_broken = broken;
	stop_name = point;
	stop_act = act;
	if (strcmp(point, "before") == 0)
		on_point("before");
	load();
	if (strcmp(point, "after") == 0)
		on_point("after");
	MUST(stop_act == NULL);
	wrong = read_all(FC_FAILED);
	fc_test_broken = 0;
	kill_life();
	return wrong;
}

static void
test_changes_meanwhile(void)
{
	static const char *const points[] = { "before", "record-claimed",
		                                  "record-compared", "after" };
	static const struct
	{
		const char *name;
		void (*act)(void);
	} acts[] = { { "a block changes", change_one },
		         { "every block changes", change_each },
		         { "a file is cut off", change_all },
		         { "a file is dropped", drop_file },
		         { "all is cleared", clear } };

	for (size_t i = 0; i < sizeof(acts) / sizeof(acts[0]); i++)
		for (size_t j = 0; j < sizeof(points) / sizeof(points[0]); j++)
			OK(wrong_with(points[j], acts[i].act, 0) == 0, "%s: %s",
			   acts[i].name, points[j]);

	OK(wrong_with("before", change_one, FC_BREAK_SET_GENERATION) > 0,
	   "control: without the set's generation a changed block is stale");
	OK(wrong_with("before", change_all, FC_BREAK_FILE_GENERATION) > 0,
	   "control: without the file's generation a file cut off is stale");
	OK(wrong_with("record-compared", change_each, FC_BREAK_DOOM) > 0,
	   "control: claims that are not doomed are published stale");
}

/* Reads of before a record is taken in do not take the room of what it holds. */
static void
test_reads_meanwhile(void)
{
	FcFile other = fc_file((FcFileId){ 1663, 5, 8, 0, 0 });

	save_full();
	begin();
	MUST(fc_file_enter(&life.cache, &other) == FC_OK);
	for (uint32_t block = 0; block < BLOCKS; block++)
	{
		Page page;
		FcTicket ticket;

		MUST(fc_read(&life.cache, &other, block, &page, &ticket) == FC_MISS);
		page_make(&page, 8, block, 1);
		(void) fc_fill(&life.cache, &ticket, &page);
		flush();
	}
	load();
	OK(read_all(FC_OK) == BLOCKS,
	   "what is read before the map is taken in displaces nothing of it");
	kill_life();

	save_full();
	begin();
	MUST(read_all(FC_MISS) == BLOCKS);
	load();
	OK(fc_used_slots(&life.cache) == BLOCKS && read_all(FC_OK) == BLOCKS,
	   "and what the map has is not cached twice");
	kill_life();
}

/* A set that was changed gets nothing of the map, so it may be filled at once. */
static void
test_fills_of_changed_sets(void)
{
	save_full();
	begin();
	for (uint32_t block = 0; block < BLOCKS; block++)
		change(block, 1);
	MUST(read_all(FC_MISS) == BLOCKS);
	OK(read_all(FC_OK) == BLOCKS, "sets that were changed are filled at once");
	load();
	OK(fc_used_slots(&life.cache) == BLOCKS && read_all(FC_OK) == BLOCKS,
	   "and the map adds nothing to them");
	kill_life();
}

/* A number that the map does not know is no file of the map, however it is used. */
static void
test_numbers_of_this_life(void)
{
	FcChange change_of;
	unsigned wrong = 0;

	(void) unlink(path);
	begin();
	(void) read_all(FC_MISS);
	fc_file_distrust(&life.cache, &file);
	(void) read_all(FC_MISS);
	MUST(read_all(FC_OK) == BLOCKS);
	end();

	begin();
	MUST(fc_file_enter(&life.cache, &file) == FC_OK);
	fc_change_begin(&life.cache, &file, 200, FC_BLOCKS_ALL, &change_of);
	fc_change_end(&life.cache, &file, &change_of);
	for (uint32_t i = 0; i < BLOCKS; i++)
		disk[i]++;
	load();
	OK(fc_used_slots(&life.cache) == 0,
	   "blocks of a file that failed are not taken in for its next number");
	wrong = read_all(FC_FAILED);
	OK(wrong == 0, "so none is wrong");
	kill_life();
}

/* The map holds what is on flash and what the policy knows, and nothing else. */
static void
test_ring_begins_empty(void)
{
	uint32_t used = 0;

	(void) unlink(path);
	begin();
	(void) read_all(FC_MISS);

	/* A device that has stalled: a block stays in the ring. */
	change(5, 1);
	(void) read_block(5);
	MUST(fc_ring_info(&life.cache).used == 1);
	MUST(fc_map_save(&life.cache) == FC_OK);
	kill_life();

	begin();
	MUST(life.start == FC_START_MAP);
	for (uint32_t i = 0; i < life.cache.shared->ring_count; i++)
		used += atomic_load(&fc_staged_page(life.cache.shared, i)->word) != 0;
	OK(used == 0, "the staging ring of a new life is empty: %u pages are not",
	   used);
	load();
	OK(read_block(5) == FC_MISS, "what had not got to flash is not there");
	kill_life();
}

/* Whoever waits for a device that hangs waits for ever. */
static void
test_device_that_hangs(void)
{
	FcAtomic32 *state;
	off_t size;

	(void) unlink(path);
	begin();
	(void) read_all(FC_MISS);
	state = &life.cache.shared->health[0].state;
	size = lseek(life.device.fd, 0, SEEK_END);
	atomic_store(state, FC_DEVICE_STALLED);
	OK(fc_map_save(&life.cache) == FC_FAILED && errno == EBUSY &&
	       lseek(life.device.fd, 0, SEEK_END) == size,
	   "no map is saved on a device that hangs");
	atomic_store(state, FC_DEVICE_WRITE_FAILS);
	OK(fc_map_save(&life.cache) == FC_FAILED, "... or fails");
	kill_life();
	begin();
	OK(life.start == FC_START_UNCLEAN, "and nobody finds one");
	atomic_store(&life.cache.shared->health[0].state, FC_DEVICE_SLOW);
	OK(fc_map_save(&life.cache) == FC_OK, "a slow one has the time");
	kill_life();
}

/*
 * A set that holds nothing is not written: its record in the map of the life before
 * stays where it was.
 */
static unsigned
wrong_of_a_map_before_the_last(uint64_t broken)
{
	unsigned wrong;

	save_full();
	begin();
	load();
	change_all();
	enter();
	MUST(fc_used_slots(&life.cache) == 0);
	end();
	begin();
	MUST(life.start == FC_START_MAP);
	fc_test_broken = broken;
	load();
	wrong = read_all(FC_FAILED);
	fc_test_broken = 0;
	kill_life();
	return wrong;
}

static void
test_records_of_an_earlier_map(void)
{
	OK(wrong_of_a_map_before_the_last(0) == 0,
	   "records of an earlier map are left out");
	OK(wrong_of_a_map_before_the_last(FC_BREAK_NONCE) > 0,
	   "control: without their life's nonce they are stale");
}

static void
test_what_is_not_saved(void)
{
	begin();
	(void) read_all(FC_MISS);
	flush();
	fc_change_all_begin(&life.cache);
	OK(fc_map_save(&life.cache) == FC_SKIP,
	   "there is no map while nobody knows what is changed, or may have "
	   "failed");
	fc_change_all_end(&life.cache);
	atomic_store(&life.cache.shared->audit_wanted, 1);
	OK(fc_map_save(&life.cache) == FC_SKIP,
	   "... of memory that has yet to be audited");
	atomic_store(&life.cache.shared->audit_wanted, 0);
	MUST(fc_resize_begin(&life.cache, SLOTS / 2) == FC_OK);
	OK(fc_map_save(&life.cache) == FC_SKIP, "... while the size changes");
	while (fc_resize_step(&life.cache, 1))
		;
	MUST(fc_mode_set(&life.cache, FC_OFFLINE, FC_REASON_USER) == FC_OK);
	OK(fc_map_save(&life.cache) == FC_SKIP, "... when changes went by unseen");
	kill_life();
}

/* Nor is a file that somebody was changing at the end, who was killed. */
static void
test_file_in_flight(void)
{
	FcChange change;

	save_full();
	begin();
	load();
	enter();
	fc_change_begin(&life.cache, &file, 5, 1, &change);
	end();
	begin();
	OK(life.start == FC_START_MAP && !fc_file_asleep(&life.cache, &file),
	   "a file with a change in flight is not in the map");
	kill_life();
}

static void
test_torn_records(void)
{
	unsigned char junk[16];
	int fd;

	save_full();
	fd = open(path, O_RDWR);
	for (off_t at = FC_SLOTS_OFFSET + (off_t) SLOTS * FC_BLOCK_SIZE + 100;
	     at < FC_SLOTS_OFFSET + (off_t) SLOTS * FC_BLOCK_SIZE + 4096;
	     at += 1000)
	{
		MUST(pread(fd, junk, sizeof(junk), at) == sizeof(junk));
		junk[3] ^= 1;
		MUST(pwrite(fd, junk, sizeof(junk), at) == sizeof(junk));
	}
	close(fd);
	begin();
	load();
	OK(life.start == FC_START_MAP && fc_used_slots(&life.cache) < BLOCKS &&
	       read_all(FC_FAILED) == 0,
	   "records that are torn are left out");
	kill_life();

	/* The files lie behind 1 MB of records. */
	save_full();
	fd = open(path, O_RDWR);
	MUST(pwrite(fd, "x", 1,
	            FC_SLOTS_OFFSET + (off_t) SLOTS * FC_BLOCK_SIZE + (1 << 20) +
	                60) == 1);
	close(fd);
	begin();
	OK(life.start == FC_START_CORRUPT, "a damaged list of files is refused");
	kill_life();
}

int
main(void)
{
	int fd;

	tap_scratch(path, sizeof(path), "pgflash-map", true);
	fd = mkstemp(path);

	MUST(fd >= 0);
	close(fd);
	alarm(120);
	fc_test_point = on_point;
	inode = (FcStamp){ .device = 8, .inode = 9, .size = 10, .changed_ns = 1 };
	test_saved_and_found();
	test_found_twice_by_one_process();
	test_life_of_two_files();
	test_not_ours();
	test_changes_meanwhile();
	test_reads_meanwhile();
	test_fills_of_changed_sets();
	test_numbers_of_this_life();
	test_records_of_an_earlier_map();
	test_what_is_not_saved();
	test_file_in_flight();
	test_torn_records();
	test_ring_begins_empty();
	test_device_that_hangs();
	(void) unlink(path);
	return tap_done();
}
