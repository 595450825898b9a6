/*
 * account_asked.c
 *		What was read from data files for a process, by source.
 *
 * A session wants to know what its own statement read, and from where.  The
 * counters of account.c cannot tell, since all processes of a type share them.
 * So each read is counted once more, for the process that asked for it: a
 * parallel worker's for its leader, one by an I/O worker or io_uring for the
 * process that requested it.  The session takes the difference of two sums.
 *
 * A process makes most reads itself, and counts those in its own memory,
 * without an atomic step.  Reads that others make for it are counted in its
 * place in shared memory, in one of a few lanes, chosen by the reader's
 * processor, since workers of one leader run on several processors at once.
 *
 * A place is never set to zero: what an earlier process left there is part of
 * both sums, so the difference is right.
 *
 * Locking: none.  Calls are counted last and read first, so a reader that finds
 * them unchanged knows that nothing else has changed.  A worker's counts are
 * complete for its leader once it has ended, and an I/O worker's once the read
 * is complete: in both cases a lock of the server orders them.
 *
 * Runs in hooks: no allocation, no report, no wait.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <string.h>

#include "account/account_shared.h"
#include "fcache/assert.h"

/* Read by this process for itself. */
static AccountReads own;

void
account_asked_in_child(void)
{
	memset(&own, 0, sizeof(own));
}

static void
count_own(const AskedRead *read)
{
	own.calls[read->kind]++;
	own.bytes[read->kind] += read->bytes;
	own.ns[read->kind] += read->ns;
	if (read->worker)
		own.worker_ns += read->ns;
}

void
account_asked_count(const AskedRead *read)
{
	AskedLane *lane;

	FC_ASSERT(read->kind < ACCOUNT_SOURCES);
	if (read->own)
	{
		count_own(read);
		return;
	}
	if (read->place == NULL)
		return;
	lane = &read->place->lane[read->processor % ASKED_LANES];
	account_add(&lane->bytes[read->kind], read->bytes);
	account_add(&lane->ns[read->kind], read->ns);
	if (read->worker)
		account_add(&lane->worker_ns, read->ns);

	/* Release: pairs with account_asked_calls(). */
	atomic_fetch_add_explicit(&lane->calls[read->kind], 1,
	                          memory_order_release);
}

uint64_t
account_asked_calls(const AccountAsked *place)
{
	uint64_t calls = 0;

	for (int kind = 0; kind < ACCOUNT_SOURCES; kind++)
	{
		calls += own.calls[kind];
		for (int i = 0; place != NULL && i < ASKED_LANES; i++)
			/* Acquire: pairs with account_asked_count(). */
			calls += atomic_load_explicit(&place->lane[i].calls[kind],
			                              memory_order_acquire);
	}
	return calls;
}

void
account_asked_sum(const AccountAsked *place, AccountReads *out)
{
	*out = own;
	for (int i = 0; place != NULL && i < ASKED_LANES; i++)
	{
		const AskedLane *lane = &place->lane[i];

		for (int kind = 0; kind < ACCOUNT_SOURCES; kind++)
		{
			out->calls[kind] += account_get(&lane->calls[kind]);
			out->bytes[kind] += account_get(&lane->bytes[kind]);
			out->ns[kind] += account_get(&lane->ns[kind]);
		}
		out->worker_ns += account_get(&lane->worker_ns);
	}
}
