/*
 * server.c
 *		The time of one server of a device, and its backlog.
 *
 * Nothing runs in the background.  A server's idle time is the gap between the
 * end of its last reservation and the next request; em_server_settle() spends
 * it on the backlog just before that request is handled.
 *
 * Locking: none, as in device.h; every change is a compare-and-swap or an
 * addition.
 */
/* SPDX-License-Identifier: PostgreSQL */
#include "server.h"

/* Take away at most "amount", not below zero; returns the amount taken. */
static uint64_t
take(_Atomic uint64_t *from, uint64_t amount)
{
	uint64_t old = atomic_load_explicit(from, memory_order_relaxed);
	uint64_t taken;

	do
		taken = least(old, amount);
	while (taken > 0 && !atomic_compare_exchange_weak(from, &old, old - taken));

	return taken;
}

uint64_t
em_server_destage(EmServer *server, uint64_t time_ns)
{
	uint64_t backlog_ns = atomic_load(&server->backlog_ns);
	uint64_t backlog_bytes = atomic_load(&server->backlog_bytes);
	uint64_t done_ns;

	if (backlog_ns == 0)
		return 0;

	done_ns = take(&server->backlog_ns, time_ns);
	if (done_ns == backlog_ns)
		take(&server->backlog_bytes, backlog_bytes);
	else
		take(&server->backlog_bytes, scale(backlog_bytes, done_ns, backlog_ns));

	return done_ns;
}

uint64_t
em_server_busy_until(EmServer *server, uint64_t now_ns)
{
	uint64_t busy_ns = atomic_load(&server->busy_until_ns);

	if (busy_ns > now_ns + EM_QUEUE_MAX_NS)
	{
		atomic_compare_exchange_strong(&server->busy_until_ns, &busy_ns,
		                               now_ns);
		busy_ns = atomic_load(&server->busy_until_ns);
	}

	return busy_ns;
}

/*
 * The process that advances busy_until owns the gap, so it is spent only once.
 */
void
em_server_settle(EmServer *server, uint64_t now_ns)
{
	uint64_t busy_ns = em_server_busy_until(server, now_ns);
	uint64_t backlog_ns = atomic_load(&server->backlog_ns);
	uint64_t gap_ns;

	if (busy_ns >= now_ns || backlog_ns == 0)
		return;

	gap_ns = least(now_ns - busy_ns, backlog_ns);
	if (!atomic_compare_exchange_strong(&server->busy_until_ns, &busy_ns,
	                                    busy_ns + gap_ns))
		return;

	em_server_destage(server, gap_ns);
	atomic_fetch_add_explicit(&server->used_ns, gap_ns, memory_order_relaxed);
}

uint64_t
em_server_reserve(EmServer *server, uint64_t now_ns, uint64_t time_ns)
{
	uint64_t busy_ns = em_server_busy_until(server, now_ns);
	uint64_t end_ns;

	do
		end_ns = most(busy_ns, now_ns) + time_ns;
	while (!atomic_compare_exchange_weak(&server->busy_until_ns, &busy_ns,
	                                     end_ns));

	atomic_fetch_add_explicit(&server->used_ns, time_ns, memory_order_relaxed);
	return end_ns;
}
