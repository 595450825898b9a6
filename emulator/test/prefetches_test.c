/*
 * prefetches_test.c
 *		Announced reads: remembered, used up, forgotten.
 */
/* SPDX-License-Identifier: PostgreSQL */
#include "prefetches.h"
#include "tap.h"

#define BLOCK 8192ULL
#define MS    1000000ULL
#define FILE1 (1ULL << 63 | 1)
#define FILE2 (1ULL << 63 | 2)

static EmPrefetches prefetches;

static EmRequest
request_at(uint64_t now_ns, uint64_t file, uint64_t block, uint64_t blocks)
{
	return (EmRequest){ .now_ns = now_ns,
		                .file = file,
		                .offset = block * BLOCK,
		                .bytes = blocks * BLOCK };
}

static void
announce(uint64_t block, uint64_t blocks, uint64_t end_ns)
{
	EmRequest request = request_at(0, FILE1, block, blocks);
	EmCharge charge = { .end_ns = end_ns, .service_ns = 4 * MS };

	em_prefetches_note(&prefetches, &request, &charge);
}

static bool
take(uint64_t now_ns, uint64_t file, uint64_t block, uint64_t blocks,
     EmCharge *charge)
{
	EmRequest request = request_at(now_ns, file, block, blocks);

	return em_prefetches_take(&prefetches, &request, charge);
}

int
main(void)
{
	EmRequest request;
	EmCharge charge;

	OK(!take(0, FILE1, 5, 1, &charge), "what was not announced is not there");

	announce(5, 1, 10 * MS);
	OK(!take(0, FILE2, 5, 1, &charge), "nor is another file's block");
	OK(!take(0, FILE1, 5, 2, &charge),
	   "nor a read that is only half announced");
	OK(take(3 * MS, FILE1, 5, 1, &charge) && charge.end_ns == 10 * MS,
	   "an announced read ends when its reservation does");
	OK(charge.service_ns == 4 * MS && charge.wait_ns == 3 * MS,
	   "what is left is service and wait");
	OK(!take(3 * MS, FILE1, 5, 1, &charge), "an announcement is used up");

	announce(5, 1, 10 * MS);
	OK(take(20 * MS, FILE1, 5, 1, &charge) && charge.end_ns == 20 * MS &&
	       charge.service_ns == 0 && charge.wait_ns == 0,
	   "a read that comes late does not wait");

	announce(5, 1, 10 * MS);
	OK(!take(10 * MS + EM_PREFETCH_KEPT_NS + 1, FILE1, 5, 1, &charge),
	   "after a second it is forgotten");

	announce(8, 4, 10 * MS);
	announce(12, 4, 30 * MS);
	OK(take(0, FILE1, 8, 8, &charge) && charge.end_ns == 30 * MS,
	   "a wide read waits for the last of its announcements");
	OK(charge.service_ns == 8 * MS, "and has the service of all of them");

	request = request_at(0, FILE1, 0, 0);
	OK(!em_prefetches_accept(&request), "an advice to the end of the file is "
	                                    "not about a read");
	request = request_at(0, FILE1, 0, EM_PREFETCH_BLOCKS_MAX + 1);
	OK(!em_prefetches_accept(&request), "nor is one about too many blocks");

	return done();
}
