/*
 * life.c
 *		A life of the cache: from one start of its server to the next.
 *
 * A nonce, a random number drawn at each start, binds the memory and every map
 * to one life of the cache files.  Opening a cache file removes the nonce and
 * the clean flag from it.  So whatever happens afterwards, what was saved is
 * used at most once, and a copy of the file belongs to another life.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "shared.h"
#include "superblock.h"

uint64_t
fc_life_found(const FcDevice *devices, uint32_t count)
{
	FC_ASSERT(count > 0 && count <= FC_DEVICES_MAX);
	for (uint32_t i = 0; i < count; i++)
	{
		const FcLabel *label = &devices[i].label;

		if (devices[i].ops == NULL || !label->whole || label->position != i ||
		    label->count != count || label->nonce != devices[0].label.nonce)
			return 0;
	}
	return devices[0].label.nonce;
}

FcStatus
fc_life_begin(FcCache *cache, const FcIdentity *identity, uint64_t nonce)
{
	FcShared *shared = cache->shared;
	uint32_t count = shared->device_count;

	FC_ASSERT(count > 0 && shared->set_count % count == 0);

	/* Until this function ends, the memory belongs to no life. */
	shared->nonce = 0;
	for (uint32_t i = 0; i < count; i++)
	{
		FcDevice *device = &cache->devices[i];
		FcLabel label = { .slot_count = shared->set_count / count * FC_WAYS,
			              .position = i,
			              .count = count,
			              .nonce = nonce,
			              .identity = *identity };

		/* A missing file is noticed at the next start, which is then cold. */
		if (device->ops == NULL)
			continue;
		if (!fc_superblock_write(device->fd, &label))
			return FC_FAILED;
		device->label = label;
		device->label.whole = true;
	}
	shared->identity = *identity;
	fc_life_control_begins(cache, identity->checkpoint.crc);
	fc_life_control_ends(cache);

	/*
	 * The nonce comes last.  No other process has the memory yet, but this one
	 * may be killed here.  Then memory holds what it stored before some
	 * instruction and nothing later, so only the compiler's order matters, and
	 * the fence keeps it.
	 */
	atomic_thread_fence(memory_order_seq_cst);
	shared->nonce = nonce;
	return FC_OK;
}

/* ---- the control file ---------------------------------------------------- */

void
fc_life_control_begins(FcCache *cache, uint32_t crc)
{
	atomic_store(&cache->shared->control_next, crc);
}

void
fc_life_control_ends(FcCache *cache)
{
	FcShared *shared = cache->shared;

	atomic_store(&shared->control, atomic_load(&shared->control_next));
}
