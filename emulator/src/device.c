/*
 * device.c
 *		The model of one storage device (see device.h for locking).
 *
 * How long a request takes:
 *
 *	read	positioning (seek and rotation, or flash latency) plus transfer on
 *			the server of each stripe, all stripes at once.  With mirrors, on
 *			the one that is free first.
 *	write	goes into the write-back cache and becomes backlog of its servers.
 *			The backlog is worked off when a server is idle (server.c), and by
 *			a fixed share of its time while reads keep it busy: this is how
 *			writing slows reading.  When the cache is full, the writer waits for
 *			its own bytes to be destaged.
 *	log		a write of the log is free; its sync is one write with its own
 *			service time, reserved on every copy.
 */
/* SPDX-License-Identifier: PostgreSQL */
#include "device.h"

#include "server.h"

#define NS_PER_S 1000000000ULL
#define PPM      1000000ULL

/* The finalizer of splitmix64: each bit of the input affects each bit out. */
static uint64_t
mix(uint64_t x)
{
	x ^= x >> 30;
	x *= 0xbf58476d1ce4e5b9ULL;
	x ^= x >> 27;
	x *= 0x94d049bb133111ebULL;
	return x ^ (x >> 31);
}

/*
 * The next random number.  The counter is shared, so processes forked from one
 * parent do not all draw the same series.
 */
static uint64_t
chance(EmDevice *device)
{
	uint64_t ticket =
		atomic_fetch_add_explicit(&device->ticket, 1, memory_order_relaxed);

	return mix((ticket + 1) * 0x9e3779b97f4a7c15ULL);
}

/* A time of the profile, multiplied by the device's current slowness. */
static uint64_t
slowed(const EmDevice *device, uint64_t time_ns)
{
	uint64_t slowness_ppm =
		atomic_load_explicit(&device->slowness_ppm, memory_order_relaxed);

	return slowness_ppm == 0 ? time_ns : scale(time_ns, slowness_ppm, PPM);
}

static uint64_t
draw(EmDevice *device, EmRange range)
{
	uint64_t width = range.max_ns - range.min_ns;
	uint64_t drawn_ns = range.min_ns;

	if (width > 0)
		drawn_ns += chance(device) % (width + 1);

	return slowed(device, drawn_ns);
}

static uint64_t
draw_position(EmDevice *device, EmRange range)
{
	EmRange rotation = { 0, device->profile.rotation_max_ns };

	return draw(device, range) + draw(device, rotation);
}

static uint64_t
transfer_ns(const EmDevice *device, uint64_t bytes)
{
	return slowed(device,
	              scale(bytes, NS_PER_S, device->profile.bandwidth_bytes_s));
}

static uint64_t
cache_latency_ns(const EmDevice *device)
{
	return slowed(device, device->profile.cache_latency_ns);
}

/*
 * Limits of the whole device.
 */

/*
 * When may this request start, given the IOPS limit?  The token bucket is one
 * word: the time at which it will be full if no more requests come.
 */
static uint64_t
admit(EmDevice *device, uint64_t now_ns, uint64_t bytes)
{
	const EmProfile *profile = &device->profile;
	uint64_t token_ns, tokens, burst_ns, full_ns, base_ns;

	if (profile->limit_iops == 0)
		return now_ns;

	token_ns = slowed(device, NS_PER_S / profile->limit_iops);
	tokens = 1;
	if (profile->limit_io_bytes > 0 && bytes > profile->limit_io_bytes)
		tokens = (bytes - 1) / profile->limit_io_bytes + 1;
	burst_ns = token_ns * (most(profile->limit_burst, 1) - 1);

	full_ns = atomic_load(&device->admitted_until_ns);
	do
	{
		base_ns = most(full_ns, now_ns);
		if (base_ns > now_ns + EM_QUEUE_MAX_NS)
			base_ns = now_ns;
	} while (!atomic_compare_exchange_weak(&device->admitted_until_ns, &full_ns,
	                                       base_ns + tokens * token_ns));
	atomic_fetch_add_explicit(&device->admitted_used_ns, tokens * token_ns,
	                          memory_order_relaxed);

	return base_ns > now_ns + burst_ns ? base_ns - burst_ns : now_ns;
}

/* When will these bytes have passed the one pipe of the bandwidth limit? */
static uint64_t
pass_pipe(EmDevice *device, uint64_t now_ns, uint64_t bytes)
{
	uint64_t limit = device->profile.limit_bytes_s;
	uint64_t until_ns, end_ns, passing_ns;

	if (limit == 0)
		return now_ns;

	passing_ns = slowed(device, scale(bytes, NS_PER_S, limit));
	until_ns = atomic_load(&device->pipe_until_ns);
	do
	{
		end_ns = most(until_ns, now_ns);
		if (end_ns > now_ns + EM_QUEUE_MAX_NS)
			end_ns = now_ns;
		end_ns += passing_ns;
	} while (!atomic_compare_exchange_weak(&device->pipe_until_ns, &until_ns,
	                                       end_ns));
	atomic_fetch_add_explicit(&device->pipe_used_ns, passing_ns,
	                          memory_order_relaxed);

	return end_ns;
}

/* The location of bytes. */

/* A "set" holds one stripe: a server, or a pair of mirrors. */
static uint32_t
set_count(const EmDevice *device)
{
	const EmProfile *profile = &device->profile;

	if (profile->layout == EM_RAID10)
		return profile->server_count / 2;

	return profile->server_count;
}

static uint32_t
first_set(const EmDevice *device, uint64_t file, uint64_t offset)
{
	uint64_t stripe = offset / device->profile.stripe_bytes;

	return (uint32_t) ((mix(file) + stripe) % set_count(device));
}

/* The number of sets that share a request; each carries an equal part of it. */
static uint32_t
sets_touched(const EmDevice *device, const EmRequest *request)
{
	uint64_t stripe_bytes = device->profile.stripe_bytes;
	uint64_t bytes = most(request->bytes, 1);
	uint64_t first = request->offset / stripe_bytes;
	uint64_t last = (request->offset + bytes - 1) / stripe_bytes;

	return (uint32_t) least(last - first + 1, set_count(device));
}

/* The servers that hold a set's copies, or its data and parity; one or two. */
static uint32_t
holders(EmDevice *device, uint32_t set, EmServer *holder[2])
{
	uint32_t server_count = device->profile.server_count;

	switch (device->profile.layout)
	{
		case EM_RAID10:
			holder[0] = &device->server[2 * set];
			holder[1] = &device->server[2 * set + 1];
			return 2;
		case EM_RAID5:
			holder[0] = &device->server[set];
			holder[1] = &device->server[(set + 1) % server_count];
			return 2;
		default:
			holder[0] = &device->server[set];
			return 1;
	}
}

static EmServer *
reader_of(EmDevice *device, uint32_t set, uint64_t now_ns)
{
	EmServer *holder[2];

	holders(device, set, holder);
	if (device->profile.layout == EM_RAID10 &&
	    em_server_busy_until(holder[1], now_ns) <
	        em_server_busy_until(holder[0], now_ns))
		return holder[1];

	return holder[0];
}

static EmCharge
charge_until(uint64_t now_ns, uint64_t end_ns, uint64_t service_ns)
{
	EmCharge charge;

	end_ns = most(end_ns, now_ns);
	charge.end_ns = end_ns;
	charge.service_ns = least(service_ns, end_ns - now_ns);
	charge.wait_ns = end_ns - now_ns - charge.service_ns;
	return charge;
}

/*
 * Requests.
 */

/* Work off the part of the backlog that a read must wait for. */
static uint64_t
destage_before(EmDevice *device, EmServer *server, uint64_t service_ns)
{
	uint64_t share = device->profile.destage_share_ppm;

	return em_server_destage(server, scale(service_ns, share, PPM - share));
}

EmCharge
em_device_read(EmDevice *device, const EmRequest *request)
{
	uint64_t start_ns = admit(device, request->now_ns, request->bytes);
	uint32_t touched = sets_touched(device, request);
	uint32_t first = first_set(device, request->file, request->offset);
	uint64_t end_ns = pass_pipe(device, start_ns, request->bytes);
	uint64_t moved_bytes =
		request->bytes + request->gap_bytes - request->paid_bytes;
	uint64_t service_max_ns = 0;

	for (uint32_t i = 0; i < touched; i++)
	{
		uint32_t set = (first + i) % set_count(device);
		EmServer *server = reader_of(device, set, start_ns);
		uint64_t bytes = moved_bytes / touched;
		uint64_t service_ns = transfer_ns(device, bytes);
		uint64_t passed_ns;

		if (!request->continues)
			service_ns += draw_position(device, device->profile.read_position);

		em_server_settle(server, start_ns);
		passed_ns = destage_before(device, server, service_ns);
		end_ns = most(end_ns, em_server_reserve(server, start_ns,
		                                        passed_ns + service_ns));
		service_max_ns = most(service_max_ns, service_ns);
	}

	return charge_until(request->now_ns, end_ns, service_max_ns);
}

/*
 * What writing one part of a request costs its holders, in the server's time.
 *
 * RAID-5: a small write reads the old data and parity and writes both again, so
 * each of the two does two requests.  A stream writes whole rows of stripes:
 * parity then costs only its part of the row.
 */
static uint64_t
holder_cost_ns(EmDevice *device, const EmRequest *request, uint64_t bytes,
               uint32_t holder, uint64_t factor_ppm)
{
	const EmProfile *profile = &device->profile;
	uint64_t cost_ns = transfer_ns(device, bytes);
	uint64_t position_ns;

	if (request->continues)
	{
		if (profile->layout == EM_RAID5 && holder == 1)
			cost_ns /= profile->server_count - 1;
		return cost_ns;
	}

	position_ns = draw_position(device, profile->write_position);
	cost_ns += scale(position_ns, factor_ppm, PPM);
	return profile->layout == EM_RAID5 ? 2 * cost_ns : cost_ns;
}

/* A write to the servers that waits for them. */
static EmCharge
write_servers(EmDevice *device, const EmRequest *request, uint64_t start_ns,
              uint64_t end_ns, uint64_t factor_ppm)
{
	uint32_t touched = sets_touched(device, request);
	uint32_t first = first_set(device, request->file, request->offset);
	uint64_t service_max_ns = 0;

	for (uint32_t i = 0; i < touched; i++)
	{
		EmServer *holder[2];
		uint32_t count =
			holders(device, (first + i) % set_count(device), holder);

		for (uint32_t h = 0; h < count; h++)
		{
			uint64_t cost_ns = holder_cost_ns(
				device, request, request->bytes / touched, h, factor_ppm);

			em_server_settle(holder[h], start_ns);
			end_ns =
				most(end_ns, em_server_reserve(holder[h], start_ns, cost_ns));
			service_max_ns = most(service_max_ns, cost_ns);
		}
	}

	return charge_until(request->now_ns, end_ns, service_max_ns);
}

/* Put a write into the cache: it becomes backlog of its servers. */
static void
write_cache(EmDevice *device, const EmRequest *request, uint64_t start_ns)
{
	uint32_t touched = sets_touched(device, request);
	uint32_t first = first_set(device, request->file, request->offset);

	for (uint32_t i = 0; i < touched; i++)
	{
		EmServer *holder[2];
		uint32_t count =
			holders(device, (first + i) % set_count(device), holder);
		uint64_t bytes = request->bytes / touched;

		for (uint32_t h = 0; h < count; h++)
		{
			uint64_t cost_ns = holder_cost_ns(
				device, request, bytes, h, device->profile.destage_factor_ppm);
			uint64_t idle_ns;

			/* An idle server begins now, not at the end of its last work. */
			em_server_settle(holder[h], start_ns);
			idle_ns = atomic_load(&holder[h]->busy_until_ns);
			if (idle_ns < start_ns && atomic_load(&holder[h]->backlog_ns) == 0)
				atomic_compare_exchange_strong(&holder[h]->busy_until_ns,
				                               &idle_ns, start_ns);

			/* Bytes are counted once, with their first copy. */
			if (h == 0)
				atomic_fetch_add(&holder[h]->backlog_bytes, bytes);
			atomic_fetch_add(&holder[h]->backlog_ns, cost_ns);
		}
	}
}

uint64_t
em_device_dirty_bytes(EmDevice *device, uint64_t now_ns)
{
	uint64_t dirty_bytes = 0;

	for (uint32_t s = 0; s < device->profile.server_count; s++)
	{
		EmServer *server = &device->server[s];

		/*
		 * A killed writer may leave bytes for which no time to destage was
		 * noted.
		 */
		em_server_settle(server, now_ns);
		if (atomic_load(&server->backlog_ns) > 0)
			dirty_bytes += atomic_load(&server->backlog_bytes);
	}

	return dirty_bytes;
}

/*
 * A write of a file that is not the log.  "write_through" is for a file opened
 * O_SYNC or O_DSYNC.
 */
EmCharge
em_device_write(EmDevice *device, const EmRequest *request, bool write_through)
{
	const EmProfile *profile = &device->profile;
	uint64_t start_ns = admit(device, request->now_ns, request->bytes);
	uint64_t end_ns = pass_pipe(device, start_ns, request->bytes);

	if (profile->cache_bytes == 0 || write_through)
		return write_servers(device, request, start_ns, end_ns, PPM);

	if (em_device_dirty_bytes(device, start_ns) + request->bytes >
	    profile->cache_bytes)
		return write_servers(device, request, start_ns, end_ns,
		                     profile->destage_factor_ppm);

	write_cache(device, request, start_ns);
	end_ns = most(end_ns, start_ns + cache_latency_ns(device));
	return charge_until(request->now_ns, end_ns, cache_latency_ns(device));
}

void
em_device_log_write(EmDevice *device, const EmRequest *request)
{
	atomic_fetch_add(&device->log_unsynced_bytes, request->bytes);
	atomic_store(&device->log_offset, request->offset);
}

/*
 * A sync of the log.  It writes all bytes that any process wrote to the log
 * since the last sync, at the place of the last of these writes.
 */
EmCharge
em_device_log_sync(EmDevice *device, const EmRequest *request)
{
	uint64_t bytes = atomic_exchange(&device->log_unsynced_bytes, 0);
	uint64_t start_ns = admit(device, request->now_ns, bytes);
	uint64_t end_ns = pass_pipe(device, start_ns, bytes);
	uint64_t service_ns =
		draw(device, device->profile.log_sync) + transfer_ns(device, bytes);
	uint32_t set =
		first_set(device, request->file, atomic_load(&device->log_offset));
	EmServer *holder[2];
	uint32_t count = holders(device, set, holder);

	for (uint32_t h = 0; h < count; h++)
	{
		em_server_settle(holder[h], start_ns);
		end_ns =
			most(end_ns, em_server_reserve(holder[h], start_ns, service_ns));
	}

	return charge_until(request->now_ns, end_ns, service_ns);
}

/*
 * An fsync of a data file.  The device already has the file's bytes.  With a
 * cache, the profile may require that a part of the dirty bytes is written to
 * the servers before fsync returns.  Without a cache the bytes are on the
 * servers, and only the file system's own record of the change must still be
 * written.
 */
EmCharge
em_device_data_sync(EmDevice *device, const EmRequest *request)
{
	const EmProfile *profile = &device->profile;
	uint64_t now_ns = request->now_ns;
	uint64_t end_ns = now_ns + cache_latency_ns(device);

	if (profile->cache_bytes == 0)
		return write_servers(device, request, now_ns, now_ns, PPM);

	for (uint32_t s = 0; s < profile->server_count; s++)
	{
		EmServer *server = &device->server[s];
		uint64_t flush_ns;

		em_server_settle(server, now_ns);
		flush_ns =
			em_server_destage(server, scale(atomic_load(&server->backlog_ns),
		                                    profile->fsync_destages_ppm, PPM));
		if (flush_ns > 0)
			end_ns = most(end_ns, em_server_reserve(server, now_ns, flush_ns));
	}

	return charge_until(now_ns, end_ns, cache_latency_ns(device));
}

/* Truncating or allocating: a change of metadata, absorbed like a write. */
EmCharge
em_device_metadata(EmDevice *device, const EmRequest *request)
{
	uint64_t latency_ns = cache_latency_ns(device);

	return charge_until(request->now_ns, request->now_ns + latency_ns,
	                    latency_ns);
}

/*
 * Misbehaviour.
 */

void
em_device_stall(EmDevice *device, uint64_t until_ns)
{
	atomic_store(&device->stalled_until_ns, until_ns);
}

uint64_t
em_device_stalled_until(const EmDevice *device, uint64_t now_ns)
{
	uint64_t until_ns = atomic_load(&device->stalled_until_ns);

	/* An end further away than the longest stall is from before a reboot. */
	return until_ns > now_ns + EM_QUEUE_MAX_NS ? 0 : until_ns;
}

void
em_device_slow(EmDevice *device, uint64_t slowness_ppm)
{
	atomic_store(&device->slowness_ppm, slowness_ppm);
}

uint64_t
em_device_due(const EmDevice *device, uint64_t end_ns, uint64_t now_ns)
{
	uint64_t stalled_until_ns = em_device_stalled_until(device, now_ns);

	if (stalled_until_ns > now_ns)
		return least(stalled_until_ns, now_ns + EM_STALL_LOOK_NS);

	return end_ns;
}

/* Make every server free and the cache clean, as in a new device. */
void
em_device_forget_queues(EmDevice *device)
{
	for (uint32_t s = 0; s < EM_SERVERS_MAX; s++)
	{
		atomic_store(&device->server[s].busy_until_ns, 0);
		atomic_store(&device->server[s].backlog_ns, 0);
		atomic_store(&device->server[s].backlog_bytes, 0);
	}
	atomic_store(&device->pipe_until_ns, 0);
	atomic_store(&device->admitted_until_ns, 0);
	atomic_store(&device->log_unsynced_bytes, 0);
}
