/*
 * load_channel.h
 *		The stored list of cached blocks, by which servers warm one another.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef PGFLASH_LOAD_CHANNEL_H
#define PGFLASH_LOAD_CHANNEL_H

#include "postgres.h"

#include "datatype/timestamp.h"

/* The row of pgflash_stored_list_head. */
typedef struct StoredHead
{
	bool is_ours;  /* there is a valid one, of this cluster */
	uint64 number; /* never 0 */
	TimestampTz taken_at;
	int64 wal_left_bytes;
} StoredHead;

/* Requests memory; call it while the library is being loaded. */
extern void load_channel_install(void);

/* Is there anything to do?  No cache, no interval: no. */
extern bool load_channel_wanted(void);

/* Seconds between two visits, on a primary or on a standby. */
extern int load_channel_every_s(bool standby);

/*
 * The work of a visit to the database with the list, in a transaction with the
 * rights of the extension's owner: load a list that is new to this server, or
 * else, on a primary, store what is cached.
 */
extern void load_channel_visit(void);

/*
 * Store what is cached, within the WAL budget, by SPI; returns the number of
 * the new list, or 0 if nothing was written. Changes the number of the stored
 * list's blocks, which is at least the old one if the budget was used up.
 */
extern uint64 load_channel_store(const char *schema, const StoredHead *before,
                                 uint64 *blocks);

/*
 * An error unless a query's first columns have these types: the owner of a
 * table may change it.
 */
extern void load_channel_check_types(const Oid types[], int count);

#endif
