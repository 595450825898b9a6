/*
 * paths.c
 *		From a path to what the file is, and back.
 *
 * PostgreSQL names its files relative to the data directory, the working
 * directory of every process:
 *
 *	base/DB/REL[_fork][.SEGMENT]
 *	global/REL[_fork][.SEGMENT]
 *	pg_tblspc/SPACE/PG_version/DB/REL[_fork][.SEGMENT]
 *
 * A relation's place in that scheme is its name in the cache (FcFileId).  So
 * two names must never lead to one file while only one of them is known.  Hence
 * a rule: if a file is reached by any other name than those above, we do not
 * guess which file it is.  Such a path is FILE_ALIAS if its last part looks
 * like a relation's file name, and around a change of it the caller drops every
 * file of that number.  It is also FILE_ALIAS if it climbs (".."), and then the
 * caller drops everything.  PostgreSQL itself never uses such paths; a
 * superuser with a file function or an extension may.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "hooks/paths.h"

#include <stdio.h>
#include <string.h>

#include "fcache/assert.h"

/* Parts of a path; no file of PostgreSQL's has more. */
#define PARTS_MAX 8

typedef struct Part
{
	const char *text;
	size_t length;
} Part;

typedef struct Parts
{
	Part part[PARTS_MAX];
	unsigned count;
	bool climbs;   /* a part is ".." */
	bool too_many; /* only the first PARTS_MAX - 1 and the last are here */
} Parts;

static const char *const fork_names[PATHS_FORKS] = { "main", "fsm", "vm",
	                                                 "init" };

static Parts
split(const char *path)
{
	Parts parts = { .count = 0 };

	while (*path != '\0')
	{
		size_t length = strcspn(path, "/");

		if (length == 2 && path[0] == '.' && path[1] == '.')
			parts.climbs = true;

		if (length > 0 && !(length == 1 && path[0] == '.'))
		{
			if (parts.count == PARTS_MAX)
			{
				parts.too_many = true;
				parts.count--;
			}
			parts.part[parts.count++] = (Part){ path, length };
		}

		path += length;
		while (*path == '/')
			path++;
	}

	return parts;
}

static bool
part_is(const Part *part, const char *text)
{
	return strlen(text) == part->length &&
	       memcmp(part->text, text, part->length) == 0;
}

/*
 * Read a number as PostgreSQL prints an OID: no sign, no leading zero (except 0
 * itself), at most 32 bits.  Returns the number of characters read, 0 if there
 * is no number.
 */
static size_t
read_number(const char *text, size_t length, uint32_t *number_out)
{
	uint64_t number = 0;
	size_t used = 0;

	while (used < length && text[used] >= '0' && text[used] <= '9')
	{
		number = number * 10 + (uint64_t) (text[used] - '0');
		if (number > UINT32_MAX)
			return 0;
		used++;
	}

	if (used > 1 && text[0] == '0')
		return 0;

	*number_out = (uint32_t) number;
	return used;
}

static bool
part_number(const Part *part, uint32_t *number_out)
{
	return part->length > 0 &&
	       read_number(part->text, part->length, number_out) == part->length;
}

/* REL[_fork][.SEGMENT] */
static bool
relation_name(const Part *part, FilePlace *place)
{
	const char *text = part->text;
	size_t left = part->length;
	uint32_t segment = 0;
	size_t used = read_number(text, left, &place->id.relation);

	FC_ASSERT(part->length > 0);
	if (used == 0 || place->id.relation == 0)
		return false;
	text += used;
	left -= used;

	place->id.fork = 0;
	for (uint32_t fork = 1; fork < PATHS_FORKS; fork++)
	{
		size_t length = strlen(fork_names[fork]);

		if (left > length && text[0] == '_' &&
		    memcmp(text + 1, fork_names[fork], length) == 0)
		{
			place->id.fork = fork;
			text += length + 1;
			left -= length + 1;
			break;
		}
	}

	place->id.segment = 0;
	if (left == 0)
		return true;

	if (text[0] != '.')
		return false;
	used = read_number(text + 1, left - 1, &segment);
	place->id.segment = segment & (FC_SEGMENTS_MAX - 1);
	return used > 0 && used == left - 1 && segment < FC_SEGMENTS_MAX;
}

/* tBACKEND_REL...: the rest is not examined. */
static bool
temp_relation_name(const Part *part)
{
	uint32_t backend;
	size_t used;

	if (part->length < 4 || part->text[0] != 't')
		return false;
	used = read_number(part->text + 1, part->length - 1, &backend);
	return used > 0 && used + 2 < part->length && part->text[used + 1] == '_';
}

static FilePlace
place_of(FileClass class)
{
	FilePlace place;

	memset(&place, 0, sizeof(place));
	place.class = class;
	return place;
}

/* A file in a directory that holds relations. */
static FilePlace
in_relation_directory(const Part *name, uint32_t tablespace, uint32_t database)
{
	FilePlace place = place_of(FILE_RELATION);

	if (relation_name(name, &place))
	{
		place.id.tablespace = tablespace;
		place.id.database = database;
		return place;
	}
	if (temp_relation_name(name))
		return place_of(FILE_TEMP_RELATION);
	return place_of(FILE_OTHER);
}

static bool
hex_digits(const char *text, uint32_t *number_out)
{
	*number_out = 0;
	for (int i = 0; i < 8; i++)
	{
		const char *digits = "0123456789ABCDEF";
		const char *digit = text[i] == '\0' ? NULL : strchr(digits, text[i]);

		if (digit == NULL)
			return false;
		*number_out = *number_out << 4 | (uint32_t) (digit - digits);
	}
	return true;
}

/*
 * TIMELINE, LOG, SEGMENT, of 8 digits each; xlogtemp.PID becomes one of these.
 */
static FilePlace
in_wal(const Parts *parts)
{
	const Part *name = &parts->part[1];
	FilePlace place = place_of(FILE_WAL);
	uint32_t timeline;
	uint32_t low;

	FC_ASSERT(parts->count > 0);
	if (parts->count != 2)
		return place_of(FILE_OTHER);
	if (name->length > 9 && memcmp(name->text, "xlogtemp.", 9) == 0)
		return place_of(FILE_WAL_INIT);
	if (name->length == 24 && hex_digits(name->text, &timeline) &&
	    hex_digits(name->text + 8, &place.id.relation) &&
	    hex_digits(name->text + 16, &low) && low < FC_SEGMENTS_MAX)
	{
		place.id.segment = low & (FC_SEGMENTS_MAX - 1);
		return place;
	}
	return place_of(FILE_OTHER);
}

/* Classify a path below base/ or below pg_tblspc/SPACE/PG_version/. */
static FilePlace
in_database_tree(const Parts *parts, unsigned first, uint32_t tablespace)
{
	unsigned left = parts->count - first;
	uint32_t database;

	FC_ASSERT(first <= parts->count);
	if (left == 0)
		return place_of(FILE_DATA_DIRECTORY);
	if (part_is(&parts->part[first], "pgsql_tmp"))
		return place_of(FILE_TEMPORARY);
	if (!part_number(&parts->part[first], &database))
		return place_of(FILE_OTHER);
	if (left == 1)
		return place_of(FILE_DATA_DIRECTORY);
	if (left == 2)
		return in_relation_directory(&parts->part[first + 1], tablespace,
		                             database);
	return place_of(FILE_OTHER);
}

static FilePlace
in_tablespaces(const PathsRoot *root, const Parts *parts)
{
	uint32_t tablespace;

	FC_ASSERT(parts->count > 0);
	if (parts->count == 1)
		return place_of(FILE_DATA_DIRECTORY);
	if (!part_number(&parts->part[1], &tablespace))
		return place_of(FILE_OTHER);
	if (parts->count == 2)
		return place_of(FILE_DATA_DIRECTORY);

	/* Another major version's directory in a shared tablespace is not ours. */
	if (!part_is(&parts->part[2], root->version_directory))
		return place_of(FILE_OTHER);
	return in_database_tree(parts, 3, tablespace);
}

/* A file under a foreign name: only its own part of it can say what it is. */
static FilePlace
by_name(const Parts *parts)
{
	FilePlace place = place_of(FILE_ALIAS);

	FC_ASSERT(parts->count > 0);
	return relation_name(&parts->part[parts->count - 1], &place)
	           ? place
	           : place_of(FILE_OTHER);
}

/*
 * Say if the path names a tablespace's directory by its real name, not by that
 * of its link.
 */
static bool
in_real_tablespace(const PathsRoot *root, const Parts *parts)
{
	uint32_t link;

	for (unsigned i = 0; i < parts->count; i++)
	{
		if (part_is(&parts->part[i], root->version_directory))
			return i != 2 || !part_is(&parts->part[0], "pg_tblspc") ||
			       !part_number(&parts->part[1], &link);
	}
	return false;
}

static FilePlace
in_data_directory(const PathsRoot *root, const Parts *parts)
{
	static const char *const slru[] = { "pg_xact",     "pg_multixact",
		                                "pg_subtrans", "pg_serial",
		                                "pg_notify",   "pg_commit_ts" };
	const Part *top = &parts->part[0];

	if (parts->count == 0)
		return place_of(FILE_DATA_DIRECTORY);

	/* CREATE TABLESPACE only warns of a location below the data directory. */
	if (parts->too_many || in_real_tablespace(root, parts))
		return by_name(parts);

	if (part_is(top, "base"))
		return in_database_tree(parts, 1, TABLESPACE_DEFAULT);

	if (part_is(top, "global"))
	{
		if (parts->count == 1)
			return place_of(FILE_DATA_DIRECTORY);
		if (parts->count != 2)
			return place_of(FILE_OTHER);
		if (part_is(&parts->part[1], "pg_control"))
			return place_of(FILE_CONTROL);
		return in_relation_directory(&parts->part[1], TABLESPACE_GLOBAL, 0);
	}

	if (part_is(top, "pg_tblspc"))
		return in_tablespaces(root, parts);

	if (part_is(top, "pg_wal"))
		return in_wal(parts);

	for (size_t i = 0; i < sizeof(slru) / sizeof(slru[0]); i++)
	{
		if (part_is(top, slru[i]))
			return place_of(FILE_SLRU);
	}

	return place_of(FILE_OTHER);
}

/* The part of the path below the directory, or NULL if it is not below it. */
static const char *
below(const char *path, const char *directory)
{
	size_t length = strlen(directory);

	if (length == 0 || strncmp(path, directory, length) != 0)
		return NULL;
	if (path[length] != '/' && path[length] != '\0')
		return NULL;
	return path + length;
}

static FilePlace
outside(const Parts *parts, bool regular)
{
	if (parts->count == 0)
		return place_of(FILE_DATA_DIRECTORY);

	/*
	 * Devices, pipes and the kernel's own files: /dev/pts/0 is not a relation.
	 */
	if (!regular &&
	    (part_is(&parts->part[0], "dev") || part_is(&parts->part[0], "proc") ||
	     part_is(&parts->part[0], "sys")))
		return place_of(FILE_DEVICE);
	return by_name(parts);
}

static FilePlace
classify(const PathsRoot *root, const char *path, bool regular)
{
	Parts parts;

	if (path[0] == '/')
	{
		const char *rest = below(path, root->directory);

		if (rest == NULL)
			rest = below(path, root->real_directory);
		if (rest == NULL)
		{
			parts = split(path);
			return parts.climbs ? place_of(FILE_ALIAS)
			                    : outside(&parts, regular);
		}
		path = rest;
	}

	parts = split(path);
	if (parts.climbs)
		return place_of(FILE_ALIAS);
	return in_data_directory(root, &parts);
}

FilePlace
paths_classify(const PathsRoot *root, const char *path)
{
	return classify(root, path, false);
}

FilePlace
paths_classify_regular(const PathsRoot *root, const char *path)
{
	return classify(root, path, true);
}

const char *
paths_fork_name(uint32_t fork)
{
	return fork < PATHS_FORKS ? fork_names[fork] : "?";
}

void
paths_of_file(const PathsRoot *root, FcFileId id, char *buffer)
{
	char directory[PATHS_MAX / 2];
	char fork[16] = "";
	char suffix[16] = "";

	FC_ASSERT(id.relation != 0 && id.segment < FC_SEGMENTS_MAX);
	if (id.tablespace == TABLESPACE_GLOBAL)
		snprintf(directory, sizeof(directory), "global");
	else if (id.tablespace == TABLESPACE_DEFAULT)
		snprintf(directory, sizeof(directory), "base/%u", id.database);
	else
		snprintf(directory, sizeof(directory), "pg_tblspc/%u/%s/%u",
		         id.tablespace, root->version_directory, id.database);

	if (id.fork != 0)
		snprintf(fork, sizeof(fork), "_%s", paths_fork_name(id.fork));
	if (id.segment > 0)
		snprintf(suffix, sizeof(suffix), ".%u", id.segment);

	snprintf(buffer, PATHS_MAX, "%s/%u%s%s", directory, id.relation, fork,
	         suffix);
}
