/*
 * state.h
 *		The state file: what all processes of a lab server share.
 *
 * It is mapped by the library in every process of the server, and by the
 * control tool.  The control tool writes the constant part (profiles, paths)
 * under another name and renames it into place, so a mapped file is complete.
 * After that only atomics change.  Nothing in it needs repair after a crash.
 */
/* SPDX-License-Identifier: PostgreSQL */
#ifndef PGFLASH_EMULATOR_STATE_H
#define PGFLASH_EMULATOR_STATE_H

#include "device.h"
#include "scans.h"

#define EM_DEVICES_MAX   8
#define EM_PATHS_MAX     32
#define EM_PATH_MAX      512
#define EM_STATE_MAGIC   0x6c756d6566676770ULL
#define EM_STATE_VERSION 4

#define EM_STATE_VARIABLE "PGFLASH_EMULATOR"

/* A directory, and the device that plays everything below it. */
typedef struct EmPath
{
	uint32_t device; /* index into EmState.device */
	uint32_t length;
	char text[EM_PATH_MAX]; /* absolute, without symbolic links */
} EmPath;

typedef struct EmState
{
	uint64_t magic;
	uint32_t version;
	uint32_t size;
	uint32_t device_count;
	uint32_t path_count;
	_Atomic uint32_t delays_on;
	uint32_t padding;
	_Atomic uint64_t reset_at_ns; /* CLOCK_MONOTONIC; statistics start here */
	EmPath path[EM_PATHS_MAX];
	EmDevice device[EM_DEVICES_MAX];
	EmScans scans;
} EmState;

/* Returns NULL and a reason (a static text) if the file cannot be used. */
extern EmState *em_state_open(const char *path, const char **reason_out);

/* The device that plays an absolute path: the longest prefix wins; or NULL. */
extern EmDevice *em_state_device_of(EmState *state, const char *path);

extern uint64_t em_clock_ns(void);

#endif
