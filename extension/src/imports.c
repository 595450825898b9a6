/*
 * imports.c
 *		Replace functions that the main program imports.
 *
 * A dynamically linked program calls libc through a table of pointers, its
 * import table, which the loader fills in.  Each entry is described by a
 * relocation: the address of the pointer and the name of the function.  We walk
 * the relocations of the main program (DT_JMPREL: calls through the procedure
 * linkage table, DT_RELA: the rest, such as those of a -fno-plt build) and store
 * our function's address in each pointer whose name is wanted.  Nothing else in
 * the process changes: libraries, this one included, go on calling libc.
 *
 * The old value of a slot is kept, to be put back, and never called: with lazy
 * binding it leads to the loader's resolver, which would overwrite our pointer.
 *
 * With full RELRO the loader has made the table read-only; PT_GNU_RELRO says which
 * pages.  They are made writable for the moment of the store.
 *
 * The main program is the object whose program headers the kernel announced
 * (AT_PHDR): names of objects are no help, the first one is often empty.
 *
 * Runs once in the postmaster, before any child: no locking.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "imports.h"

#include <elf.h>
#include <errno.h>
#include <link.h>
#include <stdint.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__x86_64__)
#define RELOCATION_SLOT   R_X86_64_JUMP_SLOT
#define RELOCATION_GLOBAL R_X86_64_GLOB_DAT
#define RELOCATION_WORD   R_X86_64_64
#elif defined(__aarch64__)
#define RELOCATION_SLOT   R_AARCH64_JUMP_SLOT
#define RELOCATION_GLOBAL R_AARCH64_GLOB_DAT
#define RELOCATION_WORD   R_AARCH64_ABS64
#else
#error "pgflash knows the import tables of x86-64 and of 64-bit ARM only"
#endif

/* 22 slots on PostgreSQL 15, 27 on 18; data may hold a few pointers more. */
#define SLOTS_MAX 128

typedef struct Slot
{
	void **address;
	void *old_value;
	void *new_value;
	const char *name;
} Slot;

/* The main program's tables. */
typedef struct Program
{
	uintptr_t base;
	const ElfW(Phdr) * headers;
	size_t header_count;
	const ElfW(Sym) * symbols;
	const char *strings;
	const ElfW(Rela) * relocations[2];
	size_t relocation_count[2];
	uintptr_t readonly_begin; /* of the pages under RELRO */
	uintptr_t readonly_end;
} Program;

static Slot slots[SLOTS_MAX];
static size_t slot_count;
static Program program;

static int
take_main_program(struct dl_phdr_info *info, size_t size, void *argument)
{
	Program *out = argument;

	(void) size;
	if ((uintptr_t) info->dlpi_phdr != (uintptr_t) getauxval(AT_PHDR))
		return 0;

	out->base = info->dlpi_addr;
	out->headers = info->dlpi_phdr;
	out->header_count = info->dlpi_phnum;
	return 1;
}

/* The loader relocates these pointers in place on some machines only. */
static uintptr_t
table_address(uintptr_t value)
{
	return value < program.base ? program.base + value : value;
}

static bool
read_dynamic_section(const ElfW(Dyn) * dynamic)
{
	uintptr_t table[2] = { 0, 0 };
	size_t bytes[2] = { 0, 0 };

	for (; dynamic->d_tag != DT_NULL; dynamic++)
	{
		switch (dynamic->d_tag)
		{
			case DT_SYMTAB:
				program.symbols =
					(const ElfW(Sym) *) table_address(dynamic->d_un.d_ptr);
				break;
			case DT_STRTAB:
				program.strings =
					(const char *) table_address(dynamic->d_un.d_ptr);
				break;
			case DT_JMPREL:
				table[0] = table_address(dynamic->d_un.d_ptr);
				break;
			case DT_PLTRELSZ:
				bytes[0] = dynamic->d_un.d_val;
				break;
			case DT_RELA:
				table[1] = table_address(dynamic->d_un.d_ptr);
				break;
			case DT_RELASZ:
				bytes[1] = dynamic->d_un.d_val;
				break;
			case DT_PLTREL:
				if (dynamic->d_un.d_val != DT_RELA)
					return false;
				break;
			default:
				break;
		}
	}

	for (int i = 0; i < 2; i++)
	{
		program.relocations[i] = (const ElfW(Rela) *) table[i];
		program.relocation_count[i] =
			table[i] == 0 ? 0 : bytes[i] / sizeof(ElfW(Rela));
	}
	return program.symbols != NULL && program.strings != NULL;
}

static bool
find_program(void)
{
	const ElfW(Dyn) *dynamic = NULL;
	uintptr_t page = (uintptr_t) sysconf(_SC_PAGESIZE);

	memset(&program, 0, sizeof(program));
	if (dl_iterate_phdr(take_main_program, &program) == 0)
		return false;

	for (size_t i = 0; i < program.header_count; i++)
	{
		const ElfW(Phdr) *header = &program.headers[i];
		uintptr_t begin = program.base + header->p_vaddr;

		if (header->p_type == PT_DYNAMIC)
			dynamic = (const ElfW(Dyn) *) begin;
		else if (header->p_type == PT_GNU_RELRO)
		{
			/* Rounded just as the loader rounds. */
			program.readonly_begin = begin & ~(page - 1);
			program.readonly_end = (begin + header->p_memsz) & ~(page - 1);
		}
	}

	return dynamic != NULL && read_dynamic_section(dynamic);
}

/* The name that a relocation of ours is about, or NULL. */
static const char *
imported_name(const ElfW(Rela) * relocation)
{
	unsigned type = (unsigned) ELF64_R_TYPE(relocation->r_info);
	const ElfW(Sym) *symbol = &program.symbols[ELF64_R_SYM(relocation->r_info)];

	if (type != RELOCATION_SLOT && type != RELOCATION_GLOBAL &&
	    type != RELOCATION_WORD)
		return NULL;
	if (type == RELOCATION_WORD && relocation->r_addend != 0)
		return NULL;
	if (symbol->st_shndx != SHN_UNDEF)
		return NULL;
	return program.strings + symbol->st_name;
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

/* Some linkers list the same slot in both tables. */
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
	slot_count = 0;
	for (int table = 0; table < 2; table++)
	{
		for (size_t i = 0; i < program.relocation_count[table]; i++)
		{
			const ElfW(Rela) *relocation = &program.relocations[table][i];
			const char *name = imported_name(relocation);
			void **address = (void **) (program.base + relocation->r_offset);
			const Import *import;

			if (name == NULL)
				continue;
			*culprit_out = listed(foreign, name);
			if (*culprit_out != NULL)
				return IMPORTS_FOREIGN;
			import = wanted(imports, count, name);
			if (import == NULL || known_slot(address))
				continue;
			if (slot_count == SLOTS_MAX)
				return IMPORTS_TOO_MANY;

			slots[slot_count].address = address;
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

static bool
under_relro(const Slot *slot)
{
	uintptr_t address = (uintptr_t) slot->address;

	return address >= program.readonly_begin && address < program.readonly_end;
}

/* Make the pages under RELRO writable, or read-only again. */
static bool
protect(int protection)
{
	for (size_t i = 0; i < slot_count; i++)
	{
		if (under_relro(&slots[i]))
			return mprotect((void *) program.readonly_begin,
			                program.readonly_end - program.readonly_begin,
			                protection) == 0;
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

	for (size_t i = 0; i < slot_count; i++)
	{
		slots[i].old_value = *slots[i].address;
		__atomic_store_n(slots[i].address, slots[i].new_value,
		                 __ATOMIC_RELEASE);
	}
	/* If this fails the table is less well protected, but no less right. */
	(void) protect(PROT_READ);
	return IMPORTS_FINE;
}

void
imports_restore(void)
{
	if (slot_count == 0 || !protect(PROT_READ | PROT_WRITE))
		return;

	for (size_t i = 0; i < slot_count; i++)
		__atomic_store_n(slots[i].address, slots[i].old_value,
		                 __ATOMIC_RELEASE);
	(void) protect(PROT_READ);
	slot_count = 0;
}

size_t
imports_replaced(void)
{
	return slot_count;
}
