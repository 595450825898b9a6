/*
 * lab.h
 *		For tests with real processes: a folder with devices, and jobs that run
 *		with the library preloaded.
 *
 * The test program starts itself again for a job, with LD_PRELOAD set; a job
 * answers with numbers in memory that it shares with the test.  Everything is
 * removed by lab_close().
 */
/* SPDX-License-Identifier: PostgreSQL */
#ifndef PGFLASH_EMULATOR_LAB_H
#define PGFLASH_EMULATOR_LAB_H

#include "state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define LAB_PATH_MAX    1024
#define LAB_ANSWERS_MAX 4096

typedef struct Lab
{
	char build[LAB_PATH_MAX];  /* where the programs are */
	char folder[LAB_PATH_MAX]; /* a new one, in memory if there is one */
	char mapped[LAB_PATH_MAX]; /* in it, played by the first device */
	char plain[LAB_PATH_MAX];  /* in it, played by none */
	char state_path[LAB_PATH_MAX];
	EmState *state;
	double *answers; /* shared with the jobs */
} Lab;

static inline void
lab_give_up(const char *what)
{
	printf("Bail out! could not %s\n", what);
	exit(1);
}

__attribute__((format(printf, 2, 3))) static inline void
lab_path(char *path, const char *format, ...)
{
	__builtin_va_list arguments;

	__builtin_va_start(arguments, format);
	if (vsnprintf(path, LAB_PATH_MAX, format, arguments) >= LAB_PATH_MAX)
		lab_give_up("make a path");
	__builtin_va_end(arguments);
}

/* The build folder is the parent of the folder that holds this program. */
static inline void
lab_find_build(Lab *lab)
{
	ssize_t length = readlink("/proc/self/exe", lab->build, LAB_PATH_MAX - 1);

	if (length < 0)
		lab_give_up("find this program");
	lab->build[length] = '\0';
	for (int i = 0; i < 2; i++)
		*strrchr(lab->build, '/') = '\0';
}

static inline double *
lab_map_answers(const char *folder)
{
	char path[LAB_PATH_MAX];
	FILE *file;
	void *answers;

	lab_path(path, "%s/answers", folder);
	file = fopen(path, "a+");
	if (file == NULL ||
	    ftruncate(fileno(file), LAB_ANSWERS_MAX * sizeof(double)) != 0)
		lab_give_up("make the file for answers");
	answers = mmap(NULL, LAB_ANSWERS_MAX * sizeof(double),
	               PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
	fclose(file);
	if (answers == MAP_FAILED)
		lab_give_up("map the file for answers");
	return answers;
}

/* Run the control tool; returns its exit status. */
static inline int
lab_control(const Lab *lab, const char *arguments)
{
	char command[8 * LAB_PATH_MAX];
	int status;

	snprintf(command, sizeof(command), "'%s/pgflash-emulator' %s", lab->build,
	         arguments);
	fflush(stdout);
	status = system(command);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Run a verb of the control tool on the lab's state file. */
static inline void
lab_verb(const Lab *lab, const char *verb)
{
	char arguments[2 * LAB_PATH_MAX];

	snprintf(arguments, sizeof(arguments), "%s '%s'", verb, lab->state_path);
	if (lab_control(lab, arguments) != 0)
		lab_give_up("run the control tool");
}

/* (Re)create the state with one device that plays the mapped folder. */
static inline void
lab_device(Lab *lab, const char *keys)
{
	char path[LAB_PATH_MAX];
	char arguments[3 * LAB_PATH_MAX];
	const char *reason;
	FILE *config;

	lab_path(path, "%s/config", lab->folder);
	config = fopen(path, "w");
	if (config == NULL)
		lab_give_up("write the configuration");
	fprintf(config, "[disk]\nprofile = test\npath = %s\n%s\n", lab->mapped,
	        keys);
	fclose(config);

	snprintf(arguments, sizeof(arguments), "create '%s' '%s'", lab->state_path,
	         path);
	if (lab_control(lab, arguments) != 0)
		lab_give_up("create the state file");
	if (lab->state != NULL)
		munmap(lab->state, sizeof(EmState));
	lab->state = em_state_open(lab->state_path, &reason);
	if (lab->state == NULL)
		lab_give_up("map the state file");
}

static inline void
lab_open(Lab *lab)
{
	const char *base = getenv("MEMDIR");

	if (base == NULL || base[0] == '\0')
		base = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : getenv("TMPDIR");
	memset(lab, 0, sizeof(*lab));
	lab_find_build(lab);
	lab_path(lab->folder, "%s/emulator-test.XXXXXX",
	         base != NULL && base[0] != '\0' ? base : "/tmp");
	if (mkdtemp(lab->folder) == NULL)
		lab_give_up("make a folder");
	lab_path(lab->mapped, "%s/mapped", lab->folder);
	lab_path(lab->plain, "%s/plain", lab->folder);
	lab_path(lab->state_path, "%s/state", lab->folder);
	if (mkdir(lab->mapped, 0755) != 0 || mkdir(lab->plain, 0755) != 0)
		lab_give_up("make a folder");
	lab->answers = lab_map_answers(lab->folder);
}

static inline void
lab_close(Lab *lab)
{
	char command[LAB_PATH_MAX + 16];

	snprintf(command, sizeof(command), "rm -rf '%s'", lab->folder);
	if (system(command) != 0)
		lab_give_up("remove the folder");
}

/* Make a file of this many MB.  It is all holes, so no real disk is used. */
static inline void
lab_file(const char *folder, const char *name, int mb)
{
	char path[LAB_PATH_MAX];
	FILE *file;

	lab_path(path, "%s/%s", folder, name);
	file = fopen(path, "w");
	if (file == NULL || ftruncate(fileno(file), mb * 1024L * 1024L) != 0)
		lab_give_up("make a file");
	fclose(file);
}

static inline void
lab_prepare_environment(const Lab *lab, bool preload)
{
	char library[LAB_PATH_MAX];

	lab_path(library, "%s/libpgflash_emulator.so", lab->build);
	if (!preload)
		return;
	setenv("LD_PRELOAD", library, 1);
	setenv(EM_STATE_VARIABLE, lab->state_path, 1);
}

/*
 * Start this program again: main() gets the job's name, the lab's folder, the
 * number of the job, and one argument.
 */
static inline pid_t
lab_start(const Lab *lab, bool preload, const char *job, int number,
          const char *argument)
{
	char number_text[16];
	pid_t pid;

	snprintf(number_text, sizeof(number_text), "%d", number);
	fflush(stdout);
	pid = fork();
	if (pid == 0)
	{
		lab_prepare_environment(lab, preload);
		execl("/proc/self/exe", "job", job, lab->folder, number_text, argument,
		      (char *) NULL);
		_exit(127);
	}
	if (pid < 0)
		lab_give_up("fork");
	return pid;
}

static inline void
lab_wait(pid_t pid)
{
	int status;

	if (waitpid(pid, &status, 0) != pid || status != 0)
		lab_give_up("run a job");
}

static inline void
lab_run(const Lab *lab, bool preload, const char *job, const char *argument)
{
	lab_wait(lab_start(lab, preload, job, 0, argument));
}

static inline double
lab_cpu_ms(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (double) (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e3 +
	       (double) (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e3;
}

static inline double
lab_now_ms(void)
{
	return (double) em_clock_ns() / 1e6;
}

static inline int
lab_compare(const void *a, const void *b)
{
	double x = *(const double *) a, y = *(const double *) b;

	return (x > y) - (x < y);
}

static inline double
lab_median(double *values, int count)
{
	qsort(values, (size_t) count, sizeof(double), lab_compare);
	return values[count / 2];
}

#endif
