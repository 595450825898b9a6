/*
 * imports_test.c
 *		Rewriting an import table, tried on this very program.
 *
 * Built three times, as distributions build PostgreSQL: lazily bound at a fixed
 * address, bound at once with a read-only table at any address, and without a
 * procedure linkage table.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "hooks/imports.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include "tap.h"

#ifndef SYS_mseal
#define SYS_mseal 462
#endif

#define FAKE_PPID    -42
#define FAKE_SESSION -43

static pid_t
fake_getppid(void)
{
	return FAKE_PPID;
}

static pid_t
fake_getsid(pid_t pid)
{
	(void) pid;
	return FAKE_SESSION;
}

/*
 * Calls from a separate frame.  Without a procedure linkage table, a
 * compiler may read an entry of the import table once for all calls of a
 * function, as it does for 64-bit ARM.  A frame that is running keeps it.
 */
__attribute__((noinline)) static pid_t
parent_now(void)
{
	return getppid();
}

__attribute__((noinline)) static pid_t
session_now(void)
{
	return getsid(0);
}

static const Import fakes[] = {
	{ "getppid", (void (*)(void)) fake_getppid },
	{ "getsid", (void (*)(void)) fake_getsid },
	{ "name_that_nobody_imports", (void (*)(void)) fake_getppid },
};

#define FAKES (sizeof(fakes) / sizeof(fakes[0]))

static const char *const nothing[] = { NULL };

static void
test_replace_and_restore(void)
{
	static const char *const required[] = { "getppid", "nope|getsid", NULL };
	const char *culprit;
	pid_t parent = parent_now();
	pid_t (*looked_up)(void) = (pid_t(*)(void)) dlsym(RTLD_DEFAULT, "getppid");

	OK(imports_replace(fakes, FAKES, required, nothing, &culprit) ==
	       IMPORTS_FINE,
	   "the program's imports are found and replaced");
	OK(imports_replaced() == 2, "one slot for each name it imports");
	OK(parent_now() == FAKE_PPID, "its calls arrive at the replacement");
	OK(session_now() == FAKE_SESSION, "and so do those of the second name");
	OK(looked_up() == parent, "libc itself is as it was");
	imports_restore();
	OK(parent_now() == parent, "restoring brings the real function back");
	OK(imports_replaced() == 0, "and leaves no slot behind");
	imports_restore();
	OK(parent_now() == parent, "restoring twice does no harm");
}

static void
test_missing(void)
{
	static const char *const required[] = { "getppid", "nope|nope64", NULL };
	const char *culprit;
	pid_t parent = parent_now();

	OK(imports_replace(fakes, FAKES, required, nothing, &culprit) ==
	       IMPORTS_MISSING,
	   "a required name without a slot is a problem");
	OK(culprit != NULL && strcmp(culprit, "nope|nope64") == 0,
	   "which says what is missing");
	OK(parent_now() == parent, "and nothing was replaced");
}

static void
test_foreign(void)
{
	static const char *const foreign[] = { "getsid", NULL };
	const char *culprit;
	pid_t parent = parent_now();

	OK(imports_replace(fakes, FAKES, nothing, foreign, &culprit) ==
	       IMPORTS_FOREIGN,
	   "a name that must not be imported is a problem");
	OK(culprit != NULL && strcmp(culprit, "getsid") == 0, "which names it");
	OK(parent_now() == parent, "and nothing was replaced");
}

/*
 * Seal the table, as a loader does that seals its read-only parts; 0 if it did.
 */
static int
seal(struct dl_phdr_info *info, size_t size, void *unused)
{
	uintptr_t page = (uintptr_t) sysconf(_SC_PAGESIZE);

	(void) size;
	(void) unused;
	if ((uintptr_t) info->dlpi_phdr != (uintptr_t) getauxval(AT_PHDR))
		return 0;
	for (int i = 0; i < info->dlpi_phnum; i++)
	{
		const ElfW(Phdr) *header = &info->dlpi_phdr[i];
		uintptr_t begin = info->dlpi_addr + header->p_vaddr;
		uintptr_t end = begin + header->p_memsz;

		begin -= begin % page;
		end -= end % page;
		if (header->p_type == PT_GNU_RELRO &&
		    syscall(SYS_mseal, begin, end - begin, 0) != 0)
			return -1;
	}
	return 1;
}

/* A table that is bound at once is read-only, so it is sealed then. */
static void
test_sealed(void)
{
	const char *culprit;
	pid_t parent = getppid();
	ImportsProblem problem;

	if (dl_iterate_phdr(seal, NULL) != 1)
	{
		SKIP("a sealed table is refused", "this kernel has no mseal");
		return;
	}
	problem = imports_replace(fakes, FAKES, nothing, nothing, &culprit);
#ifdef __PIE__
	OK(problem == IMPORTS_PROTECTED && errno == EPERM,
	   "a sealed table is refused");
	OK(getppid() == parent && imports_replaced() == 0,
	   "and nothing was replaced");
#else
	OK(problem == IMPORTS_FINE, "a table that stays writable is not sealed");
	imports_restore();
	OK(getppid() == parent, "and is restored");
#endif
}

int
main(void)
{
	/* Before anything is bound lazily, and again afterwards. */
	test_missing();
	test_foreign();
	test_replace_and_restore();
	test_replace_and_restore();
	test_sealed();
	return tap_done();
}
