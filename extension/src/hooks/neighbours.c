/*
 * neighbours.c
 *		A miss reads its neighbours in the same call while the cache has room.
 *
 * A cold cache is filled by misses, and a disk serves only so many a second.
 * But many disks, and all cloud volumes, charge for a call and hardly for its
 * size.  So a miss of a single block also reads the blocks around it that are
 * neither cached nor in the page cache, and fills them.
 *
 * Queries come first.  A neighbour takes only a free way, never that of another
 * block: in a full cache nothing of this happens.  It is read only while the
 * staging ring is at most half full, and while half of the accumulated write
 * budget is left.
 *
 * Whether it pays is learnt for each relation.  One turn of misses in eight
 * reads no neighbours, so the mean times of both kinds of reads come from the
 * same load: if the larger reads use up a disk's bandwidth, all of them take
 * longer.  If 128 kB do not pay, 64 kB may, for instance on an array with
 * stripes of that size.  And a sample of the neighbours is watched: how many
 * are hit before as many more have been read as the watched ones stand for?
 *
 * The order of steps is that of any fill: the ticket, the read, PostgreSQL's
 * check of the page, the fill under the ticket.  Neighbours count neither as
 * hits nor as misses, nor for the accounting, which counts what the server asks
 * for.
 *
 * Locking: none.  What was learnt is only a hint.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "hooks/neighbours.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "broken.h"
#include "fcache/assert.h"
#include "fcache/curve.h"
#include "fcache/housekeeping.h"
#include "fcache/replacement.h"
#include "fcache/writer.h"
#include "hooks/page_cache.h"
#include "hooks/runtime.h"
#include "settings.h"

/* A window begins at a multiple of its size: 64 or 128 kB. */
#define WINDOW 16

static const unsigned window_size[NEIGHBOUR_SIZES] = { 1, WINDOW / 2, WINDOW };

/* With fewer neighbours to fill it is not worth the trouble. */
#define NEIGHBOURS_MIN 4

/* So many misses of a relation make a turn. */
#define TURN 32

/* One turn in so many reads no neighbours. */
#define ALONE_EVERY 8

/* If a size does not pay, one turn in so many tries it again. */
#define TRY_EVERY 64

/* A mean moves by this part of each new time's difference. */
#define MEAN_WEIGHT 32

/* This share of the neighbours is assumed to be hit until ... */
#define USED_GUESS 0.125

/* ... the fate of so many is known; from the second number on they fade. */
#define KNOWN_MIN 64
#define KNOWN_MAX 1024

/* If fewer are hit, not even a read that costs nothing pays for the writes. */
#define USED_MIN (1.0 / 32)

/* What it brings is this many times what it costs ... */
#define PAYS 2.0

/* ... and no read may take more than this many times as long. */
#define LONGER_MAX 1.25

/* The watched blocks stand for this part of the cache. */
#define WATCHED_PART 4

/* Room for the neighbours of one read. */
static _Alignas(FC_IO_ALIGN) unsigned char room[WINDOW][FC_BLOCK_SIZE];

/* ---- what was learnt ----------------------------------------------------- */

/* Relaxed: what is learnt is only a hint. */
#define GET(word) atomic_load_explicit(&(word), memory_order_relaxed)
#define PUT(word, value)                                                       \
	atomic_store_explicit(&(word), value, memory_order_relaxed)

static Neighbourhood *
learnt(void)
{
	FC_ASSERT(runtime.board != NULL);
	return &runtime.board->neighbourhood;
}

static uint64_t
hash_of(FcFileId id, uint32_t block)
{
	return fc_curve_hash(fc_curve_file_hash(id), block);
}

/* All segments of a fork are of one class. */
static unsigned
class_of(FcFileId id)
{
	id.segment = 0;
	return (unsigned) (fc_curve_file_hash(id) % NEIGHBOUR_CLASSES);
}

/* A watched block was hit, or has been pushed out by another. */
static void
decided(unsigned class, bool used)
{
	uint32_t known = GET(learnt()->class[class].known) + 1;
	uint32_t all_used = GET(learnt()->class[class].used) + used;

	FC_ASSERT(class < NEIGHBOUR_CLASSES);
	if (known > KNOWN_MAX)
	{
		known /= 2;
		all_used /= 2;
	}
	PUT(learnt()->class[class].known, known);
	PUT(learnt()->class[class].used, all_used);
}

/* Where a block is watched. */
static _Atomic uint64_t *
place_of(uint64_t hash)
{
	return &learnt()->watched[(hash >> 32) % NEIGHBOUR_WATCHED];
}

/* Watch one neighbour in so many that was filled. */
static void
watch(unsigned class, uint64_t hash)
{
	uint32_t every = fc_geometry_slot_count(&runtime.cache) / WATCHED_PART /
	                 NEIGHBOUR_WATCHED;
	_Atomic uint64_t *place = place_of(hash);
	uint32_t mask = 1;
	uint64_t before;

	FC_ASSERT(class < NEIGHBOUR_CLASSES);
	while (mask < every)
		mask = mask << 1 | 1;
	PUT(learnt()->sample_mask, mask);
	if ((hash & mask) != 0)
		return;
	before = GET(*place);
	PUT(*place, (hash & ~(uint64_t) (NEIGHBOUR_CLASSES - 1)) | class);
	if (before != 0)
		decided((unsigned) (before % NEIGHBOUR_CLASSES), false);
}

void
neighbours_hit(FcFileId id, uint32_t block)
{
	uint32_t mask = GET(learnt()->sample_mask);
	_Atomic uint64_t *place;
	uint64_t hash;
	uint64_t seen;

	if (mask == 0)
		return;
	hash = hash_of(id, block);
	if ((hash & mask) != 0)
		return;
	place = place_of(hash);
	seen = GET(*place);
	if (seen == 0 || seen / NEIGHBOUR_CLASSES != hash / NEIGHBOUR_CLASSES)
		return;
	PUT(*place, 0);
	decided((unsigned) (seen % NEIGHBOUR_CLASSES), true);
}

void
neighbours_timed(const Neighbours *neighbours, uint64_t ns)
{
	_Atomic uint64_t *mean =
		&learnt()->class[neighbours->class].mean_ns[neighbours->size];
	uint64_t before = GET(*mean);

	FC_ASSERT(neighbours->size < NEIGHBOUR_SIZES);
	if (neighbours->any)
		PUT(*mean, before == 0
		               ? ns
		               : before - before / MEAN_WEIGHT + ns / MEAN_WEIGHT);
}

/* Do reads with this window pay, as far as is known? */
static bool
pays(unsigned class, unsigned size)
{
	double alone = (double) GET(learnt()->class[class].mean_ns[0]);
	double window = (double) GET(learnt()->class[class].mean_ns[size]);
	double known = GET(learnt()->class[class].known);
	double used = known < KNOWN_MIN ? USED_GUESS
	                                : GET(learnt()->class[class].used) / known;

	FC_ASSERT(class < NEIGHBOUR_CLASSES && size < NEIGHBOUR_SIZES);
	if (alone == 0 || window == 0)
		return true;
	return used >= USED_MIN && window <= alone * LONGER_MAX &&
	       used * (window_size[size] - 1) * alone >= PAYS * (window - alone);
}

/* The window of this miss of the relation. */
static unsigned
choose_size(unsigned class)
{
	uint32_t misses = GET(learnt()->class[class].misses);
	uint32_t turn = misses / TURN;
	unsigned size = turn % ALONE_EVERY == 0 ? 0 : NEIGHBOUR_SIZES - 1;

	PUT(learnt()->class[class].misses, misses + 1);
	while (size > 0 && turn % TRY_EVERY != size && !pays(class, size))
		size--;
	return size;
}

/* ---- the window ---------------------------------------------------------- */

/* May the cache be given blocks that no query asked for? */
static bool
may_fill(void)
{
	FcRingInfo ring = fc_writer_ring_info(&runtime.cache);

	return ring.used < ring.pages / 2 && !request_budget_is_short() &&
	       fc_writer_serves(&runtime.cache);
}

/* Take the tickets of the neighbours that have room. */
static void
plan_window(const OpenFile *entry, uint32_t wanted, Neighbours *out)
{
	unsigned size = window_size[out->size];
	uint32_t first = wanted / size * size;
	uint32_t begin = wanted;
	uint32_t end = wanted;
	FillPlan *plan = &out->plan;

	FC_ASSERT(wanted < runtime.segment_blocks && size <= WINDOW);
	for (uint32_t block = first;
	     block < first + size && block < runtime.segment_blocks; block++)
	{
		FcTicket *ticket = &plan->ticket[plan->count];

		if (block == wanted ||
		    fc_read_ticket(&runtime.cache, &entry->file, block, ticket) !=
		        FC_MISS ||
		    !fc_fill_has_room(&runtime.cache, ticket))
			continue;
		plan->block[plan->count++] = (uint8_t) (block - first);
		begin = block < begin ? block : begin;
		end = block > end ? block : end;
	}
	for (unsigned i = 0; i < plan->count; i++)
		plan->block[i] = (uint8_t) (plan->block[i] - (begin - first));
	out->first = begin;
	out->count = end - begin + 1;
	out->wanted = wanted - begin;
}

static bool
is_in_page_cache(const Call *call, const OpenFile *entry, const Neighbours *of)
{
	return !entry->direct &&
	       !page_cache_lacks_all(call->fd, (FileClass) entry->class,
	                             (uint64_t) of->first * FC_BLOCK_SIZE,
	                             (uint64_t) of->count * FC_BLOCK_SIZE);
}

void
neighbours_plan(const Call *call, OpenFile *entry, const Run *run,
                const FillPlan *plan, Neighbours *out)
{
	out->any = false;
	out->size = out->count = out->got = out->plan.count = out->class = 0;
	if (!setting_fill_neighbours || run->count != 1 || plan->count != 1 ||
	    !fc_fill_has_room(&runtime.cache, &plan->ticket[0]) ||
	    !fc_fill_may_load(&runtime.cache, &plan->ticket[0]) || !may_fill())
		return;
	out->class = class_of(entry->file.id);
	out->size = choose_size(out->class);

	/* A block that is read alone is a sample of those that have neighbours. */
	out->any = true;
	if (out->size == 0)
		return;
	plan_window(entry, run->first, out);
	if (out->plan.count < NEIGHBOURS_MIN || is_in_page_cache(call, entry, out))
	{
		out->any = false;
		out->size = out->count = 0;
	}
}

ssize_t
neighbours_read(const Call *call, void *page, Neighbours *neighbours)
{
	unsigned before = neighbours->wanted;
	unsigned after = neighbours->count - before - 1;
	ssize_t skipped = (ssize_t) before * FC_BLOCK_SIZE;
	struct iovec parts[3] = {
		{ room, (size_t) before * FC_BLOCK_SIZE },
		{ page, FC_BLOCK_SIZE },
		{ room[before + 1], (size_t) after * FC_BLOCK_SIZE },
	};
	ssize_t got;

	FC_ASSERT(neighbours->count > 1 && neighbours->count <= WINDOW);
	got = before > 0 ? preadv(call->fd, parts, after > 0 ? 3 : 2,
	                          (off_t) neighbours->first * FC_BLOCK_SIZE)
	                 : preadv(call->fd, parts + 1, 2,
	                          (off_t) neighbours->first * FC_BLOCK_SIZE);
	fc_count(&runtime.cache, FC_COUNT_neighbour_reads, 1);
	if (got <= skipped)
	{
		neighbours->any = false;
		neighbours->count = 0;
		return -1;
	}
	neighbours->got = (unsigned) ((size_t) got / FC_BLOCK_SIZE);
	return got - skipped < FC_BLOCK_SIZE ? got - skipped : FC_BLOCK_SIZE;
}

/* ---- after the read ------------------------------------------------------ */

static bool
fill_one(const FcFile *file, const Neighbours *neighbours, unsigned number)
{
	unsigned block = neighbours->plan.block[number];
	FcTicket ticket = neighbours->plan.ticket[number];
	FcRingInfo ring = fc_writer_ring_info(&runtime.cache);

	/* Negative control: the ticket is taken too late. */
	if (FC_BROKEN(NEIGHBOUR_TICKET) &&
	    fc_read_ticket(&runtime.cache, file, ticket.block, &ticket) != FC_MISS)
		return false;
	if (block >= neighbours->got || ring.used >= ring.pages - ring.pages / 4 ||
	    !request_load_block(file, &ticket, room[block], FC_HEAT_SPARE))
		return false;
	watch(neighbours->class, hash_of(file->id, ticket.block));
	return true;
}

/*
 * What flash has now need not be in memory, too, where nobody asked for it.
 */
static void
drop_from_page_cache(int fd, const Neighbours *of)
{
	off_t first = (off_t) of->first * FC_BLOCK_SIZE;
	off_t wanted = first + (off_t) of->wanted * FC_BLOCK_SIZE;
	off_t after = wanted + FC_BLOCK_SIZE;
	off_t end = first + (off_t) of->count * FC_BLOCK_SIZE;

	if (wanted > first)
		(void) posix_fadvise(fd, first, wanted - first, POSIX_FADV_DONTNEED);
	if (end > after)
		(void) posix_fadvise(fd, after, end - after, POSIX_FADV_DONTNEED);
}

/*
 * Negative control: wait until a neighbour is no longer what the file has.  Not
 * within the read: windows that take so long are no longer read.
 */
static void
await_change(int fd, const Neighbours *of)
{
	static unsigned char again[FC_BLOCK_SIZE];
	bool changed = false;

	for (int i = 0; i < 80 && !changed; i++)
	{
		(void) usleep(50000);
		for (unsigned n = 0; n < of->plan.count && !changed; n++)
		{
			unsigned block = of->plan.block[n];
			off_t offset = (off_t) (of->first + block) * FC_BLOCK_SIZE;

			changed = pread(fd, again, sizeof(again), offset) ==
			              (ssize_t) sizeof(again) &&
			          memcmp(again, room[block], sizeof(again)) != 0;
		}
	}
	/* The change may not have ended yet. */
	(void) usleep(50000);
}

void
neighbours_fill(int fd, const FcFile *file, const Neighbours *neighbours)
{
	unsigned filled = 0;

	if (neighbours->count == 0)
		return;
	/* A test with a server changes a table of its own, no system catalog. */
	if (FC_BROKEN(NEIGHBOUR_TICKET) && getenv("FC_AWAIT_CHANGE") != NULL &&
	    file->id.relation >= 16384)
		await_change(fd, neighbours);
	for (unsigned i = 0; i < neighbours->plan.count; i++)
		filled += fill_one(file, neighbours, i);
	fc_count(&runtime.cache, FC_COUNT_neighbour_inserts, filled);
	if (filled == neighbours->plan.count)
		drop_from_page_cache(fd, neighbours);
}
