/*
 * map_lives.h
 *		Lives of a cache with one file, for tests of the map.
 *
 * A life of a cache ends by saving or by a kill; the next one opens the same
 * file with memory of its own.  Each of relation 7's blocks has a version, and
 * all have one inode.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef MAP_LIVES_H
#define MAP_LIVES_H

#include "fcache/writer.h"
#include "support.h"
#include "tap.h"

#define SLOTS  (4 * FC_WAYS)
#define BLOCKS 100

static const FcIdentity home = {
	.system = 1,
	.directory_volume = 2,
	.directory_inode = 3,
	.boot = { 4, 5 },
	.checkpoint = { .location = 6, .time = 7, .timeline = 8, .crc = 9 }
};

static const FcConfig config = { .slot_count = SLOTS,
	                             .file_count = 64,
	                             .process_count = 8,
	                             .replacement = &fc_replacement_lfu };

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

static void
begin_as(const FcIdentity *identity)
{
	static uint64_t nonce = 100;

	memset(&life, 0, sizeof(life));
	MUST(fc_device_file_open(&life.device, path, SLOTS, 0) == FC_DEVICE_FINE);
	life.memory = shared_memory(fc_cache_memory_needed(&config));
	MUST(fc_cache_create(&life.cache, life.memory, &config, &life.device) ==
	     FC_OK);
	life.start = fc_map_load_begin(&life.cache, identity);
	MUST(fc_life_begin(&life.cache, identity, ++nonce) == FC_OK);
	MUST(fc_process_begin(&life.cache) == FC_OK);
	MUST(fc_mode_set(&life.cache, FC_SERVE, FC_REASON_NONE) == FC_OK);
	file = fc_file((FcFileId){ 1663, 5, 7, 0, 0 });
}

UNUSED static void
begin(void)
{
	begin_as(&home);
}

UNUSED static void
load(void)
{
	while (fc_map_load(&life.cache))
		;
}

UNUSED static void
kill_life(void)
{
	life.device.ops->close(&life.device);
	fc_cache_close(&life.cache);
	munmap(life.memory, fc_cache_memory_needed(&config));
}

UNUSED static void
flush(void)
{
	if (fc_writer_ring_info(&life.cache).used > 0)
		MUST(fc_writer_flush(&life.cache, 60000000000ULL) == FC_OK);
}

UNUSED static void
end(void)
{
	flush();
	MUST(fc_map_save(&life.cache, &home.checkpoint) == FC_OK);
	kill_life();
}

UNUSED static void
enter(void)
{
	FcStampPermit permit;

	if (fc_stamp_asleep(&life.cache, &file))
		fc_stamp_wake(&life.cache, &file, &inode);
	MUST(fc_file_enter(&life.cache, &file) == FC_OK);
	permit = fc_stamp_permit(&life.cache, &file);
	(void) fc_stamp_set(&life.cache, &permit, &inode);
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

UNUSED static unsigned
read_all(FcStatus wanted)
{
	unsigned count = 0;

	for (uint32_t block = 0; block < BLOCKS; block++)
	{
		count += read_block(block) == wanted;
		if (fc_writer_ring_info(&life.cache).used ==
		    fc_writer_ring_info(&life.cache).pages)
			flush();
	}
	flush();
	return count;
}

UNUSED static void
change(uint32_t first, uint32_t count)
{
	FcChange change;

	if (fc_stamp_asleep(&life.cache, &file))
		fc_stamp_wake(&life.cache, &file, &inode);
	fc_change_begin(&life.cache, &file, first, count, &change);
	for (uint32_t i = first; i < BLOCKS && i - first < count; i++)
		disk[i]++;
	inode.changed_ns++;
	fc_change_end(&life.cache, &file, &change);
	(void) fc_stamp_set(&life.cache, &change.permit, &inode);
}

/* A file of its own, with everything cached, and a saved map. */
UNUSED static void
save_full(void)
{
	(void) unlink(path);
	begin();
	(void) read_all(FC_MISS);
	MUST(read_all(FC_OK) == BLOCKS);
	end();
}

/* The cache file that the lives share; main() unlinks it. */
static void
make_file(const char *name)
{
	int fd;

	tap_scratch(path, sizeof(path), name, true);
	fd = mkstemp(path);
	MUST(fd >= 0);
	close(fd);
	inode = (FcStamp){ .volume = 8, .inode = 9, .size = 10, .changed_ns = 1 };
}

#endif
