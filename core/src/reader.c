/*
 * reader.c
 *		Reading slots into the process's own pages, with a time limit.
 *
 * A device may take any time, and until a read is done the kernel may write to
 * its page at any moment.  So no read uses the caller's buffer: it uses one of
 * the reader's pages, where the data is checked and then copied.  A read that
 * exceeds its deadline is abandoned: the caller gets nothing and reads from
 * disk, and the page is lost until the device is done with it.  With all pages
 * lost, nothing is read from flash.
 *
 * A page in use belongs to the call that waits for it, or to no call (the call
 * gave up), or it is kept: read ahead for any call that asks for its entry.  It
 * is given only to a call that finds the entry exactly as it was seen before
 * the read began, including its sequence and checksum.  So the read lies
 * between the two looks at the entry, however long ago it was, and the caller
 * judges the bytes like any others.  A kept page that no call asks for is
 * dropped when it is old, or when a call needs it.
 *
 * Each process has its own reader, mapped at its first read, because reads
 * happen where nothing may be allocated.  A child finds zeros in its place
 * (MADV_WIPEONFORK), which means a reader not opened yet: it has neither the
 * parent's pages, which the kernel may be writing, nor the parent's queue.
 *
 * A file in memory is read by one call into the caller's page.  Nothing delays
 * such a read, and with AIO it would be done at the submit as well: so it needs
 * no deadline, no page in between, and none that was read ahead.
 *
 * A signal handler may interrupt a call here and read on its own.  Its call
 * finds the reader busy and gets nothing.
 *
 * When a process dies, the kernel keeps its pages until its reads are done.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "reader.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "devices.h"
#include "geometry.h"
#include "queue.h"

#define PAGES FC_QUEUE_DEPTH_READER

_Static_assert(PAGES <= 32, "a word says which pages are free");

/* Reading ahead leaves this many pages for calls that wait. */
#define PAGES_SPARED 8

/* A page read ahead that is not asked for in this time never will be. */
#define KEPT_NS 1000000000ULL

/*
 * One read in so many may be left under way while the others are processed.
 * Leaving more costs more in wake-ups than it gains (docs/decisions, 21).
 */
#define LATE_ONE_IN 16

/* A page and the read that fills it. */
typedef struct Place
{
	FcTransfer transfer;
	FcSeen seen; /* the entry whose slot it is */
	uint64_t start_ns;
	uint32_t call;  /* that waits for it; an earlier one: none does */
	uint32_t index; /* of the slot in that call */
} Place;

struct FcReader
{
	bool busy;
	uint32_t call;
	uint32_t free; /* one bit for each page */
	uint32_t kept; /* read ahead, for any call that asks */
	uint32_t come; /* ... of these, done */
	FcQueue queue;
	Place place[PAGES];
	unsigned char page[PAGES][FC_BLOCK_SIZE]
		__attribute__((aligned(FC_IO_ALIGN)));
};

static FcReader *
map_reader(void)
{
	FcReader *reader = mmap(NULL, sizeof(FcReader), PROT_READ | PROT_WRITE,
	                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (reader == MAP_FAILED)
		return NULL;
	if (madvise(reader, sizeof(FcReader), MADV_WIPEONFORK) != 0)
	{
		munmap(reader, sizeof(FcReader));
		return NULL;
	}
	return reader;
}

static void
open_reader(FcReader *reader)
{
	fc_queue_open(&reader->queue, PAGES);
	reader->free = (uint32_t) ((1ULL << reader->queue.depth) - 1);
}

static uint32_t
bit_of(const FcReader *reader, const Place *place)
{
	return 1U << (place - reader->place);
}

static void
free_place(FcReader *reader, const Place *place)
{
	uint32_t bit = bit_of(reader, place);

	FC_ASSERT((reader->free & bit_of(reader, place)) == 0);
	reader->free |= bit;
	reader->kept &= ~bit;
	reader->come &= ~bit;
}

/* Take a free page for a slot; there must be one. */
static Place *
take_place(FcCache *cache, const FcSeen *seen, uint64_t now_ns)
{
	FcReader *reader = cache->reader;

	FC_ASSERT(reader->busy && reader->free != 0);

	Place *place = &reader->place[__builtin_ctz(reader->free)];

	reader->free &= reader->free - 1;
	place->seen = *seen;
	place->start_ns = now_ns;
	place->transfer = (FcTransfer){ .page = reader->page[place - reader->place],
		                            .tag = place };
	fc_devices_place_of_slot(cache, seen->slot, &place->transfer.device,
	                         &place->transfer.offset);
	return place;
}

/* Submit the reads of some places; places that the queue refuses are freed. */
static unsigned
submit(FcReader *reader, FcTransfer *transfer[], unsigned count)
{
	unsigned taken =
		count > 0 ? fc_queue_submit(&reader->queue, transfer, count) : 0;

	FC_ASSERT(count <= PAGES);
	for (unsigned i = taken; i < count; i++)
		free_place(reader, transfer[i]->tag);
	return taken;
}

/* How did the read of a place end? */
static FcOutcome
outcome_of(FcCache *cache, const Place *place)
{
	FcOutcome outcome = fc_devices_outcome(place->transfer.result);

	/*
	 * If the cache has shrunk, so has its file: not the device's fault either.
	 */
	if (outcome == FC_OUTCOME_ERROR &&
	    !fc_slot_has_room(cache, place->seen.slot))
		return FC_OUTCOME_INTERRUPTED;
	return outcome;
}

/*
 * A read ahead is done; its time was not measured.  If it failed, the page is
 * useless: a call that asks for the slot will read it again.
 */
static void
kept_place_done(FcCache *cache, const Place *place)
{
	FcReader *reader = cache->reader;
	FcOutcome outcome = outcome_of(cache, place);

	FC_ASSERT((reader->kept & bit_of(reader, place)) != 0);
	if (outcome == FC_OUTCOME_OK)
		outcome = FC_OUTCOME_AHEAD;
	fc_devices_read_done(cache, place->transfer.device, 0, outcome);
	if (outcome == FC_OUTCOME_AHEAD)
		reader->come |= bit_of(reader, place);
	else
		free_place(reader, place);
}

/* Collect finished reads that no call waits for. */
static void
collect_reads(FcCache *cache)
{
	FcReader *reader = cache->reader;
	FcTransfer *done[PAGES];
	unsigned count = fc_queue_reap(&reader->queue, 0, 0, done, PAGES);

	for (unsigned i = 0; i < count; i++)
	{
		Place *place = done[i]->tag;

		if ((reader->kept & bit_of(reader, place)) != 0)
			kept_place_done(cache, place);
		else
			free_place(reader, place);
	}
}

/* The process's reader, if it is available now. */
static FcReader *
take_reader(FcCache *cache)
{
	if (cache->reader == NULL)
		cache->reader = map_reader();

	FcReader *reader = cache->reader;

	if (reader == NULL || (reader->busy && !FC_BROKEN(READER_BUSY)))
		return NULL;

	/* A signal handler that runs after this line finds it busy. */
	reader->busy = true;
	atomic_signal_fence(memory_order_seq_cst);
	if (reader->queue.depth == 0)
		open_reader(reader);
	reader->call++;
	return reader;
}

static void
give_back_reader(FcReader *reader)
{
	FC_ASSERT(reader->busy || FC_BROKEN(READER_BUSY));

	/* A handler that finds it free finds it complete: see take_reader(). */
	atomic_signal_fence(memory_order_seq_cst);
	reader->busy = false;
}

/* ---- files in memory ----------------------------------------------------- */

/*
 * Servers of tests have their files in memory, and users' servers do not.  So
 * half of a test build's processes read such a file like any other.
 */
static bool
copies_from(const FcDevice *device)
{
#ifdef FC_TEST
	return device->in_memory && getpid() % 2 == 0;
#else
	return device->in_memory;
#endif
}

/* Where a slot lies; is it read by a copy? */
static bool
find_copy(const FcCache *cache, const FcSeen *seen, FcDevice **device_out,
          off_t *offset_out)
{
	FC_ASSERT(fc_meta_serves(seen->meta));
	fc_devices_place_of_slot(cache, seen->slot, device_out, offset_out);
	return copies_from(*device_out);
}

bool
fc_reader_copy(FcCache *cache, const FcSeen *seen, void *page)
{
	FcDevice *device;
	off_t offset;
	uint64_t start_ns;

	FC_ASSERT(page != NULL && fc_meta_serves(seen->meta));
	if (!find_copy(cache, seen, &device, &offset))
		return false;
	start_ns = fc_clock_ns();
	if (pread(device->fd, page, FC_BLOCK_SIZE, offset) != FC_BLOCK_SIZE)
		return false;
	fc_devices_read_done(cache, device, fc_clock_ns() - start_ns,
	                     FC_OUTCOME_OK);
	return true;
}

/* ---- kept pages ---------------------------------------------------------- */

/* The place where the slot of exactly this entry was read ahead; or NULL. */
static Place *
kept_place(FcReader *reader, const FcSeen *seen)
{
	FC_ASSERT((reader->kept & reader->free) == 0);
	for (uint32_t left = reader->kept; left != 0; left &= left - 1)
	{
		Place *place = &reader->place[__builtin_ctz(left)];

		if (place->seen.slot == seen->slot &&
		    (place->seen.meta == seen->meta || FC_BROKEN(AHEAD)))
			return place;
	}
	return NULL;
}

/* Free the oldest page that was read ahead before a time and is done. */
static bool
drop_kept(FcReader *reader, uint64_t before_ns)
{
	Place *oldest = NULL;

	FC_ASSERT((reader->come & ~reader->kept) == 0);
	for (uint32_t left = reader->come; left != 0; left &= left - 1)
	{
		Place *place = &reader->place[__builtin_ctz(left)];

		if (place->start_ns < before_ns)
		{
			oldest = place;
			before_ns = place->start_ns;
		}
	}
	if (oldest != NULL)
		free_place(reader, oldest);
	return oldest != NULL;
}

unsigned
fc_reader_ahead(FcCache *cache, const FcSeen seen[], unsigned count)
{
	FcReader *reader = take_reader(cache);
	FcTransfer *transfer[PAGES];
	uint64_t now_ns = fc_clock_ns();
	FcDevice *device;
	off_t offset;
	unsigned wanted = 0;
	unsigned i = 0;

	FC_ASSERT(count <= FC_AHEAD_BLOCKS_MAX);
	if (reader == NULL)
		return count;
	/* The plain engine would read them right now. */
	if (reader->queue.engine == FC_QUEUE_PLAIN)
	{
		give_back_reader(reader);
		return count;
	}
	if (reader->queue.in_flight > 0)
		collect_reads(cache);

	for (; i < count; i++)
	{
		if (kept_place(reader, &seen[i]) != NULL ||
		    find_copy(cache, &seen[i], &device, &offset))
			continue;
		while (__builtin_popcount(reader->free) <= PAGES_SPARED &&
		       drop_kept(reader, now_ns - KEPT_NS))
			;
		if (__builtin_popcount(reader->free) <= PAGES_SPARED)
			break;

		Place *place = take_place(cache, &seen[i], now_ns);

		reader->kept |= bit_of(reader, place);
		transfer[wanted++] = &place->transfer;
	}

	unsigned taken = submit(reader, transfer, wanted);

	give_back_reader(reader);
	return taken == wanted ? i : 0;
}

bool
fc_reader_under_way(FcCache *cache, const FcSeen *seen)
{
	FcReader *reader = take_reader(cache);
	const Place *place;
	bool under_way;

	FC_ASSERT(fc_meta_serves(seen->meta));
	if (reader == NULL)
		return false;
	if (reader->queue.in_flight > 0)
		collect_reads(cache);
	place = kept_place(reader, seen);
	under_way = place != NULL && (reader->come & bit_of(reader, place)) == 0;
	give_back_reader(reader);
	return under_way;
}

/* ---- a call -------------------------------------------------------------- */

typedef struct Call
{
	FcCache *cache;
	FcReader *reader;
	const FcSeen *seen;
	uint8_t todo[FC_RUN_BLOCKS_MAX]; /* slots that are not kept... */
	unsigned count;                  /* ... their number */
	unsigned begun;                  /* ... the first of them, under way */
	unsigned waited_for;             /* reads under way */
	FcDeliver *deliver;
	FcMeanwhile *meanwhile;
	void *context;
	uint64_t start_ns;
	uint64_t now_ns;
	uint64_t end_ns;
} Call;

_Static_assert(FC_RUN_BLOCKS_MAX <= 256, "a byte names a slot of a call");

/*
 * Deliver the wanted slots that are kept.  With join, also wait for those not
 * done yet, like reads of this call.
 */
static void
take_kept(Call *call, bool join)
{
	FcReader *reader = call->reader;
	unsigned left = 0;

	for (unsigned i = 0; i < call->count; i++)
	{
		uint8_t index = call->todo[i];
		Place *place = kept_place(reader, &call->seen[index]);
		bool come =
			place != NULL && (reader->come & bit_of(reader, place)) != 0;

		if (come)
		{
			call->deliver(call->context, index, place->transfer.page, false);
			free_place(reader, place);
		}
		else if (place != NULL && join)
		{
			reader->kept &= ~bit_of(reader, place);
			place->call = reader->call;
			place->index = index;
			call->waited_for++;
		}
		else
			call->todo[left++] = index;
	}
	call->count = left;
}

static void
begin_reads(Call *call)
{
	FcReader *reader = call->reader;
	FcTransfer *transfer[PAGES];
	unsigned count = 0;
	unsigned most = call->count - call->begun;

	FC_ASSERT(call->begun <= call->count);

	/*
	 * The plain engine reads when a transfer is submitted: submit one at a
	 * time, to check the clock in between.
	 */
	if (reader->queue.engine == FC_QUEUE_PLAIN && most > 1)
		most = 1;

	while (count < most && (reader->free != 0 || drop_kept(reader, UINT64_MAX)))
	{
		uint8_t index = call->todo[call->begun + count];
		Place *place =
			take_place(call->cache, &call->seen[index], call->now_ns);

		place->call = reader->call;
		place->index = index;
		if (FC_BROKEN(OWN_PAGE))
			place->transfer.page = FC_CALLERS_PAGE(index);
		transfer[count++] = &place->transfer;
	}

	unsigned taken = submit(reader, transfer, count);

	call->begun += taken;
	call->waited_for += taken;
}

static void
deliver(Call *call, Place *place)
{
	FcOutcome outcome = outcome_of(call->cache, place);

	FC_ASSERT(call->waited_for > 0 && place->index < FC_RUN_BLOCKS_MAX);
	fc_devices_read_done(call->cache, place->transfer.device,
	                     call->now_ns - place->start_ns, outcome);
	call->waited_for--;
	if (outcome == FC_OUTCOME_OK)
		call->deliver(call->context, place->index, place->transfer.page, false);
	else
		call->deliver(call->context, place->index, NULL,
		              outcome == FC_OUTCOME_ERROR);
}

/*
 * How many reads to wait for at once.  While there are more to begin, half of
 * those under way make enough room.  The last of many comes long after most of
 * them, so the others are processed meanwhile; often it has arrived by then.
 */
static unsigned
wanted_now(const Call *call)
{
	FC_ASSERT(call->begun <= call->count);
	if (call->begun < call->count)
		return (call->waited_for + 1) / 2;
	return call->waited_for - call->waited_for / LATE_ONE_IN;
}

/* Wait for reads and deliver them; false once the deadline has passed. */
static bool
fetch_reads(Call *call)
{
	FcReader *reader = call->reader;
	FcTransfer *done[PAGES];
	unsigned count = fc_queue_reap(&reader->queue, wanted_now(call),
	                               call->end_ns - call->now_ns, done, PAGES);

	call->now_ns = fc_clock_ns();
	for (unsigned i = 0; i < count; i++)
	{
		Place *place = done[i]->tag;

		if ((reader->kept & bit_of(reader, place)) != 0)
		{
			kept_place_done(call->cache, place);
			continue;
		}
		if (place->call == reader->call)
			deliver(call, place);
		free_place(reader, place);
	}
	return call->now_ns < call->end_ns;
}

/*
 * The deadline has passed: pages still under way are the kernel's until done.
 */
static void
abandon_reads(Call *call)
{
	FcReader *reader = call->reader;

	for (unsigned i = 0; i < PAGES && call->waited_for > 0; i++)
	{
		Place *place = &reader->place[i];
		uint64_t since_ns =
			place->start_ns > call->start_ns ? place->start_ns : call->start_ns;

		if (((reader->free | reader->kept) >> i & 1) != 0 ||
		    place->call != reader->call)
			continue;
		fc_devices_read_done(call->cache, place->transfer.device,
		                     call->now_ns - since_ns, FC_OUTCOME_TIMEOUT);
		call->waited_for--;
		call->deliver(call->context, place->index, NULL, false);
		if (FC_BROKEN(LOST_PAGE))
			free_place(reader, place);
	}
}

static void
read_slots(Call *call)
{
	bool in_time = true;

	if (call->reader->kept != 0)
		take_kept(call, false);
	if (call->count == 0)
		return;
	if (call->reader->queue.in_flight > 0)
	{
		collect_reads(call->cache);
		take_kept(call, true);
	}

	while (in_time && (call->waited_for > 0 || call->begun < call->count))
	{
		begin_reads(call);
		/*
		 * None of our reads is under way: no page is left, or the kernel is
		 * full.
		 */
		if (call->waited_for == 0)
			break;
		if (call->meanwhile != NULL)
			call->meanwhile(call->context);
		call->meanwhile = NULL;
		in_time = fetch_reads(call);
	}
	/* Reads that finished while this process was not running are in time. */
	if (!in_time && call->waited_for > 0)
	{
		call->end_ns = call->now_ns;
		(void) fetch_reads(call);
	}
	abandon_reads(call);
}

void
fc_reader_read(FcCache *cache, const FcSeen seen[], unsigned count,
               FcDeliver *deliver_one, FcMeanwhile *meanwhile, void *context)
{
	uint64_t now_ns = fc_clock_ns();
	Call call;

	FC_ASSERT(count <= FC_RUN_BLOCKS_MAX);
	call.cache = cache;
	call.reader = take_reader(cache);
	call.seen = seen;
	call.count = count;
	call.begun = 0;
	call.waited_for = 0;
	call.deliver = deliver_one;
	call.meanwhile = meanwhile;
	call.context = context;
	call.start_ns = call.now_ns = now_ns;
	call.end_ns = now_ns + cache->read_deadline_ns;
	for (unsigned i = 0; i < count; i++)
		call.todo[i] = (uint8_t) i;

	if (call.reader != NULL)
	{
		read_slots(&call);
		give_back_reader(call.reader);
	}
	for (unsigned i = call.begun; i < call.count; i++)
		deliver_one(context, call.todo[i], NULL, false);
}

/* Where to copy a whole slot. */
typedef struct Target
{
	void *page;
	bool read;
} Target;

static void
take_whole(void *context, unsigned index, const void *page, bool failed)
{
	Target *target = context;

	(void) index;
	(void) failed;
	target->read = page != NULL;
	if (page != NULL)
		memcpy(target->page, page, FC_BLOCK_SIZE);
}

bool
fc_reader_slot(FcCache *cache, const FcSeen *seen, void *page)
{
	Target target = { .page = page };

	FC_ASSERT(page != NULL);
	if (!fc_devices_slot_usable(cache, seen->slot))
		return false;
	if (fc_reader_copy(cache, seen, page))
		return true;
	fc_reader_read(cache, seen, 1, take_whole, NULL, &target);
	return target.read;
}

const char *
fc_reader_engine(FcCache *cache)
{
	int saved_errno = errno;
	FcReader *reader = take_reader(cache);
	const char *name = "plain";

	if (reader != NULL)
	{
		if (reader->queue.engine == FC_QUEUE_AIO)
			name = "aio";
		give_back_reader(reader);
	}
	errno = saved_errno;
	return name;
}

void
fc_reader_close(FcCache *cache)
{
	if (cache->reader == NULL)
		return;
	fc_queue_close(&cache->reader->queue);
	munmap(cache->reader, sizeof(FcReader));
	cache->reader = NULL;
}
