/*
 * scans.c
 *		What scans have passed lately.  See scans.h.
 *
 * A window is 64 blocks of a file, with a bit for each.  All work is done on
 * whole blocks; a request that does not begin and end at a block's boundary is
 * left to its own process's streams.
 */
/* SPDX-License-Identifier: PostgreSQL */
#include "scans.h"

#include <stddef.h>

/* A range of a file's blocks within one window. */
typedef struct Piece
{
	uint64_t window;
	uint64_t bits;
} Piece;

static bool
has_whole_blocks(const EmRequest *request)
{
	return request->bytes > 0 && request->offset % EM_SCAN_BLOCK_BYTES == 0 &&
	       request->bytes % EM_SCAN_BLOCK_BYTES == 0;
}

static uint64_t
first_block(const EmRequest *request)
{
	return request->offset / EM_SCAN_BLOCK_BYTES;
}

static uint64_t
end_block(const EmRequest *request)
{
	return (request->offset + request->bytes) / EM_SCAN_BLOCK_BYTES;
}

/* The part of the blocks from *block to end that is in the first window. */
static Piece
take_piece(uint64_t *block, uint64_t end)
{
	uint64_t window = *block / EM_SCAN_WINDOW_BLOCKS;
	uint64_t low = *block % EM_SCAN_WINDOW_BLOCKS;
	uint64_t limit = (window + 1) * EM_SCAN_WINDOW_BLOCKS;
	uint64_t count = (end < limit ? end : limit) - *block;
	uint64_t ones = count == 64 ? ~0ULL : (1ULL << count) - 1;

	*block += count;
	return (Piece){ .window = window, .bits = ones << low };
}

/* Never zero: zero is the name of a free window. */
static uint64_t
name_of(uint64_t file, uint64_t window)
{
	return ((file * 31 + window) * 0x9e3779b97f4a7c15ULL) | 1;
}

static EmScanWindow *
place(EmScans *scans, uint64_t name)
{
	return &scans->window[(name >> 32) % EM_SCAN_WINDOWS];
}

/* The window, if something is known about it; else NULL. */
static EmScanWindow *
find(EmScans *scans, uint64_t file, uint64_t window, uint64_t now_ns)
{
	uint64_t name = name_of(file, window);
	EmScanWindow *found = place(scans, name);

	if (atomic_load(&found->name) != name ||
	    atomic_load(&found->used_ns) + EM_SCAN_KEPT_NS < now_ns)
		return NULL;

	return found;
}

/* The window, created again if nothing is known about it. */
static EmScanWindow *
find_or_make(EmScans *scans, uint64_t file, uint64_t window, uint64_t now_ns)
{
	uint64_t name = name_of(file, window);
	EmScanWindow *found = place(scans, name);

	if (find(scans, file, window, now_ns) == NULL)
	{
		atomic_store(&found->name, name);
		atomic_store(&found->moved, 0);
		atomic_store(&found->unread, 0);
	}
	atomic_store(&found->used_ns, now_ns);
	return found;
}

/* Skip blocks; returns how many no scan had passed. */
static uint64_t
skip(EmScans *scans, const EmRequest *request, uint64_t block, uint64_t end)
{
	uint64_t count = 0;

	while (block < end)
	{
		Piece piece = take_piece(&block, end);
		EmScanWindow *window =
			find_or_make(scans, request->file, piece.window, request->now_ns);
		uint64_t fresh =
			piece.bits & ~atomic_fetch_or(&window->moved, piece.bits);

		atomic_fetch_or(&window->unread, fresh);
		count += (uint64_t) __builtin_popcountll(fresh);
	}

	return count;
}

/*
 * Read the request's blocks; returns how many of them had been skipped.
 * "moves" says whether it advances the scan.
 */
static uint64_t
read_blocks(EmScans *scans, const EmRequest *request, bool moves)
{
	uint64_t block = first_block(request);
	uint64_t end = end_block(request);
	uint64_t count = 0;

	while (block < end)
	{
		Piece piece = take_piece(&block, end);
		EmScanWindow *window =
			moves ? find_or_make(scans, request->file, piece.window,
		                         request->now_ns)
				  : find(scans, request->file, piece.window, request->now_ns);

		if (window == NULL)
			continue;
		if (moves)
			atomic_fetch_or(&window->moved, piece.bits);
		count += (uint64_t) __builtin_popcountll(
			piece.bits & atomic_fetch_and(&window->unread, ~piece.bits));
	}

	return count;
}

/* The highest of these bits; there is one. */
static uint64_t
highest(uint64_t bits)
{
	return 63 - (uint64_t) __builtin_clzll(bits);
}

bool
em_scans_near(EmScans *scans, const EmRequest *request, uint64_t *gap_bytes)
{
	uint64_t number = first_block(request) / EM_SCAN_WINDOW_BLOCKS;
	uint64_t at = first_block(request) % EM_SCAN_WINDOW_BLOCKS;
	uint64_t lower = (1ULL << at) - 1;
	EmScanWindow *window, *before;
	uint64_t moved = 0;

	*gap_bytes = 0;
	if (!has_whole_blocks(request))
		return false;

	window = find(scans, request->file, number, request->now_ns);
	if (window != NULL)
		moved = atomic_load(&window->moved);
	if ((moved & (lower + 1)) != 0)
		return (atomic_load(&window->unread) & (lower + 1)) != 0;
	if ((moved & lower) != 0)
	{
		*gap_bytes = (at - 1 - highest(moved & lower)) * EM_SCAN_BLOCK_BYTES;
		return true;
	}
	if (number == 0)
		return false;

	/* 64 blocks in all: some of this window, the others of the previous one. */
	before = find(scans, request->file, number - 1, request->now_ns);
	moved = before == NULL ? 0 : atomic_load(&before->moved) & ~lower;
	if (moved == 0)
		return false;

	*gap_bytes = (at + 63 - highest(moved)) * EM_SCAN_BLOCK_BYTES;
	return true;
}

void
em_scans_note(EmScans *scans, EmRequest *request, bool moves)
{
	uint64_t first = first_block(request);
	uint64_t gap = request->gap_bytes / EM_SCAN_BLOCK_BYTES;

	if (!has_whole_blocks(request))
		return;

	gap = skip(scans, request, gap < first ? first - gap : 0, first);
	request->gap_bytes = gap * EM_SCAN_BLOCK_BYTES;
	request->paid_bytes =
		read_blocks(scans, request, moves) * EM_SCAN_BLOCK_BYTES;
}
