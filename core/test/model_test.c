/*
 * model_test.c
 *		Random operations, compared with a model that is obviously right.
 *
 * The model is the files themselves: for each name, the version that each block
 * holds now.  Three processes (handles with tokens of their own) read, fill at
 * once or later with old tickets, write in brackets that stay open over other
 * steps, fail half-way, truncate, drop and create files, clear, change the
 * mode, sweep, become the writer, die, and are interrupted.  At the stop points
 * inside a call another process may do any of this.  The device fails, tears,
 * flips bits, misdirects, delays and reorders.
 *
 * Checked is this: a page that fc_read() returns is one that the file held at
 * some moment during the call.  Since versions only grow, its version must be
 * at least the one at the start of the call or, if a change is under way, at
 * the beginning of that change; and to the last byte it must be the page of
 * this file, block and version.
 *
 * Afterwards the same fuzzer runs with one mechanism after the other left out,
 * and must find a wrong page each time.
 *
 *	FUZZ_SECONDS	how long (3)
 *	FUZZ_SEED		where to begin (from the clock)
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <setjmp.h>
#include <time.h>

#include "support.h"
#include "tap.h"

#define PROCESSES     3
#define NAMES         24
#define BLOCKS        320
#define TICKETS       12
#define CHANGES       4
#define POINTS        8
#define EPISODE_STEPS 4000
#define CONTROL_STEPS 8000000

typedef struct Name
{
	bool exists;
	bool dropping; /* between its two retirements */
	bool unlinked; /* ... and after the real call */
	unsigned incarnation;
	uint32_t length;
	uint64_t version[BLOCKS]; /* 0 = no such block */
	uint64_t old[BLOCKS];     /* of the previous incarnation */
	uint64_t floor[BLOCKS];   /* the oldest one that may be seen */
	uint32_t changing[BLOCKS];
} Name;

typedef struct Handle
{
	FcFile file;
	unsigned incarnation;    /* of the open file; 0 = not open */
	uint32_t checked_number; /* for which the file was seen to exist */
	uint64_t checked_generation;
} Handle;

/* A miss whose fill comes later. */
typedef struct Pending
{
	bool used;
	bool was_read;
	uint32_t name;
	unsigned incarnation;
	uint64_t version;
	FcTicket ticket;
} Pending;

typedef struct Writing
{
	bool used;
	bool written;
	bool worked;
	bool cuts; /* a truncation */
	uint32_t name;
	uint32_t first;
	uint32_t last;
	uint64_t version;
	FcChange change;
} Writing;

typedef struct Process
{
	FcCache cache;
	bool busy;
	Handle handle[NAMES];
	Pending pending[TICKETS];
	Writing writing[CHANGES];
	int drops;        /* the name it is dropping, or -1 */
	FcCache flusher;  /* the same process, with a device that takes its time */
	FcWriter *writer; /* if it is the writer */
	Page page;
} Process;

typedef struct World
{
	Rig rig;
	Random random;
	Name name[NAMES];
	Process process[PROCESSES];
	uint64_t version; /* the last one assigned */
	unsigned depth;
	unsigned fault_chance; /* one call in so many; 0 = never */
	unsigned nest_chance;
	unsigned favourite; /* the point where others prefer to act, by its hash */
	uint32_t hot_names;
	uint32_t hot_blocks;
	unsigned cut_in; /* points until the call is interrupted; 0 = never */
	jmp_buf cut_off;
	bool wrong;
	uint64_t steps;
	uint64_t hits;
} World;

static World world;

static void step(void);

/* ---- the model ----------------------------------------------------------- */

static void
change_begins(Name *name, uint32_t first, uint32_t last)
{
	for (uint32_t block = first; block < last; block++)
	{
		if (name->changing[block]++ == 0)
			name->floor[block] = name->version[block];
	}
}

static void
change_ends(Name *name, uint32_t first, uint32_t last)
{
	for (uint32_t block = first; block < last; block++)
		name->changing[block]--;
}

/* The oldest version that a read beginning now may return. */
static uint64_t
oldest_allowed(const Name *name, uint32_t block)
{
	if (name->changing[block] > 0)
		return name->floor[block];
	return name->version[block] != 0 ? name->version[block] : world.version + 1;
}

static bool
is_open(const Handle *handle, const Name *name)
{
	return handle->incarnation == name->incarnation && name->exists;
}

/* The version in the file behind a handle; 0 = nothing that could be read. */
static uint64_t
real_version(const Name *name, unsigned incarnation, uint32_t block)
{
	if (incarnation == name->incarnation)
		return name->exists ? name->version[block] : name->old[block];
	return incarnation + 1 == name->incarnation ? name->old[block] : 0;
}

/* ---- reads and fills ----------------------------------------------------- */

static void
check(Process *me, uint32_t name, uint32_t block, uint64_t oldest)
{
	uint64_t version = me->page.word[0];

	world.hits++;
	if (version >= oldest && page_is(&me->page, name, block, version))
		return;
	if (fc_test_broken == 0)
		printf("# wrong: name %u block %u version %lu, not %lu; step %lu\n",
		       name, block, (unsigned long) version, (unsigned long) oldest,
		       (unsigned long) world.steps);
	world.wrong = true;
}

static void
fill(Process *me, Pending *pending)
{
	uint32_t block = pending->ticket.block;

	if (!pending->was_read)
		pending->version = real_version(&world.name[pending->name],
		                                pending->incarnation, block);
	if (pending->version == 0)
		return;
	page_make(&me->page, pending->name, block, pending->version);
	(void) fc_fill(&me->cache, &pending->ticket, &me->page);
}

static void
fill_or_keep(Process *me, const Handle *handle, uint32_t name,
             const FcTicket *ticket)
{
	Pending new = { .used = true,
		            .name = name,
		            .incarnation = handle->incarnation,
		            .ticket = *ticket };

	if (one_in(&world.random, 2))
	{
		new.was_read = true;
		new.version =
			real_version(&world.name[name], handle->incarnation, ticket->block);
	}
	if (!one_in(&world.random, 4))
	{
		fill(me, &new);
		return;
	}
	me->pending[random_below(&world.random, TICKETS)] = new;
}

static void
do_fill(Process *me)
{
	Pending *pending = &me->pending[random_below(&world.random, TICKETS)];

	if (!pending->used)
		return;
	pending->used = false;
	fill(me, pending);
}

static uint32_t
some_name(void)
{
	return one_in(&world.random, 2)
	           ? random_below(&world.random, world.hot_names)
	           : random_below(&world.random, NAMES);
}

static uint32_t
some_block(void)
{
	return one_in(&world.random, 4)
	           ? random_below(&world.random, BLOCKS)
	           : random_below(&world.random, world.hot_blocks);
}

/*
 * Make the handle current for a read, and check that the open file still
 * exists, however the handle became current: a change may have done it, or an
 * interrupted call.
 */
static bool
find_file(Process *me, Handle *handle, const Name *name)
{
	if (fc_file_current(&me->cache, &handle->file) &&
	    handle->checked_number == handle->file.number &&
	    handle->checked_generation == handle->file.generation)
		return true;
	if (fc_file_enter(&me->cache, &handle->file) != FC_OK)
		return false;
	if (is_open(handle, name))
	{
		handle->checked_number = handle->file.number;
		handle->checked_generation = handle->file.generation;
		return true;
	}
	fc_file_retire(&me->cache, handle->file.id);
	handle->incarnation = 0;
	return false;
}

static void
do_read(Process *me)
{
	uint32_t number = some_name();
	uint32_t block = some_block();
	Name *name = &world.name[number];
	Handle *handle = &me->handle[number];
	FcTicket ticket;

	if (handle->incarnation == 0)
	{
		if (!name->exists)
			return;
		handle->incarnation = name->incarnation;
	}

	if (!find_file(me, handle, name))
		return;

	uint64_t oldest = oldest_allowed(name, block);
	FcStatus status =
		fc_read(&me->cache, &handle->file, block, &me->page, &ticket);

	if (status == FC_STALE)
	{
		if (!find_file(me, handle, name))
			return;
		oldest = oldest_allowed(name, block);
		status = fc_read(&me->cache, &handle->file, block, &me->page, &ticket);
	}
	if (status == FC_OK)
		check(me, number, block, oldest);
	else if (status == FC_MISS)
		fill_or_keep(me, handle, number, &ticket);
}

/* ---- changes ------------------------------------------------------------- */

static void
do_change_begin(Process *me)
{
	Writing *writing = &me->writing[random_below(&world.random, CHANGES)];
	uint32_t number = some_name();
	Name *name = &world.name[number];
	Handle *handle = &me->handle[number];
	uint32_t first = some_block();
	uint32_t count = 1;

	if (writing->used || !name->exists)
		return;
	if (one_in(&world.random, 4))
		first = name->length;
	else if (one_in(&world.random, 6))
		count = 1 + random_below(&world.random, 200);
	else if (one_in(&world.random, 12))
		count = FC_BLOCKS_ALL;
	if (first >= BLOCKS)
		first = BLOCKS - 1;

	*writing =
		(Writing){ .name = number,
		           .cuts = count == FC_BLOCKS_ALL,
		           .first = first,
		           .last = count < BLOCKS - first ? first + count : BLOCKS };
	handle->incarnation = name->incarnation;
	change_begins(name, writing->first, writing->last);
	if (world.depth == 1 && one_in(&world.random, 200))
	{
		if (setjmp(world.cut_off) != 0)
		{
			/* Interrupted before the real call: it never happens. */
			change_ends(name, writing->first, writing->last);
			world.cut_in = 0;
			return;
		}
		world.cut_in = 1 + random_below(&world.random, 4);
	}
	fc_change_begin(&me->cache, &handle->file, first, count, &writing->change);
	writing->used = true;
	world.cut_in = 0;
}

/* The real call: it may fail at once, or after a part. */
static void
really_change(Writing *writing)
{
	Name *name = &world.name[writing->name];
	uint32_t last = writing->last;

	writing->written = true;
	if (one_in(&world.random, 10) || !name->exists)
		return;
	if (writing->cuts)
	{
		if (writing->first >= name->length)
			return;
		for (uint32_t block = writing->first; block < BLOCKS; block++)
			name->version[block] = 0;
		name->length = writing->first;
		return;
	}

	writing->worked = !one_in(&world.random, 8);
	if (!writing->worked)
		last -= random_below(&world.random, last - writing->first + 1);
	for (uint32_t block = writing->first; block < last; block++)
	{
		writing->version = name->version[block] = ++world.version;
		if (block >= name->length)
			name->length = block + 1;
	}
}

static void
do_change_go_on(Process *me)
{
	Writing *writing = &me->writing[random_below(&world.random, CHANGES)];
	Handle *handle = &me->handle[writing->name];

	if (!writing->used)
		return;
	if (!writing->written)
	{
		really_change(writing);
		return;
	}
	fc_change_end(&me->cache, &handle->file, &writing->change);
	change_ends(&world.name[writing->name], writing->first, writing->last);
	writing->used = false;
	if (writing->worked && writing->last - writing->first == 1)
	{
		page_make(&me->page, writing->name, writing->first, writing->version);
		(void) fc_change_fill(&me->cache, &writing->change, &me->page);
	}
}

/* ---- files --------------------------------------------------------------- */

static void
create(Name *name)
{
	memset(name->version, 0, sizeof(name->version));
	name->exists = true;
	name->incarnation++;
	name->length = 1 + random_below(&world.random, BLOCKS);
	for (uint32_t block = 0; block < name->length; block++)
		name->version[block] = ++world.version;
}

static void
do_drop(Process *me)
{
	uint32_t number = me->drops >= 0 ? (uint32_t) me->drops : some_name();
	Name *name = &world.name[number];

	if (me->drops >= 0 && !name->unlinked)
	{
		memcpy(name->old, name->version, sizeof(name->old));
		memset(name->version, 0, sizeof(name->version));
		name->exists = false;
		name->length = 0;
		name->unlinked = true;
	}
	else if (me->drops >= 0)
	{
		fc_file_retire(&me->cache, file_id(number));
		change_ends(name, 0, BLOCKS);
		name->dropping = false;
		me->drops = -1;
	}
	else if (!name->exists && !name->dropping)
	{
		/* A file that does not exist is not written. */
		for (uint32_t block = 0; block < BLOCKS; block++)
		{
			if (name->changing[block] > 0)
				return;
		}
		create(name);
	}
	else if (!name->dropping && one_in(&world.random, 8))
	{
		name->dropping = true;
		name->unlinked = false;
		me->drops = (int) number;
		change_begins(name, 0, BLOCKS);
		fc_file_retire(&me->cache, file_id(number));
	}
}

/* ---- processes ----------------------------------------------------------- */

static bool
in_the_middle(const Process *me)
{
	for (int i = 0; i < CHANGES; i++)
	{
		if (me->writing[i].used)
			return true;
	}
	return me->drops >= 0;
}

/*
 * A process's transfers end with it: each has been done by then, or never will
 * be.
 */
static void
abandon_writing(Process *me)
{
	MemoryDevice *slow = &world.rig.slow;

	if (me->writer == NULL)
		return;
	slow->stuck = random_below(&world.random, slow->deferred_count + 1);
	memory_device_let_go(slow);
	slow->deferred_count = 0;
	free(me->writer);
	me->writer = NULL;
}

static void
die(Process *me)
{
	abandon_writing(me);
	fc_process_end(&me->cache);
	memset(me->pending, 0, sizeof(me->pending));
	for (uint32_t i = 0; i < NAMES; i++)
		me->handle[i] = (Handle){ .file = fc_file(file_id(i)) };
}

static void
do_write_out(Process *me)
{
	MemoryDevice *slow = &world.rig.slow;

	slow->holds = one_in(&world.random, 10);
	slow->last_first = one_in(&world.random, 2);
	if (me->writer == NULL)
	{
		if (me->cache.token == 0 && fc_process_begin(&me->cache) != FC_OK)
			return;
		me->flusher = me->cache;
		me->flusher.devices = &slow->device;
		IGNORE(fc_writer_begin(&me->flusher, &me->writer) == FC_OK);
	}
	else if (one_in(&world.random, 3))
		IGNORE(fc_writer_drain(me->writer, 0) == FC_OK);
	else if (!one_in(&world.random, 10))
		fc_writer_run(me->writer, 0);
	else if (fc_writer_end(me->writer, 0) == FC_OK)
		me->writer = NULL;
}

/*
 * Read or fill, and be interrupted at one of the points: by a signal, or for
 * good.
 */
static void
do_cut_off(Process *me)
{
	if (world.depth != 1)
		return;
	if (setjmp(world.cut_off) == 0)
	{
		world.cut_in = 1 + random_below(&world.random, 8);
		do_read(me);
		do_fill(me);
	}
	else if (!in_the_middle(me) && one_in(&world.random, 2))
		die(me);
	world.cut_in = 0;
}

/* The same for the writer, which never survives that. */
static void
do_cut_writer_off(Process *me)
{
	if (world.depth != 1 || in_the_middle(me))
		return;
	if (setjmp(world.cut_off) == 0)
	{
		world.cut_in = 1 + random_below(&world.random, 20);
		for (int i = 0; i < 4; i++)
			do_write_out(me);
	}
	else
		die(me);
	world.cut_in = 0;
}

static void
do_mode(Process *me)
{
	FcMode mode = fc_mode(&me->cache, NULL);

	if (mode == FC_PASSTHROUGH)
		(void) fc_mode_set(&me->cache, FC_SERVE, FC_REASON_NONE);
	else if (one_in(&world.random, 30))
		(void) fc_mode_set(&me->cache, FC_PASSTHROUGH, FC_REASON_USER);
	else if (one_in(&world.random, 3000))
		(void) fc_mode_set(&me->cache, FC_OFFLINE, FC_REASON_USER);
	else if (one_in(&world.random, 100))
		fc_cache_clear(&me->cache);
}

/* Open and close handles; some stay open throughout. */
static void
do_reopen(Process *me)
{
	uint32_t number = some_name();

	for (int i = 0; i < CHANGES; i++)
	{
		if (me->writing[i].used && me->writing[i].name == number)
			return;
	}
	me->handle[number] = (Handle){ .file = fc_file(file_id(number)) };
}

static void
set_faults(void)
{
	MemoryDevice *flash = &world.rig.flash;

	flash->read_fault = world.rig.slow.write_fault = FAULT_NONE;
	if (world.fault_chance == 0 || !one_in(&world.random, world.fault_chance))
		return;
	if (one_in(&world.random, 2))
		flash->read_fault =
			(Fault) random_below(&world.random, (uint32_t) FAULT_COUNT);
	else
		world.rig.slow.write_fault =
			(Fault) random_below(&world.random, (uint32_t) FAULT_COUNT);
}

static void
step_of(Process *me)
{
	uint32_t dice = random_below(&world.random, 100);

	set_faults();
	if (dice < 40)
		do_read(me);
	else if (dice < 50)
		do_write_out(me);
	else if (dice < 52)
		do_cut_writer_off(me);
	else if (dice < 60)
		do_fill(me);
	else if (dice < 70)
		do_change_begin(me);
	else if (dice < 86)
		do_change_go_on(me);
	else if (dice < 92)
		do_drop(me);
	else if (dice < 94)
		do_reopen(me);
	else if (dice < 96)
		do_mode(me);
	else if (dice < 98)
		fc_cache_sweep(&me->cache);
	else
		do_cut_off(me);
}

static void
step(void)
{
	Process *me = &world.process[random_below(&world.random, PROCESSES)];

	if (me->busy)
		return;
	me->busy = true;
	world.depth++;
	world.steps++;
	step_of(me);
	world.depth--;
	me->busy = false;
}

static unsigned
point_hash(const char *name)
{
	return fc_crc32c(0, name, strlen(name)) % POINTS;
}

static void
on_point(const char *name)
{
	unsigned chance =
		point_hash(name) == world.favourite ? 4 : world.nest_chance;

	if (world.depth == 1 && world.cut_in > 0 && --world.cut_in == 0)
		longjmp(world.cut_off, 1);
	if (world.depth < PROCESSES && one_in(&world.random, chance))
	{
		unsigned cut_in = world.cut_in;

		do
			step();
		while (!one_in(&world.random, 6));
		world.cut_in = cut_in;
	}
}

/* ---- episodes ------------------------------------------------------------ */

static void
open_world(uint64_t seed)
{
	memset(&world, 0, sizeof(world));
	world.random.state = seed;

	FcConfig config = {
		.slot_count = FC_WAYS << random_below(&world.random, 4),
		.file_count = 4U << random_below(&world.random, 4),
		.ring_pages = 8U << random_below(&world.random, 3),
		.process_count = PROCESSES + 1,
		.replacement = &fc_replacement_gittins,
	};

	rig_open_with(&world.rig, &config);
	world.fault_chance = one_in(&world.random, 2) ? 0 : 150;
	world.nest_chance = 4 + random_below(&world.random, 60);
	world.favourite = random_below(&world.random, POINTS);
	world.hot_names = 1 + random_below(&world.random, 6);
	world.hot_blocks = 1 + random_below(&world.random, 16);
	for (int i = 0; i < PROCESSES; i++)
	{
		Process *process = &world.process[i];

		MUST(fc_cache_attach(&process->cache, world.rig.memory,
		                     &fc_replacement_gittins,
		                     &world.rig.flash.device) == FC_OK);
		process->drops = -1;
		die(process);
	}
	for (int i = 0; i < NAMES; i++)
		create(&world.name[i]);
}

static void
close_world(void)
{
	for (int i = 0; i < PROCESSES; i++)
	{
		abandon_writing(&world.process[i]);
		fc_cache_close(&world.process[i].cache);
	}
	rig_close(&world.rig);
}

/* One cache's life.  True if a wrong page came out. */
static bool
episode(uint64_t seed, uint64_t *steps, uint64_t *hits)
{
	open_world(seed);
	fc_test_point = on_point;
	for (int i = 0; i < EPISODE_STEPS && !world.wrong; i++)
	{
		step();
		if (fc_mode(&world.rig.cache, NULL) == FC_OFFLINE)
			break;
	}
	fc_test_point = NULL;
	*steps += world.steps;
	*hits += world.hits;

	bool wrong = world.wrong;

	close_world();
	return wrong;
}

static void
test_fuzz(uint64_t seed, long seconds)
{
	uint64_t steps = 0;
	uint64_t hits = 0;
	uint64_t episodes = 0;
	uint64_t end = fc_clock_ns() + (uint64_t) seconds * 1000000000ULL;
	bool wrong = false;

	/*
	 * One episode may have few hits, and a busy machine does no more in that
	 * time.
	 */
	while (!wrong &&
	       (fc_clock_ns() < end || (hits <= steps / 50 && episodes < 100)))
	{
		wrong = episode(seed + episodes, &steps, &hits);
		episodes++;
	}
	printf("# %lu episodes, %lu steps, %lu hits compared\n",
	       (unsigned long) episodes, (unsigned long) steps,
	       (unsigned long) hits);
	OK(!wrong, "no wrong page from seed %lu on", (unsigned long) seed);
	if (wrong)
		printf("# repeat with FUZZ_SEED=%lu\n",
		       (unsigned long) (seed + episodes - 1));
	OK(hits > steps / 50, "there were hits to compare");
}

#define CONTROL(breaks) { #breaks, breaks }
#define B(name)         FC_BREAK(name)

static const struct
{
	const char *name;
	FcBreaks broken;
} controls[] = {
	CONTROL(B(INVALIDATE)),
	CONTROL(B(SECOND_INVALIDATE)),
	CONTROL(B(SET_GENERATION)),
	CONTROL(B(FILE_GENERATION)),
	CONTROL(B(DOOM)),
	CONTROL(B(CHUNKS)),
	CONTROL(B(RESOLVE)),
	CONTROL(B(FORGET)),
	CONTROL(B(RECOUNT)),
	CONTROL(B(COUNT_FIRST)),
	CONTROL(B(ABSENT)),
	CONTROL(B(REFRESH)),
	CONTROL(B(CRC)),
	CONTROL(B(FULL_KEY) | B(CRC)),
	CONTROL(B(ENTRY_COMPARE) | B(CRC)),
	CONTROL(B(PIN) | B(CRC)),
	CONTROL(B(WRITING_DOOM)),
	CONTROL(B(PAGE_PIN) | B(CRC)),
	CONTROL(B(RING_SEQUENCE) | B(CRC)),
};

static void
test_controls(void)
{
	for (size_t i = 0; i < sizeof(controls) / sizeof(controls[0]); i++)
	{
		uint64_t steps = 0;
		uint64_t hits = 0;
		bool wrong = false;

		fc_test_broken = controls[i].broken;
		for (uint64_t seed = 1; !wrong && steps < CONTROL_STEPS; seed++)
			wrong = episode(seed, &steps, &hits);
		fc_test_broken = 0;
		OK(wrong, "control: without %s it finds a wrong page",
		   controls[i].name);
		printf("# after %lu steps\n", (unsigned long) steps);
	}
}

int
main(void)
{
	long seed = from_environment("FUZZ_SEED", (long) time(NULL));

	printf("# FUZZ_SEED=%ld\n", seed);
	test_fuzz((uint64_t) seed, from_environment("FUZZ_SECONDS", 3));
	test_controls();
	return tap_done();
}
