/*
 * explore.h
 *		All ways in which a few processes can interfere with each other.
 *
 * Actors are coroutines of one process, each with a handle of its own.  They
 * yield at every FC_POINT, and explore() plays a scene once for each possible
 * order, up to so many preemptions (a preemption switches away from an actor
 * that could have continued).  Most mistakes need one or two.  An actor that
 * may die is also stopped for ever at each of its points, as by SIGKILL, one
 * actor per scene.
 *
 * A schedule is a list of choices; the next one changes the last choice that
 * has an alternative.  Nothing is random: every failure is reproducible.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef EXPLORE_H
#define EXPLORE_H

#include <ucontext.h>

#include "support.h"

#define ACTORS_MAX  4
#define STACK_SIZE  (256 * 1024)
#define CHOICES_MAX 4096

typedef struct Actor
{
	void (*act)(FcCache *cache);
	bool mortal;

	FcCache cache;
	ucontext_t context;
	bool begun;
	bool over;
	bool killed;
} Actor;

typedef struct Choice
{
	uint8_t taken;
	uint8_t options;
} Choice;

static struct
{
	Actor actor[ACTORS_MAX];
	unsigned actors;
	unsigned current;
	ucontext_t scheduler;
	char *stack[ACTORS_MAX];

	Choice choice[CHOICES_MAX];
	unsigned choices; /* made in this schedule so far */
	unsigned known;   /* to be repeated from the last time */
	unsigned preemptions;
	unsigned preemptions_max;
	bool killed;
	bool inside;
} explorer;

static void
explorer_point(const char *name)
{
	(void) name;
	if (explorer.inside)
		swapcontext(&explorer.actor[explorer.current].context,
		            &explorer.scheduler);
}

static void
explorer_run_actor(void)
{
	Actor *actor = &explorer.actor[explorer.current];

	actor->act(&actor->cache);
	actor->over = true;
	swapcontext(&actor->context, &explorer.scheduler);
}

/* Choose one of so many options; 0 is tried first. */
static unsigned
explorer_choose(unsigned options)
{
	MUST(explorer.choices < CHOICES_MAX && options <= UINT8_MAX);

	Choice *choice = &explorer.choice[explorer.choices++];

	if (explorer.choices > explorer.known)
	{
		*choice = (Choice){ .options = (uint8_t) options };
		explorer.known = explorer.choices;
	}
	MUST(choice->options == options); /* or the scene is not deterministic */
	return choice->taken;
}

/* Change the last choice that can be changed; false if all have been made. */
static bool
explorer_next(void)
{
	while (explorer.known > 0)
	{
		Choice *choice = &explorer.choice[explorer.known - 1];

		if (choice->taken + 1 < choice->options)
		{
			choice->taken++;
			return true;
		}
		explorer.known--;
	}
	return false;
}

static void
explorer_kill(Actor *actor)
{
	actor->over = true;
	actor->killed = true;
	explorer.killed = true;
	fc_process_end(&actor->cache); /* the place is free: its owner is gone */
}

/*
 * The next actor: the same at no cost if it can go on; another for a
 * preemption.
 */
static bool
explorer_step(void)
{
	Actor *current = &explorer.actor[explorer.current];
	unsigned can[ACTORS_MAX];
	unsigned options = 0;
	bool goes_on = current->begun && !current->over;

	if (goes_on)
		can[options++] = explorer.current;
	for (unsigned i = 0; i < explorer.actors; i++)
	{
		if (explorer.actor[i].over || (goes_on && i == explorer.current))
			continue;
		if (!goes_on || explorer.preemptions < explorer.preemptions_max)
			can[options++] = i;
	}
	if (options == 0)
		return false;

	bool may_die = goes_on && current->mortal && !explorer.killed;
	unsigned choice = explorer_choose(options + may_die);

	if (choice == options)
	{
		explorer_kill(current);
		return true;
	}
	explorer.preemptions += goes_on && choice > 0;
	explorer.current = can[choice];

	Actor *next = &explorer.actor[explorer.current];

	if (!next->begun)
	{
		next->begun = true;
		getcontext(&next->context);
		next->context.uc_stack.ss_sp = explorer.stack[explorer.current];
		next->context.uc_stack.ss_size = STACK_SIZE;
		next->context.uc_link = NULL;
		makecontext(&next->context, explorer_run_actor, 0);
	}
	explorer.inside = true;
	swapcontext(&explorer.scheduler, &next->context);
	explorer.inside = false;
	return true;
}

typedef struct Exploration
{
	unsigned preemptions;
	void (*open)(Actor *actor, unsigned actors); /* fill in the handles */
	bool (*close)(void); /* check the result; false: something is wrong */
} Exploration;

/* Play all schedules until something goes wrong in one; then true. */
UNUSED static bool
explore(const Exploration *scene, const Actor *actor, unsigned actors,
        unsigned long *schedules_out)
{
	unsigned long schedules = 0;
	bool wrong = false;

	for (unsigned i = 0; i < ACTORS_MAX; i++)
	{
		if (explorer.stack[i] == NULL)
			MUST((explorer.stack[i] = malloc(STACK_SIZE)) != NULL);
	}
	explorer.known = 0;
	explorer.actors = actors;
	explorer.preemptions_max = scene->preemptions;
	fc_test_point = explorer_point;
	do
	{
		memcpy(explorer.actor, actor, actors * sizeof(Actor));
		explorer.choices = explorer.preemptions = explorer.current = 0;
		explorer.killed = false;
		scene->open(explorer.actor, actors);
		while (explorer_step())
			;
		wrong = !scene->close();
		schedules++;
	} while (!wrong && explorer_next());
	fc_test_point = NULL;
	*schedules_out = schedules;
	return wrong;
}

#endif
