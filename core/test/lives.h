/*
 * lives.h
 *		A cache that outlives its server, and one file: for tests of what is
 *		valid in the next life.
 *
 * The test plays host and kernel: a file is a version for each block and an
 * inode, whose ctime changes with each change of the file.  The clock is
 * coarse: changes within one tick look alike, which exposes anything that
 * relies on ctime alone.  A crash is a second handle that revives the memory of
 * the first.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef LIVES_H
#define LIVES_H

#include "stop.h"
#include "support.h"

#define SLOTS  (2 * FC_WAYS)
#define BLOCKS 300

static const FcIdentity home = {
	.system = 1, .directory_volume = 2, .directory_inode = 3, .boot = { 4, 5 }
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
	unsigned accused; /* times that a file was found changed by nobody */
} Scene;

static Scene scene;

static const FcConfig config = { .slot_count = SLOTS,
	                             .file_count = 64,
	                             .process_count = 8,
	                             .replacement = &fc_replacement_lfu };

/* The real change of the file, by any process in any way. */
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

/* Enter a file and stamp it as a host does; again if it was found changed. */
static void
enter(FcCache *cache, FcFile *file)
{
	while (!fc_file_current(cache, file))
	{
		FcStampPermit permit;

		if (fc_stamp_asleep(cache, file))
			fc_stamp_wake(cache, file, &scene.inode);
		MUST(fc_file_enter(cache, file) == FC_OK);
		permit = fc_stamp_permit(cache, file);
		scene.accused += !fc_stamp_set(cache, &permit, &scene.inode);
	}
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

/* Check that the file is unchanged, as a host does before a change. */
static void
look_before(FcCache *cache, FcFile *file)
{
	FcStampPermit permit;

	if (fc_stamp_asleep(cache, file))
		fc_stamp_wake(cache, file, &scene.inode);
	if (!fc_file_resolve(cache, file))
		return;
	permit = fc_stamp_permit(cache, file);
	if (fc_stamp_age(cache, &permit) == FC_STAMP_PRESENT)
		scene.accused += !fc_stamp_set(cache, &permit, &scene.inode);
}

static void
begin_write(FcCache *cache, FcFile *file, uint32_t block, FcChange *change)
{
	look_before(cache, file);
	fc_change_begin(cache, file, block, 1, change);
}

static void
end_write(FcCache *cache, FcFile *file, FcChange *change)
{
	fc_change_end(cache, file, change);
	scene.accused += !fc_stamp_set(cache, &change->permit, &scene.inode);
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
		.volume = 8, .inode = 9, .size = 10, .changed_ns = scene.clock
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
	FcStart start = fc_revive(&revived, scene.rig.memory, &config,
	                          &scene.rig.flash.device, identity, nonce);

	if (start != FC_START_MEMORY)
		return start;
	fc_revive_audit(&revived);
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

#endif
