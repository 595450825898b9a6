/*
 * control_test.c
 *		The control tool: the input it accepts and refuses, and what it prints.
 */
/* SPDX-License-Identifier: PostgreSQL */
#include "lab.h"
#include "tap.h"

#define SOUND                                                                  \
	"kind = disk\nlayout = stripe\nservers = 1\nstripe_bytes = 65536\n"        \
	"bandwidth_bytes_s = 2000000000\n"

static Lab lab;

/* Does the tool fail with this message for this configuration? */
static bool
refuses(const char *config, const char *text)
{
	char path[LAB_PATH_MAX], arguments[4 * LAB_PATH_MAX];
	FILE *file;

	lab_path(path, "%s/config", lab.folder);
	file = fopen(path, "w");
	if (file == NULL)
		lab_give_up("write the configuration");
	fputs(config, file);
	fclose(file);

	snprintf(arguments, sizeof(arguments),
	         "create '%s/new' '%s' > '%s/said' 2>&1", lab.folder, path,
	         lab.folder);
	if (lab_control(&lab, arguments) != 1)
		return false;
	snprintf(arguments, sizeof(arguments), "grep -q '%s' '%s/said'", text,
	         lab.folder);
	if (system(arguments) != 0)
		return false;

	lab_path(path, "%s/new", lab.folder);
	return access(path, F_OK) != 0;
}

static void
test_refusals(void)
{
	OK(refuses("", "names no device"), "an empty configuration is refused");
	OK(refuses("servers = 1\n", "line 1: a key must come after"),
	   "a key without a device is refused, with its line");
	OK(refuses("# why\n[disk]\ncolour = red\n", "line 3: there is no such key"),
	   "an unknown key is refused");
	OK(refuses("[disk]\nservers = many\n", "must be a plain integer"),
	   "a number that is not one is refused");
	OK(refuses("[disk]\nservers = -1\n", "must be a plain integer"),
	   "a negative number is refused");
	OK(refuses("[disk]\nkind = tape\n", "no such choice"),
	   "an unknown kind is refused");
	OK(refuses("[disk]\n" SOUND "[disk]\n" SOUND, "two devices of this name"),
	   "two devices of one name are refused");
	OK(refuses("[a \"b\"]\n" SOUND, "may hold only"),
	   "a name that would break JSON is refused");
	OK(refuses("[disk]\n" SOUND "servers = 65\n", "servers must be between"),
	   "a profile that cannot be played is refused");
	OK(refuses("[disk]\n" SOUND "path = /nowhere/at/all\n", "does not exist"),
	   "a path that does not exist is refused");
	OK(refuses("[disk]\n" SOUND "path = here\n", "must be absolute"),
	   "a relative path is refused");
	OK(refuses("[disk]\n" SOUND "path = /\n", "root directory"),
	   "the root directory is refused");
	OK(refuses("[disk]\n" SOUND "path = /tmp\n[b]\n" SOUND "path = /tmp\n",
	           "already belongs"),
	   "a path of two devices is refused");
}

static void
test_verbs(void)
{
	char arguments[4 * LAB_PATH_MAX];
	struct stat status;

	lab_device(&lab, SOUND);
	OK(stat(lab.state_path, &status) == 0 && (status.st_mode & 0777) == 0600,
	   "the state file is for its owner alone");
	OK(lab.state->delays_on == 1, "delays are on at first");

	lab_verb(&lab, "off");
	OK(lab.state->delays_on == 0, "off switches them off");
	atomic_store(&lab.state->device[0].server[0].busy_until_ns, UINT64_MAX);
	lab_verb(&lab, "on");
	OK(lab.state->delays_on == 1, "on switches them on");
	OK(lab.state->device[0].server[0].busy_until_ns == 0,
	   "and forgets what was queued before");

	/* A real JSON parser decides whether the output is JSON. */
	snprintf(
		arguments, sizeof(arguments),
		"stats '%s' | python3 -c 'import json, sys; "
		"d = json.load(sys.stdin)[\"devices\"][0]; "
		"sys.exit(d[\"name\"] != \"disk\" or d[\"profile\"] != \"test\" or "
		"d[\"operations\"][\"read\"][\"count\"] != 0)'",
		lab.state_path);
	OK(lab_control(&lab, arguments) == 0, "stats prints JSON");
}

static void
test_slowness(void)
{
	char arguments[4 * LAB_PATH_MAX];

	snprintf(arguments, sizeof(arguments), "stall '%s' disk 100000",
	         lab.state_path);
	OK(lab_control(&lab, arguments) == 0 &&
	       em_device_stalled_until(&lab.state->device[0], em_clock_ns()) >
	           em_clock_ns() + 1000000000,
	   "stall stalls a device");
	snprintf(arguments, sizeof(arguments), "stall '%s' disk 0", lab.state_path);
	OK(lab_control(&lab, arguments) == 0 &&
	       em_device_stalled_until(&lab.state->device[0], em_clock_ns()) <=
	           em_clock_ns(),
	   "and ends a stall");
	snprintf(arguments, sizeof(arguments), "slow '%s' disk 5000000",
	         lab.state_path);
	OK(lab_control(&lab, arguments) == 0 &&
	       lab.state->device[0].slowness_ppm == 5000000,
	   "slow makes a device slower");
	snprintf(arguments, sizeof(arguments),
	         "slow '%s' tape 5000000 2> /dev/null", lab.state_path);
	OK(lab_control(&lab, arguments) == 1, "an unknown device is a failure");
	for (int i = 0; i < 3; i++)
	{
		static const char *const wrong[] = { "-1", "120001", "soon" };

		snprintf(arguments, sizeof(arguments),
		         "stall '%s' disk %s 2> /dev/null", lab.state_path, wrong[i]);
		OK(lab_control(&lab, arguments) == 2, "a stall of %s ms is refused",
		   wrong[i]);
	}
	snprintf(arguments, sizeof(arguments), "slow '%s' disk 0 2> /dev/null",
	         lab.state_path);
	OK(lab_control(&lab, arguments) == 2, "nothing is infinitely fast");
}

static void
test_the_end(void)
{
	char arguments[4 * LAB_PATH_MAX], passwd[LAB_PATH_MAX];

	lab_path(passwd, "%s/precious", lab.folder);
	lab_file(lab.folder, "precious", 1);
	snprintf(arguments, sizeof(arguments), "destroy '%s' 2> /dev/null", passwd);
	OK(lab_control(&lab, arguments) == 1 && access(passwd, F_OK) == 0,
	   "destroy does not remove what is not a state file");
	lab_verb(&lab, "destroy");
	OK(access(lab.state_path, F_OK) != 0, "destroy removes the state file");

	OK(lab_control(&lab, "on /nowhere 2> /dev/null") == 1,
	   "a missing state file is a failure");
	OK(lab_control(&lab, "dance 2> /dev/null") == 2,
	   "an unknown verb is a wrong argument");
	OK(lab_control(&lab, "create a b --owner x 2> /dev/null") == 2,
	   "so is an owner that is not a number");
}

int
main(void)
{
	lab_open(&lab);
	test_refusals();
	test_verbs();
	test_slowness();
	test_the_end();
	lab_close(&lab);
	return done();
}
