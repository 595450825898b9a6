/*
 * crc32c.c
 *		CRC32C of a block, as fast as the processor allows.
 *
 * The instruction takes 3 cycles and one can start in every cycle, so three
 * lanes of the block are computed side by side and joined at the end.  Joining
 * means moving a checksum over a lane's worth of zero bytes, which is linear:
 * four tables of 256 words, made at load time, do it with four look-ups.  A
 * block of 8 KB is three lanes of 2728 bytes and 8 bytes more: 370 ns against
 * 1,010 ns in one lane (bench/core).
 *
 * Processors of x86-64 have the instruction with SSE 4.2.  For those of arm64
 * it is an extension, which the kernel announces to each process by a bit of
 * the auxiliary vector.  A processor without it looks everything up in tables.
 *
 * The tables are filled before main() or at dlopen(), and never change.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <stdbool.h>
#include <string.h>

#if defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

#include "fcache/assert.h"
#include "fcache/cache.h"
#include "fcache/crc32c.h"

/* The Castagnoli polynomial with its bits in reverse, as the CRC runs. */
#define POLYNOMIAL 0x82f63b78U

#define LANE_BYTES 2728
#define LANE_WORDS (LANE_BYTES / 8)

/*
 * step[k][b]: the effect of byte b, k bytes before the end of an 8-byte step.
 */
static uint32_t step[8][256];

/* shift[k][b]: byte k of a checksum being b, moved over LANE_BYTES zeros. */
static uint32_t shift[4][256];

static bool has_hardware;

static void make_tables(void) __attribute__((constructor));

static void
make_tables(void)
{
	for (uint32_t byte = 0; byte < 256; byte++)
	{
		uint32_t crc = byte;

		for (int bit = 0; bit < 8; bit++)
			crc = (crc >> 1) ^ ((crc & 1) ? POLYNOMIAL : 0);
		step[0][byte] = crc;
	}

	for (uint32_t byte = 0; byte < 256; byte++)
	{
		for (int k = 1; k < 8; k++)
			step[k][byte] =
				(step[k - 1][byte] >> 8) ^ step[0][step[k - 1][byte] & 0xff];
	}

	/*
	 * The result of moving each single bit of a checksum; all others are their
	 * sums.
	 */
	uint32_t moved[32];

	for (int bit = 0; bit < 32; bit++)
	{
		uint32_t crc = 1U << bit;

		for (int i = 0; i < LANE_BYTES; i++)
			crc = (crc >> 8) ^ step[0][crc & 0xff];
		moved[bit] = crc;
	}

	for (int k = 0; k < 4; k++)
	{
		for (uint32_t byte = 0; byte < 256; byte++)
		{
			uint32_t crc = 0;

			for (int bit = 0; bit < 8; bit++)
			{
				if (byte & (1U << bit))
					crc ^= moved[8 * k + bit];
			}
			shift[k][byte] = crc;
		}
	}

#if defined(__x86_64__)
	has_hardware = __builtin_cpu_supports("sse4.2");
#elif defined(__aarch64__)
	has_hardware = (getauxval(AT_HWCAP) & HWCAP_CRC32) != 0;
#endif
}

int
fc_crc32c_has_hardware(void)
{
	return has_hardware;
}

static inline uint64_t
word_at(const unsigned char *p)
{
	uint64_t word;

	memcpy(&word, p, sizeof(word));
	return word;
}

uint32_t
fc_crc32c_portable(uint32_t crc, const void *data, size_t length)
{
	const unsigned char *p = data;

	crc = ~crc;

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	for (; length >= 8; length -= 8, p += 8)
	{
		uint64_t word = word_at(p) ^ crc;

		crc = 0;
		for (int k = 0; k < 8; k++)
			crc ^= step[7 - k][(word >> (8 * k)) & 0xff];
	}
#endif

	while (length-- > 0)
		crc = (crc >> 8) ^ step[0][(crc ^ *p++) & 0xff];

	return ~crc;
}

#if defined(__x86_64__)

#define WITH_CRC32C __attribute__((target("sse4.2")))

/*
 * A checksum is kept in 64 bits, as here: anything else costs two moves a step.
 */
static inline WITH_CRC32C uint64_t
word_added(uint64_t crc, uint64_t word)
{
	return __builtin_ia32_crc32di(crc, word);
}

static inline WITH_CRC32C uint64_t
byte_added(uint64_t crc, unsigned char byte)
{
	return __builtin_ia32_crc32qi((uint32_t) crc, byte);
}

#elif defined(__aarch64__)

#define WITH_CRC32C

/*
 * Compilers spell the intrinsics and the attribute that permits them in
 * different ways; all of them know the assembler's.  A result of 32 bits has
 * zeros above it.
 */
static inline uint64_t
word_added(uint64_t crc, uint64_t word)
{
	uint64_t out;

	__asm__(".arch_extension crc\n\tcrc32cx %w0, %w1, %x2"
	        : "=r"(out)
	        : "r"(crc), "r"(word));
	return out;
}

static inline uint64_t
byte_added(uint64_t crc, unsigned char byte)
{
	uint64_t out;

	__asm__(".arch_extension crc\n\tcrc32cb %w0, %w1, %w2"
	        : "=r"(out)
	        : "r"(crc), "r"((uint32_t) byte));
	return out;
}

#endif

#ifdef WITH_CRC32C

static inline uint32_t
moved_over_lane(uint32_t crc)
{
	return shift[0][crc & 0xff] ^ shift[1][(crc >> 8) & 0xff] ^
	       shift[2][(crc >> 16) & 0xff] ^ shift[3][crc >> 24];
}

WITH_CRC32C uint32_t
fc_crc32c_hardware(uint32_t crc, const void *data, size_t length)
{
	const unsigned char *p = data;
	uint64_t a = (uint32_t) ~crc;

	for (; length >= 3 * LANE_BYTES; length -= 3 * LANE_BYTES)
	{
		uint64_t b = 0;
		uint64_t c = 0;

		for (int i = 0; i < LANE_WORDS; i++, p += 8)
		{
			a = word_added(a, word_at(p));
			b = word_added(b, word_at(p + LANE_BYTES));
			c = word_added(c, word_at(p + 2 * LANE_BYTES));
		}
		p += 2 * LANE_BYTES;
		b ^= moved_over_lane((uint32_t) a);
		a = c ^ moved_over_lane((uint32_t) b);
	}

	for (; length >= 8; length -= 8, p += 8)
		a = word_added(a, word_at(p));

	for (; length > 0; length--, p++)
		a = byte_added(a, *p);

	return ~(uint32_t) a;
}

#else

uint32_t
fc_crc32c_hardware(uint32_t crc, const void *data, size_t length)
{
	return fc_crc32c_portable(crc, data, length);
}

#endif

uint32_t
fc_crc32c(uint32_t crc, const void *data, size_t length)
{
	FC_ASSERT(data != NULL || length == 0);
	return has_hardware ? fc_crc32c_hardware(crc, data, length)
	                    : fc_crc32c_portable(crc, data, length);
}

uint32_t
fc_crc32c_slot(uint64_t key, const void *page)
{
	return fc_crc32c(fc_crc32c(0, &key, sizeof(key)), page, FC_BLOCK_SIZE);
}
