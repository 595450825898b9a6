/*
 * devices_test.c
 *		A cache striped over several devices: every slot in its own place, and a
 *		device that is missing or dies costs its share and nothing else.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "devices.h"
#include "read.h"
#include "support.h"
#include "tap.h"

#define SETS_OF_EACH 4
#define SLOTS        (SETS_OF_EACH * FC_WAYS)
#define BLOCKS       500
#define MS           1000000ULL
#define SECOND       (1000 * MS)

static MemoryDevice flash[FC_DEVICES_MAX];
static FcDevice devices[FC_DEVICES_MAX];
static FcCache cache;
static void *memory;
static size_t memory_size;
static FcFile file;
static Page page;
static FcTicket ticket;

static void
begin(uint32_t count, uint32_t missing)
{
	FcConfig config = { .slot_count = count * SLOTS,
		                .device_count = count,
		                .process_count = 8,
		                .replacement = &fc_replacement_lfu };

	for (uint32_t i = 0; i < count; i++)
	{
		memory_device_open(&flash[i], SLOTS);
		devices[i] = flash[i].device;
		if (i == missing)
			devices[i].ops = NULL;
	}
	memory_size = fc_cache_memory_needed(&config);
	memory = shared_memory(memory_size);
	MUST(fc_cache_create(&cache, memory, &config, devices) == FC_OK);
	MUST(fc_mode_set(&cache, FC_SERVE, FC_REASON_NONE) == FC_OK);
	file = fc_file(file_id(7));
	MUST(fc_file_enter(&cache, &file) == FC_OK);
}

static void
end(uint32_t count)
{
	fc_cache_close(&cache);
	munmap(memory, memory_size);
	for (uint32_t i = 0; i < count; i++)
		munmap(flash[i].bytes, flash[i].size);
}

/* Fill every block that misses; how many fills were taken? */
static unsigned
fill_all(void)
{
	unsigned filled = 0;

	for (uint32_t block = 0; block < BLOCKS; block++)
	{
		if (fc_read(&cache, &file, block, &page, &ticket) != FC_MISS)
			continue;
		page_make(&page, 7, block, 1);
		filled += fc_fill(&cache, &ticket, &page) == FC_OK;
		MUST(fc_writer_flush(&cache, FLUSH_NS) == FC_OK);
	}
	return filled;
}

/* How many blocks are hits?  All of them have to be right. */
static unsigned
hits(void)
{
	unsigned count = 0;

	for (uint32_t block = 0; block < BLOCKS; block++)
	{
		FcStatus status = fc_read(&cache, &file, block, &page, &ticket);

		MUST(status != FC_OK || page_is(&page, 7, block, 1));
		count += status == FC_OK;
	}
	return count;
}

static uint64_t
blocks_of_device(uint32_t device)
{
	uint64_t count = 0;

	for (uint32_t block = 0; block < BLOCKS; block++)
		count += fc_index_set_of(cache.shared, fc_key(file.number, block)) %
		             fc_devices_count(&cache) ==
		         device;
	return count;
}

/* ---- places -------------------------------------------------------------- */

static void
test_places(void)
{
	const uint32_t counts[] = { 1, 2, 3, 16 };

	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
	{
		static bool taken[FC_DEVICES_MAX][SLOTS];
		bool good = true;

		memset(taken, 0, sizeof(taken));
		begin(counts[i], FC_DEVICES_MAX);
		for (uint32_t slot = 0; slot < counts[i] * SLOTS; slot++)
		{
			FcDevice *device;
			off_t offset;

			fc_devices_place_of_slot(&cache, slot, &device, &offset);

			uint32_t number = (uint32_t) (device - devices);
			uint32_t place =
				(uint32_t) ((offset - FC_SLOTS_OFFSET) / FC_BLOCK_SIZE);

			good = good && number < counts[i] && place < SLOTS &&
			       offset >= FC_SLOTS_OFFSET && offset % FC_BLOCK_SIZE == 0 &&
			       !taken[number][place];
			if (good)
				taken[number][place] = true;
		}
		OK(good, "%u devices: each slot has a place of its own", counts[i]);
		end(counts[i]);
	}
}

static void
test_striped(void)
{
	FcDeviceInfo info[4];
	unsigned filled;

	begin(4, FC_DEVICES_MAX);
	filled = fill_all();
	OK(filled == BLOCKS && hits() == BLOCKS, "what is filled is served");

	bool even = true;
	bool counted = true;
	uint64_t writes = 0;

	for (uint32_t i = 0; i < 4; i++)
	{
		uint64_t own = blocks_of_device(i);

		fc_devices_info(&cache, i, &info[i]);
		even = even && own > BLOCKS / 8;
		counted = counted && info[i].writes == own &&
		          info[i].write_bytes == own * FC_BLOCK_SIZE &&
		          info[i].reads == own &&
		          info[i].read_bytes == own * FC_BLOCK_SIZE &&
		          flash[i].reads == own && flash[i].writes == own;
		writes += info[i].writes;
	}
	OK(even, "each device has its share");
	OK(counted, "what each has done is counted for it");
	OK(fc_count_sum(&cache, FC_COUNT_flash_writes) == writes &&
	       fc_count_sum(&cache, FC_COUNT_flash_read_bytes) ==
	           BLOCKS * FC_BLOCK_SIZE,
	   "the cache's counters are the sums");
	end(4);
}

/* ---- a missing device ---------------------------------------------------- */

static void
test_missing(void)
{
	FcDeviceInfo info;

	begin(4, 2);

	unsigned others = BLOCKS - (unsigned) blocks_of_device(2);

	OK(fill_all() == others && hits() == others,
	   "without one device its share is missing, and nothing else");
	OK(fc_count_sum(&cache, FC_COUNT_insert_skip_device) == BLOCKS - others,
	   "fills that are not made for it are counted");
	fc_devices_info(&cache, 2, &info);
	OK(info.state == FC_DEVICE_ABSENT && info.reads == 0 && info.writes == 0,
	   "the missing one is never asked");
	OK(fc_mode(&cache, NULL) == FC_SERVE, "the cache serves");
	end(4);
}

/* Read until nothing more changes. */
static void
read_often(void)
{
	for (int i = 0; i < 40; i++)
	{
		(void) fill_all();
		(void) hits();
	}
}

static void
test_dies(void)
{
	static const struct
	{
		const char *name;
		Fault read;
		Fault write;
		FcDeviceState state;
	} deaths[] = {
		{ "fails to read", FAULT_EIO, FAULT_NONE, FC_DEVICE_READ_FAILS },
		{ "fails to write", FAULT_EIO, FAULT_EIO, FC_DEVICE_WRITE_FAILS },
		{ "gives rubbish", FAULT_FLIP, FAULT_NONE, FC_DEVICE_CORRUPTS },
	};

	for (size_t i = 0; i < sizeof(deaths) / sizeof(deaths[0]); i++)
	{
		FcDeviceInfo info;
		unsigned reads;
		unsigned writes;

		begin(4, FC_DEVICES_MAX);

		unsigned others = BLOCKS - (unsigned) blocks_of_device(1);

		/* A bad write shows only where nothing was read before it. */
		if (deaths[i].write == FAULT_NONE)
			(void) fill_all();
		flash[1].fault_stays = true;
		flash[1].read_fault = deaths[i].read;
		flash[1].write_fault = deaths[i].write;
		read_often();
		fc_devices_info(&cache, 1, &info);
		OK(info.state == deaths[i].state, "a device that %s is out of use",
		   deaths[i].name);
		OK(hits() == others && fc_mode(&cache, NULL) == FC_SERVE,
		   "the others serve what they have");

		reads = flash[1].reads;
		writes = flash[1].writes;
		read_often();
		OK(flash[1].reads == reads && flash[1].writes == writes,
		   "and it is left alone");

		/*
		 * The dead device's blocks must not come back stale, so changes go on.
		 */
		uint64_t key = fc_key(file.number, 0);
		FcSeen seen;
		bool gone = true;

		for (uint32_t block = 0; block < BLOCKS; block++)
		{
			change_blocks(&cache, &file, block, 1);
			key = fc_key(file.number, block);
			gone = gone && !fc_index_find(cache.shared, key, &seen);
		}
		OK(gone, "changes are announced to its share as well");
		end(4);
	}
}

static void
test_all_die(void)
{
	FcReason reason;

	begin(3, 0);
	(void) fill_all();
	flash[1].fault_stays = flash[2].fault_stays = true;
	flash[1].read_fault = FAULT_EIO;
	read_often();
	OK(fc_mode(&cache, NULL) == FC_SERVE, "one of two is left: it serves");
	flash[2].read_fault = FAULT_EIO;
	read_often();
	OK(fc_mode(&cache, &reason) == FC_OFFLINE &&
	       reason == FC_REASON_READ_ERRORS,
	   "none is left: the cache is offline, with the last one's reason");
	end(3);
}

static void
test_hangs(void)
{
	FcTicket tickets[FC_RUN_BLOCKS_MAX];
	FcStatus status[FC_RUN_BLOCKS_MAX];
	static Page pages[FC_RUN_BLOCKS_MAX];
	void *into[FC_RUN_BLOCKS_MAX];
	unsigned good = 0;
	unsigned wrong = 0;
	unsigned own = 0;

	begin(4, FC_DEVICES_MAX);
	(void) fill_all();
	cache.read_deadline_ns = 5000000;
	for (uint32_t i = 0; i < 4; i++)
		devices[i].ops = &deferred_ops;
	flash[3].holds = true;
	for (unsigned i = 0; i < 24; i++)
	{
		into[i] = &pages[i];
		own += fc_index_set_of(cache.shared, fc_key(file.number, i)) % 4 == 3;
	}
	fc_read_blocks(&cache, &file, 0, 24, into, tickets, status);
	for (unsigned i = 0; i < 24; i++)
	{
		good += status[i] == FC_OK;
		wrong += status[i] == FC_OK && !page_is(&pages[i], 7, i, 1);
	}
	OK(own > 0 && good == 24 - own && wrong == 0,
	   "a run over four devices, one of which hangs: all but its blocks");

	FcDeviceInfo info;

	fc_devices_info(&cache, 3, &info);
	OK(info.read_timeouts == own &&
	       fc_count_sum(&cache, FC_COUNT_read_timeouts) == own,
	   "its timeouts are counted for it");
	end(4);
}

static unsigned
device_of(uint32_t block)
{
	return fc_index_set_of(cache.shared, fc_key(file.number, block)) %
	       fc_devices_count(&cache);
}

/* How many of this device's blocks are cached? */
static unsigned
cached_on(unsigned device)
{
	unsigned count = 0;

	for (uint32_t block = 0; block < BLOCKS; block++)
		count += device_of(block) == device &&
		         fc_read_would_hit(&cache, &file, block);
	return count;
}

/* Put in all missing blocks, a millisecond for each, and have them written. */
static void
put_all(FcWriter *writer)
{
	for (uint32_t block = 0; block < BLOCKS; block++)
	{
		if (!fc_read_would_hit(&cache, &file, block) &&
		    fc_read(&cache, &file, block, &page, &ticket) == FC_MISS)
		{
			page_make(&page, 7, block, 1);
			IGNORE(fc_fill(&cache, &ticket, &page) == FC_OK);
		}
		fc_writer_run(writer, 0);
		fc_test_now_ns += MS;
	}
}

/* The last of four devices writes nothing for some seconds, then continues. */
static void
try_writes_that_hang(bool *others_full, bool *all_full)
{
	FcWriter *writer;

	begin(4, FC_DEVICES_MAX);
	for (uint32_t i = 0; i < 4; i++)
		devices[i].ops = &deferred_ops;
	flash[3].holds = true;
	fc_test_now_ns = 1000 * SECOND;
	MUST(fc_writer_begin(&cache, &writer) == FC_OK);
	while (fc_test_now_ns < 1004 * SECOND)
		put_all(writer);
	*others_full = true;
	for (unsigned i = 0; i < 3; i++)
		*others_full = *others_full && cached_on(i) == blocks_of_device(i);

	flash[3].holds = false;
	for (unsigned i = 0; i < 2; i++)
		put_all(writer);
	*all_full = *others_full && cached_on(3) == blocks_of_device(3);
	MUST(fc_writer_end(writer, FLUSH_NS) == FC_OK);
	fc_test_now_ns = 0;
	end(4);
}

static void
test_writes_hang(void)
{
	static const struct
	{
		FcBreaks broken;
		const char *what;
	} controls[] = {
		{ FC_BREAK(WRITE_SHARE), "each had not its share of the writes" },
		{ FC_BREAK(WRITE_LATE), "it was given more while it is late" },
	};
	bool others;
	bool all;

	try_writes_that_hang(&others, &all);
	OK(others, "a device that writes nothing costs its share, and no other's");
	OK(all, "when it writes again it is given its share");

	for (size_t i = 0; i < sizeof(controls) / sizeof(controls[0]); i++)
	{
		fc_test_broken = controls[i].broken;
		try_writes_that_hang(&others, &all);
		OK(!others, "(control) the others would get nothing if %s",
		   controls[i].what);
		fc_test_broken = 0;
	}
}

static void
test_config(void)
{
	FcConfig config = { .slot_count = 2 * SLOTS,
		                .process_count = 8,
		                .replacement = &fc_replacement_lfu };

	config.device_count = 17;
	OK(fc_cache_memory_needed(&config) == 0, "17 devices are too many");
	config.device_count = 3;
	OK(fc_cache_memory_needed(&config) == 0,
	   "devices that would not be of equal size are refused");
}

int
main(void)
{
	test_places();
	test_striped();
	test_missing();
	test_dies();
	test_all_die();
	if (has_aio())
		test_hangs();
	else
		SKIP("a device that hangs", NO_AIO);
	test_writes_hang();
	test_config();
	return tap_done();
}
