/*
 * bridge_restart.c
 *		The parts of the cache that outlive the server, and whether they may be
 *		used again.
 *
 * The cache's memory is a POSIX shared memory object of its own, so it still
 * exists after the server was killed; core's revive.c decides what of it is
 * then valid.  Its name contains the user and the data directory.  It is
 * created with O_EXCL, for its owner only (0600), and its space is reserved at
 * once: /dev/shm may be small (64 MB in a container), and a page that cannot be
 * allocated later raises SIGBUS.  An object found under the name is used only
 * if it is a plain one of ours that no other user may write.  If there is no
 * such memory, the cache is in PostgreSQL's shared memory, and is cold after a
 * crash.
 *
 * The server and all its children share a lock (flock) on the memory, which
 * ends with the last of them.  So the command pgflash memory remove can tell
 * which memory is in use, even by another container.
 *
 * No other server uses the memory, because the cache files are locked first,
 * and that lock is held until the last child of a killed server is gone.
 *
 * A map may be read after a reboot, so it is saved only if everything that the
 * server wrote is on disk: after a shutdown of a server that has always synced.
 * Otherwise flash would keep what the disk has lost.  A server that is shut
 * down in recovery may not have synced what it wrote since its last
 * restartpoint; then we sync it.
 *
 * A map is trusted only while the control file is byte for byte as it was when
 * the map was saved, and memory only while the control file is as the memory's
 * server last wrote it.  Otherwise the cluster has run without this cache: the
 * flash was not mounted, or the library not loaded.  If that run ended in a
 * power failure, or a file system lost its last changes, a write can be on disk
 * without its change time, and recovery may never touch the file again: the
 * stamps of stamp.c would not reveal that.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "access/xlog.h"
#include "catalog/pg_control.h"
#include "common/controldata_utils.h"
#include "miscadmin.h"
#include "port.h"
#include "storage/ipc.h"

#include "bridge/bridge_mounts.h"
#include "bridge/bridge_pages.h"
#include "bridge/bridge_restart.h"
#include "broken.h"
#include "fcache/housekeeping.h"
#include "fcache/writer.h"
#include "hooks/runtime.h"
#include "hooks/volume.h"
#include "settings.h"

/*
 * To read a block, or to write some hundred; a device that takes longer has
 * stalled.
 */
#define FLUSH_NS 5000000000ULL

/* No living process holds the lock for this long. */
#define LOCK_TRIES   100
#define LOCK_WAIT_US 10000L

#define BOOT_ID_FILE "/proc/sys/kernel/random/boot_id"

static char name[64];
static int fd = -1;
static void *reserved;
static size_t reserved_size;
static bool reserved_is_zeros; /* new, no cache laid out in it yet */

/* A cache was started in it. */
static bool used;

static FcStart start = FC_START_NOTHING;

/* ---- identity ------------------------------------------------------------ */

/* Read the hexadecimal digits of the file, folded into two numbers. */
static bool
boot_id(uint64_t out[2])
{
	char text[64];
	int boot_fd = open(BOOT_ID_FILE, O_RDONLY | O_CLOEXEC);
	ssize_t length = boot_fd < 0 ? -1 : read(boot_fd, text, sizeof(text));
	unsigned digits = 0;

	if (boot_fd >= 0)
		close(boot_fd);
	out[0] = out[1] = 0;
	for (ssize_t i = 0; i < length; i++)
	{
		const char *hex = "0123456789abcdef";
		const char *digit = text[i] == '\0' ? NULL : strchr(hex, text[i]);

		if (digit != NULL && digits < 32)
		{
			out[digits / 16] = out[digits / 16] << 4 | (uint64_t) (digit - hex);
			digits++;
		}
	}
	return digits == 32;
}

/* Read the control file; false if it is damaged. */
static bool
read_checkpoint(FcCheckpoint *checkpoint, DBState *state_out)
{
	bool whole;
	ControlFileData *control = get_controlfile(DataDir, &whole);

	*checkpoint = (FcCheckpoint){
		.location = control->checkPoint,
		.time = (int64_t) control->checkPointCopy.time,
		.timeline = control->checkPointCopy.ThisTimeLineID,
		.crc = (uint32_t) control->crc,
	};
	*state_out = control->state;
	pfree(control);
	return whole;
}

static bool
know_identity(FcIdentity *identity)
{
	struct stat status;
	Volume volume;
	DBState state;

	if (stat(DataDir, &status) != 0 || !volume_ask(-1, DataDir, &volume) ||
	    !boot_id(identity->boot) ||
	    !read_checkpoint(&identity->checkpoint, &state))
		return false;
	identity->system = GetSystemIdentifier();
	identity->directory_volume =
		volume.number != 0 ? volume.number : (uint64_t) status.st_dev;
	identity->directory_inode = (uint64_t) status.st_ino;
	identity->boot[1] ^= bridge_mounts_id();
	return true;
}

/* ---- memory that outlives the server ------------------------------------- */

static bool
is_ours(const struct stat *status)
{
	return S_ISREG(status->st_mode) && status->st_uid == geteuid() &&
	       (status->st_mode & 0777) == 0600 && status->st_nlink == 1;
}

static void
not_reserved(const char *why)
{
	ereport(LOG,
	        (errmsg("pgflash: the cache will be cold after a crash: %s", why)));
}

/*
 * Keep the memory from being removed while it is used.  A remover holds the
 * lock alone for a moment; memory removed by then has no link any more.
 */
static bool
lock_memory(void)
{
	for (int i = 0; i < LOCK_TRIES; i++)
	{
		if (FC_BROKEN(MEMORY_LOCK) || flock(fd, LOCK_SH | LOCK_NB) == 0)
			return true;
		if (errno != EWOULDBLOCK && errno != EINTR)
			return false;
		pg_usleep(LOCK_WAIT_US);
	}
	return false;
}

/* Map the memory of this name; false if there is none, or it cannot be used. */
static bool
open_old(size_t size)
{
	struct stat status;

	fd = shm_open(name, O_RDWR | O_CLOEXEC, 0);
	if (fd < 0)
		return false;
	if (!lock_memory() || fstat(fd, &status) != 0 || !is_ours(&status) ||
	    (size_t) status.st_size != size)
	{
		start = FC_START_GEOMETRY;
		close(fd);
		fd = -1;

		/*
		 * This fails if it is not ours.  If it succeeds, its owner could not
		 * have used the memory.
		 */
		(void) shm_unlink(name);
		return false;
	}
	return true;
}

static bool
make_new(size_t size)
{
	int error;

	Assert(fd < 0);
	fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return false;

	/* Memory that is still empty is not removed. */
	(void) lock_memory();
	do
		error = posix_fallocate(fd, 0, (off_t) size);
	while (error == EINTR);
	if (error == 0)
	{
		reserved_is_zeros = true;
		return true;
	}

	close(fd);
	fd = -1;
	(void) shm_unlink(name);
	errno = error;
	return false;
}

/* This process was not a server, or it ended before it started a cache. */
static void
drop_unused(int code, Datum argument)
{
	(void) code;
	(void) argument;
	if (!used)
		bridge_restart_release();
}

bool
bridge_restart_reserve(size_t size)
{
	struct stat status;

	Assert(reserved == NULL || size == reserved_size);
	if (reserved != NULL || name[0] != '\0')
		return reserved != NULL;
	snprintf(name, sizeof(name), "-");
	if (!setting_warm_restart)
	{
		start = FC_START_UNWANTED;
		return false;
	}
	if (stat(DataDir, &status) != 0)
		return false;
	snprintf(name, sizeof(name), "/pgflash.%u.%llx.%llx", (unsigned) geteuid(),
	         (unsigned long long) status.st_dev,
	         (unsigned long long) status.st_ino);

	if (!open_old(size))
	{
		if (!make_new(size))
		{
			not_reserved(strerror(errno));
			return false;
		}
		on_proc_exit(drop_unused, (Datum) 0);
	}
	reserved = bridge_pages_map(fd, size);
	if (reserved == MAP_FAILED)
	{
		not_reserved(strerror(errno));
		reserved = NULL;
		close(fd);
		fd = -1;
		(void) shm_unlink(name);
		return false;
	}
	reserved_size = size;
	return true;
}

/* Make the memory all zeros, and keep its space reserved. */
static bool
empty_reserved(void)
{
	int error;

	Assert(reserved != NULL && fd >= 0);

	/* Reserving 350 MB, for a cache of 100 GB, takes some 50 ms. */
	if (reserved_is_zeros)
		return true;
	if (ftruncate(fd, 0) != 0)
		return false;
	do
		error = posix_fallocate(fd, 0, (off_t) reserved_size);
	while (error == EINTR);
	errno = error;
	return error == 0;
}

/* ---- the cache ----------------------------------------------------------- */

static const char *
words(FcStart how)
{
	switch (how)
	{
		case FC_START_NOTHING:
			return "cold: there was no earlier cache";
		case FC_START_MEMORY:
			return "warm: its memory outlived the server";
		case FC_START_MAP:
			return "warm: from the map that was saved at shutdown";
		case FC_START_UNCLEAN:
			return "cold: the server was not shut down, and the cache's "
				   "memory is gone";
		case FC_START_CHECKPOINT:
			return "cold: the server has run without this cache since";
		case FC_START_FORMAT:
			return "cold: the cache is of another version of pgflash";
		case FC_START_GEOMETRY:
			return "cold: the size of the cache, or of its memory, has changed";
		case FC_START_SYSTEM:
			return "cold: the cache is another cluster's";
		case FC_START_DIRECTORY:
			return "cold: the cache is another data directory's";
		case FC_START_BOOT:
			return "cold: the machine was rebooted, or a file system of "
				   "the data was mounted, since then";
		case FC_START_NONCE:
			return "cold: the cache files are not those that were used last";
		case FC_START_CORRUPT:
			return "cold: the cache file's superblock or map is damaged";
		case FC_START_OFFLINE:
			return "cold: the cache was offline";
		case FC_START_UNREADABLE:
			return "cold: the operating system refused";
		case FC_START_UNWANTED:
			return "cold: pgflash.warm_restart is off";
	}
	return "?";
}

const char *
bridge_restart_reason(void)
{
	return words(start);
}

/* Continue with an earlier life's cache, if it can be trusted. */
static bool
revive(FcCache *cache, const FcConfig *config, FcDevice *devices,
       const FcIdentity *identity, uint64_t life)
{
	FcStart how = fc_revive(cache, reserved, config, devices, identity, life);

	/* The first reason is more precise than "nothing". */
	if (how != FC_START_NOTHING)
		start = how;
	return how == FC_START_MEMORY;
}

void
bridge_restart_release(void)
{
	if (reserved == NULL)
		return;
	Assert(fd >= 0 && reserved_size > 0);
	bridge_pages_forget();
	(void) munmap(reserved, reserved_size);
	close(fd);
	(void) shm_unlink(name);
	reserved = NULL;
	fd = -1;
}

/*
 * Wait until the file system's clock ticks: a change in the same tick as the
 * server's last one would not change ctime.  File systems that keep only whole
 * seconds, or every other one, are recognized by a time without nanoseconds.
 */
static void
wait_for_tick(void)
{
	struct stat status;
	bool whole_seconds =
		stat("global/pg_control", &status) != 0 || status.st_ctim.tv_nsec == 0;

	pg_usleep(whole_seconds ? 2100000L : 20000L);
}

/* Save the map, or log why not; true if the memory need not be kept. */
static bool
save_map(FcCache *cache, const FcCheckpoint *checkpoint, bool in_recovery)
{
	Assert(cache->shared != NULL);
	if (fc_map_unsynced(cache))
	{
		ereport(LOG,
		        (errmsg("pgflash: the map of the cache is not saved: fsync "
		                "was off"),
		         errdetail("The cache will be cold if the machine is "
		                   "rebooted.")));
		return false;
	}
	if (in_recovery && !FC_BROKEN(RECOVERY_SYNC) && !bridge_mounts_sync())
	{
		/*
		 * Data that could not be synced may be lost, so the files may lack it.
		 */
		ereport(LOG, (errmsg("pgflash: the map of the cache is not saved: the "
		                     "data files could not be synced: %m"),
		              errdetail("The cache will be cold.")));
		return true;
	}
	if (fc_map_save(cache, checkpoint) != FC_FAILED)
		return true;
	ereport(LOG, (errmsg("pgflash: could not save the map of the cache: %m"),
	              errdetail("The cache will be cold if the machine is "
	                        "rebooted.")));
	return false;
}

void
bridge_restart_end(FcCache *cache, bool in_order)
{
	FcCheckpoint checkpoint;
	DBState state;
	bool done;

	Assert(!IsUnderPostmaster);
	if (cache->shared == NULL)
		return;
	if (!setting_warm_restart)
	{
		/*
		 * Record the wear in any case, unless the device hangs: waiting would
		 * not end.
		 */
		if (in_order && fc_probe_all(cache, FLUSH_NS) &&
		    fc_writer_flush(cache, FLUSH_NS) == FC_OK)
			fc_wear_end(cache);
		return;
	}

	/*
	 * A server that fails to start, for a mistake in pg_hba.conf or a port in
	 * use, must not lose a warm cache.
	 */
	if (fc_map_load_leave(cache) == FC_OK)
	{
		fc_wear_end(cache);
		bridge_restart_release();
		return;
	}

	/* After any other end the cache remains in memory. */
	if (!in_order || !read_checkpoint(&checkpoint, &state) ||
	    (state != DB_SHUTDOWNED && state != DB_SHUTDOWNED_IN_RECOVERY))
		return;
	if (fc_writer_ring_info(cache).stood_in_ns >= STAND_IN_NS)
		ereport(LOG, (errmsg("pgflash: not all blocks that the last checkpoint "
		                     "wrote are cached: flash was too slow")));

	/*
	 * The writer ended before the last checkpoint, so the last blocks of that
	 * are still staged.  If the device does not accept them, or does not answer
	 * at all, saving the map would wait forever.
	 */
	if (!fc_probe_all(cache, FLUSH_NS))
	{
		ereport(LOG, (errmsg("pgflash: the map of the cache is not saved: "
		                     "flash does not answer")));
		return;
	}
	if (fc_mode(cache, NULL) != FC_OFFLINE &&
	    fc_writer_flush(cache, FLUSH_NS) != FC_OK)
	{
		ereport(LOG, (errmsg("pgflash: the map of the cache is not saved: the "
		                     "last blocks could not be written")));
		return;
	}
	wait_for_tick();
	done = save_map(cache, &checkpoint, state == DB_SHUTDOWNED_IN_RECOVERY);
	/* Afterwards: it syncs, too, and would take the error of a lost slot. */
	fc_wear_end(cache);
	if (done)
		bridge_restart_release();
}

bool
bridge_restart_create(FcCache *cache, void *memory, const FcConfig *config,
                      FcDevice *devices)
{
	FcIdentity identity = { 0 };
	uint32_t count = config->device_count != 0 ? config->device_count : 1;
	uint64_t life = fc_life_found(devices, count);
	bool known = know_identity(&identity);
	bool warm = memory == NULL && known &&
	            revive(cache, config, devices, &identity, life);
	uint64_t nonce = 0;

	Assert(!IsUnderPostmaster && (memory != NULL || reserved != NULL));
	used = true;
	if (!warm && memory == NULL)
	{
		if (!empty_reserved())
			return false;
		memory = reserved;
	}
	reserved_is_zeros = false;
	if (!warm && fc_cache_create(cache, memory, config, devices) != FC_OK)
		return false;
	if (!warm && start != FC_START_UNWANTED)
	{
		FcStart map =
			known ? fc_map_load_begin(cache, &identity) : FC_START_UNREADABLE;

		/* The memory that was found may have given a better reason. */
		if (map == FC_START_MAP || start <= FC_START_MAP)
			start = map;
	}

	Assert(warm == (start == FC_START_MEMORY));

	/* 0 means no life, so none of the cache will be used again. */
	while (known && nonce == 0 && pg_strong_random(&nonce, sizeof(nonce)))
		;
	if (nonce == 0 || fc_life_begin(cache, &identity, nonce) != FC_OK)
		not_reserved("the cache files could not be marked");
	ereport(LOG, (errmsg("pgflash: the cache is %s", words(start))));
	return true;
}
