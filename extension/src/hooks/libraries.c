/*
 * libraries.c
 *		Replace functions that loaded libraries import.
 *
 * This file does to libraries what imports.c does to the main program: to those
 * loaded at the start, and to each one loaded later, with all that it needs.
 * It acts at two moments of a library's loading:
 *
 *	__gmon_start__	before its own code runs.  What gcc and clang link begins
 *					its initialization with a call of this name, if it is
 *					defined (this is how profiling starts).  We define it.  By
 *					then the loader has bound the library and what it needs, and
 *					none of their constructors has run.
 *	dlopen			after the main program has loaded it: PostgreSQL calls
 *					_PG_init later.  This is for libraries that were linked
 *					otherwise.
 *
 * Calls of dlopen by libraries are left alone, because dlopen uses its caller
 * to decide where to search.
 *
 * A slot is written only if it points to the function that its name normally
 * resolves to, in libc or in what is preloaded before it, or if it is not bound
 * yet: the loader would bind it at the first call, which now never reaches the
 * loader.  A pointer among data must hold exactly that function.  So a function
 * of the same name from another library, or one that another program put there,
 * stays.
 *
 * Libraries that provide one of the functions are left alone: libc itself, and
 * those preloaded to replace it (they pass on calls already seen).
 *
 * A processed library is remembered by its address until any library is
 * unloaded, since then another one may get that address.  One with a slot that
 * could not be written is revisited: another thread's loader may not have bound
 * it.
 *
 * Locking: all state is accessed under the loader's lock, held by
 * dl_iterate_phdr(), or in the postmaster before any child exists.  No memory
 * is allocated, and no loader function is called that would clear what
 * dlerror() has to report.
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
#include "fcache/assert.h"
#include "hooks/objects.h"

/* More names than there are hooks, more libraries than servers load. */
#define NAMES_MAX     128
#define PROVIDERS_MAX 16
#define SEEN_MAX      1024
#define NOTES_MAX     128

extern void __gmon_start__(void);

void (*libraries_loaded)(void);

static const Import *imports;
static size_t import_count;
static bool watching;

/* What each name normally resolves to; NULL: this libc does not have it. */
static void *target[NAMES_MAX];

/* The objects that provide these functions; they are never unloaded. */
static Object provider[PROVIDERS_MAX];
static size_t provider_count;

/* The program headers of objects that are finished. */
static const void *seen[SEEN_MAX];
static size_t seen_count;

/* The loader's counts after the last complete walk. */
static unsigned long long loads;
static unsigned long long unloads;
static bool unfinished;

static LibraryNote pending[NOTES_MAX];
static size_t pending_count;

/* One walk through everything that is loaded. */
typedef struct Walk
{
	bool begun;
	bool restoring;
	LibraryNote *notes; /* to collect notes, and do nothing else; or NULL */
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

/* Does the slot point to the function that the name normally resolves to? */
static bool
is_normal_target(const Object *object, const ObjectImport *found, void *value,
                 int which)
{
	if (value == target[which])
		return true;
	if (found->is_data)
		return false;
	if (found->may_be_lazy && object_covers(object, value))
		return true;

	/* It may be another version of the function. */
	return provided(value);
}

/*
 * The value for the slot; NULL: we may not write it.  Acquire: the loader may
 * have bound the slot in another thread, and loaded the function's object
 * before that.
 */
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
	return is_normal_target(object, found, value, which) ? replacement : NULL;
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
	/*
	 * Stored atomically; release, as in imports.c, for threads of the library.
	 */
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
	/* If this fails the table is less well protected, but still correct. */
	if (opened)
		(void) object_protect(object, PROT_READ);
}

static void
keep_note(LibraryNote *note, const char *path)
{
	const char *slash = strrchr(path, '/');

	if (note->replaced + note->left == 0 || pending_count == NOTES_MAX)
		return;

	/* The library may be unloaded before anyone reads this. */
	strncat(note->name, slash == NULL ? path : slash + 1,
	        sizeof(note->name) - 1);
	pending[pending_count++] = *note;
}

/* Has anything been loaded or unloaded since the last walk? */
static bool
has_changed(const struct dl_phdr_info *info, size_t size)
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

	if (!walk->begun && !walk->restoring && !has_changed(info, size))
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

/* Runs under the loader's lock, like everything that accesses the state. */
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
	int saved_errno = errno;

	(void) dl_iterate_phdr(look_at, &walk);
	errno = saved_errno;
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
	FC_ASSERT(imports != NULL && import_count <= NAMES_MAX);
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

/* A library being loaded calls this before its own code runs. */
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
		int saved_errno = errno;

		libraries_look();
		if (libraries_loaded != NULL)
			libraries_loaded();
		errno = saved_errno;
	}
	return handle;
}
