/*
 * hammer.h
 *		What workers do to one cache and one cache file; all pages are verified.
 *
 * The disk is a shared array of versions: a block's page is made from its file,
 * number and version.  As in PostgreSQL, one worker at a time reads or writes
 * a block (it holds a flag with its number; the flag of a dead owner is taken
 * over), and truncating or dropping a file takes the flags of all its blocks.
 * Under the flag a page that fc_read() returns must have the current version.
 * Fills and refreshes may come late, after the flag was released.
 *
 * Pages are also read without any flag: then the version must be one that was
 * current during the call, that is, not older than the last change that had
 * ended when the call began.
 *
 * One more worker writes to flash and does the housekeeping of the device: a
 * device that a stopped process took for stalled returns to service.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef HAMMER_H
#define HAMMER_H

#include <sched.h>
#include <signal.h>
#include <time.h>

#include "count.h"
#include "support.h"
#include "tap.h"

#define WORKERS     7 /* the first one is the writer */
#define FILES       6
#define BLOCKS      96
#define SLOTS       (4 * FC_WAYS)
#define LATE        4 /* fills a worker keeps for later */
#define RUN         3 /* blocks at once */
#define AHEAD       6 /* blocks a worker reads ahead */
#define HITS_WANTED 1000

typedef struct Disk
{
	FcAtomic64 version[FILES][BLOCKS];
	FcAtomic64 over[FILES][BLOCKS]; /* last version whose change has ended */
	FcAtomic32 owner[FILES][BLOCKS];
	FcAtomic64 reads;
	FcAtomic64 compared;
	FcAtomic64 unflagged;
	FcAtomic64 runs;
	FcAtomic64 late_fills;
	FcAtomic64 suicides;
	FcAtomic32 wrong;
	FcAtomic32 stop;
	uint64_t wrong_version;
	uint64_t right_version;
} Disk;

typedef struct Late
{
	bool used;
	bool refresh;
	uint32_t file;
	uint64_t version;
	FcTicket ticket;
	FcChange change;
} Late;

typedef struct Worker
{
	FcCache cache;
	Random random;
	FcFile file[FILES];
	Late late[LATE];
	uint32_t ahead_file;
	uint32_t ahead_block;
	Page page;
} Worker;

static Disk *disk;
static void *memory;
static FcDevice flash;
static _Thread_local Worker worker;
static bool deadly; /* may workers die and stop by themselves? */

/* ---- the flag of a block ------------------------------------------------- */

static bool
take_block(uint32_t file, uint32_t block)
{
	FcAtomic32 *owner = &disk->owner[file][block];
	uint32_t me = (uint32_t) gettid();
	uint32_t now = 0;

	if (atomic_compare_exchange_strong(owner, &now, me))
		return true;
	return kill((pid_t) now, 0) != 0 && errno == ESRCH &&
	       atomic_compare_exchange_strong(owner, &now, me);
}

static void
give_block(uint32_t file, uint32_t block)
{
	uint32_t me = (uint32_t) gettid();

	atomic_compare_exchange_strong(&disk->owner[file][block], &me, 0);
}

/* Take the flags of all blocks from first on, or none. */
static bool
take_blocks(uint32_t file, uint32_t first)
{
	for (uint32_t block = first; block < BLOCKS; block++)
	{
		int tries = 200;

		while (!take_block(file, block) && --tries > 0)
			sched_yield();
		if (tries == 0)
		{
			while (block-- > first)
				give_block(file, block);
			return false;
		}
	}
	return true;
}

static void
give_blocks(uint32_t file, uint32_t first)
{
	for (uint32_t block = first; block < BLOCKS; block++)
		give_block(file, block);
}

/* ---- what a worker does -------------------------------------------------- */

static void
report_wrong(uint64_t version)
{
	if (atomic_fetch_add(&disk->wrong, 1) == 0)
	{
		disk->wrong_version = worker.page.word[0];
		disk->right_version = version;
	}
}

static void
late_fill(Late *late)
{
	uint32_t block =
		late->refresh ? late->change.ticket.block : late->ticket.block;

	late->used = false;
	page_make(&worker.page, late->file, block, late->version);
	if (late->refresh)
		(void) fc_change_fill(&worker.cache, &late->change, &worker.page);
	else
		(void) fc_fill(&worker.cache, &late->ticket, &worker.page);
	atomic_fetch_add(&disk->late_fills, 1);
}

static void
now_or_later(Late *late)
{
	late->used = true;
	if (one_in(&worker.random, 3))
		worker.late[random_below(&worker.random, LATE)] = *late;
	else
		late_fill(late);
}

static FcStatus
look(uint32_t file, uint32_t block, FcTicket *ticket)
{
	FcFile *handle = &worker.file[file];
	FcStatus status =
		fc_read(&worker.cache, handle, block, &worker.page, ticket);

	if (status != FC_STALE)
		return status;
	if (fc_file_enter(&worker.cache, handle) != FC_OK)
		return FC_OFF;
	return fc_read(&worker.cache, handle, block, &worker.page, ticket);
}

static void
read_with_flag(uint32_t file, uint32_t block)
{
	Late late = { .file = file };

	if (!take_block(file, block))
		return;

	FcStatus status = look(file, block, &late.ticket);

	late.version = atomic_load(&disk->version[file][block]);
	atomic_fetch_add_explicit(&disk->reads, 1, memory_order_relaxed);
	if (status == FC_OK)
	{
		atomic_fetch_add_explicit(&disk->compared, 1, memory_order_relaxed);
		if (!page_is(&worker.page, file, block, late.version))
			report_wrong(late.version);
	}

	bool fill_first = one_in(&worker.random, 2);

	if (status == FC_MISS && fill_first)
		now_or_later(&late);
	give_block(file, block);
	if (status == FC_MISS && !fill_first)
		now_or_later(&late);
}

static void
read_without_flag(uint32_t file, uint32_t block)
{
	FcTicket ticket;
	uint64_t oldest = atomic_load(&disk->over[file][block]);

	if (look(file, block, &ticket) != FC_OK)
		return;

	uint64_t newest = atomic_load(&disk->version[file][block]);
	uint64_t version = worker.page.word[0];

	atomic_fetch_add_explicit(&disk->unflagged, 1, memory_order_relaxed);
	if (version < oldest || version > newest ||
	    !page_is(&worker.page, file, block, version))
		report_wrong(oldest);
}

/* Read a few blocks at once, without any flag. */
static void
read_a_run(uint32_t file, uint32_t first)
{
	Page pages[RUN];
	void *page[RUN];
	FcTicket ticket[RUN];
	uint64_t oldest[RUN];

	if (first + RUN > BLOCKS)
		return;
	for (uint32_t i = 0; i < RUN; i++)
	{
		page[i] = &pages[i];
		oldest[i] = atomic_load(&disk->over[file][first + i]);
	}
	if (!fc_read_run(&worker.cache, &worker.file[file], first, RUN, page,
	                 ticket))
		return;
	atomic_fetch_add_explicit(&disk->runs, 1, memory_order_relaxed);
	for (uint32_t i = 0; i < RUN; i++)
	{
		uint64_t newest = atomic_load(&disk->version[file][first + i]);
		uint64_t version = pages[i].word[0];

		if (version < oldest[i] || version > newest ||
		    !page_is(&pages[i], file, first + i, version))
			report_wrong(oldest[i]);
	}
}

static void
write_one(uint32_t file, uint32_t block)
{
	Late late = { .refresh = true, .file = file };

	if (!take_block(file, block))
		return;
	fc_change_begin(&worker.cache, &worker.file[file], block, 1, &late.change);
	late.version = atomic_fetch_add(&disk->version[file][block], 1) + 1;
	fc_change_end(&worker.cache, &worker.file[file], &late.change);
	atomic_store(&disk->over[file][block], late.version);
	give_block(file, block);
	now_or_later(&late);
}

static void
really_replace(uint32_t file, uint32_t first)
{
	for (uint32_t block = first; block < BLOCKS; block++)
		atomic_fetch_add(&disk->version[file][block], 1);
}

static void
replacing_is_over(uint32_t file, uint32_t first)
{
	for (uint32_t block = first; block < BLOCKS; block++)
		atomic_store(&disk->over[file][block],
		             atomic_load(&disk->version[file][block]));
}

static void
truncate_file(uint32_t file, uint32_t first)
{
	FcChange change;

	if (!take_blocks(file, first))
		return;
	fc_change_begin(&worker.cache, &worker.file[file], first, FC_BLOCKS_ALL,
	                &change);
	really_replace(file, first);
	fc_change_end(&worker.cache, &worker.file[file], &change);
	replacing_is_over(file, first);
	give_blocks(file, first);
}

static void
recreate_file(uint32_t file)
{
	if (!take_blocks(file, 0))
		return;
	fc_file_retire(&worker.cache, file_id(file));
	really_replace(file, 0);
	fc_file_retire(&worker.cache, file_id(file));
	replacing_is_over(file, 0);
	give_blocks(file, 0);
}

static void
change_mode(void)
{
	if (fc_mode(&worker.cache, NULL) == FC_PASSTHROUGH)
		(void) fc_mode_set(&worker.cache, FC_SERVE, FC_REASON_NONE);
	else if (one_in(&worker.random, 10))
		(void) fc_mode_set(&worker.cache, FC_PASSTHROUGH, FC_REASON_USER);
	else if (one_in(&worker.random, 10))
		fc_cache_clear(&worker.cache);
}

/* From now on, read blocks from this one on more often than others. */
static void
read_ahead(uint32_t file, uint32_t block)
{
	worker.ahead_file = file;
	worker.ahead_block = block;
	(void) fc_read_ahead(&worker.cache, &worker.file[file], block, AHEAD);
}

static void
work(void)
{
	Random *random = &worker.random;
	uint32_t file = random_below(random, FILES);
	uint32_t block = random_below(random, BLOCKS);
	uint32_t dice = random_below(random, 1000);
	Late *late = &worker.late[random_below(random, LATE)];

	if (one_in(random, 3))
	{
		file = worker.ahead_file;
		block = (worker.ahead_block + random_below(random, AHEAD)) % BLOCKS;
	}
	if (dice < 100)
		read_ahead(file, block);
	else if (dice < 200)
		read_a_run(file, block);
	else if (dice < 550)
		read_with_flag(file, block);
	else if (dice < 750)
		read_without_flag(file, block);
	else if (dice < 850)
		write_one(file, block);
	else if (dice < 950)
	{
		if (late->used)
			late_fill(late);
	}
	else if (dice < 958)
		truncate_file(file, block);
	else if (dice < 962)
		recreate_file(file);
	else if (dice < 970)
		fc_cache_sweep(&worker.cache);
	else if (dice < 973)
		change_mode();
	else
		worker.file[file] = fc_file(file_id(file));
}

/* Act where it hurts: between two steps of the protocol. */
static void
on_point(const char *name)
{
	struct timespec nap = { .tv_nsec = 1000000 };
	uint32_t dice = random_below(&worker.random, 20000);

	(void) name;
	if (dice < 800)
		sched_yield();
	else if (dice < 840)
		nanosleep(&nap, NULL);
	else if (dice < 842 && deadly)
	{
		atomic_fetch_add(&disk->suicides, 1);
		raise(dice == 840 ? SIGKILL : SIGSTOP);
	}
}

/* Write to flash what the others put into the ring. */
static void
write_to_flash(void)
{
	FcWriter *writer = NULL;
	struct timespec nap = { .tv_nsec = 1000000 };

	while (atomic_load(&disk->stop) == 0)
	{
		if (writer != NULL)
			fc_writer_run(writer, 5000000);
		else if (fc_writer_begin(&worker.cache, &writer) != FC_OK)
			nanosleep(&nap, NULL);
		(void) fc_bypass_check(&worker.cache);
	}
	if (writer != NULL)
		(void) fc_writer_end(writer, FLUSH_NS);
}

/* Be a worker until all are to stop; the first one is the writer. */
static void
be_worker(int number, uint64_t seed)
{
	memset(&worker, 0, sizeof(worker));
	worker.random.state = seed;
	for (uint32_t i = 0; i < FILES; i++)
		worker.file[i] = fc_file(file_id(i));
	MUST(fc_cache_attach(&worker.cache, memory, &fc_replacement_gittins,
	                     &flash) == FC_OK);
	worker.cache.read_deadline_ns = 50000000; /* some may be late */
	if (number == 0)
		write_to_flash();
	while (atomic_load(&disk->stop) == 0)
		work();
	fc_process_end(&worker.cache);
}

/* ---- the world ----------------------------------------------------------- */

static void
open_world(const char *path, uint32_t numbers)
{
	FcConfig config = { .slot_count = SLOTS,
		                .file_count = numbers,
		                .process_count = 64,
		                .replacement = &fc_replacement_gittins };
	FcCache cache;

	disk = shared_memory(sizeof(*disk));
	memory = shared_memory(fc_cache_memory_needed(&config));
	unlink(path);
	MUST(fc_device_file_open(&flash, path, SLOTS, 0) == FC_DEVICE_FINE);
	MUST(fc_cache_create(&cache, memory, &config, &flash) == FC_OK);
	MUST(fc_mode_set(&cache, FC_SERVE, FC_REASON_NONE) == FC_OK);
	for (uint32_t file = 0; file < FILES; file++)
		really_replace(file, 0);
	for (uint32_t file = 0; file < FILES; file++)
		replacing_is_over(file, 0);
	fc_cache_close(&cache);
}

static void
close_world(const char *path)
{
	flash.ops->close(&flash);
	unlink(path);
	munmap(disk, sizeof(*disk));
}

#endif
