/*
 * broken.h
 *		What only test builds have: assertions, negative controls, stop points.
 *
 * FC_ASSERT states what a programmer guarantees.  fc_test_broken is a set of
 * mechanisms to leave out, so that a test can show that it would notice.
 * FC_POINT(name) lets a test stop a process between any two steps of the
 * protocol.  The shipped library has none of them: there the macros are empty.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef FCACHE_BROKEN_H
#define FCACHE_BROKEN_H

#include <stdint.h>

#ifdef FC_TEST
#include <stdlib.h>
#define FC_ASSERT(condition) ((condition) ? (void) 0 : abort())
#else
#define FC_ASSERT(condition) ((void) 0)
#endif

#ifdef FC_TEST
#define FC_BIT(n) (1ULL << (n))

enum
{
	FC_BREAK_INVALIDATE = FC_BIT(0),     /* changes drop no entry */
	FC_BREAK_SET_GENERATION = FC_BIT(1), /* fills ignore the set's generation */
	FC_BREAK_FILE_GENERATION = FC_BIT(2), /* ... the file's generation */
	FC_BREAK_MODE_CHECK = FC_BIT(3),      /* ... a mode change under way */
	FC_BREAK_ENTRY_COMPARE =
		FC_BIT(4),            /* hits do not compare the entry again */
	FC_BREAK_CRC = FC_BIT(5), /* hits are not checksummed */
	FC_BREAK_SECOND_INVALIDATE = FC_BIT(6), /* nothing after the real write */
	FC_BREAK_RESOLVE = FC_BIT(7),           /* stale handles are trusted */
	FC_BREAK_TAKEOVER = FC_BIT(8),  /* dead owners keep what they held */
	FC_BREAK_SELF = FC_BIT(9),      /* ... and so does the process itself */
	FC_BREAK_FORGET = FC_BIT(10),   /* numbers are reused with blocks cached */
	FC_BREAK_DOOM = FC_BIT(11),     /* changes leave pending fills alone */
	FC_BREAK_FULL_KEY = FC_BIT(12), /* keys are compared in part */
	FC_BREAK_REPLAY_FILE = FC_BIT(13), /* hits ignore the file's generation */
	FC_BREAK_PIN = FC_BIT(14),    /* a slot being written can be given away */
	FC_BREAK_ABSENT = FC_BIT(15), /* unknown files stay unknown for ever */
	FC_BREAK_EVERY_WAY = FC_BIT(16), /* changes drop only one copy of a block */
	FC_BREAK_REFRESH = FC_BIT(17),   /* writers refresh what others changed */
	FC_BREAK_CHUNKS = FC_BIT(18), /* a file's cached blocks are not counted */
	FC_BREAK_LOOK_AGAIN = FC_BIT(19),  /* changes look at a moving entry once */
	FC_BREAK_KEEP = FC_BIT(20),        /* keep protects nothing */
	FC_BREAK_KEEP_SHARE = FC_BIT(21),  /* ... or everything, without a limit */
	FC_BREAK_POLICY_NONE = FC_BIT(22), /* files of policy none are looked up */
	FC_BREAK_POLICY_DROP = FC_BIT(23), /* ... and keep the blocks they have */
	FC_BREAK_POLICY_ENTER =
		FC_BIT(24),                /* new numbers do not ask for their policy */
	FC_BREAK_FEWEST = FC_BIT(25),  /* the first file in line is displaced */
	FC_BREAK_RECOUNT = FC_BIT(26), /* a new number's blocks count from 0 */
	FC_BREAK_COUNT_FIRST =
		FC_BIT(27), /* ... and are counted before it retires */
	FC_BREAK_CURVE_TAKEOVER =
		FC_BIT(28), /* what a dead owner left is trusted */
	FC_BREAK_CURVE_FRONTIER =
		FC_BIT(29),                    /* blocks of unknown past are counted */
	FC_BREAK_BYPASSED = FC_BIT(30),    /* changes skip a bypassed device */
	FC_BREAK_BUDGET = FC_BIT(31),      /* the write budget limits nothing */
	FC_BREAK_LOST_PAGE = FC_BIT(40),   /* pages of late reads are reused */
	FC_BREAK_OWN_PAGE = FC_BIT(32),    /* flash is read into callers' pages */
	FC_BREAK_READER_BUSY = FC_BIT(41), /* reads within a read go ahead */
	FC_BREAK_OLD_HOME = FC_BIT(42),    /* changes look only at the new home */
	FC_BREAK_HOME_ORDER = FC_BIT(43),  /* ... or at the new home first */
	FC_BREAK_FRAME = FC_BIT(44), /* ... and not at whether the size moved */
	FC_BREAK_EPOCH = FC_BIT(45), /* old tickets are valid under a new size */
	FC_BREAK_MOVE_TICKET = FC_BIT(46), /* moves take their ticket at the end */
	FC_BREAK_MOVE_LOOK = FC_BIT(47),   /* ... and do not look back */
	FC_BREAK_TWO_WALKS = FC_BIT(48),   /* walks meet a moving block by chance */
	FC_BREAK_DRAIN = FC_BIT(49),       /* sets that go are not waited for */
	FC_BREAK_STAND_IN_SIGN = FC_BIT(33),  /* stand-ins do not sign on */
	FC_BREAK_STAND_IN_LIMIT = FC_BIT(34), /* ... and have no time limit */
	FC_BREAK_RING_SEQUENCE = FC_BIT(35),  /* a page's earlier use is accepted */
	FC_BREAK_WRITING_DOOM = FC_BIT(36), /* changes ignore slots being written */
	FC_BREAK_PAGE_PIN = FC_BIT(37),     /* pages are freed while written */
	FC_BREAK_WRITER_GONE = FC_BIT(38),  /* a live writer is taken over */
	FC_BREAK_TAKE_UP = FC_BIT(39),    /* a new writer ignores the dead one's */
	FC_BREAK_STAMP = FC_BIT(53),      /* sleepers wake without a check */
	FC_BREAK_IN_FLIGHT = FC_BIT(54),  /* stamps are taken while others write */
	FC_BREAK_STAMP_LATE = FC_BIT(55), /* stamps outlive changes */
	FC_BREAK_ASLEEP = FC_BIT(56),     /* changers treat sleepers as unknown */
	FC_BREAK_DISTRUST = FC_BIT(57),   /* a file that failed gets a stamp */
	FC_BREAK_SYSTEM = FC_BIT(58),     /* another cluster's memory is used */
	FC_BREAK_AHEAD = FC_BIT(50),      /* blocks read ahead serve any request */
	FC_BREAK_GEOMETRY = FC_BIT(51),   /* a map of another layout is used */
	FC_BREAK_CLEAN = FC_BIT(52),      /* a map is used after an unclean end */
	FC_BREAK_DIRECTORY = FC_BIT(59),  /* ... another directory's */
	FC_BREAK_BOOT = FC_BIT(60),       /* ... another boot's */
	FC_BREAK_NONCE = FC_BIT(61),      /* ... another life's, or a part of it */
	FC_BREAK_OFFLINE = FC_BIT(62),    /* ... that of a cache that was offline */
	FC_BREAK_AUDIT = FC_BIT(63),      /* memory is trusted unchecked */

	/* All bits are taken.  These are the curve's, whose tests have no devices. */
	FC_BREAK_WRITE_SHARE = FC_BIT(28), /* one device may have all writes */
	FC_BREAK_WRITE_LATE = FC_BIT(29),  /* ... and all pages of the ring */

	/* The same bits again, for tests that have neither. */
	FC_BREAK_CHECKPOINT = FC_BIT(28), /* a map is used at any checkpoint */
	FC_BREAK_ACCUSE = FC_BIT(29), /* changes behind our back are not detected */

	/* These are the cache policies', which the tests of wear do not use. */
	FC_BREAK_WEAR = FC_BIT(20),        /* each start is a new day */
	FC_BREAK_WEAR_CRC = FC_BIT(21),    /* a torn record is trusted */
	FC_BREAK_WEAR_PLACES = FC_BIT(22), /* a record overwrites the last one */
	FC_BREAK_WEAR_BOOT = FC_BIT(23),   /* all boots share one clock */
	FC_BREAK_WEAR_ENDED = FC_BIT(24) /* a killed life counts as ended cleanly */
};

extern uint64_t fc_test_broken;
extern void (*fc_test_point)(const char *name);
extern uint64_t fc_test_now_ns;   /* the clock's time; 0: use the real clock */
extern uint64_t fc_test_tick_ns;  /* ... which each look advances by this */
extern void *const *fc_test_page; /* callers' pages for a run's slots */

#define FC_BROKEN(name)        ((fc_test_broken & FC_BREAK_##name) != 0)
#define FC_CALLERS_PAGE(index) (fc_test_page[index])
#define FC_POINT(name)                                                         \
	do                                                                         \
	{                                                                          \
		if (fc_test_point != NULL)                                             \
			fc_test_point(name);                                               \
	} while (0)
#else
#define FC_BROKEN(name)        0
#define FC_CALLERS_PAGE(index) NULL
#define FC_POINT(name)         ((void) 0)
#endif

#endif
