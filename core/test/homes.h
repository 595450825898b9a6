/*
 * homes.h
 *		Is every index entry in the set that its key determines?
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef HOMES_H
#define HOMES_H

#include "support.h"

/* Is every valid entry in its home set, and none beyond the last set? */
static bool
all_at_home(const FcShared *shared)
{
	for (uint32_t i = 0; i < shared->set_count; i++)
	{
		FcSet *set = fc_set(shared, i);

		for (unsigned way = 0; way < FC_WAYS; way++)
		{
			if (fc_meta_serves(atomic_load(&set->meta[way])) &&
			    fc_index_set_of(shared, atomic_load(&set->key[way])) != i)
				return false;
		}
	}
	return true;
}

#endif
