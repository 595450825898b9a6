/*
 * page.h
 *		Would PostgreSQL accept these bytes as the block?
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef PGFLASH_PAGE_H
#define PGFLASH_PAGE_H

#include <stdbool.h>
#include <stdint.h>

/*
 * May be called where nothing may fail.  Changes the page for a moment, so
 * nothing else may read it meanwhile; block counts from the beginning of the
 * fork.
 */
extern bool page_valid(void *page, uint32_t block);

#endif
