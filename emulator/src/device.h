/*
 * device.h
 *		The model of one storage device: what a request waits for, and how long.
 *
 * A device is a set of servers (the spindles of an array, the channels of a
 * flash drive).  A request reserves time on the servers that hold its bytes and
 * is finished when the last of these reservations ends; the caller sleeps until
 * then.  Queueing is therefore not simulated but real: a later request starts
 * where the earlier reservation ends.
 *
 * The model never reads a clock and never sleeps: the caller passes the current
 * time and gets the end.  So tests can run it with a fake clock.
 *
 * Locking: none.  An EmDevice is in memory that many processes share; every
 * field that changes is a lock-free atomic, and every step leaves a valid
 * state.  A process killed between two steps loses at most the accounting of
 * its own few milliseconds.  No process must end a reservation: it ends when
 * its time has passed.
 *
 * README.md ("The model") uses the same words as the fields here.
 */
/* SPDX-License-Identifier: PostgreSQL */
#ifndef PGFLASH_EMULATOR_DEVICE_H
#define PGFLASH_EMULATOR_DEVICE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define EM_SERVERS_MAX       64
#define EM_NAME_MAX          64
#define EM_HISTOGRAM_BUCKETS 32

/*
 * No request waits longer than this.  A reservation further away can only come
 * from a state file that outlived its boot (the clock starts again at zero).
 */
#define EM_QUEUE_MAX_NS (120ULL * 1000 * 1000 * 1000)

/* A process that waits for a stalled device checks at this interval. */
#define EM_STALL_LOOK_NS (10ULL * 1000 * 1000)

/* The device behaves as in its profile; 10 times this is 10 times slower. */
#define EM_SLOWNESS_NONE ((uint64_t) 1000000)
#define EM_SLOWNESS_MAX  (1000 * EM_SLOWNESS_NONE)

typedef enum EmKind
{
	EM_DISK,
	EM_FLASH
} EmKind;

typedef enum EmLayout
{
	EM_STRIPE, /* each stripe on one server */
	EM_RAID10, /* each stripe on a pair; reads take the less busy one */
	EM_RAID5   /* a small write reads and writes data and parity */
} EmLayout;

/* The operations that the statistics distinguish. */
typedef enum EmOperation
{
	EM_READ,
	EM_WRITE,     /* of any file but the log */
	EM_LOG_WRITE, /* of a WAL segment; costs nothing until it is synced */
	EM_LOG_SYNC,
	EM_DATA_SYNC,
	EM_METADATA, /* truncate, allocate */
	EM_OPERATION_COUNT
} EmOperation;

typedef struct EmRange
{
	uint64_t min_ns;
	uint64_t max_ns;
} EmRange;

/* How a device behaves.  Constant after the state file has been created. */
typedef struct EmProfile
{
	char name[EM_NAME_MAX];
	uint32_t kind;   /* EmKind */
	uint32_t layout; /* EmLayout */
	uint32_t server_count;
	uint32_t padding;
	uint64_t stripe_bytes;
	uint64_t bandwidth_bytes_s; /* of one server */

	/* Time to the first byte; a read that continues a stream skips it. */
	EmRange read_position;
	EmRange write_position;
	uint64_t rotation_max_ns; /* added to both, uniform from zero */

	EmRange log_sync;

	/* The write-back cache; size zero: writers wait for the servers. */
	uint64_t cache_bytes;
	uint64_t cache_latency_ns;
	uint64_t destage_factor_ppm; /* of a write's positioning, when sorted */
	uint64_t destage_share_ppm;  /* of a server's time, while reads wait */
	uint64_t fsync_destages_ppm; /* of the dirty bytes, by fsync of data */

	/* Limits of the whole device; zero means none. */
	uint64_t limit_bytes_s;
	uint64_t limit_iops;
	uint64_t limit_burst;    /* requests admitted at once */
	uint64_t limit_io_bytes; /* a larger request counts as several */
} EmProfile;

typedef struct EmServer
{
	_Atomic uint64_t busy_until_ns;
	_Atomic uint64_t backlog_ns;    /* destaging not yet done */
	_Atomic uint64_t backlog_bytes; /* copies and parity not counted */
	_Atomic uint64_t used_ns;       /* reads, syncs and destaging */
	uint64_t padding[4];            /* one cache line each */
} EmServer;

typedef struct EmTally
{
	_Atomic uint64_t count;
	_Atomic uint64_t bytes;
	_Atomic uint64_t service_ns;
	_Atomic uint64_t wait_ns;    /* for servers and limits, by the model */
	_Atomic uint64_t latency_ns; /* as the caller saw it, by the clock */
	/* Bucket b counts latencies of less than 2^b us, not in a lower bucket. */
	_Atomic uint64_t histogram[EM_HISTOGRAM_BUCKETS];
} EmTally;

typedef struct EmDevice
{
	char name[EM_NAME_MAX];
	EmProfile profile;
	_Atomic uint64_t ticket; /* the source of chance; see chance() */
	_Atomic uint64_t stalled_until_ns;
	_Atomic uint64_t slowness_ppm; /* zero: none */
	_Atomic uint64_t pipe_until_ns;
	_Atomic uint64_t pipe_used_ns; /* what passed it, at its limit's speed */
	_Atomic uint64_t admitted_until_ns;
	_Atomic uint64_t admitted_used_ns; /* tokens taken, at their rate */
	_Atomic uint64_t log_unsynced_bytes;
	_Atomic uint64_t log_offset;
	EmTally tally[EM_OPERATION_COUNT];
	_Alignas(64) EmServer server[EM_SERVERS_MAX];
} EmDevice;

_Static_assert(sizeof(EmServer) == 64, "a server has its own cache line");

typedef struct EmRequest
{
	uint64_t now_ns;
	uint64_t file; /* a hash that names the file */
	uint64_t offset;
	uint64_t bytes;
	bool continues;      /* a stream: no positioning */
	uint64_t gap_bytes;  /* skipped by the stream, at transfer speed */
	uint64_t paid_bytes; /* own bytes, already skipped by a scan */
} EmRequest;

typedef struct EmCharge
{
	uint64_t end_ns; /* the caller sleeps until then */
	uint64_t service_ns;
	uint64_t wait_ns;
} EmCharge;

extern EmCharge em_device_read(EmDevice *device, const EmRequest *request);
extern EmCharge em_device_write(EmDevice *device, const EmRequest *request,
                                bool write_through);
extern void em_device_log_write(EmDevice *device, const EmRequest *request);
extern EmCharge em_device_log_sync(EmDevice *device, const EmRequest *request);
extern EmCharge em_device_data_sync(EmDevice *device, const EmRequest *request);
extern EmCharge em_device_metadata(EmDevice *device, const EmRequest *request);

/*
 * Misbehaviour, changed while the device is in use.  A stalled device finishes
 * nothing, whatever was reserved; when the stall ends, it finishes at once
 * every request whose reservation has ended.
 */
extern void em_device_stall(EmDevice *device, uint64_t until_ns);
extern uint64_t em_device_stalled_until(const EmDevice *device,
                                        uint64_t now_ns);
extern void em_device_slow(EmDevice *device, uint64_t slowness_ppm);

/*
 * When is a request finished whose reservation ends at end_ns?  If the result
 * is in the future, ask again then: a stall may begin or end in the meantime.
 */
extern uint64_t em_device_due(const EmDevice *device, uint64_t end_ns,
                              uint64_t now_ns);

extern uint64_t em_device_dirty_bytes(EmDevice *device, uint64_t now_ns);
extern uint64_t em_device_used_ns(const EmDevice *device);

/*
 * How busy was the busiest of the device's three bottlenecks in this time: its
 * servers on average, the pipe of the bandwidth limit, or the IOPS limit?  1 is
 * saturated; what is still queued counts as well, so it may be more.
 */
extern double em_device_utilisation(const EmDevice *device,
                                    uint64_t elapsed_ns);
extern void em_device_forget_queues(EmDevice *device);
extern void em_device_forget_tallies(EmDevice *device);
extern void em_device_count(EmDevice *device, EmOperation operation,
                            uint64_t bytes, const EmCharge *charge,
                            uint64_t latency_ns);

#endif
