/*
 * bridge_classes.h
 *		What the cache is to do with the blocks of a relation: keep, none, default.
 *
 * Plain C, for PostgreSQL's side of the extension.  Nothing here does anything
 * where there is no cache.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef PGFLASH_BRIDGE_CLASSES_H
#define PGFLASH_BRIDGE_CLASSES_H

#include <stdbool.h>
#include <stdint.h>

typedef enum CachePolicy
{
	POLICY_DEFAULT,
	POLICY_KEEP,
	POLICY_NONE
} CachePolicy;

/* A relation's files, all forks and segments, and what is wanted of them. */
typedef struct ClassedFile
{
	uint32_t tablespace;
	uint32_t database;
	uint32_t relation; /* relfilenumber */
	CachePolicy policy;
} ClassedFile;

/* "keep", "none" or "default"; false if the word is none of them. */
extern const char *bridge_class_word(CachePolicy policy);
extern bool bridge_class_of_word(const char *word, CachePolicy *policy_out);

/*
 * These are the files of a database whose policy is not the default; all others
 * have it.  round: another one than at the last call.  Takes effect at once.
 * *unplaced_out: so many found no place.  False: not all of it could be done
 * now, call again.
 */
extern bool bridge_class_replace(uint32_t database, const ClassedFile *files,
                                 uint32_t count, uint32_t round,
                                 uint32_t *unplaced_out);

/* Files of other databases that have a policy, and of all together may have. */
extern uint32_t bridge_class_of_others(uint32_t database);
extern uint32_t bridge_class_limit(void);

/* The database with a policy at this place, 0 = none; false beyond the last. */
extern bool bridge_class_database_at(uint32_t place, uint32_t *database_out);

extern void bridge_class_set_keep_share(int percent);
extern uint64_t bridge_class_keep_blocks(void);

#endif
