/*
 * uring.c
 *		Reads that the server hands to io_uring (PostgreSQL 18 and later).
 *
 * The server stages entries in its ring, each a read of some blocks into its
 * buffers, and submits them together.  Any process may reap them.
 *
 * submit	For each staged read of a relation's file: what flash has is read
 *			and judged now, into the server's buffers, exactly as for a read
 *			that the server makes itself.  Such an entry becomes a write of
 *			these buffers to /dev/null.  The kernel performs it at once, reads
 *			no byte, and reports the number of bytes that the server expects of
 *			its read.  All other entries stay as they are; the tickets of blocks
 *			to fill are noted under the number of the server's handle, in shared
 *			memory.
 * reap		The process that takes a completed entry from a ring sees it here
 *			first: the blocks that it read are filled under their tickets.  No
 *			process changes the buffers until the server has seen the
 *			completion.
 *
 * wait		A single block that flash is still fetching is held instead: its
 *			entry becomes one that does nothing and has no completion.  The
 *			process that waits for the ring finishes the read, and tells the
 *			server.  It reads its own block like any other.  Only the process
 *			that held a read has what flash fetched, so another process's block
 *			is read from the file.
 *
 * So processes share no state for a hit; for a miss they share only what a fill
 * needs, and for a held read only where it belongs.  See docs/decisions.
 *
 * If several reads are submitted together, all their blocks on flash are
 * requested first (fc_read_ahead) and then waited for one by one.
 *
 * An entry that is not a read could change a file unseen.  The server submits
 * none; if it ever does, the cache goes offline first.
 *
 * A ring that does not look like liburing's (uring_ring.h) is left alone, and
 * the cache goes offline, too.
 *
 * Locking: none.  A handle is written by its owner before the kernel has the
 * entry, and read by the holder of the server's lock on the ring.  The same
 * lock is held where reads are finished.
 *
 * A signal handler may end the process while it finishes a held read.  So the
 * read is claimed only when its blocks are there; until then, the next holder
 * of the lock finishes it.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "hooks/uring.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "account/account_calls.h"
#include "broken.h"
#include "fcache/assert.h"
#include "hooks/advice.h"
#include "hooks/paths.h"
#include "hooks/request.h"
#include "hooks/runtime.h"
#include "hooks/uring_ring.h"
#include "settings.h"

/* Staged entries that are worked on together. */
#define BATCH 32

/* At most this many plans for fills are under way at a time. */
#define PLANS 512

/* A plan is searched for in this many places. */
#define PLAN_PROBES 8

/* As many as flash fetches ahead for a process. */
#define HELD_MAX FC_AHEAD_BLOCKS_MAX

/*
 * What holding reads needs: entries without a completion (Linux 5.17), and
 * waits with a limit that stage no entry (5.11).
 */
#define FEATURES_TO_HOLD (IORING_FEAT_CQE_SKIP | IORING_FEAT_EXT_ARG)

/*
 * A process that waits for another process's ring looks again after this time,
 * since its owner may have held a read meanwhile.
 */
#define LOOK_AGAIN_NS 5000000

/* A read has at least this part of the deadline; otherwise it is not begun. */
#define DEADLINE_PART 50

/* The blocks to fill once the entry is read, and where they are. */
typedef struct Plan
{
	_Atomic uint32_t owner; /* number of the handle + 1; 0: free */
	FillPlan fill;
	void *page[RUN_FILL_BLOCKS];
} Plan;

/* A read that is under way. */
typedef struct Handle
{
	AccountLater account;
	FcFile file;
	uint64_t begin_ns;  /* what flash took before a miss included */
	uint64_t submit_ns; /* 0: not under way, or not ours */
	uint32_t blocks;
	uint32_t size;
	uint32_t plan; /* + 1; 0: nothing is filled */
	uint8_t class; /* a FileClass */
	uint8_t source;
	bool watched; /* a turn of the advice */
	bool served;  /* the cache served when it was submitted */

	/* A read of one block that is held. */
	bool bulk;
	int fd; /* its owner's */
	uint32_t block;
	_Atomic uintptr_t held_by; /* the ring; 0: it is not held */
	uint64_t user_data;
	void *page;
} Handle;

typedef struct Shared
{
	_Atomic uint32_t held; /* reads, of all processes */
	Plan plan[PLANS];
	Handle handle[];
} Shared;

/* A staged entry that is a read of a file we know. */
typedef struct Staged
{
	struct io_uring_sqe *entry;
	OpenFile *file;
	int64_t number; /* of the server's handle; negative: unknown */
	bool bulk;
	bool wanted; /* flash is asked */
	AccountSource source;
} Staged;

typedef int Submit(struct io_uring *ring);
typedef unsigned PeekBatch(struct io_uring *ring, struct io_uring_cqe **cqes,
                           unsigned count);
typedef int WaitCqes(struct io_uring *ring, struct io_uring_cqe **cqe,
                     unsigned count, struct __kernel_timespec *limit,
                     void *signals);

static Submit *real_submit;
static PeekBatch *real_peek_batch;
static WaitCqes *real_wait;
static int null_fd = -1;

static UringServer server;
static bool wanted;
static Shared *shared;

/* This process has just waited for a completion, so its time is known. */
static bool waited;

/* This process's ring, and the handles of its held reads, oldest first. */
static const Ring *own_ring;
static uint32_t held[HELD_MAX];
static unsigned held_first;
static unsigned held_count;

/* ---- life ---------------------------------------------------------------- */

static bool
find_function(const char *name, void *at, const char **culprit_out)
{
	void *found = dlsym(RTLD_DEFAULT, name);

	memcpy(at, &found, sizeof(found));
	*culprit_out = name;
	return found != NULL;
}

static bool
is_null_device(int fd)
{
	struct stat found;

	return fd >= 0 && fstat(fd, &found) == 0 && S_ISCHR(found.st_mode) &&
	       found.st_rdev == makedev(1, 3);
}

/* If our descriptor was closed, its number may refer to a file now. */
static bool
has_null_device(void)
{
	if (null_fd < 0)
		null_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
	return is_null_device(null_fd);
}

bool
uring_prepare(const char **culprit_out)
{
	if (!find_function("io_uring_submit", &real_submit, culprit_out) ||
	    !find_function("io_uring_peek_batch_cqe", &real_peek_batch,
	                   culprit_out) ||
	    !find_function("io_uring_wait_cqes", &real_wait, culprit_out))
		return false;
	*culprit_out = "/dev/null";
	return has_null_device();
}

void
uring_want(const UringServer *of)
{
	server = *of;
	wanted = server.handles > 0;
}

size_t
uring_memory_size(void)
{
	return wanted ? sizeof(Shared) + server.handles * sizeof(Handle) : 0;
}

void
uring_create(void *memory)
{
	FC_ASSERT(memory != NULL && wanted);
	memset(memory, 0, uring_memory_size());
	shared = memory;
}

void
uring_detach(void)
{
	shared = NULL;
}

static bool
attached(void)
{
	return shared != NULL && *runtime.shared_memory != NULL;
}

static Handle *
handle_of(uint64_t user_data, int64_t *number_out)
{
	*number_out = attached() ? server.handle_number(user_data) : -1;
	if (*number_out < 0 || *number_out >= server.handles)
	{
		*number_out = -1;
		return NULL;
	}
	return &shared->handle[*number_out];
}

/* ---- plans --------------------------------------------------------------- */

static Plan *
take_plan(uint32_t number)
{
	FC_ASSERT(number < server.handles);
	for (uint32_t i = 0; i < PLAN_PROBES; i++)
	{
		Plan *plan = &shared->plan[(number + i) % PLANS];
		uint32_t owner = 0;

		if (atomic_compare_exchange_strong(&plan->owner, &owner, number + 1))
			return plan;
	}
	return NULL;
}

/* The plan of a handle, if it has one. */
static Plan *
plan_of(const Handle *handle, int64_t number)
{
	Plan *plan;

	if (handle->plan == 0)
		return NULL;
	FC_ASSERT(handle->plan <= PLANS);
	plan = &shared->plan[handle->plan - 1];
	return atomic_load(&plan->owner) == (uint32_t) number + 1 ? plan : NULL;
}

/* Forget what an earlier read noted under this handle. */
static void
forget(Handle *handle, int64_t number)
{
	Plan *plan = plan_of(handle, number);

	if (plan != NULL)
		atomic_store(&plan->owner, 0);
	handle->plan = 0;
	handle->submit_ns = 0;
}

/* Do all processes have this page, and at the same address? */
static bool
page_shared(const char *page)
{
	size_t size;
	const char *first = server.shared_pages(&size);

	return page >= first && page + FC_BLOCK_SIZE <= first + size;
}

static bool
pages_shared(const Run *run)
{
	for (unsigned i = 0; i < run->count; i++)
	{
		if (!page_shared(run->page[i]))
			return false;
	}
	return true;
}

static void
keep_plan(Handle *handle, int64_t number, const FillPlan *fill, const Run *run)
{
	Plan *plan;

	FC_ASSERT(handle->plan == 0);
	if (fill->count == 0 || !pages_shared(run))
		return;
	FC_ASSERT(run->count <= RUN_FILL_BLOCKS);
	plan = take_plan((uint32_t) number);
	if (plan == NULL)
	{
		fc_count(&runtime.cache, FC_COUNT_insert_skip_writer_overloaded,
		         fill->count);
		return;
	}
	plan->fill.count = fill->count;
	memcpy(plan->fill.block, fill->block, sizeof(fill->block));
	memcpy(plan->fill.ticket, fill->ticket,
	       fill->count * sizeof(fill->ticket[0]));
	memcpy(plan->page, run->page, run->count * sizeof(run->page[0]));
	handle->plan = (uint32_t) (plan - shared->plan) + 1;
}

/* ---- submit -------------------------------------------------------------- */

/* The cache can no longer be used: a file may be changed unseen. */
static void
give_up(void)
{
	if (!runtime_attached())
		return;
	(void) fc_mode_set(&runtime.cache, FC_OFFLINE, FC_REASON_HOST);
}

static bool
ring_is_known(const Ring *ring)
{
	unsigned entries = *ring->submission.entries;

	return (ring->flags & LARGE_ENTRIES) == 0 && entries > 0 &&
	       (entries & (entries - 1)) == 0 &&
	       *ring->submission.mask == entries - 1 &&
	       ring->submission.staged_to - ring->submission.staged_from <= entries;
}

static bool
is_read(const struct io_uring_sqe *entry)
{
	return entry->opcode == IORING_OP_READ || entry->opcode == IORING_OP_READV;
}

static Call
call_of(Staged *staged)
{
	const struct io_uring_sqe *entry = staged->entry;
	Call call = { .fd = entry->fd,
		          .offset = (off_t) entry->off,
		          .source = &staged->source };

	FC_ASSERT(is_read(entry));
	if (entry->opcode == IORING_OP_READ)
	{
		call.buffer = (void *) (uintptr_t) entry->addr;
		call.size = entry->len;
		return call;
	}
	call.iov = (const struct iovec *) (uintptr_t) entry->addr;
	call.iov_count = (int) entry->len;
	for (int i = 0; i < call.iov_count; i++)
		call.size += call.iov[i].iov_len;
	return call;
}

/* Does the entry use only a file and blocks?  Then it may be replaced. */
static bool
is_plain(const struct io_uring_sqe *entry)
{
	return (entry->flags & ~IOSQE_ASYNC) == 0 && entry->rw_flags == 0 &&
	       entry->buf_index == 0;
}

/*
 * The blocks are where the server wants them.  Let the kernel report that:
 * writing them to /dev/null takes no time and returns their size.
 */
static void
answer(struct io_uring_sqe *entry)
{
	FC_ASSERT(is_read(entry) && is_plain(entry));
	entry->opcode =
		entry->opcode == IORING_OP_READ ? IORING_OP_WRITE : IORING_OP_WRITEV;
	entry->fd = null_fd;
	entry->flags = 0;
	entry->off = 0;
}

/* Note the read and its file under its handle. */
static void
begin(Staged *staged)
{
	Call call = call_of(staged);
	Handle *handle = handle_of(staged->entry->user_data, &staged->number);
	OpenFile *file = request_file(call.fd);
	Run run;

	staged->file = descriptors_entry(call.fd);
	staged->source = SOURCE_UNTOLD;
	staged->wanted = false;
	if (handle == NULL)
		return;
	forget(handle, staged->number);
	if (staged->file == NULL)
		return;

	handle->account = account_read_begins(staged->file);
	handle->file = staged->file->file;
	handle->class = staged->file->class;
	handle->size = (uint32_t) call.size;
	handle->blocks = (uint32_t) (call.size / FC_BLOCK_SIZE);
	handle->served = handle->watched = false;
	handle->begin_ns = handle->submit_ns = fc_clock_ns();
	if (call.size == 0 || call.offset < 0)
		return;

	if (file != NULL && request_cache_serves())
	{
		Request request = request_begin(&call, file, &run);

		handle->file = file->file; /* its number may be known only now */
		staged->bulk = run.bulk;
		staged->wanted = request == REQUEST_WANTED && is_plain(staged->entry);
		if (request == REQUEST_PAGE_CACHE)
			fc_count(&runtime.cache, FC_COUNT_page_cache_reads, run.count);
		if (request == REQUEST_BYPASS)
			fc_count(&runtime.cache, FC_COUNT_bypass_reads, 1);
		handle->served = request == REQUEST_WANTED;
	}
	else if ((setting_account || advice_attached()) &&
	         !request_in_page_cache(&call, staged->file) && file != NULL &&
	         advice_attached() && request_run(&call, &run))
	{
		handle->watched = advice_turn();
		if (handle->watched ||
		    advice_wants(file->file.id, run.first, run.count))
			advice_note(file->file.id, run.first, run.count);
	}
	handle->source = (uint8_t) staged->source;
}

/* Begin to fetch the blocks of several reads, so that their waits overlap. */
static void
fetch_ahead(Staged staged[], unsigned count)
{
	unsigned wanting = 0;

	for (unsigned i = 0; i < count; i++)
		wanting += staged[i].wanted;
	if (wanting < 2)
		return;
	for (unsigned i = 0; i < count; i++)
	{
		Call call = call_of(&staged[i]);
		Run run;

		if (!staged[i].wanted || !request_run(&call, &run) ||
		    !request_all_cached(staged[i].file, run.first, run.count))
			continue;
		if (run.count > FC_AHEAD_BLOCKS_MAX)
			run.count = FC_AHEAD_BLOCKS_MAX;
		if (fc_read_ahead(&runtime.cache, &staged[i].file->file, run.first,
		                  run.count) != run.first + run.count)
			return; /* no room for more */
	}
}

/* Serve the read from flash, or note what it is to fill. */
static void
serve(Staged *staged)
{
	Handle *handle = &shared->handle[staged->number];
	Call call = call_of(staged);
	Accounted counted;
	FillPlan plan;
	Run run;

	FC_ASSERT(staged->wanted && staged->number >= 0);
	if (!request_run(&call, &run))
		return;
	run.bulk = staged->bulk;

	account_begin(&counted, staged->file);
	if (request_serve(&call, staged->file, &run, &plan))
	{
		account_end_read(&counted, staged->source, call.fd, call.size,
		                 (ssize_t) call.size);
		answer(staged->entry);
		forget(handle, staged->number);
		return;
	}
	if (FC_BROKEN(URING_END))
		request_fill(&staged->file->file, &plan, run.page, (ssize_t) call.size);
	keep_plan(handle, staged->number, &plan, &run);
	handle->submit_ns = fc_clock_ns();
}

/* Count a read that has ended, as far as its time is known. */
static void
count_read(const Handle *handle, ssize_t got, bool timed)
{
	uint64_t ns = timed ? fc_clock_ns() - handle->submit_ns : 0;
	OpenFile file = { .class = handle->class, .file = handle->file };

	account_read_ended(&handle->account, &file, (AccountSource) handle->source,
	                   handle->size, got, fc_clock_ns() - handle->begin_ns);
	if (handle->source == SOURCE_PAGE_CACHE)
		return;
	if (handle->served && runtime_attached())
		fc_read_disk_done(&runtime.cache, &handle->file, handle->blocks,
		                  got > 0 ? (uint64_t) got : 0, ns);
	if (handle->watched)
		advice_count(handle->blocks, ADVICE_TURNS);
	if ((handle->served || handle->watched) && timed)
		advice_disk_read(handle->blocks, ns);
}

/* ---- reads that are held ------------------------------------------------- */

static bool
may_hold(const Ring *ring)
{
	return server.complete != NULL &&
	       (ring->features & FEATURES_TO_HOLD) == FEATURES_TO_HOLD;
}

/* The oldest read that this process holds and no other has finished. */
static Handle *
own_held(int64_t *number_out)
{
	for (; held_count > 0; held_count--)
	{
		Handle *handle = &shared->handle[held[held_first]];

		*number_out = held[held_first];
		if (atomic_load(&handle->held_by) == (uintptr_t) own_ring)
			return handle;
		held_first = (held_first + 1) % HELD_MAX;
	}
	return NULL;
}

/* May this process hold one more? */
static bool
has_room(void)
{
	int64_t number;

	FC_ASSERT(held_count <= HELD_MAX);
	return own_held(&number) == NULL || held_count < HELD_MAX;
}

/*
 * Hold the read of a block that flash is fetching, so that this process can do
 * something else meanwhile.
 */
static bool
hold(const Ring *ring, const Staged *staged)
{
	Handle *handle = &shared->handle[staged->number];
	struct io_uring_sqe *entry = staged->entry;
	uint32_t block = (uint32_t) (entry->off / FC_BLOCK_SIZE);

	FC_ASSERT(staged->wanted && staged->number >= 0);
	if (!may_hold(ring) || !has_room() || entry->opcode != IORING_OP_READ ||
	    entry->len != FC_BLOCK_SIZE ||
	    !page_shared((const char *) (uintptr_t) entry->addr) ||
	    !fc_read_begin(&runtime.cache, &staged->file->file, block))
		return false;

	handle->bulk = staged->bulk;
	handle->fd = entry->fd;
	handle->block = block;
	handle->user_data = entry->user_data;
	handle->page = (void *) (uintptr_t) entry->addr;
	*entry = (struct io_uring_sqe){ .opcode = IORING_OP_NOP,
		                            .flags = IOSQE_CQE_SKIP_SUCCESS,
		                            .fd = -1,
		                            .user_data = handle->user_data };
	held[(held_first + held_count++) % HELD_MAX] = (uint32_t) staged->number;
	atomic_fetch_add(&shared->held, 1);

	/* From here on, another process may finish it. */
	atomic_store(&handle->held_by, (uintptr_t) ring);
	return true;
}

/* A read that another process's ring holds. */
static Handle *
held_by(const Ring *ring, int64_t *number_out)
{
	FC_ASSERT(ring != own_ring);
	if (atomic_load(&shared->held) == 0 || FC_BROKEN(URING_HELD))
		return NULL;
	for (uint32_t i = 0; i < server.handles; i++)
	{
		*number_out = i;
		if (atomic_load(&shared->handle[i].held_by) == (uintptr_t) ring)
			return &shared->handle[i];
	}
	return NULL;
}

/* Open the file; return its descriptor, or an error's negative number. */
static int
open_file(const FcFile *file)
{
	char path[PATHS_MAX];
	int error;
	int fd;

	paths_of_file(&runtime.root, file->id, path);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0)
		return fd;
	error = errno;
	if ((error != EMFILE && error != ENFILE) || !is_null_device(null_fd))
		return -error;

	/* Close ours: no more hits are better than a read that fails. */
	close(null_fd);
	null_fd = -1;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd >= 0 ? fd : -errno;
}

/* Read it from its file, which this process may not have open. */
static int
finish_of_another(const Handle *handle)
{
	int fd = open_file(&handle->file);
	int result;

	if (fd < 0)
		return fd;
	result = (int) pread(fd, handle->page, FC_BLOCK_SIZE,
	                     (off_t) handle->block * FC_BLOCK_SIZE);
	if (result < 0)
		result = -errno;
	close(fd);
	(void) has_null_device(); /* as long as there is a descriptor for it */
	count_read(handle, result, false);
	return result;
}

/*
 * What is left of a read's deadline, which began when it was held.  If flash is
 * no longer fetching the block, it has either come, or must be read again.  A
 * new read gets the whole time; otherwise its device, which was not asked
 * meanwhile, would seem to hang.
 */
static uint64_t
time_left(const Handle *handle)
{
	uint64_t limit_ns = (uint64_t) setting_read_deadline_ms * 1000000;
	uint64_t gone_ns = fc_clock_ns() - handle->submit_ns;
	uint64_t least_ns = limit_ns / DEADLINE_PART;

	if (!FC_BROKEN(URING_AGAIN) &&
	    !fc_read_under_way(&runtime.cache, &handle->file, handle->block))
		return limit_ns;
	return gone_ns + least_ns < limit_ns ? limit_ns - gone_ns : least_ns;
}

/* Read it like any other, from flash, which has had time, or from the file. */
static int
finish_own(const Handle *handle)
{
	AccountSource source = (AccountSource) handle->source;
	Call call = { .fd = handle->fd,
		          .buffer = handle->page,
		          .size = FC_BLOCK_SIZE,
		          .offset = (off_t) handle->block * FC_BLOCK_SIZE,
		          .source = &source };
	OpenFile *file = descriptors_entry(call.fd);
	Accounted counted;
	ssize_t got;
	Run run;

	/* In case the server has closed the descriptor, though it never does: */
	if (file == NULL ||
	    memcmp(&file->file.id, &handle->file.id, sizeof(file->file.id)) != 0)
		return finish_of_another(handle);

	account_begin(&counted, file);
	if (request_file(call.fd) != NULL && request_cache_serves() &&
	    request_run(&call, &run))
	{
		run.bulk = handle->bulk;
		runtime.cache.read_deadline_ns = time_left(handle);
		got = reads_wanted(&call, file, &run);

		/* Reset it for reads that do not set it, as in verification. */
		runtime.cache.read_deadline_ns =
			(uint64_t) setting_read_deadline_ms * 1000000;
	}
	else
		got = pread(call.fd, call.buffer, call.size, call.offset);
	account_end_read(&counted, source, call.fd, call.size, got);
	return got < 0 ? -errno : (int) got;
}

/*
 * From here on no other process finishes the read.  When the server knows that
 * it has ended, its owner may use the handle again.
 */
static void
claim(uint64_t user_data)
{
	int64_t number;
	Handle *handle = handle_of(user_data, &number);

	FC_ASSERT(handle != NULL && atomic_load(&handle->held_by) != 0);
	forget(handle, number);
	atomic_store(&handle->held_by, 0);
	atomic_fetch_sub(&shared->held, 1);
}

/* Finish one of the reads that this ring holds; false if there is none. */
static bool
finish_one(const Ring *ring)
{
	int64_t number = -1;
	Handle *handle =
		ring == own_ring ? own_held(&number) : held_by(ring, &number);
	int result;

	if (handle == NULL)
		return false;
	FC_ASSERT(number >= 0 && number < server.handles);
	result = ring == own_ring ? finish_own(handle) : finish_of_another(handle);
	server.complete(handle->user_data, result, claim);
	return true;
}

/* ---- submit: all entries of a ring --------------------------------------- */

static void
submit_reads(const Ring *ring, Staged staged[], unsigned count)
{
	uint64_t deadline_ns = (uint64_t) setting_read_deadline_ms * 1000000;
	uint64_t end_ns = fc_clock_ns() + deadline_ns;

	if (count == 0 || !has_null_device())
		return;
	if (count == 1 && staged->wanted && hold(ring, staged))
		return;
	fetch_ahead(staged, count);
	for (unsigned i = 0; i < count; i++)
	{
		uint64_t now_ns;

		if (!staged[i].wanted)
			continue;
		/*
		 * One deadline covers all of them.  A read with too little time left
		 * would fail on a healthy device, which would count as a fault.
		 */
		now_ns = fc_clock_ns();
		if (now_ns + deadline_ns / DEADLINE_PART > end_ns)
			break;
		runtime.cache.read_deadline_ns = end_ns - now_ns;
		serve(&staged[i]);
	}
	runtime.cache.read_deadline_ns = deadline_ns;
}

static void
look_at_staged(const Ring *ring)
{
	unsigned from = ring->submission.staged_from;
	unsigned to = ring->submission.staged_to;
	Staged staged[BATCH];

	while (from != to)
	{
		unsigned count = 0;

		for (; from != to && count < BATCH; from++)
		{
			struct io_uring_sqe *entry =
				&ring->submission.sqes[from & *ring->submission.mask];

			if (!is_read(entry))
			{
				give_up();
				continue;
			}
			staged[count].entry = entry;
			begin(&staged[count++]);
		}
		submit_reads(ring, staged, count);
	}
}

int
uring_submit(struct io_uring *of)
{
	int saved_errno = errno;
	const Ring *ring = (const Ring *) of;

	if (!ring_is_known(ring))
		give_up();
	else if (attached() &&
	         ring->submission.staged_from != ring->submission.staged_to)
		look_at_staged(own_ring = ring);
	errno = saved_errno;
	return real_submit(of);
}

/* ---- reap ---------------------------------------------------------------- */

int
uring_wait_cqes(struct io_uring *of, struct io_uring_cqe **cqe, unsigned count,
                struct __kernel_timespec *limit, void *signals)
{
	struct __kernel_timespec look_again = { .tv_nsec = LOOK_AGAIN_NS };
	const Ring *ring = (const Ring *) of;
	bool of_another = limit == NULL && ring != own_ring && may_hold(ring);
	int saved_errno = errno;
	int result;

	/* The caller finds its read ended, or no completion, or both. */
	if (attached() && finish_one(ring))
	{
		*cqe = ring->completion.cqes;
		errno = saved_errno;
		return 0;
	}
	errno = saved_errno;
	result =
		real_wait(of, cqe, count, of_another ? &look_again : limit, signals);
	waited = result == 0;
	return of_another && result == -ETIME ? -EINTR : result;
}

static void
end(const struct io_uring_cqe *cqe, bool timed)
{
	int64_t number;
	Handle *handle = handle_of(cqe->user_data, &number);
	Plan *plan;

	if (handle == NULL || handle->submit_ns == 0)
		return;
	count_read(handle, cqe->res, timed);
	plan = plan_of(handle, number);
	if (plan != NULL && request_cache_serves())
		request_fill(&handle->file, &plan->fill, plan->page, cqe->res);
	forget(handle, number);
}

unsigned
uring_peek_batch_cqe(struct io_uring *ring, struct io_uring_cqe **cqes,
                     unsigned count)
{
	unsigned found = real_peek_batch(ring, cqes, count);
	int saved_errno = errno;
	bool timed = waited;

	waited = false;
	for (unsigned i = 0; attached() && i < found; i++)
		end(cqes[i], timed);
	errno = saved_errno;
	return found;
}
