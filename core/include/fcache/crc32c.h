/*
 * crc32c.h
 *		CRC32C (Castagnoli), the checksum of every slot.
 *
 * Uses the processor's widest instructions, and a table where there are none;
 * all give the same values (checked against RFC 3720, appendix B.4).
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef FCACHE_CRC32C_H
#define FCACHE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* CRC32C of length bytes, continuing from crc (0 to begin). */
extern uint32_t fc_crc32c(uint32_t crc, const void *data, size_t length);

/*
 * The three implementations, so that a test can compare them.  The last two
 * need what fc_crc32c_has_ says.
 */
extern uint32_t fc_crc32c_portable(uint32_t crc, const void *data,
                                   size_t length);
extern uint32_t fc_crc32c_hardware(uint32_t crc, const void *data,
                                   size_t length);
extern uint32_t fc_crc32c_folded(uint32_t crc, const void *data, size_t length);
extern int fc_crc32c_has_hardware(void);
extern int fc_crc32c_has_folding(void);

/*
 * The checksum of a slot: of its block's key, then of the block.  So a slot
 * that was written to the wrong place, or is left over from another block, does
 * not pass.
 */
extern uint32_t fc_crc32c_slot(uint64_t key, const void *page);

#endif
