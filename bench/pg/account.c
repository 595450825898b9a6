/*
 * account.c
 *		The cost that the accounting adds to a file call.
 *
 *	account
 *
 * Calls the extension's hooks as the server's import table would, without a
 * server, next to libc's own functions: a read of a block that the file does
 * not have and a write of nothing, so that the kernel's part is small; and a
 * write of one byte at the file's end, for which the accounting asks the kernel
 * where that is.  "off" and "on" are pgflash.account; the limit is 150 ns for a
 * call that is on, alone or in company.  The null control is libc against libc.
 *
 *	alone		nobody else
 *	shared		a process on another processor reads and writes the same
 *				relation all the time
 *	same copies likewise, but both count in the same cache lines: shows what
 *	copies are for crowdtwo processes for each processor do so, and all run
 *	where they
 *				may
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../measure.h"
#include "account/account.h"
#include "hooks/descriptors.h"
#include "hooks/hooks.h"
#include "hooks/runtime.h"
#include "settings.h"

#define PATH "base/5/16384"

Runtime runtime;
int setting_verify = VERIFY_OFF;
int setting_read_deadline_ms = 5000;
bool setting_fill_neighbours = true;
bool setting_account;

static uint32_t wait_event;
static uint32_t *wait_event_place = &wait_event;
static void *shared_memory;
static bool is_walsender;
static int backend_type = 1;
static int parallel_number = -1;
static int process_number = 3;
static int leader_number = -1;
static int wal_segment_bytes = 16 * 1024 * 1024;

static int fd;
static char page[FC_BLOCK_SIZE];
static volatile ssize_t sink;

typedef ssize_t (*Read)(int, void *, size_t, off_t);
typedef ssize_t (*Write)(int, const void *, size_t, off_t);

static bool same_copies;

/* Stands in for libc's, which the accounting asks where it runs. */
int
sched_getcpu(void)
{
	static int (*real)(void);

	if (same_copies)
		return 0;
	if (real == NULL)
		*(void **) &real = dlsym(RTLD_NEXT, "sched_getcpu");
	return real();
}

static Read hooked_pread;
static Write hooked_pwrite;

static void
read_with(Read function)
{
	for (int i = 0; i < MEASURE_CALLS; i++)
		sink += function(fd, page, FC_BLOCK_SIZE, (off_t) i * FC_BLOCK_SIZE);
}

static void
write_with(Write function, size_t size)
{
	off_t end = 0;

	if (size > 0 && ftruncate(fd, 0) != 0)
		exit(1);
	for (int i = 0; i < MEASURE_CALLS; i++, end += (off_t) size)
		sink += function(fd, page, size, end);
	if (size > 0 && ftruncate(fd, 0) != 0)
		exit(1);
}

static void
libc_read(void *context)
{
	(void) context;
	read_with(pread);
}

static void
off_read(void *context)
{
	(void) context;
	setting_account = false;
	read_with(hooked_pread);
}

static void
on_read(void *context)
{
	(void) context;
	setting_account = true;
	read_with(hooked_pread);
}

static void
libc_write(void *context)
{
	(void) context;
	write_with(pwrite, 0);
}

static void
off_write(void *context)
{
	(void) context;
	setting_account = false;
	write_with(hooked_pwrite, 0);
}

static void
on_write(void *context)
{
	(void) context;
	setting_account = true;
	write_with(hooked_pwrite, 0);
}

static void
libc_extend(void *context)
{
	(void) context;
	write_with(pwrite, 1);
}

static void
on_extend(void *context)
{
	(void) context;
	setting_account = true;
	write_with(hooked_pwrite, 1);
}

/* The cost for one read in 16 of knowing its source for certain. */
static void
cachestat(void *context)
{
	struct
	{
		uint64_t offset;
		uint64_t length;
	} range = { 0, FC_BLOCK_SIZE };
	uint64_t answer[5];

	(void) context;
	for (int i = 0; i < MEASURE_CALLS; i++)
		sink += syscall(451, fd, &range, answer, 0u);
}

static Figure figures[] = {
	{ .name = "pread", .work = libc_read },
	{ .name = "pread again (null control)", .work = libc_read },
	{ .name = "pread, off", .work = off_read },
	{ .name = "pread, on", .work = on_read },
	{ .name = "pwrite", .work = libc_write },
	{ .name = "pwrite, off", .work = off_write },
	{ .name = "pwrite, on", .work = on_write },
	{ .name = "pwrite at the end", .work = libc_extend },
	{ .name = "pwrite at the end, on", .work = on_extend },
	{ .name = "cachestat", .work = cachestat },
};

#define FIGURES (sizeof(figures) / sizeof(figures[0]))

static double
added(int of, int to)
{
	return figures[of].median - figures[to].median;
}

static void
report(const char *of)
{
	measure(figures, FIGURES, NULL);
	measure_print(figures, FIGURES, of, false);
	printf("%-18s added: null control %.0f, read off %.0f, read on %.0f, "
	       "write off %.0f, write on %.0f, at the end on %.0f ns\n",
	       of, added(1, 0), added(2, 0), added(3, 0), added(5, 4), added(6, 4),
	       added(8, 7));
}

static void *
shared_pages(size_t size)
{
	void *pages = mmap(NULL, size, PROT_READ | PROT_WRITE,
	                   MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (pages == MAP_FAILED)
		exit(1);
	return pages;
}

static void
make_memory(void)
{
	static const AccountServer server = {
		.backend_type = &backend_type,
		.parallel_number = &parallel_number,
		.wal_segment_bytes = &wal_segment_bytes,
		.backend_types = 18,
		.many = 1 << 1,
		.relations = 16384,
		.process_number = &process_number,
		.leader_number = &leader_number,
		.process_count = 100,
	};

	account_want(&server);
	shared_memory = shared_pages(account_memory_size());
	account_create(shared_memory, 0);
}

/* ---- company ------------------------------------------------------------- */

#define ANYWHERE    (-1)
#define COMPANY_MAX 64

static cpu_set_t processors;
static pid_t company[COMPANY_MAX];
static _Atomic uint64_t *company_calls;

/* Run on the nth of the processors that this program may use. */
static void
run_on(int nth)
{
	cpu_set_t one = processors;

	if (nth != ANYWHERE)
	{
		CPU_ZERO(&one);
		for (int i = 0; i < CPU_SETSIZE; i++)
		{
			if (CPU_ISSET(i, &processors) && nth-- == 0)
				CPU_SET(i, &one);
		}
	}
	if (sched_setaffinity(0, sizeof(one), &one) != 0)
		exit(1);
}

static void
keep_company(int nth, pid_t parent)
{
	run_on(nth);
	account_in_child();
	setting_account = true;
	fd = names_open(AT_FDCWD, PATH, O_RDWR, 0600);
	while (getppid() == parent)
	{
		for (int i = 0; i < 100; i++)
		{
			sink += hooked_pread(fd, page, FC_BLOCK_SIZE, 0);
			sink += hooked_pwrite(fd, page, 0, 0);
		}
		atomic_fetch_add(company_calls, 200);
	}
	_exit(0);
}

/*
 * Print how busy the others were, since a busy machine may keep them waiting.
 */
static void
report_with(const char *of, int count, int nth)
{
	pid_t self = getpid();
	uint64_t begin_ns;

	if (count > COMPANY_MAX)
		count = COMPANY_MAX;
	for (int i = 0; i < count; i++)
	{
		company[i] = fork();
		if (company[i] == 0)
			keep_company(nth, self);
	}
	atomic_store(company_calls, 0);
	begin_ns = fc_clock_ns();
	report(of);
	printf("%-18s company: %.1f million calls a second\n", of,
	       (double) atomic_load(company_calls) * 1e3 /
	           (double) (fc_clock_ns() - begin_ns));
	for (int i = 0; i < count; i++)
	{
		kill(company[i], SIGKILL);
		(void) waitpid(company[i], NULL, 0);
	}
}

int
main(void)
{
	char folder[] = "/tmp/pgflash-account-XXXXXX";

	runtime.shared_memory = &shared_memory;
	runtime.wait_event = &wait_event_place;
	runtime.is_walsender = &is_walsender;
	runtime.backend_type = &backend_type;
	runtime.checkpointer_type = -1;
	runtime.segment_blocks = 131072;
	for (size_t i = 0; i < hook_import_count; i++)
	{
		if (strcmp(hook_imports[i].name, "pread") == 0)
			hooked_pread = (Read) hook_imports[i].replacement;
		if (strcmp(hook_imports[i].name, "pwrite") == 0)
			hooked_pwrite = (Write) hook_imports[i].replacement;
	}

	if (mkdtemp(folder) == NULL || chdir(folder) != 0 ||
	    mkdir("base", 0700) != 0 || mkdir("base/5", 0700) != 0)
		return 1;
	fd = names_open(AT_FDCWD, PATH, O_RDWR | O_CREAT, 0600);
	if (fd < 0 || descriptors_entry(fd)->class != FILE_RELATION)
		return 1;
	make_memory();
	company_calls = shared_pages(sizeof(*company_calls));

	printf("%-18s %-34s %9s   %s\n", "", "call", "median ns", "quartiles");
	if (sched_getaffinity(0, sizeof(processors), &processors) != 0)
		return 1;
	run_on(0);
	report("alone");
	if (CPU_COUNT(&processors) > 1)
	{
		report_with("shared", 1, 1);
		same_copies = true;
		report_with("same copies", 1, 1);
		same_copies = false;
	}
	run_on(ANYWHERE);
	report_with("crowd", 2 * CPU_COUNT(&processors), ANYWHERE);

	return unlink(PATH) != 0 || rmdir("base/5") != 0 || rmdir("base") != 0 ||
	       rmdir(folder) != 0;
}
