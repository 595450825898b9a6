/*
 * mode.c
 *		The one word that says whether the cache is used.
 *
 * Mode, reason and an epoch are in one word, so that they change together.
 * Every call reads it at its beginning; a hit and a fill compare it again at
 * their end.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "shared.h"

FcMode
fc_mode(const FcCache *cache, FcReason *reason_out)
{
	uint64_t word = atomic_load(&cache->shared->mode_word);

	if (reason_out != NULL)
		*reason_out = (FcReason) ((word >> 8) & 0xff);
	return fc_word_mode(word);
}

FcStatus
fc_mode_set(FcCache *cache, FcMode mode, FcReason reason)
{
	FcAtomic64 *mode_word = &cache->shared->mode_word;
	uint64_t old = atomic_load(mode_word);
	uint64_t new;

	FC_ASSERT(mode <= FC_OFFLINE && (unsigned) reason <= 0xff);

	/*
	 * The epoch advances with every change of the mode, so that a hit or a fill
	 * that began earlier is invalid: this makes the map worthless before the
	 * first change goes unannounced.
	 */
	do
	{
		if (fc_word_mode(old) == FC_OFFLINE)
			return mode == FC_OFFLINE ? FC_OK : FC_INVALID;
		new =
			((old >> 16) + 1) << 16 | (uint64_t) reason << 8 | (uint64_t) mode;
	} while (!atomic_compare_exchange_weak(mode_word, &old, new));
	FC_POINT("mode-changed");
	return FC_OK;
}

void
fc_mode_new_epoch(FcShared *shared)
{
	atomic_fetch_add(&shared->mode_word, 1ULL << 16);
}
