/*
 * account_sums.c
 *		Sums of the accounting's cells, for views and snapshots.
 *
 * A sum reads counters while other processes add to them, so they may lag a few
 * calls behind one another; none ever decreases.  Relations are in
 * account_relations.c.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <string.h>

#include "account/account_shared.h"
#include "fcache/assert.h"

int64_t
account_since(void)
{
	return account_memory.shared->since;
}

static void
add_cell(AccountSum *sum, const AccountCell *cell)
{
	for (int i = 0; i < ACCOUNT_BUCKETS; i++)
	{
		uint64_t calls = account_get(&cell->bucket[i]);

		sum->bucket[i] += calls;
		sum->calls += calls;
	}
	sum->bytes += account_get(&cell->bytes);
	sum->ns += account_get(&cell->ns);
	sum->told_calls += account_get(&cell->told_calls);
	sum->worker_calls += account_get(&cell->worker_calls);
	sum->worker_ns += account_get(&cell->worker_ns);
}

/* Add up rows of a backend type's cells. */
static void
add_rows(AccountSum *sum, unsigned type, unsigned first, unsigned count,
         AccountKind kind)
{
	unsigned blocks;
	const AccountBlock *block = account_blocks_of(type, &blocks);

	FC_ASSERT(first + count <= ACCOUNT_ROWS && kind < ACCOUNT_KINDS);
	for (unsigned i = 0; i < blocks; i++)
	{
		for (unsigned row = first; row < first + count; row++)
			add_cell(sum, &block[i].cell[row][kind]);
	}
}

void
account_sum(unsigned backend_type, AccountClass class, AccountKind kind,
            AccountSum *out)
{
	FC_ASSERT(class < ACCOUNT_CLASSES);
	memset(out, 0, sizeof(*out));
	if (class == ACCOUNT_DATA)
		add_rows(out, backend_type, 0, ACCOUNT_TABLESPACES, kind);
	else
		add_rows(out, backend_type, ACCOUNT_TABLESPACES + (unsigned) class - 1,
		         1, kind);
}

bool
account_tablespace(unsigned number, AccountRelation *out)
{
	bool is_last = number == ACCOUNT_TABLESPACES - 1;

	FC_ASSERT(number < ACCOUNT_TABLESPACES);
	memset(out, 0, sizeof(*out));
	if (!is_last)
		out->tablespace =
			atomic_load(&account_memory.shared->tablespace[number]);
	if (!is_last && out->tablespace == 0)
		return false;

	for (int kind = 0; kind < ACCOUNT_KINDS; kind++)
	{
		AccountSum sum = { 0 };

		for (unsigned type = 0; type < account_backend_types(); type++)
			add_rows(&sum, type, number, 1, (AccountKind) kind);
		out->kind[kind] = (AccountCount){ sum.calls, sum.bytes, sum.ns };
		if (kind <= ACCOUNT_FLASH_READ)
			out->read_bytes += sum.bytes;
	}
	return true;
}

void
account_wal(AccountWal *out)
{
	AccountSum sum;

	memset(out, 0, sizeof(*out));
	for (unsigned type = 0; type < account_backend_types(); type++)
	{
		account_sum(type, ACCOUNT_WAL, ACCOUNT_WRITE, &sum);
		out->write.calls += sum.calls;
		out->write.bytes += sum.bytes;
		out->write.ns += sum.ns;
		account_sum(type, ACCOUNT_WAL, ACCOUNT_SYNC, &sum);
		out->sync.calls += sum.calls;
		out->sync.ns += sum.ns;
	}
	out->rewritten_bytes = account_get(&account_memory.shared->wal_rewritten);
}
