/*
 * async.c
 *		Linux AIO on files that a device plays.  See async.h.
 *
 * States of a place in the table: free, in flight (the kernel has the request),
 * answered (the kernel is done, the device may not be), and free again when
 * io_getevents() has given the answer to the caller.  The numbers of used
 * places are contiguous, so a search takes as many steps as there are requests.
 */
/* SPDX-License-Identifier: PostgreSQL */
#include "async.h"
#include "play.h"

#include <errno.h>
#include <linux/aio_abi.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>

#define NS_PER_S 1000000000ULL

/* The most requests, or answers, that one call exchanges with the kernel. */
#define BATCH 64

typedef struct Pending
{
	struct iocb copy; /* what was passed to the kernel */
	uint64_t original;
	uint64_t data;
	aio_context_t context;
	EmDevice *device;
	EmOperation operation;
	bool answered;
	uint64_t began_ns;
	EmCharge charge;
	int64_t result;
	int64_t result2;
} Pending;

typedef struct Table
{
	bool ready;
	int used_count;
	uint16_t number[EM_ASYNC_MAX]; /* the used ones first, then the free */
	Pending pending[EM_ASYNC_MAX];
} Table;

static Table *table;

/*
 * The table.
 */

/* Make the table, or set it up again where a fork has wiped it. */
static bool
prepare_table(void)
{
	if (table == NULL)
	{
		void *memory = mmap(NULL, sizeof(Table), PROT_READ | PROT_WRITE,
		                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (memory == MAP_FAILED)
			return false;
		if (madvise(memory, sizeof(Table), MADV_WIPEONFORK) != 0)
		{
			munmap(memory, sizeof(Table));
			return false;
		}
		table = memory;
	}

	if (!table->ready)
	{
		for (int i = 0; i < EM_ASYNC_MAX; i++)
			table->number[i] = (uint16_t) i;
		table->ready = true;
	}
	return true;
}

static Pending *
used(int i)
{
	return &table->pending[table->number[i]];
}

/* A free place, or NULL. */
static Pending *
take_place(void)
{
	if (!prepare_table() || table->used_count == EM_ASYNC_MAX)
		return NULL;

	return used(table->used_count++);
}

/* The last used place takes its position, so walk downwards while freeing. */
static void
free_place(int i)
{
	int last = --table->used_count;
	uint16_t number = table->number[i];

	table->number[i] = table->number[last];
	table->number[last] = number;
}

/* The request of this answer; NULL: it was passed on unchanged. */
static Pending *
pending_of(uint64_t object)
{
	uint64_t first, offset;

	if (table == NULL)
		return NULL;

	first = (uint64_t) (uintptr_t) &table->pending[0].copy;
	offset = object - first;
	if (object < first || offset >= sizeof(table->pending))
		return NULL;

	return &table->pending[offset / sizeof(Pending)];
}

static bool
has_pending(aio_context_t context)
{
	if (table == NULL)
		return false;

	for (int i = 0; i < table->used_count; i++)
		if (used(i)->context == context)
			return true;
	return false;
}

/*
 * Submitting.
 */

/* How a device counts this request; false: no device plays it. */
static bool
operation_of(const struct iocb *request, const EmFile *file,
             EmOperation *operation_out)
{
	switch (request->aio_lio_opcode)
	{
		case IOCB_CMD_PREAD:
		case IOCB_CMD_PREADV:
			*operation_out = EM_READ;
			return true;
		case IOCB_CMD_PWRITE:
		case IOCB_CMD_PWRITEV:
			*operation_out = file->is_log ? EM_LOG_WRITE : EM_WRITE;
			return true;
		case IOCB_CMD_FSYNC:
		case IOCB_CMD_FDSYNC:
			*operation_out = file->is_log ? EM_LOG_SYNC : EM_DATA_SYNC;
			return true;
		default:
			return false;
	}
}

static uint64_t
bytes_of(const struct iocb *request)
{
	const struct iovec *vector =
		(const struct iovec *) (uintptr_t) request->aio_buf;
	uint64_t bytes = 0;

	switch (request->aio_lio_opcode)
	{
		case IOCB_CMD_PREAD:
		case IOCB_CMD_PWRITE:
			return request->aio_nbytes;
		case IOCB_CMD_PREADV:
		case IOCB_CMD_PWRITEV:
			for (uint64_t i = 0; i < request->aio_nbytes; i++)
				bytes += vector[i].iov_len;
			return bytes;
		default:
			return 0;
	}
}

/*
 * What to pass to the kernel for a request: the request itself if no device
 * plays it, or else its copy.  NULL and errno if it cannot be accepted.
 */
static struct iocb *
prepare(aio_context_t context, struct iocb *request, uint64_t now_ns)
{
	const EmFile *file = em_file_of((int) request->aio_fildes);
	EmOperation operation;
	Pending *pending;

	if (file == NULL || !operation_of(request, file, &operation))
		return request;

	/* The kernel would signal the eventfd before the device is finished. */
	if ((request->aio_flags & IOCB_FLAG_RESFD) != 0)
	{
		errno = EINVAL;
		return NULL;
	}

	pending = take_place();
	if (pending == NULL)
	{
		errno = EAGAIN;
		return NULL;
	}

	pending->copy = *request;
	pending->original = (uint64_t) (uintptr_t) request;
	pending->data = request->aio_data;
	pending->context = context;
	pending->device = file->device;
	pending->operation = operation;
	pending->answered = false;
	pending->began_ns = now_ns;
	return &pending->copy;
}

/* The kernel has accepted the request: start it on the device, too. */
static void
begin(Pending *pending)
{
	const struct iocb *copy = &pending->copy;
	const EmFile *file = em_file_of((int) copy->aio_fildes);
	EmRequest request = { .now_ns = pending->began_ns,
		                  .file = file->identity,
		                  .offset = (uint64_t) copy->aio_offset,
		                  .bytes = bytes_of(copy) };

	pending->charge = em_play_reserve(file, pending->operation, &request);
}

/* Submit a batch; returns how many were accepted, or -1 and errno. */
static long
submit_batch(EmKernel kernel, aio_context_t context, struct iocb **requests,
             int count)
{
	struct iocb *given[BATCH];
	uint64_t now_ns = em_clock_ns();
	int before = table == NULL ? 0 : table->used_count;
	int prepared = 0;
	long accepted = -1;
	int saved_errno;

	while (prepared < count &&
	       (given[prepared] = prepare(context, requests[prepared], now_ns)) !=
	           NULL)
		prepared++;
	if (prepared > 0)
		accepted = kernel(SYS_io_submit, context, (long) prepared, given);
	saved_errno = errno;

	/* Copies are in the order of their requests, those refused at the end. */
	for (int i = 0; i < prepared; i++)
	{
		Pending *pending = pending_of((uint64_t) (uintptr_t) given[i]);

		if (pending == NULL)
			continue;
		if (i >= accepted)
			break;
		begin(pending);
		before++;
	}
	if (table != NULL)
		table->used_count = before;
	errno = saved_errno;
	return accepted;
}

static long
submit(EmKernel kernel, aio_context_t context, long count,
       struct iocb **requests)
{
	long accepted = 0;

	while (accepted < count)
	{
		int batch = count - accepted < BATCH ? (int) (count - accepted) : BATCH;
		long done = submit_batch(kernel, context, requests + accepted, batch);

		if (done < 0)
			return accepted > 0 ? accepted : -1;
		accepted += done;
		if (done < batch)
			break;
	}

	return accepted;
}

/*
 * Getting answers.
 */

typedef struct Getting
{
	EmKernel kernel;
	long number; /* io_getevents or io_pgetevents */
	aio_context_t context;
	struct io_event *next; /* where the caller's next answer goes */
	long room;
	long given;
	long signals; /* the additional argument of io_pgetevents */
} Getting;

static void
give(Getting *getting, const struct io_event *event)
{
	*getting->next++ = *event;
	getting->room--;
	getting->given++;
}

static void
give_pending(Getting *getting, const Pending *pending, uint64_t now_ns)
{
	struct io_event event = { .data = pending->data,
		                      .obj = pending->original,
		                      .res = pending->result,
		                      .res2 = pending->result2 };

	give(getting, &event);
	if (pending->result >= 0)
		em_device_count(pending->device, pending->operation,
		                (uint64_t) pending->result, &pending->charge,
		                now_ns - pending->began_ns);
}

static struct timespec
timespec_of(uint64_t ns)
{
	return (struct timespec){ .tv_sec = (time_t) (ns / NS_PER_S),
		                      .tv_nsec = (long) (ns % NS_PER_S) };
}

/*
 * Take answers from the kernel, waiting up to timeout_ns for "least" of them.
 * Those that no device plays go to the caller at once.  Returns how many came,
 * or -1.
 */
static long
fetch(Getting *getting, long least, uint64_t timeout_ns)
{
	struct io_event event[BATCH];
	struct timespec timeout = timespec_of(timeout_ns);
	long asked = getting->room < BATCH ? getting->room : BATCH;
	long got =
		getting->kernel(getting->number, getting->context, least, asked, event,
	                    timeout_ns == UINT64_MAX ? NULL : &timeout,
	                    least > 0 ? getting->signals : 0L);

	for (long i = 0; i < got; i++)
	{
		Pending *pending = pending_of(event[i].obj);

		if (pending == NULL)
		{
			give(getting, &event[i]);
			continue;
		}
		pending->result = event[i].res;
		pending->result2 = event[i].res2;
		pending->answered = true;
		/* A request that failed, or moved no byte, costs nothing. */
		if (pending->result < 0 ||
		    (pending->result == 0 && bytes_of(&pending->copy) > 0))
			pending->charge = (EmCharge){ .end_ns = pending->began_ns };
	}
	return got;
}

/* Fetch all that the kernel has finished; false and errno if that fails. */
static bool
fetch_finished(Getting *getting)
{
	while (getting->room > 0)
	{
		long asked = getting->room < BATCH ? getting->room : BATCH;
		long got = fetch(getting, 0, 0);

		if (got < 0)
			return false;
		if (got < asked)
			break;
	}

	return true;
}

/* The answered request that is due first, and its time; -1: there is none. */
static int
find_first(aio_context_t context, uint64_t now_ns, uint64_t *due_ns_out)
{
	int first = -1;

	*due_ns_out = UINT64_MAX;
	for (int i = 0; i < table->used_count; i++)
	{
		const Pending *pending = used(i);
		uint64_t due_ns;

		if (!pending->answered || pending->context != context)
			continue;
		due_ns = em_device_due(pending->device, pending->charge.end_ns, now_ns);
		if (first < 0 || due_ns < *due_ns_out)
		{
			first = i;
			*due_ns_out = due_ns;
		}
	}

	return first;
}

static void
give_due(Getting *getting)
{
	uint64_t now_ns = em_clock_ns();
	uint64_t due_ns;
	int first;

	while ((first = find_first(getting->context, now_ns, &due_ns)) >= 0 &&
	       getting->room > 0 && due_ns <= now_ns)
	{
		give_pending(getting, used(first), now_ns);
		free_place(first);
	}
}

/*
 * When will this many answers be due?  So a caller that waits for several is
 * not woken for fewer.  UINT64_MAX if the kernel has not yet answered that
 * many.
 */
static uint64_t
due_together(aio_context_t context, long count, uint64_t now_ns)
{
	uint64_t due_ns[EM_ASYNC_MAX]; /* the earliest ones, in order */
	long found = 0;

	if (count > EM_ASYNC_MAX)
		return UINT64_MAX;
	for (int i = 0; i < table->used_count; i++)
	{
		const Pending *pending = used(i);
		uint64_t due;
		long place;

		if (!pending->answered || pending->context != context)
			continue;
		due = em_device_due(pending->device, pending->charge.end_ns, now_ns);
		place = found < count ? found++ : count;
		for (; place > 0 && due_ns[place - 1] > due; place--)
			if (place < count)
				due_ns[place] = due_ns[place - 1];
		if (place < count)
			due_ns[place] = due;
	}
	return found < count ? UINT64_MAX : due_ns[count - 1];
}

static long
get_events(Getting *getting, long least, const struct timespec *timeout)
{
	uint64_t deadline_ns = UINT64_MAX;

	if (timeout != NULL)
		deadline_ns = em_clock_ns() + (uint64_t) timeout->tv_sec * NS_PER_S +
		              (uint64_t) timeout->tv_nsec;

	for (;;)
	{
		uint64_t until_ns, now_ns;

		if (!fetch_finished(getting))
			return getting->given > 0 ? getting->given : -1;
		/* A process that is stopped here gets what was due by the deadline. */
		now_ns = em_clock_ns();
		give_due(getting);
		if (getting->given >= least || getting->room == 0 ||
		    now_ns >= deadline_ns)
			return getting->given;

		/* Wait until enough are due, or the kernel finishes another one. */
		until_ns =
			due_together(getting->context, least - getting->given, now_ns);
		if (until_ns > deadline_ns)
			until_ns = deadline_ns;
		if (until_ns > now_ns &&
		    fetch(getting, 1,
		          until_ns == UINT64_MAX ? UINT64_MAX : until_ns - now_ns) < 0)
			return getting->given > 0 ? getting->given : -1;
	}
}

/* End a context: the kernel waits for requests in flight, and so do we. */
static long
destroy(EmKernel kernel, aio_context_t context)
{
	long result = kernel(SYS_io_destroy, context);

	if (result != 0 || table == NULL)
		return result;

	for (int i = table->used_count - 1; i >= 0; i--)
	{
		Pending *pending = used(i);

		if (pending->context != context)
			continue;
		em_device_count(pending->device, pending->operation,
		                bytes_of(&pending->copy), &pending->charge,
		                em_play_wait(pending->device, pending->charge.end_ns) -
		                    pending->began_ns);
		free_place(i);
	}
	return 0;
}

bool
em_async_plays(long number)
{
	switch (number)
	{
		case SYS_io_submit:
		case SYS_io_getevents:
		case SYS_io_pgetevents:
		case SYS_io_destroy:
		case SYS_io_uring_setup:
			return true;
		default:
			return false;
	}
}

long
em_async_call(EmKernel kernel, long number, const long argument[6])
{
	aio_context_t context = (aio_context_t) argument[0];

	if (number == SYS_io_uring_setup)
	{
		errno = ENOSYS;
		return -1;
	}
	if (number == SYS_io_submit && argument[1] > 0)
		return submit(kernel, context, argument[1],
		              (struct iocb **) argument[2]);
	if (number == SYS_io_destroy)
		return destroy(kernel, context);
	if (number != SYS_io_submit && argument[2] > 0 && has_pending(context))
	{
		Getting getting = { .kernel = kernel,
			                .number = number,
			                .context = context,
			                .next = (struct io_event *) argument[3],
			                .room = argument[2],
			                .signals = argument[5] };

		return get_events(&getting, argument[1],
		                  (const struct timespec *) argument[4]);
	}

	return kernel(number, argument[0], argument[1], argument[2], argument[3],
	              argument[4], argument[5]);
}
