/*
 * imports.c
 *		Replace functions that the main program imports.
 *
 * We walk the import table of the main program (objects.c) and store our
 * function's address in each pointer whose name is wanted.  Nothing else in the
 * process changes: this library still calls libc, and so do all other libraries
 * (but see libraries.c).
 *
 * The old value of a slot is kept so that it can be put back.  It is never
 * called: with lazy binding it leads to the loader's resolver, which would
 * overwrite our pointer.
 *
 * Memory that the loader has made read-only is made writable just for the
 * store.
 *
 * The main program is the object whose program headers the kernel announced
 * (AT_PHDR).  Its name does not identify it, since it is often empty.
 *
 * Runs once in the postmaster, before any child: no locking.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "hooks/imports.h"

#include <link.h>
#include <stdint.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>

#include "fcache/assert.h"
#include "hooks/objects.h"

/* 22 slots on PostgreSQL 15, 27 on 18; data may hold a few more pointers. */
#define SLOTS_MAX 128

typedef struct Slot
{
	void **address;
	void *old_value;
	void *new_value;
	const char *name;
} Slot;

static Slot slots[SLOTS_MAX];
static size_t slot_count;
static Object program;

static int
take_main_program(struct dl_phdr_info *info, size_t size, void *found)
{
	(void) size;
	if ((uintptr_t) info->dlpi_phdr != (uintptr_t) getauxval(AT_PHDR))
		return 0;
	*(bool *) found = object_read(&program, info->dlpi_addr, info->dlpi_phdr,
	                              info->dlpi_phnum);
	return 1;
}

static bool
find_program(void)
{
	bool found = false;

	(void) dl_iterate_phdr(take_main_program, &found);
	return found;
}

static const Import *
wanted(const Import *imports, size_t count, const char *name)
{
	for (size_t i = 0; i < count; i++)
	{
		if (strcmp(imports[i].name, name) == 0)
			return &imports[i];
	}
	return NULL;
}

static const char *
listed(const char *const *names, const char *name)
{
	for (; *names != NULL; names++)
	{
		if (strcmp(*names, name) == 0)
			return *names;
	}
	return NULL;
}

/* Some linkers list a slot in both tables. */
static bool
known_slot(void *const *address)
{
	for (size_t i = 0; i < slot_count; i++)
	{
		if (slots[i].address == address)
			return true;
	}
	return false;
}

static ImportsProblem
find_slots(const Import *imports, size_t count, const char *const *foreign,
           const char **culprit_out)
{
	FC_ASSERT(count > 0);
	slot_count = 0;
	for (int table = 0; table < 2; table++)
	{
		for (size_t i = 0; i < program.relocation_count[table]; i++)
		{
			ObjectImport found;
			const Import *import;

			if (!object_import(&program, table, i, &found))
				continue;
			*culprit_out = listed(foreign, found.name);
			if (*culprit_out != NULL)
				return IMPORTS_FOREIGN;
			import = wanted(imports, count, found.name);
			if (import == NULL || known_slot(found.slot))
				continue;
			if (slot_count == SLOTS_MAX)
				return IMPORTS_TOO_MANY;

			slots[slot_count].address = found.slot;
			slots[slot_count].new_value = (void *) import->replacement;
			slots[slot_count].name = import->name;
			slot_count++;
		}
	}
	return IMPORTS_FINE;
}

static bool
have_slot(const char *name, size_t length)
{
	for (size_t i = 0; i < slot_count; i++)
	{
		if (strlen(slots[i].name) == length &&
		    memcmp(slots[i].name, name, length) == 0)
			return true;
	}
	return false;
}

/* Is there a slot for one of the names in "pread|pread64"? */
static bool
have_one_of(const char *names)
{
	while (true)
	{
		size_t length = strcspn(names, "|");

		if (have_slot(names, length))
			return true;
		if (names[length] == '\0')
			return false;
		names += length + 1;
	}
}

/* Make the pages under RELRO writable, or read-only again. */
static bool
protect(int protection)
{
	for (size_t i = 0; i < slot_count; i++)
	{
		if (object_under_relro(&program, slots[i].address))
			return object_protect(&program, protection);
	}
	return true;
}

ImportsProblem
imports_replace(const Import *imports, size_t count,
                const char *const *required, const char *const *foreign,
                const char **culprit_out)
{
	ImportsProblem problem;

	*culprit_out = NULL;
	slot_count = 0;
	if (!find_program())
		return IMPORTS_NO_PROGRAM;

	problem = find_slots(imports, count, foreign, culprit_out);
	for (; problem == IMPORTS_FINE && *required != NULL; required++)
	{
		if (!have_one_of(*required))
		{
			*culprit_out = *required;
			problem = IMPORTS_MISSING;
		}
	}
	if (problem == IMPORTS_FINE && !protect(PROT_READ | PROT_WRITE))
		problem = IMPORTS_PROTECTED;
	if (problem != IMPORTS_FINE)
	{
		slot_count = 0;
		return problem;
	}

	/*
	 * Stored atomically, because a signal handler may call through the slot
	 * now.  Release: the function that it then finds sees what was prepared
	 * before.
	 */
	for (size_t i = 0; i < slot_count; i++)
	{
		slots[i].old_value = *slots[i].address;
		__atomic_store_n(slots[i].address, slots[i].new_value,
		                 __ATOMIC_RELEASE);
	}
	/* If this fails the table is less well protected, but still correct. */
	(void) protect(PROT_READ);
	return IMPORTS_FINE;
}

void
imports_restore(void)
{
	if (slot_count == 0 || !protect(PROT_READ | PROT_WRITE))
		return;

	/* Stored atomically, and in this order, as above. */
	for (size_t i = 0; i < slot_count; i++)
		__atomic_store_n(slots[i].address, slots[i].old_value,
		                 __ATOMIC_RELEASE);
	(void) protect(PROT_READ);
	slot_count = 0;
}

size_t
imports_replaced(void)
{
	FC_ASSERT(slot_count <= SLOTS_MAX);
	return slot_count;
}
