/*
 * neighbours_test.c
 *		A miss that reads its neighbours: what it reads, what it fills, and when
 *		it leaves them alone.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "faults.h"

#include "fcache/writer.h"
#include "hooks/neighbours.h"

#define FILE_BLOCKS 4000
#define WINDOW      16

/* Misses that make a turn. */
#define TURN 32

static FcWriter *writer;

static int
letter_of(uint32_t block)
{
	return 'A' + (int) (block % 50);
}

/* Each block has a letter; the last may be cut short. */
static int
relation(uint32_t blocks, size_t more_bytes)
{
	int fd;

	unlink(PATH);
	fc_cache_clear(&runtime.cache);
	fd = server_open(PATH, O_RDWR | O_CREAT);
	for (uint32_t block = 0; block < blocks + (more_bytes > 0); block++)
	{
		Page page = page_of(letter_of(block));
		size_t size = block < blocks ? sizeof(page) : more_bytes;

		if (pwrite(fd, &page, size, (off_t) block * FC_BLOCK_SIZE) !=
		    (ssize_t) size)
			abort();
	}
	server_close(fd);
	return server_open(PATH, O_RDWR);
}

/* Forget what was learnt; it is the turn of this number. */
static void
set_turn(uint32_t turn)
{
	Neighbourhood *learnt = &runtime.board->neighbourhood;

	memset(learnt, 0, sizeof(*learnt));
	for (unsigned class = 0; class < NEIGHBOUR_CLASSES; class ++)
		learnt->class[class].misses = turn * TURN;
}

static void
set_times(uint64_t alone_ns, uint64_t small_ns, uint64_t large_ns)
{
	Neighbourhood *learnt = &runtime.board->neighbourhood;

	for (unsigned class = 0; class < NEIGHBOUR_CLASSES; class ++)
	{
		learnt->class[class].mean_ns[0] = alone_ns;
		learnt->class[class].mean_ns[1] = small_ns;
		learnt->class[class].mean_ns[2] = large_ns;
	}
}

static void
write_ring(void)
{
	if (fc_writer_drain(writer, PATIENCE_NS) != FC_OK)
		abort();
}

/* Read a block, which must be right; return how many neighbours were added. */
static uint64_t
added_by(int fd, uint32_t block)
{
	uint64_t before = counter(FC_COUNT_neighbour_inserts);
	Page page = page_of('?');

	if (server_read(fd, &page, block) != FC_BLOCK_SIZE ||
	    !page_is(&page, letter_of(block)))
		return UINT64_MAX;
	write_ring();
	return counter(FC_COUNT_neighbour_inserts) - before;
}

/* Are these blocks cached, with the right content? */
static bool
cached_right(int fd, uint32_t first, uint32_t count)
{
	for (uint32_t block = first; block < first + count; block++)
	{
		uint64_t hits = counter(FC_COUNT_hits);
		Page page;

		if (server_read(fd, &page, block) != FC_BLOCK_SIZE ||
		    !page_is(&page, letter_of(block)) ||
		    counter(FC_COUNT_hits) != hits + 1)
			return false;
	}
	return true;
}

static void
test_windows(void)
{
	static const uint32_t place[] = { 0, 15, 7 };
	int fd = relation(FILE_BLOCKS, 0);

	set_turn(1);
	for (unsigned i = 0; i < 3; i++)
	{
		uint32_t first = 160 * (i + 1);

		OK(added_by(fd, first + place[i]) == WINDOW - 1 &&
		       cached_right(fd, first, WINDOW),
		   "a miss of block %u of a window brings the other 15", place[i]);
		OK(counter(FC_COUNT_neighbour_reads) == 2 * i + 1 &&
		       added_by(fd, first + WINDOW) == WINDOW - 1,
		   "... and none beyond it");
	}
	server_close(fd);
}

static void
test_turns(void)
{
	int fd = relation(FILE_BLOCKS, 0);

	set_turn(0);
	OK(added_by(fd, 1000) == 0, "in the first turn a block is read alone");
	set_turn(8);
	OK(added_by(fd, 1100) == 0, "and in one of eight");
	set_turn(3);
	OK(added_by(fd, 1200) == WINDOW - 1, "in others with its neighbours");

	set_turn(3);
	set_times(1000, 1100, 1100);
	OK(added_by(fd, 1300) == 15, "if a larger read takes little longer");
	set_times(1000, 1100, 1300);
	OK(added_by(fd, 1400) == 7, "or with fewer of them");
	set_times(1000, 1300, 1300);
	OK(added_by(fd, 1500) == 0, "or with none");
	set_turn(66);
	set_times(1000, 1300, 1300);
	OK(added_by(fd, 1600) == 15, "but one turn in 64 tries it again");
	server_close(fd);
}

/* Set what became of watched blocks. */
static void
set_used(uint32_t known, uint32_t used)
{
	Neighbourhood *learnt = &runtime.board->neighbourhood;

	for (unsigned class = 0; class < NEIGHBOUR_CLASSES; class ++)
	{
		learnt->class[class].known = known;
		learnt->class[class].used = used;
	}
}

static uint32_t
used_in_all(uint32_t *known_out)
{
	Neighbourhood *learnt = &runtime.board->neighbourhood;
	uint32_t used = 0;

	*known_out = 0;
	for (unsigned class = 0; class < NEIGHBOUR_CLASSES; class ++)
	{
		*known_out += learnt->class[class].known;
		used += learnt->class[class].used;
	}
	return used;
}

static void
test_use(void)
{
	int fd = relation(FILE_BLOCKS, 0);
	uint32_t known;
	uint32_t used;

	set_turn(3);
	set_times(1000, 1000, 1000);
	set_used(100, 1);
	OK(added_by(fd, 1000) == 0, "neighbours that nobody reads are left alone");
	set_used(100, 10);
	OK(added_by(fd, 1100) == 15, "those that somebody reads are not");

	set_turn(3);
	for (uint32_t i = 0; i < 20; i++)
		(void) added_by(fd, 1200 + 100 * i);
	OK(used_in_all(&known) == 0, "nobody has read one yet");
	for (uint32_t i = 0; i < 20; i++)
	{
		for (uint32_t block = 0; block < WINDOW; block++)
			(void) added_by(fd, (1200 + 100 * i) / WINDOW * WINDOW + block);
	}

	/* Half of 300 are watched, and some take another one's place. */
	used = used_in_all(&known);
	OK(used > 75 && used <= 200 && used <= known,
	   "hits of watched neighbours are counted: %u of %u", used, known);
	for (uint32_t i = 0; i < 20; i++)
		(void) added_by(fd, (1200 + 100 * i) / WINDOW * WINDOW);
	OK(used_in_all(&known) == used, "once each");
	server_close(fd);
}

static void
test_ends(void)
{
	int fd = relation(5, 100);
	Page page;

	set_turn(1);
	OK(server_read(fd, &page, 5) == 100 && page.bytes[0] == letter_of(5) &&
	       page.bytes[99] == letter_of(5),
	   "part of a block at the end of a file is all that there is");
	write_ring();
	OK(cached_right(fd, 0, 5), "and the blocks before it are filled");
	OK(server_read(fd, &page, 5) == 100, "but not the part");
	OK(server_read(fd, &page, 6) == 0, "beyond the end there is nothing");
	server_close(fd);
}

static void
test_page_cache(void)
{
	int fd = relation(FILE_BLOCKS, 0);

	set_turn(1);
	page_cache_pages = 1;
	OK(added_by(fd, 1000) == 0,
	   "a window of which the page cache has a part is not read");
	page_cache_pages = 0;
	OK(added_by(fd, 1100) == 15, "one of which it has nothing is");
	server_close(fd);
}

static void
test_bad_pages(void)
{
	int fd = relation(FILE_BLOCKS, 0);
	Page bad = page_of(INVALID);
	uint64_t invalid = counter(FC_COUNT_insert_skip_invalid);

	set_turn(1);
	if (pwrite(fd, &bad, sizeof(bad), 1002 * FC_BLOCK_SIZE) != FC_BLOCK_SIZE)
		abort();
	OK(added_by(fd, 1000) == 14 &&
	       counter(FC_COUNT_insert_skip_invalid) == invalid,
	   "INVALID_PAGE: an invalid page is not filled, nor held against the "
	   "disk");

	fault = (Fault){ .name = "preadv", .fd = fd, .error = EIO };
	OK(added_by(fd, 1100) == 0 && fault.name == NULL,
	   "if the window cannot be read, the block is read alone");
	fault = (Fault){ .name = "preadv",
		             .fd = fd,
		             .at_most = (size_t) 4 * FC_BLOCK_SIZE + 1 };
	OK(added_by(fd, 1200 / WINDOW * WINDOW + 3) == 3 && fault.name == NULL,
	   "of a window that is read in part, that part is filled");
	server_close(fd);
}

static int changed_fd;

static void
change_neighbour(void)
{
	Page page = page_of('x');

	(void) changes_pwrite(changed_fd, &page, sizeof(page),
	                      1002 * FC_BLOCK_SIZE);
}

static void
test_change(void)
{
	int fd = relation(FILE_BLOCKS, 0);
	Page page;

	set_turn(1);
	changed_fd = fd;
	fault = (Fault){ .name = "preadv", .fd = fd, .after = change_neighbour };
	(void) added_by(fd, 1000);
	OK(server_read(fd, &page, 1002) == FC_BLOCK_SIZE && page_is(&page, 'x'),
	   "NEIGHBOUR_TICKET: a neighbour that changes after its read");
	server_close(fd);
}

static void
test_no_room(void)
{
	int fd = relation(FILE_BLOCKS, 0);
	uint64_t inserts;

	set_turn(1);
	for (uint32_t block = 0; block < FILE_BLOCKS; block += 7)
		(void) added_by(fd, block * 1009 % FILE_BLOCKS);
	inserts = counter(FC_COUNT_neighbour_inserts);
	set_turn(1);
	for (uint32_t block = 0; block < 20; block++)
		(void) added_by(fd, (block * 1009 + 501) % FILE_BLOCKS);
	OK(fc_file_used_slots(&runtime.cache) == SLOTS &&
	       counter(FC_COUNT_neighbour_inserts) == inserts,
	   "a full cache takes none: %lu of %d",
	   (unsigned long) fc_file_used_slots(&runtime.cache), SLOTS);

	fc_cache_clear(&runtime.cache);
	setting_fill_neighbours = false;
	OK(added_by(fd, 1000) == 0, "nor one that is told not to");
	setting_fill_neighbours = true;
	server_close(fd);
}

static void
test_no_writer(void)
{
	int fd = relation(FILE_BLOCKS, 0);
	uint64_t before = counter(FC_COUNT_neighbour_inserts);
	Page page;

	set_turn(1);
	if (fc_writer_end(writer, PATIENCE_NS) != FC_OK)
		abort();
	OK(server_read(fd, &page, 1000) == FC_BLOCK_SIZE &&
	       counter(FC_COUNT_neighbour_inserts) == before,
	   "without a writer there are none");
	server_close(fd);
}

static void
test_failed_write(void)
{
	int fd = relation(FILE_BLOCKS, 0);
	uint64_t reads = counter(FC_COUNT_neighbour_reads);
	Page page = page_of('x');

	if (fc_writer_begin(&runtime.cache, &writer) != FC_OK)
		abort();
	set_turn(1);
	fault = (Fault){ .name = "pwrite", .fd = fd, .error = ENOSPC };
	if (changes_pwrite(fd, &page, sizeof(page), 0) >= 0 || fault.name != NULL)
		abort();
	OK(added_by(fd, 1000) == 0 && counter(FC_COUNT_neighbour_reads) == reads,
	   "none is read that could not be filled: a write has failed");
	server_close(fd);
}

int
main(void)
{
	set_up();
	if (fc_process_begin(&runtime.cache) != FC_OK ||
	    fc_writer_begin(&runtime.cache, &writer) != FC_OK)
		abort();
	test_windows();
	test_turns();
	test_use();
	test_ends();
	test_page_cache();
	test_bad_pages();
	test_change();
	test_no_room();
	test_no_writer();
	test_failed_write();
	tear_down();
	return tap_done();
}
