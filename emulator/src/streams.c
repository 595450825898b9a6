/*
 * streams.c
 *		Does a request continue what this process did before?  See streams.h.
 *
 * A request that is close ahead of a stream always moves that stream, but only
 * an exact step, a large one or one of an established stream is free.  So
 * random requests start streams all the time, and lose them again: a file has
 * at most four, and eight small steps in a row do not happen by chance.
 */
/* SPDX-License-Identifier: PostgreSQL */
#include "streams.h"

#include <stddef.h>

/* The stream that this request is closest ahead of, or NULL. */
static EmStream *
find(EmStreams *streams, uint64_t file, uint64_t offset, bool writes)
{
	EmStream *closest = NULL;

	for (int i = 0; i < EM_STREAM_COUNT; i++)
	{
		EmStream *stream = &streams->stream[i];

		if (stream->file != file || stream->writes != writes ||
		    offset < stream->next_offset ||
		    offset - stream->next_offset > EM_STREAM_GAP_BYTES)
			continue;

		if (closest == NULL || stream->next_offset > closest->next_offset)
			closest = stream;
	}

	return closest;
}

/*
 * The place for a new stream: the file's oldest if the file has its share,
 * else the oldest of all.
 */
static EmStream *
place(EmStreams *streams, uint64_t file)
{
	EmStream *oldest = &streams->stream[0];
	EmStream *oldest_of_file = NULL;
	int count = 0;

	for (int i = 0; i < EM_STREAM_COUNT; i++)
	{
		EmStream *stream = &streams->stream[i];

		if (stream->used_at < oldest->used_at)
			oldest = stream;
		if (stream->file != file)
			continue;
		count++;
		if (oldest_of_file == NULL || stream->used_at < oldest_of_file->used_at)
			oldest_of_file = stream;
	}

	return count >= EM_STREAMS_PER_FILE ? oldest_of_file : oldest;
}

bool
em_streams_note(EmStreams *streams, uint64_t file, uint64_t offset,
                uint64_t bytes, bool writes, uint64_t *gap_bytes)
{
	EmStream *stream = find(streams, file, offset, writes);
	bool continues = false;

	*gap_bytes = 0;
	if (stream != NULL)
	{
		uint64_t gap = offset - stream->next_offset;

		continues = gap == 0 || bytes >= EM_STREAM_LARGE_BYTES ||
		            stream->steps >= EM_STREAM_ESTABLISHED_AT;
		if (continues)
			*gap_bytes = gap;
		stream->steps++;
	}
	else
	{
		stream = place(streams, file);
		stream->file = file;
		stream->writes = writes;
		stream->steps = 0;
	}

	stream->next_offset = offset + bytes;
	stream->used_at = ++streams->clock;
	return continues;
}
