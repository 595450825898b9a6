/*
 * classes.h
 *		What the host wants of each relation; see classes.c.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef FCACHE_CLASSES_H
#define FCACHE_CLASSES_H

#include "index.h"

/* A relation whose class is not the default; see classes.c. */
typedef struct FcClassEntry
{
	uint32_t tablespace;
	uint32_t database;
	uint32_t relation;
	FcAtomic32 word;
} FcClassEntry;

/* A class lies within this many places of its hash. */
#define FC_CLASS_PROBES 64

static inline FcClassEntry *
fc_classes(const FcShared *shared)
{
	return FC_AT(shared, classes_offset, FcClassEntry);
}

/* What the table says of a relation: for a number that is being given. */
extern FcClass fc_class_of(const FcShared *shared, const FcFileId *id);

/* What a number's line says. */
extern FcClass fc_class_of_file(const FcShared *shared, uint32_t number);

/*
 * Of the usable ways, those that a block of this file may take; may be none.
 * *must_out: it has to be one of them, whatever the policy thinks of the block.
 */
extern uint64_t fc_class_usable(const FcShared *shared, const FcSet *set,
                                uint32_t number, uint64_t usable,
                                bool *must_out);

/* Housekeeping: classes reach the numbers, files of class none lose theirs. */
extern void fc_classes_sweep(FcCache *cache);

#endif
