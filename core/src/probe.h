/*
 * probe.h
 *		Probing whether a device answers.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef FCACHE_PROBE_H
#define FCACHE_PROBE_H

#include "devices.h"

/* A probe came back. */
typedef void FcProbeDone(FcCache *cache, uint32_t device, uint64_t ns,
                         FcOutcome outcome);

/*
 * Begin to read a slot of the device, unless an earlier probe of it is still
 * under way.  Returns whether it began.
 */
extern bool fc_probe_begin(FcCache *cache, uint32_t device);

/*
 * Collect the probes that came back.  If new ones were begun, wait for them, up
 * to timeout_ns.
 */
extern void fc_probe_collect(FcCache *cache, unsigned new_ones,
                             uint64_t timeout_ns, FcProbeDone *done);

/* Wait for the probes under way, and free the memory. */
extern void fc_probe_close(FcCache *cache);

#endif
