/*
 * cache_policy_test.c
 *		keep, none, default: what may evict what, the share, and how policies
 *		reach the numbers of files.
 *
 * The cache has one set or a few, so that it is plain which blocks compete.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "support.h"
#include "tap.h"

#define KEPT  71
#define OTHER 72
#define ROUND 1

static Rig rig;
static FcFile kept;
static FcFile other;
static const FcReplacement *replacement;

static FcFile
enter(uint32_t relation)
{
	FcFile file = fc_file(file_id(relation));

	MUST(fc_file_enter(&rig.cache, &file) == FC_OK);
	return file;
}

static void
set_policy(uint32_t relation, FcCachePolicy policy)
{
	MUST(fc_cache_policy_set(&rig.cache, file_id(relation), policy, ROUND) ==
	     FC_OK);
	MUST(fc_cache_policy_apply(&rig.cache));
}

static void
open_rig(uint32_t slots, unsigned share)
{
	FcConfig config = { .slot_count = slots,
		                .file_count = 64,
		                .process_count = 16,
		                .replacement = replacement };

	rig_open_with(&rig, &config);
	fc_cache_policy_set_keep_share(&rig.cache, share);
	kept = enter(KEPT);
	other = enter(OTHER);
	set_policy(KEPT, FC_CACHE_POLICY_KEEP);
}

/*
 * Read a block through the cache, and fill it after a miss; returns the answer.
 */
static FcStatus
touch(FcFile *file, uint32_t block)
{
	Page page;
	FcTicket ticket;
	FcStatus status = fc_read(&rig.cache, file, block, &page, &ticket);

	if (status == FC_STALE)
	{
		MUST(fc_file_enter(&rig.cache, file) == FC_OK);
		status = fc_read(&rig.cache, file, block, &page, &ticket);
	}
	if (status == FC_MISS)
	{
		page_make(&page, file->id.relation, block, 1);
		IGNORE(fc_fill(&rig.cache, &ticket, &page));
		rig_flush(&rig);
	}
	return status;
}

static void
touch_all(FcFile *file, uint32_t blocks)
{
	for (uint32_t block = 0; block < blocks; block++)
		IGNORE(touch(file, block));
}

static uint32_t
cached_of(const FcFile *file, uint32_t blocks)
{
	uint32_t cached = 0;

	for (uint32_t block = 0; block < blocks; block++)
		cached += fc_read_would_hit(&rig.cache, file, block);
	return cached;
}

/* ---- who evicts whom ----------------------------------------------------- */

/* How many of 20 kept blocks remain after others were read far more. */
static uint32_t
kept_after_pressure(void)
{
	uint32_t left;

	open_rig(FC_WAYS, 50);
	touch_all(&kept, 20);
	for (int round = 0; round < 20; round++)
		touch_all(&other, 100);
	left = cached_of(&kept, 20);
	rig_close(&rig);
	return left;
}

static void
test_others_do_not_evict_keep(void)
{
	OK(kept_after_pressure() == 20,
	   "blocks of policy keep stay, however much others are read");
	fc_test_broken = FC_BREAK(KEEP);
	OK(kept_after_pressure() < 20, "negative control: without KEEP they go");
	fc_test_broken = 0;
}

static void
test_keep_takes_its_share(void)
{
	open_rig(FC_WAYS, 50);
	for (int round = 0; round < 5; round++)
		touch_all(&other, FC_WAYS);
	MUST(cached_of(&other, FC_WAYS) == FC_WAYS);
	touch_all(&kept, FC_WAYS / 2);
	OK(cached_of(&kept, FC_WAYS / 2) == FC_WAYS / 2,
	   "keep takes slots of others, read more often, up to its share");
	OK(cached_of(&other, FC_WAYS) == FC_WAYS / 2, "and leaves them the rest");
	OK(fc_cache_policy_keep_blocks(&rig.cache) == FC_WAYS / 2,
	   "the sum says so, too");
	rig_close(&rig);
}

/*
 * How many others find room in a set full of kept blocks if they are read more.
 */
static uint32_t
others_beside_a_large_keep(unsigned share)
{
	uint32_t cached;

	open_rig(FC_WAYS, share);
	touch_all(&kept, FC_WAYS);
	MUST(cached_of(&kept, FC_WAYS) == FC_WAYS);
	for (int round = 0; round < 10; round++)
		touch_all(&other, FC_WAYS);
	cached = cached_of(&other, FC_WAYS);
	rig_close(&rig);
	return cached;
}

static void
test_keep_does_not_starve_the_rest(void)
{
	uint32_t room = others_beside_a_large_keep(50);

	OK(room >= FC_WAYS / 2 - 1 && room <= FC_WAYS / 2,
	   "beyond its share keep makes room (%u of %d)", room, FC_WAYS);
	room = others_beside_a_large_keep(25);
	OK(room >= FC_WAYS * 3 / 4 - 1 && room <= FC_WAYS * 3 / 4,
	   "the share is what was set (%u of %d)", room, FC_WAYS);
	OK(others_beside_a_large_keep(0) == FC_WAYS,
	   "without a share keep is a block as any other");
	OK(others_beside_a_large_keep(100) == 0, "it may have everything");
	fc_test_broken = FC_BREAK(KEEP_SHARE);
	OK(others_beside_a_large_keep(50) == 0,
	   "negative control: without KEEP_SHARE the rest starves");
	fc_test_broken = 0;
}

static void
test_keep_beyond_its_share_competes(void)
{
	open_rig(FC_WAYS, 25);
	for (int round = 0; round < 6; round++)
		touch_all(&kept, FC_WAYS);
	touch_all(&other, 200);
	OK(cached_of(&kept, FC_WAYS) >= FC_WAYS / 4,
	   "its share stays whatever happens");
	rig_close(&rig);
}

/*
 * Which of 20 kept blocks remain after each fill of another, once unprotected.
 */
#define FILLS 200

static void
leave_one_by_one(bool by_share, uint32_t left[FILLS])
{
	open_rig(FC_WAYS, 50);
	for (int round = 0; round < 5; round++)
	{
		touch_all(&kept, 20);
		touch_all(&other, 100);
	}
	MUST(cached_of(&kept, 20) == 20);
	if (by_share)
		fc_cache_policy_set_keep_share(&rig.cache, 0);
	else
		set_policy(KEPT, FC_CACHE_POLICY_DEFAULT);

	for (uint32_t fill = 0; fill < FILLS; fill++)
	{
		IGNORE(touch(&other, fill % 100));
		left[fill] = 0;
		for (uint32_t block = 0; block < 20; block++)
			left[fill] |= (uint32_t) fc_read_would_hit(&rig.cache, &kept, block)
			              << block;
	}
	rig_close(&rig);
}

static void
test_over_the_share_is_as_any_other(void)
{
	uint32_t by_share[FILLS];
	uint32_t by_policy[FILLS];

	leave_one_by_one(true, by_share);
	leave_one_by_one(false, by_policy);
	OK(memcmp(by_share, by_policy, sizeof(by_share)) == 0,
	   "without a share the same blocks go at the same moments as without the "
	   "policy");
	OK(__builtin_popcount(by_share[FILLS - 1]) < 10,
	   "which they do when others want room (%d of 20 left)",
	   __builtin_popcount(by_share[FILLS - 1]));
	fc_test_broken = FC_BREAK(KEEP_SHARE);
	leave_one_by_one(true, by_share);
	fc_test_broken = 0;
	OK(__builtin_popcount(by_share[FILLS - 1]) == 20,
	   "negative control: without KEEP_SHARE none goes");
}

static void
test_over_the_share_stays_while_nobody_wants_room(void)
{
	uint64_t evicted;

	open_rig(FC_WAYS, 50);
	touch_all(&kept, 20);
	touch_all(&other, FC_WAYS - 20);
	MUST(cached_of(&other, FC_WAYS - 20) == FC_WAYS - 20);
	evicted = fc_count_sum(&rig.cache, FC_COUNT_eviction_aged_out);
	fc_cache_policy_set_keep_share(&rig.cache, 0);
	for (int round = 0; round < 50; round++)
		touch_all(&other, FC_WAYS - 20);
	OK(cached_of(&kept, 20) == 20 &&
	       fc_count_sum(&rig.cache, FC_COUNT_eviction_aged_out) == evicted,
	   "where all others are cached none has to go, share or not");
	rig_close(&rig);
}

static void
test_replacement_does_not_keep_keep_out(void)
{
	FcReplacement unwilling = *replacement;
	const FcReplacement *before = replacement;

	unwilling.choose = choose_nobody;
	replacement = &unwilling;
	open_rig(FC_WAYS, 50);
	touch_all(&other, FC_WAYS);
	touch_all(&other, FC_WAYS + 1);
	OK(!fc_read_would_hit(&rig.cache, &other, FC_WAYS),
	   "a replacement policy that admits nobody admits no other");
	touch_all(&kept, FC_WAYS);
	OK(cached_of(&kept, FC_WAYS) == FC_WAYS / 2,
	   "but keep comes in up to its share, and no further");
	rig_close(&rig);
	replacement = before;
}

/* ---- none ---------------------------------------------------------------- */

static void
test_none_is_not_cached(void)
{
	uint64_t misses;

	open_rig(4 * FC_WAYS, 50);
	touch_all(&other, 10);
	MUST(cached_of(&other, 10) == 10);
	misses = fc_count_sum(&rig.cache, FC_COUNT_misses);
	set_policy(OTHER, FC_CACHE_POLICY_NONE);
	OK(cached_of(&other, 10) == 0,
	   "what a file of policy none had is not used");
	OK(touch(&other, 0) == FC_OFF && touch(&other, 50) == FC_OFF,
	   "it is not looked up");
	OK(fc_count_sum(&rig.cache, FC_COUNT_bypass_reads) == 2 &&
	       fc_count_sum(&rig.cache, FC_COUNT_misses) == misses,
	   "which counts as bypassed, not as missed");

	fc_cache_sweep(&rig.cache);
	OK(fc_file_used_slots(&rig.cache) == 0, "housekeeping drops what it had");
	OK(touch(&other, 0) == FC_OFF, "also with a number entered again");

	set_policy(OTHER, FC_CACHE_POLICY_DEFAULT);
	OK(touch(&other, 0) == FC_MISS && touch(&other, 0) == FC_OK,
	   "back to default it is cached as before");
	rig_close(&rig);
}

static void
test_a_fill_under_way_comes_to_nothing(void)
{
	Page page;
	FcTicket ticket;

	open_rig(4 * FC_WAYS, 50);
	MUST(fc_read(&rig.cache, &other, 3, &page, &ticket) == FC_MISS);
	set_policy(OTHER, FC_CACHE_POLICY_NONE);
	fc_cache_sweep(&rig.cache);
	page_make(&page, OTHER, 3, 1);
	OK(fc_fill(&rig.cache, &ticket, &page) == FC_SKIP &&
	       fc_file_used_slots(&rig.cache) == 0,
	   "a fill that began before the file became none is not published");
	rig_close(&rig);
}

static void
test_none_is_found_out_if_broken(void)
{
	open_rig(4 * FC_WAYS, 50);
	touch_all(&other, 10);
	set_policy(OTHER, FC_CACHE_POLICY_NONE);
	fc_test_broken = FC_BREAK(POLICY_NONE);
	OK(touch(&other, 50) == FC_MISS,
	   "negative control: without POLICY_NONE it is looked up and filled");
	fc_test_broken = FC_BREAK(POLICY_DROP);
	fc_cache_sweep(&rig.cache);
	OK(fc_file_used_slots(&rig.cache) == 11,
	   "negative control: without POLICY_DROP it keeps its slots");
	fc_test_broken = 0;
	rig_close(&rig);
}

/* ---- policies and numbers ------------------------------------------------ */

static FcCachePolicy
policy_of(uint32_t relation, uint32_t fork)
{
	FcFileId id = file_id(relation);
	FcFile file;
	FcFileInfo info;

	id.fork = fork;
	file = fc_file(id);
	MUST(fc_file_enter(&rig.cache, &file) == FC_OK);
	MUST(fc_file_info(&rig.cache, file.number, &info));
	return info.cache_policy;
}

static void
test_policies_reach_numbers(void)
{
	open_rig(4 * FC_WAYS, 50);
	OK(policy_of(KEPT, 0) == FC_CACHE_POLICY_KEEP && policy_of(OTHER, 0) == 0,
	   "a number has the policy of its relation, or the default");
	OK(policy_of(KEPT, 1) == FC_CACHE_POLICY_KEEP,
	   "a fork entered later has it, too");

	MUST(fc_cache_policy_set(&rig.cache, file_id(99), FC_CACHE_POLICY_NONE,
	                         ROUND) == FC_OK);
	OK(policy_of(99, 0) == FC_CACHE_POLICY_NONE,
	   "so has a relation whose policy was set before the cache met it");

	fc_file_retire(&rig.cache, file_id(KEPT));
	OK(policy_of(KEPT, 0) == FC_CACHE_POLICY_KEEP,
	   "and one whose number was retired and given again");

	MUST(fc_cache_policy_set(&rig.cache, file_id(KEPT), FC_CACHE_POLICY_NONE,
	                         ROUND) == FC_OK);
	OK(policy_of(KEPT, 0) == FC_CACHE_POLICY_KEEP, "what is set waits");
	MUST(fc_cache_policy_apply(&rig.cache));
	OK(policy_of(KEPT, 0) == FC_CACHE_POLICY_NONE &&
	       policy_of(KEPT, 1) == FC_CACHE_POLICY_NONE,
	   "until it is applied, to all forks");
	MUST(fc_cache_policy_set(&rig.cache, file_id(KEPT), FC_CACHE_POLICY_KEEP,
	                         ROUND) == FC_OK);
	fc_cache_sweep(&rig.cache);
	OK(policy_of(KEPT, 0) == FC_CACHE_POLICY_KEEP,
	   "which housekeeping does as well");

	fc_test_broken = FC_BREAK(POLICY_ENTER);
	MUST(fc_cache_policy_set(&rig.cache, file_id(98), FC_CACHE_POLICY_NONE,
	                         ROUND) == FC_OK);
	OK(policy_of(98, 0) == FC_CACHE_POLICY_DEFAULT,
	   "negative control: without POLICY_ENTER a new number does not know");
	fc_test_broken = 0;
	rig_close(&rig);
}

static void
test_a_number_given_to_another_file_has_that_ones_policy(void)
{
	open_rig(4 * FC_WAYS, 50);

	/* Of 64 numbers, 0 is never assigned: nearly all are retired and reused. */
	for (uint32_t relation = 100; relation < 155; relation++)
	{
		set_policy(relation, FC_CACHE_POLICY_KEEP);
		MUST(policy_of(relation, 0) == FC_CACHE_POLICY_KEEP);
	}
	for (uint32_t relation = 100; relation < 155; relation++)
		fc_file_retire(&rig.cache, file_id(relation));
	fc_cache_sweep(&rig.cache);

	bool clean = true;

	for (uint32_t relation = 200; relation < 255; relation++)
		clean = policy_of(relation, 0) == FC_CACHE_POLICY_DEFAULT && clean;
	OK(clean, "numbers used again have the policy of the new file");
	rig_close(&rig);
}

static void
test_forgetting(void)
{
	FcFileId elsewhere = file_id(KEPT);

	open_rig(4 * FC_WAYS, 50);
	elsewhere.database = 6;
	MUST(fc_cache_policy_set(&rig.cache, elsewhere, FC_CACHE_POLICY_NONE,
	                         ROUND) == FC_OK);
	MUST(fc_cache_policy_set(&rig.cache, file_id(OTHER), FC_CACHE_POLICY_KEEP,
	                         ROUND + 1) == FC_OK);
	OK(fc_cache_policy_forget(&rig.cache, 5, ROUND + 1) &&
	       fc_cache_policy_apply(&rig.cache),
	   "policies of a database are forgotten, but those of this round");
	OK(policy_of(KEPT, 0) == FC_CACHE_POLICY_DEFAULT &&
	       policy_of(OTHER, 0) == FC_CACHE_POLICY_KEEP,
	   "and so they are");
	OK(fc_cache_policy_of(rig.cache.shared, &elsewhere) == FC_CACHE_POLICY_NONE,
	   "another database keeps its own");
	rig_close(&rig);
}

static void
test_a_full_table(void)
{
	uint32_t relation = 1000;
	FcStatus status = FC_OK;

	open_rig(4 * FC_WAYS, 50);
	while (status == FC_OK && relation < 100000)
		status = fc_cache_policy_set(&rig.cache, file_id(relation++),
		                             FC_CACHE_POLICY_KEEP, ROUND);
	OK(status == FC_FULL, "the table can be full");
	OK(relation - 1000 > fc_cache_policy_count(&rig.cache),
	   "but not before as many are set as it says (%u)", relation - 1000);
	OK(fc_cache_policy_set(&rig.cache, file_id(relation - 1),
	                       FC_CACHE_POLICY_DEFAULT, ROUND) == FC_OK,
	   "the default needs no place");
	OK(fc_cache_policy_set(&rig.cache, file_id(1000), FC_CACHE_POLICY_NONE,
	                       ROUND) == FC_OK,
	   "who has a place can change");
	OK(fc_cache_policy_forget(&rig.cache, 5, ROUND + 1) &&
	       fc_cache_policy_set(&rig.cache, file_id(relation - 1),
	                           FC_CACHE_POLICY_KEEP, ROUND + 1) == FC_OK,
	   "and room comes back");
	rig_close(&rig);
}

static void
test_a_lock_that_is_not_to_be_had(void)
{
	FcCache holder;

	open_rig(4 * FC_WAYS, 50);
	rig_attach(&rig, &holder);
	MUST(fc_file_lock(&holder));
	OK(fc_cache_policy_set(&rig.cache, file_id(KEPT), FC_CACHE_POLICY_NONE,
	                       ROUND) == FC_SKIP,
	   "a lock that another holds is waited for a short while only");
	atomic_store(&rig.cache.shared->cache_policies_changed, 1);
	OK(!fc_cache_policy_apply(&rig.cache) &&
	       atomic_load(&rig.cache.shared->cache_policies_changed) == 1,
	   "and what could not be done stays to be done");
	fc_file_unlock(&holder);
	rig_detach(&holder);
	rig_close(&rig);
}

/* The rules belong to the mechanism: they hold for any replacement policy. */
static void
test_who_evicts_whom(const FcReplacement *whose)
{
	printf("# with replacement by %s\n", whose->name);
	replacement = whose;
	test_others_do_not_evict_keep();
	test_keep_takes_its_share();
	test_keep_does_not_starve_the_rest();
	test_keep_beyond_its_share_competes();
	test_over_the_share_is_as_any_other();
	test_over_the_share_stays_while_nobody_wants_room();
	test_replacement_does_not_keep_keep_out();
}

int
main(void)
{
	test_who_evicts_whom(&fc_replacement_lfu);
	test_who_evicts_whom(&fc_replacement_gittins);
	test_none_is_not_cached();
	test_a_fill_under_way_comes_to_nothing();
	test_none_is_found_out_if_broken();
	test_policies_reach_numbers();
	test_a_number_given_to_another_file_has_that_ones_policy();
	test_forgetting();
	test_a_full_table();
	test_a_lock_that_is_not_to_be_had();
	return tap_done();
}
