/*
 * server.h
 *		The time of one server: a spindle of an array, a channel of a flash
 *		drive.
 */
/* SPDX-License-Identifier: PostgreSQL */
#ifndef PGFLASH_EMULATOR_SERVER_H
#define PGFLASH_EMULATOR_SERVER_H

#include "device.h"

static inline uint64_t
least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static inline uint64_t
most(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* a * b / c without overflow of the product. */
static inline uint64_t
scale(uint64_t a, uint64_t b, uint64_t c)
{
	return (uint64_t) ((unsigned __int128) a * b / c);
}

/*
 * The end of a server's last reservation.  An impossibly distant end is
 * ignored, so that a device cannot become stuck.
 */
extern uint64_t em_server_busy_until(EmServer *server, uint64_t now_ns);

/* Reserve the server's next free time; returns when it ends. */
extern uint64_t em_server_reserve(EmServer *server, uint64_t now_ns,
                                  uint64_t time_ns);

/* Spend a server's idle time up to now on its backlog. */
extern void em_server_settle(EmServer *server, uint64_t now_ns);

/* Work off at most this much of a server's backlog; returns its time. */
extern uint64_t em_server_destage(EmServer *server, uint64_t time_ns);

#endif
