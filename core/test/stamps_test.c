/*
 * stamps_test.c
 *		Files that outlive the server: whose blocks count in the next life?
 *
 * The test plays host and kernel: a file is a version of each block and an inode,
 * whose ctime moves with each change.  Its clock is coarse: changes within a tick
 * look alike, so that what rests on ctime alone is found out.  A crash is a second
 * handle that revives the memory of the first.
 *
 * Each scenario says whether a wrong block came out after the restart.  It is run as
 * the library is, and with the mechanism left out that guards the moment.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <setjmp.h>

#include "staging.h"
#include "stop.h"
#include "support.h"
#include "tap.h"

#define SLOTS  (2 * FC_WAYS)
#define BLOCKS 300

static const FcIdentity home = {
	.system = 1, .directory_device = 2, .directory_inode = 3, .boot = { 4, 5 }
};

typedef struct Scene
{
	Rig rig;
	FcCache *a;
	FcCache b; /* another process */
	FcFile file;
	FcFile same; /* the same as b knows it */
	uint64_t disk[BLOCKS];
	FcStamp inode;
	int64_t clock;
} Scene;

static Scene scene;

/* ---- the world ------------------------------------------------------------------ */

static const FcConfig config = { .slot_count = SLOTS,
	                             .file_count = 64,
	                             .process_count = 8,
	                             .policy = &fc_policy_lfu };

/* Change the file: someone, anyhow. */
static void
real_write(uint32_t block)
{
	scene.disk[block]++;
	scene.inode.changed_ns = scene.clock;
}

static void
tick(void)
{
	scene.clock += 4000000;
}

/* As a host enters a file and stamps it. */
static void
enter(FcCache *cache, FcFile *file)
{
	FcStampPermit permit;

	if (fc_file_current(cache, file))
		return;
	if (fc_file_asleep(cache, file))
		fc_file_wake(cache, file, &scene.inode);
	MUST(fc_file_enter(cache, file) == FC_OK);
	permit = fc_stamp_permit(cache, file);
	fc_stamp_set(cache, &permit, &scene.inode);
}

/* True if a wrong page was served. */
static bool
read_block(FcCache *cache, FcFile *file, uint32_t block)
{
	Page page;
	FcTicket ticket;
	FcStatus status;

	enter(cache, file);
	status = fc_read(cache, file, block, &page, &ticket);
	if (status == FC_OK)
		return !page_is(&page, 7, block, scene.disk[block]);
	MUST(status == FC_MISS);
	page_make(&page, 7, block, scene.disk[block]);
	if (fc_fill(cache, &ticket, &page) == FC_OK)
		MUST(fc_writer_flush(cache, FLUSH_NS) == FC_OK);
	return false;
}

static bool
is_hit(FcCache *cache, FcFile *file, uint32_t block)
{
	Page page;
	FcTicket ticket;

	enter(cache, file);
	return fc_read(cache, file, block, &page, &ticket) == FC_OK;
}

static void
begin_write(FcCache *cache, FcFile *file, uint32_t block, FcChange *change)
{
	if (fc_file_asleep(cache, file))
		fc_file_wake(cache, file, &scene.inode);
	fc_change_begin(cache, file, block, 1, change);
}

static void
end_write(FcCache *cache, FcFile *file, FcChange *change)
{
	fc_change_end(cache, file, change);
	fc_stamp_set(cache, &change->permit, &scene.inode);
}

static void
write_block(FcCache *cache, FcFile *file, uint32_t block)
{
	FcChange change;

	begin_write(cache, file, block, &change);
	real_write(block);
	end_write(cache, file, &change);
}

static void
scene_open(void)
{
	memset(&scene, 0, sizeof(scene));
	scene.clock = 1000000000;
	scene.inode = (FcStamp){
		.device = 8, .inode = 9, .size = 10, .changed_ns = scene.clock
	};
	rig_open_with(&scene.rig, &config);
	scene.a = &scene.rig.cache;
	scene.a->shared->identity = home;
	scene.a->shared->nonce = 77;
	MUST(fc_process_begin(scene.a) == FC_OK);
	rig_attach(&scene.rig, &scene.b);
	scene.file = scene.same = fc_file(file_id(7));
	MUST(!read_block(scene.a, &scene.file, 3));
	MUST(is_hit(&scene.b, &scene.same, 3));
}

static FcStart
revive_as(const FcIdentity *identity, uint64_t nonce)
{
	FcCache revived;
	FcStart start = fc_cache_revive(&revived, scene.rig.memory, &config,
	                                &scene.rig.flash.device, identity, nonce);

	if (start != FC_START_MEMORY)
		return start;
	fc_cache_audit(&revived);
	MUST(fc_mode_set(&revived, FC_SERVE, FC_REASON_NONE) == FC_OK);
	free(scene.rig.cache.scratch);
	scene.rig.cache = revived;
	scene.b.token = 0;
	return start;
}

/* All processes die, and the server starts again. */
static void
restart(void)
{
	MUST(revive_as(&home, 77) == FC_START_MEMORY);
}

static void
scene_close(void)
{
	free(scene.b.scratch);
	rig_close(&scene.rig);
}

/* The next life reads block 3 through a new handle. */
static bool
wrong_after_restart(void)
{
	FcFile file = fc_file(file_id(7));

	restart();
	return read_block(scene.a, &file, 3) || read_block(scene.a, &scene.file, 3);
}

/* ---- what happens while no server runs --------------------------------------------- */

static bool
changed_while_down(void)
{
	tick();
	real_write(3);
	return wrong_after_restart();
}

static bool
changed_and_clock_set_back(void)
{
	tick();
	write_block(scene.a, &scene.file, 4);
	(void) read_block(scene.a, &scene.file, 4);
	scene.clock -= 500000000;
	real_write(3);
	return wrong_after_restart();
}

static bool
replaced_while_down(void)
{
	scene.inode.inode++;
	scene.disk[3]++;
	return wrong_after_restart();
}

static bool
size_changed_while_down(void)
{
	scene.inode.size++;
	scene.disk[3]++;
	return wrong_after_restart();
}

static bool
other_device_while_down(void)
{
	scene.inode.device++;
	scene.disk[3]++;
	return wrong_after_restart();
}

/* ---- who is killed while he writes ----------------------------------------------------- */

/* All in one tick: a write is over; the next one is cut off. */
static bool
writer_killed(void)
{
	FcChange change;

	write_block(scene.a, &scene.file, 4);
	(void) read_block(scene.a, &scene.file, 3);
	begin_write(scene.a, &scene.file, 3, &change);
	/* Its block comes back by a reader that was faster than the write. */
	(void) read_block(&scene.b, &scene.same, 3);
	real_write(3);
	return wrong_after_restart();
}

static FcChange late_change;

static void
begin_late_write(void)
{
	begin_write(&scene.b, &scene.same, 3, &late_change);
	(void) read_block(scene.a, &scene.file, 3);
}

/* One stamps while another, who is killed then, writes: in one tick. */
static bool
stamp_beside_a_writer(void)
{
	FcChange change;

	begin_write(scene.a, &scene.file, 4, &change);
	begin_late_write();
	real_write(4);
	end_write(scene.a, &scene.file, &change);
	real_write(3);
	return wrong_after_restart();
}

/* The other one begins between the look at the counts and the stamp. */
static bool
write_before_the_stamp(void)
{
	FcChange change;

	begin_write(scene.a, &scene.file, 4, &change);
	real_write(4);
	fc_change_end(scene.a, &scene.file, &change);
	begin_late_write();
	fc_stamp_set(scene.a, &change.permit, &scene.inode);
	real_write(3);
	return wrong_after_restart();
}

/* ... or between the last look and the swap. */
static bool
write_under_the_stamp(void)
{
	FcChange change;

	begin_write(scene.a, &scene.file, 4, &change);
	real_write(4);
	fc_change_end(scene.a, &scene.file, &change);
	stop_at("stamp-checked", begin_late_write);
	fc_stamp_set(scene.a, &change.permit, &scene.inode);
	MUST(stop_act == NULL);
	real_write(3);
	return wrong_after_restart();
}

/* The writer does not know the file; a reader enters it, stamps it and fills. */
static bool
stranger_killed(void)
{
	FcChange change;

	fc_file_retire(scene.a, file_id(7));
	scene.file = scene.same = fc_file(file_id(7));
	begin_write(&scene.b, &scene.same, 3, &change);
	(void) read_block(scene.a, &scene.file, 3);
	real_write(3);
	return wrong_after_restart();
}

/* The same, but the file loses its number while the writer writes. */
static bool
displaced_under_its_writer(void)
{
	FcChange change;

	begin_write(&scene.b, &scene.same, 3, &change);
	fc_file_retire(scene.a, file_id(7));
	(void) read_block(scene.a, &scene.file, 3);
	real_write(3);
	return wrong_after_restart();
}

static void
enter_now(void)
{
	(void) read_block(scene.a, &scene.file, 3);
}

/* A reader enters the file between the writer's two steps. */
static bool
entered_under_the_count(void)
{
	FcChange change;

	fc_file_retire(scene.a, file_id(7));
	scene.file = scene.same = fc_file(file_id(7));
	stop_at("writer-counted", enter_now);
	begin_write(&scene.b, &scene.same, 3, &change);
	MUST(stop_act == NULL);
	(void) read_block(scene.a, &scene.file, 3);
	real_write(3);
	return wrong_after_restart();
}

/* The kernel could not write the file back: its pages may be lost any time. */
static bool
sync_failed(void)
{
	fc_file_distrust(scene.a, &scene.file);
	(void) read_block(scene.a, &scene.file, 3);
	write_block(scene.a, &scene.file, 4);
	(void) read_block(scene.a, &scene.file, 4);
	scene.disk[3]++;
	return wrong_after_restart();
}

/* ---- sleepers --------------------------------------------------------------------------- */

/* A file that sleeps is changed first, and read then. */
static bool
sleeper_changed(void)
{
	FcFile file = fc_file(file_id(7));
	FcChange change;

	restart();
	fc_change_begin(scene.a, &file, 3, 1, &change);
	real_write(3);
	fc_change_end(scene.a, &file, &change);
	file = fc_file(file_id(7));
	return read_block(scene.a, &file, 3);
}

static FcStamp reader_saw;

static void
write_meanwhile(void)
{
	FcFile file = fc_file(file_id(7));

	tick();
	write_block(&scene.b, &file, 3);
}

/* The reader's comparison comes when a writer has woken and changed the file. */
static bool
woken_by_two(void)
{
	FcFile file = fc_file(file_id(7));

	restart();
	reader_saw = scene.inode;
	stop_at("sleeper-found", write_meanwhile);
	fc_file_wake(scene.a, &file, &reader_saw);
	MUST(stop_act == NULL);
	return read_block(scene.a, &file, 3);
}

/* Truncated whole while it slept: blocks that nobody looked at are gone, too. */
static bool
sleeper_cut_off(void)
{
	FcFile file = fc_file(file_id(7));
	FcChange change;

	restart();
	fc_file_wake(scene.a, &file, &scene.inode);
	fc_change_begin(scene.a, &file, 0, FC_BLOCKS_ALL, &change);
	real_write(3);
	fc_change_end(scene.a, &file, &change);
	return read_block(scene.a, &file, 3);
}

/* ---- memory that was written over -------------------------------------------------------- */

/* Counters say that nothing of the file is cached; then it is cut off. */
static bool
counters_written_over(void)
{
	FcShared *shared = scene.a->shared;
	FcFile file = fc_file(file_id(7));
	FcChange change;

	for (uint32_t i = 0; i < shared->chunk_count; i++)
		atomic_store(&fc_chunks(shared)[i], 0);
	restart();
	fc_file_wake(scene.a, &file, &scene.inode);
	fc_change_begin(scene.a, &file, 0, FC_BLOCKS_ALL, &change);
	real_write(3);
	fc_change_end(scene.a, &file, &change);
	return read_block(scene.a, &file, 3);
}

/* ---- all of them --------------------------------------------------------------------------- */

typedef struct Scenario
{
	const char *title;
	bool (*play)(void);
	uint64_t control; /* left out together, it goes wrong */
} Scenario;

#define B(name) FC_BREAK_##name

static const Scenario scenarios[] = {
	{ "a file is changed while the server is down", changed_while_down,
	  B(STAMP) },
	{ "... and the clock is set back", changed_and_clock_set_back, B(STAMP) },
	{ "a file is replaced while the server is down", replaced_while_down,
	  B(STAMP) },
	{ "a file's size changes while the server is down", size_changed_while_down,
	  B(STAMP) },
	{ "a file comes from another device", other_device_while_down, B(STAMP) },
	{ "a writer is killed", writer_killed, B(STAMP_LATE) | B(WRITERS) },
	{ "a file is stamped beside a writer, who is killed", stamp_beside_a_writer,
	  B(STAMP_LATE) | B(WRITERS) },
	{ "a writer, who is killed, begins before the stamp is set",
	  write_before_the_stamp, B(STAMP_LATE) | B(WRITERS) },
	{ "... under the very swap", write_under_the_stamp,
	  B(STAMP_LATE) | B(WRITERS) },
	{ "a writer is killed that did not know the file", stranger_killed,
	  B(WRITERS) },
	{ "a writer is killed whose file lost its number",
	  displaced_under_its_writer, B(WRITERS) },
	{ "a file becomes known while a writer counts itself in",
	  entered_under_the_count, B(STAMP_LATE) | B(WRITERS) },
	{ "a sync failed", sync_failed, B(DISTRUST) },
	{ "a sleeper is changed by one who does not compare", sleeper_changed,
	  B(ASLEEP) },
	{ "a sleeper is woken by a reader and a writer", woken_by_two,
	  B(INVALIDATE) | B(SECOND_INVALIDATE) },
	{ "a sleeper is cut off", sleeper_cut_off, B(INVALIDATE) },
	{ "the counters are written over", counters_written_over, B(AUDIT) },
};

#undef B

static bool
play(const Scenario *scenario, uint64_t broken)
{
	scene_open();
	fc_test_broken = broken;

	bool wrong = scenario->play();

	fc_test_broken = 0;
	MUST(stop_act == NULL);
	scene_close();
	return wrong;
}

/* ---- what stays ----------------------------------------------------------------------------- */

static void
test_untouched_files_stay(void)
{
	FcFile file = fc_file(file_id(7));
	uint64_t counted;

	scene_open();
	write_block(scene.a, &scene.file, 4);
	(void) read_block(scene.a, &scene.file, 4);
	counted = fc_counter(scene.a, FC_COUNT_hits);
	MUST(counted > 0);
	restart();
	OK(fc_counter(scene.a, FC_COUNT_hits) == 0, "counters begin anew");
	OK(fc_file_asleep(scene.a, &file), "after a crash a file is asleep");
	OK(is_hit(scene.a, &file, 3) && is_hit(scene.a, &file, 4),
	   "one that is as it was is warm");
	OK(fc_counter(scene.a, FC_COUNT_files_kept) == 1 &&
	       fc_counter(scene.a, FC_COUNT_files_dropped) == 0 &&
	       !fc_file_asleep(scene.a, &file),
	   "and awake, and counted as kept");
	restart();
	file = fc_file(file_id(7));
	OK(is_hit(scene.a, &file, 3), "after two crashes, too");
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
	       fc_counter(scene.a, FC_COUNT_files_dropped) == 1,
	   "a file that was changed is dropped, and counted");
	OK(fc_used_slots(scene.a) == 0, "its slots are free");
	(void) read_block(scene.a, &file, 3);
	OK(is_hit(scene.a, &file, 3), "and it is cached again");

	restart();
	file = fc_file(file_id(7));
	fc_file_wake(scene.a, &file, NULL);
	OK(!fc_file_asleep(scene.a, &file) && fc_used_slots(scene.a) == 0,
	   "a file that could not be asked is dropped, too");
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
	other.boot[1]++;
	OK(revive_as(&other, 77) == FC_START_BOOT, "memory of another boot");
	OK(revive_as(&home, 78) == FC_START_NONCE,
	   "memory of another life of the cache file");
	OK(revive_as(&home, 0) == FC_START_NONCE, "no number is no life");
	scene.a->shared->set_count++;
	OK(revive_as(&home, 77) == FC_START_GEOMETRY, "memory of another size");
	scene.a->shared->set_count--;
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

/* Keys that are no keys must not lead anybody astray. */
static void
test_audit_drops_impossible_entries(void)
{
	FcSet *set;
	FcFile file = fc_file(file_id(7));

	scene_open();
	set = fc_set(scene.a->shared, 0);
	atomic_store(&set->key[60], fc_key(4000000, 1));
	atomic_store(&set->meta[60], FC_VALID);
	atomic_store(&set->key[61], fc_key(63, 1)); /* a number never given */
	atomic_store(&set->meta[61], FC_VALID);
	atomic_store(&set->meta[62], FC_FILLING | 0xffffULL << 32);
	restart();
	OK(fc_meta_state(atomic_load(&set->meta[60])) == FC_EMPTY &&
	       fc_meta_state(atomic_load(&set->meta[61])) == FC_EMPTY &&
	       fc_meta_state(atomic_load(&set->meta[62])) == FC_EMPTY,
	   "entries of impossible files or owners are emptied");
	OK(is_hit(scene.a, &file, 3) && fc_used_slots(scene.a) == 1,
	   "what is possible stays, and is counted");
	scene_close();
}

/* Numbers of the ring's, of files' and of the table of classes may be any. */
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
		atomic_store(&fc_files(shared)[i].file_class, 77);
	for (uint32_t i = 0; i < shared->class_count; i++)
		atomic_store(&fc_classes(shared)[i].word, 0xffffffff);
	atomic_store(&shared->classes_used, 1);
	restart();

	/* Killed when it has got a page, and nothing is in it yet. */
	MUST(fc_process_begin(&scene.b) == FC_OK &&
	     fc_staging_take(&scene.b, &ref));
	fc_process_end(&scene.b);
	MUST(fc_writer_begin(scene.a, &writer) == FC_OK);
	OK(fc_staging_used(shared) == 0,
	   "a page of a dead filler is freed, whatever was in it before");
	MUST(fc_writer_end(writer, 0) == FC_OK);
	enter(scene.a, &file);
	MUST(fc_file_info(scene.a, file.number, &info));
	OK(info.file_class <= FC_CLASS_NONE, "a class is one that there is");
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
 * The block was being written when all died, and changes under the audit's eyes:
 * nobody will ever come to unpin its slot.
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
	MUST(fc_cache_revive(&revived, scene.rig.memory, &config,
	                     &scene.rig.flash.device, &home,
	                     77) == FC_START_MEMORY);
	stop_at("entry-audited", change_pinned);
	fc_cache_audit(&revived);
	MUST(stop_act == NULL);
	OK(fc_meta_state(atomic_load(meta)) == FC_EMPTY,
	   "what was being written is empty, though it changed under the audit");
	fc_cache_close(&revived);
	scene_close();
}

/* What is counted begins anew, and so does what is made of it. */
static void
test_health_begins_anew(void)
{
	FcShared *shared;

	scene_open();
	shared = scene.a->shared;
	for (int i = 0; i < 1000; i++)
		fc_disk_read(scene.a, &scene.file, 1, FC_BLOCK_SIZE, 900000);
	(void) fc_devices_check(scene.a);
	MUST(shared->disk_mean_ns == 900000);
	MUST(fc_counter(scene.a, FC_COUNT_flash_writes) > 0);
	restart();
	OK(fc_counter(scene.a, FC_COUNT_flash_writes) == 0 &&
	       fc_counter(scene.a, FC_COUNT_flash_read_bytes) == 0,
	   "counters of devices begin anew");
	(void) fc_devices_check(scene.a);
	OK(shared->disk_mean_ns == 0, "nothing is known of the disk: %lu",
	   (unsigned long) shared->disk_mean_ns);
	for (int i = 0; i < 64; i++)
		fc_disk_read(scene.a, &scene.file, 1, FC_BLOCK_SIZE, 700000);
	(void) fc_devices_check(scene.a);
	OK(shared->disk_mean_ns == 700000, "until it is read: %lu",
	   (unsigned long) shared->disk_mean_ns);
	scene_close();
}

int
main(void)
{
	alarm(120);
	fc_test_point = on_point;
	for (size_t i = 0; i < sizeof(scenarios) / sizeof(scenarios[0]); i++)
	{
		OK(!play(&scenarios[i], 0), "%s", scenarios[i].title);
		OK(play(&scenarios[i], scenarios[i].control),
		   "control: %s goes wrong without 0x%llx", scenarios[i].title,
		   (unsigned long long) scenarios[i].control);
	}
	test_untouched_files_stay();
	test_dropped_files_leave_nothing();
	test_memory_that_is_not_ours();
	test_audit_drops_impossible_entries();
	test_numbers_written_over();
	test_audit_leaves_no_pin();
	test_health_begins_anew();
	return tap_done();
}
