/*
 * support.h
 *		What several tests share: a cache on a device in memory that can fail,
 *		pages that identify themselves, and random numbers with a seed.
 *
 * Everything is in MAP_SHARED memory, so a forked child works on the same
 * cache as its parent.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef SUPPORT_H
#define SUPPORT_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cache_policy.h"
#include "fcache/crc32c.h"
#include "fcache/writer.h"
#include "file.h"
#include "geometry.h"
#include "index.h"
#include "process.h"
#include "queue.h"
#include "read.h"

#define UNUSED __attribute__((unused))

/* A test that cannot even set up its scene proves nothing. */
#define MUST(condition)                                                        \
	do                                                                         \
	{                                                                          \
		if (!(condition))                                                      \
		{                                                                      \
			printf("Bail out! %s:%d: %s\n", __FILE__, __LINE__, #condition);   \
			fflush(stdout);                                                    \
			abort();                                                           \
		}                                                                      \
	} while (0)

/* For answers that must be checked, in tests that do not care about them. */
#define IGNORE(answer) ((void) !(answer))

/* ---- random numbers ------------------------------------------------------ */

typedef struct Random
{
	uint64_t state;
} Random;

UNUSED static uint64_t
random_next(Random *random)
{
	random->state += 0x9e3779b97f4a7c15ULL;
	return fc_mix(random->state);
}

/* 0 .. limit - 1 */
UNUSED static uint32_t
random_below(Random *random, uint32_t limit)
{
	return (uint32_t) (((random_next(random) >> 32) * limit) >> 32);
}

UNUSED static bool
one_in(Random *random, uint32_t chances)
{
	return random_below(random, chances) == 0;
}

UNUSED static long
from_environment(const char *name, long otherwise)
{
	const char *text = getenv(name);

	return text != NULL && *text != '\0' ? atol(text) : otherwise;
}

/* ---- a device in memory -------------------------------------------------- */

typedef enum Fault
{
	FAULT_NONE,
	FAULT_EIO,
	FAULT_EINTR,
	FAULT_SHORT,
	FAULT_FLIP,      /* done, except for one bit */
	FAULT_TORN,      /* write: half of it arrives; reports success */
	FAULT_LOST,      /* write: nothing arrives; reports success */
	FAULT_MISDIRECT, /* done at the next slot */
	FAULT_COUNT
} Fault;

typedef struct MemoryDevice
{
	FcDevice device;
	unsigned char *bytes;
	size_t size;
	Fault read_fault; /* of the next read */
	Fault write_fault;
	bool fault_stays;      /* for all reads and writes, not only the next */
	void (*on_read)(void); /* done before the next read */
	unsigned reads;
	unsigned writes;

	/* For a device that takes its time; see memory_device_defer(). */
	bool holds;        /* nothing is completed */
	bool last_first;   /* the last to arrive is done first */
	unsigned stuck;    /* so many of the oldest are not completed */
	unsigned delay_us; /* from the start of a transfer to its end */
	unsigned deferred_count;
	unsigned deferred_most; /* at once */
	struct
	{
		FcTransfer *transfer;
		FcTransfer asked; /* a copy from its beginning, as a kernel has */
		uint64_t start_ns;
	} deferred[FC_QUEUE_DEPTH_MAX];
} MemoryDevice;

static Fault
take_fault(const MemoryDevice *flash, Fault *fault)
{
	Fault taken = *fault;

	if (!flash->fault_stays)
		*fault = FAULT_NONE;
	return taken;
}

static ssize_t
failure(int error)
{
	errno = error;
	return -1;
}

static size_t
place_on(const MemoryDevice *flash, off_t offset, size_t size, Fault fault)
{
	size_t place = (size_t) (offset - FC_SLOTS_OFFSET);

	MUST(offset >= FC_SLOTS_OFFSET && place + size <= flash->size);
	MUST(place % FC_BLOCK_SIZE == 0 && size == FC_BLOCK_SIZE);
	return fault == FAULT_MISDIRECT ? (place + FC_BLOCK_SIZE) % flash->size
	                                : place;
}

static ssize_t
memory_read(FcDevice *device, void *buffer, size_t size, off_t offset)
{
	MemoryDevice *flash = device->state;
	Fault fault = take_fault(flash, &flash->read_fault);

	flash->reads++;
	if (flash->on_read != NULL)
	{
		void (*act)(void) = flash->on_read;

		flash->on_read = NULL;
		act();
	}
	if (fault == FAULT_EIO || fault == FAULT_EINTR)
		return failure(fault == FAULT_EIO ? EIO : EINTR);
	memcpy(buffer, flash->bytes + place_on(flash, offset, size, fault), size);
	if (fault == FAULT_FLIP)
		((unsigned char *) buffer)[4711] ^= 0x10;
	return fault == FAULT_SHORT ? (ssize_t) size - 512 : (ssize_t) size;
}

static ssize_t
memory_write(FcDevice *device, const void *buffer, size_t size, off_t offset)
{
	MemoryDevice *flash = device->state;
	Fault fault = take_fault(flash, &flash->write_fault);
	size_t place = place_on(flash, offset, size, fault);

	flash->writes++;
	if (fault == FAULT_EIO || fault == FAULT_EINTR)
		return failure(fault == FAULT_EIO ? EIO : EINTR);
	if (fault == FAULT_LOST)
		return (ssize_t) size;
	if (fault == FAULT_TORN || fault == FAULT_SHORT)
	{
		memcpy(flash->bytes + place, buffer, size / 2);
		return (ssize_t) (fault == FAULT_TORN ? size : size / 2);
	}
	memcpy(flash->bytes + place, buffer, size);
	if (fault == FAULT_FLIP)
		flash->bytes[place + 1234] ^= 0x01;
	return (ssize_t) size;
}

static void
memory_close(FcDevice *device)
{
	(void) device;
}

static const FcDeviceOps memory_ops = { .read = memory_read,
	                                    .write = memory_write,
	                                    .close = memory_close };

static void
deferred_start(FcDevice *device, FcTransfer *transfer)
{
	MemoryDevice *flash = device->state;
	unsigned i = flash->deferred_count++;

	MUST(i < FC_QUEUE_DEPTH_MAX);
	flash->deferred[i].transfer = transfer;
	flash->deferred[i].asked = *transfer;
	flash->deferred[i].start_ns = fc_clock_ns();
	if (flash->deferred_most < flash->deferred_count)
		flash->deferred_most = flash->deferred_count;
}

static ssize_t
deferred_do(FcDevice *device, const FcTransfer *asked)
{
	ssize_t result =
		asked->write
			? memory_write(device, asked->page, FC_BLOCK_SIZE, asked->offset)
			: memory_read(device, asked->page, FC_BLOCK_SIZE, asked->offset);

	return result < 0 ? -errno : result;
}

/*
 * Bytes are copied when a transfer ends, not when it begins: as late as
 * possible.
 */
static FcTransfer *
deferred_finished(FcDevice *device)
{
	MemoryDevice *flash = device->state;
	unsigned i = flash->last_first ? flash->deferred_count - 1 : flash->stuck;

	if (flash->holds || flash->deferred_count <= flash->stuck ||
	    fc_clock_ns() - flash->deferred[i].start_ns < flash->delay_us * 1000ULL)
		return NULL;

	FcTransfer *transfer = flash->deferred[i].transfer;

	FcTransfer asked = flash->deferred[i].asked;

	flash->deferred_count--;
	memmove(&flash->deferred[i], &flash->deferred[i + 1],
	        (flash->deferred_count - i) * sizeof(flash->deferred[0]));
	transfer->result = deferred_do(device, &asked);
	return transfer;
}

/* Let the bytes of stuck transfers arrive now, before anyone asks. */
UNUSED static void
memory_device_let_go(MemoryDevice *flash)
{
	for (unsigned i = 0; i < flash->stuck; i++)
		(void) deferred_do(&flash->device, &flash->deferred[i].asked);
	flash->stuck = 0;
}

static const FcDeviceOps deferred_ops = { .read = memory_read,
	                                      .write = memory_write,
	                                      .close = memory_close,
	                                      .start = deferred_start,
	                                      .finished = deferred_finished };

/*
 * From now on, holds, last_first and delay_us determine when transfers are
 * done.
 */
UNUSED static void
memory_device_defer(MemoryDevice *flash)
{
	flash->device.ops = &deferred_ops;
}

UNUSED static void *
shared_memory(size_t size)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
	                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	MUST(memory != MAP_FAILED);
	return memory;
}

UNUSED static void
memory_device_open(MemoryDevice *flash, uint32_t slots)
{
	memset(flash, 0, sizeof(*flash));
	flash->size = (size_t) slots * FC_BLOCK_SIZE;
	flash->bytes = shared_memory(flash->size);
	flash->device = (FcDevice){ .ops = &memory_ops, .fd = -1, .state = flash };
}

/* ---- a cache ------------------------------------------------------------- */

typedef struct Rig
{
	FcCache cache;
	MemoryDevice flash;
	MemoryDevice slow; /* the same bytes, for a writer that must wait */
	void *memory;
	size_t memory_size;
} Rig;

UNUSED static void
rig_open_with(Rig *rig, const FcConfig *config)
{
	memory_device_open(&rig->flash, config->slot_count_max != 0
	                                    ? config->slot_count_max
	                                    : config->slot_count);
	rig->slow = rig->flash;
	rig->slow.device.state = &rig->slow;
	memory_device_defer(&rig->slow);
	rig->memory_size = fc_cache_memory_needed(config);
	rig->memory = shared_memory(rig->memory_size);
	MUST(fc_cache_create(&rig->cache, rig->memory, config,
	                     &rig->flash.device) == FC_OK);
	MUST(fc_mode_set(&rig->cache, FC_SERVE, FC_REASON_NONE) == FC_OK);
}

UNUSED static void
rig_open(Rig *rig, uint32_t slots, uint32_t files)
{
	FcConfig config = { .slot_count = slots,
		                .file_count = files,
		                .process_count = 16,
		                .replacement = &fc_replacement_lfu };

	rig_open_with(rig, &config);
}

/* Another handle on the same cache: to core, another process. */
UNUSED static void
rig_attach(Rig *rig, FcCache *other)
{
	MUST(fc_cache_attach(other, rig->memory, &fc_replacement_lfu,
	                     &rig->flash.device) == FC_OK);
	MUST(fc_process_begin(other) == FC_OK);
}

UNUSED static void
rig_detach(FcCache *other)
{
	fc_process_end(other);
	fc_cache_close(other);
}

#define FLUSH_NS 60000000000ULL

/*
 * Write all fills to flash: the writer's part, otherwise done by another
 * process.
 */
UNUSED static void
rig_flush(Rig *rig)
{
	int saved_errno = errno;

	MUST(fc_writer_flush(&rig->cache, FLUSH_NS) == FC_OK);
	errno = saved_errno;
}

UNUSED static void
rig_close(Rig *rig)
{
	fc_cache_close(&rig->cache);
	munmap(rig->memory, rig->memory_size);
	munmap(rig->flash.bytes, rig->flash.size);
}

UNUSED static FcFileId
file_id(uint32_t relation)
{
	return (
		FcFileId){ .tablespace = 1663, .database = 5, .relation = relation };
}

UNUSED static FcFile
entered(Rig *rig, uint32_t relation)
{
	FcFile file = fc_file(file_id(relation));

	MUST(fc_file_enter(&rig->cache, &file) == FC_OK);
	return file;
}

/* ---- pages --------------------------------------------------------------- */

typedef struct Page
{
	uint64_t word[FC_BLOCK_SIZE / 8];
} __attribute__((aligned(FC_IO_ALIGN))) Page;

/*
 * A page of a file, block and version that differs from all others everywhere.
 */
UNUSED static void
page_make(Page *page, uint32_t file, uint32_t block, uint64_t version)
{
	uint64_t seed = fc_mix(fc_mix(((uint64_t) file << 32) | block) + version);

	page->word[0] = version;
	page->word[1] = ((uint64_t) file << 32) | block;
	for (unsigned i = 2; i < FC_BLOCK_SIZE / 8; i++)
		page->word[i] = seed + i * 0x9e3779b97f4a7c15ULL;
}

UNUSED static bool
page_is(const Page *page, uint32_t file, uint32_t block, uint64_t version)
{
	static _Thread_local Page expected;

	page_make(&expected, file, block, version);
	return memcmp(page, &expected, sizeof(expected)) == 0;
}

/*
 * A change of blocks as a host announces it, where the file's content is
 * irrelevant.
 */
UNUSED static void
change_blocks(FcCache *cache, FcFile *file, uint32_t first, uint32_t count)
{
	FcChange change;

	fc_change_begin(cache, file, first, count, &change);
	fc_change_end(cache, file, &change);
}

/* Put a block of the file into the cache; true if the cache took it. */
UNUSED static bool
rig_put(Rig *rig, const FcFile *file, uint32_t block)
{
	static Page page;
	FcTicket ticket;
	FcStatus status = fc_read(&rig->cache, file, block, &page, &ticket);

	page_make(&page, file->id.relation, block, 1);
	if (status != FC_MISS || fc_fill(&rig->cache, &ticket, &page) != FC_OK)
		return false;
	rig_flush(rig);
	return true;
}

/* A policy's choice that keeps every block out. */
UNUSED static unsigned
choose_nobody(const FcReplacementPlace *place, const FcCandidate *candidate,
              uint64_t usable)
{
	(void) place;
	(void) candidate;
	(void) usable;
	return FC_WAY_NONE;
}

#endif
