/*
 * revive_test.c
 *		What remains of a cache when its server starts again: what stays, what
 *		is dropped, whose memory is refused, and how the audit treats nonsense.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "lives.h"
#include "staging.h"
#include "tap.h"

static void
test_untouched_files_stay(void)
{
	FcFile file = fc_file(file_id(7));
	uint64_t counted;

	scene_open();
	write_block(scene.a, &scene.file, 4);
	(void) read_block(scene.a, &scene.file, 4);
	counted = fc_count_sum(scene.a, FC_COUNT_hits);
	MUST(counted > 0);
	restart();
	OK(fc_count_sum(scene.a, FC_COUNT_hits) == 0, "counters start over");
	OK(fc_stamp_asleep(scene.a, &file), "after a crash a file is asleep");
	OK(is_hit(scene.a, &file, 3) && is_hit(scene.a, &file, 4),
	   "one that is as it was is warm");
	OK(fc_count_sum(scene.a, FC_COUNT_files_kept) == 1 &&
	       fc_count_sum(scene.a, FC_COUNT_files_dropped) == 0 &&
	       !fc_stamp_asleep(scene.a, &file),
	   "and awake, and counted as kept");
	MUST(!fc_map_unsynced(scene.a));
	fc_map_unsynced_set(scene.a);
	restart();
	file = fc_file(file_id(7));
	OK(is_hit(scene.a, &file, 3), "after two crashes, too");
	OK(fc_map_unsynced(scene.a), "what was not synced once is remembered");
	restart();
	restart();
	file = fc_file(file_id(7));
	OK(is_hit(scene.a, &file, 3), "and if it slept through one");
	OK(!fc_file_current(scene.a, &scene.same),
	   "a handle of an earlier life is stale");
	scene_close();
}

static void
test_dropped_files_leave_nothing(void)
{
	FcFile file = fc_file(file_id(7));

	scene_open();
	tick();
	real_write(3);
	restart();
	OK(!is_hit(scene.a, &file, 3) &&
	       fc_count_sum(scene.a, FC_COUNT_files_dropped) == 1,
	   "a file that was changed is dropped, and counted");
	OK(fc_file_used_slots(scene.a) == 0, "its slots are free");
	(void) read_block(scene.a, &file, 3);
	OK(is_hit(scene.a, &file, 3), "and it is cached again");

	restart();
	file = fc_file(file_id(7));
	fc_stamp_wake(scene.a, &file, NULL);
	OK(!fc_stamp_asleep(scene.a, &file) && fc_file_used_slots(scene.a) == 0,
	   "a file that could not be asked is dropped, too");
	scene_close();
}

/*
 * One process compares while another wakes the file: what the other does stays.
 */
static FcFile changer;

static void
wake_and_cut_off(void)
{
	fc_stamp_wake(&scene.b, &changer, &scene.inode);
	change_blocks(&scene.b, &changer, 0, FC_BLOCKS_ALL);
	MUST(fc_file_resolve(&scene.b, &changer));
}

static void
wake_and_retire(void)
{
	fc_stamp_wake(&scene.b, &changer, &scene.inode);
	fc_file_retire(&scene.b, changer.id);
}

static void
test_files_that_two_wake(void)
{
	FcFile late = fc_file(file_id(7));
	FcChange change;

	scene_open();
	restart();
	changer = late;
	stop_at("sleeper-compared", wake_and_cut_off);
	fc_stamp_wake(scene.a, &late, &scene.inode);
	OK(stop_act == NULL && fc_file_current(scene.a, &changer),
	   "a file that was woken and cut off meanwhile stays as it is");
	scene_close();

	scene_open();
	restart();
	stop_at("sleeper-compared", wake_and_retire);
	fc_stamp_wake(scene.a, &late, &scene.inode);
	OK(stop_act == NULL && !fc_file_resolve(scene.a, &late),
	   "one that was woken and retired stays so");
	scene_close();

	scene_open();
	begin_write(scene.a, &scene.file, 4, &change);
	restart();
	OK(!fc_stamp_asleep(scene.a, &late),
	   "one with a change in flight is not even asleep");
	scene_close();
}

static void
test_memory_that_is_not_ours(void)
{
	FcIdentity other = home;

	scene_open();
	other.system++;
	OK(revive_as(&other, 77) == FC_START_SYSTEM, "another cluster's memory");
	other = home;
	other.directory_inode++;
	OK(revive_as(&other, 77) == FC_START_DIRECTORY,
	   "another data directory's memory");
	other = home;
	other.directory_volume++;
	OK(revive_as(&other, 77) == FC_START_DIRECTORY,
	   "one's of the same inode, too");
	other = home;
	other.boot[0]++;
	OK(revive_as(&other, 77) == FC_START_BOOT,
	   "memory of a boot that is half the same");
	other = home;
	other.boot[1]++;
	OK(revive_as(&other, 77) == FC_START_BOOT, "memory of another boot");
	other = home;
	other.checkpoint.crc = 9;
	OK(revive_as(&other, 77) == FC_START_CHECKPOINT,
	   "memory of a cluster that has lived on without it");
	fc_life_control_begins(scene.a, 9);
	OK(revive_as(&other, 77) == FC_START_MEMORY &&
	       revive_as(&home, 77) == FC_START_MEMORY,
	   "it may have been killed before it wrote that down, or after");
	fc_life_control_ends(scene.a);
	OK(revive_as(&home, 77) == FC_START_CHECKPOINT &&
	       revive_as(&other, 77) == FC_START_MEMORY,
	   "once it has, it stands there");
	fc_test_broken = FC_BREAK(CHECKPOINT);
	OK(revive_as(&home, 77) == FC_START_MEMORY, "... as is compared");
	fc_test_broken = 0;
	fc_life_control_begins(scene.a, home.checkpoint.crc);
	fc_life_control_ends(scene.a);
	OK(revive_as(&home, 78) == FC_START_NONCE,
	   "memory of another life of the cache file");
	OK(revive_as(&home, 0) == FC_START_NONCE, "no number is no life");
	scene.a->shared->set_count++;
	OK(revive_as(&home, 77) == FC_START_GEOMETRY, "memory of another size");
	scene.a->shared->set_count--;
	atomic_fetch_add(&scene.a->shared->room_sets, 1);
	OK(revive_as(&home, 77) == FC_START_GEOMETRY,
	   "memory of a cache file that was about to be cut off, or is longer");
	atomic_fetch_sub(&scene.a->shared->room_sets, 1);
	scene.a->shared->magic ^= 1;
	OK(revive_as(&home, 77) == FC_START_FORMAT, "of another format");
	scene.a->shared->magic ^= 1;
	fc_change_all_begin(scene.a);
	OK(revive_as(&home, 77) == FC_START_OFFLINE,
	   "memory that nobody knows what was changed under");
	fc_change_all_end(scene.a);
	OK(revive_as(&home, 77) == FC_START_MEMORY, "if all fits it is revived");
	MUST(fc_mode_set(scene.a, FC_OFFLINE, FC_REASON_USER) == FC_OK);
	OK(revive_as(&home, 77) == FC_START_OFFLINE,
	   "memory of a cache that was offline is refused");
	scene_close();
}

/* Keys that are no keys must do no harm. */
static void
test_audit_drops_impossible_entries(void)
{
	FcSet *set;
	FcFile file = fc_file(file_id(7));

	scene_open();
	set = fc_set(scene.a->shared, 0);
	atomic_store(&set->key[60], fc_key(4000000, 1));
	atomic_store(&set->meta[60], FC_VALID);
	atomic_store(&set->key[61], fc_key(63, 1)); /* a number never assigned */
	atomic_store(&set->meta[61], FC_VALID);
	atomic_store(&set->meta[62], FC_FILLING | 0xffffULL << 32);
	restart();
	OK(fc_meta_state(atomic_load(&set->meta[60])) == FC_EMPTY &&
	       fc_meta_state(atomic_load(&set->meta[61])) == FC_EMPTY &&
	       fc_meta_state(atomic_load(&set->meta[62])) == FC_EMPTY,
	   "entries of impossible files or owners are emptied");
	OK(is_hit(scene.a, &file, 3) && fc_file_used_slots(scene.a) == 1,
	   "what is possible stays, and is counted");
	scene_close();
}

/* Sessions list and read what is cached before the audit, too. */
static void
test_impossible_entries_before_the_audit(void)
{
	static _Alignas(8) char memory[100000];
	FcCache revived;
	FcListPart part;
	FcList *list;
	FcFileId id;
	FcTicket ticket;
	uint32_t block;
	FcSet *set;
	Page page;

	scene_open();
	set = fc_set(scene.a->shared, 0);
	atomic_store(&set->key[60], fc_key(4000000, 1));
	atomic_store(&set->meta[60], FC_VALID);
	MUST(fc_revive(&revived, scene.rig.memory, &config, &scene.rig.flash.device,
	               &home, 77) == FC_START_MEMORY);
	MUST(fc_list_size(&revived) <= sizeof(memory));
	list = fc_list_begin(&revived, memory, sizeof(memory));
	while (fc_list_walk(list, 1))
		;
	OK(!fc_list_next(list, (uint8_t *) &page, sizeof(page), &part),
	   "an entry of an impossible file is not listed");
	OK(!fc_read_slot_block(&revived, 60, &id, &block) &&
	       fc_read_slot(&revived, 60, &page, &id, &ticket) == FC_MISS,
	   "nor read");
	fc_cache_close(&revived);
	scene_close();
}

/* Numbers of ring pages, files and cache policies may have any value. */
static void
test_numbers_written_over(void)
{
	FcShared *shared;
	FcWriter *writer;
	FcFile file = fc_file(file_id(7));
	FcFileInfo info;
	uint32_t ref;

	scene_open();
	shared = scene.a->shared;
	for (uint32_t i = 0; i < shared->ring_count; i++)
		atomic_store(&fc_staged_page(shared, i)->slot, UINT32_MAX);
	for (uint32_t i = 0; i < shared->file_count; i++)
		atomic_store(&fc_files(shared)[i].cache_policy, 77);
	for (uint32_t i = 0; i < shared->cache_policy_count; i++)
		atomic_store(&fc_cache_policy_table(shared)[i].word, 0xffffffff);
	atomic_store(&shared->cache_policies_used, 1);
	restart();

	/* Killed when it has taken a page, with nothing in it yet. */
	MUST(fc_process_begin(&scene.b) == FC_OK &&
	     fc_staging_take(&scene.b, &ref));
	fc_process_end(&scene.b);
	MUST(fc_writer_begin(scene.a, &writer) == FC_OK);
	OK(fc_staging_used(shared) == 0,
	   "a page of a dead filler is freed, whatever was in it before");
	MUST(fc_writer_end(writer, 0) == FC_OK);
	enter(scene.a, &file);
	MUST(fc_file_info(scene.a, file.number, &info));
	OK(info.cache_policy <= FC_CACHE_POLICY_NONE,
	   "a cache policy is one that there is");
	scene_close();
}

static uint64_t pinned_key;

static void
change_pinned(void)
{
	FcHome unused;

	(void) fc_index_invalidate(scene.a, pinned_key, &unused);
}

/*
 * The block was being written when all died, and changes during the audit: no
 * process will ever unpin its slot.
 */
static void
test_audit_leaves_no_pin(void)
{
	FcCache revived;
	FcAtomic64 *meta;
	FcSeen seen;

	scene_open();
	pinned_key = fc_key(scene.file.number, 3);
	MUST(fc_index_find(scene.a->shared, pinned_key, &seen));
	meta = &fc_set(scene.a->shared, seen.slot / FC_WAYS)
	            ->meta[seen.slot % FC_WAYS];
	atomic_store(meta, fc_meta_as(seen.meta, FC_WRITING, fc_page_ref(1, 1)));
	MUST(fc_revive(&revived, scene.rig.memory, &config, &scene.rig.flash.device,
	               &home, 77) == FC_START_MEMORY);
	stop_at("entry-audited", change_pinned);
	fc_revive_audit(&revived);
	MUST(stop_act == NULL);
	OK(fc_meta_state(atomic_load(meta)) == FC_EMPTY,
	   "what was being written is empty, though it changed under the audit");
	fc_cache_close(&revived);
	scene_close();
}

/* Counters start over, and so do the values derived from them. */
static void
test_health_starts_over(void)
{
	FcShared *shared;

	scene_open();
	shared = scene.a->shared;
	for (int i = 0; i < 1000; i++)
		fc_read_disk_done(scene.a, &scene.file, 1, FC_BLOCK_SIZE, 900000);
	(void) fc_bypass_check(scene.a);
	MUST(shared->disk_mean_ns == 900000);
	MUST(fc_count_sum(scene.a, FC_COUNT_flash_writes) > 0);
	restart();
	OK(fc_count_sum(scene.a, FC_COUNT_flash_writes) == 0 &&
	       fc_count_sum(scene.a, FC_COUNT_flash_read_bytes) == 0,
	   "counters of devices start over");
	(void) fc_bypass_check(scene.a);
	OK(shared->disk_mean_ns == 0, "nothing is known of the disk: %lu",
	   (unsigned long) shared->disk_mean_ns);
	for (int i = 0; i < 64; i++)
		fc_read_disk_done(scene.a, &scene.file, 1, FC_BLOCK_SIZE, 700000);
	(void) fc_bypass_check(scene.a);
	OK(shared->disk_mean_ns == 700000, "until it is read: %lu",
	   (unsigned long) shared->disk_mean_ns);
	scene_close();
}

int
main(void)
{
	alarm(900);
	fc_test_point = on_point;
	test_untouched_files_stay();
	test_dropped_files_leave_nothing();
	test_files_that_two_wake();
	test_memory_that_is_not_ours();
	test_audit_drops_impossible_entries();
	test_impossible_entries_before_the_audit();
	test_numbers_written_over();
	test_audit_leaves_no_pin();
	test_health_starts_over();
	return tap_done();
}
