/*
 * calibration_test.c
 *		Do real processes see the device that the profile describes?
 *
 * Machines are noisy: a sleep ends late, never early.  So lower bounds are
 * sharp, times are many ms, and medians and means of many requests are
 * compared, never a single one. Tests that a busy machine can make fail are
 * retried, see patiently.h.
 */
/* SPDX-License-Identifier: PostgreSQL */
#include "lab.h"
#include "patiently.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/time.h>

#define BLOCK     8192
#define FILE_MB   256
#define FILE_SIZE (FILE_MB * 1024L * 1024L)

/* The time of a block; its transfer takes next to nothing. */
#define DISK_10MS                                                              \
	"kind = disk\nlayout = stripe\nservers = 1\nstripe_bytes = 65536\n"        \
	"bandwidth_bytes_s = 2000000000\n"                                         \
	"read_position_min_ns = 10000000\nread_position_max_ns = 10000000\n"       \
	"write_position_min_ns = 10000000\nwrite_position_max_ns = 10000000\n"     \
	"log_sync_min_ns = 10000000\nlog_sync_max_ns = 10000000\n"

/* The array of lab.md's prototype: 4.5 ms a read on six spindles. */
#define ARRAY_6                                                                \
	"kind = disk\nlayout = raid10\nservers = 6\nstripe_bytes = 65536\n"        \
	"bandwidth_bytes_s = 150000000\n"                                          \
	"read_position_min_ns = 1000000\nread_position_max_ns = 4000000\n"         \
	"write_position_min_ns = 1000000\nwrite_position_max_ns = 4000000\n"       \
	"rotation_max_ns = 4000000\n"                                              \
	"log_sync_min_ns = 2000000\nlog_sync_max_ns = 7000000\n"

/*
 * Jobs.
 */

static int
open_file(const char *folder, const char *place)
{
	char path[LAB_PATH_MAX];
	int fd;

	lab_path(path, "%s/%s/file", folder, place);
	fd = open(path, O_RDWR);
	if (fd < 0)
		lab_give_up("open the file");
	return fd;
}

static long
random_block(void)
{
	return random() % (FILE_SIZE / BLOCK);
}

static void
read_block(int fd, long block)
{
	static char buffer[BLOCK];

	if (pread(fd, buffer, BLOCK, (off_t) block * BLOCK) != BLOCK)
		lab_give_up("read a block");
}

static void
write_block(int fd, long block)
{
	static char buffer[BLOCK];

	if (pwrite(fd, buffer, BLOCK, (off_t) block * BLOCK) != BLOCK)
		lab_give_up("write a block");
}

/* Random reads; reports the mean and the median in ms. */
static void
job_random_reads(const char *folder, int number, int count)
{
	static double latency_ms[LAB_ANSWERS_MAX];
	double *answers = lab_map_answers(folder);
	int fd = open_file(folder, "mapped");
	double began_ms = lab_now_ms();

	srandom((unsigned int) (1000 + number));
	for (int i = 0; i < count; i++)
	{
		double before_ms = lab_now_ms();

		read_block(fd, random_block());
		latency_ms[i] = lab_now_ms() - before_ms;
	}
	answers[2 * number] = (lab_now_ms() - began_ms) / count;
	answers[2 * number + 1] = lab_median(latency_ms, count);
}

static void
job_scan(const char *folder, int number, int count)
{
	double *answers = lab_map_answers(folder);
	int fd = open_file(folder, "mapped");
	double began_ms = lab_now_ms();

	/* Every third page is in shared buffers. */
	for (int block = 0, read_count = 0; read_count < count; block++)
	{
		if (block % 3 == 2)
			continue;
		read_block(fd, block);
		read_count++;
	}
	answers[number] = (lab_now_ms() - began_ms) / count;
}

/*
 * A scan that all jobs of this kind share: each takes the next 16 blocks, reads
 * them and takes the next, as PostgreSQL's parallel workers do.
 */
static void
job_shared_scan(const char *folder, int number, int count)
{
	double *answers = lab_map_answers(folder);
	_Atomic long *next = (_Atomic long *) &answers[LAB_ANSWERS_MAX - 1];
	int fd = open_file(folder, "mapped");
	long block;

	while ((block = atomic_fetch_add(next, 16)) < count)
		for (long end = block + 16; block < end; block++)
		{
			read_block(fd, block);
			answers[number]++;
		}
}

/* Random writes; reports the time in ms of the first and of the second half. */
static void
job_writes(const char *folder, int number, int count)
{
	double *answers = lab_map_answers(folder);
	int fd = open_file(folder, "mapped");

	for (int half = 0; half < 2; half++)
	{
		double began_ms = lab_now_ms();

		for (int i = 0; i < count / 2; i++)
			write_block(fd, random_block());
		answers[2 * number + half] = lab_now_ms() - began_ms;
	}
}

/* Reads of one byte from the page cache; reports the CPU ns of each. */
static void
job_byte_reads(const char *folder, int number, int count, const char *place)
{
	double *answers = lab_map_answers(folder);
	int fd = open_file(folder, place);
	double began_ms = lab_cpu_ms();
	char byte;

	for (int i = 0; i < count; i++)
		if (pread(fd, &byte, 1, 0) != 1)
			lab_give_up("read a byte");
	answers[number] = (lab_cpu_ms() - began_ms) * 1e6 / count;
}

/*
 * Random reads, eight at a time: announced all together, then read.  Reports
 * the mean time in ms of a read.
 */
static void
job_announced_reads(const char *folder, int number, int count)
{
	double *answers = lab_map_answers(folder);
	int fd = open_file(folder, "mapped");
	double began_ms = lab_now_ms();

	for (int i = 0; i < count; i += 8)
	{
		long block[8];

		for (int j = 0; j < 8; j++)
		{
			block[j] = random_block();
			if (posix_fadvise(fd, block[j] * BLOCK, BLOCK,
			                  POSIX_FADV_WILLNEED) != 0)
				lab_give_up("advise");
		}
		for (int j = 0; j < 8; j++)
			read_block(fd, block[j]);
	}
	answers[number] = (lab_now_ms() - began_ms) / count;
}

static void
ignore_alarm(int signal_number)
{
	(void) signal_number;
}

/* As random reads, while a signal arrives every 2 ms. */
static void
job_disturbed_reads(const char *folder, int number, int count)
{
	struct itimerval often = { { 0, 2000 }, { 0, 2000 } };
	struct sigaction action = { .sa_handler = ignore_alarm };

	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	job_random_reads(folder, number, count);
}

static int
run_job(char **arguments)
{
	const char *job = arguments[1], *folder = arguments[2];
	int number = atoi(arguments[3]), count = atoi(arguments[4]);

	if (strcmp(job, "random reads") == 0)
		job_random_reads(folder, number, count);
	else if (strcmp(job, "disturbed reads") == 0)
		job_disturbed_reads(folder, number, count);
	else if (strcmp(job, "announced reads") == 0)
		job_announced_reads(folder, number, count);
	else if (strcmp(job, "scan") == 0)
		job_scan(folder, number, count);
	else if (strcmp(job, "shared scan") == 0)
		job_shared_scan(folder, number, count);
	else if (strcmp(job, "writes") == 0)
		job_writes(folder, number, count);
	else if (strcmp(job, "plain bytes") == 0)
		job_byte_reads(folder, number, count, "plain");
	else if (strcmp(job, "mapped bytes") == 0)
		job_byte_reads(folder, number, count, "mapped");
	else
		return 1;

	return 0;
}

/*
 * Tests.
 */

static EmTally *
reads_of(const Lab *lab)
{
	return &lab->state->device[0].tally[EM_READ];
}

static void
test_one_reader(Lab *lab)
{
	double model_ms, seen_ms;

	lab_device(lab, DISK_10MS);
	lab_run(lab, true, "random reads", "40");
	NOTE("one reader, 10 ms: mean %.2f ms, median %.2f ms", lab->answers[0],
	     lab->answers[1]);
	OK(lab->answers[1] >= 10.0, "one reader waits for its service time");
	IN_TIME(lab->answers[1] < 13.0, "and for little more");

	OK(reads_of(lab)->count == 40 && reads_of(lab)->bytes == 40 * BLOCK,
	   "the device counts the requests that the reader made");
	model_ms =
		(double) (reads_of(lab)->service_ns + reads_of(lab)->wait_ns) / 40e6;
	seen_ms = (double) reads_of(lab)->latency_ns / 40e6;
	OK(model_ms >= 10.0 && model_ms < 10.1, "the model says 10 ms");
	IN_TIME(seen_ms <= lab->answers[0] && seen_ms > 0.9 * lab->answers[0],
	        "the latency that the device reports is what the reader saw");

	lab_run(lab, true, "disturbed reads", "20");
	OK(lab->answers[1] >= 10.0, "a signal does not cut the wait short");
	IN_TIME(lab->answers[1] < 13.0, "nor does it lengthen it");
}

static void
test_queueing(Lab *lab)
{
	enum
	{
		READERS = 20,
		READS = 60
	};
	pid_t pid[READERS];
	double sum_ms = 0, mean_ms, service_ms, servers;

	lab_device(lab, ARRAY_6);
	lab_run(lab, true, "random reads", "100");
	NOTE("array of 6 spindles, 1 reader: mean %.2f ms", lab->answers[0]);
	IN_TIME(lab->answers[0] > 4.0 && lab->answers[0] < 5.5,
	        "one reader of the array waits 4.5 ms");

	lab_verb(lab, "reset");
	for (int i = 0; i < READERS; i++)
		pid[i] = lab_start(lab, true, "random reads", i, "60");
	for (int i = 0; i < READERS; i++)
		lab_wait(pid[i]);
	for (int i = 0; i < READERS; i++)
		sum_ms += lab->answers[2 * i];

	mean_ms = sum_ms / READERS;
	service_ms = (double) reads_of(lab)->service_ns / 1e6 /
	             (double) reads_of(lab)->count;
	/* By Little's law, without the time to start and end the processes. */
	servers = READERS * service_ms / mean_ms;
	NOTE("array of 6 spindles, 20 readers: mean %.2f ms, service %.2f ms, "
	     "%.0f reads/s, %.2f spindles' worth",
	     mean_ms, service_ms, READERS * 1000 / mean_ms, servers);
	OK(reads_of(lab)->count == READERS * READS,
	   "every request of every reader is counted");
	IN_TIME(mean_ms > 12.7 && mean_ms < 17.7,
	        "twenty readers of the array wait 13.7 to 16.7 ms");
	IN_TIME(servers > 5.1 && servers < 6.9,
	        "twenty readers get the throughput of six spindles");
}

static void
test_streams(Lab *lab)
{
	double scan_ms, random_ms;

	lab_device(lab, DISK_10MS);
	lab_run(lab, true, "scan", "400");
	scan_ms = lab->answers[0];
	lab_run(lab, true, "random reads", "30");
	random_ms = lab->answers[0];
	NOTE("scan with gaps %.3f ms a page, random %.3f ms", scan_ms, random_ms);
	IN_TIME(random_ms > 8 * scan_ms,
	        "a scan with pages left out is much faster than random reads");
}

/* Processes scan 16 MB together; returns how long the disk worked for it. */
static double
shared_scan_ms(Lab *lab, int processes)
{
	pid_t pid[4];
	double blocks = 0;

	lab_device(lab, DISK_10MS "bandwidth_bytes_s = 100000000\n");
	memset(lab->answers, 0, LAB_ANSWERS_MAX * sizeof(double));
	for (int i = 0; i < processes; i++)
		pid[i] = lab_start(lab, true, "shared scan", i, "2048");
	for (int i = 0; i < processes; i++)
		lab_wait(pid[i]);
	for (int i = 0; i < processes; i++)
		blocks += lab->answers[i];
	OK(blocks == 2048 && reads_of(lab)->count == 2048,
	   "%d processes read each block once", processes);
	return (double) reads_of(lab)->service_ns / 1e6;
}

static void
test_shared_scan(Lab *lab)
{
	double alone_ms = shared_scan_ms(lab, 1);
	double shared_ms = shared_scan_ms(lab, 4);

	NOTE("16 MB take the disk %.0f ms for one process, %.0f ms for four",
	     alone_ms, shared_ms);
	OK(alone_ms > 167 && alone_ms < 190, "a scan takes its transfer");
	OK(shared_ms > 167, "a shared one costs its transfer, too");
	IN_TIME(shared_ms < 250, "and takes about as long");
}

static void
test_prefetching(Lab *lab)
{
	double single_ms, announced_ms;

	lab_device(lab, ARRAY_6);
	lab_run(lab, true, "random reads", "80");
	single_ms = lab->answers[0];
	lab_verb(lab, "reset");
	lab_run(lab, true, "announced reads", "80");
	announced_ms = lab->answers[0];
	NOTE("a read takes %.2f ms, announced eight at a time %.2f ms", single_ms,
	     announced_ms);
	IN_TIME(announced_ms < single_ms / 2,
	        "announced reads are done by several spindles at once");
	IN_TIME(announced_ms > single_ms / 8, "but take time");
	OK(reads_of(lab)->count == 80, "an announced read is counted once");

	lab_device(lab, DISK_10MS);
	lab_run(lab, true, "announced reads", "40");
	OK(lab->answers[0] > 9.5, "announcing does not make a single disk faster");
}

static void
test_write_cache(Lab *lab)
{
	double clean_ms, dirty_ms;

	/* 60 blocks of cache; a block is destaged in 5 ms. */
	lab_device(lab, DISK_10MS "cache_bytes = 491520\n"
	                          "cache_latency_ns = 10000\n"
	                          "destage_factor_ppm = 500000\n");
	lab_run(lab, true, "writes", "120");
	NOTE("60 writes into the cache %.0f ms, the next 60 %.0f ms",
	     lab->answers[0], lab->answers[1]);
	IN_TIME(lab->answers[0] < 60 * 5.0 / 2,
	        "the cache absorbs writes faster than the disk can");
	IN_TIME(lab->answers[1] > 60 * 5.0 * 0.8,
	        "when it is full, writes have the speed of the disk");

	/* A cache of 4,000 blocks is given 400, which is 2 s of work. */
	lab_device(lab, DISK_10MS "cache_bytes = 32768000\n"
	                          "destage_factor_ppm = 500000\n"
	                          "destage_share_ppm = 500000\n");
	lab_run(lab, true, "random reads", "20");
	clean_ms = lab->answers[0];
	lab_run(lab, true, "writes", "400");
	lab_run(lab, true, "random reads", "20");
	dirty_ms = lab->answers[0];
	NOTE("a read takes %.1f ms, and %.1f ms while the cache destages", clean_ms,
	     dirty_ms);
	IN_TIME(dirty_ms > 1.6 * clean_ms,
	        "destaging slows reads by its share of the spindle");
}

static void
test_switching(Lab *lab)
{
	lab_device(lab, DISK_10MS);
	lab_verb(lab, "off");
	lab_run(lab, true, "random reads", "100");
	IN_TIME(lab->answers[0] < 10.0 / 3,
	        "there are no delays when they are off");
	OK(reads_of(lab)->count == 100, "but requests are counted");

	lab_verb(lab, "on");
	lab_run(lab, true, "random reads", "20");
	OK(lab->answers[1] >= 10.0, "there are delays when they are on again");
	OK(reads_of(lab)->count == 120, "counting has continued");

	lab_verb(lab, "reset");
	OK(reads_of(lab)->count == 0 && reads_of(lab)->latency_ns == 0,
	   "a reset begins the statistics again");
}

static void
test_stalling(Lab *lab)
{
	EmDevice *device;
	double began_ms;
	pid_t pid;

	lab_device(lab, DISK_10MS);
	lab_verb(lab, "off");
	device = &lab->state->device[0];
	began_ms = lab_now_ms();
	em_device_stall(device, em_clock_ns() + 300000000);
	lab_run(lab, true, "random reads", "1");
	OK(lab_now_ms() - began_ms >= 300.0,
	   "a read of a stalled device returns after the stall, delays on or off");

	em_device_stall(device, em_clock_ns() + 60000000000);
	began_ms = lab_now_ms();
	pid = lab_start(lab, true, "random reads", 0, "1");
	usleep(50000);
	OK(waitpid(pid, NULL, WNOHANG) == 0, "a reader waits for a long stall");
	em_device_stall(device, 0);
	lab_wait(pid);
	OK(lab_now_ms() - began_ms < 30000.0, "and goes on when it is ended");

	lab_verb(lab, "on");
	em_device_slow(device, 3 * EM_SLOWNESS_NONE);
	lab_run(lab, true, "random reads", "10");
	OK(lab->answers[1] >= 30.0, "a device can become slower");
	em_device_slow(device, EM_SLOWNESS_NONE);
	lab_run(lab, true, "random reads", "10");
	NOTE("a read of a device that has recovered: %.1f ms", lab->answers[1]);
	IN_TIME(lab->answers[1] >= 10.0 && lab->answers[1] < 30.0, "and recover");
}

/* Processes die in their sleep; that must not affect the disk. */
static void
test_killing(Lab *lab)
{
	enum
	{
		VICTIMS = 10,
		ROUNDS = 3
	};
	double began_ms;

	lab_device(lab, DISK_10MS);
	for (int round = 0; round < ROUNDS; round++)
	{
		pid_t pid[VICTIMS];
		uint64_t before = reads_of(lab)->count;

		for (int i = 0; i < VICTIMS; i++)
			pid[i] = lab_start(lab, true, "random reads", i, "1000");
		while (reads_of(lab)->count < before + 2 * VICTIMS)
			usleep(2000);
		for (int i = 0; i < VICTIMS; i++)
		{
			int status;

			kill(pid[i], SIGKILL);
			waitpid(pid[i], &status, 0);
		}
	}

	began_ms = lab_now_ms();
	lab_run(lab, true, "random reads", "10");
	NOTE("10 reads after %d kills: %.0f ms", VICTIMS * ROUNDS,
	     lab_now_ms() - began_ms);
	IN_TIME(lab_now_ms() - began_ms < 10 * 10.0 + VICTIMS * 10.0 + 400,
	        "a killed process leaves at most its own reservation behind");
	IN_TIME(lab->answers[1] >= 10.0 && lab->answers[1] < 13.0,
	        "and the disk works as before");
}

/*
 * The difference in CPU time with and without the library, in pairs run one
 * after the other, so that a slow minute of the machine affects both.
 */
static double
extra_ns(Lab *lab, const char *job, const char *count)
{
	enum
	{
		PAIRS = 9
	};
	double difference[PAIRS];

	for (int i = 0; i < PAIRS; i++)
	{
		double with_ns;

		lab_run(lab, true, job, count);
		with_ns = lab->answers[0];
		lab_run(lab, false, job, count);
		difference[i] = with_ns - lab->answers[0];
	}

	return lab_median(difference, PAIRS);
}

static void
test_overhead(Lab *lab)
{
	double plain_ns, mapped_ns;

	lab_device(lab, DISK_10MS);
	plain_ns = extra_ns(lab, "plain bytes", "100000");
	NOTE("an unmapped path costs %.0f ns a call more", plain_ns);
	IN_TIME(plain_ns < 100, "an unmapped path costs nothing measurable");

	lab_verb(lab, "off");
	mapped_ns = extra_ns(lab, "mapped bytes", "100000");
	NOTE("a mapped path with delays off costs %.0f ns a call more", mapped_ns);
	IN_TIME(mapped_ns < 5000, "counting alone takes well under 5 us");
}

int
main(int count, char **arguments)
{
	Lab lab;

	if (count == 5)
		return run_job(arguments);

	lab_open(&lab);
	lab_file(lab.mapped, "file", FILE_MB);
	lab_file(lab.plain, "file", 1);
	PATIENTLY(test_one_reader(&lab));
	PATIENTLY(test_queueing(&lab));
	PATIENTLY(test_streams(&lab));
	PATIENTLY(test_shared_scan(&lab));
	PATIENTLY(test_prefetching(&lab));
	PATIENTLY(test_write_cache(&lab));
	PATIENTLY(test_switching(&lab));
	PATIENTLY(test_stalling(&lab));
	PATIENTLY(test_killing(&lab));
	PATIENTLY(test_overhead(&lab));
	lab_close(&lab);
	return done();
}
