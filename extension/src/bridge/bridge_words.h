/*
 * bridge_words.h
 *		Reports about the cache.  For bridge*.c alone.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef PGFLASH_BRIDGE_WORDS_H
#define PGFLASH_BRIDGE_WORDS_H

#include <stdbool.h>

#include "fcache/cache.h"

/*
 * There is no cache, but nothing is wrong; "": there is one.  Returns false,
 * for the caller to return.
 */
extern bool bridge_stay_off(const char *why);

/*
 * There is no cache: log the reason.  Returns false, for the caller to return.
 */
extern bool bridge_refuse(const char *hint, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* The last reason given: "" if there is a cache. */
extern const char *bridge_why_off(void);

extern const char *bridge_mode_word(FcMode mode);
extern const char *bridge_reason_words(FcReason reason);

/* The self-test failed because of the named call. */
extern void bridge_words_self_test(const char *call);

/* Log what has happened to the cache since the last call. */
extern void bridge_words_tick(void);

#endif
