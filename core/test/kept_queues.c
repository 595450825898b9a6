/*
 * kept_queues.c
 *		Reused queues, for tests that open thousands of them.
 *
 * The kernel takes about 30 ms to destroy a queue of Linux AIO, whatever it was
 * used for: it waits until no processor can be looking at it.  A test that
 * plays every schedule of a scene, each with its own cache, would spend most of
 * its time waiting for that.  So these functions replace fc_queue_open() and
 * fc_queue_close(), by the linker's --wrap: a queue with nothing under way is
 * kept, and given to the next caller that asks for its depth.  A queue with
 * something under way is really closed, which is what closing has to show.
 *
 * A child has none of its parent's queues, so it begins with no kept ones.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <string.h>
#include <unistd.h>

#include "queue.h"

#define KEPT_MAX 16

extern void __real_fc_queue_open(FcQueue *queue, unsigned depth);
extern void __real_fc_queue_close(FcQueue *queue);
extern void __wrap_fc_queue_open(FcQueue *queue, unsigned depth);
extern void __wrap_fc_queue_close(FcQueue *queue);

static FcQueue kept[KEPT_MAX];
static unsigned kept_count;
static pid_t owner;

static void
know_owner(void)
{
	if (owner != getpid())
		kept_count = 0;
	owner = getpid();
}

void
__wrap_fc_queue_open(FcQueue *queue, unsigned depth)
{
	know_owner();
	for (unsigned i = 0; i < kept_count; i++)
	{
		if (kept[i].depth == depth)
		{
			*queue = kept[i];
			kept[i] = kept[--kept_count];
			return;
		}
	}
	__real_fc_queue_open(queue, depth);
}

void
__wrap_fc_queue_close(FcQueue *queue)
{
	know_owner();
	if (queue->engine != FC_QUEUE_AIO || queue->in_flight > 0 ||
	    kept_count == KEPT_MAX)
	{
		__real_fc_queue_close(queue);
		return;
	}
	kept[kept_count++] = (FcQueue){
		.engine = queue->engine,
		.depth = queue->depth,
		.context = queue->context,
	};
	memset(queue, 0, sizeof(*queue));
}
