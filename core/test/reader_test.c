/*
 * reader_test.c
 *		Reads of flash that are late, out of order, failing, hung or
 *		interrupted: each costs the caller no more than its deadline, and yields
 *		no wrong byte.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <sys/wait.h>

#include "count.h"
#include "kernel.h"
#include "read.h"
#include "support.h"
#include "tap.h"

#define BLOCKS 100
#define MS     1000000ULL

/* Of a device that does not answer; others may stall with the machine. */
#define DEADLINE_NS (100 * MS)
#define PATIENCE_NS (60000 * MS)
#define DISK        99 /* the version of a block that is read from the disk */

static Rig rig;
static FcFile file;
static Page pages[FC_RUN_BLOCKS_MAX];
static void *page[FC_RUN_BLOCKS_MAX];
static FcTicket ticket[FC_RUN_BLOCKS_MAX];
static FcStatus status[FC_RUN_BLOCKS_MAX];

static uint64_t
count_of(FcCounter counter)
{
	return fc_count_sum(&rig.cache, counter);
}

static void
put(uint32_t block)
{
	MUST(fc_read(&rig.cache, &file, block, &pages[0], &ticket[0]) == FC_MISS);
	page_make(&pages[0], 7, block, 1);
	MUST(fc_fill(&rig.cache, &ticket[0], &pages[0]) == FC_OK);
	rig_flush(&rig);
}

/* A cache with blocks 0 .. count - 1, on a device that now takes its time. */
static void
begin(uint32_t count)
{
	rig_open(&rig, 1024, 64);
	rig.cache.read_deadline_ns = PATIENCE_NS;
	file = fc_file(file_id(7));
	MUST(fc_file_enter(&rig.cache, &file) == FC_OK);
	for (uint32_t block = 0; block < count; block++)
		put(block);
	memory_device_defer(&rig.flash);
}

/* The device completes no read. */
static void
hang(void)
{
	rig.flash.holds = true;
	rig.cache.read_deadline_ns = DEADLINE_NS;
}

/* It does not complete one of them. */
static void
hang_once(void)
{
	rig.flash.stuck = 1;
	rig.cache.read_deadline_ns = DEADLINE_NS;
}

/* It completes what it is asked from now on. */
static void
answer(void)
{
	rig.flash.holds = false;
	rig.cache.read_deadline_ns = PATIENCE_NS;
}

/* Read blocks 0 .. count - 1 if all are cached; how many are right? */
static unsigned
read_whole(unsigned count)
{
	unsigned right = 0;

	memset(pages, 0, sizeof(pages));
	for (unsigned i = 0; i < count; i++)
		page[i] = &pages[i];
	if (!fc_read_run(&rig.cache, &file, 0, count, page, ticket))
		return 0;
	for (unsigned i = 0; i < count; i++)
		right += page_is(&pages[i], 7, i, 1) &&
		         fc_read_hit_holds(&rig.cache, &ticket[i]);
	return right;
}

/* A late read takes the device out of service (health_test.c), but not here. */
static void
take_back(void)
{
	atomic_store(&rig.cache.shared->health[0].state, FC_DEVICE_IN_SERVICE);
}

/* Read blocks 0 .. count - 1 into pages of zeros; how many were hits? */
static unsigned
read_run(unsigned count)
{
	unsigned hits = 0;

	take_back();
	memset(pages, 0, sizeof(pages));
	for (unsigned i = 0; i < count; i++)
		page[i] = &pages[i];
	fc_read_blocks(&rig.cache, &file, 0, count, page, ticket, status);
	for (unsigned i = 0; i < count; i++)
	{
		MUST(status[i] == FC_OK || status[i] == FC_MISS);
		if (status[i] == FC_OK && !page_is(&pages[i], 7, i, 1))
			return 0;
		hits += status[i] == FC_OK;
	}
	return hits;
}

/* ---- reads in time ------------------------------------------------------- */

static void
test_runs(void)
{
	begin(BLOCKS);
	OK(read_run(20) == 20, "a run is read");
	OK(rig.flash.deferred_most == 20, "all of it at once");
	OK(count_of(FC_COUNT_hits) == 20 && count_of(FC_COUNT_flash_reads) == 20 &&
	       count_of(FC_COUNT_flash_read_bytes) == 20 * FC_BLOCK_SIZE,
	   "hits, reads and bytes are counted");

	rig.flash.last_first = true;
	OK(read_run(20) == 20, "in whatever order its slots come");
	rig.flash.last_first = false;

	rig.flash.deferred_most = 0;
	OK(read_run(FC_RUN_BLOCKS_MAX) == BLOCKS,
	   "the longest run: what is cached of it");
	OK(rig.flash.deferred_most == FC_QUEUE_DEPTH_READER,
	   "no more at once than there are pages");
	OK(status[BLOCKS] == FC_MISS && status[FC_RUN_BLOCKS_MAX - 1] == FC_MISS,
	   "the rest of it misses");
	page_make(&pages[0], 7, BLOCKS, 1);
	OK(fc_fill(&rig.cache, &ticket[BLOCKS], &pages[0]) == FC_OK,
	   "and can be filled");

	/* In the middle of the run: it is dropped, its neighbours are not. */
	rig.flash.read_fault = FAULT_EIO;
	OK(read_run(20) == 19 && status[0] == FC_MISS, "one that fails misses");
	OK(!fc_read_would_hit(&rig.cache, &file, 0), "and is dropped");
	rig.flash.read_fault = FAULT_SHORT;
	OK(read_run(20) == 18 && status[1] == FC_MISS, "so does a short one");
	rig.flash.read_fault = FAULT_FLIP;
	OK(read_run(20) == 17 && status[2] == FC_MISS,
	   "and one with a bit flipped");
	rig.flash.read_fault = FAULT_MISDIRECT;
	OK(read_run(20) == 16 && status[3] == FC_MISS,
	   "and one from another slot's place");
	rig.flash.read_fault = FAULT_EINTR;
	OK(read_run(20) == 15 && read_run(20) == 16,
	   "one that a signal ended misses once, and stays");
	OK(count_of(FC_COUNT_flash_read_errors) == 2 &&
	       count_of(FC_COUNT_corrupt_slots) == 2,
	   "failures are counted by what they were");
	rig_close(&rig);
}

/* ---- too late ------------------------------------------------------------ */

/* What a caller does after a miss: it reads the disk into the same buffer. */
static void
read_disk(unsigned block)
{
	page_make(&pages[block], 7, block, DISK);
}

static void
test_late(void)
{
	begin(BLOCKS);

	uint64_t start = fc_clock_ns();

	hang();
	errno = ENOTTY;

	OK(read_run(1) == 0 && status[0] == FC_MISS &&
	       fc_clock_ns() - start >= DEADLINE_NS,
	   "a device that hangs costs the deadline");
	OK(errno == ENOTTY, "errno is left as it was found");
	OK(count_of(FC_COUNT_read_timeouts) == 1 &&
	       count_of(FC_COUNT_flash_read_errors) == 0 &&
	       count_of(FC_COUNT_misses) == BLOCKS + 1,
	   "a miss and a timeout are counted, and no error");
	take_back();
	OK(fc_read_would_hit(&rig.cache, &file, 0), "the block stays cached");

	read_disk(0);
	answer();
	rig.flash.last_first = true;

	Page before = pages[0];
	FcTicket other_ticket;
	static Page other;

	OK(fc_read(&rig.cache, &file, 1, &other, &other_ticket) == FC_OK &&
	       page_is(&other, 7, 1, 1),
	   "the device answers again, and hits are back");
	OK(memcmp(&before, &pages[0], sizeof(before)) == 0,
	   "what came late did not touch the buffer that the disk was read into");
	OK(rig.flash.deferred_count == 0 && read_run(20) == 20,
	   "the late page is in use again");
	rig_close(&rig);
}

static void
test_one_of_a_run(void)
{
	begin(BLOCKS);
	hang_once();
	OK(read_run(20) == 19 && status[0] == FC_MISS,
	   "one slot that hangs holds up no other");
	memory_device_let_go(&rig.flash);
	answer();
	OK(read_run(20) == 20, "and comes back");
	rig_close(&rig);
}

static void
test_all_pages_lost(void)
{
	begin(BLOCKS);
	hang();
	OK(read_run(40) == 0 &&
	       count_of(FC_COUNT_read_timeouts) == FC_QUEUE_DEPTH_READER,
	   "a long run on a device that hangs: as many late reads as pages");
	OK(rig.flash.deferred_count == FC_QUEUE_DEPTH_READER,
	   "the pages are the device's");

	uint64_t start = fc_clock_ns();

	/* At most as long as it may have to wait for the processor. */
	rig.cache.read_deadline_ns = PATIENCE_NS;
	OK(read_run(40) == 0 && fc_clock_ns() - start < PATIENCE_NS &&
	       rig.flash.deferred_count == FC_QUEUE_DEPTH_READER,
	   "without pages nothing is read, and nobody waits");
	OK(count_of(FC_COUNT_read_timeouts) == FC_QUEUE_DEPTH_READER,
	   "nor is that a timeout");
	answer();
	OK(read_run(40) == 40, "when they come back, so do the hits");
	rig_close(&rig);
}

/*
 * Block 0 is late, so the caller reads the disk into its page.  Then the device
 * answers: does the caller's page still hold what the disk held?
 */
static bool
late_read_spares_the_caller(void)
{
	Page from_disk;

	begin(BLOCKS);
	hang_once();
	MUST(read_run(1) == 0 && status[0] == FC_MISS);
	read_disk(0);
	from_disk = pages[0];
	memory_device_let_go(&rig.flash);

	bool spared = memcmp(&from_disk, &pages[0], sizeof(from_disk)) == 0;

	rig_close(&rig);
	return spared;
}

/*
 * Until its checksum was compared, a slot may hold anything; a miss must not.
 */
static bool
corrupt_read_spares_the_caller(void)
{
	static const Page zeros;

	begin(BLOCKS);
	rig.flash.read_fault = FAULT_FLIP;
	MUST(read_run(1) == 0 && status[0] == FC_MISS);

	bool spared = memcmp(&zeros, &pages[0], sizeof(zeros)) == 0;

	rig_close(&rig);
	return spared;
}

static void
test_own_pages(void)
{
	OK(late_read_spares_the_caller(),
	   "what comes late does not touch what the caller has from the disk");
	OK(corrupt_read_spares_the_caller(),
	   "nor does the caller see what is corrupt");
	fc_test_page = page;
	fc_test_broken = FC_BREAK(OWN_PAGE);
	OK(!late_read_spares_the_caller(),
	   "negative control: read straight into its page, it does");
	OK(!corrupt_read_spares_the_caller(),
	   "negative control: ... and so do bits");
	fc_test_broken = 0;
	fc_test_page = NULL;
}

static void
let_go(const char *name)
{
	if (strcmp(name, "slot-judged") == 0)
		memory_device_let_go(&rig.flash);
}

/*
 * Block 0 is late, and arrives at the worst moment: when block 1 has been read
 * and checked, and is about to be copied.  Does the caller get block 1?
 */
static bool
late_page_harms_no_other(void)
{
	begin(2);
	hang_once();
	MUST(read_run(1) == 0);

	take_back();
	fc_test_point = let_go;

	bool good = fc_read(&rig.cache, &file, 1, &pages[1], &ticket[1]) == FC_OK &&
	            page_is(&pages[1], 7, 1, 1);

	fc_test_point = NULL;
	rig_close(&rig);
	return good;
}

/* The device completes what is stuck when it is asked for more. */
static void
start_and_go_on(FcDevice *device, FcTransfer *transfer)
{
	deferred_start(device, transfer);
	rig.flash.stuck = 0;
}

/*
 * Block 0 is late, and arrives together with block 1, which a call waits for.
 */
static void
test_late_page_comes_with_another(void)
{
	static const FcDeviceOps ops = { .read = memory_read,
		                             .write = memory_write,
		                             .close = memory_close,
		                             .start = start_and_go_on,
		                             .finished = deferred_finished };

	begin(2);
	hang_once();
	MUST(read_run(1) == 0);
	take_back();
	rig.flash.device.ops = &ops;
	OK(fc_read(&rig.cache, &file, 1, &pages[1], &ticket[1]) == FC_OK &&
	       page_is(&pages[1], 7, 1, 1) && rig.flash.deferred_count == 0,
	   "a late page comes while another is waited for");
	OK(count_of(FC_COUNT_corrupt_slots) == 0 &&
	       fc_read_would_hit(&rig.cache, &file, 0) &&
	       fc_read_would_hit(&rig.cache, &file, 1),
	   "and is taken for no other");
	rig_close(&rig);
}

static void
test_late_page(void)
{
	OK(late_page_harms_no_other(), "a late page harms no other read");
	fc_test_broken = FC_BREAK(LOST_PAGE);
	OK(!late_page_harms_no_other(),
	   "negative control: late pages that are used again do");
	fc_test_broken = 0;
}

/* The last of many reads does not delay the others. */
static bool
others_are_taken_before(void)
{
	FcDeviceInfo info;

	begin(BLOCKS);
	rig.cache.read_deadline_ns = 400000000;
	rig.flash.stuck = 1;
	MUST(read_run(16) == 15);
	fc_devices_info(&rig.cache, 0, &info);
	rig_close(&rig);
	return info.timed_reads == 15 && info.read_ns / 15 < 200000000;
}

static void
test_last_one(void)
{
	bool taken = false;

	/* A process that cannot run takes all of them late, but not every time. */
	for (int tries = 0; tries < 20 && !taken; tries++)
		taken = others_are_taken_before();
	OK(taken, "one of a run is late; the others were taken before");
}

/* ---- all or nothing ------------------------------------------------------ */

static void
test_whole_runs(void)
{
	begin(BLOCKS);
	OK(read_whole(20) == 20 && count_of(FC_COUNT_hits) == 20 &&
	       rig.flash.deferred_most == 20,
	   "a run that is cached is read, all of it at once");
	OK(read_whole(BLOCKS) == BLOCKS && count_of(FC_COUNT_hits) == 20 + BLOCKS,
	   "so is one that is longer than there are pages");

	rig.flash.reads = 0;

	uint64_t misses = count_of(FC_COUNT_misses);

	OK(read_whole(BLOCKS + 1) == 0 && rig.flash.reads == 0 &&
	       count_of(FC_COUNT_misses) == misses &&
	       count_of(FC_COUNT_hits) == 20 + BLOCKS,
	   "of a run that lacks one block nothing is read or counted");

	/* The last block is in the ring when it is looked up. */
	MUST(fc_read(&rig.cache, &file, BLOCKS, &pages[0], &ticket[0]) == FC_MISS);
	page_make(&pages[0], 7, BLOCKS, 1);
	MUST(fc_fill(&rig.cache, &ticket[0], &pages[0]) == FC_OK);
	OK(read_whole(BLOCKS + 1) == BLOCKS + 1 && rig.flash.reads == BLOCKS &&
	       count_of(FC_COUNT_staged_hits) == 1,
	   "a block that has not got to flash yet is given from memory");
	rig_flush(&rig);

	MUST(fc_mode_set(&rig.cache, FC_PASSTHROUGH, FC_REASON_NONE) == FC_OK);
	OK(read_whole(4) == 0, "nothing is served while the mode forbids it");
	MUST(fc_mode_set(&rig.cache, FC_SERVE, FC_REASON_NONE) == FC_OK);

	FcFile other = file;

	file.generation--;
	OK(read_whole(4) == 0, "nor under a number that is not the file's");
	file = other;

	rig.flash.read_fault = FAULT_FLIP;
	OK(read_whole(20) == 0, "with one block bad, the run is not served");
	OK(read_whole(20) == 0 && !fc_read_would_hit(&rig.cache, &file, 0),
	   "and the block is gone");
	rig_close(&rig);
}

/* ---- reading ahead ------------------------------------------------------- */

/* Read blocks first .. first + count - 1 one by one; how many were right? */
static unsigned
read_singly(uint32_t first, unsigned count)
{
	unsigned right = 0;

	for (uint32_t block = first; block < first + count; block++)
		right +=
			fc_read(&rig.cache, &file, block, &pages[0], &ticket[0]) == FC_OK &&
			page_is(&pages[0], 7, block, 1);
	return right;
}

static void
test_ahead(void)
{
	begin(BLOCKS);
	rig.flash.reads = 0;
	OK(fc_read_ahead(&rig.cache, &file, 0, 16) == 16 &&
	       rig.flash.deferred_count == 16,
	   "blocks are read ahead");
	OK(rig.flash.reads == 0 && count_of(FC_COUNT_flash_reads) == 0,
	   "and not waited for");
	OK(fc_read_ahead(&rig.cache, &file, 0, 20) == 20 &&
	       rig.flash.deferred_count == 4,
	   "what has been asked for is not asked for again");
	OK(read_singly(0, 20) == 20, "then they are hits");
	OK(rig.flash.reads == 20 && count_of(FC_COUNT_flash_reads) == 20 &&
	       count_of(FC_COUNT_flash_read_bytes) == 20 * FC_BLOCK_SIZE &&
	       count_of(FC_COUNT_hits) == 20,
	   "each of one read of flash");
	OK(read_singly(0, 1) == 1 && rig.flash.reads == 21,
	   "what was given is not kept");

	OK(fc_read_ahead(&rig.cache, &file, BLOCKS - 4, 20) == BLOCKS + 16 &&
	       rig.flash.deferred_count == 4,
	   "what is not cached is skipped");
	OK(read_singly(BLOCKS - 4, 4) == 4, "the rest is read");

	/* Some have arrived, some are under way, some were not requested. */
	rig.flash.reads = 0;
	IGNORE(fc_read_ahead(&rig.cache, &file, 0, 4));
	IGNORE(fc_read_ahead(&rig.cache, &file, 8, 4));
	OK(read_run(16) == 16 && rig.flash.reads == 16,
	   "a run takes what it finds, and reads the rest");

	rig.flash.read_fault = FAULT_EIO;
	IGNORE(fc_read_ahead(&rig.cache, &file, 30, 4));
	OK(read_singly(30, 4) == 4 && count_of(FC_COUNT_flash_read_errors) == 1,
	   "one that fails is read again by who wants it");

	atomic_store(&rig.cache.shared->health[0].state, FC_DEVICE_STALLED);
	IGNORE(fc_read_ahead(&rig.cache, &file, 40, 4));
	OK(rig.flash.deferred_count == 0,
	   "nothing is read ahead of a device that is bypassed");
	rig.flash.reads = 0;
	OK(!fc_read_run(&rig.cache, &file, 40, 4, page, ticket) &&
	       rig.flash.deferred_count == 0 && rig.flash.reads == 0,
	   "nor a run of it");
	take_back();
	MUST(fc_mode_set(&rig.cache, FC_PASSTHROUGH, FC_REASON_USER) == FC_OK);
	IGNORE(fc_read_ahead(&rig.cache, &file, 40, 4));
	OK(rig.flash.deferred_count == 0, "nor in passthrough");
	rig_close(&rig);
}

/* The bytes kept are from before a change; are the new ones read? */
static bool
change_is_seen(FcBreaks broken)
{
	FcChange change;

	begin(4);
	IGNORE(fc_read_ahead(&rig.cache, &file, 0, 3));
	MUST(read_singly(2, 1) == 1); /* now all have arrived */
	fc_change_begin(&rig.cache, &file, 0, 1, &change);
	page_make(&pages[0], 7, 0, 2);
	fc_change_end(&rig.cache, &file, &change);
	MUST(fc_change_fill(&rig.cache, &change, &pages[0]) == FC_OK);
	rig_flush(&rig);
	change_blocks(&rig.cache, &file, 1, 1);

	fc_test_broken = broken;

	bool seen =
		fc_read(&rig.cache, &file, 0, &pages[0], &ticket[0]) == FC_OK &&
		page_is(&pages[0], 7, 0, 2) &&
		fc_read(&rig.cache, &file, 1, &pages[0], &ticket[0]) == FC_MISS &&
		count_of(FC_COUNT_corrupt_slots) == 0;

	fc_test_broken = 0;
	rig_close(&rig);
	return seen;
}

static void
test_ahead_of_a_change(void)
{
	OK(change_is_seen(0), "what was read ahead of a change is not used");
	OK(change_is_seen(FC_BREAK(CRC)), "nor is it the checksum that tells");
	OK(!change_is_seen(FC_BREAK(AHEAD) | FC_BREAK(CRC)),
	   "negative control: given to any entry of the slot, it is seen");
}

static void
test_ahead_and_hung(void)
{
	uint64_t start;

	begin(BLOCKS);
	hang();
	OK(fc_read_ahead(&rig.cache, &file, 0, 24) == 24 &&
	       fc_read_ahead(&rig.cache, &file, 24, 24) == 24,
	   "a device that hangs does not get all pages");
	start = fc_clock_ns();
	OK(read_singly(0, 1) == 0 && fc_clock_ns() - start >= DEADLINE_NS &&
	       count_of(FC_COUNT_read_timeouts) == 1,
	   "who wants one waits for its time, and no longer");
	take_back();
	answer();
	OK(read_singly(0, BLOCKS) == BLOCKS, "when it answers, all is as it was");

	/* They are not asked for, in no time however busy the machine is. */
	fc_test_now_ns = fc_clock_ns();
	IGNORE(fc_read_ahead(&rig.cache, &file, 0, 24));
	OK(read_singly(50, 1) == 1 && fc_read_ahead(&rig.cache, &file, 60, 8) == 60,
	   "what was read ahead for nobody stays for a while");
	OK(read_run(40) == 40, "but not in the way of who needs the pages");
	IGNORE(fc_read_ahead(&rig.cache, &file, 0, 24));
	MUST(read_singly(50, 1) == 1);
	fc_test_now_ns += 1100 * MS;
	OK(fc_read_ahead(&rig.cache, &file, 60, 8) == 68, "and then goes");
	fc_test_now_ns = 0;
	OK(read_singly(60, 8) == 8, "to make room for others");
	rig_close(&rig);
}

/* ---- a read within a read ------------------------------------------------ */

static FcStatus nested;

static void
read_within(void)
{
	static Page other;
	FcTicket other_ticket;

	nested = fc_read(&rig.cache, &file, 5, &other, &other_ticket);
}

static bool
nested_read_harms_nothing(void)
{
	begin(20);
	rig.flash.on_read = read_within;
	if (fc_test_broken != 0) /* some of its reads never end */
		rig.cache.read_deadline_ns = DEADLINE_NS;

	bool good = read_run(20) == 20;

	OK(!good || nested == FC_MISS, "a read within a read gets nothing");
	good = good && read_run(20) == 20;
	rig_close(&rig);
	return good;
}

static void
test_nested(void)
{
	OK(nested_read_harms_nothing(), "and harms nothing");
	fc_test_broken = FC_BREAK(READER_BUSY);
	OK(!nested_read_harms_nothing(),
	   "negative control: one that goes ahead does");
	fc_test_broken = 0;
}

/* ---- real files, real children ------------------------------------------- */

static char path[200];

static void
begin_with_file(FcDevice *device)
{
	FcConfig config = { .slot_count = 1024,
		                .file_count = 64,
		                .process_count = 16,
		                .replacement = &fc_replacement_lfu };

	MUST(fc_device_file_open(device, path, 1024, 0) == FC_DEVICE_FINE);
	device->direct = true; /* for AIO, wherever this runs */
	device->in_memory = false;
	rig.memory_size = fc_cache_memory_needed(&config);
	rig.memory = shared_memory(rig.memory_size);
	MUST(fc_cache_create(&rig.cache, rig.memory, &config, device) == FC_OK);
	MUST(fc_mode_set(&rig.cache, FC_SERVE, FC_REASON_NONE) == FC_OK);
	rig.cache.read_deadline_ns = PATIENCE_NS;
	file = fc_file(file_id(7));
	MUST(fc_file_enter(&rig.cache, &file) == FC_OK);
	for (uint32_t block = 0; block < BLOCKS; block++)
		put(block);
}

static void
end_with_file(FcDevice *device)
{
	fc_cache_close(&rig.cache);
	munmap(rig.memory, rig.memory_size);
	device->ops->close(device);
}

static void
test_file(const char *engine)
{
	FcDevice device;
	int result;

	begin_with_file(&device);
	submits = 0;
	OK(read_run(BLOCKS) == BLOCKS, "%s: a run of %d blocks", engine, BLOCKS);
	OK(setup_errno != 0 || (submits > 0 && submits < BLOCKS / 5),
	   "%s: in %u calls", engine, submits);

	pid_t child = fork();

	MUST(child >= 0);
	if (child == 0)
	{
		rig.cache.token = 0;
		for (int i = 0; i < 20; i++)
			if (read_run(BLOCKS) != BLOCKS)
				_exit(1);
		_exit(0);
	}

	bool mine = true;

	for (int i = 0; i < 20; i++)
		mine = mine && read_run(BLOCKS) == BLOCKS;
	MUST(waitpid(child, &result, 0) == child);
	OK(mine && WIFEXITED(result) && WEXITSTATUS(result) == 0,
	   "%s: parent and child read side by side", engine);
	end_with_file(&device);
}

/* What went wrong while a process read a file in memory. */
enum
{
	WRONG_HITS = 1,    /* not every block was read */
	WRONG_WAY = 2,     /* by a queue, or not by one */
	WRONG_BYTES = 4,   /* of a damaged slot */
	WRONG_FAILURE = 8, /* of a file that was cut off */
};

static uint64_t
corrupt(void)
{
	return fc_count_sum_of_device(rig.cache.shared, 0, FC_DEVICE_CORRUPT);
}

static int
read_in_memory(FcDevice *device, bool copies)
{
	Page junk;
	off_t first = FC_SLOTS_OFFSET;
	int wrong = 0;

	rig.cache.token = 0;
	for (int i = 0; i < 20; i++)
	{
		for (int block = 0; block < BLOCKS; block++)
			memset(&pages[block], 0xee, sizeof(Page));
		wrong |= read_run(BLOCKS) == BLOCKS ? 0 : WRONG_HITS;
		for (uint32_t block = 0; block < BLOCKS; block++)
			wrong |= page_is(&pages[block], 7, block, 1) ? 0 : WRONG_HITS;
	}
	wrong |= (rig.cache.reader == NULL) == copies ? 0 : WRONG_WAY;

	memset(&junk, 7, sizeof(junk));
	MUST(device->ops->write(device, &junk, sizeof(junk),
	                        first + (off_t) ticket[3].slot * FC_BLOCK_SIZE) ==
	     (ssize_t) sizeof(junk));
	wrong |= read_run(20) == 19 && status[3] == FC_MISS ? 0 : WRONG_BYTES;
	wrong |= corrupt() == 1 && !fc_read_would_hit(&rig.cache, &file, 3)
	             ? 0
	             : WRONG_BYTES;

	MUST(ftruncate(device->fd, first) == 0);
	wrong |= read_run(3) == 0 && count_of(FC_COUNT_flash_read_errors) > 0
	             ? 0
	             : WRONG_FAILURE;
	return wrong;
}

/* By a process whose number is even or odd: see copies_from(). */
static void
test_in_memory(bool copies)
{
	const char *way = copies ? "a copy" : "a queue";
	FcDevice device;
	int result;
	pid_t child;

	begin_with_file(&device);
	device.in_memory = true;
	do
	{
		child = fork();
		MUST(child >= 0);
		if (child == 0)
			_exit((getpid() % 2 == 0) == copies
			          ? read_in_memory(&device, copies)
			          : 255);
		MUST(waitpid(child, &result, 0) == child);
	} while (WIFEXITED(result) && WEXITSTATUS(result) == 255);

	int wrong = WIFEXITED(result) ? WEXITSTATUS(result) : 255;

	OK((wrong & WRONG_HITS) == 0, "a file in memory is read by %s", way);
	OK((wrong & WRONG_WAY) == 0, "... and in no other way");
	OK((wrong & WRONG_BYTES) == 0, "... and a damaged slot is not served");
	OK((wrong & WRONG_FAILURE) == 0, "... and a failure is counted");
	end_with_file(&device);
}

static void
test_many_at_once(void)
{
	test_runs();
	test_one_of_a_run();
	test_all_pages_lost();
	test_last_one();
	test_whole_runs();
	test_ahead();
	test_ahead_of_a_change();
	test_ahead_and_hung();
	test_nested();
}

int
main(void)
{
	/* By plain calls there is one read at a time. */
	if (has_aio())
		test_many_at_once();
	else
		SKIP("many reads at once", NO_AIO);
	test_late();
	test_own_pages();
	test_late_page();
	test_late_page_comes_with_another();

	int fd;

	tap_scratch(path, sizeof(path), "pgflash-reader", false);
	fd = mkstemp(path);

	MUST(fd >= 0);
	close(fd);
	if (has_aio())
		test_file("AIO");
	else
		SKIP("files read by AIO", NO_AIO);
	setup_errno = ENOSYS;
	test_file("plain");
	setup_errno = 0;
	test_in_memory(true);
	test_in_memory(false);
	unlink(path);
	return tap_done();
}
