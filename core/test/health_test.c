/*
 * health_test.c
 *		Three devices that stall, are slow, recover or die, on a clock of our
 *		own: what is requested of each, and that no block is stale when it comes
 *		back.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "support.h"
#include "tap.h"

#define DEVICES 3
#define SLOTS   3072
#define BLOCKS  1500
#define MS      1000000ULL
#define SECOND  (1000 * MS)

static FcCache cache;
static MemoryDevice flash[DEVICES];
static FcDevice devices[DEVICES];
static FcFile file;

/* Housekeeping is another process, with its own access to the devices. */
static FcCache keeper;
static MemoryDevice keepers_flash[DEVICES];
static FcDevice keepers_devices[DEVICES];
static uint64_t version[BLOCKS]; /* what the disk holds */

/* ---- scene --------------------------------------------------------------- */

static unsigned
device_of(uint32_t block)
{
	return fc_index_set_of(cache.shared, fc_key(file.number, block)) % DEVICES;
}

static FcDeviceState
state_of(unsigned device)
{
	FcDeviceInfo info;

	fc_devices_info(&cache, device, &info);
	return info.state;
}

static uint64_t
bypassed_reads(unsigned device)
{
	FcDeviceInfo info;

	fc_devices_info(&cache, device, &info);
	return info.bypassed_reads;
}

/* Write all fills to flash, unless that would take for ever. */
static void
flush(void)
{
	if (!flash[1].holds)
		MUST(fc_writer_flush(&cache, FLUSH_NS) == FC_OK);
}

/* Read a block as a server would: 1 = from flash, 0 = from disk, -1 = wrong. */
static int
use(uint32_t block)
{
	FcTicket ticket;
	Page page;

	switch (fc_read(&cache, &file, block, &page, &ticket))
	{
		case FC_OK:
			return page_is(&page, 7, block, version[block]) ? 1 : -1;
		case FC_MISS:
			page_make(&page, 7, block, version[block]);
			(void) fc_fill(&cache, &ticket, &page);
			flush();
			return 0;
		default:
			return 0;
	}
}

typedef struct Tally
{
	unsigned hits[DEVICES];
	unsigned misses[DEVICES];
	unsigned wrong;
} Tally;

static Tally
use_all(void)
{
	Tally tally = { .wrong = 0 };

	for (uint32_t block = 0; block < BLOCKS; block++)
	{
		int got = use(block);

		tally.wrong += got < 0;
		tally.hits[device_of(block)] += got == 1;
		tally.misses[device_of(block)] += got == 0;
	}
	return tally;
}

static void
write_block(uint32_t block)
{
	FcChange change;
	Page page;

	fc_change_begin(&cache, &file, block, 1, &change);
	version[block]++;
	fc_change_end(&cache, &file, &change);
	page_make(&page, 7, block, version[block]);
	(void) fc_change_fill(&cache, &change, &page);
	flush();
}

/* The world's clock advances by this much whenever a device is asked. */
static uint64_t read_takes_ns[DEVICES];

static ssize_t
timed_read(FcDevice *device, void *buffer, size_t size, off_t offset)
{
	const MemoryDevice *state = device->state;
	bool of_keeper = state >= keepers_flash && state < keepers_flash + DEVICES;

	fc_test_now_ns +=
		read_takes_ns[state - (of_keeper ? keepers_flash : flash)];
	return memory_read(device, buffer, size, offset);
}

static const FcDeviceOps timed_ops = { .read = timed_read,
	                                   .write = memory_write,
	                                   .close = memory_close };

static void *memory;
static size_t memory_size;

/* A warm cache on three devices that answer in 0.1 ms. */
static void
begin(void)
{
	FcConfig config = { .slot_count = SLOTS,
		                .device_count = DEVICES,
		                .file_count = 64,
		                .process_count = 16,
		                .replacement = &fc_replacement_lfu };

	fc_test_now_ns = 1000 * SECOND;
	for (unsigned i = 0; i < DEVICES; i++)
	{
		memory_device_open(&flash[i], SLOTS / DEVICES);
		devices[i] = flash[i].device;
		devices[i].ops = &timed_ops;
		keepers_flash[i] = flash[i];
		keepers_devices[i] = devices[i];
		keepers_devices[i].state = &keepers_flash[i];
		read_takes_ns[i] = MS / 10;
	}
	memory_size = fc_cache_memory_needed(&config);
	memory = shared_memory(memory_size);
	MUST(fc_cache_create(&cache, memory, &config, devices) == FC_OK);
	MUST(fc_cache_attach(&keeper, memory, &fc_replacement_lfu,
	                     keepers_devices) == FC_OK);
	cache.read_deadline_ns = keeper.read_deadline_ns = 50 * MS;
	MUST(fc_mode_set(&cache, FC_SERVE, FC_REASON_NONE) == FC_OK);
	file = fc_file(file_id(7));
	MUST(fc_file_enter(&cache, &file) == FC_OK);
	for (uint32_t block = 0; block < BLOCKS; block++)
		version[block] = 1;
	(void) use_all();
	(void) fc_bypass_check(&keeper);
}

static void
end(void)
{
	for (unsigned i = 0; i < DEVICES; i++)
	{
		flash[i].holds = false;
		keepers_flash[i].holds = false;
	}
	fc_cache_close(&cache);
	fc_cache_close(&keeper);
	munmap(memory, memory_size);
	for (unsigned i = 0; i < DEVICES; i++)
		munmap(flash[i].bytes, flash[i].size);
	fc_test_now_ns = 0;
}

/* Do housekeeping for so long, as often as it asks to be called. */
static void
housekeep(uint64_t ns)
{
	uint64_t until = fc_test_now_ns + ns;

	/* For a process that waits in vain, time passes. */
	fc_test_tick_ns = keepers_flash[1].holds ? 10 * MS : 0;
	while (fc_test_now_ns < until)
		fc_test_now_ns += fc_bypass_check(&keeper) * MS;
	fc_test_tick_ns = 0;
}

static void
disk_takes(uint64_t ns)
{
	for (int i = 0; i < 64; i++)
		fc_read_disk_done(&cache, &file, 1, FC_BLOCK_SIZE, ns);
	(void) fc_bypass_check(&keeper);
}

/* ---- stalled ------------------------------------------------------------- */

/* Device 1 stops answering, here for reads that take their time. */
static void
stall(void)
{
	devices[1].ops = &deferred_ops;
	flash[1].holds = true;
	keepers_devices[1].ops = &deferred_ops;
	keepers_flash[1].holds = true;
	cache.read_deadline_ns = MS;
}

/*
 * A read of device 1 runs into its deadline, on a clock that ticks like this.
 */
static void
run_into_deadline(uint64_t tick_ns)
{
	uint32_t block = 0;

	while (device_of(block) != 1)
		block++;
	fc_test_tick_ns = tick_ns;
	MUST(use(block) == 0);
	fc_test_tick_ns = 0;
}

static void
run_into_stall(void)
{
	run_into_deadline(MS / 10);
}

static void
recover(void)
{
	flash[1].holds = false;
	keepers_flash[1].holds = false;
}

static void
test_stall(void)
{
	Tally tally;

	begin();
	tally = use_all();
	OK(tally.misses[0] + tally.misses[1] + tally.misses[2] == 0 &&
	       tally.wrong == 0,
	   "all is served, off three devices");

	stall();
	run_into_stall();
	OK(state_of(1) == FC_DEVICE_STALLED,
	   "the first late read opens the breaker");
	OK(fc_count_sum(&cache, FC_COUNT_read_timeouts) == 1, "and is counted");

	tally = use_all();
	OK(tally.hits[1] == 0 && tally.misses[0] + tally.misses[2] == 0,
	   "its share misses, the others' does not");
	OK(flash[1].deferred_count == 1, "nobody asks it any more");
	OK(bypassed_reads(1) == tally.misses[1] && bypassed_reads(0) == 0,
	   "reads of what it holds are counted as bypassed");
	OK(fc_count_sum(&cache, FC_COUNT_insert_skip_device) > 0,
	   "and nothing is put there");

	housekeep(10 * SECOND);
	OK(state_of(1) == FC_DEVICE_STALLED && keepers_flash[1].deferred_count == 1,
	   "one probe waits for it, for as long as it hangs");
	OK(fc_mode(&cache, NULL) == FC_SERVE, "the cache goes on to serve");

	recover();
	housekeep(SECOND);
	OK(state_of(1) == FC_DEVICE_IN_SERVICE, "when it answers it is used again");
	tally = use_all();
	OK(tally.misses[1] == 0 && tally.wrong == 0, "with all that it held");
	end();
}

static void
test_probes(void)
{
	begin();
	OK(fc_probe_all(&keeper, SECOND), "a host that ends finds that all answer");
	stall();
	fc_test_tick_ns = 10 * MS;
	OK(!fc_probe_all(&keeper, SECOND),
	   "and that one hangs which nobody has used since");
	fc_test_tick_ns = 0;
	end();
}

/*
 * Blocks that were changed while their device was bypassed: how many are stale?
 */
static unsigned
stale_after_bypass(void)
{
	Tally tally;

	begin();
	stall();
	run_into_stall();
	MUST(state_of(1) == FC_DEVICE_STALLED);
	for (uint32_t block = 0; block < BLOCKS; block += 3)
		write_block(block);
	recover();
	housekeep(5 * SECOND);
	MUST(state_of(1) == FC_DEVICE_IN_SERVICE);
	tally = use_all();
	MUST(tally.hits[1] > BLOCKS / DEVICES / 2);
	end();
	return tally.wrong;
}

static void
test_changes(void)
{
	OK(stale_after_bypass() == 0,
	   "what changed while its device was bypassed is not served");
	fc_test_broken = FC_BREAK(BYPASSED);
	OK(stale_after_bypass() > 100,
	   "(control) it would be if such changes were not announced");
	fc_test_broken = 0;
}

static void
test_patience(void)
{
	unsigned before;

	begin();
	for (int i = 0; i < 7; i++)
	{
		stall();
		run_into_stall();
		housekeep(i < 6 ? 11 * SECOND : 300 * MS);
		recover();
		before = keepers_flash[1].reads;
		housekeep(2 * SECOND);
		if (i == 0)
			OK(state_of(1) == FC_DEVICE_IN_SERVICE,
			   "who stalls for the first time is back soon");
		if (i == 6)
			OK(state_of(1) == FC_DEVICE_STALLED &&
			       keepers_flash[1].reads == before,
			   "who stalls again and again is left alone for longer");
		housekeep(15 * SECOND);
		MUST(state_of(1) == FC_DEVICE_IN_SERVICE);
	}
	housekeep(700 * SECOND);
	stall();
	run_into_stall();
	housekeep(SECOND);
	recover();
	housekeep(2 * SECOND);
	OK(state_of(1) == FC_DEVICE_IN_SERVICE, "but that is forgiven in time");
	end();
}

/* It answers lone probes, and stalls as soon as it is used. */
static void
test_stalls_again_at_once(void)
{
	unsigned before;

	begin();
	stall();
	run_into_stall();
	housekeep(300 * MS);
	recover();
	while (state_of(1) == FC_DEVICE_STALLED)
		fc_test_now_ns += fc_bypass_check(&keeper) * MS;
	stall();
	run_into_stall();
	recover();
	before = keepers_flash[1].reads;
	(void) fc_bypass_check(&keeper);
	OK(state_of(1) == FC_DEVICE_STALLED && keepers_flash[1].reads == before,
	   "who stalls before the next check waits for probes like others");
	housekeep(15 * SECOND);
	OK(state_of(1) == FC_DEVICE_IN_SERVICE, "and comes back, too");
	end();
}

/* The process is late, not the device. */
static void
test_busy_machine(void)
{
	begin();
	stall();
	run_into_deadline(100 * MS);
	OK(fc_count_sum(&cache, FC_COUNT_read_timeouts) == 1 &&
	       state_of(1) == FC_DEVICE_IN_SERVICE,
	   "who wakes up long after the deadline cannot blame the device");
	recover();

	/* By mistake, again and again: no longer than the first time. */
	for (int i = 0; i < 10; i++)
	{
		stall();
		run_into_stall();
		recover();
		housekeep(SECOND);
		MUST(state_of(1) == FC_DEVICE_IN_SERVICE);
	}
	OK(true, "who was bypassed by mistake is not left alone for longer");
	end();
}

/* Without AIO a read cannot be abandoned: it takes as long as it takes. */
static void
test_late(void)
{
	begin();
	read_takes_ns[1] = 3 * SECOND;
	for (uint32_t block = 0; device_of(block) != 1 || use(block) != 1;)
		block++;
	OK(state_of(1) == FC_DEVICE_STALLED,
	   "a read that took seconds opens the breaker, though it came");
	end();
}

/* ---- slow ---------------------------------------------------------------- */

static void
test_slow(void)
{
	Tally tally;

	begin();
	disk_takes(5 * MS);
	(void) use_all();
	housekeep(2 * SECOND);
	OK(state_of(1) == FC_DEVICE_IN_SERVICE, "faster than the disk is fine");

	read_takes_ns[1] = 8 * MS;
	for (int i = 0; i < 2; i++)
	{
		(void) use_all();
		disk_takes(5 * MS);
	}
	OK(state_of(1) == FC_DEVICE_SLOW, "slower than the disk is bypassed");
	OK(state_of(0) == FC_DEVICE_IN_SERVICE &&
	       state_of(2) == FC_DEVICE_IN_SERVICE,
	   "the others are not");
	housekeep(30 * SECOND);
	OK(state_of(1) == FC_DEVICE_SLOW, "for as long as its probes are slow");

	/* The disk now bears all of the load. */
	tally = use_all();
	OK(tally.hits[1] == 0, "its blocks are read from disk");
	read_takes_ns[1] = MS / 5;
	housekeep(60 * SECOND);
	OK(state_of(1) == FC_DEVICE_IN_SERVICE, "and used again when it recovers");
	tally = use_all();
	OK(tally.misses[1] == 0 && tally.wrong == 0, "still warm");
	end();
}

static void
test_not_slow(void)
{
	begin();
	read_takes_ns[1] = 8 * MS;
	for (int i = 0; i < 2; i++)
	{
		(void) use_all();
		(void) fc_bypass_check(&keeper);
	}
	OK(state_of(1) == FC_DEVICE_IN_SERVICE,
	   "with no read of the disk there is nothing to compare");

	/* Page cache, 5 us each, where it cannot be asked; and few reads. */
	disk_takes(5000);
	for (int i = 0; i < 2; i++)
	{
		(void) use_all();
		disk_takes(5000);
	}
	OK(state_of(1) == FC_DEVICE_IN_SERVICE,
	   "what is as fast as memory is no read of a disk");

	/* Two of three reads come out of the page cache, the third takes 1 ms. */
	for (int i = 0; i < 3; i++)
	{
		(void) use_all();
		for (int j = 0; j < 200; j++)
			fc_read_disk_done(&cache, &file, 1, FC_BLOCK_SIZE,
			                  j % 3 == 0 ? MS : 5000);
		(void) fc_bypass_check(&keeper);
	}
	OK(state_of(1) == FC_DEVICE_IN_SERVICE,
	   "and if most are, the others say nothing");
	end();

	begin();
	disk_takes(5 * MS);
	read_takes_ns[1] = 8 * MS;
	for (uint32_t block = 0, n = 0; n < 200; block++)
		if (device_of(block) == 1)
		{
			(void) use(block);
			n++;
		}
	(void) fc_bypass_check(&keeper);
	OK(state_of(1) == FC_DEVICE_IN_SERVICE, "200 reads are too few to judge");
	end();
}

/* It was too slow for the disk at that time; the disk is slower now. */
static void
test_disk_gets_slower(void)
{
	begin();
	disk_takes(MS);
	read_takes_ns[1] = 2 * MS;
	for (int i = 0; i < 2; i++)
	{
		(void) use_all();
		disk_takes(MS);
	}
	MUST(state_of(1) == FC_DEVICE_SLOW);
	for (int i = 0; i < 8; i++)
		disk_takes(20 * MS);
	housekeep(30 * SECOND);
	OK(state_of(1) == FC_DEVICE_IN_SERVICE,
	   "a slow device is back once the disk, under all the load, is slower");
	end();
}

/* ---- dead ---------------------------------------------------------------- */

static void
fail_reads(unsigned device)
{
	flash[device].fault_stays = true;
	flash[device].read_fault = FAULT_EIO;
	keepers_flash[device].fault_stays = true;
	keepers_flash[device].read_fault = FAULT_EIO;
}

static void
test_death(void)
{
	Tally tally;

	begin();
	fail_reads(1);
	(void) use_all();
	OK(state_of(1) == FC_DEVICE_READ_FAILS, "a device that fails is given up");
	tally = use_all();
	OK(tally.hits[1] == 0 && tally.misses[0] + tally.misses[2] == 0 &&
	       tally.wrong == 0,
	   "which costs its share and nothing else");
	OK(fc_mode(&cache, NULL) == FC_SERVE, "the cache serves");
	housekeep(1000 * SECOND);
	OK(state_of(1) == FC_DEVICE_READ_FAILS, "it is not used again");

	/* One more dies while it is bypassed, by its probes' errors. */
	read_takes_ns[2] = 3 * SECOND;
	for (uint32_t block = 0; device_of(block) != 2 || use(block) != 1;)
		block++;
	MUST(state_of(2) == FC_DEVICE_STALLED);
	read_takes_ns[2] = MS;
	fail_reads(2);
	housekeep(60 * SECOND);
	OK(state_of(2) == FC_DEVICE_READ_FAILS,
	   "one that is bypassed can die, too");
	OK(fc_mode(&cache, NULL) == FC_SERVE, "the last one serves");

	/* Bypassed is not dead: the cache must not go offline for it. */
	read_takes_ns[0] = 3 * SECOND;
	for (uint32_t block = 0; device_of(block) != 0 || use(block) != 1;)
		block++;
	OK(state_of(0) == FC_DEVICE_STALLED && fc_mode(&cache, NULL) == FC_SERVE,
	   "while it is bypassed the cache stays");
	read_takes_ns[0] = MS;
	housekeep(5 * SECOND);
	MUST(state_of(0) == FC_DEVICE_IN_SERVICE);
	fail_reads(0);
	(void) use_all();
	OK(fc_mode(&cache, NULL) == FC_OFFLINE,
	   "when the last one dies the cache goes offline");
	end();
}

int
main(void)
{
	test_stall();
	test_probes();
	test_changes();
	test_patience();
	test_stalls_again_at_once();
	test_busy_machine();
	test_late();
	test_slow();
	test_not_slow();
	test_disk_gets_slower();
	test_death();
	return tap_done();
}
