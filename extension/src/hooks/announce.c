/*
 * announce.c
 *		A change of a file, announced to the cache before and after the real
 *		call.
 *
 * A cached block must never outlive what it is a copy of.  So each call that
 * changes a file is bracketed: the change is announced, the real call is made,
 * and the end of the change is announced.  The end is announced even if the
 * call failed, since a failed write may have written something.  Announcing
 * cannot fail and never waits.  It happens in every process, and in every mode
 * but offline.
 *
 * If a file is named in a foreign way (FILE_ALIAS), all files of its number are
 * forgotten before and after, or the whole cache if the name does not show the
 * number.  A descriptor that cannot be identified takes the cache offline.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "hooks/announce.h"

#include <errno.h>

#include "broken.h"
#include "fcache/assert.h"
#include "hooks/runtime.h"
#include "fcache/housekeeping.h"

/* Negative control: changes are not announced while a device is bypassed. */
static __attribute__((noinline)) bool
something_is_bypassed(void)
{
	for (uint32_t i = 0; i < fc_devices_count(&runtime.cache); i++)
	{
		FcDeviceInfo info;

		fc_devices_info(&runtime.cache, i, &info);
		if (info.state == FC_DEVICE_STALLED)
			return true;
	}
	return false;
}

OpenFile *
announce_entry(int fd, OpenFile *spare)
{
	OpenFile *entry = descriptors_entry(fd);

	FC_ASSERT(spare != NULL);
	if (entry != NULL && entry->class != FILE_UNKNOWN &&
	    entry->class != FILE_RELATION && entry->class != FILE_ALIAS)
		return NULL;
	if (!runtime_attached() || fc_mode(&runtime.cache, NULL) == FC_OFFLINE)
		return NULL;
	if (FC_BROKEN(BYPASSED) && something_is_bypassed())
		return NULL;

	if (entry == NULL || entry->class == FILE_UNKNOWN)
	{
		if (FC_BROKEN(UNKNOWN_FILE))
			return NULL;
		if (!descriptors_identify(fd, spare, &entry))
		{
			atomic_store(&runtime.board->unknown_errno, errno);
			atomic_store(&runtime.board->unknown_fd, fd);
			(void) fc_mode_set(&runtime.cache, FC_OFFLINE,
			                   FC_REASON_UNKNOWN_FILE);
			return NULL;
		}
	}

	return entry->class == FILE_RELATION || entry->class == FILE_ALIAS ? entry
	                                                                   : NULL;
}

/*
 * Bytes offset .. offset + size - 1 of the segment are about to change; size <
 * 0: all from offset. class is FILE_RELATION; any other class means that
 * everything changes.
 */
static void
begin(Announced *announced, FileClass class, FcFile *file, off_t offset,
      off_t size)
{
	uint64_t first = offset <= 0 ? 0 : (uint64_t) offset / FC_BLOCK_SIZE;
	uint64_t end = runtime.segment_blocks;

	FC_ASSERT(class == FILE_RELATION || class == FILE_ALIAS);
	if (class != FILE_RELATION)
	{
		announced->like = file->id;
		announced->scope =
			file->id.relation != 0 ? SCOPE_ALIKE : SCOPE_EVERYTHING;
		if (announced->scope == SCOPE_ALIKE)
			fc_file_retire_alike(&runtime.cache, &announced->like);
		else
			fc_change_all_begin(&runtime.cache);
		return;
	}

	/*
	 * Reads never go beyond a segment's end.  An offset out of range: take it
	 * as a change of the whole segment.
	 */
	if (offset < 0 || first >= end)
		first = 0;
	else if (size >= 0 &&
	         (uint64_t) size < (end - first) * FC_BLOCK_SIZE -
	                               (uint64_t) offset % FC_BLOCK_SIZE)
		end = ((uint64_t) offset + (uint64_t) size + FC_BLOCK_SIZE - 1) /
		      FC_BLOCK_SIZE;
	if (end <= first)
		end = first + 1;

	/*
	 * Check here, because a reload may turn fsync off and on again before a
	 * worker notices.
	 */
	if (!*runtime.syncs && !FC_BROKEN(UNSYNCED))
		fc_map_unsynced_set(&runtime.cache);
	FC_ASSERT(first < end && end <= runtime.segment_blocks);
	announced->scope = SCOPE_BLOCKS;
	announced->file = file;
	descriptors_wake(announced->fd, announced->path, announced->entry, file);
	descriptors_look_before(announced->fd, announced->path, announced->entry,
	                        file);
	fc_change_begin(&runtime.cache, file, (uint32_t) first,
	                (uint32_t) (end - first), &announced->change);
}

void
announce_change(Announced *announced, OpenFile *entry, int fd, off_t offset,
                off_t size)
{
	announced->fd = fd;
	announced->path = NULL;
	announced->entry = entry;
	if (entry == NULL)
		announced->scope = SCOPE_NOTHING;
	else
		begin(announced, entry->class, &entry->file, offset, size);
}

void
announce_cut(Announced *announced, FcFile *file, const char *path, off_t length,
             int flags)
{
	FilePlace place = { .class = FILE_ALIAS };

	*announced = (Announced){ .fd = -1, .path = path };
	if (!runtime_attached())
		return;

	if (path != NULL)
		place = descriptors_place(path, flags);
	if (place.class != FILE_RELATION && place.class != FILE_ALIAS)
		return;

	*file = fc_file(place.id);
	begin(announced, place.class, file, length, -1);
}

static void
end(Announced *announced)
{
	FcStamp stamp;

	if (FC_BROKEN(CHANGE_END))
	{
		announced->change.counted_in = false;
		return;
	}
	if (announced->scope == SCOPE_EVERYTHING)
		fc_change_all_end(&runtime.cache);
	if (announced->scope == SCOPE_ALIKE)
		fc_file_retire_alike(&runtime.cache, &announced->like);
	if (announced->scope != SCOPE_BLOCKS)
		return;

	fc_change_end(&runtime.cache, announced->file, &announced->change);
	if (announced->change.permit.number != FC_FILE_NONE &&
	    descriptors_stamps_at_once(announced->fd, announced->path,
	                               announced->entry) &&
	    descriptors_stamp(announced->fd, announced->path, announced->entry,
	                      &stamp))
		descriptors_hand_in(announced->file->id, &announced->change.permit,
		                    &stamp);
}

void
announce_distrust(OpenFile *entry)
{
	if (entry == NULL)
		return;

	/* There is no matching end, so nothing of this outlives the server. */
	if (entry->class != FILE_RELATION)
		fc_change_all_begin(&runtime.cache);
	else
		fc_change_distrust(&runtime.cache, &entry->file);
}

void
announce_end(Announced *announced, OpenFile *entry, bool failed)
{
	int saved_errno = errno;

	FC_ASSERT(announced->scope <= SCOPE_EVERYTHING);
	end(announced);
	if (failed && saved_errno != EINTR && announced->scope != SCOPE_NOTHING)
		announce_distrust(entry);
	errno = saved_errno;
}
