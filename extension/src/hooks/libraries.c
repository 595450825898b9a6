/*
 * libraries.c
 *		Replace functions that loaded libraries import.
 *
 * What imports.c does to the main program is done here to libraries: to those that are
 * loaded at the start, and to each that is loaded later, with all that it needs.
 * For a library that is loaded there are two moments:
 *
 *	__gmon_start__		before its own code runs.  What gcc and clang link begins its
 *						initialization with a call of this name, if anybody has it (it
 *						is how profiling is begun).  We have it; by then the loader has
 *						bound the library and all that came with it, and no constructor of
 *						theirs has run.
 *	dlopen				after it was loaded by the main program: PostgreSQL calls _PG_init
 *						later.  For libraries that were linked otherwise.
 *
 * dlopen as called by libraries is left alone: it looks at who calls it, to know
 * where to search.
 *
 * A slot is written only if it leads where the name leads for everybody, to libc or
 * to what is preloaded before it, or if it is not bound yet: then the loader would write
 * it at the first call, which now never comes to it.  A pointer among data has to be
 * that very function.  So a function of the same name from another library, or one that
 * somebody else put there, stays.
 *
 * Who provides one of the functions is left alone: libc itself, and libraries that are
 * preloaded to stand in for it (they hand on calls that were seen before).
 *
 * A library that was seen is remembered by its place, until one is unloaded: then its
 * place may be another's.  One with a slot that could not be written is looked at
 * again: another thread's loader may not have bound it yet.
 *
 * Locking: all state is touched while the loader's lock is held, by
 * dl_iterate_phdr(), or in the postmaster before any child.  No memory is allocated,
 * and the loader is asked nothing that would end what dlerror() has to say.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "hooks/libraries.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdint.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>

#include "broken.h"
#include "hooks/objects.h"

/* More names than hooks have, more libraries than servers load. */
#define NAMES_MAX     128
#define PROVIDERS_MAX 16
#define SEEN_MAX      1024
#define NOTES_MAX     128

extern void __gmon_start__(void);

void (*libraries_loaded)(void);

static const Import *imports;
static size_t import_count;
static bool watching;

/* Where each name leads for everybody; NULL: this libc does not have it. */
static void *target[NAMES_MAX];

/* Whose functions these are; nobody unloads them. */
static Object provider[PROVIDERS_MAX];
static size_t provider_count;

/* Nothing more is to be done to these: their program headers. */
static const void *seen[SEEN_MAX];
static size_t seen_count;

/* The loader's counts when all had been looked at. */
static unsigned long long loads;
static unsigned long long unloads;
static bool unfinished;

static LibraryNote pending[NOTES_MAX];
static size_t pending_count;

/* One walk through all that is loaded. */
typedef struct Walk
{
	bool begun;
	bool restoring;
	LibraryNote *notes; /* if that is what is wanted: and then nothing else */
	size_t room;
	size_t count;
} Walk;

static bool
is_main_program(const struct dl_phdr_info *info)
{
	return (uintptr_t) info->dlpi_phdr == (uintptr_t) getauxval(AT_PHDR);
}

static bool
was_seen(const struct dl_phdr_info *info)
{
	for (size_t i = 0; i < seen_count; i++)
	{
		if (seen[i] == info->dlpi_phdr)
			return true;
	}
	return false;
}

static bool
provided(const void *address)
{
	for (size_t i = 0; i < provider_count; i++)
	{
		if (object_covers(&provider[i], address))
			return true;
	}
	return false;
}

static int
note_provider(struct dl_phdr_info *info, size_t size, void *address)
{
	Object object = { .base = info->dlpi_addr,
		              .headers = info->dlpi_phdr,
		              .header_count = info->dlpi_phnum };

	(void) size;
	if (!object_covers(&object, address))
		return 0;
	if (provider_count < PROVIDERS_MAX)
		provider[provider_count++] = object;
	return 1;
}

static int
wanted(const char *name)
{
	for (size_t i = 0; i < import_count; i++)
	{
		if (target[i] != NULL && strcmp(imports[i].name, name) == 0)
			return (int) i;
	}
	return -1;
}

/* Does the slot lead where the name leads for everybody? */
static bool
leads_there(const Object *object, const ObjectImport *found, void *value,
            int which)
{
	if (value == target[which])
		return true;
	if (found->is_data)
		return false;
	if (found->may_be_lazy && object_covers(object, value))
		return true;

	/* Another version of it. */
	return provided(value);
}

/* What the slot is to hold; NULL: it is not ours to write. */
static void *
new_value(const Object *object, const ObjectImport *found, int which,
          bool restoring)
{
	void *value = __atomic_load_n(found->slot, __ATOMIC_ACQUIRE);
	void *replacement = (void *) imports[which].replacement;

	if (restoring)
		return value == replacement ? target[which] : NULL;
	if (value == replacement)
		return value;
	return leads_there(object, found, value, which) ? replacement : NULL;
}

static bool
write_slot(const Object *object, void **slot, void *value, bool *opened)
{
	if (object_under_relro(object, slot) && !*opened)
	{
		*opened = object_protect(object, PROT_READ | PROT_WRITE);
		if (!*opened)
			return false;
	}
	__atomic_store_n(slot, value, __ATOMIC_RELEASE);
	return true;
}

static void
replace_in(const Object *object, bool restoring, LibraryNote *note)
{
	bool opened = false;

	for (int table = 0; table < 2; table++)
	{
		for (size_t i = 0; i < object->relocation_count[table]; i++)
		{
			ObjectImport found;
			void *value;
			int which;

			if (!object_import(object, table, i, &found))
				continue;
			which = wanted(found.name);
			if (which < 0)
				continue;
			value = new_value(object, &found, which, restoring);
			if (value == *found.slot)
				continue;
			if (value != NULL && write_slot(object, found.slot, value, &opened))
				note->replaced++;
			else
				note->left++;
		}
	}
	/* If this fails the table is less well protected, but no less right. */
	if (opened)
		(void) object_protect(object, PROT_READ);
}

static void
keep_note(LibraryNote *note, const char *path)
{
	const char *slash = strrchr(path, '/');

	if (note->replaced + note->left == 0 || pending_count == NOTES_MAX)
		return;

	/* It may be unloaded before anybody reads this. */
	strncat(note->name, slash == NULL ? path : slash + 1,
	        sizeof(note->name) - 1);
	pending[pending_count++] = *note;
}

/* Has anything been loaded or unloaded since the last walk? */
static bool
is_news(const struct dl_phdr_info *info, size_t size)
{
	bool news = unfinished;

	if (size <
	    offsetof(struct dl_phdr_info, dlpi_subs) + sizeof(info->dlpi_subs))
	{
		seen_count = 0;
		return true;
	}
	if (info->dlpi_subs != unloads)
		seen_count = 0;
	news = news || info->dlpi_subs != unloads || info->dlpi_adds != loads;
	loads = info->dlpi_adds;
	unloads = info->dlpi_subs;
	unfinished = false;
	return news;
}

static int
look_at(struct dl_phdr_info *info, size_t size, void *argument)
{
	Walk *walk = argument;
	LibraryNote note = { .replaced = 0 };
	Object object;

	if (!walk->begun && !walk->restoring && !is_news(info, size))
		return 1;
	walk->begun = true;

	if (is_main_program(info) || was_seen(info) || provided(info->dlpi_phdr))
		return 0;
	if (object_read(&object, info->dlpi_addr, info->dlpi_phdr,
	                info->dlpi_phnum) &&
	    !object_covers(&object, &watching))
	{
		replace_in(&object, walk->restoring, &note);
		if (!walk->restoring)
			keep_note(&note, info->dlpi_name);
	}

	if (walk->restoring)
		return 0;
	if (note.left > 0 || seen_count == SEEN_MAX)
		unfinished = true;
	else
		seen[seen_count++] = info->dlpi_phdr;
	return 0;
}

/* Under the loader's lock, as all that touches the state. */
static int
take_notes(struct dl_phdr_info *info, size_t size, void *argument)
{
	Walk *walk = argument;

	(void) info;
	(void) size;
	for (walk->count = 0; walk->count < pending_count; walk->count++)
	{
		if (walk->count == walk->room)
			break;
		walk->notes[walk->count] = pending[walk->count];
	}
	pending_count = 0;
	return 1;
}

static void
walk_all(bool restoring)
{
	Walk walk = { .restoring = restoring };
	int before = errno;

	(void) dl_iterate_phdr(look_at, &walk);
	errno = before;
}

void
libraries_watch(const Import *wanted_imports, size_t count)
{
	if (FC_BROKEN(LIBRARIES))
		return;

	imports = wanted_imports;
	import_count = count < NAMES_MAX ? count : NAMES_MAX;
	provider_count = 0;
	seen_count = 0;
	unfinished = true;
	for (size_t i = 0; i < import_count; i++)
	{
		target[i] = dlsym(RTLD_DEFAULT, imports[i].name);
		if (target[i] != NULL && !provided(target[i]))
			(void) dl_iterate_phdr(note_provider, target[i]);
	}
	watching = true;
	walk_all(false);
}

void
libraries_restore(void)
{
	if (!watching)
		return;
	watching = false;
	seen_count = 0;
	walk_all(true);
}

void
libraries_look(void)
{
	if (watching)
		walk_all(false);
}

size_t
libraries_notes(LibraryNote *notes, size_t room)
{
	Walk walk = { .notes = notes, .room = room };

	(void) dl_iterate_phdr(take_notes, &walk);
	return walk.count;
}

/* Called by a library that is being loaded, before its own code runs. */
void
__gmon_start__(void)
{
	if (!FC_BROKEN(CONSTRUCTORS) && !FC_BROKEN(LOADED))
		libraries_look();
}

void *
libraries_dlopen(const char *path, int flags)
{
	void *handle = dlopen(path, flags);

	if (handle != NULL && watching && !FC_BROKEN(LOADED))
	{
		int before = errno;

		libraries_look();
		if (libraries_loaded != NULL)
			libraries_loaded();
		errno = before;
	}
	return handle;
}
