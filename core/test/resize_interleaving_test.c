/*
 * resize_interleaving_test.c
 *		Growing and shrinking while others read and change: nothing stale ever
 *		results, whatever the others do.
 *
 * Plays every interleaving of a change of size with changes, reads and fills of
 * one block that must move (explore.h), with the library intact and with each
 * safeguard left out.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "explore.h"
#include "homes.h"
#include "tap.h"

#define SMALL 2
#define LARGE 3

static Rig rig;
static FcFile file;

static struct
{
	uint32_t from; /* sets */
	uint32_t to;
	bool cached; /* at the beginning */
	bool staged; /* ... but not on flash */
	uint32_t block;
	uint64_t disk;    /* the block's version */
	uint64_t over;    /* the last one whose change has ended */
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

/* Truncates so much that the index is walked. */
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

	/*
	 * It may have to wait for others that stand still: close_world() ends it.
	 */
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

/* Writes staged blocks to flash. */
static void
flusher(FcCache *cache)
{
	IGNORE(fc_writer_flush(cache, FLUSH_NS) == FC_OK);
}

/*
 * Thousands of worlds are opened: memory and handles are reused, and no process
 * asks the operating system for its identity.
 */
#define PLACES 8

static uint64_t first_process;
static FcCache handle[PLACES];

static void
join(FcCache *cache, uint32_t place)
{
	if (handle[place].scratch == NULL)
		MUST(fc_cache_attach(&handle[place], rig.memory, &fc_replacement_lfu,
		                     &rig.flash.device) == FC_OK);
	*cache = handle[place];
	atomic_store(&fc_processes(cache->shared)[place].word,
	             (first_process & ~0xffffULL) | 1);
	cache->process = place;
	cache->token = 1U << 16 | place;
}

/*
 * The next actor reuses what the handle acquired, unless the actor was killed.
 */
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
		                .replacement = &fc_replacement_lfu };
	FcBreaks broken = fc_test_broken;

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
		MUST(fc_read_would_hit(&rig.cache, &file, world.block));
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

/* The next resizer finishes what a dead one left; then look. */
static bool
close_world(void)
{
	FcCache other;
	unsigned steps = 0;
	FcBreaks broken = fc_test_broken;

	fc_test_broken = 0;
	join(&other, PLACES - 1);
	while (fc_resize_step(&other, 1))
		MUST(++steps < 1000);
	if (!all_at_home(other.shared))
		world.wrong = true;
	look_everywhere(&other);
	if (fc_count_sum(&other, FC_COUNT_flash_read_errors) != 0 ||
	    fc_count_sum(&other, FC_COUNT_corrupt_slots) != 0)
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
	FcBreaks control[4];
	FcBreaks control_shrinking;
	FcBreaks backup[4];
} Scene;

#define B(name) FC_BREAK(name)

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
play(const Scene *scene, bool grows, FcBreaks broken, unsigned long *schedules)
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
test_control(const Scene *scene, bool grows, FcBreaks broken)
{
	unsigned long schedules;

	OK(play(scene, grows, broken, &schedules),
	   "control: %s %s goes wrong without %s", scene->title,
	   grows ? "while the cache grows" : "while it shrinks",
	   fc_broken_names(broken));
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
		   "%s %s: held by another mechanism without %s", scene->title, how,
		   fc_broken_names(scene->backup[i]));
	for (int i = 0; i < 4 && scene->control[i] != 0; i++)
		test_control(scene, grows, scene->control[i]);
	if (!grows && scene->control_shrinking != 0)
		test_control(scene, grows, scene->control_shrinking);
}

int
main(void)
{
	alarm(900);
	for (size_t i = 0; i < sizeof(scenes) / sizeof(scenes[0]); i++)
	{
		test_scene(&scenes[i], true);
		test_scene(&scenes[i], false);
	}
	return tap_done();
}
