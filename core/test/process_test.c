/*
 * process_test.c
 *		Which process is alive: places, tokens, dead processes, and reused pids.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "support.h"
#include "tap.h"

#define PLACES 4

static void
open_rig(Rig *rig)
{
	FcConfig config = { .slot_count = FC_WAYS,
		                .file_count = 64,
		                .process_count = PLACES,
		                .replacement = &fc_replacement_lfu };

	rig_open_with(rig, &config);
}

static FcCache
unbegun(const Rig *rig)
{
	FcCache other = rig->cache;

	other.token = 0;
	return other;
}

/* A child that took a place, told us its token and waits to be killed. */
static pid_t
start_child(const Rig *rig, const char *name, uint32_t *token_out)
{
	int ready[2];

	MUST(pipe(ready) == 0);

	pid_t child = fork();

	MUST(child >= 0);
	if (child == 0)
	{
		FcCache mine = unbegun(rig);

		if (name != NULL)
			prctl(PR_SET_NAME, name);
		if (fc_process_begin(&mine) != FC_OK ||
		    write(ready[1], &mine.token, sizeof(mine.token)) < 0)
			_exit(1);
		for (;;)
			pause();
	}
	MUST(read(ready[0], token_out, sizeof(*token_out)) == sizeof(*token_out));
	close(ready[0]);
	close(ready[1]);
	return child;
}

/* Dead, but not reaped by its parent: kill() still finds the pid. */
static void
make_zombie(pid_t child)
{
	siginfo_t info;

	MUST(kill(child, SIGKILL) == 0);
	MUST(waitid(P_PID, (id_t) child, &info, WEXITED | WNOWAIT) == 0);
}

static void
test_begin_and_end(void)
{
	Rig rig;
	FcCache other[PLACES + 1];
	bool distinct = true;

	open_rig(&rig);
	errno = ENOTTY;
	for (int i = 0; i < PLACES; i++)
	{
		other[i] = unbegun(&rig);
		MUST(fc_process_begin(&other[i]) == FC_OK);
		distinct &= other[i].token != 0;
		for (int j = 0; j < i; j++)
			distinct &= other[i].token != other[j].token &&
			            other[i].process != other[j].process;
	}
	OK(distinct, "every process has a token and a place of its own");

	uint32_t token = other[0].token;

	OK(fc_process_begin(&other[0]) == FC_OK && other[0].token == token,
	   "beginning twice changes nothing");

	other[PLACES] = unbegun(&rig);
	OK(fc_process_begin(&other[PLACES]) == FC_FULL && other[PLACES].token == 0,
	   "a table full of the living takes nobody in");
	OK(errno == ENOTTY, "errno is left as it was found");

	fc_process_end(&other[2]);
	OK(other[2].token == 0, "who ends has no token");
	OK(fc_process_begin(&other[PLACES]) == FC_OK &&
	       other[PLACES].process == other[2].process,
	   "the place of one that ended is free");

	fc_process_end(&other[2]);
	OK(!fc_process_gone(&other[0], other[PLACES].token),
	   "ending twice does not end the successor");
	rig_close(&rig);
}

static void
test_the_living_and_the_dead(void)
{
	Rig rig;
	uint32_t token;

	open_rig(&rig);
	MUST(fc_process_begin(&rig.cache) == FC_OK);

	pid_t child = start_child(&rig, NULL, &token);

	OK(!fc_process_gone(&rig.cache, token), "a process that waits is not gone");
	MUST(kill(child, SIGSTOP) == 0);
	OK(!fc_process_gone(&rig.cache, token), "nor is one that is stopped");
	make_zombie(child);
	errno = ENOTTY;
	OK(fc_process_gone(&rig.cache, token),
	   "a killed process is, even unburied");
	OK(errno == ENOTTY, "errno is left as it was found");
	MUST(waitpid(child, NULL, 0) == child);
	OK(fc_process_gone(&rig.cache, token), "and so it is once buried");

	fc_test_broken = FC_BREAK(TAKEOVER);
	OK(!fc_process_gone(&rig.cache, token), "control: unless nobody looks");
	fc_test_broken = 0;

	OK(fc_process_gone(&rig.cache, rig.cache.token),
	   "oneself is gone: nobody will resume what was cut off");
	rig_close(&rig);
}

static void
test_places_of_the_dead(void)
{
	Rig rig;
	uint32_t token[PLACES];
	pid_t child[PLACES];
	FcCache late;

	open_rig(&rig);
	for (int i = 0; i < PLACES; i++)
		child[i] = start_child(&rig, NULL, &token[i]);
	make_zombie(child[1]);

	late = unbegun(&rig);
	OK(fc_process_begin(&late) == FC_OK && late.process == (token[1] & 0xffff),
	   "the place of a dead process is taken again");
	OK(late.token != token[1] && fc_process_gone(&late, token[1]),
	   "under another token: what the dead one held is not the new one's");

	FcCache later = unbegun(&rig);

	OK(fc_process_begin(&later) == FC_FULL, "only the dead are replaced");
	for (int i = 0; i < PLACES; i++)
	{
		kill(child[i], SIGKILL);
		MUST(waitpid(child[i], NULL, 0) == child[i]);
	}
	rig_close(&rig);
}

static void
test_odd_names(void)
{
	Rig rig;
	uint32_t token;

	open_rig(&rig);

	pid_t child = start_child(&rig, "x) Z 1 (y) Z", &token);

	OK(!fc_process_gone(&rig.cache, token),
	   "a process may call itself what it likes");
	make_zombie(child);
	OK(fc_process_gone(&rig.cache, token), "and is gone all the same");
	MUST(waitpid(child, NULL, 0) == child);
	rig_close(&rig);
}

static void
test_pid_that_came_again(void)
{
	Rig rig;
	FcCache other;

	open_rig(&rig);
	MUST(fc_process_begin(&rig.cache) == FC_OK);
	other = unbegun(&rig);
	MUST(fc_process_begin(&other) == FC_OK);
	OK(!fc_process_gone(&rig.cache, other.token), "a pid with its start time");

	FcProcess *place = &fc_processes(rig.cache.shared)[other.process];

	atomic_fetch_sub(&place->word, 1ULL << 16); /* its start time */
	OK(fc_process_gone(&rig.cache, other.token),
	   "a living pid with another start time is another process");
	rig_close(&rig);
}

/* In a child for which /proc shows no process; a live owner must stay one. */
static void
test_hidden_processes(void)
{
	Rig rig;
	uint32_t token;
	int status;

	open_rig(&rig);

	pid_t owner = start_child(&rig, NULL, &token);
	pid_t child = fork();

	MUST(child >= 0);
	if (child == 0)
	{
		if (unshare(CLONE_NEWNS) != 0 ||
		    mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
		    mount("none", "/proc", "tmpfs", 0, NULL) != 0)
			_exit(2);
		_exit(fc_process_gone(&rig.cache, token) ? 1 : 0);
	}
	MUST(waitpid(child, &status, 0) == child && WIFEXITED(status));
	if (WEXITSTATUS(status) == 2)
		SKIP("an owner that /proc does not show", "only root can hide /proc");
	else
		OK(WEXITSTATUS(status) == 0,
		   "an owner that /proc does not show is believed to live");
	kill(owner, SIGKILL);
	MUST(waitpid(owner, NULL, 0) == owner);
	rig_close(&rig);
}

static void
test_token_never_0(void)
{
	Rig rig;

	open_rig(&rig);

	FcProcess *places = fc_processes(rig.cache.shared);

	for (uint32_t i = 0; i < PLACES; i++)
		atomic_store(&places[i].word, 0xffff); /* free, used 65535 times */

	bool zero = false;

	for (uint32_t i = 0; i < PLACES; i++)
	{
		FcCache other = unbegun(&rig);

		MUST(fc_process_begin(&other) == FC_OK);
		zero |= other.token == 0 || (other.token & 0xffff) != other.process;
	}
	OK(!zero, "a token is not 0 when the count of a place's uses wraps");
	rig_close(&rig);
}

int
main(void)
{
	test_begin_and_end();
	test_the_living_and_the_dead();
	test_places_of_the_dead();
	test_odd_names();
	test_pid_that_came_again();
	test_hidden_processes();
	test_token_never_0();
	return tap_done();
}
