/*
 * map_test.c
 *		The map in the cache file: what is saved, what is found again, and what
 *		is not.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <fcntl.h>

#include "map.h"
#include "map_lives.h"
#include "ondisk.h"
#include "process.h"
#include "staging.h"
#include "superblock.h"

/* ---- what is found again ------------------------------------------------- */

static void
test_saved_and_found(void)
{
	(void) unlink(path);
	begin();
	OK(life.start == FC_START_NOTHING, "a new file has no map");
	(void) read_all(FC_MISS);
	end();

	begin();
	OK(life.start == FC_START_MAP && fc_file_used_slots(&life.cache) == 0,
	   "the next start finds the map, and takes no blocks in yet");
	load();
	OK(fc_file_used_slots(&life.cache) == BLOCKS, "then it does");
	OK(read_all(FC_OK) == BLOCKS, "all blocks are hits, and true");
	OK(fc_count_sum(&life.cache, FC_COUNT_files_kept) == 1,
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

/* The server is restarted after a crash, before its first life had begun. */
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
		memory = shared_memory(fc_cache_memory_needed(&config));
		MUST(fc_cache_create(&cache, memory, &config, &device) == FC_OK);
		OK(fc_map_load_begin(&cache, &home) ==
		       (time == 0 ? FC_START_MAP : FC_START_UNCLEAN),
		   "a map is found once (time %d) by one process", time + 1);
		fc_cache_close(&cache);
		munmap(memory, fc_cache_memory_needed(&config));
	}
	device.ops->close(&device);
}

/* Is a life found in two files if the second one's label is wrong? */
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

/*
 * The cluster has run since, without the cache, as any of its four values
 * shows.
 */
static void
test_lived_on(void)
{
	for (int value = 0; value < 4; value++)
	{
		FcIdentity later = home;

		later.checkpoint.location += value == 0;
		later.checkpoint.time += value == 1;
		later.checkpoint.timeline += value == 2;
		later.checkpoint.crc += value == 3;
		save_full();
		begin_as(&later);
		OK(life.start == FC_START_CHECKPOINT,
		   "a map of another checkpoint is refused (value %d)", value);
		kill_life();

		save_full();
		fc_test_broken = FC_BREAK(CHECKPOINT);
		begin_as(&later);
		OK(life.start == FC_START_MAP, "... which is that comparison's doing");
		fc_test_broken = 0;
		kill_life();
	}
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
	other = home;
	other.directory_volume++;
	begin_as(&other);
	OK(life.start == FC_START_DIRECTORY, "one's of the same inode, too");
	kill_life();

	test_lived_on();

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
	       fc_count_sum(&life.cache, FC_COUNT_files_dropped) == 1,
	   "of a file that was changed meanwhile nothing counts");
	kill_life();
}

/* For a copy that was written back, or a write that never arrived. */
static void
test_files_of_an_earlier_map(void)
{
	static unsigned char files[65536];
	off_t at = FC_SLOTS_OFFSET + (off_t) SLOTS * FC_BLOCK_SIZE + (1 << 20);
	ssize_t size;
	int fd;

	save_full();
	fd = open(path, O_RDWR);
	size = pread(fd, files, sizeof(files), at);
	begin();
	load();
	end();
	MUST(size > 0 && pwrite(fd, files, (size_t) size, at) == size);
	close(fd);
	begin();
	OK(life.start == FC_START_CORRUPT,
	   "an earlier map's list of files is refused");
	kill_life();
}

static void
test_every_byte_of_a_superblock(void)
{
	FcLabel label;
	unsigned believed = 0;
	int fd;

	save_full();
	fd = open(path, O_RDWR);
	fc_superblock_read(fd, &label);
	MUST(label.whole && label.clean);
	for (off_t at = 0; at < (off_t) sizeof(FcDiskSuperblock); at++)
	{
		unsigned char byte;

		MUST(pread(fd, &byte, 1, at) == 1);
		byte ^= 1;
		MUST(pwrite(fd, &byte, 1, at) == 1);
		fc_superblock_read(fd, &label);
		believed += label.whole;
		byte ^= 1;
		MUST(pwrite(fd, &byte, 1, at) == 1);
	}
	close(fd);
	OK(believed == 0, "a superblock is believed if each of its bytes is right");
}

static void
test_life_that_cannot_be_marked(void)
{
	int fd;

	(void) unlink(path);
	begin();
	(void) read_all(FC_MISS);
	fd = life.device.fd;
	life.device.fd = open(path, O_RDONLY);
	OK(fc_life_begin(&life.cache, &home, 4711) == FC_FAILED,
	   "a life begins only if the cache file says so");
	close(life.device.fd);
	life.device.fd = fd;
	OK(fc_map_save(&life.cache, &home.checkpoint) == FC_SKIP,
	   "or has no map at its end");
	kill_life();
}

/* Begin as a server does: no process takes part yet. */
static void
begin_alone(void)
{
	begin();
	atomic_store(&fc_processes(life.cache.shared)[life.cache.process].word, 0);
	life.cache.token = 0;
}

static void
test_life_that_comes_to_nothing(void)
{
	FcChange change_of;

	(void) unlink(path);
	begin_alone();
	OK(fc_map_load_leave(&life.cache) == FC_SKIP,
	   "a life that found no map leaves none");
	kill_life();
	begin();
	(void) read_all(FC_MISS);
	end();

	begin_alone();
	OK(fc_map_load_leave(&life.cache) == FC_OK,
	   "one that nobody used leaves it");
	kill_life();
	begin_alone();
	OK(life.start == FC_START_MAP && fc_map_load_leave(&life.cache) == FC_OK,
	   "... to the next, which may come to nothing, too");
	kill_life();
	begin();
	load();
	OK(life.start == FC_START_MAP && read_all(FC_OK) == BLOCKS,
	   "... and in the end all of it is there");
	end();

	begin();
	OK(fc_map_load_leave(&life.cache) == FC_SKIP,
	   "one in which a process took part leaves nothing");
	end();
	begin_alone();
	fc_change_begin(&life.cache, &file, 3, 1, &change_of);
	fc_change_end(&life.cache, &file, &change_of);
	OK(fc_map_load_leave(&life.cache) == FC_SKIP,
	   "... nor one that changed a file");
	end();
	begin_alone();
	fc_change_all_begin(&life.cache);
	fc_change_all_end(&life.cache);
	OK(fc_map_load_leave(&life.cache) == FC_SKIP, "... or any file");
	end();
	begin_alone();
	MUST(fc_mode_set(&life.cache, FC_OFFLINE, FC_REASON_HOST) == FC_OK);
	OK(fc_map_load_leave(&life.cache) == FC_SKIP,
	   "... nor one whose changes may have gone by unseen");
	kill_life();
	begin();
	(void) read_all(FC_MISS);
	end();
	begin();
	load();
	atomic_store(&fc_processes(life.cache.shared)[life.cache.process].word, 0);
	OK(fc_map_load_leave(&life.cache) == FC_SKIP,
	   "... or has begun to take it in");
	kill_life();
}

/* ---- what is saved ------------------------------------------------------- */

/*
 * The map holds what is on flash and what the policy knows, and nothing else.
 */
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
	MUST(fc_writer_ring_info(&life.cache).used == 1);
	MUST(fc_map_save(&life.cache, &home.checkpoint) == FC_OK);
	kill_life();

	begin();
	MUST(life.start == FC_START_MAP);
	for (uint32_t i = 0; i < life.cache.shared->ring_count; i++)
		used += atomic_load(&fc_staged_page(life.cache.shared, i)->word) != 0;
	OK(used == 0, "the staging ring of a new life is empty: %u pages are not",
	   used);
	load();
	OK(read_block(5) == FC_MISS &&
	       fc_count_sum(&life.cache, FC_COUNT_corrupt_slots) == 0,
	   "what had not got to flash is not there");
	kill_life();
}

/* Waiting for a device that hangs would last for ever. */
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
	OK(fc_map_save(&life.cache, &home.checkpoint) == FC_FAILED &&
	       errno == EBUSY && lseek(life.device.fd, 0, SEEK_END) == size,
	   "no map is saved on a device that hangs");
	atomic_store(state, FC_DEVICE_WRITE_FAILS);
	OK(fc_map_save(&life.cache, &home.checkpoint) == FC_FAILED, "... or fails");
	kill_life();
	begin();
	OK(life.start == FC_START_UNCLEAN, "and nobody finds one");
	atomic_store(&life.cache.shared->health[0].state, FC_DEVICE_SLOW);
	OK(fc_map_save(&life.cache, &home.checkpoint) == FC_OK,
	   "a slow one has the time");
	kill_life();
}

static void
test_what_is_not_saved(void)
{
	begin();
	(void) read_all(FC_MISS);
	flush();
	fc_change_all_begin(&life.cache);
	OK(fc_map_save(&life.cache, &home.checkpoint) == FC_SKIP,
	   "there is no map while nobody knows what is changed, or may have "
	   "failed");
	fc_change_all_end(&life.cache);
	atomic_store(&life.cache.shared->audit_wanted, 1);
	OK(fc_map_save(&life.cache, &home.checkpoint) == FC_SKIP,
	   "... of memory that has yet to be audited");
	atomic_store(&life.cache.shared->audit_wanted, 0);
	MUST(!fc_map_unsynced(&life.cache));
	fc_map_unsynced_set(&life.cache);
	OK(fc_map_unsynced(&life.cache) &&
	       fc_map_save(&life.cache, &home.checkpoint) == FC_SKIP,
	   "... of files that were not synced");
	atomic_store(&life.cache.shared->unsynced, 0);
	MUST(fc_resize_begin(&life.cache, SLOTS / 2) == FC_OK);
	OK(fc_map_save(&life.cache, &home.checkpoint) == FC_SKIP,
	   "... while the size changes");
	while (fc_resize_step(&life.cache, 1))
		;
	MUST(fc_mode_set(&life.cache, FC_OFFLINE, FC_REASON_USER) == FC_OK);
	OK(fc_map_save(&life.cache, &home.checkpoint) == FC_SKIP,
	   "... when changes went by unseen");
	kill_life();
}

/* Nor is a file kept that a killed process was changing at the end. */
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
	OK(life.start == FC_START_MAP && !fc_stamp_asleep(&life.cache, &file),
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
	OK(life.start == FC_START_MAP && fc_file_used_slots(&life.cache) < BLOCKS &&
	       read_all(FC_FAILED) == 0,
	   "records that are torn are left out");
	kill_life();

	/* The files follow 1 MB of records. */
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

/* A chunk has room left that is too small for a record. */
static void
test_files_begin_after_the_records(void)
{
	FcConfig large = { .file_count = 64,
		               .process_count = 8,
		               .replacement = &fc_replacement_gittins };
	uint32_t per_chunk = 0;

	for (uint32_t chunks = 1; chunks <= 12; chunks++)
	{
		off_t end;
		Rig rig;

		/* The first only tells how many records a chunk has. */
		large.slot_count = (chunks * per_chunk + 1) * FC_WAYS;
		rig_open_with(&rig, &large);
		end = fc_map_records_begin(rig.cache.shared) +
		      (off_t) (chunks + (per_chunk > 0)) * FC_MAP_CHUNK;
		per_chunk = fc_map_records_per_chunk(rig.cache.shared);
		MUST(per_chunk > 1 &&
		     per_chunk * fc_map_record_size(rig.cache.shared) <= FC_MAP_CHUNK);
		OK(fc_map_files_begin(rig.cache.shared) == end,
		   "one record more than %u chunks have takes a chunk", chunks);
		rig_close(&rig);
	}
}

int
main(void)
{
	alarm(900);
	make_file("pgflash-map");
	test_saved_and_found();
	test_found_twice_by_one_process();
	test_life_of_two_files();
	test_not_ours();
	test_files_of_an_earlier_map();
	test_every_byte_of_a_superblock();
	test_life_that_cannot_be_marked();
	test_life_that_comes_to_nothing();
	test_what_is_not_saved();
	test_file_in_flight();
	test_torn_records();
	test_files_begin_after_the_records();
	test_ring_begins_empty();
	test_device_that_hangs();
	(void) unlink(path);
	return tap_done();
}
