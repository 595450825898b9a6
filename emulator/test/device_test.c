/*
 * device_test.c
 *		The device model, played with a fake clock.
 *
 * Positioning is fixed to 4 ms here and the bandwidth to 8 KB a millisecond, so
 * a block costs 4 + 1 ms, or 1 ms in a stream, and every end can be calculated.
 */
/* SPDX-License-Identifier: PostgreSQL */
#include "config.h"
#include "device.h"
#include "tap.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define MS    1000000ULL
#define BLOCK 8192ULL
#define KB    1024ULL
#define START (1000 * MS) /* the clock at the beginning of each test */

static EmDevice *device;

/* A new device with this many servers and this layout, no cache, no limits. */
static EmProfile *
set_up(uint32_t servers, EmLayout layout)
{
	EmProfile *profile;

	free(device);
	device = aligned_alloc(64, sizeof(EmDevice));
	if (device == NULL)
		abort();
	memset(device, 0, sizeof(EmDevice));

	profile = &device->profile;
	profile->server_count = servers;
	profile->layout = layout;
	profile->stripe_bytes = 64 * KB;
	profile->bandwidth_bytes_s = BLOCK * 1000;
	profile->read_position = (EmRange){ 4 * MS, 4 * MS };
	profile->write_position = (EmRange){ 4 * MS, 4 * MS };
	profile->log_sync = (EmRange){ 3 * MS, 3 * MS };
	return profile;
}

static EmRequest
request_at(uint64_t now_ns, uint64_t block, uint64_t blocks)
{
	return (EmRequest){ .now_ns = now_ns,
		                .file = 7,
		                .offset = block * BLOCK,
		                .bytes = blocks * BLOCK };
}

static EmCharge
read_at(uint64_t now_ns, uint64_t block)
{
	EmRequest request = request_at(now_ns, block, 1);

	return em_device_read(device, &request);
}

static EmCharge
stream_at(uint64_t now_ns, uint64_t block, uint64_t blocks, uint64_t gap)
{
	EmRequest request = request_at(now_ns, block, blocks);

	request.continues = true;
	request.gap_bytes = gap * BLOCK;
	return em_device_read(device, &request);
}

static EmCharge
write_at(uint64_t now_ns, uint64_t block)
{
	EmRequest request = request_at(now_ns, block, 1);

	return em_device_write(device, &request, false);
}

static EmCharge
log_sync_at(uint64_t now_ns)
{
	EmRequest request = request_at(now_ns, 0, 0);

	return em_device_log_sync(device, &request);
}

/* The end of this charge, in ms after the start. */
static double
end_ms(EmCharge charge)
{
	return ((double) charge.end_ns - (double) START) / (double) MS;
}

static void
test_reading(void)
{
	EmCharge charge;

	set_up(1, EM_STRIPE);
	charge = read_at(START, 0);
	OK(end_ms(charge) == 5.0, "a read takes positioning and transfer");
	OK(charge.service_ns == 5 * MS && charge.wait_ns == 0,
	   "a read of a free device does not wait");

	charge = read_at(START + 2 * MS, 1000);
	OK(end_ms(charge) == 10.0, "a second read starts where the first ends");
	OK(charge.service_ns == 5 * MS && charge.wait_ns == 3 * MS,
	   "its wait is what was left of the first");

	charge = read_at(START + 50 * MS, 0);
	OK(end_ms(charge) == 55.0, "a device that was idle starts at once");

	set_up(1, EM_STRIPE);
	OK(end_ms(stream_at(START, 0, 1, 0)) == 1.0,
	   "a read that continues a stream pays transfer only");
	OK(end_ms(stream_at(START + 1 * MS, 4, 1, 3)) == 5.0,
	   "what a stream skips is paid as transfer");
}

static void
test_striping(void)
{
	EmRequest wide;

	set_up(4, EM_STRIPE);
	for (uint64_t spindle = 0; spindle < 4; spindle++)
		OK(end_ms(read_at(START, 8 * spindle)) == 5.0,
		   "reads of four stripes do not wait for each other (%d)",
		   (int) spindle);
	OK(end_ms(read_at(START, 8 * 4)) == 10.0,
	   "the fifth stripe is on the first spindle again");

	set_up(4, EM_STRIPE);
	wide = request_at(START, 0, 4 * 8);
	OK(end_ms(em_device_read(device, &wide)) == 4.0 + 8.0,
	   "a read of four stripes is done by four spindles at once");
	OK(em_device_used_ns(device) == 4 * 12 * MS,
	   "and takes the time of all four");
}

static void
test_mirrors(void)
{
	set_up(2, EM_RAID10);
	OK(end_ms(read_at(START, 0)) == 5.0 && end_ms(read_at(START, 0)) == 5.0,
	   "two reads of one stripe are done by its two mirrors");
	OK(end_ms(read_at(START, 0)) == 10.0, "the third read waits");

	set_up(2, EM_RAID10);
	OK(end_ms(write_at(START, 0)) == 5.0, "a write goes to both mirrors");
	OK(end_ms(read_at(START, 0)) == 10.0, "so that neither is free for a read");

	set_up(2, EM_RAID10);
	OK(end_ms(log_sync_at(START)) == 3.0,
	   "a sync of the log takes its own service time");
	OK(end_ms(read_at(START, 0)) == 8.0 && end_ms(read_at(START, 0)) == 8.0,
	   "and keeps both mirrors busy");
	OK(end_ms(log_sync_at(START)) == 11.0, "a sync waits for the reads");
}

static void
test_raid5(void)
{
	EmRequest stream;

	set_up(4, EM_RAID5);
	OK(end_ms(write_at(START, 0)) == 10.0,
	   "a small write to RAID-5 reads and writes, on each of two spindles");
	OK(em_device_used_ns(device) == 20 * MS, "four requests in all");

	set_up(4, EM_RAID5);
	stream = request_at(START, 0, 3);
	stream.continues = true;
	em_device_write(device, &stream, false);
	OK(em_device_used_ns(device) == 3 * MS + 1 * MS,
	   "a stream to four spindles pays parity for a third of its bytes");
}

static void
test_log(void)
{
	EmRequest written = request_at(START, 0, 4);

	set_up(1, EM_STRIPE);
	em_device_log_write(device, &written);
	OK(em_device_used_ns(device) == 0, "a write of the log costs nothing");
	OK(end_ms(log_sync_at(START)) == 3.0 + 4.0,
	   "its sync pays for the bytes written");
	OK(end_ms(log_sync_at(START + 7 * MS)) == 7.0 + 3.0,
	   "the next sync does not pay for them again");
}

static EmProfile *
set_up_cache(uint64_t blocks)
{
	EmProfile *profile = set_up(1, EM_STRIPE);

	profile->cache_bytes = blocks * BLOCK;
	profile->cache_latency_ns = MS / 10;
	profile->destage_factor_ppm = 500000; /* 2 + 1 ms for a block */
	profile->destage_share_ppm = 0;
	return profile;
}

static void
test_cache(void)
{
	EmProfile *profile = set_up_cache(4);
	EmRequest write = { .now_ns = START, .file = 7, .bytes = BLOCK };
	EmCharge charge;

	for (int i = 0; i < 4; i++)
		OK(end_ms(write_at(START, (uint64_t) (100 * i))) == 0.1,
		   "the cache absorbs write %d of 4", i + 1);
	OK(em_device_dirty_bytes(device, START) == 4 * BLOCK,
	   "four blocks are dirty");

	charge = write_at(START, 900);
	OK(end_ms(charge) == 3.0, "a write to a full cache waits for its destage");

	set_up_cache(4);
	for (int i = 0; i < 4; i++)
		write_at(START, (uint64_t) (100 * i));
	OK(em_device_dirty_bytes(device, START + 6 * MS) == 2 * BLOCK,
	   "after half the time half of them are clean");
	OK(em_device_dirty_bytes(device, START + 12 * MS) == 0,
	   "after the whole time all of them are");
	OK(em_device_used_ns(device) == 12 * MS,
	   "destaging took the spindle's time, 3 ms for a sorted block");
	OK(end_ms(write_at(START + 12 * MS, 1)) == 12.1, "the cache absorbs again");

	profile = set_up_cache(100);
	profile->destage_share_ppm = 500000;
	write_at(START, 100);
	write_at(START, 200);
	charge = read_at(START, 300);
	OK(end_ms(charge) == 10.0,
	   "a read lets as much destaging pass as its own time, at a half share");
	OK(charge.wait_ns == 5 * MS, "and this is its wait");
	charge = read_at(START, 400);
	OK(end_ms(charge) == 10.0 + 1.0 + 5.0,
	   "what is left of the backlog slows the next read");
	OK(end_ms(read_at(START, 500)) == 21.0, "a clean cache slows nobody");

	profile = set_up_cache(100);
	write_at(START, 100);
	charge = em_device_write(device, &write, true);
	OK(charge.end_ns == START + 5 * MS,
	   "a write of a file opened O_SYNC does not stop in the cache");
}

static void
test_data_sync(void)
{
	EmProfile *profile = set_up_cache(100);
	EmRequest sync = request_at(START, 0, 0);

	for (int i = 0; i < 10; i++)
		write_at(START, (uint64_t) (100 * i));
	OK(end_ms(em_device_data_sync(device, &sync)) == 0.1,
	   "an fsync into a protected cache costs the cache's latency");

	profile->fsync_destages_ppm = 500000;
	OK(end_ms(em_device_data_sync(device, &sync)) == 15.0,
	   "an fsync that destages half waits for half of the dirty blocks");
	OK(em_device_dirty_bytes(device, START) == 5 * BLOCK, "which are clean");

	set_up(1, EM_STRIPE);
	OK(end_ms(em_device_data_sync(device, &sync)) == 4.0,
	   "without a cache an fsync is one small write");
}

static void
test_limits(void)
{
	EmProfile *profile = set_up(64, EM_STRIPE);

	profile->read_position = (EmRange){ 0, 0 };
	profile->bandwidth_bytes_s = 1000 * 1000 * BLOCK;
	profile->limit_iops = 1000;
	profile->limit_burst = 1;
	for (int i = 0; i < 3; i++)
		OK((int) end_ms(read_at(START, (uint64_t) (8 * i))) == i,
		   "at 1000 IOPS request %d starts after %d ms", i, i);

	profile->limit_burst = 10;
	em_device_forget_queues(device);
	for (int i = 0; i < 10; i++)
		if (end_ms(read_at(START, (uint64_t) (8 * i))) >= 1.0)
			OK(false, "request %d of a burst waits", i);
	OK((int) end_ms(read_at(START, 80)) == 1,
	   "after a burst of ten the eleventh request waits");
	OK((int) end_ms(read_at(START + 5 * MS, 80)) == 5,
	   "five idle ms give back five tokens");

	em_device_forget_queues(device);
	profile->limit_burst = 1;
	profile->limit_io_bytes = 2 * BLOCK;
	stream_at(START, 0, 8, 0);
	OK((int) end_ms(read_at(START, 80)) == 4,
	   "a request of four times the counted size takes four tokens");

	profile = set_up(64, EM_STRIPE);
	profile->read_position = (EmRange){ 0, 0 };
	profile->bandwidth_bytes_s = 1000 * 1000 * BLOCK;
	profile->limit_bytes_s = 1000 * BLOCK;
	for (int i = 1; i <= 3; i++)
		OK(end_ms(read_at(START, (uint64_t) (8 * i))) == i,
		   "block %d has passed a pipe of 1000 blocks/s after %d ms", i, i);
	profile->cache_bytes = 1000 * BLOCK;
	OK(end_ms(write_at(START, 0)) == 4.0,
	   "writes pass the same pipe on their way to the cache");
}

/* A block is a millisecond of a limit, and next to nothing of a server. */
static void
test_utilisation(void)
{
	EmProfile *profile = set_up(64, EM_STRIPE);

	profile->read_position = (EmRange){ 0, 0 };
	profile->bandwidth_bytes_s = 1000 * 1000 * BLOCK;
	profile->limit_bytes_s = 1000 * BLOCK;
	for (int i = 0; i < 5; i++)
		read_at(START, (uint64_t) (8 * i));
	OK(em_device_utilisation(device, 10 * MS) == 0.5,
	   "half the bytes of the limit are half of the device");

	profile->limit_bytes_s = 0;
	profile->limit_iops = 1000;
	for (int i = 0; i < 10; i++)
		read_at(START, (uint64_t) (8 * i));
	OK(em_device_utilisation(device, 10 * MS) == 1.0,
	   "all requests of the limit are all of it, whatever the bytes");
	em_device_forget_tallies(device);
	OK(em_device_utilisation(device, 10 * MS) == 0.0, "a reset forgets both");

	set_up(2, EM_STRIPE);
	read_at(START, 0);
	OK(em_device_utilisation(device, 5 * MS) == 0.5,
	   "without limits, it is the servers' mean");
	OK(em_device_utilisation(device, 0) == 0.0, "in no time it is nothing");
}

static void
test_chance(void)
{
	EmProfile *profile = set_up(1, EM_STRIPE);
	uint64_t sum_ns = 0, least_ns = UINT64_MAX, most_ns = 0;
	const uint64_t count = 20000;

	profile->read_position = (EmRange){ 1 * MS, 4 * MS };
	profile->rotation_max_ns = 4 * MS;
	for (uint64_t i = 0; i < count; i++)
	{
		EmCharge charge = read_at(START + i * 100 * MS, i);
		uint64_t position_ns = charge.service_ns - 1 * MS;

		sum_ns += position_ns;
		least_ns = position_ns < least_ns ? position_ns : least_ns;
		most_ns = position_ns > most_ns ? position_ns : most_ns;
	}
	OK(least_ns >= 1 * MS && most_ns <= 8 * MS,
	   "seek 1-4 ms and rotation 0-4 ms stay between 1 and 8 ms");
	OK(least_ns < 3 * MS / 2 && most_ns > 15 * MS / 2,
	   "and come near both ends");
	OK(sum_ns / count > 44 * MS / 10 && sum_ns / count < 46 * MS / 10,
	   "their mean is 4.5 ms");
}

static void
test_safety(void)
{
	set_up(1, EM_STRIPE);
	atomic_store(&device->server[0].busy_until_ns, START * 1000000);
	OK(end_ms(read_at(START, 0)) == 5.0,
	   "a reservation from before the last boot is forgotten");

	set_up_cache(1);
	atomic_store(&device->server[0].backlog_bytes, 100 * BLOCK);
	OK(em_device_dirty_bytes(device, START) == 0,
	   "bytes that a killed writer left without time do not fill the cache");
}

/* Four processes reserve at once; not one nanosecond may get lost. */
static void
test_concurrency(void)
{
	const int processes = 4, reads = 20000;
	EmDevice *ours;
	int failed = 0;

	set_up(2, EM_RAID10);
	ours = mmap(NULL, sizeof(EmDevice), PROT_READ | PROT_WRITE,
	            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (ours == MAP_FAILED)
		abort();
	*ours = *device;
	ours->profile.read_position = (EmRange){ 100, 100 };
	ours->profile.bandwidth_bytes_s = 1ULL << 50;

	for (int p = 0; p < processes; p++)
	{
		if (fork() == 0)
		{
			for (int i = 0; i < reads; i++)
			{
				EmRequest request = request_at(START, 0, 1);

				em_device_read(ours, &request);
			}
			_exit(0);
		}
	}
	for (int p = 0; p < processes; p++)
	{
		int status;

		if (wait(&status) < 0 || status != 0)
			failed++;
	}

	OK(failed == 0 && em_device_used_ns(ours) == 100ULL * 4 * 20000,
	   "the time used is the sum of all reservations");
	OK(ours->server[0].busy_until_ns + ours->server[1].busy_until_ns ==
	       2 * START + 100ULL * 4 * 20000,
	   "reservations of four processes never overlap");
	munmap(ours, sizeof(EmDevice));
}

static void
test_counting(void)
{
	EmCharge charge = { .end_ns = 0, .service_ns = 30, .wait_ns = 12 };
	EmTally *tally;

	set_up(1, EM_STRIPE);
	tally = &device->tally[EM_READ];
	em_device_count(device, EM_READ, BLOCK, &charge, 999);
	em_device_count(device, EM_READ, BLOCK, &charge, 1000);
	em_device_count(device, EM_READ, BLOCK, &charge, 4500 * 1000);
	em_device_count(device, EM_READ, BLOCK, &charge, UINT64_MAX / 4);
	OK(tally->count == 4 && tally->bytes == 4 * BLOCK &&
	       tally->service_ns == 120 && tally->wait_ns == 48,
	   "requests, bytes, service and wait are summed");
	OK(tally->histogram[0] == 1 && tally->histogram[1] == 1,
	   "below one us is the first bucket, one us the second");
	OK(tally->histogram[13] == 1, "4.5 ms is between 4096 and 8192 us");
	OK(tally->histogram[EM_HISTOGRAM_BUCKETS - 1] == 1,
	   "the last bucket takes whatever is longer");
}

static void
test_misbehaviour(void)
{
	EmProfile *profile = set_up(1, EM_STRIPE);

	OK(em_device_due(device, START + 5 * MS, START) == START + 5 * MS,
	   "a request is due when its reservation ends");
	em_device_stall(device, START + 100 * MS);
	OK(em_device_due(device, START, START + 98 * MS) == START + 100 * MS &&
	       em_device_due(device, START + 200 * MS, START + 98 * MS) ==
	           START + 100 * MS,
	   "on a stalled device nothing is, until the end of the stall");
	OK(em_device_due(device, START, START) == START + EM_STALL_LOOK_NS,
	   "and who waits looks again before that");
	OK(em_device_due(device, START + 5 * MS, START + 100 * MS) ==
	       START + 5 * MS,
	   "after the stall the reservation counts again");
	em_device_stall(device, 0);
	OK(em_device_due(device, START, START) == START, "a stall can be ended");
	em_device_stall(device, START + 2 * EM_QUEUE_MAX_NS);
	OK(em_device_due(device, START, START) == START,
	   "a stall from before a boot is none");
	em_device_stall(device, 0);

	em_device_slow(device, 10 * EM_SLOWNESS_NONE);
	OK(end_ms(read_at(START, 0)) == 50.0,
	   "ten times slower: positioning and transfer are");
	em_device_slow(device, EM_SLOWNESS_NONE);
	OK(end_ms(read_at(START + 50 * MS, 0)) == 55.0, "as fast as before again");

	profile = set_up_cache(4);
	profile->cache_latency_ns = MS;
	em_device_slow(device, 3 * EM_SLOWNESS_NONE);
	OK(end_ms(write_at(START, 0)) == 3.0, "a slow device's cache is slow, too");

	profile = set_up(64, EM_STRIPE);
	profile->limit_iops = 1000;
	em_device_slow(device, 20 * EM_SLOWNESS_NONE);
	read_at(START, 0);
	OK(end_ms(read_at(START, 8)) == 20.0 + 20 * 5.0, "and its limits are low");
}

static void
test_checking(void)
{
	EmProfile *profile = set_up(4, EM_RAID10);

#define REFUSES(change, sentence)                                              \
	do                                                                         \
	{                                                                          \
		EmProfile changed = *profile;                                          \
		changed.change;                                                        \
		OK(em_profile_check(&changed) != NULL, sentence);                      \
	} while (0)

	OK(em_profile_check(profile) == NULL, "a sound profile is accepted");
	REFUSES(server_count = 0, "no servers are refused");
	REFUSES(server_count = 65, "65 servers are refused");
	REFUSES(server_count = 3, "three mirrors are refused");
	REFUSES(stripe_bytes = 0, "a stripe of nothing is refused");
	REFUSES(bandwidth_bytes_s = 0, "a bandwidth of zero is refused");
	REFUSES(read_position.min_ns = 5 * MS, "a turned read range is refused");
	REFUSES(write_position.min_ns = 5 * MS, "a turned write range is refused");
	REFUSES(log_sync.min_ns = 5 * MS, "a turned log range is refused");
	REFUSES(rotation_max_ns = 20000 * MS, "a rotation of 20 s is refused");
	REFUSES(destage_share_ppm = 1000000, "a share of all is refused");
	REFUSES(destage_factor_ppm = 1000001, "a factor above one is refused");
	REFUSES(fsync_destages_ppm = 1000001, "more than all is refused");
	REFUSES(limit_iops = 2000000000, "more than one I/O a ns is refused");

	profile = set_up(2, EM_RAID5);
	OK(em_profile_check(profile) != NULL, "RAID-5 of two is refused");
}

int
main(void)
{
	test_reading();
	test_striping();
	test_mirrors();
	test_raid5();
	test_log();
	test_cache();
	test_data_sync();
	test_limits();
	test_utilisation();
	test_chance();
	test_safety();
	test_concurrency();
	test_counting();
	test_misbehaviour();
	test_checking();
	free(device);
	return done();
}
