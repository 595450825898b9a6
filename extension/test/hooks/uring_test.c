/*
 * uring_test.c
 *		Reads by io_uring, without a server: a ring of the kernel's, staged and
 *		reaped as PostgreSQL does it.
 *
 * The program has liburing's three functions itself, on the kernel's real
 * calls; the hooks find them by name.  The negative controls are this program
 * built with FC_BREAK.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <stdarg.h>
#include <stdbool.h>

static bool aio_call(long number, va_list arguments, long *result_out);
#define CALL_OF_TEST aio_call

#include "stage.h"

#include <linux/aio_abi.h>
#include <linux/io_uring.h>
#include <stdatomic.h>
#include <sys/resource.h>

#include "fcache/writer.h"
#include "hooks/uring.h"

typedef int (*TruncateHook)(int, off_t);
typedef int (*UnlinkHook)(const char *);

/* liburing 2's structures, as its binary interface has them. */
struct io_uring
{
	unsigned *sq_head, *sq_tail, *sq_mask, *sq_entries, *sq_flags, *sq_dropped,
		*sq_array;
	struct io_uring_sqe *sqes;
	unsigned sqe_head, sqe_tail;
	size_t sq_size;
	void *sq_ring;
	unsigned sq_reserved[4];
	unsigned *cq_head, *cq_tail, *cq_mask, *cq_entries, *cq_flags, *cq_overflow;
	struct io_uring_cqe *cqes;
	size_t cq_size;
	void *cq_ring;
	unsigned cq_reserved[4];
	unsigned flags;
	int fd;
	unsigned features;
};

#define ENTRIES 8
#define HANDLES 32
#define DATA    1000 /* the content of the entry of handle 0 */

static struct io_uring ring;
static Page *pages; /* the server's buffers: one for each handle and more */
#define PAGES (2 * HANDLES)

/* How reads ended that the server was told of, by handle; 0: not yet. */
static int *ended;

/* ---- a slow flash -------------------------------------------------------- */

#define LATE_MAX 64

/* Flash begins with a read when somebody waits for one. */
static bool flash_is_slow;
static struct iocb late[LATE_MAX];
static long late_count;
static long late_context; /* the reader's; the writer has another one */

/* Core's clock in test builds (core/src/broken.h); 0: the real one. */
extern uint64_t fc_test_now_ns;

/* How long the reader would wait for flash; 0: it has not waited. */
static uint64_t waits_ns;

/* Called when the reader would wait for flash next. */
static void (*at_wait)(void);

static long
call_kernel(long number, ...)
{
	va_list arguments;
	long result;

	va_start(arguments, number);
	result = really(number, arguments);
	va_end(arguments);
	return result;
}

static void
begin_late(long context)
{
	for (long i = 0; i < late_count; i++)
	{
		struct iocb *one = &late[i];

		if (call_kernel(SYS_io_submit, context, 1L, &one, 0L, 0L, 0L) != 1)
			abort();
	}
	late_count = 0;
}

static bool
aio_call(long number, va_list arguments, long *result_out)
{
	long a[6];

	if (number != SYS_io_setup && number != SYS_io_destroy &&
	    number != SYS_io_submit && number != SYS_io_getevents)
		return false;
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(arguments, long);
	if (number == SYS_io_submit && flash_is_slow && late_count < LATE_MAX)
	{
		late_context = a[0];
		late[late_count++] = **(struct iocb **) a[2];
		*result_out = 1;
		return true;
	}
	if (number == SYS_io_getevents && a[0] == late_context && a[1] > 0)
	{
		const struct timespec *limit = (const struct timespec *) a[4];

		waits_ns = (uint64_t) limit->tv_sec * 1000000000ULL +
		           (uint64_t) limit->tv_nsec;
		if (at_wait != NULL)
			at_wait();
		begin_late(a[0]);
	}
	*result_out = call_kernel(number, a[0], a[1], a[2], a[3], a[4], a[5]);
	return true;
}

/* ---- liburing ------------------------------------------------------------ */

extern int io_uring_submit(struct io_uring *of);
extern unsigned io_uring_peek_batch_cqe(struct io_uring *of,
                                        struct io_uring_cqe **cqes,
                                        unsigned count);
extern int io_uring_wait_cqes(struct io_uring *of, struct io_uring_cqe **cqe,
                              unsigned count, struct __kernel_timespec *limit,
                              void *signals);

int
io_uring_submit(struct io_uring *of)
{
	unsigned tail = *of->sq_tail;
	unsigned count = of->sqe_tail - of->sqe_head;

	for (; of->sqe_head != of->sqe_tail; of->sqe_head++, tail++)
		of->sq_array[tail & *of->sq_mask] = of->sqe_head & *of->sq_mask;
	__atomic_store_n(of->sq_tail, tail, __ATOMIC_RELEASE);
	return (int) syscall(SYS_io_uring_enter, (long) of->fd, (long) count, 0L,
	                     0L, 0L, 0L);
}

unsigned
io_uring_peek_batch_cqe(struct io_uring *of, struct io_uring_cqe **cqes,
                        unsigned count)
{
	unsigned head = *of->cq_head;
	unsigned tail = __atomic_load_n(of->cq_tail, __ATOMIC_ACQUIRE);
	unsigned found = 0;

	for (; head != tail && found < count; head++)
		cqes[found++] = &of->cqes[head & *of->cq_mask];
	return found;
}

int
io_uring_wait_cqes(struct io_uring *of, struct io_uring_cqe **cqe,
                   unsigned count, struct __kernel_timespec *limit,
                   void *signals)
{
	struct io_uring_getevents_arg how = { .ts = (uintptr_t) limit };
	long done = syscall(SYS_io_uring_enter, (long) of->fd, 0L, (long) count,
	                    (long) (IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG),
	                    (long) &how, (long) sizeof(how));

	(void) signals;
	return done < 0 || io_uring_peek_batch_cqe(of, cqe, 1) == 0 ? -errno : 0;
}

static void *
map_ring(int fd, size_t size, off_t what)
{
	return mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
	            fd, what);
}

static bool
open_ring(void)
{
	struct io_uring_params of = { .flags = 0 };
	char *sq, *cq;

	ring.fd = (int) syscall(SYS_io_uring_setup, (long) ENTRIES, (long) &of, 0L,
	                        0L, 0L, 0L);
	if (ring.fd < 0)
		return false;
	ring.features = of.features;
	sq = map_ring(ring.fd, of.sq_off.array + of.sq_entries * sizeof(unsigned),
	              IORING_OFF_SQ_RING);
	cq = map_ring(ring.fd,
	              of.cq_off.cqes + of.cq_entries * sizeof(struct io_uring_cqe),
	              IORING_OFF_CQ_RING);
	ring.sqes = map_ring(ring.fd, of.sq_entries * sizeof(struct io_uring_sqe),
	                     IORING_OFF_SQES);
	ring.sq_tail = (unsigned *) (sq + of.sq_off.tail);
	ring.sq_mask = (unsigned *) (sq + of.sq_off.ring_mask);
	ring.sq_entries = (unsigned *) (sq + of.sq_off.ring_entries);
	ring.sq_array = (unsigned *) (sq + of.sq_off.array);
	ring.cq_head = (unsigned *) (cq + of.cq_off.head);
	ring.cq_tail = (unsigned *) (cq + of.cq_off.tail);
	ring.cq_mask = (unsigned *) (cq + of.cq_off.ring_mask);
	ring.cqes = (struct io_uring_cqe *) (cq + of.cq_off.cqes);
	return true;
}

/* ---- the server ---------------------------------------------------------- */

static int64_t
handle_number(uint64_t user_data)
{
	return user_data >= DATA && user_data < DATA + HANDLES
	           ? (int64_t) (user_data - DATA)
	           : -1;
}

static const void *
shared_pages(size_t *size_out)
{
	*size_out = PAGES * sizeof(Page);
	return pages;
}

static void
complete(uint64_t user_data, int result, void (*claim)(uint64_t user_data))
{
	claim(user_data);
	ended[user_data - DATA] = result;
}

static struct io_uring_sqe *
stage(unsigned handle, int opcode, int fd, const void *at, unsigned length,
      uint32_t block)
{
	struct io_uring_sqe *entry = &ring.sqes[ring.sqe_tail++ & *ring.sq_mask];

	memset(entry, 0, sizeof(*entry));
	entry->opcode = (uint8_t) opcode;
	entry->fd = fd;
	entry->addr = (uintptr_t) at;
	entry->len = length;
	entry->off = (uint64_t) block * FC_BLOCK_SIZE;
	entry->user_data = DATA + handle;
	return entry;
}

static void
stage_block(unsigned handle, int fd, uint32_t block)
{
	pages[handle] = page_of('?');
	(void) stage(handle, IORING_OP_READ, fd, &pages[handle], FC_BLOCK_SIZE,
	             block);
}

/* Take one completion; return its result, and its handle. */
static int
reap(unsigned *handle_out)
{
	struct io_uring_cqe *cqe;
	int result;

	while (uring_peek_batch_cqe(&ring, &cqe, 1) == 0)
	{
		if (uring_wait_cqes(&ring, &cqe, 1, NULL, NULL) != 0)
			abort();
	}
	*handle_out = (unsigned) (cqe->user_data - DATA);
	result = cqe->res;
	__atomic_store_n(ring.cq_head, *ring.cq_head + 1, __ATOMIC_RELEASE);
	return result;
}

/* Read a block by handle 0; return the kernel's result. */
static int
read_by_ring(int fd, uint32_t block)
{
	unsigned handle;

	stage_block(0, fd, block);
	if (uring_submit(&ring) != 1)
		abort();
	return reap(&handle);
}

/* ---- tests --------------------------------------------------------------- */

static void
test_a_hit(void)
{
	int fd = cached_relation(PATH);
	uint64_t hits = counter(FC_COUNT_hits);
	unsigned handle = 99;

	plant(PATH, 8, 'z');
	stage_block(3, fd, 0);
	errno = 4711;
	OK(uring_submit(&ring) == 1 && errno == 4711,
	   "an entry that flash answers is submitted");
	OK(reap(&handle) == FC_BLOCK_SIZE && handle == 3 &&
	       page_is(&pages[3], 'a') && counter(FC_COUNT_hits) == hits + 1,
	   "and completes with the cached block, the file being changed unseen");

	page_cache_is_full = true;
	OK(read_by_ring(fd, 0) == FC_BLOCK_SIZE && page_is(&pages[0], 'z') &&
	       counter(FC_COUNT_hits) == hits + 1,
	   "what the page cache holds is left to it");
	page_cache_is_full = false;

	stage(0, IORING_OP_READ, fd, &pages[0], FC_BLOCK_SIZE, 0)->flags =
		IOSQE_IO_DRAIN;
	OK(uring_submit(&ring) == 1 && reap(&handle) == FC_BLOCK_SIZE &&
	       page_is(&pages[0], 'z'),
	   "an entry with flags that we do not know is left alone");
	server_close(fd);
}

static void
test_a_fill(void)
{
	int fd = cached_relation(PATH);

	OK(read_by_ring(fd, 1) == FC_BLOCK_SIZE && page_is(&pages[0], 'a'),
	   "a block that is not cached comes from the file");
	plant(PATH, 8, 'z');
	OK(read_by_ring(fd, 1) == FC_BLOCK_SIZE && page_is(&pages[0], 'a'),
	   "URING_END: a block is filled with what its read gave");
	OK(read_by_ring(fd, 8) == 0 && read_by_ring(fd, 8) == 0,
	   "beyond the end there is nothing, and nothing is filled");
	server_close(fd);
}

static void
test_a_change_meanwhile(void)
{
	int fd = cached_relation(PATH);
	Page page = page_of('c');
	unsigned handle;

	stage_block(0, fd, 2);
	OK(uring_submit(&ring) == 1 &&
	       changes_pwrite(fd, &page, sizeof(page), 2 * FC_BLOCK_SIZE) ==
	           FC_BLOCK_SIZE &&
	       reap(&handle) == FC_BLOCK_SIZE,
	   "a block is changed while it is read");
	OK(read_by_ring(fd, 2) == FC_BLOCK_SIZE && page_is(&pages[0], 'c'),
	   "TICKET_AFTER: then it is not filled with what it was");
	server_close(fd);
}

static void
test_runs(void)
{
	int fd = cached_relation(PATH);
	struct iovec parts[2] = { { &pages[4], FC_BLOCK_SIZE },
		                      { &pages[9], FC_BLOCK_SIZE } };
	unsigned handle;

	(void) stage(1, IORING_OP_READV, fd, parts, 2, 0);
	OK(uring_submit(&ring) == 1 && reap(&handle) == 2 * FC_BLOCK_SIZE &&
	       page_is(&pages[9], 'a'),
	   "a run that is cached in part comes from the file");
	plant(PATH, 8, 'z');
	pages[4] = pages[9] = page_of('?');
	(void) stage(1, IORING_OP_READV, fd, parts, 2, 0);
	OK(uring_submit(&ring) == 1 && reap(&handle) == 2 * FC_BLOCK_SIZE &&
	       page_is(&pages[4], 'a') && page_is(&pages[9], 'a'),
	   "what was missing is filled, and then all of it comes from flash");
	server_close(fd);
}

static void
test_many(void)
{
	int fd = cached_relation(PATH);
	unsigned handle;
	unsigned right = 0;

	for (unsigned i = 0; i < 8; i++)
		(void) read_by_ring(fd, i);
	plant(PATH, 6, 'z');
	fc_cache_clear(&runtime.cache);
	for (unsigned i = 0; i < 3; i++)
		(void) read_by_ring(fd, i);
	plant(PATH, 8, 'y');
	for (unsigned i = 0; i < 8; i++)
		stage_block(i, fd, i);
	OK(uring_submit(&ring) == 8, "eight entries are submitted at once");
	for (unsigned i = 0; i < 8; i++)
	{
		int got = reap(&handle);

		right += got == FC_BLOCK_SIZE &&
		         page_is(&pages[handle], handle < 3 ? 'z' : 'y');
	}
	OK(right == 8, "three come from flash, five from the file");
	server_close(fd);
}

/*
 * The memory of the cache is the child's own: it reads the blocks that it has
 * filled.
 */
static bool
reaped_elsewhere(void)
{
	int fd = server_open(PATH, O_RDWR);
	unsigned handle;
	pid_t child;
	int status;

	stage_block(0, fd, 5);
	if (uring_submit(&ring) != 1)
		return false;
	child = fork();
	if (child == 0)
	{
		if (reap(&handle) != FC_BLOCK_SIZE)
			_exit(1);
		plant(PATH, 8, 'z');
		_exit(server_read(fd, &pages[1], 5) == FC_BLOCK_SIZE &&
		              page_is(&pages[1], 'a')
		          ? 0
		          : 1);
	}
	return waitpid(child, &status, 0) == child && WIFEXITED(status) &&
	       WEXITSTATUS(status) == 0;
}

static void
test_another_process(void)
{
	server_close(cached_relation(PATH));
	OK(reaped_elsewhere(), "another process that reaps a read fills it");
}

static void
test_private_pages(void)
{
	int fd = cached_relation(PATH);
	Page own;
	unsigned handle;

	(void) stage(0, IORING_OP_READ, fd, &own, FC_BLOCK_SIZE, 6);
	OK(uring_submit(&ring) == 1 && reap(&handle) == FC_BLOCK_SIZE &&
	       page_is(&own, 'a'),
	   "a block is read into memory that other processes do not have");
	plant(PATH, 8, 'z');
	OK(read_by_ring(fd, 6) == FC_BLOCK_SIZE && page_is(&pages[0], 'z'),
	   "and not filled");
	server_close(fd);
}

/* ---- reads that are held ------------------------------------------------- */

/* The first blocks of the file are on flash, which is slow. */
static int
flash_relation_same(uint32_t blocks)
{
	int fd = cached_relation(PATH);
	Page page;

	for (uint32_t i = 0; i < blocks; i++)
	{
		if (server_read(fd, &page, i) != FC_BLOCK_SIZE)
			abort();
	}
	if (fc_writer_flush(&runtime.cache, PATIENCE_NS) != FC_OK)
		abort();
	memset(ended, 0, HANDLES * sizeof(*ended));
	flash_is_slow = true;
	return fd;
}

/* And the file has others, unseen. */
static int
flash_relation(uint32_t blocks)
{
	int fd = flash_relation_same(blocks);

	plant(PATH, 8, 'z');
	return fd;
}

static void
test_held(void)
{
	int fd = flash_relation(3);
	uint64_t hits = counter(FC_COUNT_hits);
	struct io_uring_cqe *cqe = NULL;

	for (unsigned i = 0; i < 3; i++)
	{
		stage_block(i, fd, i);
		if (uring_submit(&ring) != 1)
			abort();
	}
	OK(uring_peek_batch_cqe(&ring, &cqe, 1) == 0 && ended[0] == 0 &&
	       page_is(&pages[0], '?') && counter(FC_COUNT_hits) == hits,
	   "reads of blocks that flash is fetching are held");
	errno = 4711;
	OK(uring_wait_cqes(&ring, &cqe, 1, NULL, NULL) == 0 && cqe != NULL &&
	       errno == 4711 && ended[0] == FC_BLOCK_SIZE && ended[1] == 0 &&
	       page_is(&pages[0], 'a'),
	   "a process that waits finishes the oldest, from flash");
	OK(uring_wait_cqes(&ring, &cqe, 1, NULL, NULL) == 0 &&
	       ended[1] == FC_BLOCK_SIZE && page_is(&pages[1], 'a') &&
	       uring_wait_cqes(&ring, &cqe, 1, NULL, NULL) == 0 &&
	       ended[2] == FC_BLOCK_SIZE && page_is(&pages[2], 'a') &&
	       counter(FC_COUNT_hits) == hits + 3,
	   "then the others");
	flash_is_slow = false;
	OK(read_by_ring(fd, 5) == FC_BLOCK_SIZE && page_is(&pages[0], 'z'),
	   "and then waits for what the kernel reads");
	server_close(fd);
}

static void
test_held_and_changed(void)
{
	int fd = flash_relation(2);
	Page page = page_of('c');
	struct io_uring_cqe *cqe;

	stage_block(0, fd, 1);
	OK(uring_submit(&ring) == 1 &&
	       changes_pwrite(fd, &page, sizeof(page), FC_BLOCK_SIZE) ==
	           FC_BLOCK_SIZE &&
	       uring_wait_cqes(&ring, &cqe, 1, NULL, NULL) == 0 &&
	       ended[0] == FC_BLOCK_SIZE && page_is(&pages[0], 'c'),
	   "what is changed while it is held is not served from what flash had");
	flash_is_slow = false;
	server_close(fd);
}

static void
test_held_and_truncated(void)
{
	int fd = flash_relation(3);
	struct io_uring_cqe *cqe;

	stage_block(0, fd, 2);
	ended[0] = -1;
	OK(uring_submit(&ring) == 1 &&
	       HOOK("ftruncate", TruncateHook)(fd, 2 * FC_BLOCK_SIZE) == 0 &&
	       uring_wait_cqes(&ring, &cqe, 1, NULL, NULL) == 0 && ended[0] == 0 &&
	       page_is(&pages[0], '?'),
	   "what is cut off while it is held is not there any more");
	flash_is_slow = false;
	server_close(fd);
}

/* The file's name stands for another file, and its descriptor's number too. */
static void
test_held_and_made_anew(void)
{
	int fd = flash_relation(2);
	struct io_uring_cqe *cqe;
	int other;

	plant("base/5/16385", 8, 'x');
	stage_block(0, fd, 1);
	if (uring_submit(&ring) != 1 || HOOK("unlink", UnlinkHook)(PATH) != 0)
		abort();
	plant(PATH, 8, 'n');
	server_close(fd);
	other = server_open("base/5/16385", O_RDWR);
	OK(other == fd && uring_wait_cqes(&ring, &cqe, 1, NULL, NULL) == 0 &&
	       ended[0] == FC_BLOCK_SIZE && page_is(&pages[0], 'n'),
	   "a held read asks for its own file, whatever its descriptor is now");
	flash_is_slow = false;
	server_close(other);
}

/* One is held, one is the kernel's, one comes from flash at once. */
static void
test_held_beside_others(void)
{
	int fd = flash_relation(2);
	struct io_uring_cqe *cqe;
	unsigned handle = 99;

	stage_block(0, fd, 1);
	if (uring_submit(&ring) != 1)
		abort();
	stage_block(1, fd, 5);
	stage_block(2, fd, 0);
	OK(uring_submit(&ring) == 2 && ended[0] == 0 && page_is(&pages[2], 'a'),
	   "of reads that are submitted together, none is held");
	OK(uring_wait_cqes(&ring, &cqe, 1, NULL, NULL) == 0 &&
	       ended[0] == FC_BLOCK_SIZE && page_is(&pages[0], 'a') &&
	       reap(&handle) == FC_BLOCK_SIZE && reap(&handle) == FC_BLOCK_SIZE &&
	       ended[1] == 0 && ended[2] == 0 && page_is(&pages[1], 'z'),
	   "the one that was held before ends by itself, the others by the kernel");
	flash_is_slow = false;
	server_close(fd);
}

static void
test_held_and_bypassed(void)
{
	int fd = flash_relation(2);
	struct io_uring_cqe *cqe;

	stage_block(0, fd, 1);
	if (uring_submit(&ring) != 1 ||
	    fc_mode_set(&runtime.cache, FC_PASSTHROUGH, FC_REASON_USER) != FC_OK)
		abort();
	OK(uring_wait_cqes(&ring, &cqe, 1, NULL, NULL) == 0 &&
	       ended[0] == FC_BLOCK_SIZE && page_is(&pages[0], 'z'),
	   "if the cache does not serve any more, it comes from the file");
	if (fc_mode_set(&runtime.cache, FC_SERVE, FC_REASON_NONE) != FC_OK)
		abort();
	flash_is_slow = false;
	server_close(fd);
}

/* The clock shows this much more than when it is called. */
static void
much_later(uint64_t ns)
{
	fc_test_now_ns = fc_clock_ns() + ns;
}

/* Even a fiftieth of it is more than a busy machine needs for a block. */
#define LONG_MS 500000
#define LONG_NS (LONG_MS * 1000000ULL)

static void
hold_by(unsigned handle, int fd, uint32_t block)
{
	stage_block(handle, fd, block);
	if (uring_submit(&ring) != 1)
		abort();
}

static void
hold_block(int fd, uint32_t block)
{
	hold_by(0, fd, block);
}

/* Finish the read that is held, much later; was it right? */
static bool
finish_late(int letter)
{
	struct io_uring_cqe *cqe;

	much_later(10 * LONG_NS);
	waits_ns = 0;
	return uring_wait_cqes(&ring, &cqe, 1, NULL, NULL) == 0 &&
	       ended[0] == FC_BLOCK_SIZE && page_is(&pages[0], letter);
}

/* Does a child find it so?  late_count is of reads that are its parent's. */
static bool
in_child(bool (*check)(int), int fd)
{
	pid_t child = fork();
	int status;

	if (child == 0)
	{
		late_count = 0;
		_exit(check(fd) ? 0 : 1);
	}
	return waitpid(child, &status, 0) == child && WIFEXITED(status) &&
	       WEXITSTATUS(status) == 0;
}

/* In a child, since such a device is bypassed from then on. */
static bool
waits_little_for_late_flash(int fd)
{
	hold_block(fd, 1);
	return finish_late('a') && waits_ns > 0 && waits_ns <= LONG_NS / 50;
}

static void
test_held_for_long(void)
{
	int fd = flash_relation(2);
	int deadline_ms = setting_read_deadline_ms;
	struct io_uring_cqe *cqe;
	Page page = page_of('c');

	setting_read_deadline_ms = LONG_MS;
	OK(in_child(waits_little_for_late_flash, fd),
	   "what flash was to have fetched long ago is not waited for much longer");

	hold_block(fd, 0);
	OK(uring_wait_cqes(&ring, &cqe, 1, NULL, NULL) == 0 &&
	       page_is(&pages[0], 'a') && runtime.cache.read_deadline_ns == LONG_NS,
	   "but later reads of any kind have the whole deadline");

	hold_block(fd, 1);
	flash_is_slow = false;
	if (changes_pwrite(fd, &page, sizeof(page), FC_BLOCK_SIZE) !=
	        FC_BLOCK_SIZE ||
	    server_read(fd, &page, 1) != FC_BLOCK_SIZE ||
	    fc_writer_flush(&runtime.cache, PATIENCE_NS) != FC_OK)
		abort();
	flash_is_slow = true;
	OK(finish_late('c') && waits_ns > LONG_NS / 2,
	   "URING_AGAIN: and so has a block that flash must fetch again");
	fc_test_now_ns = 0;

	server_close(fd);
	server_close(flash_relation_same(2));
	fd = server_open(PATH, O_RDWR);
	OK(in_child(waits_little_for_late_flash, fd),
	   "nor is it if the descriptor is read for the first time");

	setting_read_deadline_ms = deadline_ms;
	flash_is_slow = false;
	server_close(fd);
}

static void
test_not_held(void)
{
	int fd = flash_relation(2);
	unsigned features = ring.features;
	unsigned handle;
	Page own;

	ring.features &= ~(unsigned) IORING_FEAT_CQE_SKIP;
	OK(read_by_ring(fd, 1) == FC_BLOCK_SIZE && page_is(&pages[0], 'a') &&
	       ended[0] == 0,
	   "where the kernel completes every entry, flash is waited for");
	ring.features = features;

	(void) stage(0, IORING_OP_READ, fd, &own, FC_BLOCK_SIZE, 0);
	OK(uring_submit(&ring) == 1 && reap(&handle) == FC_BLOCK_SIZE &&
	       page_is(&own, 'a') && ended[0] == 0,
	   "nor is a block held whose memory other processes do not have");
	flash_is_slow = false;
	server_close(fd);
}

/* Take all descriptors that this process may have. */
static void
take_descriptors(void)
{
	struct rlimit few;

	if (getrlimit(RLIMIT_NOFILE, &few) != 0)
		abort();
	few.rlim_cur = 64;
	if (setrlimit(RLIMIT_NOFILE, &few) != 0)
		abort();
	while (dup(0) >= 0)
		;
}

/* A process whose own ring is another one waits for this one. */
static int
wait_elsewhere(bool may_open)
{
	struct io_uring *its = malloc(sizeof(*its));
	struct io_uring_cqe *cqe;
	pid_t child = fork();
	int status;

	if (child == 0)
	{
		unsigned tail = ring.sqe_tail;

		/* The hooks only see that it submits by this one. */
		*its = ring;
		its->sqe_head = tail;
		its->sqe_tail = tail + 1;
		memset(&ring.sqes[tail & *ring.sq_mask], 0, sizeof(ring.sqes[0]));
		ring.sqes[tail & *ring.sq_mask].opcode = IORING_OP_READ;
		ring.sqes[tail & *ring.sq_mask].fd = -1;
		(void) uring_submit(its);
		while (uring_peek_batch_cqe(&ring, &cqe, 1) == 0)
			;
		__atomic_store_n(ring.cq_head, *ring.cq_head + 1, __ATOMIC_RELEASE);
		if (!may_open)
			take_descriptors();
		_exit(-uring_wait_cqes(&ring, &cqe, 1, NULL, NULL));
	}
	if (waitpid(child, &status, 0) != child || !WIFEXITED(status))
		abort();
	free(its);
	return -WEXITSTATUS(status);
}

static void
test_held_by_another(void)
{
	int fd = flash_relation(2);

	OK(wait_elsewhere(true) == -EINTR,
	   "a process that waits for another one's ring looks again soon");
	stage_block(0, fd, 1);
	OK(uring_submit(&ring) == 1 && wait_elsewhere(true) == 0 &&
	       ended[0] == FC_BLOCK_SIZE && page_is(&pages[0], 'z'),
	   "URING_HELD: it finishes what that one holds, from the file");
	stage_block(2, fd, 1);
	OK(uring_submit(&ring) == 1 && wait_elsewhere(false) == 0 &&
	       ended[2] == FC_BLOCK_SIZE && page_is(&pages[2], 'z'),
	   "even if it may open no more files");
	flash_is_slow = false;
	OK(read_by_ring(fd, 5) == FC_BLOCK_SIZE && page_is(&pages[0], 'z'),
	   "which then is held no more");
	server_close(fd);
}

/* End all reads that are under way: a control leaves some. */
static void
end_all(void)
{
	struct __kernel_timespec soon = { .tv_nsec = 1 };
	struct io_uring_cqe *cqe;

	do
	{
		while (uring_peek_batch_cqe(&ring, &cqe, 1) > 0)
			__atomic_store_n(ring.cq_head, *ring.cq_head + 1, __ATOMIC_RELEASE);
	} while (uring_wait_cqes(&ring, &cqe, 1, &soon, NULL) == 0);
	flash_is_slow = false;
}

/* Another process finishes all that one may hold. */
static void
test_held_by_many(void)
{
	int fd = flash_relation(2);
	unsigned finished = 0;

	for (unsigned i = 0; i < FC_AHEAD_BLOCKS_MAX; i++)
		hold_by(i, fd, 1);
	while (finished < FC_AHEAD_BLOCKS_MAX && wait_elsewhere(true) == 0 &&
	       ended[finished] == FC_BLOCK_SIZE)
		finished++;
	waits_ns = 0;
	hold_by(FC_AHEAD_BLOCKS_MAX, fd, 1);
	OK(finished == FC_AHEAD_BLOCKS_MAX && waits_ns == 0 &&
	       page_is(&pages[finished], '?'),
	   "a process holds reads again once another one has finished its own");
	end_all();
	server_close(fd);
}

static void
exit_now(void)
{
	_exit(0);
}

static bool
exits_while_it_waits(int fd)
{
	struct io_uring_cqe *cqe;

	(void) fd;
	at_wait = exit_now;
	(void) uring_wait_cqes(&ring, &cqe, 1, NULL, NULL);
	return false;
}

/* As the server does in a process that ends. */
static void
wait_and_exit(void)
{
	struct __kernel_timespec limit = { .tv_nsec = 1 };
	struct io_uring_cqe *cqe;

	at_wait = NULL;
	_exit(uring_wait_cqes(&ring, &cqe, 1, &limit, NULL) == 0 &&
	              ended[0] == FC_BLOCK_SIZE && page_is(&pages[0], 'z')
	          ? 0
	          : 1);
}

static bool
waits_when_it_exits(int fd)
{
	struct io_uring_cqe *cqe;

	(void) fd;
	at_wait = wait_and_exit;
	(void) uring_wait_cqes(&ring, &cqe, 1, NULL, NULL);
	return false;
}

/* A signal handler ends the process that is finishing a read. */
static void
test_held_and_left(void)
{
	int fd = flash_relation(2);

	hold_block(fd, 1);
	OK(in_child(exits_while_it_waits, fd) && wait_elsewhere(true) == 0 &&
	       ended[0] == FC_BLOCK_SIZE && page_is(&pages[0], 'z'),
	   "what a process has not finished when it exits, another one finishes");
	ended[0] = 0;
	hold_block(fd, 1);
	OK(in_child(waits_when_it_exits, fd) && wait_elsewhere(true) == -EINTR,
	   "or the process itself, since the server makes it wait for its reads");
	end_all();
	server_close(fd);
}

/* ---- what is not as it should be ----------------------------------------- */

/* The number of our descriptor of /dev/null. */
static int
null_descriptor(void)
{
	char name[40];
	char is[40];

	for (int fd = 3; fd < 100; fd++)
	{
		snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
		if (readlink(name, is, sizeof(is)) == (ssize_t) strlen("/dev/null") &&
		    memcmp(is, "/dev/null", strlen("/dev/null")) == 0)
			return fd;
	}
	abort();
}

static void
test_a_lost_descriptor(void)
{
	int fd = cached_relation(PATH);
	int null = null_descriptor();
	int kept = dup(null);
	int victim = open("victim", O_RDWR | O_CREAT | O_TRUNC, 0600);
	struct stat found;

	if (dup2(victim, null) < 0)
		abort();
	OK(read_by_ring(fd, 0) == FC_BLOCK_SIZE && page_is(&pages[0], 'a') &&
	       fstat(victim, &found) == 0 && found.st_size == 0,
	   "nothing is written to a file that has taken our descriptor's number");
	if (dup2(kept, null) < 0)
		abort();
	close(kept);
	close(victim);
	server_close(fd);
}

/* So that what is held must be read by the name of its file. */
static void
replace_descriptor(int fd)
{
	server_close(fd);
	if (server_open("base/5/16385", O_RDWR) != fd)
		abort();
}

/* A file has the number of our descriptor, and there is no other. */
static bool
leaves_a_victim(int fd)
{
	int null = null_descriptor();
	int victim = open("victim", O_RDWR | O_CREAT | O_TRUNC, 0600);
	struct io_uring_cqe *cqe;
	struct stat wanted;
	struct stat found;

	replace_descriptor(fd);
	if (dup2(victim, null) < 0 || fstat(victim, &wanted) != 0)
		abort();
	take_descriptors();
	return uring_wait_cqes(&ring, &cqe, 1, NULL, NULL) == 0 &&
	       ended[0] == -EMFILE && fstat(null, &found) == 0 &&
	       found.st_ino == wanted.st_ino;
}

/* Our descriptor is given up, in vain; then there are enough again. */
static bool
opens_it_again(int fd)
{
	uint64_t hits = counter(FC_COUNT_hits);
	struct io_uring_cqe *cqe;
	struct rlimit many;

	replace_descriptor(fd);
	if (rename("base/5", "away") != 0)
		abort();
	take_descriptors();
	if (uring_wait_cqes(&ring, &cqe, 1, NULL, NULL) != 0 ||
	    ended[0] != -ENOENT || rename("away", "base/5") != 0 ||
	    getrlimit(RLIMIT_NOFILE, &many) != 0)
		return false;
	many.rlim_cur = many.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &many) != 0)
		abort();
	flash_is_slow = false;
	ring.features = 0; /* so that nothing is held */
	fd = server_open(PATH, O_RDWR);
	return read_by_ring(fd, 0) == FC_BLOCK_SIZE && page_is(&pages[0], 'a') &&
	       counter(FC_COUNT_hits) == hits + 1;
}

static void
test_no_descriptors(void)
{
	int fd = flash_relation_same(2);

	plant("base/5/16385", 8, 'x');
	hold_block(fd, 1);
	OK(in_child(leaves_a_victim, fd),
	   "no file is closed that has taken our descriptor's number");
	hold_block(fd, 1);
	OK(in_child(opens_it_again, fd), "our descriptor is opened again");
	flash_is_slow = false;
	server_close(fd);
}

static bool
submits_a_write(void)
{
	int fd = server_open(PATH, O_RDWR);

	(void) stage(0, IORING_OP_WRITE, fd, &pages[0], FC_BLOCK_SIZE, 0);
	return uring_submit(&ring) == 1;
}

static bool
submits_a_strange_ring(void)
{
	struct io_uring strange = ring;

	strange.flags = IORING_SETUP_SQE128;
	(void) uring_submit(&strange);
	return true;
}

static void
test_what_is_not_known(void)
{
	server_close(cached_relation(PATH));
	OK(goes_offline(submits_a_write), "a write takes the cache offline");
	OK(goes_offline(submits_a_strange_ring),
	   "and so does a ring that is not laid out as we know it");
}

int
main(void)
{
	static const UringServer server = { .handles = HANDLES,
		                                .handle_number = handle_number,
		                                .shared_pages = shared_pages,
		                                .complete = complete };
	const char *culprit;

	if (!open_ring())
	{
		printf("1..0 # SKIP io_uring is not available: %s\n", strerror(errno));
		return 0;
	}
	pages = mmap(NULL, PAGES * sizeof(Page), PROT_READ | PROT_WRITE,
	             MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ended = mmap(NULL, HANDLES * sizeof(*ended), PROT_READ | PROT_WRITE,
	             MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	set_up();
	OK(uring_prepare(&culprit), "io_uring's functions are found");
	uring_want(&server);
	uring_create(mmap(NULL, uring_memory_size(), PROT_READ | PROT_WRITE,
	                  MAP_SHARED | MAP_ANONYMOUS, -1, 0));
	test_a_hit();
	test_a_fill();
	test_a_change_meanwhile();
	test_runs();
	test_many();
	test_another_process();
	test_private_pages();
	test_held();
	test_held_and_changed();
	test_held_and_truncated();
	test_held_and_made_anew();
	test_held_beside_others();
	test_held_and_bypassed();
	test_held_for_long();
	test_not_held();
	test_held_by_another();
	test_held_by_many();
	test_held_and_left();
	test_a_lost_descriptor();
	test_no_descriptors();
	test_what_is_not_known();
	tear_down();
	return tap_done();
}
