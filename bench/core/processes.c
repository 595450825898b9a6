/*
 * processes.c
 *		What a hit and a miss cost when 1, 2, 4 and 8 processes use one cache:
 *		ns of CPU per call, beside a plain pread of the same slots.
 *
 *	processes DIRECTORY
 *
 * CPU of the process, so that waiting for a processor does not count, but cache
 * lines that travel between processors do.  With more processes than processors
 * they take turns, which costs cache misses as well; plain pread shows how
 * many.
 *
 * A miss is a look-up of a block that is not there and the call that offers it
 * to the cache, whether the policy accepts it or not; it includes neither the
 * read of the disk nor the writer's work.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define MEASURE_CALLS 8000
#include "../measure.h"
#include "die.h"
#include "fcache/writer.h"
#include "fcache/life.h"
#include "read.h"

#define BLOCKS        32000
#define PROCESSES_MAX 8
#define KINDS         3

typedef struct Round
{
	double ns[PROCESSES_MAX];
	_Atomic unsigned ready;
	_Atomic bool go;
} Round;

static FcCache cache;
static FcDevice device;
static FcFile file;
static uint32_t order[MEASURE_CALLS];
static uint32_t slots[MEASURE_CALLS];
static char *page;

static void
plain(uint32_t who)
{
	for (int i = 0; i < MEASURE_CALLS; i++)
	{
		uint32_t slot = slots[(i + (int) who * 977) % MEASURE_CALLS];

		if (pread(device.fd, page, FC_BLOCK_SIZE,
		          FC_SLOTS_OFFSET + (off_t) slot * FC_BLOCK_SIZE) !=
		    FC_BLOCK_SIZE)
			die("read");
	}
}

static void
hits(uint32_t who)
{
	FcTicket ticket;

	for (int i = 0; i < MEASURE_CALLS; i++)
		if (fc_read(&cache, &file, order[(i + (int) who * 977) % MEASURE_CALLS],
		            page, &ticket) != FC_OK)
			die("hit");
}

static void
misses(uint32_t who)
{
	FcTicket ticket;

	for (uint32_t i = 0; i < MEASURE_CALLS; i++)
		if (fc_read(&cache, &file, 0x20000000 + who * MEASURE_CALLS + i, page,
		            &ticket) == FC_MISS)
			(void) fc_fill(&cache, &ticket, page);
}

static void (*const kinds[KINDS])(uint32_t) = { plain, hits, misses };

static void
work(Round *round, int kind, uint32_t who)
{
	cache.token = 0;
	if (fc_process_begin(&cache) != FC_OK)
		die("begin");
	atomic_fetch_add(&round->ready, 1);
	while (!atomic_load(&round->go))
		usleep(100);

	uint64_t start = measure_cpu_ns();

	kinds[kind](who);
	round->ns[who] = (double) (measure_cpu_ns() - start) / MEASURE_CALLS;
	_exit(0);
}

/* Run so many processes at once; return the median cost of a call. */
static double
run(int kind, unsigned count)
{
	Round *round = mmap(NULL, sizeof(Round), PROT_READ | PROT_WRITE,
	                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	double median;
	int status;

	if (round == MAP_FAILED)
		die("reserve memory");
	for (uint32_t who = 0; who < count; who++)
	{
		pid_t child = fork();

		if (child < 0)
			die("fork");
		if (child == 0)
			work(round, kind, who);
	}
	while (atomic_load(&round->ready) < count)
		usleep(100);
	atomic_store(&round->go, true);
	while (wait(&status) > 0)
		if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
			exit(1);

	qsort(round->ns, count, sizeof(double), measure_by_value);
	median = round->ns[count / 2];
	munmap(round, sizeof(Round));
	return median;
}

static void
make(const char *directory)
{
	uint32_t slot_count = (BLOCKS + FC_WAYS - 1) / FC_WAYS * FC_WAYS;
	FcConfig config = { .slot_count = slot_count,
		                .process_count = 64,
		                .replacement = &fc_replacement_gittins };
	size_t size = fc_cache_memory_needed(&config);
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
	                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	char path[4096];
	FcWriter *writer;
	FcTicket ticket;
	FcSeen seen;

	snprintf(path, sizeof(path), "%s/pgflash-processes.%d", directory,
	         (int) getpid());
	page = aligned_alloc(FC_IO_ALIGN, FC_BLOCK_SIZE);
	memset(page, 'x', FC_BLOCK_SIZE);
	if (memory == MAP_FAILED ||
	    fc_device_file_open(&device, path, slot_count, 0) != FC_DEVICE_FINE ||
	    fc_cache_create(&cache, memory, &config, &device) != FC_OK ||
	    fc_mode_set(&cache, FC_SERVE, FC_REASON_NONE) != FC_OK)
		die("make a cache");
	unlink(path);
	cache.read_deadline_ns = 5000000000;
	file =
		fc_file((FcFileId){ .tablespace = 1663, .database = 5, .relation = 9 });
	if (fc_file_enter(&cache, &file) != FC_OK)
		die("enter a file");
	if (fc_writer_begin(&cache, &writer) != FC_OK)
		die("begin to write");

	/* To flash at once: a block in the ring is not a hit of flash. */
	for (uint32_t block = 0; block < slot_count; block++)
	{
		if (fc_read_look_up(&cache, &file, block, &ticket, &seen) != FC_MISS)
			continue;
		(void) fc_fill(&cache, &ticket, page);
		if (block % 16 == 0 && fc_writer_drain(writer, 5000000000) != FC_OK)
			die("write to flash");
	}
	if (fc_writer_drain(writer, 5000000000) != FC_OK ||
	    fc_writer_end(writer, 5000000000) != FC_OK)
		die("write to flash");
	for (int i = 0; i < MEASURE_CALLS;)
	{
		uint32_t block = (uint32_t) random() % slot_count;

		if (fc_read_look_up(&cache, &file, block, &ticket, &seen) != FC_OK)
			continue;
		order[i] = block;
		slots[i++] = seen.slot;
	}
}

int
main(int argc, char **argv)
{
	if (argc != 2)
	{
		fputs("Usage: processes DIRECTORY\n", stderr);
		return 2;
	}
	double ns[KINDS][4];

	make(argv[1]);
	/* Misses last: they displace the blocks that are to be hit. */
	for (int kind = 0; kind < KINDS; kind++)
		for (int i = 0; i < 4; i++)
			ns[kind][i] = run(kind, 1U << i);
	printf("%9s %12s %12s %12s   ns of CPU per call\n", "processes",
	       "plain pread", "hit", "miss");
	for (int i = 0; i < 4; i++)
		printf("%9u %12.0f %12.0f %12.0f\n", 1U << i, ns[0][i], ns[1][i],
		       ns[2][i]);
	return 0;
}
