/*
 * account_relations_test.c
 *		The accounting by relation and tablespace: in as many copies as there
 *		may be processors, by many processes at once, and after their ends.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "account_stage.h"

/* ---- relations and tablespaces ------------------------------------------- */

static void
test_relations(void)
{
	AccountRelation row;
	int fd;
	int more;

	start_over();
	fd = opened(PATH, 4);
	more = opened(PATH ".1", 4);
	page_cache_is_full = true;
	(void) server_read(fd, page, BLOCK, 0);
	(void) server_read(more, page, 2 * BLOCK, 0);
	(void) server_write(more, page, BLOCK, 0);
	(void) server_write(more, page, BLOCK, 4 * BLOCK);
	(void) server_sync(fd);
	OK(relation_row(16384, 0, &row) &&
	       row.kind[ACCOUNT_PAGE_CACHE_READ].calls +
	               row.kind[ACCOUNT_DISK_READ].calls ==
	           2 &&
	       row.read_bytes == 3 * BLOCK && row.kind[ACCOUNT_WRITE].calls == 1 &&
	       row.kind[ACCOUNT_WRITE].bytes == BLOCK &&
	       row.kind[ACCOUNT_EXTEND].calls == 1 &&
	       row.kind[ACCOUNT_EXTEND].bytes == BLOCK &&
	       row.kind[ACCOUNT_SYNC].calls == 1,
	   "a relation's segments count together");
	OK(row.tablespace == TABLESPACE_DEFAULT && row.database == 5 && !row.gone,
	   "and say what they are of");
	OK(row.kind[ACCOUNT_WRITE].ns > 0 &&
	       row.kind[ACCOUNT_WRITE].ns ==
	           sum_of(CLIENT, ACCOUNT_DATA, ACCOUNT_WRITE).ns,
	   "its times are those of the calls");
	server_close(more);

	more = opened(PATH "_fsm", 1);
	(void) server_read(more, page, BLOCK, 0);
	OK(relation_row(16384, 1, &row) && calls_in(&row) == 1,
	   "its forks count apart");
	server_close(more);

	(void) server_unlink(PATH ".1");
	OK(relation_row(16384, 0, &row) && !row.gone,
	   "that a segment was removed does not matter");
	(void) server_unlink(PATH);
	OK(relation_row(16384, 0, &row) && row.gone && calls_in(&row) == 5,
	   "what was removed keeps its counts");
	(void) server_read(fd, page, BLOCK, 0);
	OK(relation_row(16384, 0, &row) && calls_in(&row) == 6,
	   "also while somebody has it open");
	server_close(fd);

	fd = server_open(PATH, O_RDWR | O_CREAT | O_EXCL);
	OK(relation_row(16384, 0, &row) && calls_in(&row) == 6 && !row.gone,
	   "a new file of its name resumes them");
	server_close(fd);
}

/* Calls of so many relations, one each. */
static void
sync_relations(unsigned first, unsigned count)
{
	for (unsigned i = first; i < first + count; i++)
	{
		char path[64];
		int fd;

		snprintf(path, sizeof(path), "base/5/%u", i);
		fd = server_open(path, O_RDWR | O_CREAT);
		(void) server_sync(fd);
		(void) server_sync(fd);
		server_close(fd);
	}
}

static uint64_t
calls_of_relations(void)
{
	AccountRelation row;
	uint64_t calls = 0;

	for (uint32_t place = 0; place <= account_relation_places(); place++)
		calls += account_relation(place, &row) ? calls_in(&row) : 0;
	return calls;
}

static void
test_more_relations_than_places(void)
{
	AccountRelation row;
	int fd;

	start_over();
	sync_relations(20000, PLACES);
	OK(calls_of_others() == 0, "as many relations as places find one each");
	sync_relations(30000, 10);
	OK(calls_of_others() == 20, "what finds no place counts as other");
	OK(calls_of_relations() == 2 * (PLACES + 10), "nothing gets lost");

	fd = server_open("base/5/30000", O_RDWR);
	(void) server_sync(fd);
	(void) server_unlink("base/5/20007");
	(void) server_sync(fd);
	OK(relation_row(30000, 0, &row) && calls_in(&row) == 1,
	   "when a relation goes its place is another's, also for an open file");
	OK(!relation_row(20007, 0, &row), "and its counts have gone");
	OK(calls_of(ACCOUNT_DATA, ACCOUNT_SYNC) == 2 * (PLACES + 10) + 2,
	   "but not from the totals");
	server_close(fd);
}

#define CLAIMED          1
#define LIVE             2
#define TAG(life, state) ((uint64_t) (life) << 2 | (state))

static uint32_t
place_of(uint32_t number)
{
	AccountRelation row;

	for (uint32_t place = 0; place < PLACES; place++)
	{
		if (account_relation(place, &row) && row.relation == number)
			return place;
	}
	abort();
}

/* Leftovers of a race, or of a process that dies at the worst moment. */
static void
test_odd_places(void)
{
	AccountRelation row;
	uint32_t place;
	uint32_t twin;
	unsigned rows = 0;

	start_over();
	sync_relations(20000, 1);
	place = place_of(20000);
	twin = (place + 1) % PLACES;
	account_memory.keys[twin] = account_memory.keys[place];
	account_memory.keys[twin].tag = TAG(1, LIVE);
	account_memory.relations[twin].copy[0].counter[RELATION_SYNC] = 5;
	for (uint32_t i = 0; i < PLACES; i++)
		rows += account_relation(i, &row) && row.relation == 20000;
	OK(rows == 1 && relation_row(20000, 0, &row) && calls_in(&row) == 7,
	   "a relation that got two places has one row");

	start_over();
	for (uint32_t i = 0; i < PLACES; i++)
		account_memory.keys[i].tag = TAG(1, CLAIMED);
	sync_relations(20000, 1);
	OK(calls_of_others() == 2,
	   "nobody waits long for a place that is being claimed");
	account_detach(true);
	account_create(server_memory, SINCE);
	sync_relations(20000, 1);
	OK(relation_row(20000, 0, &row) && calls_in(&row) == 2 &&
	       calls_of_others() == 2,
	   "and after a crash it is free");
}

/* This process continues on another processor. */
static void
move_to(int processor)
{
	runs_on = processor;
	account_in_child();
}

static unsigned
copies_in_use(uint32_t place)
{
	unsigned used = 0;

	for (int copy = 0; copy < RELATION_COPIES; copy++)
		used += account_get(&account_memory.relations[place]
		                         .copy[copy]
		                         .counter[RELATION_SYNC]) > 0;
	return used;
}

static void
test_processors(void)
{
	AccountRelation row;
	int fd;

	start_over();
	fd = opened(PATH, 4);
	for (int processor = 0; processor < 40; processor++)
	{
		move_to(processor);
		(void) server_sync(fd);
	}
	OK(calls_of(ACCOUNT_DATA, ACCOUNT_SYNC) == 40,
	   "what is counted on many processors adds up");
	OK(relation_row(16384, 0, &row) && calls_in(&row) == 40,
	   "ACCOUNT_COPIES: for a relation, too");
	OK(copies_in_use(place_of(16384)) == RELATION_COPIES,
	   "though it is counted in several copies");
	server_close(fd);

	/* A process that is moved in the middle of its work. */
	start_over();
	move_to(0);
	fd = opened(PATH, 4);
	for (int i = 0; i < 100; i++)
	{
		runs_on = i / 50;
		(void) server_sync(fd);
	}
	OK(relation_row(16384, 0, &row) && calls_in(&row) == 100 &&
	       copies_in_use(place_of(16384)) == 2,
	   "a process finds out by itself where it runs");
	server_close(fd);

	/*
	 * All places are taken, and the owner of the next one was counted
	 * everywhere.
	 */
	start_over();
	sync_relations(20000, PLACES);
	fd = server_open("base/5/20007", O_RDWR);
	for (int processor = 0; processor < RELATION_COPIES; processor++)
	{
		move_to(processor);
		(void) server_sync(fd);
	}
	server_close(fd);
	(void) server_unlink("base/5/20007");
	sync_relations(30000, 1);
	OK(relation_row(30000, 0, &row) && calls_in(&row) == 2,
	   "ACCOUNT_ANEW: who gets another's place begins at nothing");

	move_to(-1);
	fd = opened(PATH, 4);
	errno = 4711;
	(void) server_sync(fd);
	OK(errno == 4711 && calls_of(ACCOUNT_DATA, ACCOUNT_SYNC) ==
	                        2 * PLACES + RELATION_COPIES + 3,
	   "where processors cannot be told all is counted, and errno left alone");
	server_close(fd);
	move_to(0);
}

/* The counts of a client that is told only about changes. */
typedef struct Follower
{
	AccountSeen seen[PLACES + 1];
	AccountRelation known[PLACES + 1];
	unsigned told;
} Follower;

static void
follow(Follower *follower)
{
	follower->told = 0;
	for (uint32_t place = 0; place <= PLACES; place++)
		follower->told += account_relation_changed(
			place, &follower->seen[place], &follower->known[place]);
}

/* Does the client know all counts? */
static bool
knows_all(const Follower *follower)
{
	bool good = true;

	for (uint32_t place = 0; place <= PLACES; place++)
	{
		AccountRelation row;

		if (account_relation(place, &row))
			good &= memcmp(&row, &follower->known[place], sizeof(row)) == 0;
	}
	return good;
}

static unsigned
below(unsigned limit)
{
	static uint64_t state = 7;

	state = state * 6364136223846793005ULL + 1442695040888963407ULL;
	return (unsigned) ((state >> 33) % limit);
}

static void
test_changes(void)
{
	static Follower often;
	static Follower seldom;
	unsigned wrong = 0;
	unsigned most = 0;

	start_over();
	follow(&often);
	OK(often.told == 0, "where nothing was counted nothing is told");
	sync_relations(20000, 10);
	follow(&often);
	OK(often.told == 10, "at first all is told");
	follow(&often);
	OK(often.told == 0, "and then what changes, nothing else");
	move_to(2);
	sync_relations(20003, 1);
	(void) server_unlink("base/5/20007");
	follow(&often);
	OK(often.told == 2 && knows_all(&often),
	   "ACCOUNT_CHANGES: wherever it is counted, and if a file has gone");

	/* More relations than places, so that places change hands. */
	for (unsigned round = 0; round < 2000; round++)
	{
		unsigned calls = below(4);

		move_to((int) below(8));
		for (unsigned i = 0; i < calls; i++)
			sync_relations(20000 + below(PLACES + 20), 1);
		if (below(3) == 0)
		{
			char path[64];

			snprintf(path, sizeof(path), "base/5/%u",
			         20000 + below(PLACES + 20));
			(void) server_unlink(path);
			calls++;
		}
		follow(&often);
		wrong += !knows_all(&often) || often.told > calls;
		if (below(50) == 0)
		{
			follow(&seldom);
			wrong += !knows_all(&seldom);
			most = seldom.told > most ? seldom.told : most;
		}
	}
	OK(wrong == 0 && calls_of_others() > 0,
	   "who is told what changes knows what who asks for all does");
	OK(most > 30, "however seldom he asks: %u at once", most);
	move_to(0);
}

static void
test_tablespaces(void)
{
	uint64_t calls = 0;
	AccountRelation row;
	char path[128];

	start_over();
	for (unsigned space = 50000; space < 50040; space++)
	{
		int fd;

		snprintf(path, sizeof(path), "pg_tblspc/%u", space);
		(void) mkdir(path, 0700);
		strcat(path, "/PG_18_202506291");
		(void) mkdir(path, 0700);
		strcat(path, "/5");
		(void) mkdir(path, 0700);
		strcat(path, "/7");
		fd = opened(path, 1);
		(void) server_sync(fd);
		server_close(fd);
		(void) server_unlink(path);
	}
	for (unsigned number = 2; number < ACCOUNT_TABLESPACES - 1; number++)
	{
		calls += account_tablespace(number, &row) &&
		         row.tablespace == 50000 + number - 2 && calls_in(&row) == 1 &&
		         row.kind[ACCOUNT_SYNC].calls == 1;
	}
	OK(calls == ACCOUNT_TABLESPACES - 3,
	   "the first tablespaces have counts of their own");
	OK(account_tablespace(ACCOUNT_TABLESPACES - 1, &row) &&
	       row.tablespace == 0 &&
	       row.kind[ACCOUNT_SYNC].calls == 40 - (ACCOUNT_TABLESPACES - 3),
	   "the others count together");
	OK(calls_of(ACCOUNT_DATA, ACCOUNT_SYNC) == 40, "in the totals are all");
}

/* ---- many at once, and ends ---------------------------------------------- */

#define CHILDREN 6
#define TURNS    20

static void
wait_for(pid_t child)
{
	if (waitpid(child, NULL, 0) != child)
		abort();
}

/*
 * Each child counts on all relations, and all of them are new to all children.
 */
static void
test_many_at_once(void)
{
	pid_t child[CHILDREN];
	AccountRelation row;
	unsigned right = 0;
	uint64_t others;

	start_over();
	for (int i = 0; i < CHILDREN; i++)
	{
		child[i] = fork();
		if (child[i] == 0)
		{
			move_to(i);
			for (int turn = 0; turn < TURNS; turn++)
				sync_relations(20000, PLACES / 2);
			_exit(0);
		}
	}
	for (int i = 0; i < CHILDREN; i++)
		wait_for(child[i]);

	OK(calls_of(ACCOUNT_DATA, ACCOUNT_SYNC) == CHILDREN * TURNS * PLACES,
	   "many processes at once: no call gets lost");
	OK(calls_of_relations() == CHILDREN * TURNS * PLACES,
	   "nor one of a relation");
	others = calls_of_others();
	for (unsigned i = 20000; i < 20000 + PLACES / 2; i++)
		right += relation_row(i, 0, &row) &&
		         calls_in(&row) + others >= CHILDREN * TURNS * 2;
	OK(right == PLACES / 2, "and each relation has its row");

	/*
	 * While a process is stopped during its claim of a row, others may count
	 * elsewhere.
	 */
	sync_relations(20000, PLACES / 2);
	OK(calls_of_others() == others &&
	       calls_of_relations() == (CHILDREN * TURNS + 1) * PLACES,
	   "in which all that comes later is counted");
}

static void
test_killed(void)
{
	int ready[2];
	pid_t child;
	char byte;

	start_over();
	if (pipe(ready) != 0)
		abort();
	child = fork();
	if (child == 0)
	{
		account_in_child();
		sync_relations(20000, 10);
		if (write(ready[1], "x", 1) != 1)
			_exit(1);
		pause();
	}
	if (read(ready[0], &byte, 1) != 1)
		abort();
	kill(child, SIGKILL);
	wait_for(child);
	OK(calls_of(ACCOUNT_DATA, ACCOUNT_SYNC) == 20 && calls_of_relations() == 20,
	   "a process that is killed takes no count with it");
	close(ready[0]);
	close(ready[1]);
}

/* The postmaster releases its memory and creates it again. */
static void
test_crash(void)
{
	size_t size = account_memory_size();
	AccountRelation row;

	start_over();
	sync_relations(20000, 10);
	account_detach(true);
	munmap(server_memory, size);
	server_memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
	                     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	OK(!account_attached(), "after a crash there is nothing to ask");
	account_create(server_memory, SINCE + 1);
	OK(account_since() == SINCE && calls_of(ACCOUNT_DATA, ACCOUNT_SYNC) == 20 &&
	       relation_row(20003, 0, &row) && calls_in(&row) == 2,
	   "and then the counts are what they were");
	sync_relations(20003, 1);
	OK(relation_row(20003, 0, &row) && calls_in(&row) == 4, "and go on");
}

int
main(void)
{
	set_up();
	test_relations();
	test_more_relations_than_places();
	test_odd_places();
	test_processors();
	test_changes();
	test_tablespaces();
	test_many_at_once();
	test_killed();
	test_crash();
	tear_down();
	return tap_done();
}
