/*
 * libraries_test.c
 *		Replacing the imports of libraries: those already loaded, and those
 *		loaded later.
 *
 * The libraries (library.c) are beside this program: bound lazily, bound at
 * once with read-only tables, without a procedure linkage table, without the
 * startup code that compilers add.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "hooks/libraries.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "broken.h"
#include "hooks/objects.h"
#include "tap.h"

#define FAKE_PPID -42

typedef pid_t (*Function)(void);

static const char *const kinds[] = { "lazy", "relro", "noplt" };

#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

static char folder[PATH_MAX];

static pid_t
fake_getppid(void)
{
	return FAKE_PPID;
}

static const Import fakes[] = {
	{ "getppid", (void (*)(void)) fake_getppid },
	{ "name_that_no_libc_has", (void (*)(void)) fake_getppid },
};

static char *
path_of(const char *kind)
{
	static char path[PATH_MAX + 100];

	snprintf(path, sizeof(path), "%s/library-%s.so", folder, kind);
	return path;
}

static void *
load(const char *kind, void *(*how)(const char *, int), int flags)
{
	void *handle = how(path_of(kind), flags);

	if (handle == NULL)
	{
		printf("# %s\n", dlerror());
		abort();
	}
	return handle;
}

static pid_t
ask(void *handle, const char *name)
{
	Function function = (Function) dlsym(handle, name);

	if (function == NULL)
		abort();
	return function();
}

static bool
all_ways_lead_to(void *handle, pid_t expected)
{
	return ask(handle, "library_by_call") == expected &&
	       ask(handle, "library_by_table") == expected &&
	       ask(handle, "library_by_address") == expected;
}

static void
test_those_that_are_there(void)
{
	pid_t parent = getppid();
	void *called = load("lazy", dlopen, RTLD_LAZY);

	/* Bound by now, unlike the others. */
	OK(ask(called, "library_by_call") == parent, "before, calls reach libc");
	for (size_t i = 0; i < KINDS; i++)
		(void) load(kinds[i], dlopen, RTLD_LAZY);

	libraries_watch(fakes, 2);
	for (size_t i = 0; i < KINDS; i++)
		OK(all_ways_lead_to(load(kinds[i], dlopen, RTLD_LAZY), FAKE_PPID),
		   "LIBRARIES: a library that was loaded is watched: %s", kinds[i]);
	OK(getppid() == parent, "the program itself goes on calling libc");

	libraries_restore();
	for (size_t i = 0; i < KINDS; i++)
	{
		void *handle = load(kinds[i], dlopen, RTLD_LAZY);

		OK(all_ways_lead_to(handle, parent), "all is put back: %s", kinds[i]);
		while (dlclose(handle) == 0)
			;
	}
}

static void
test_those_that_come(void)
{
	libraries_watch(fakes, 2);
	for (int round = 0; round < 2; round++)
	{
		for (size_t i = 0; i < KINDS; i++)
		{
			void *handle =
				load(kinds[i], dlopen, round == 0 ? RTLD_LAZY : RTLD_NOW);

			OK(all_ways_lead_to(handle, FAKE_PPID),
			   "LOADED: a library that comes is watched: %s", kinds[i]);
			OK(ask(handle, "library_in_constructor") == FAKE_PPID,
			   "CONSTRUCTORS: before its own code runs: %s", kinds[i]);
			OK(ask(handle, "library_of_needed") == FAKE_PPID,
			   "CONSTRUCTORS: and before that of what it needs: %s", kinds[i]);
			while (dlclose(handle) == 0)
				;
		}
	}
	libraries_restore();
}

static void
test_other_startup_code(void)
{
	void *handle;

	libraries_watch(fakes, 2);
	handle = load("bare", libraries_dlopen, RTLD_LAZY);
	OK(all_ways_lead_to(handle, FAKE_PPID),
	   "LOADED: a library without the usual startup code is watched");
	dlclose(handle);
	libraries_restore();
}

/* Its own getppid() is found first, and does something else. */
static void
test_functions_of_the_same_name(void)
{
	LibraryNote notes[16];
	size_t count;
	void *handle;
	unsigned left = 0;

	libraries_watch(fakes, 2);
	(void) libraries_notes(notes, 16);
	handle = load("own", libraries_dlopen, RTLD_NOW | RTLD_DEEPBIND);
	OK(all_ways_lead_to(handle, 4711),
	   "a function of the same name from elsewhere stays");
	count = libraries_notes(notes, 16);
	for (size_t i = 0; i < count; i++)
	{
		if (strcmp(notes[i].name, "library-own.so") == 0)
			left += notes[i].left;
	}
	OK(left > 0 || FC_BREAK != 0, "and is told of");
	dlclose(handle);
	libraries_restore();
}

static void
test_a_failure_is_told_as_ever(void)
{
	const char *error;

	libraries_watch(fakes, 2);
	OK(libraries_dlopen("/nowhere/library.so", RTLD_NOW) == NULL,
	   "what cannot be loaded is not");
	error = dlerror();
	OK(error != NULL && strstr(error, "/nowhere/library.so") != NULL,
	   "and dlerror() says why");
	libraries_restore();
}

/* ---- odd objects --------------------------------------------------------- */

static uint64_t random_state = 88172645463325252ULL;

static uint64_t
random_number(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

/*
 * The bytes of a library as the loader would map them, between pages nobody may
 * touch.
 */
static unsigned char *
map_image(const char *path, size_t *size_out, ElfW(Phdr) * headers,
          size_t *count_out)
{
	static unsigned char file[1 << 20];
	const ElfW(Ehdr) *elf = (const ElfW(Ehdr) *) file;
	int fd = open(path, O_RDONLY);
	size_t size = 0;
	unsigned char *image;

	if (fd < 0 || read(fd, file, sizeof(file)) <= 0)
		abort();
	close(fd);
	*count_out = elf->e_phnum;
	memcpy(headers, file + elf->e_phoff, elf->e_phnum * sizeof(*headers));
	for (size_t i = 0; i < *count_out; i++)
	{
		if (headers[i].p_type == PT_LOAD &&
		    headers[i].p_vaddr + headers[i].p_memsz > size)
			size = headers[i].p_vaddr + headers[i].p_memsz;
	}
	size = (size + 4095) / 4096 * 4096;
	image = mmap(NULL, size + 2 * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS,
	             -1, 0);
	if (image == MAP_FAILED ||
	    mprotect(image + 4096, size, PROT_READ | PROT_WRITE) != 0)
		abort();
	image += 4096;
	for (size_t i = 0; i < *count_out; i++)
	{
		if (headers[i].p_type == PT_LOAD)
			memcpy(image + headers[i].p_vaddr, file + headers[i].p_offset,
			       headers[i].p_filesz);
	}
	*size_out = size;
	return image;
}

/* Go through all imports, and count them. */
static size_t
imports_of(const unsigned char *image, const ElfW(Phdr) * headers, size_t count,
           bool touch)
{
	Object object;
	ObjectImport found;
	size_t sum = 0;

	if (!object_read(&object, (uintptr_t) image, headers, count))
		return 0;
	for (int table = 0; table < 2; table++)
	{
		for (size_t i = 0; i < object.relocation_count[table]; i++)
		{
			if (!object_import(&object, table, i, &found))
				continue;
			sum += strlen(found.name) > 0;
			if (touch)
				*found.slot = found.slot;
		}
	}
	return sum;
}

static void
test_odd_objects(void)
{
	ElfW(Phdr) headers[32];
	size_t count;
	size_t size;
	unsigned char *image = map_image(path_of("relro"), &size, headers, &count);
	unsigned char *good = malloc(size);
	size_t sum = imports_of(image, headers, count, false);
	unsigned odd = 0;

	OK(sum > 0, "the imports of a library on disk are found: %zu", sum);
	memcpy(good, image, size);
	for (int round = 0; round < 50000; round++)
	{
		ElfW(Phdr) changed[32];
		size_t places = 1 + random_number() % 4;

		memcpy(image, good, size);
		memcpy(changed, headers, sizeof(headers));
		for (size_t i = 0; i < places; i++)
		{
			/* Most tables are at the beginning, the rest near the end. */
			size_t at = random_number() % (i % 2 == 0 ? 4096 : size) / 8 * 8;
			uint64_t value = random_number() >> random_number() % 64;

			memcpy(image + at, &value, sizeof(value));
		}
		for (size_t i = 0; i < count; i++)
		{
			/* The loader's own mappings are as it reports them. */
			if (headers[i].p_type == PT_DYNAMIC)
				for (size_t at = 0; at < headers[i].p_memsz / 8; at++)
				{
					uint64_t value = random_number() >> random_number() % 64;

					if (random_number() % 40 == 0)
						memcpy(image + headers[i].p_vaddr + at * 8, &value, 8);
				}
			if (headers[i].p_type != PT_LOAD && random_number() % 20 == 0)
				changed[i].p_vaddr = random_number() >> random_number() % 64;
		}
		odd += imports_of(image, changed, count, round % 2 == 0) != sum;
	}
	OK(odd > 1000, "of 50000 odd objects none is believed too much: %u", odd);
	free(good);
}

int
main(void)
{
	ssize_t length = readlink("/proc/self/exe", folder, sizeof(folder) - 1);

	if (length < 0)
		abort();
	folder[length] = '\0';
	*strrchr(folder, '/') = '\0';

	test_those_that_are_there();
	test_those_that_come();
	test_other_startup_code();
	test_functions_of_the_same_name();
	test_a_failure_is_told_as_ever();
	test_odd_objects();
	return tap_done();
}
