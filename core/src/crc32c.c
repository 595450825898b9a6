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
 * Processors with VPCLMULQDQ and AVX-512 do better: they fold the block, 256
 * bytes a step, into 16 bytes that have the same remainder (100 ns).
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
#elif defined(__x86_64__) && (defined(__clang__) || __GNUC__ >= 11)
#include <immintrin.h>
#define WITH_FOLDING __attribute__((target("sse4.2,avx512f,vpclmulqdq")))
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

/* Folding moves a polynomial over so many bytes. */
typedef enum Distance
{
	OVER_16,
	OVER_32,
	OVER_48,
	OVER_64,
	OVER_128,
	OVER_192,
	OVER_256,
	DISTANCES
} Distance;

static const unsigned distance_bytes[DISTANCES] = { 16,  32,  48, 64,
	                                                128, 192, 256 };

/* The factors that do it, for the low and the high half of 16 bytes. */
static uint64_t factor[DISTANCES][2];

static bool has_folding;

static void make_tables(void) __attribute__((constructor));

/*
 * The remainder of x to this power, with its bits in reverse: as a word of 64
 * bits, of which the last is x to the power of 0.
 */
static uint64_t
power(unsigned exponent)
{
	uint32_t remainder = 1U << 31;

	while (exponent-- > 0)
		remainder = (remainder >> 1) ^ ((remainder & 1) ? POLYNOMIAL : 0);
	return (uint64_t) remainder << 32;
}

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

	for (int i = 0; i < DISTANCES; i++)
	{
		factor[i][0] = power(8 * distance_bytes[i] + 63);
		factor[i][1] = power(8 * distance_bytes[i] - 1);
	}

#if defined(__x86_64__)
	has_hardware = __builtin_cpu_supports("sse4.2");
#ifdef WITH_FOLDING
	has_folding = has_hardware && __builtin_cpu_supports("avx512f") &&
	              __builtin_cpu_supports("vpclmulqdq");
#endif
#elif defined(__aarch64__)
	has_hardware = (getauxval(AT_HWCAP) & HWCAP_CRC32) != 0;
#endif
}

int
fc_crc32c_has_hardware(void)
{
	return has_hardware;
}

int
fc_crc32c_has_folding(void)
{
	return has_folding;
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

#ifdef WITH_FOLDING

#define FOLD_BYTES 256

static inline WITH_FOLDING __m512i
four_at(const unsigned char *p)
{
	return _mm512_loadu_si512(p);
}

/*
 * A register of 16 bytes is a polynomial whose first bit has the highest power.
 * Moving it over a distance multiplies each half by the remainder of its new
 * place's power, one less since a product of reversed words is shifted by one.
 */
static inline WITH_FOLDING __m512i
moved(__m512i four, __m512i factors)
{
	return _mm512_xor_si512(_mm512_clmulepi64_epi128(four, factors, 0x00),
	                        _mm512_clmulepi64_epi128(four, factors, 0x11));
}

static inline WITH_FOLDING __m512i
factors_for(Distance distance)
{
	__m128i pair = _mm_set_epi64x((long long) factor[distance][1],
	                              (long long) factor[distance][0]);

	return _mm512_broadcast_i32x4(pair);
}

/* The factors that move each 16 bytes of 64 to the last of them. */
static inline WITH_FOLDING __m512i
factors_to_last(void)
{
	return _mm512_set_epi64(
		0, 0, (long long) factor[OVER_16][1], (long long) factor[OVER_16][0],
		(long long) factor[OVER_32][1], (long long) factor[OVER_32][0],
		(long long) factor[OVER_48][1], (long long) factor[OVER_48][0]);
}

WITH_FOLDING uint32_t
fc_crc32c_folded(uint32_t crc, const void *data, size_t length)
{
	const unsigned char *p = data;

	FC_ASSERT(has_folding);
	if (length < FOLD_BYTES)
		return fc_crc32c_hardware(crc, data, length);

	/* A checksum so far is added to the first bytes that it meets. */
	__m512i sum = _mm512_zextsi128_si512(_mm_cvtsi32_si128((int) ~crc));
	__m512i a = _mm512_xor_si512(four_at(p), sum);
	__m512i b = four_at(p + 64);
	__m512i c = four_at(p + 128);
	__m512i d = four_at(p + 192);
	__m512i factors = factors_for(OVER_256);

	p += FOLD_BYTES;
	length -= FOLD_BYTES;
	for (; length >= FOLD_BYTES; length -= FOLD_BYTES, p += FOLD_BYTES)
	{
		a = _mm512_xor_si512(moved(a, factors), four_at(p));
		b = _mm512_xor_si512(moved(b, factors), four_at(p + 64));
		c = _mm512_xor_si512(moved(c, factors), four_at(p + 128));
		d = _mm512_xor_si512(moved(d, factors), four_at(p + 192));
	}
	a = _mm512_xor_si512(moved(a, factors_for(OVER_192)),
	                     moved(b, factors_for(OVER_128)));
	d = _mm512_xor_si512(d, moved(c, factors_for(OVER_64)));
	d = _mm512_xor_si512(d, a);

	/* The first three of four are moved to the last, and all are added. */
	a = moved(d, factors_to_last());

	__m128i last = _mm512_extracti32x4_epi32(d, 3);

	last = _mm_xor_si128(last, _mm512_castsi512_si128(a));
	last = _mm_xor_si128(last, _mm512_extracti32x4_epi32(a, 1));
	last = _mm_xor_si128(last, _mm512_extracti32x4_epi32(a, 2));

	/* What is left has the remainder of all that was read. */
	uint64_t rest = word_added(0, (uint64_t) _mm_cvtsi128_si64(last));

	rest = word_added(rest, (uint64_t) _mm_extract_epi64(last, 1));
	return fc_crc32c_hardware(~(uint32_t) rest, p, length);
}

#else

uint32_t
fc_crc32c_folded(uint32_t crc, const void *data, size_t length)
{
	return fc_crc32c_hardware(crc, data, length);
}

#endif

uint32_t
fc_crc32c(uint32_t crc, const void *data, size_t length)
{
	FC_ASSERT(data != NULL || length == 0);
	if (has_folding)
		return fc_crc32c_folded(crc, data, length);
	return has_hardware ? fc_crc32c_hardware(crc, data, length)
	                    : fc_crc32c_portable(crc, data, length);
}

uint32_t
fc_crc32c_slot(uint64_t key, const void *page)
{
	return fc_crc32c(fc_crc32c(0, &key, sizeof(key)), page, FC_BLOCK_SIZE);
}
