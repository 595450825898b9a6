/*
 * resize_test.c
 *		Growing and shrinking: what stays, what moves, and that nothing stale
 *		ever comes of it, whoever does what meanwhile.
 *
 * The second half plays every interleaving of a change of size with changes,
 * reads and fills of one block that has to move (explore.h), as the library is
 * and with each safeguard left out.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "explore.h"
#include "tap.h"

/* ---- growing and shrinking in peace ---------------------------------------------- */

#define BLOCKS 4096

static Rig rig;
static FcFile file;

static void
open_sized(uint32_t slots, uint32_t slots_max)
{
	FcConfig config = { .slot_count = slots,
		                .slot_count_max = slots_max,
		                .file_count = 4,
		                .process_count = 8,
		                .policy = &fc_policy_lfu };

	rig_open_with(&rig, &config);
	file = fc_file(file_id(7));
	MUST(fc_file_enter(&rig.cache, &file) == FC_OK);
}

static void
put(uint32_t block)
{
	static Page page;
	FcTicket ticket;

	if (fc_read(&rig.cache, &file, block, &page, &ticket) != FC_MISS)
		return;
	page_make(&page, 7, block, 1);
	(void) fc_fill(&rig.cache, &ticket, &page);
	rig_flush(&rig);
}

/* Blocks below the limit that are served, and rightly. */
static uint32_t
count_hits(uint32_t limit)
{
	static Page page;
	uint32_t hits = 0;

	for (uint32_t block = 0; block < limit; block++)
	{
		FcTicket ticket;

		if (fc_read(&rig.cache, &file, block, &page, &ticket) != FC_OK)
			continue;
		MUST(page_is(&page, 7, block, 1));
		hits++;
	}
	return hits;
}

static void
resize_to(FcCache *cache, uint32_t slots)
{
	unsigned steps = 0;

	MUST(fc_resize_begin(cache, slots) == FC_OK);
	while (fc_resize_step(cache, 1))
		MUST(++steps < 100000);
}

/* Is every valid entry where it belongs, and nothing beyond the last set? */
static bool
all_at_home(const FcShared *shared)
{
	for (uint32_t i = 0; i < shared->set_count; i++)
	{
		FcSet *set = fc_set(shared, i);

		for (unsigned way = 0; way < FC_WAYS; way++)
		{
			if (fc_meta_serves(atomic_load(&set->meta[way])) &&
			    fc_index_set_of(shared, atomic_load(&set->key[way])) != i)
				return false;
		}
	}
	return true;
}

static void
test_homes(void)
{
	open_sized(64 * FC_WAYS, 256 * FC_WAYS);

	const FcShared *shared = rig.cache.shared;
	uint32_t count[128] = { 0 };
	uint32_t moved = 0;
	uint32_t elsewhere = 0;
	uint32_t least = UINT32_MAX;

	for (uint32_t block = 0; block < 128000; block++)
	{
		uint64_t key = fc_key(3, block);
		uint32_t small = fc_home(shared, key, 64);
		uint32_t large = fc_home(shared, key, 128);

		count[large]++;
		moved += small != large;
		elsewhere += small != large && large < 64;
	}
	for (uint32_t i = 0; i < 128; i++)
		least = count[i] < least ? count[i] : least;
	OK(elsewhere == 0, "growing moves blocks into new sets only");

	/* 64000 expected, standard deviation 179. */
	OK(moved > 62900 && moved < 65100, "to twice the size, half of them: %u",
	   moved);

	/* 1000 each, standard deviation 32. */
	OK(least > 800, "and all sets get their share: %u at least", least);
	rig_close(&rig);
}

static void
test_grow(void)
{
	open_sized(1024, 4096);
	for (uint32_t block = 0; block < 800; block++)
		put(block);

	uint32_t before = count_hits(800);
	uint64_t inserts = fc_counter(&rig.cache, FC_COUNT_inserts);

	MUST(before > 700);
	OK(fc_slot_count(&rig.cache) == 1024, "a cache begins with its size");
	resize_to(&rig.cache, 2048);

	uint32_t after = count_hits(800);
	uint64_t moved = fc_counter(&rig.cache, FC_COUNT_moved_blocks);

	OK(fc_slot_count(&rig.cache) == 2048, "it grows to twice that");
	OK(after == before, "and keeps every block: %u of %u", after, before);
	OK(moved > before * 4 / 10 && moved < before * 6 / 10,
	   "of which half had to move: %u of %u", (unsigned) moved, before);
	OK(fc_counter(&rig.cache, FC_COUNT_inserts) == inserts,
	   "which is not counted as inserts");
	OK(all_at_home(rig.cache.shared) && fc_used_slots(&rig.cache) == after,
	   "each is where it belongs, once");

	for (uint32_t block = 0; block < 1900; block++)
		put(block);
	OK(count_hits(1900) > 1700, "and the new room is used: %u blocks",
	   count_hits(1900));
	rig_close(&rig);
}

static void
test_shrink(void)
{
	open_sized(2048, 2048);
	for (uint32_t block = 0; block < 1000; block++)
		put(block);

	uint32_t before = count_hits(1000);

	resize_to(&rig.cache, 1024);

	uint32_t after = count_hits(1000);

	OK(fc_slot_count(&rig.cache) == 1024 &&
	       fc_size(&rig.cache).room_slots == 1024,
	   "it shrinks to half, and says what room it needs");
	OK(before > 990 && after > before * 9 / 10,
	   "what fits stays: %u of %u blocks", after, before);
	OK(all_at_home(rig.cache.shared) && fc_used_slots(&rig.cache) == after,
	   "each is where it belongs, once");

	/* Twice as much as will fit. */
	resize_to(&rig.cache, 2048);
	for (uint32_t block = 0; block < 2000; block++)
		put(block);
	resize_to(&rig.cache, 512);
	after = count_hits(2000);
	OK(after > 500 && after <= 512,
	   "too many for it: it stays full (%u of 512)", after);
	rig_close(&rig);
}

/*
 * Who lays the memory out again after a crash knows the size of then, but has the
 * memory of the start.
 */
static void
test_layout_is_of_the_maximum(void)
{
	const uint32_t most = 1U << 22;
	FcConfig config = { .slot_count_max = most,
		                .process_count = 8,
		                .policy = &fc_policy_lfu };
	FcShared all;
	uint32_t others = 0;

	config.slot_count = most;
	MUST(fc_lay_out(&config, &all));
	for (uint32_t slots = FC_WAYS; slots < most; slots *= 2)
	{
		FcShared layout;

		config.slot_count = slots;
		MUST(fc_lay_out(&config, &layout));
		others += memcmp(&layout, &all, sizeof(all)) != 0;
	}
	OK(others == 0, "memory is laid out alike whatever the size of now");
}

static void
test_limits(void)
{
	open_sized(128, 256);
	OK(fc_resize_begin(&rig.cache, 257) == FC_INVALID &&
	       fc_resize_begin(&rig.cache, 320) == FC_INVALID &&
	       fc_resize_begin(&rig.cache, 0) == FC_INVALID,
	   "no size but multiples of a set up to the maximum");
	MUST(fc_resize_begin(&rig.cache, 256) == FC_OK);
	OK(fc_resize_begin(&rig.cache, 128) == FC_SKIP,
	   "a second change waits for the first one");

	FcSize size = fc_size(&rig.cache);

	OK(size.changing && size.slots == 256 && size.slots_max == 256 &&
	       size.room_slots == 256 && size.done == 0,
	   "the size says what it is about to be");
	MUST(fc_resize_step(&rig.cache, 1));
	OK(fc_size(&rig.cache).done == 0.5, "and how far it has come");
	OK(!fc_resize_step(&rig.cache, 1) && !fc_size(&rig.cache).changing &&
	       fc_resize_begin(&rig.cache, 128) == FC_OK,
	   "when it is over, another one may begin");

	MUST(fc_mode_set(&rig.cache, FC_OFFLINE, FC_REASON_USER) == FC_OK);
	OK(!fc_resize_step(&rig.cache, 10) && fc_size(&rig.cache).changing &&
	       fc_resize_begin(&rig.cache, 256) == FC_OFF,
	   "offline nothing moves any more");
	rig_close(&rig);
}

/* Slots that are written are waited for; then nobody writes there any more. */
static void
test_drain(void)
{
	FcCache filler;
	FcTicket ticket;
	FcSeen claim;
	static Page page;
	uint32_t block = 0;

	open_sized(256, 256);
	rig_attach(&rig, &filler);
	while (fc_index_set_of(rig.cache.shared, fc_key(file.number, block)) < 2)
		block++;
	MUST(fc_read(&filler, &file, block, &page, &ticket) == FC_MISS);
	MUST(fc_index_claim(&filler, &ticket, &claim) == FC_OK);
	MUST(fc_resize_begin(&rig.cache, 128) == FC_OK);
	for (int i = 0; i < 10; i++)
		(void) fc_resize_step(&rig.cache, 10);
	OK(fc_size(&rig.cache).changing &&
	       fc_size(&rig.cache).room_slots >= claim.slot &&
	       fc_size(&rig.cache).slots == 128,
	   "room is kept for a slot that is being written");
	OK(fc_index_publish(&filler, &ticket, &claim, FC_VALID, 0) == FC_SKIP,
	   "whose fill comes to nothing");
	OK(!fc_resize_step(&rig.cache, 10) && fc_size(&rig.cache).room_slots == 128,
	   "and then given back");

	resize_to(&rig.cache, 256);
	MUST(fc_read(&filler, &file, block, &page, &ticket) == FC_MISS);
	MUST(fc_index_claim(&filler, &ticket, &claim) == FC_OK);
	fc_process_end(&filler);
	resize_to(&rig.cache, 128);
	OK(fc_size(&rig.cache).room_slots == 128, "nobody waits for the dead");
	fc_cache_close(&filler);
	rig_close(&rig);
}

/* A cache of 4 sets with a block beyond so many of them, in the ring. */
static void
stage_beyond(uint32_t sets)
{
	static Page page;
	FcTicket ticket;
	uint32_t block = 0;

	open_sized(4 * FC_WAYS, 4 * FC_WAYS);
	while (fc_index_set_of(rig.cache.shared, fc_key(file.number, block)) < sets)
		block++;
	MUST(fc_read(&rig.cache, &file, block, &page, &ticket) == FC_MISS);
	page_make(&page, 7, block, 1);
	MUST(fc_fill(&rig.cache, &ticket, &page) == FC_OK);
}

/*
 * The writer has begun to write a slot of a set that goes, and the device takes its
 * time.  When the room is given back, the host cuts the file off: is there still a
 * write under way that would land behind its new end, or in a slot that somebody
 * else was given when the cache grew again?
 */
static bool
writes_land_in_the_file(void)
{
	FcCache writing;
	FcWriter *writer;
	off_t end;
	bool in_file;

	stage_beyond(2);
	MUST(fc_cache_attach(&writing, rig.memory, &fc_policy_lfu,
	                     &rig.slow.device) == FC_OK);
	MUST(fc_writer_begin(&writing, &writer) == FC_OK);
	rig.slow.holds = true;
	fc_writer_run(writer, 0);
	MUST(rig.slow.deferred_count == 1);

	MUST(fc_resize_begin(&rig.cache, 2 * FC_WAYS) == FC_OK);
	for (int i = 0; i < 10; i++)
		(void) fc_resize_step(&rig.cache, 10);
	end = FC_SLOTS_OFFSET +
	      (off_t) fc_size(&rig.cache).room_slots * FC_BLOCK_SIZE;
	in_file = rig.slow.deferred[0].asked.offset < end;

	/* Then it lands, and the room is given back. */
	rig.slow.holds = false;
	MUST(fc_writer_drain(writer, FLUSH_NS) == FC_OK);
	MUST(fc_writer_end(writer, 0) == FC_OK);
	MUST(!fc_resize_step(&rig.cache, 10) &&
	     fc_size(&rig.cache).room_slots == 2 * FC_WAYS);
	rig_detach(&writing);
	rig_close(&rig);
	return in_file;
}

static void
test_drain_of_writes(void)
{
	OK(writes_land_in_the_file(),
	   "room is kept for what the device is still writing");
	fc_test_broken = FC_BREAK_DRAIN;
	OK(!writes_land_in_the_file(),
	   "negative control: cut off before, it is written behind the file's end");
	fc_test_broken = 0;
}

/* A device that stalls is waited for; one that is dead takes its blocks along. */
static void
test_stalls(void)
{
	open_sized(1024, 2048);
	for (uint32_t block = 0; block < 500; block++)
		put(block);

	uint32_t before = count_hits(500);
	FcAtomic32 *state = &rig.cache.shared->health[0].state;

	MUST(fc_resize_begin(&rig.cache, 2048) == FC_OK);
	atomic_store(state, FC_DEVICE_STALLED);
	for (int i = 0; i < 5; i++)
		MUST(fc_resize_step(&rig.cache, 100));
	OK(fc_size(&rig.cache).changing && fc_size(&rig.cache).done == 0,
	   "while the device stalls nothing moves");
	atomic_store(state, FC_DEVICE_IN_SERVICE);
	while (fc_resize_step(&rig.cache, 1))
		;
	OK(count_hits(500) == before, "and nothing is lost by it");
	rig_close(&rig);
}

/* ---- every interleaving -------------------------------------------------------------- */

#define SMALL 2
#define LARGE 3

static struct
{
	uint32_t from; /* sets */
	uint32_t to;
	bool cached; /* at the beginning */
	bool staged; /* ... but not on flash */
	uint32_t block;
	uint64_t disk;    /* the block's version */
	uint64_t over;    /* the last one whose change is over */
	uint32_t written; /* slots from here on must not be written */
	bool wrong;
} world;

static void
real_read(Page *page)
{
	page_make(page, 7, world.block, world.disk);
}

/* The served page must be one that the file held since the call began. */
static void
judge(const Page *page, uint64_t since)
{
	uint64_t version = page->word[0];

	if (version < since || version > world.disk ||
	    !page_is(page, 7, world.block, version))
		world.wrong = true;
}

static void
read_block(FcCache *cache, bool fill)
{
	FcFile mine = fc_file(file_id(7));
	uint64_t since = world.over;
	Page page;
	FcTicket ticket;
	FcStatus status = FC_STALE;

	for (int try = 0; try < 2 && status == FC_STALE; try++)
	{
		MUST(fc_file_enter(cache, &mine) == FC_OK);
		status = fc_read(cache, &mine, world.block, &page, &ticket);
	}
	if (status == FC_OK)
		judge(&page, since);
	if (status == FC_MISS && fill)
	{
		FC_POINT("reading-disk");
		real_read(&page);
		FC_POINT("disk-read");
		(void) fc_fill(cache, &ticket, &page);
	}
}

static void
reader(FcCache *cache)
{
	read_block(cache, true);
}

static void
change(FcCache *cache, uint32_t first, uint32_t count)
{
	FcFile mine = fc_file(file_id(7));
	FcChange note;
	Page page;

	fc_change_begin(cache, &mine, first, count, &note);
	world.disk++;
	real_read(&page);
	FC_POINT("disk-written");
	fc_change_end(cache, &mine, &note);
	world.over = world.disk;
	FC_POINT("change-over");
	if (count == 1)
		(void) fc_change_fill(cache, &note, &page);
}

static void
changer(FcCache *cache)
{
	change(cache, world.block, 1);
}

/* Cuts off so much that the index is walked. */
static void
truncater(FcCache *cache)
{
	change(cache, 0, FC_BLOCKS_ALL);
}

/* A change that was announced before the scene began, and a fill after that. */
static FcChange announced;
static FcFile announced_file;

static void
late_changer(FcCache *cache)
{
	Page page;

	world.disk++;
	real_read(&page);
	FC_POINT("disk-written");
	fc_change_end(cache, &announced_file, &announced);
	world.over = world.disk;
	FC_POINT("change-over");
	(void) fc_change_fill(cache, &announced, &page);
}

static void
late_truncater(FcCache *cache)
{
	world.disk++;
	FC_POINT("disk-written");
	announced.count = FC_BLOCKS_ALL;
	announced.first = 0;
	fc_change_end(cache, &announced_file, &announced);
	world.over = world.disk;
}

static void
resize(FcCache *cache, uint32_t sets)
{
	if (fc_resize_begin(cache, sets * FC_WAYS) != FC_OK)
		return;

	/* It may have to wait for others, who stand still: close_world() ends it. */
	for (int step = 0; step < 2 && fc_resize_step(cache, 4); step++)
		FC_POINT("stepped");
}

static void
resizer(FcCache *cache)
{
	resize(cache, world.to);
}

static void
resizer_to_and_fro(FcCache *cache)
{
	resize(cache, world.to);
	resize(cache, world.from);
}

/* Takes what is staged to flash. */
static void
flusher(FcCache *cache)
{
	IGNORE(fc_writer_flush(cache, FLUSH_NS) == FC_OK);
}

/*
 * Thousands of worlds are opened: memory and handles are used again, and nobody
 * asks the operating system who he is.
 */
#define PLACES 8

static uint64_t first_process;
static FcCache handle[PLACES];

static void
join(FcCache *cache, uint32_t place)
{
	if (handle[place].scratch == NULL)
		MUST(fc_cache_attach(&handle[place], rig.memory, &fc_policy_lfu,
		                     &rig.flash.device) == FC_OK);
	*cache = handle[place];
	atomic_store(&fc_processes(cache->shared)[place].word,
	             (first_process & ~0xffffULL) | 1);
	cache->process = place;
	cache->token = 1U << 16 | place;
}

/* What the handle has got meanwhile is for the next one; not if it was cut off. */
static void
leave(FcCache *cache, uint32_t place, bool killed)
{
	handle[place] = *cache;
	if (killed)
		fc_cache_close(&handle[place]);
}

static void
renew(const FcConfig *config)
{
	FcCache new;

	memset(rig.memory, 0, rig.memory_size);
	MUST(fc_cache_create(&new, rig.memory, config, &rig.flash.device) == FC_OK);
	MUST(fc_mode_set(&new, FC_SERVE, FC_REASON_NONE) == FC_OK);
	fc_cache_close(&new);
	join(&rig.cache, 0);
}

static void
open_world(Actor *actor, unsigned actors)
{
	FcConfig config = { .slot_count = world.from * FC_WAYS,
		                .slot_count_max = 4 * FC_WAYS,
		                .file_count = 4,
		                .process_count = 8,
		                .policy = &fc_policy_lfu };
	uint64_t broken = fc_test_broken;

	fc_test_broken = 0;
	if (rig.memory == NULL)
	{
		rig_open_with(&rig, &config);
		MUST(fc_process_begin(&rig.cache) == FC_OK);
		first_process = atomic_load(
			&fc_processes(rig.cache.shared)[rig.cache.process].word);
		fc_cache_close(&rig.cache);
	}
	renew(&config);
	file = fc_file(file_id(7));
	MUST(fc_file_enter(&rig.cache, &file) == FC_OK);

	const FcShared *shared = rig.cache.shared;

	/* Beyond the number of slots, so that a truncation walks the index. */
	world.block = 300;
	while (fc_home(shared, fc_key(file.number, world.block), SMALL) ==
	       fc_home(shared, fc_key(file.number, world.block), LARGE))
		world.block++;
	world.disk = world.over = 1;
	world.wrong = false;
	announced_file = fc_file(file_id(7));
	fc_change_begin(&rig.cache, &announced_file, world.block, 1, &announced);
	if (world.cached)
	{
		read_block(&rig.cache, true);
		if (!world.staged)
			rig_flush(&rig);
		MUST(fc_cached(&rig.cache, &file, world.block));
	}
	for (unsigned i = 0; i < actors; i++)
		join(&actor[i].cache, i + 1);
	fc_test_broken = broken;
}

static void
look_everywhere(FcCache *cache)
{
	read_block(cache, false);
	resize(cache, world.from);
	read_block(cache, false);
	resize(cache, world.to);
	read_block(cache, false);
}

/* Whatever a dead resizer left is ended by the next one; then look. */
static bool
close_world(void)
{
	FcCache other;
	unsigned steps = 0;
	uint64_t broken = fc_test_broken;

	fc_test_broken = 0;
	join(&other, PLACES - 1);
	while (fc_resize_step(&other, 1))
		MUST(++steps < 1000);
	if (!all_at_home(other.shared))
		world.wrong = true;
	look_everywhere(&other);
	if (fc_counter(&other, FC_COUNT_flash_read_errors) != 0 ||
	    fc_counter(&other, FC_COUNT_corrupt_slots) != 0)
		world.wrong = true;
	fc_test_broken = broken;
	leave(&other, PLACES - 1, false);
	leave(&rig.cache, 0, false);
	for (unsigned i = 0; i < explorer.actors; i++)
		leave(&explorer.actor[i].cache, i + 1, explorer.actor[i].killed);
	return !world.wrong;
}

typedef struct Scene
{
	const char *title;
	bool cached;
	bool staged;
	unsigned preemptions;
	Actor actor[ACTORS_MAX];
	uint64_t control[4];
	uint64_t control_shrinking;
	uint64_t backup[4];
} Scene;

#define B(name) FC_BREAK_##name

static const Scene scenes[] = {
	{ .title = "the end of a change",
	  .cached = true,
	  .preemptions = 4,
	  .actor = { { .act = late_changer }, { .act = resizer } },
	  .control = { B(OLD_HOME), B(HOME_ORDER), B(FRAME),
	               B(MOVE_TICKET) | B(MOVE_LOOK) },
	  .backup = { B(MOVE_TICKET), B(MOVE_LOOK) } },
	{ .title = "the end of a change, and the resizer may die",
	  .cached = true,
	  .preemptions = 2,
	  .actor = { { .act = late_changer },
	             { .act = resizer, .mortal = true } } },
	{ .title = "the end of a truncation that walks",
	  .cached = true,
	  .preemptions = 3,
	  .actor = { { .act = late_truncater }, { .act = resizer } },
	  .control = { B(MOVE_LOOK) },
	  .control_shrinking = B(TWO_WALKS),
	  .backup = { B(MOVE_TICKET) } },
	{ .title = "a change",
	  .cached = true,
	  .preemptions = 3,
	  .actor = { { .act = changer }, { .act = resizer } },
	  .control = { B(EPOCH) } },
	{ .title = "a truncation",
	  .cached = true,
	  .preemptions = 2,
	  .actor = { { .act = truncater }, { .act = resizer } } },
	{ .title = "the end of a change, to and fro",
	  .cached = true,
	  .preemptions = 2,
	  .actor = { { .act = late_changer }, { .act = resizer_to_and_fro } },
	  .control = { B(FRAME) } },
	{ .title = "a fill and a change",
	  .cached = false,
	  .preemptions = 2,
	  .actor = { { .act = reader }, { .act = resizer }, { .act = changer } },
	  .control = { B(EPOCH) } },
	{ .title = "a fill whose process dies, and a change",
	  .cached = false,
	  .preemptions = 1,
	  .actor = { { .act = reader, .mortal = true },
	             { .act = resizer },
	             { .act = changer } } },
	{ .title = "a read and a change",
	  .cached = true,
	  .preemptions = 2,
	  .actor = { { .act = reader }, { .act = resizer }, { .act = changer } },
	  .control = { B(OLD_HOME) } },
	{ .title = "a block on its way to flash",
	  .cached = true,
	  .staged = true,
	  .preemptions = 2,
	  .actor = { { .act = flusher }, { .act = resizer } } },
	{ .title = "a change of a block on its way to flash",
	  .cached = true,
	  .staged = true,
	  .preemptions = 1,
	  .actor = { { .act = flusher }, { .act = resizer }, { .act = changer } } },
	{ .title = "two changes",
	  .cached = true,
	  .preemptions = 2,
	  .actor = { { .act = changer }, { .act = changer }, { .act = resizer } } },
};

#undef B

static bool
play(const Scene *scene, bool grows, uint64_t broken, unsigned long *schedules)
{
	Exploration exploration = { .preemptions = scene->preemptions,
		                        .open = open_world,
		                        .close = close_world };
	unsigned actors = 0;

	while (actors < ACTORS_MAX && scene->actor[actors].act != NULL)
		actors++;
	world.from = grows ? SMALL : LARGE;
	world.to = grows ? LARGE : SMALL;
	world.cached = scene->cached;
	world.staged = scene->staged;
	fc_test_broken = broken;

	bool wrong = explore(&exploration, scene->actor, actors, schedules);

	fc_test_broken = 0;
	return wrong;
}

static void
test_control(const Scene *scene, bool grows, uint64_t broken)
{
	unsigned long schedules;

	OK(play(scene, grows, broken, &schedules),
	   "control: %s %s goes wrong without 0x%lx", scene->title,
	   grows ? "while the cache grows" : "while it shrinks",
	   (unsigned long) broken);
	printf("# after %lu schedules\n", schedules);
}

static void
test_scene(const Scene *scene, bool grows)
{
	const char *how = grows ? "while the cache grows" : "while it shrinks";
	unsigned long schedules;

	OK(!play(scene, grows, 0, &schedules), "%s %s", scene->title, how);
	printf("# %lu schedules\n", schedules);
	for (int i = 0; i < 4 && scene->backup[i] != 0; i++)
		OK(!play(scene, grows, scene->backup[i], &schedules),
		   "%s %s: held by another mechanism without 0x%lx", scene->title, how,
		   (unsigned long) scene->backup[i]);
	for (int i = 0; i < 4 && scene->control[i] != 0; i++)
		test_control(scene, grows, scene->control[i]);
	if (!grows && scene->control_shrinking != 0)
		test_control(scene, grows, scene->control_shrinking);
}

int
main(void)
{
	alarm(300);
	test_homes();
	test_grow();
	test_shrink();
	test_limits();
	test_layout_is_of_the_maximum();
	test_drain();
	test_drain_of_writes();
	test_stalls();
	memset(&rig, 0, sizeof(rig));
	for (size_t i = 0; i < sizeof(scenes) / sizeof(scenes[0]); i++)
	{
		test_scene(&scenes[i], true);
		test_scene(&scenes[i], false);
	}
	return tap_done();
}
