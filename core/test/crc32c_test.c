/*
 * crc32c_test.c
 *		CRC32C: the vectors of RFC 3720, and four implementations in agreement.
 *
 * The fourth is the definition itself, bit by bit, written here.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "support.h"
#include "tap.h"

#define LONGEST 9000

static unsigned char data[LONGEST + 64];

static uint32_t
by_definition(const unsigned char *p, size_t length)
{
	uint32_t crc = ~0U;

	for (size_t i = 0; i < length; i++)
	{
		crc ^= p[i];
		for (int bit = 0; bit < 8; bit++)
			crc = crc & 1 ? (crc >> 1) ^ 0x82f63b78U : crc >> 1;
	}
	return ~crc;
}

static bool
all_say(const void *bytes, size_t length, uint32_t crc)
{
	return fc_crc32c(0, bytes, length) == crc &&
	       fc_crc32c_portable(0, bytes, length) == crc &&
	       (!fc_crc32c_has_hardware() ||
	        fc_crc32c_hardware(0, bytes, length) == crc) &&
	       (!fc_crc32c_has_folding() ||
	        fc_crc32c_folded(0, bytes, length) == crc);
}

static void
test_vectors(void)
{
	unsigned char bytes[32];

	memset(bytes, 0, 32);
	OK(all_say(bytes, 32, 0x8a9136aa), "32 bytes of zeros");
	memset(bytes, 0xff, 32);
	OK(all_say(bytes, 32, 0x62a8ab43), "32 bytes of ones");
	for (int i = 0; i < 32; i++)
		bytes[i] = (unsigned char) i;
	OK(all_say(bytes, 32, 0x46dd794e), "32 ascending bytes");
	for (int i = 0; i < 32; i++)
		bytes[i] = (unsigned char) (31 - i);
	OK(all_say(bytes, 32, 0x113fdb5c), "32 descending bytes");
	OK(all_say("123456789", 9, 0xe3069283), "the digits 1 to 9");
	OK(all_say("", 0, 0), "nothing at all");
}

/*
 * Lengths around every internal border: words, three lanes, a step of folding,
 * a block.
 */
static void
test_definition(void)
{
	static const size_t lengths[] = { 0,    1,    7,    8,    9,
		                              63,   255,  256,  257,  511,
		                              512,  2728, 4096, 8183, 8184,
		                              8185, 8191, 8192, 8200, LONGEST };
	unsigned wrong = 0;

	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
	{
		for (size_t shift = 0; shift < 8; shift++)
		{
			uint32_t crc = by_definition(data + shift, lengths[i]);

			wrong += !all_say(data + shift, lengths[i], crc);
		}
	}
	OK(wrong == 0, "all implementations are the definition at every border");
}

typedef uint32_t Implementation(uint32_t crc, const void *data, size_t length);

static void
test_agreement(Implementation *fast, const char *name)
{
	unsigned wrong = 0;

	for (size_t length = 0; length <= LONGEST; length++)
	{
		const unsigned char *p = data + length % 64;

		wrong += fast(0, p, length) != fc_crc32c_portable(0, p, length);
	}
	OK(wrong == 0, "%s and table agree at every length and alignment", name);
}

static void
test_pieces(Implementation *fast, const char *name, Random *random)
{
	unsigned wrong = 0;

	for (int round = 0; round < 1000; round++)
	{
		const unsigned char *p = data + random_below(random, 64);
		size_t length = random_below(random, LONGEST + 1);
		size_t cut = random_below(random, (uint32_t) length + 1);
		uint32_t whole = fc_crc32c_portable(0, p, length);
		uint32_t soft = fc_crc32c_portable(0, p, cut);
		uint32_t hard = fast(0, p, cut);

		wrong += soft != hard;
		wrong += fast(soft, p + cut, length - cut) != whole;
		wrong += fc_crc32c_portable(hard, p + cut, length - cut) != whole;
	}
	OK(wrong == 0, "%s: a checksum continued after a cut is that of the whole",
	   name);
}

static void
test_fast(Implementation *fast, const char *name, int available, Random *random)
{
	if (!available)
	{
		SKIP(name, "not on this processor");
		return;
	}
	test_agreement(fast, name);
	test_pieces(fast, name, random);
}

static void
test_sensitivity(Random *random)
{
	static Page page;
	unsigned unseen = 0;

	page_make(&page, 1, 2, 3);

	uint32_t crc = fc_crc32c(0, &page, sizeof(page));

	for (int round = 0; round < 1000; round++)
	{
		unsigned bit = random_below(random, FC_BLOCK_SIZE * 8);

		((unsigned char *) &page)[bit / 8] ^= (unsigned char) (1 << bit % 8);
		unseen += fc_crc32c(0, &page, sizeof(page)) == crc;
		((unsigned char *) &page)[bit / 8] ^= (unsigned char) (1 << bit % 8);
	}
	OK(unseen == 0, "one flipped bit of a block always shows");
}

int
main(void)
{
	Random random = { .state = 1 };

	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (unsigned char) random_next(&random);
	test_vectors();
	test_definition();
	test_fast(fc_crc32c_hardware, "instruction", fc_crc32c_has_hardware(),
	          &random);
	test_fast(fc_crc32c_folded, "folding", fc_crc32c_has_folding(), &random);
	test_sensitivity(&random);
	return tap_done();
}
