/*
 * request.h
 *		A read of a relation's file: what the page cache and flash can serve,
 *		and the fill after a read from disk.
 *
 *	request_begin()		which blocks?  Does the page cache have them?
 *	request_serve()		from flash, if it has them all
 *	request_plan()		else: the blocks to fill, with their tickets
 *	... the read of the file ...
 *	request_fill()		by the plan
 *
 * The caller reads the file: reads.c at once, uring.c by io_uring, where
 * another process may do the fill.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef PGFLASH_REQUEST_H
#define PGFLASH_REQUEST_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "account/account_calls.h"
#include "fcache/cache.h"
#include "hooks/descriptors.h"

/*
 * The longest run that is looked up: PostgreSQL's largest io_max_combine_limit.
 */
#define RUN_BLOCKS_MAX FC_RUN_BLOCKS_MAX

/*
 * The longest run that is filled.  A run of BULK_BLOCKS (scans.c) or more is a
 * scan by itself, which does not fill.
 */
#define RUN_FILL_BLOCKS 31

/* One read as the server issued it: into buffer, or into iov if that is set. */
typedef struct Call
{
	int fd;
	void *buffer;
	size_t size; /* of all buffers */
	const struct iovec *iov;
	int iov_count;
	off_t offset;
	AccountSource *source; /* out: who served it */
} Call;

/* The blocks to read, and the memory that each goes to. */
typedef struct Run
{
	uint32_t first;
	unsigned count;
	bool bulk; /* part of a large scan, which does not fill */
	void *page[RUN_BLOCKS_MAX];
} Run;

/* What remains to be done for a read. */
typedef enum Request
{
	REQUEST_PAGE_CACHE, /* the page cache has it: read the file */
	REQUEST_WANTED,     /* ask flash, then the file */
	REQUEST_BYPASS      /* read the file: not for the cache */
} Request;

/* The blocks that a read of the file will fill. */
typedef struct FillPlan
{
	unsigned count;
	uint8_t block[RUN_FILL_BLOCKS]; /* index in the run */
	FcTicket ticket[RUN_FILL_BLOCKS];
} FillPlan;

/* The entry of a descriptor if it is a relation's file that has a name. */
extern OpenFile *request_file(int fd);

/* Does the cache serve this process now? */
extern bool request_cache_serves(void);

/* Split the call into blocks; false if it does not consist of whole ones. */
extern bool request_run(const Call *call, Run *run);

/*
 * Can the page cache serve the whole call?  If the kernel cannot be asked, the
 * answer is no, and it is unknown whether the disk will serve it.
 */
extern bool request_in_page_cache(const Call *call, const OpenFile *entry);

/* What is to be done for this call?  Changes errno. */
extern Request request_begin(const Call *call, OpenFile *entry, Run *run);

/* Are all these blocks cached?  A hint. */
extern bool request_all_cached(const OpenFile *entry, uint32_t first,
                               unsigned count);

/*
 * Serve the run from flash.  False: some of it is not there, or was late; the
 * pages may then hold anything, and the plan says what to fill.  Changes errno.
 */
extern bool request_serve(const Call *call, OpenFile *entry, const Run *run,
                          FillPlan *plan);

/*
 * A wanted read as a whole (reads.c): from flash, within the cache's deadline,
 * or from the file with a fill.
 */
extern ssize_t reads_wanted(const Call *call, OpenFile *entry, const Run *run);

/*
 * Is so little of the accumulated write budget left that it should be left to
 * blocks that queries ask for?
 */
extern bool request_budget_is_short(void);

/*
 * Put one block that no query asked for into the cache, under its ticket, after
 * it was read from the file.  False: it was not added, and unless the page was
 * invalid, the reason was counted.
 */
extern bool request_load_block(const FcFile *file, const FcTicket *ticket,
                               void *page, unsigned heat);

/*
 * Fill by the plan, after got bytes of the file were read into the pages of the
 * run.  file is what the plan was made for.
 */
extern void request_fill(const FcFile *file, const FillPlan *plan,
                         void *const page[], ssize_t got);

#endif
