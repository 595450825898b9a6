/*
 * cache_failures_test.c
 *		A device that fails, or lies: no wrong byte, each failure counted by its
 *		kind, and an end to it.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "blocks.h"
#include "tap.h"

/* One block, put in with one fault and read with another: never wrong. */
static void
test_single_faults(void)
{
	static const char *const names[] = { "none",  "EIO",        "EINTR",
		                                 "short", "a flip",     "torn",
		                                 "lost",  "misdirected" };

	for (int fault = FAULT_EIO; fault < FAULT_COUNT; fault++)
	{
		Rig rig;

		rig_open(&rig, 256, 64);

		FcFile file = entered(&rig, 7);

		errno = ENOTTY;
		rig.flash.write_fault = (Fault) fault;

		MUST(put(&rig, &file, 3) == FC_OK);

		FcStatus status = look(&rig, &file, 3);

		OK(status == FC_MISS, "write fault %s: a miss", names[fault]);
		OK(count_of(&rig, FC_COUNT_insert_skip_corrupt) == (fault < FAULT_FLIP),
		   "write fault %s: the block is dropped if the device says so",
		   names[fault]);
		OK(!fc_read_would_hit(&rig.cache, &file, 3) &&
		       fc_file_used_slots(&rig.cache) == 0,
		   "write fault %s: the slot is free again", names[fault]);
		OK(count_of(&rig, FC_COUNT_flash_write_errors) ==
		           (fault == FAULT_EIO || fault == FAULT_SHORT) &&
		       count_of(&rig, FC_COUNT_corrupt_slots) == (fault >= FAULT_FLIP),
		   "write fault %s: counted for what it is", names[fault]);

		/*
		 * A misdirected write left a good copy where another could be misread.
		 */
		memset(rig.flash.bytes, 0, rig.flash.size);
		MUST(put(&rig, &file, 3) == FC_OK);
		if (fault != FAULT_TORN && fault != FAULT_LOST)
		{
			rig.flash.read_fault = (Fault) fault;
			OK(look(&rig, &file, 3) == FC_MISS, "read fault %s: a miss",
			   names[fault]);
			OK(put(&rig, &file, 3) == FC_OK && serves(&rig, &file, 3, 1),
			   "read fault %s: and then again a hit", names[fault]);
			OK(count_of(&rig, FC_COUNT_flash_read_errors) ==
			       (fault == FAULT_EIO || fault == FAULT_SHORT),
			   "read fault %s: counted for what it is", names[fault]);
		}
		OK(errno == ENOTTY, "fault %s: errno is left as it was found",
		   names[fault]);
		rig_close(&rig);
	}
}

/* Wherever a bit of a slot flips. */
static void
test_flipped_bits(Random *random)
{
	Rig rig;
	unsigned wrong = 0;

	rig_open(&rig, 64, 64);

	FcFile file = entered(&rig, 7);

	for (int round = 0; round < 200; round++)
	{
		MUST(put(&rig, &file, 3) == FC_OK && serves(&rig, &file, 3, 1));

		size_t bit = random_below(random, FC_BLOCK_SIZE * 8);

		rig.flash.bytes[(size_t) ticket.slot * FC_BLOCK_SIZE + bit / 8] ^=
			(unsigned char) (1 << bit % 8);
		wrong += look(&rig, &file, 3) != FC_MISS;
	}
	OK(wrong == 0, "a flipped bit is always found");
	OK(count_of(&rig, FC_COUNT_corrupt_slots) == 200, "and counted");
	rig_close(&rig);
}

/* Each page is the content of a valid slot, but in the wrong place. */
static void
test_swapped_slots(void)
{
	Rig rig;

	rig_open(&rig, 64, 64);

	FcFile file = entered(&rig, 7);

	MUST(put(&rig, &file, 3) == FC_OK && look(&rig, &file, 3) == FC_OK);

	unsigned char *a = rig.flash.bytes + (size_t) ticket.slot * FC_BLOCK_SIZE;

	MUST(put(&rig, &file, 4) == FC_OK && look(&rig, &file, 4) == FC_OK);

	unsigned char *b = rig.flash.bytes + (size_t) ticket.slot * FC_BLOCK_SIZE;

	memcpy(&page, a, sizeof(page));
	memcpy(a, b, sizeof(page));
	memcpy(b, &page, sizeof(page));
	OK(look(&rig, &file, 3) == FC_MISS && look(&rig, &file, 4) == FC_MISS,
	   "two slots that changed places are found");

	/* All zeros in both: the key in the checksum tells them apart. */
	memset(&page, 0, sizeof(page));
	for (uint32_t block = 3; block <= 4; block++)
	{
		MUST(look(&rig, &file, block) == FC_MISS);
		MUST(fc_fill(&rig.cache, &ticket, &page) == FC_OK);
	}
	rig_flush(&rig);
	MUST(look(&rig, &file, 3) == FC_OK);

	uint32_t crc = fc_meta_high(ticket.meta);

	MUST(look(&rig, &file, 4) == FC_OK);
	OK(fc_meta_high(ticket.meta) != crc,
	   "the same bytes of another block have another checksum");
	rig_close(&rig);
}

/*
 * A device that does nothing but fail takes the cache offline, with a reason.
 */
static void
test_thresholds(void)
{
	static const struct
	{
		const char *name;
		Fault read;
		Fault write;
		FcReason reason;
		unsigned max;
	} cases[] = {
		{ "failing reads", FAULT_EIO, FAULT_NONE, FC_REASON_READ_ERRORS, 32 },
		{ "short reads", FAULT_SHORT, FAULT_NONE, FC_REASON_READ_ERRORS, 32 },
		{ "failing writes", FAULT_NONE, FAULT_EIO, FC_REASON_WRITE_ERRORS, 32 },
		{ "flipped bits", FAULT_FLIP, FAULT_NONE, FC_REASON_CORRUPTION, 256 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		Rig rig;
		FcReason reason;
		unsigned failures = 0;

		rig_open(&rig, 1024, 64);

		FcFile file = entered(&rig, 7);

		rig.flash.fault_stays = true;
		while (fc_mode(&rig.cache, &reason) == FC_SERVE && failures < 1000)
		{
			/* A good write before each bad read; a bad write alone. */
			rig.flash.write_fault = cases[i].write;
			(void) put(&rig, &file, failures);
			rig.flash.read_fault = cases[i].read;
			if (cases[i].write == FAULT_NONE)
				IGNORE(look(&rig, &file, failures));
			rig.flash.read_fault = FAULT_NONE;
			failures++;
		}
		OK(failures == cases[i].max && reason == cases[i].reason &&
		       fc_mode(&rig.cache, NULL) == FC_OFFLINE,
		   "%u %s take the cache offline", cases[i].max, cases[i].name);
		rig_close(&rig);
	}

	Rig rig;

	rig_open(&rig, 1024, 64);

	FcFile file = entered(&rig, 7);

	rig.flash.fault_stays = true;
	rig.flash.read_fault = FAULT_EINTR;
	for (uint32_t block = 0; block < 200; block++)
	{
		(void) put(&rig, &file, block);
		IGNORE(look(&rig, &file, block));
	}
	OK(fc_mode(&rig.cache, NULL) == FC_SERVE, "signals never do");
	rig_close(&rig);
}

/* Rare failures are no reason to stop. */
static void
test_seldom_failures(void)
{
	Rig rig;

	rig_open(&rig, 1024, 64);

	FcFile file = entered(&rig, 7);
	FcAtomic64 *start =
		&rig.cache.shared->health[0].read_errors.window_start_ns;

	rig.flash.fault_stays = true;
	rig.flash.read_fault = FAULT_EIO;
	for (uint32_t block = 0; block < 200; block++)
	{
		/* As if an hour passed after every 20. */
		if (block % 20 == 0)
			atomic_store(start, fc_clock_ns() - 3601000000000ULL);
		(void) put(&rig, &file, block);
		IGNORE(look(&rig, &file, block));
	}
	OK(count_of(&rig, FC_COUNT_flash_read_errors) == 200 &&
	       fc_mode(&rig.cache, NULL) == FC_SERVE,
	   "20 failures an hour do not take the cache offline");
	rig_close(&rig);
}

static void
test_errno(void)
{
	Rig rig;

	rig_open(&rig, 64, 64);

	FcFile file = entered(&rig, 7);

	errno = ENOTTY;
	rig.flash.read_fault = FAULT_EIO;
	(void) put(&rig, &file, 3);
	IGNORE(look(&rig, &file, 3));
	rig.flash.write_fault = FAULT_EIO;
	(void) put(&rig, &file, 4);
	fc_change_begin(&rig.cache, &file, 3, 1, &change);
	rig.flash.write_fault = FAULT_EIO;
	fc_change_end(&rig.cache, &file, &change);
	(void) fc_change_fill(&rig.cache, &change, &page);
	MUST(look(&rig, &file, 6) == FC_MISS);
	MUST(fc_fill(&rig.cache, &ticket, &page) == FC_OK);
	IGNORE(look(&rig, &file, 6));
	fc_file_retire(&rig.cache, file.id);
	fc_cache_sweep(&rig.cache);
	fc_cache_clear(&rig.cache);
	OK(errno == ENOTTY, "errno is left as it was found by every call");
	rig_close(&rig);
}

int
main(void)
{
	Random random = { .state = 3 };

	test_single_faults();
	test_flipped_bits(&random);
	test_swapped_slots();
	test_thresholds();
	test_seldom_failures();
	test_errno();
	return tap_done();
}
