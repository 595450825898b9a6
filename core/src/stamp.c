/*
 * stamp.c
 *		Was a file changed while no server was running?
 *
 * The kernel records every change of a file in its inode: ctime cannot be set
 * back, and a file that replaces another has another inode.  So when no change
 * is in flight, we record what the inode says (a stamp).  In the next life of
 * the cache the file's blocks are valid only if the inode says the same.  The
 * test is "equal", not "not later", because clocks step.
 *
 * A file number has a count of the changes begun, and a stamp.  The stamp is
 * one word: a hash of the inode's four values and of that count.  Each step of
 * the hash is one to one, so a single value that differs is always detected;
 * two or more differing values go unnoticed once in 2^64.  One word cannot be
 * torn by a kill, nor mixed from two stamps.  Changes in flight are counted by
 * a hash of the file's name, because a file may become known, lose its number
 * and get another one while a process writes to it.
 *
 *	change	count in; find the number, count the change; the real change;
 *			invalidate; count out
 *	stamp	no change in flight?  note the counts; fstat; none begun since?  set
 *			the stamp
 *
 * So a valid stamp was taken with no change under way, and no change has
 * happened since: a later change would have advanced the count that is part of
 * the hash.  A process killed in between leaves no stamp, and the file is cold
 * at the next start.  A changer counts itself in and then asks for the number;
 * a reader gives the file a number and then looks for changes in flight.  One
 * of them sees the other.
 *
 * A second word, beside the stamp, holds the count at the time the stamp was
 * set.  While it equals the present count and no change is in flight, no change
 * was announced since.  If the inode nevertheless says something else,
 * something changes the file behind the cache's back.  A new stamp would cover
 * that up, so the file is retired instead.  The second word only ever accuses;
 * a restart trusts the stamp alone.  If two processes set both words at once,
 * or one is killed between the two, the second word is older than the stamp and
 * accuses nobody.
 *
 * A change that cannot be assigned to a file is counted for all files
 * (everyone).  A file for which the kernel reported an error stays counted as
 * in flight for ever.
 *
 * Asleep files: see fc_stamp_wake().  A changer compares the stamp first, so a
 * sleeper is never taken for unknown.  Every step out of sleep is a
 * compare-and-swap of the generation.  So a reader that compares after a
 * changer has woken the file and changed it fails, and finds the file awake.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "file.h"

/*
 * Several processes may stamp a file at once; after so many tries, theirs will
 * do.
 */
#define SET_TRIES 4

FcAtomic64 *
fc_stamp_counter_of_file(const FcShared *shared, const FcFileId *id)
{
	return &fc_stamp_change_counters(
		shared)[fc_file_hash(id) & (shared->change_counter_count - 1)];
}

static bool
any_in_flight(uint64_t counter)
{
	return (uint32_t) counter != 0 && !FC_BROKEN(IN_FLIGHT);
}

/* Never 0, which means no stamp. */
static uint64_t
hash_of(uint64_t changes, const FcStamp *stamp)
{
	uint64_t hash = FC_BROKEN(STAMP_LATE) ? 0 : changes;

	hash = fc_mix(hash ^ 0x7067666c61736821ULL) ^ stamp->volume;
	hash = fc_mix(hash) ^ stamp->inode;
	hash = fc_mix(hash) ^ stamp->size;
	hash = fc_mix(hash) ^ (uint64_t) stamp->changed_ns;
	hash = fc_mix(hash);
	return hash != 0 ? hash : 1;
}

/* ---- changes ------------------------------------------------------------- */

void
fc_stamp_count_in(FcCache *cache, FcFile *file, FcChange *change)
{
	FcShared *shared = cache->shared;

	FC_ASSERT(!change->counted_in);
	atomic_fetch_add(fc_stamp_counter_of_file(shared, &file->id),
	                 FC_CHANGE_COUNTED_IN);
	change->counted_in = true;
	FC_POINT("change-counted-in");
	if (!fc_file_resolve(cache, file))
		return;
	change->changing = file->number;
	atomic_fetch_add(&fc_files(shared)[file->number].changes, 1);
}

void
fc_stamp_count_out(FcCache *cache, const FcFile *file, FcChange *change)
{
	FcShared *shared = cache->shared;

	/* The file became known meanwhile, or has another number. */
	if (file->number != FC_FILE_NONE && file->number != change->changing)
		atomic_fetch_add(&fc_files(shared)[file->number].changes, 1);
	FC_ASSERT(!change->counted_in ||
	          (uint32_t) atomic_load(
				  fc_stamp_counter_of_file(shared, &file->id)) > 0);
	if (change->counted_in)
		atomic_fetch_sub(fc_stamp_counter_of_file(shared, &file->id),
		                 FC_CHANGE_COUNTED_OUT);
	change->counted_in = false;
	FC_POINT("change-counted-out");
	change->permit = fc_stamp_permit(cache, file);
}

bool
fc_stamp_changing(const FcShared *shared, const FcTicket *ticket)
{
	FC_ASSERT(ticket->file < shared->file_count);
	return any_in_flight(atomic_load(fc_stamp_counter_of_file(
			   shared, &fc_files(shared)[ticket->file].id))) ||
	       any_in_flight(atomic_load(&shared->everyone));
}

/* ---- stamps -------------------------------------------------------------- */

FcStampPermit
fc_stamp_permit(const FcCache *cache, const FcFile *file)
{
	const FcShared *shared = cache->shared;
	FcStampPermit permit = { .number = FC_FILE_NONE };

	if (!fc_file_current(cache, file))
		return permit;

	permit.changes = atomic_load(&fc_files(shared)[file->number].changes);
	permit.in_flight = atomic_load(fc_stamp_counter_of_file(shared, &file->id));
	permit.everyone = atomic_load(&shared->everyone);
	if (!any_in_flight(permit.in_flight) && !any_in_flight(permit.everyone))
		permit.number = file->number;
	return permit;
}

/* Has no change begun since the permit was given? */
static bool
permit_holds(const FcShared *shared, const FcStampPermit *permit)
{
	const FcFileEntry *entry = &fc_files(shared)[permit->number];

	FC_ASSERT(permit->number != FC_FILE_NONE &&
	          permit->number < shared->file_count);
	return FC_BROKEN(STAMP_LATE) ||
	       (atomic_load(&entry->changes) == permit->changes &&
	        atomic_load(fc_stamp_counter_of_file(shared, &entry->id)) ==
	            permit->in_flight &&
	        atomic_load(&shared->everyone) == permit->everyone);
}

FcStampAge
fc_stamp_age(const FcCache *cache, const FcStampPermit *permit)
{
	const FcFileEntry *entry = &fc_files(cache->shared)[permit->number];

	FC_ASSERT(permit->number < cache->shared->file_count);
	if (permit->number == FC_FILE_NONE || atomic_load(&entry->stamp) == 0)
		return FC_STAMP_NONE;
	return atomic_load(&entry->stamped) == (uint32_t) permit->changes
	           ? FC_STAMP_PRESENT
	           : FC_STAMP_PAST;
}

/* The file was changed behind our back: none of its cached blocks is valid. */
static bool
accuse(FcCache *cache, const FcStampPermit *permit)
{
	FcShared *shared = cache->shared;
	FcFileId id = fc_files(shared)[permit->number].id;

	/* The id is the accused file's only if the number still is. */
	if (!permit_holds(shared, permit))
		return true;
	fc_count(cache, FC_COUNT_foreign_changes, 1);
	fc_file_retire(cache, id);
	return false;
}

bool
fc_stamp_set(FcCache *cache, const FcStampPermit *permit, const FcStamp *stamp)
{
	FcShared *shared = cache->shared;

	if (permit->number == FC_FILE_NONE)
		return true;

	FC_ASSERT(permit->number < shared->file_count);

	FcFileEntry *entry = &fc_files(shared)[permit->number];
	uint64_t hash = hash_of(permit->changes, stamp);

	for (unsigned try = 0; try < SET_TRIES; try++)
	{
		/*
		 * The order matters: otherwise present might refer to an older stamp.
		 */
		bool present = fc_stamp_age(cache, permit) == FC_STAMP_PRESENT;
		uint64_t before = atomic_load(&entry->stamp);

		/*
		 * Here, between two looks at the stamp: a process that changed the file
		 * since sets a newer stamp, which makes the swap fail.
		 */
		if (!permit_holds(shared, permit))
			return true;
		FC_POINT("stamp-checked");
		if (present && before != hash && before != 0 && !FC_BROKEN(ACCUSE) &&
		    !FC_BROKEN(IN_FLIGHT))
			return accuse(cache, permit);
		if (before != hash &&
		    !atomic_compare_exchange_strong(&entry->stamp, &before, hash))
			continue;
		atomic_store(&entry->stamped, (uint32_t) permit->changes);
		return true;
	}
	return true;
}

/* ---- files of an earlier life -------------------------------------------- */

bool
fc_stamp_asleep(const FcCache *cache, const FcFile *file)
{
	const FcShared *shared = cache->shared;
	uint64_t epoch;
	uint64_t generation;

	if (atomic_load(&shared->asleep_count) == 0 || fc_file_current(cache, file))
		return false;

	epoch = atomic_load(&shared->absent_epoch);
	if (file->number == FC_FILE_NONE && file->absent_epoch != 0 &&
	    file->absent_epoch == epoch)
		return false;
	return fc_file_find(shared, &file->id, &generation) != FC_FILE_NONE &&
	       fc_generation_state(generation) == FC_NUMBER_ASLEEP;
}

static bool
is_as_it_was(const FcShared *shared, uint32_t number, const FcStamp *stamp)
{
	const FcFileEntry *entry = &fc_files(shared)[number];

	FC_ASSERT(number != FC_FILE_NONE && number < shared->file_count);
	if (FC_BROKEN(STAMP))
		return true;
	return stamp != NULL && atomic_load(&entry->stamp) ==
	                            hash_of(atomic_load(&entry->changes), stamp);
}

void
fc_stamp_wake(FcCache *cache, const FcFile *file, const FcStamp *stamp)
{
	FcShared *shared = cache->shared;
	uint64_t generation;
	uint32_t number = fc_file_find(shared, &file->id, &generation);

	if (number == FC_FILE_NONE ||
	    fc_generation_state(generation) != FC_NUMBER_ASLEEP)
		return;

	FC_POINT("sleeper-found");
	if (!is_as_it_was(shared, number, stamp))
	{
		fc_file_drop_sleeper(cache, number, generation);
		return;
	}

	FC_POINT("sleeper-compared");

	/*
	 * The generation's count stays, and with it what a saved map has of the
	 * file.
	 */
	if (atomic_compare_exchange_strong(
			&fc_generations(shared)[number], &generation,
			generation - FC_NUMBER_ASLEEP + FC_NUMBER_LIVE))
	{
		atomic_fetch_sub(&shared->asleep_count, 1);
		fc_count(cache, FC_COUNT_files_kept, 1);
	}
}
