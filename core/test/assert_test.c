/*
 * assert_test.c
 *		A broken invariant ends the process at the assertion that states it.
 *
 * Each story breaks one invariant in a child process, which must not survive.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "devices.h"
#include "dies.h"
#include "health.h"
#include "map.h"
#include "staging.h"
#include "support.h"
#include "tap.h"

#define SLOTS (2 * FC_WAYS)

static Rig rig;
static FcFile file;
static FcReplacement replacement;
static unsigned forbidden_way;

static void
begin(void)
{
	FcConfig config = { .slot_count = SLOTS,
		                .file_count = 64,
		                .process_count = 16,
		                .replacement = &replacement };

	replacement = fc_replacement_lfu;
	rig_open_with(&rig, &config);
	file = entered(&rig, 7);
}

static FcTicket
ticket_for(uint32_t block)
{
	FcTicket ticket;
	FcSeen seen;

	MUST(fc_read_look_up(&rig.cache, &file, block, &ticket, &seen) == FC_MISS);
	return ticket;
}

static FcSeen
claim(const FcTicket *ticket)
{
	FcSeen seen;

	MUST(fc_claim(&rig.cache, ticket, &seen) == FC_OK);
	return seen;
}

/* ---- how it is broken ---------------------------------------------------- */

static void
publish_for_another(void)
{
	FcTicket ticket = ticket_for(1);
	FcSeen seen = claim(&ticket);
	FcCache other;

	rig_attach(&rig, &other);
	IGNORE(fc_claim_publish(&other, &ticket, &seen, FC_VALID, 1));
}

static void
publish_as_claimed(void)
{
	FcTicket ticket = ticket_for(1);
	FcSeen seen = claim(&ticket);

	IGNORE(fc_claim_publish(&rig.cache, &ticket, &seen, FC_FILLING, 1));
}

static void
publish_in_another_set(void)
{
	FcTicket ticket = ticket_for(1);
	FcSeen seen = claim(&ticket);

	ticket.set ^= 1;
	IGNORE(fc_claim_publish(&rig.cache, &ticket, &seen, FC_VALID, 1));
}

static void
fill_without_a_file(void)
{
	static Page page;
	FcTicket ticket = ticket_for(1);

	ticket.file = FC_FILE_NONE;
	IGNORE(fc_fill(&rig.cache, &ticket, &page));
}

static unsigned
choose_forbidden(const FcReplacementPlace *place, const FcCandidate *candidate,
                 uint64_t usable)
{
	(void) place;
	(void) candidate;
	(void) usable;
	return forbidden_way;
}

/*
 * One way is being filled, the others are in use, and the policy takes the one.
 */
static void
choose_what_must_stay(void)
{
	FcTicket ticket = ticket_for(0);
	uint32_t set = ticket.set;
	FcCache other;
	FcSeen seen;

	rig_attach(&rig, &other);
	MUST(fc_claim(&other, &ticket, &seen) == FC_OK);
	forbidden_way = seen.slot % FC_WAYS;
	replacement.choose = choose_forbidden;
	for (uint32_t block = 1; block < 100 * FC_WAYS; block++)
	{
		ticket = ticket_for(block);
		if (ticket.set != set)
			continue;
		seen = claim(&ticket);
		MUST(fc_claim_publish(&rig.cache, &ticket, &seen, FC_VALID, 1) ==
		     FC_OK);
	}
}

static void
count_out_what_is_not_in(void)
{
	fc_chunk_leave(rig.cache.shared, file.number, 1);
}

static void
end_a_change_that_never_began(void)
{
	fc_change_all_end(&rig.cache);
}

static void
refresh_before_the_end(void)
{
	static Page page;
	FcChange change;

	fc_change_begin(&rig.cache, &file, 1, 1, &change);
	IGNORE(fc_change_fill(&rig.cache, &change, &page));
}

static void
name_a_set_beyond_the_last(void)
{
	(void) fc_set(rig.cache.shared, SLOTS / FC_WAYS);
}

static void
validate_without_a_claim(void)
{
	(void) fc_meta_next(0, FC_VALID, 1);
}

static void
write_without_signing_on(void)
{
	FcWriter *writer;

	MUST(fc_writer_begin(&rig.cache, &writer) == FC_OK);
	atomic_store(&rig.cache.shared->ring_writer, 0);
	fc_writer_run(writer, 0);
}

static void
lend_a_page_of_nobody(void)
{
	(void) fc_page_word(FC_PAGE_TAKEN, 1, 0);
}

static void
transfer_across_the_grid(void)
{
	static Page page;

	(void) fc_map_transfer(0, &page, 512, 0, false);
}

static void
move_a_device_nowhere(void)
{
	(void) fc_health_move(&rig.cache, 0, FC_DEVICE_IN_SERVICE,
	                      FC_DEVICE_IN_SERVICE);
}

static void
drop_a_sleeper_that_is_awake(void)
{
	fc_file_drop_sleeper(&rig.cache, file.number, file.generation);
}

int
main(void)
{
	static const struct
	{
		const char *what;
		void (*act)(void);
		const char *condition;
	} broken[] = {
		{ "a claim is published by its owner", publish_for_another, "is_own" },
		{ "... in the set of its ticket", publish_in_another_set, "is_own" },
		{ "... as a state in which it says where the block is",
		  publish_as_claimed, "state == FC_VALID || state == FC_STAGED" },
		{ "a ticket names a file", fill_without_a_file,
		  "ticket->file != FC_FILE_NONE" },
		{ "a replacement policy chooses among usable ways",
		  choose_what_must_stay, "usable >> way" },
		{ "a block is counted out after it was counted in",
		  count_out_what_is_not_in, "fc_chunk_of" },
		{ "a change of all files ends after it began",
		  end_a_change_that_never_began, "everyone" },
		{ "a block is refreshed after its change has ended",
		  refresh_before_the_end, "!change->counted_in" },
		{ "a set is one of those that there is memory for",
		  name_a_set_beyond_the_last, "number < shared->set_count" },
		{ "an entry becomes valid by way of a claim", validate_without_a_claim,
		  "state == FC_EMPTY || state == FC_FILLING" },
		{ "the writer that runs has signed on", write_without_signing_on,
		  "signed_on" },
		{ "a page that is taken has an owner", lend_a_page_of_nobody,
		  "owner != 0" },
		{ "a map is transferred in whole pieces", transfer_across_the_grid,
		  "FC_IO_ALIGN" },
		{ "a device moves to another state", move_a_device_nowhere,
		  "from != to" },
		{ "only a sleeper is dropped as one", drop_a_sleeper_that_is_awake,
		  "FC_NUMBER_ASLEEP" },
	};

	for (size_t i = 0; i < sizeof(broken) / sizeof(broken[0]); i++)
	{
		begin();
		OK(dies_at(broken[i].act, broken[i].condition), "asserted: %s",
		   broken[i].what);
		rig_close(&rig);
	}
	return tap_done();
}
