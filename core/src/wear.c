/*
 * wear.c
 *		What was written to flash, recorded in the cache files.
 *
 * Flash wears whatever happens to the cache.  So what was written in the last
 * 24 hours, and the content of the write budget's bucket (budget.c), outlive
 * restarts, crashes and reboots, and start over only with a new file.  Each
 * cache file has a record of what was written to it.
 *
 * Housekeeping writes the record, at most once in SAVE_NS, if a slot was
 * written since.  It does not wait, since the device may hang.  The last
 * process of a server writes the record once more.  So a crash loses the record
 * of what was written in the last SAVE_NS or a little longer; in a power cut
 * the device may lose some more.  The bucket errs on the safe side: unless the
 * last life ended cleanly, nothing is saved up in it.
 *
 * Torn writes: there are two places, written in turn.  A start uses the record
 * with the higher sequence and the right CRC32C.
 *
 * Time: writes older than a day no longer count.  The monotonic clock tells how
 * old a record is.  A record of another boot is known to be at least as old as
 * this boot, so nothing ages while the machine is off.  Setting the wall clock
 * has no effect.
 *
 * A record contains the inode of its file, because a copy is on other flash, or
 * at least has not been written to as often.
 *
 * Shared memory counts the hours of all files together.  What a file had before
 * this life is in its FcDevice, which every process inherits.  Of the bytes
 * written since, the file gets a share in proportion to its own writes in this
 * life.
 *
 * Locking: none; one process at a time writes records.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "wear.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "budget.h"
#include "count.h"
#include "fcache/crc32c.h"
#include "health.h"
#include "ondisk.h"
#include "queue.h"

#define SAVE_NS 10000000000ULL

typedef struct WearPage
{
	_Alignas(FC_IO_ALIGN) unsigned char bytes[FC_BLOCK_SIZE];
} WearPage;

/* A record that is being written. */
typedef struct Save
{
	FcTransfer transfer;
	bool under_way;
	uint64_t writes;       /* of slots, that it includes */
	uint64_t writes_saved; /* ... that the last completed one included */
} Save;

struct FcWearWriter
{
	FcQueue queue;
	uint64_t begun_ns; /* when the last round of records began */
	Save save[FC_DEVICES_MAX];
	WearPage page[FC_DEVICES_MAX];
};

static uint32_t
crc_of(const FcDiskWear *wear)
{
	return fc_crc32c(0, &wear->ended,
	                 sizeof(*wear) - offsetof(FcDiskWear, ended));
}

static off_t
place_of(uint64_t sequence)
{
	return FC_WEAR_OFFSET +
	       (off_t) (FC_BROKEN(WEAR_PLACES) ? 0 : sequence % 2) * FC_BLOCK_SIZE;
}

static uint64_t
inode_of(int fd)
{
	struct stat status;

	return fstat(fd, &status) == 0 ? (uint64_t) status.st_ino : 0;
}

/* ---- reading ------------------------------------------------------------- */

static uint64_t
age_of(const FcShared *shared, const FcDiskWear *wear, uint64_t now)
{
	uint64_t boot = shared->identity.boot[0];

	if (wear->boot == 0 || boot == 0)
		return 0;
	if (wear->boot != boot && !FC_BROKEN(WEAR_BOOT))
		return now;
	return now > wear->monotonic_ns ? now - wear->monotonic_ns : 0;
}

static bool
read_record(int fd, uint64_t place, FcDiskWear *wear)
{
	WearPage page;

	if (pread(fd, page.bytes, sizeof(page), place_of(place)) !=
	    (ssize_t) sizeof(page))
		return false;
	memcpy(wear, page.bytes, sizeof(*wear));
	return wear->magic == FC_WEAR_MAGIC &&
	       (wear->crc == crc_of(wear) || FC_BROKEN(WEAR_CRC));
}

/* A cache file's record of earlier lives, and its age. */
typedef struct Found
{
	FcDiskWear wear;
	uint64_t age_ns;
	bool found;
} Found;

static void
find(const FcShared *shared, int fd, uint64_t now, Found *out)
{
	uint64_t inode = inode_of(fd);

	for (uint64_t place = 0; place < 2; place++)
	{
		FcDiskWear wear;

		if (!read_record(fd, place, &wear) || wear.inode != inode ||
		    (out->found && wear.sequence < out->wear.sequence))
			continue;
		*out = (Found){ .wear = wear,
			            .age_ns = age_of(shared, &wear, now),
			            .found = true };
	}
}

/* What a record's clock would show now. */
static uint64_t
clock_now(const Found *found)
{
	return found->wear.clock_ns + found->age_ns;
}

/*
 * The present content of the bucket.  If a life was killed, the time of its end
 * is unknown.  The next one then begins with nothing saved up, so that a server
 * that is killed over and over writes no more than another.
 */
static int64_t
bucket_now(const Found *found)
{
	return fc_budget_refill(found->wear.bytes_per_day, found->wear.left,
	                        found->age_ns,
	                        found->wear.ended != 0 || FC_BROKEN(WEAR_ENDED));
}

/* Restore clock and bucket from the file that was used last. */
static void
go_on(FcShared *shared, const Found found[], uint64_t now)
{
	FcBudgetBefore before = { .now_ns = now };
	bool any = false;

	FC_ASSERT(shared->device_count <= FC_DEVICES_MAX);
	for (uint32_t i = 0; i < shared->device_count; i++)
	{
		if (found[i].found && (!any || clock_now(&found[i]) > before.clock_ns))
			before =
				(FcBudgetBefore){ .now_ns = now,
				                  .clock_ns = clock_now(&found[i]),
				                  .bytes_per_day = found[i].wear.bytes_per_day,
				                  .left = bucket_now(&found[i]) };
		any |= found[i].found;
	}
	for (uint32_t i = 0; i < shared->device_count; i++)
	{
		uint64_t known = found[i].age_ns + found[i].wear.known_ns;

		if (found[i].found && known > before.known_ns)
			before.known_ns = known;
	}
	if (any)
		fc_budget_go_on(shared, &before);
}

/*
 * Count blocks by the hours of our clock.  An hour of the record that spans two
 * of them counts in the later one.
 */
static void
take_hours(FcShared *shared, const Found *found, uint64_t now, FcWear *out)
{
	uint64_t clock = now + shared->budget.ahead_ns;
	uint64_t shift = clock - clock_now(found);
	uint64_t newest = found->wear.clock_ns / FC_HOUR_NS +
	                  (shift + FC_HOUR_NS - 1) / FC_HOUR_NS;

	*out = (FcWear){ .hour = clock / FC_HOUR_NS };
	for (uint64_t i = 0; i < FC_WEAR_HOURS && i < newest; i++)
	{
		uint64_t ago = newest - i < out->hour ? out->hour - (newest - i) : 0;

		if (ago >= FC_WEAR_HOURS)
			break;
		out->blocks[ago] += found->wear.blocks[i];
		fc_budget_add(shared, out->hour - ago, found->wear.blocks[i]);
	}
}

/* ---- writing ------------------------------------------------------------- */

/* Blocks written to the file in an hour before this life. */
static uint64_t
blocks_before(const FcDevice *device, uint64_t hour)
{
	uint64_t ago = device->wear.hour - hour;

	return ago < FC_WEAR_HOURS ? device->wear.blocks[ago] : 0;
}

static uint64_t
slots_written(const FcShared *shared, uint32_t number)
{
	return fc_count_sum_of_device(shared, number, FC_DEVICE_WRITES_DONE);
}

/*
 * Blocks written to the file in an hour: those before this life, and its share
 * of those since.
 */
static uint64_t
blocks_of_file(const FcCache *cache, uint32_t number, uint64_t hour)
{
	const FcShared *shared = cache->shared;
	uint64_t since = fc_budget_blocks(shared, hour);
	uint64_t of_all = 0;

	FC_ASSERT(number < shared->device_count);
	for (uint32_t i = 0; i < shared->device_count; i++)
	{
		uint64_t before = blocks_before(&cache->devices[i], hour);

		since -= before < since ? before : since;
		of_all += slots_written(shared, i);
	}
	if (of_all > 0)
		since = (uint64_t) ((double) since *
		                        (double) slots_written(shared, number) /
		                        (double) of_all +
		                    0.5);
	return blocks_before(&cache->devices[number], hour) + since;
}

static void
fill_page(const FcCache *cache, uint32_t number, bool ended, WearPage *page)
{
	const FcShared *shared = cache->shared;
	const FcBudget *budget = &shared->budget;
	uint64_t clock = fc_budget_clock(shared);
	uint64_t known = clock - budget->begun_ns;
	FcDiskWear wear = {
		.magic = FC_WEAR_MAGIC,
		.ended = ended,
		.sequence = (uint64_t) budget->sequence[number] + 1,
		.inode = inode_of(cache->devices[number].fd),
		.boot = shared->identity.boot[0],
		.monotonic_ns = clock - budget->ahead_ns,
		.clock_ns = clock,
		.known_ns = known < FC_WEAR_NS_MAX ? known : FC_WEAR_NS_MAX,
		.bytes_per_day = atomic_load(&budget->bytes_per_day),
		.left = atomic_load(&budget->left),
	};

	for (uint64_t ago = 0; ago < FC_WEAR_HOURS; ago++)
		wear.blocks[ago] =
			blocks_of_file(cache, number, clock / FC_HOUR_NS - ago);
	wear.crc = crc_of(&wear);
	memset(page, 0, sizeof(*page));
	memcpy(page->bytes, &wear, sizeof(wear));
}

/* Write a record and wait for it; for a process that is alone. */
static bool
write_now(FcCache *cache, uint32_t number, bool ended)
{
	int fd = cache->devices[number].fd;
	uint32_t *sequence = &cache->shared->budget.sequence[number];
	WearPage page;

	FC_ASSERT(fd >= 0 && number < cache->shared->device_count);
	fill_page(cache, number, ended, &page);
	if (pwrite(fd, page.bytes, sizeof(page), place_of(*sequence + 1)) !=
	    (ssize_t) sizeof(page))
		return false;
	++*sequence;
	return fdatasync(fd) == 0;
}

void
fc_wear_begin(FcCache *cache, uint64_t bytes_per_day)
{
	FcShared *shared = cache->shared;
	Found found[FC_DEVICES_MAX] = { { .found = false } };

	/*
	 * One look at the clock for everything.  After a second one, the record of
	 * the file that was used last would be a few nanoseconds older than our
	 * clock, and its hours would count as an hour younger at each start.
	 */
	uint64_t now = fc_clock_ns();

	FC_ASSERT(shared->device_count <= FC_DEVICES_MAX);
	fc_budget_begin(shared);
	for (uint32_t i = 0; i < shared->device_count; i++)
	{
		if (cache->devices[i].fd >= 0 && !FC_BROKEN(WEAR))
			find(shared, cache->devices[i].fd, now, &found[i]);
		shared->budget.sequence[i] = (uint32_t) found[i].wear.sequence;
	}
	go_on(shared, found, now);
	for (uint32_t i = 0; i < shared->device_count; i++)
		take_hours(shared, &found[i], now, &cache->devices[i].wear);

	fc_budget_set(cache, bytes_per_day);

	/*
	 * From here on the record says that this life has not ended, because it may
	 * be killed before the next one.
	 */
	for (uint32_t i = 0; i < shared->device_count; i++)
		if (cache->devices[i].fd >= 0)
			(void) write_now(cache, i, false);
}

static bool
answers(const FcCache *cache, uint32_t device)
{
	FC_ASSERT(device < cache->shared->device_count);
	return cache->devices[device].fd >= 0 &&
	       fc_health_answers(cache->shared, device);
}

void
fc_wear_end(FcCache *cache)
{
	if (cache->shared == NULL)
		return;
	for (uint32_t i = 0; i < cache->shared->device_count; i++)
		if (answers(cache, i))
			(void) write_now(cache, i, true);
}

/* ---- housekeeping's part ------------------------------------------------- */

static FcWearWriter *
writer_of(FcCache *cache)
{
	if (cache->wear == NULL)
	{
		FcWearWriter *writer =
			mmap(NULL, sizeof(FcWearWriter), PROT_READ | PROT_WRITE,
		         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (writer == MAP_FAILED)
			return NULL;
		/* A child finds zeros, since the queue is its parent's. */
		if (madvise(writer, sizeof(FcWearWriter), MADV_WIPEONFORK) != 0)
		{
			munmap(writer, sizeof(FcWearWriter));
			return NULL;
		}
		cache->wear = writer;
	}
	if (cache->wear->queue.depth == 0)
		fc_queue_open(&cache->wear->queue, FC_DEVICES_MAX);
	return cache->wear;
}

/*
 * If a record could not be written, the next one takes the same place, since
 * the other place has a good one.
 */
static void
collect(FcCache *cache, FcWearWriter *writer)
{
	FcTransfer *back[FC_DEVICES_MAX];
	unsigned count = fc_queue_reap(&writer->queue, 0, 0, back, FC_DEVICES_MAX);

	for (unsigned i = 0; i < count; i++)
	{
		Save *save = back[i]->tag;

		FC_ASSERT(save->under_way);
		save->under_way = false;
		if (back[i]->result != FC_BLOCK_SIZE)
			continue;
		save->writes_saved = save->writes;
		cache->shared->budget.sequence[save - writer->save]++;
	}
}

static void
begin(FcCache *cache, FcWearWriter *writer, uint32_t number)
{
	Save *save = &writer->save[number];
	FcTransfer *transfer = &save->transfer;
	uint64_t writes = slots_written(cache->shared, number);

	FC_ASSERT(number < cache->shared->device_count);
	if (save->under_way || writes == save->writes_saved ||
	    !answers(cache, number))
		return;
	fill_page(cache, number, false, &writer->page[number]);
	save->writes = writes;
	*transfer = (FcTransfer){
		.device = &cache->devices[number],
		.write = true,
		.page = writer->page[number].bytes,
		.offset = place_of(cache->shared->budget.sequence[number] + 1ULL),
		.tag = save
	};
	save->under_way = fc_queue_submit(&writer->queue, &transfer, 1) == 1;
}

void
fc_wear_save(FcCache *cache)
{
	FcWearWriter *writer = writer_of(cache);
	uint64_t now = fc_clock_ns();

	if (writer == NULL)
		return;
	if (writer->queue.in_flight > 0)
		collect(cache, writer);
	if (now - writer->begun_ns < SAVE_NS)
		return;
	writer->begun_ns = now;
	for (uint32_t i = 0; i < cache->shared->device_count; i++)
		begin(cache, writer, i);
	collect(cache, writer);
}

void
fc_wear_close(FcCache *cache)
{
	if (cache->wear == NULL)
		return;
	fc_queue_close(&cache->wear->queue);
	munmap(cache->wear, sizeof(FcWearWriter));
	cache->wear = NULL;
}
