/*
 * reader.c
 *		Reading slots into pages of the process's own, with a limit of time.
 *
 * A device may take as long as it likes, and until a read is done the kernel may
 * write into its page at any moment.  So no read goes into the caller's buffer:
 * it goes into one of the reader's pages, is checked there, and is copied.  When
 * the time is over the caller gets nothing and reads the disk; the page is lost
 * until the device lets go of it.  With all pages lost, nothing is read from
 * flash.
 *
 * Each process has a reader of its own, mapped at its first read, since reads
 * happen where nothing may be allocated.  A child finds zeros in its place
 * (MADV_WIPEONFORK), which is a reader not yet opened: it has neither the
 * parent's pages, which the kernel may be writing, nor its queue.
 *
 * A signal handler may cut off a call here and make a read of its own.  That one
 * finds the reader busy and gets nothing.
 *
 * When a process dies, the kernel keeps its pages until its reads are done.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "reader.h"

#include <errno.h>
#include <sys/mman.h>

#include "devices.h"
#include "queue.h"

#define PAGES FC_QUEUE_DEPTH_READER

_Static_assert(PAGES <= 32, "a word says which pages are free");

/* A page and the read that fills it. */
typedef struct Place
{
	FcTransfer transfer;
	uint64_t start_ns;
	uint32_t call;  /* that began the read; an earlier one: nobody waits */
	uint32_t index; /* of the slot in that call */
} Place;

struct FcReader
{
	bool busy;
	uint32_t call;
	uint32_t free; /* one bit for each page */
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

static void
free_place(FcReader *reader, const Place *place)
{
	reader->free |= 1U << (place - reader->place);
}

/* Reads that nobody waits for any more: is one of them done at last? */
static void
collect_late_reads(FcReader *reader)
{
	FcTransfer *done[PAGES];
	unsigned count = fc_queue_reap(&reader->queue, 0, 0, done, PAGES);

	for (unsigned i = 0; i < count; i++)
		free_place(reader, done[i]->tag);
}

/* The process's reader, if it is to be had now. */
static FcReader *
take_reader(FcCache *cache)
{
	if (cache->reader == NULL)
		cache->reader = map_reader();

	FcReader *reader = cache->reader;

	if (reader == NULL || (reader->busy && !FC_BROKEN(READER_BUSY)))
		return NULL;

	/* A handler that comes after this line finds it busy. */
	reader->busy = true;
	atomic_signal_fence(memory_order_seq_cst);
	if (reader->queue.depth == 0)
		open_reader(reader);
	if (reader->queue.in_flight > 0)
		collect_late_reads(reader);
	reader->call++;
	return reader;
}

static void
give_back_reader(FcReader *reader)
{
	atomic_signal_fence(memory_order_seq_cst);
	reader->busy = false;
}

/* One call's state. */
typedef struct Call
{
	FcCache *cache;
	FcReader *reader;
	const uint32_t *slot;
	unsigned count;
	unsigned begun;     /* slots asked of a device, the first of all */
	unsigned delivered; /* ... of them, done with */
	FcDeliver *deliver;
	void *context;
	uint64_t now_ns;
	uint64_t end_ns;
} Call;

static void
begin_reads(Call *call)
{
	FcReader *reader = call->reader;
	FcTransfer *transfer[PAGES];
	unsigned count = 0;
	unsigned most = call->count - call->begun;

	/* The plain engine reads at once: one at a time, to look at the clock. */
	if (reader->queue.engine == FC_QUEUE_PLAIN && most > 1)
		most = 1;

	while (count < most && reader->free != 0)
	{
		Place *place = &reader->place[__builtin_ctz(reader->free)];
		unsigned index = call->begun + count;

		reader->free &= reader->free - 1;
		place->start_ns = call->now_ns;
		place->call = reader->call;
		place->index = index;
		place->transfer =
			(FcTransfer){ .page = reader->page[place - reader->place],
			              .tag = place };
		fc_slot_place(call->cache, call->slot[index], &place->transfer.device,
		              &place->transfer.offset);
		transfer[count++] = &place->transfer;
	}

	unsigned taken =
		count > 0 ? fc_queue_submit(&reader->queue, transfer, count) : 0;

	for (unsigned i = taken; i < count; i++)
		free_place(reader, transfer[i]->tag);
	call->begun += taken;
}

static void
deliver(Call *call, Place *place)
{
	FcOutcome outcome = fc_outcome_of(place->transfer.result);

	/* The cache has shrunk, and its file with it: nobody's fault either. */
	if (outcome == FC_OUTCOME_ERROR &&
	    !fc_slot_has_room(call->cache, call->slot[place->index]))
		outcome = FC_OUTCOME_INTERRUPTED;

	fc_device_read_done(call->cache, place->transfer.device,
	                    call->now_ns - place->start_ns, outcome);
	call->delivered++;
	if (outcome == FC_OUTCOME_OK)
		call->deliver(call->context, place->index, place->transfer.page, false);
	else
		call->deliver(call->context, place->index, NULL,
		              outcome == FC_OUTCOME_ERROR);
}

/* Wait for reads to be done, and deliver them; false at the end of the time. */
static bool
fetch_reads(Call *call)
{
	FcReader *reader = call->reader;
	FcTransfer *done[PAGES];
	unsigned under_way = call->begun - call->delivered;
	/* If there is more to begin, a half of what there is makes room enough. */
	unsigned wanted =
		call->begun < call->count ? (under_way + 1) / 2 : under_way;
	unsigned count = fc_queue_reap(&reader->queue, wanted,
	                               call->end_ns - call->now_ns, done, PAGES);

	call->now_ns = fc_now_ns();
	for (unsigned i = 0; i < count; i++)
	{
		Place *place = done[i]->tag;

		if (place->call == reader->call)
			deliver(call, place);
		free_place(reader, place);
	}
	return call->now_ns < call->end_ns;
}

/* The time is over: what is under way is the kernel's until it is done. */
static void
abandon_reads(Call *call)
{
	FcReader *reader = call->reader;

	for (unsigned i = 0; i < PAGES && call->delivered < call->begun; i++)
	{
		Place *place = &reader->place[i];

		if ((reader->free >> i & 1) != 0 || place->call != reader->call)
			continue;
		fc_device_read_done(call->cache, place->transfer.device,
		                    call->now_ns - place->start_ns, FC_OUTCOME_TIMEOUT);
		call->delivered++;
		call->deliver(call->context, place->index, NULL, false);
		if (FC_BROKEN(LOST_PAGE))
			free_place(reader, place);
	}
}

void
fc_reader_read(FcCache *cache, const uint32_t slot[], unsigned count,
               FcDeliver *deliver_one, void *context)
{
	uint64_t now_ns = fc_now_ns();
	Call call = { .cache = cache,
		          .reader = take_reader(cache),
		          .slot = slot,
		          .count = count,
		          .deliver = deliver_one,
		          .context = context,
		          .now_ns = now_ns,
		          .end_ns = now_ns + cache->read_deadline_ns };

	if (call.reader != NULL)
	{
		bool in_time = true;

		while (in_time && call.delivered < count)
		{
			begin_reads(&call);
			/* None of ours under way: no page is left, or the kernel is full. */
			if (call.begun == call.delivered)
				break;
			in_time = fetch_reads(&call);
		}
		/* What came while this process was not let run has come in time. */
		if (!in_time && call.delivered < call.begun)
		{
			call.end_ns = call.now_ns;
			(void) fetch_reads(&call);
		}
		abandon_reads(&call);
		give_back_reader(call.reader);
	}
	for (unsigned i = call.begun; i < count; i++)
		deliver_one(context, i, NULL, false);
}

const char *
fc_io_engine(FcCache *cache)
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
