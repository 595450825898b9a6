/*
 * benefit.h
 *		How much waiting time the flash cache saved, for the last hour and day.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef PGFLASH_BENEFIT_H
#define PGFLASH_BENEFIT_H

extern void benefit_install(void);

/*
 * Note the counters of reads.  Takes a note every five minutes, however often
 * it is called.
 */
extern void benefit_note(void);

#endif
