/*
 * objects.c
 *		The import table of a loaded object: the main program or a library.
 *
 * A dynamically linked program calls libc through a table of pointers, its
 * import table, which the loader fills in; so does each library.  A relocation
 * describes each entry: the address of the pointer and the name of the
 * function.  DT_JMPREL has those of calls through the procedure linkage table,
 * DT_RELA the rest: those of a -fno-plt build, of functions whose address is
 * taken, and of pointers in tables of data.
 *
 * No address found in an object is used unless it lies within what the loader
 * has mapped of it; an unusual object is left alone.
 *
 * With full RELRO the loader has made the table read-only; PT_GNU_RELRO says
 * which pages.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "hooks/objects.h"

#include <elf.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fcache/assert.h"

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

/* Are these bytes part of a segment with these flags? */
static bool
is_mapped(const Object *object, uintptr_t begin, size_t size, unsigned flags)
{
	for (size_t i = 0; i < object->header_count; i++)
	{
		const ElfW(Phdr) *header = &object->headers[i];
		uintptr_t segment = object->base + header->p_vaddr;

		if (header->p_type == PT_LOAD && (header->p_flags & flags) == flags &&
		    begin >= segment && size <= header->p_memsz &&
		    begin - segment <= header->p_memsz - size)
			return true;
	}
	return false;
}

/* The loader relocates these pointers in place only on some machines. */
static uintptr_t
table_address(const Object *object, uintptr_t value)
{
	return value < object->base ? object->base + value : value;
}

static bool
read_dynamic_section(Object *object, const ElfW(Dyn) * dynamic, size_t count)
{
	uintptr_t table[2] = { 0, 0 };
	size_t bytes[2] = { 0, 0 };

	for (size_t i = 0; i < count && dynamic[i].d_tag != DT_NULL; i++)
	{
		uintptr_t value = dynamic[i].d_un.d_val;

		switch (dynamic[i].d_tag)
		{
			case DT_SYMTAB:
				object->symbols =
					(const ElfW(Sym) *) table_address(object, value);
				break;
			case DT_STRTAB:
				object->strings = (const char *) table_address(object, value);
				break;
			case DT_STRSZ:
				object->strings_size = value;
				break;
			case DT_JMPREL:
				table[0] = table_address(object, value);
				break;
			case DT_PLTRELSZ:
				bytes[0] = value;
				break;
			case DT_RELA:
				table[1] = table_address(object, value);
				break;
			case DT_RELASZ:
				bytes[1] = value;
				break;
			case DT_PLTREL:
				if (value != DT_RELA)
					return false;
				break;
			case DT_RELAENT:
				if (value != sizeof(ElfW(Rela)))
					return false;
				break;
			case DT_SYMENT:
				if (value != sizeof(ElfW(Sym)))
					return false;
				break;
			default:
				break;
		}
	}

	for (int i = 0; i < 2; i++)
	{
		if (table[i] == 0 || bytes[i] == 0)
			continue;
		if (!is_mapped(object, table[i], bytes[i], PF_R))
			return false;
		object->relocations[i] = (const ElfW(Rela) *) table[i];
		object->relocation_count[i] = bytes[i] / sizeof(ElfW(Rela));
	}

	/*
	 * If the table of names ends with a zero, every name in it is terminated.
	 */
	return object->symbols != NULL && object->strings_size > 0 &&
	       is_mapped(object, (uintptr_t) object->strings, object->strings_size,
	                 PF_R) &&
	       object->strings[object->strings_size - 1] == '\0';
}

bool
object_read(Object *out, uintptr_t base, const ElfW(Phdr) * headers,
            size_t header_count)
{
	const ElfW(Phdr) *dynamic = NULL;
	uintptr_t page = (uintptr_t) sysconf(_SC_PAGESIZE);

	FC_ASSERT(headers != NULL && header_count > 0);
	memset(out, 0, sizeof(*out));
	out->base = base;
	out->headers = headers;
	out->header_count = header_count;

	for (size_t i = 0; i < header_count; i++)
	{
		uintptr_t begin = base + headers[i].p_vaddr;

		if (headers[i].p_type == PT_DYNAMIC)
			dynamic = &headers[i];
		else if (headers[i].p_type == PT_GNU_RELRO &&
		         is_mapped(out, begin, headers[i].p_memsz, PF_R))
		{
			/* Rounded exactly as the loader rounds. */
			out->readonly_begin = begin & ~(page - 1);
			out->readonly_end = (begin + headers[i].p_memsz) & ~(page - 1);
		}
	}

	return dynamic != NULL &&
	       is_mapped(out, base + dynamic->p_vaddr, dynamic->p_memsz, PF_R) &&
	       read_dynamic_section(out,
	                            (const ElfW(Dyn) *) (base + dynamic->p_vaddr),
	                            dynamic->p_memsz / sizeof(ElfW(Dyn)));
}

bool
object_import(const Object *object, int table, size_t index, ObjectImport *out)
{
	const ElfW(Rela) *relocation = &object->relocations[table][index];
	unsigned type = (unsigned) ELF64_R_TYPE(relocation->r_info);
	uintptr_t slot = object->base + relocation->r_offset;
	const ElfW(Sym) * symbol;

	FC_ASSERT(index < object->relocation_count[table]);
	if (type != RELOCATION_SLOT && type != RELOCATION_GLOBAL &&
	    type != RELOCATION_WORD)
		return false;
	if (type == RELOCATION_WORD && relocation->r_addend != 0)
		return false;

	symbol = &object->symbols[ELF64_R_SYM(relocation->r_info)];
	if (!is_mapped(object, (uintptr_t) symbol, sizeof(*symbol), PF_R) ||
	    symbol->st_shndx != SHN_UNDEF ||
	    symbol->st_name >= object->strings_size)
		return false;
	if (slot % sizeof(void *) != 0 ||
	    !is_mapped(object, slot, sizeof(void *), PF_R | PF_W))
		return false;

	out->name = object->strings + symbol->st_name;
	out->slot = (void **) slot;
	out->may_be_lazy = type == RELOCATION_SLOT;
	out->is_data = type == RELOCATION_WORD;
	return true;
}

bool
object_covers(const Object *object, const void *address)
{
	return is_mapped(object, (uintptr_t) address, 1, 0);
}

bool
object_under_relro(const Object *object, void *const *slot)
{
	uintptr_t address = (uintptr_t) slot;

	return address >= object->readonly_begin && address < object->readonly_end;
}

bool
object_protect(const Object *object, int protection)
{
	FC_ASSERT(object->readonly_begin <= object->readonly_end);
	return mprotect((void *) object->readonly_begin,
	                object->readonly_end - object->readonly_begin,
	                protection) == 0;
}
