/*
 * benefit.h
 *		How much waiting the flash cache saved, by the hour and the day.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef PGFLASH_BENEFIT_H
#define PGFLASH_BENEFIT_H

extern void benefit_install(void);

/*
 * Note the counters of reads, every five minutes; called more often, it does
 * nothing.
 */
extern void benefit_note(void);

#endif
