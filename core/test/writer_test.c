/*
 * writer_test.c
 *		The staging ring and its writer: full rings, waiting updates, rest, and
 *		devices that are late, out of order, short or broken.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>

#include "flights.h"
#include "staging.h"
#include "support.h"
#include "tap.h"

#define MS     1000000ULL
#define SECOND 1000000000ULL

static Rig rig;
static uint32_t ring = 32; /* pages */
static FcFile file;
static FcCache writing; /* the writer's process, with the device that waits */
static FcWriter *writer;

static void
begin(void)
{
	FcConfig config = { .slot_count = 256,
		                .file_count = 64,
		                .ring_pages = ring,
		                .process_count = 16,
		                .replacement = &fc_replacement_lfu };

	rig_open_with(&rig, &config);
	file = fc_file(file_id(7));
	MUST(fc_file_enter(&rig.cache, &file) == FC_OK);
	MUST(fc_cache_attach(&writing, rig.memory, &fc_replacement_lfu,
	                     &rig.slow.device) == FC_OK);
	MUST(fc_writer_begin(&writing, &writer) == FC_OK);
}

static void
end(void)
{
	rig.slow.holds = false;
	MUST(fc_writer_end(writer, FLUSH_NS) == FC_OK);
	rig_detach(&writing);
	rig_close(&rig);
}

static FcStatus
put(uint32_t block)
{
	FcTicket ticket;
	Page page;

	MUST(fc_read(&rig.cache, &file, block, &page, &ticket) == FC_MISS);
	page_make(&page, 7, block, 1);
	return fc_fill(&rig.cache, &ticket, &page);
}

static FcStatus
update(uint32_t block, uint64_t version)
{
	FcChange change;
	Page page;

	fc_change_begin(&rig.cache, &file, block, 1, &change);
	fc_change_end(&rig.cache, &file, &change);
	page_make(&page, 7, block, version);
	return fc_change_fill(&rig.cache, &change, &page);
}

static bool
serves(uint32_t block, uint64_t version)
{
	FcTicket ticket;
	Page page;

	return fc_read(&rig.cache, &file, block, &page, &ticket) == FC_OK &&
	       page_is(&page, 7, block, version);
}

static FcDeviceState
state_of(uint32_t device)
{
	FcDeviceInfo info;

	fc_devices_info(&rig.cache, device, &info);
	return info.state;
}

static uint64_t
count_of(FcCounter counter)
{
	return fc_count_sum(&rig.cache, counter);
}

/* ---- the ring ------------------------------------------------------------ */

static void
test_size(void)
{
	OK(fc_staging_pages_for(64) == 32 && fc_staging_pages_for(262143) == 32 &&
	       fc_staging_pages_for(262144) == 64 &&
	       fc_staging_pages_for(524288) == 128 &&
	       fc_staging_pages_for(1ULL << 30) == 1024,
	   "a page for 4096 slots, in powers of 2 from 32 to 1024");
}

static void
test_staged(void)
{
	begin();
	OK(put(3) == FC_OK && rig.flash.writes + rig.slow.writes == 0,
	   "a fill writes nothing to flash");
	OK(serves(3, 1) && rig.flash.reads == 0 &&
	       count_of(FC_COUNT_staged_hits) == 1 && count_of(FC_COUNT_hits) == 1,
	   "and is a hit at once, off the ring");
	OK(count_of(FC_COUNT_inserts) == 1 && fc_file_used_slots(&rig.cache) == 1 &&
	       fc_writer_ring_info(&rig.cache).used == 1,
	   "counted as what it is");
	MUST(fc_writer_drain(writer, FLUSH_NS) == FC_OK);
	OK(rig.slow.writes == 1 && count_of(FC_COUNT_flash_writes) == 1 &&
	       fc_writer_ring_info(&rig.cache).used == 0,
	   "the writer writes it once, and its page is free");
	OK(serves(3, 1) && rig.flash.reads == 1 &&
	       count_of(FC_COUNT_staged_hits) == 1,
	   "then it is read from flash");
	end();
}

static void
test_full(void)
{
	begin();
	for (uint32_t block = 0; block < ring; block++)
		MUST(put(block) == FC_OK);
	OK(put(100) == FC_SKIP &&
	       count_of(FC_COUNT_insert_skip_writer_overloaded) == 1,
	   "a full ring takes no more, and that is counted");
	OK(fc_writer_ring_info(&rig.cache).used == ring, "it says that it is full");
	MUST(fc_writer_drain(writer, FLUSH_NS) == FC_OK);
	for (uint32_t block = 200; block < 200 + 256; block++)
	{
		IGNORE(put(block));
		MUST(fc_writer_drain(writer, FLUSH_NS) == FC_OK);
	}

	/* All slots of the cache are used: the next fill must evict a block. */
	uint64_t evicted = count_of(FC_COUNT_eviction_aged_out);

	rig.slow.holds = true;
	for (uint32_t block = 1000; block < 1000 + ring; block++)
		MUST(put(block) == FC_OK);
	OK(count_of(FC_COUNT_eviction_aged_out) > evicted, "fills evict");
	evicted = count_of(FC_COUNT_eviction_aged_out);
	OK(put(2000) == FC_SKIP && count_of(FC_COUNT_eviction_aged_out) == evicted,
	   "but nothing makes room for what the ring cannot take");
	OK(serves(1000, 1), "what is in the ring is served all the while");
	end();
}

static void
test_nobody_writes(void)
{
	begin();
	MUST(put(3) == FC_OK);
	MUST(fc_writer_drain(writer, FLUSH_NS) == FC_OK);
	MUST(fc_writer_end(writer, FLUSH_NS) == FC_OK);
	OK(!fc_writer_serves(&rig.cache), "without a writer");
	for (uint32_t block = 100; block < 100 + 2 * ring; block++)
		IGNORE(put(block));
	OK(serves(3, 1) && serves(100, 1) && count_of(FC_COUNT_inserts) == 1 + ring,
	   "the cache serves what it has, and what the ring takes");
	OK(update(100, 2) == FC_OK && serves(100, 2) && update(3, 2) == FC_SKIP &&
	       !serves(3, 2) && !serves(3, 1),
	   "and nothing stale");
	MUST(fc_writer_begin(&writing, &writer) == FC_OK);
	MUST(fc_writer_drain(writer, FLUSH_NS) == FC_OK);
	OK(serves(100, 2) && fc_writer_ring_info(&rig.cache).used == 0,
	   "the next writer goes on");
	end();
}

/* ---- updates ------------------------------------------------------------- */

static void
test_coalescing(void)
{
	begin();
	fc_test_now_ns = 1000 * SECOND;
	MUST(put(3) == FC_OK);
	fc_writer_run(writer, 0);
	OK(rig.slow.writes == 1, "a block that was read is written at once");
	for (uint64_t version = 2; version < 12; version++)
	{
		MUST(update(3, version) == FC_OK);
		fc_writer_run(writer, 0);
		fc_test_now_ns += SECOND / 10;
	}
	OK(rig.slow.writes == 1 && serves(3, 11), "its updates wait");
	OK(count_of(FC_COUNT_updates) == 10 &&
	       count_of(FC_COUNT_coalesced_updates) == 9,
	   "all but the first replaced one that was not written");
	fc_test_now_ns += 4 * SECOND;
	fc_writer_run(writer, 0);
	OK(rig.slow.writes == 2 && serves(3, 11), "the last one is written");

	for (uint32_t block = 100; block < 100 + ring / 2 - 2; block++)
		MUST(put(block) == FC_OK);
	MUST(fc_writer_drain(writer, FLUSH_NS) == FC_OK);
	rig.slow.writes = 0;
	for (uint32_t block = 100; block < 100 + ring / 2 - 2; block++)
		MUST(update(block, 2) == FC_OK);
	fc_writer_run(writer, 0);
	OK(rig.slow.writes == 0, "updates of many blocks wait");
	for (uint32_t block = 300; block < 302; block++)
		MUST(put(block) == FC_OK);
	fc_writer_run(writer, 0);
	OK(rig.slow.writes == ring / 2, "but not while the ring is crowded");
	fc_test_now_ns = 0;
	end();
}

/* ---- devices ------------------------------------------------------------- */

static void
test_many_at_once(void)
{
	begin();
	rig.slow.holds = true;
	rig.slow.last_first = true;
	for (uint32_t block = 0; block < 20; block++)
		MUST(put(block) == FC_OK);
	fc_writer_run(writer, 0);
	OK(rig.slow.deferred_count == 20, "many writes are under way at once");
	OK(serves(7, 1) && rig.flash.reads == 0, "the blocks are served meanwhile");
	OK(update(7, 2) == FC_OK && serves(7, 2) &&
	       count_of(FC_COUNT_coalesced_updates) == 0,
	   "one that changes is taken again; its write is not saved any more");
	rig.slow.holds = false;

	unsigned wrong = 0;

	MUST(fc_writer_drain(writer, FLUSH_NS) == FC_OK);
	for (uint32_t block = 0; block < 20; block++)
		wrong += !serves(block, block == 7 ? 2 : 1);
	OK(wrong == 0 && rig.flash.reads == 20,
	   "done the last one first, all is right");
	end();
}

static void
test_failures(void)
{
	static const struct
	{
		const char *name;
		Fault fault;
		bool counted;
	} cases[] = { { "EIO", FAULT_EIO, true },
		          { "a short write", FAULT_SHORT, true },
		          { "EINTR", FAULT_EINTR, false } };

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		begin();
		MUST(put(3) == FC_OK && put(4) == FC_OK);
		rig.slow.write_fault = cases[i].fault;
		MUST(fc_writer_drain(writer, FLUSH_NS) == FC_OK);
		OK(serves(3, 1) + serves(4, 1) == 1 &&
		       fc_file_used_slots(&rig.cache) == 1 &&
		       count_of(FC_COUNT_insert_skip_corrupt) == 1,
		   "%s: that block is gone, and the other one is not", cases[i].name);
		OK(count_of(FC_COUNT_flash_write_errors) == cases[i].counted,
		   "%s: counted as the device's fault if it is one", cases[i].name);
		OK(fc_writer_ring_info(&rig.cache).used == 0, "%s: no page is lost",
		   cases[i].name);
		end();
	}
}

static void
test_hang(void)
{
	begin();
	rig.slow.holds = true;
	MUST(put(3) == FC_OK);
	OK(fc_writer_drain(writer, 20 * MS) == FC_FAILED,
	   "a device that hangs: draining comes to an end");
	OK(fc_writer_end(writer, 20 * MS) == FC_FAILED,
	   "and so does ending, which says that writes are under way");
	OK(fc_writer_flush(&rig.cache, FLUSH_NS) == FC_FULL,
	   "nobody else becomes the writer as long as the process lives");
	OK(serves(3, 1), "the block is served");
	rig.slow.holds = false;
	MUST(fc_writer_drain(writer, FLUSH_NS) == FC_OK);
	end();
}

static void
test_modes(void)
{
	begin();
	MUST(put(3) == FC_OK);
	MUST(fc_mode_set(&rig.cache, FC_PASSTHROUGH, FC_REASON_USER) == FC_OK);
	MUST(fc_writer_drain(writer, FLUSH_NS) == FC_OK);
	OK(rig.slow.writes == 1, "what is staged is written in passthrough");
	MUST(fc_mode_set(&rig.cache, FC_SERVE, FC_REASON_NONE) == FC_OK);
	MUST(put(4) == FC_OK);
	MUST(fc_mode_set(&rig.cache, FC_OFFLINE, FC_REASON_USER) == FC_OK);
	fc_writer_run(writer, MS);
	OK(fc_writer_drain(writer, FLUSH_NS) == FC_FAILED && rig.slow.writes == 1,
	   "offline nothing is written");
	end();
}

/* ---- standing in for the writer ------------------------------------------ */

#define LIMIT (2 * SECOND)

/* Blocks 0 .. count - 1 are on flash, and there is no writer any more. */
static void
begin_without_writer(uint32_t count)
{
	begin();
	for (uint32_t block = 0; block < count; block++)
	{
		MUST(put(block) == FC_OK);
		MUST(fc_writer_drain(writer, FLUSH_NS) == FC_OK);
	}
	MUST(fc_writer_end(writer, FLUSH_NS) == FC_OK);
	rig.cache.devices = &rig.slow.device;
}

static void
end_without_writer(void)
{
	rig.slow.holds = false;
	rig.slow.delay_us = 0;
	fc_cache_close(&writing);
	rig_close(&rig);
}

/*
 * Change blocks one by one, as a checkpoint does.  Returns how many stay
 * cached.
 */
static unsigned
checkpoint(uint32_t first, uint32_t end_block, uint64_t version)
{
	unsigned cached = 0;

	for (uint32_t block = first; block < end_block; block++)
	{
		fc_stand_in(&rig.cache, LIMIT);
		cached += update(block, version) == FC_OK;
	}
	return cached;
}

static void
test_stand_in(void)
{
	unsigned wrong = 0;

	begin_without_writer(200);
	fc_test_now_ns = 1000 * SECOND; /* it stands: the device takes no time */
	OK(checkpoint(0, 200, 2) == 200 && rig.slow.deferred_most > 1,
	   "without a writer, who changes blocks writes them, many at once");
	OK(!fc_writer_serves(&rig.cache), "and is not the writer any more then");
	MUST(fc_writer_begin(&writing, &writer) == FC_OK);
	MUST(fc_writer_drain(writer, FLUSH_NS) == FC_OK);
	for (uint32_t block = 0; block < 200; block++)
		wrong += !serves(block, 2);
	OK(wrong == 0, "all blocks are cached as they are now");

	for (uint32_t block = 0; block < ring; block++)
		MUST(update(block, 3) == FC_OK);
	rig.slow.writes = 0;
	errno = ENOTTY;
	fc_stand_in(&rig.cache, LIMIT);
	OK(rig.slow.writes == 0 && update(100, 3) == FC_SKIP,
	   "while there is a writer, nobody stands in for it");
	MUST(fc_writer_end(writer, FLUSH_NS) == FC_OK);
	fc_stand_in(&rig.cache, LIMIT);
	OK(rig.slow.writes > 0 && update(101, 3) == FC_OK && errno == ENOTTY,
	   "and errno is left as it was found");
	fc_test_now_ns = 0;
	end_without_writer();
}

static void
test_stand_in_fails(void)
{
	begin_without_writer(100);
	rig.slow.write_fault = FAULT_EIO;
	rig.slow.fault_stays = true;
	OK(checkpoint(0, 60, 2) == ring &&
	       count_of(FC_COUNT_flash_write_errors) == 32 &&
	       state_of(0) == FC_DEVICE_WRITE_FAILS,
	   "a device that fails is out of use after the usual number of errors");
	OK(checkpoint(60, 100, 2) == 0 && !serves(0, 1) && !serves(99, 1),
	   "then nothing is kept, and nothing stale");
	end_without_writer();
}

static void
test_stand_in_slow(void)
{
	unsigned cached;

	begin_without_writer(200);
	fc_test_now_ns = 1000 * SECOND;
	fc_test_tick_ns = MS;
	rig.slow.delay_us = 600000;
	cached = checkpoint(0, 200, 2);
	OK(cached > ring && cached < 150 &&
	       fc_writer_ring_info(&rig.cache).stood_in_ns >= LIMIT,
	   "a slow device: blocks are written until the limit is reached");
	OK(fc_writer_ring_info(&rig.cache).stood_in_ns <=
	       LIMIT + SECOND + SECOND / 10,
	   "which is kept");
	OK(checkpoint(0, 200, 3) <= ring && !serves(199, 2) && !serves(199, 1),
	   "then what the ring cannot take is gone");
	rig.slow.delay_us = 0;
	MUST(fc_writer_begin(&writing, &writer) == FC_OK);
	MUST(fc_writer_drain(writer, FLUSH_NS) == FC_OK);
	MUST(fc_writer_end(writer, FLUSH_NS) == FC_OK);
	OK(fc_writer_ring_info(&rig.cache).stood_in_ns == 0,
	   "when a writer has begun, the limit starts over");
	fc_test_now_ns = 0;
	fc_test_tick_ns = 0;
	end_without_writer();
}

static void
test_stand_in_hangs(void)
{
	uint64_t start;

	begin_without_writer(200);
	fc_test_now_ns = 1000 * SECOND;
	fc_test_tick_ns = MS;
	rig.slow.holds = true;
	start = fc_test_now_ns;
	OK(checkpoint(0, 200, 2) == ring &&
	       fc_test_now_ns - start < SECOND + SECOND / 2,
	   "a device that hangs is waited for once, a second");
	OK(fc_writer_flush(&writing, FLUSH_NS) == FC_FULL,
	   "who waited stays the writer of what is under way");
	OK(serves(3, 2) && !serves(150, 1), "nothing stale is served");
	rig.slow.holds = false;
	fc_stand_in(&rig.cache, LIMIT);
	OK(!fc_writer_serves(&rig.cache) && serves(3, 2) &&
	       fc_writer_flush(&writing, FLUSH_NS) == FC_OK,
	   "until the device has answered: then another one may be");
	fc_test_now_ns = 0;
	fc_test_tick_ns = 0;
	end_without_writer();
}

/* Is there another writer after the process that waited in vain is asked? */
static bool
leaves(void)
{
	fc_stand_in(&rig.cache, LIMIT);
	return fc_writer_flush(&writing, FLUSH_NS) == FC_OK;
}

static void
test_stand_in_waits_for_some(void)
{
	begin_without_writer(ring + 1);
	fc_test_now_ns = 1000 * SECOND;
	fc_test_tick_ns = 50 * MS;
	rig.slow.stuck = 1;
	OK(checkpoint(0, ring + 1, 2) == ring + 1 &&
	       fc_writer_flush(&writing, FLUSH_NS) == FC_FULL,
	   "a device that does not answer for one block is waited for, too");
	rig.slow.stuck = 0;
	OK(leaves(), "until it has, though the ring has room");
	end_without_writer();

	fc_test_tick_ns = 0;
	begin_without_writer(2 * ring);
	(void) checkpoint(0, ring + 1, 2);
	rig.cache.stand_in->queue.in_flight += FC_QUEUE_DEPTH_WRITER;
	fc_test_tick_ns = 50 * MS;
	OK(checkpoint(0, 2 * ring, 3) < 2 * ring &&
	       rig.cache.stand_in->waiting_count > 0,
	   "a kernel that accepts no writes is waited for in vain");
	rig.cache.stand_in->queue.in_flight -= FC_QUEUE_DEPTH_WRITER;
	OK(leaves(), "until it accepts them");
	fc_test_now_ns = 0;
	fc_test_tick_ns = 0;
	end_without_writer();
}

/*
 * Stand in for a writer until the device has hung for ten seconds, or for ever.
 */
static bool
comes_back(unsigned patience_s)
{
	int status;
	pid_t child = fork();

	MUST(child >= 0);
	if (child == 0)
	{
		rig.cache.token = 0;
		fc_test_now_ns = 1000 * SECOND;
		fc_test_tick_ns = MS;
		alarm(patience_s);
		(void) checkpoint(0, 2 * ring, 2);
		_exit(0);
	}
	MUST(waitpid(child, &status, 0) == child);
	return WIFEXITED(status);
}

static void
test_control_limit(void)
{
	for (int broken = 0; broken < 2; broken++)
	{
		begin_without_writer(2 * ring);
		rig.slow.holds = true;
		fc_test_broken = broken ? FC_BREAK(STAND_IN_LIMIT) : 0;
		/*
		 * The control shows soon that it hangs; the other has all the time it
		 * needs.
		 */
		OK(comes_back(broken ? 2 : 60) == !broken,
		   "%s limit a device that hangs holds it up%s",
		   broken ? "without a" : "with a", broken ? "" : " no longer");
		fc_test_broken = 0;
		end_without_writer();
	}
}

/* ---- rest ---------------------------------------------------------------- */

/* A child that is the writer until it is killed. */
static pid_t
start_writer(void)
{
	pid_t child;

	MUST(fc_writer_end(writer, FLUSH_NS) == FC_OK);
	child = fork();
	MUST(child >= 0);
	if (child == 0)
	{
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		writing.token = 0;
		MUST(fc_writer_begin(&writing, &writer) == FC_OK);
		for (;;)
			fc_writer_run(writer, 3600 * SECOND);
	}
	return child;
}

static bool
wait_until(FcAtomic32 *word, uint32_t value)
{
	uint64_t deadline = fc_clock_ns() + FLUSH_NS;
	struct timespec nap = { .tv_nsec = MS };

	while (atomic_load(word) != value && fc_clock_ns() < deadline)
		nanosleep(&nap, NULL);
	return atomic_load(word) == value;
}

static void
test_rest(void)
{
	uint64_t deadline;
	struct timespec nap = { .tv_nsec = MS };
	pid_t child;

	begin();
	child = start_writer();
	OK(wait_until(&rig.cache.shared->ring_rest, FC_WRITER_SLEEPS),
	   "with nothing to do the writer sleeps");
	for (uint32_t block = 0; block < 5; block++)
	{
		MUST(put(block) == FC_OK);
		deadline = fc_clock_ns() + FLUSH_NS;
		while (count_of(FC_COUNT_flash_writes) <= block &&
		       fc_clock_ns() < deadline)
			nanosleep(&nap, NULL);
		MUST(wait_until(&rig.cache.shared->ring_rest, FC_WRITER_SLEEPS));
	}
	OK(count_of(FC_COUNT_flash_writes) == 5, "each fill wakes it");

	/* Killed in its sleep: the next one takes over. */
	kill(child, SIGKILL);
	MUST(waitpid(child, NULL, 0) == child);
	MUST(put(10) == FC_OK);
	OK(fc_writer_begin(&writing, &writer) == FC_OK &&
	       count_of(FC_COUNT_takeovers) == 1 &&
	       fc_writer_drain(writer, FLUSH_NS) == FC_OK && serves(10, 1),
	   "a writer that was killed is replaced");
	end();
}

static void
test_errno(void)
{
	begin();
	MUST(fc_writer_end(writer, FLUSH_NS) == FC_OK);
	atomic_store(&rig.cache.shared->ring_rest, FC_WRITER_SLEEPS);
	errno = ENOTTY;
	MUST(put(3) == FC_OK);
	OK(errno == ENOTTY &&
	       atomic_load(&rig.cache.shared->ring_rest) == FC_WRITER_AWAKE,
	   "errno is left as it was found by a fill that wakes the writer");
	MUST(fc_writer_begin(&writing, &writer) == FC_OK);
	end();
}

int
main(void)
{
	alarm(900);
	test_size();
	for (ring = 8; ring <= 32; ring *= 4)
	{
		printf("# a ring of %u pages\n", ring);
		test_staged();
		test_full();
		test_nobody_writes();
		test_coalescing();
	}
	ring = 32;
	test_many_at_once();
	test_failures();
	test_hang();
	test_modes();
	test_stand_in();
	test_stand_in_fails();
	test_stand_in_slow();
	test_stand_in_hangs();
	test_stand_in_waits_for_some();
	test_control_limit();
	test_rest();
	test_errno();
	return tap_done();
}
