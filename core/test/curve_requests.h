/*
 * curve_requests.h
 *		Requests as a miss-ratio curve sees them.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef CURVE_REQUESTS_H
#define CURVE_REQUESTS_H

#include "fcache/curve.h"
#include "support.h"

#define START_MS 1000

static void
request(FcCurve *curve, uint32_t block, uint64_t now_ms)
{
	FcFileId id = { .tablespace = 1663, .relation = 16384 };
	uint64_t hash = fc_curve_hash(fc_curve_file_hash(id), block);

	fc_curve_count(curve, 1, 1);
	if (fc_curve_wants(curve, hash))
		fc_curve_note_at(curve, hash, now_ms);
}

#endif
