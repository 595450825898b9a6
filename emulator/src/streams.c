/*
 * streams.c
 *		Does a request continue a stream?  See streams.h.
 *
 * A request that is close ahead of a stream always advances that stream, but
 * only an exact step, a large request or a step of an established stream skips
 * the positioning.  So random requests start streams all the time, which are
 * soon replaced: a file has at most four, and eight small steps in a row do not
 * happen by chance.
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
 * The place for a new stream: the file's oldest one if the file has its share,
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

/* Note a request with this process's streams; returns its stream. */
static EmStream *
note(EmStreams *streams, EmRequest *request, bool writes)
{
	EmStream *stream = find(streams, request->file, request->offset, writes);

	request->continues = false;
	request->gap_bytes = 0;
	request->paid_bytes = 0;
	if (stream != NULL)
	{
		uint64_t gap = request->offset - stream->next_offset;

		request->continues = gap == 0 ||
		                     request->bytes >= EM_STREAM_LARGE_BYTES ||
		                     stream->steps >= EM_STREAM_ESTABLISHED_AT;
		if (request->continues)
			request->gap_bytes = gap;
		stream->steps++;
	}
	else
	{
		stream = place(streams, request->file);
		stream->file = request->file;
		stream->writes = writes;
		stream->steps = 0;
		stream->read_bytes = 0;
	}

	stream->next_offset = request->offset + request->bytes;
	stream->read_bytes += request->bytes;
	stream->used_at = ++streams->clock;
	return stream;
}

/* Count the reads of a scan that this process has made in succession. */
static void
count_scanned(EmStreams *streams, uint64_t file, bool of_scan)
{
	bool same = streams->scanned_file == file;

	if (of_scan)
	{
		streams->scanned_reads = same ? streams->scanned_reads + 1 : 1;
		streams->scanned_file = file;
	}
	else if (same)
		streams->scanned_reads = 0;
}

/*
 * A read that is near a scan by chance must not advance it: it would make other
 * random reads cheap, and these still others.  So a process takes part in a
 * scan only after several reads of it.  From then on its jumps to the next
 * piece belong to the scan, too, even a jump that is too far to be free.
 */
void
em_streams_note(EmStreams *streams, EmScans *scans, EmRequest *request,
                bool writes)
{
	EmStream *stream = note(streams, request, writes);
	bool takes_part = streams->scanned_file == request->file &&
	                  streams->scanned_reads >= EM_STREAM_SCANS_AT;
	bool scan_alone =
		request->continues && stream->read_bytes >= EM_STREAM_SCAN_BYTES;
	bool of_scan;
	uint64_t gap_bytes = 0;

	if (writes)
		return;

	of_scan = scan_alone || em_scans_near(scans, request, &gap_bytes);
	if (takes_part && !request->continues)
		request->gap_bytes = gap_bytes;
	if (of_scan || takes_part)
		em_scans_note(scans, request, scan_alone || takes_part);
	if (of_scan)
	{
		request->continues = true;
		stream->read_bytes = EM_STREAM_SCAN_BYTES;
	}
	count_scanned(streams, request->file, of_scan);
}
