/*
 * objects.h
 *		The import table of a loaded object: the main program or a library.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef PGFLASH_OBJECTS_H
#define PGFLASH_OBJECTS_H

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Object
{
	uintptr_t base;
	const ElfW(Phdr) * headers;
	size_t header_count;
	const ElfW(Sym) * symbols;
	const char *strings;
	size_t strings_size;
	const ElfW(Rela) * relocations[2];
	size_t relocation_count[2];
	uintptr_t readonly_begin; /* of the pages under RELRO */
	uintptr_t readonly_end;
} Object;

/* A pointer that the loader fills in with the address of a name. */
typedef struct ObjectImport
{
	const char *name;
	void **slot;
	bool may_be_lazy; /* a pointer for calls, perhaps not bound yet */
	bool is_data;     /* a pointer among the object's own data */
} ObjectImport;

/* Find the tables; false if there are none, or if they are malformed. */
extern bool object_read(Object *out, uintptr_t base, const ElfW(Phdr) * headers,
                        size_t header_count);

/* Read entry index of a table, 0 or 1; false if it imports nothing by name. */
extern bool object_import(const Object *object, int table, size_t index,
                          ObjectImport *out);

/* Is the address within the object? */
extern bool object_covers(const Object *object, const void *address);

/* Is the slot on one of the pages that the loader has made read-only? */
extern bool object_under_relro(const Object *object, void *const *slot);

/*
 * Set the protection of these pages; PROT_READ | PROT_WRITE only for a moment.
 */
extern bool object_protect(const Object *object, int protection);

#endif
