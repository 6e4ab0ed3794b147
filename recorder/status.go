package recorder

import "sync/atomic"

type counts struct {
	captures, revisits, others, truncated, incomplete, failures, lost, lostRecords atomic.Int64
	received, written, pauses, damaged, unstorable, crowded, slow                  atomic.Int64
}

// A Status is a snapshot of a recorder's work.
type Status struct {
	Responses     int64 // response records written
	Revisits      int64 // revisit records written
	Others        int64 // further records: resource, metadata
	Truncated     int64 // of the former: with WARC-Truncated, for whatever reason
	Incomplete    int64 // of the former: cut by the recorder, by a limit or for want of time or disk
	Failures      int64 // exchanges that gave no response …
	Unstorable    int64 // … of them were refused because the archive could not be written to, or the disk was nearly full
	Crowded       int64 // … of them were refused because too much was under way: altogether, for the client, or with the origin
	Lost          int64 // exchanges whose client got a response that could not be recorded
	LostRecords   int64 // other records that could not be written: of look-ups, failures, bad replies
	Received      int64 // octets of responses, heads included
	Written       int64 // bytes of records on disk
	InFlight      int   // exchanges under way
	Long          int   // long ones, WebSockets, and recorded responses that clients still read
	SlowClients   int64 // clients that were cut because they read a recorded response too slowly, and others needed the room
	Waiting       int64 // captures that cannot be appended for now, and that a kill would end …
	WaitingOctets int64 // … and octets of the blocks of their records
	SpoolMemory   int64 // bytes in memory until they are in the archive
	SpoolDisk     int64 // bytes in temporary files
	Free          int64 // bytes of disk that are left if all of that is appended; -1: unknown
	Files         int64 // files started
	Damaged       int64 // of them could not be kept whole under their names
	File          string
	Pauses        int64 // how often nothing was admitted because of the disk
	Unavailable   error // why nothing is recorded, for now or for good, or nil
	Stopped       bool  // it is for good
	NoRoom        error // why no exchange is admitted until some that are under way end, or nil
}

// Status returns a snapshot.
func (r *Recorder) Status() Status {
	free := int64(-1)
	if r.space.looked.Load() {
		free = max(0, r.space.available())
	}
	return Status{
		Responses:     r.counts.captures.Load(),
		Revisits:      r.counts.revisits.Load(),
		Others:        r.counts.others.Load(),
		Truncated:     r.counts.truncated.Load(),
		Incomplete:    r.counts.incomplete.Load(),
		Unstorable:    r.counts.unstorable.Load(), // before the next, which includes it
		Failures:      r.counts.failures.Load(),
		Crowded:       r.counts.crowded.Load(),
		SlowClients:   r.counts.slow.Load(),
		NoRoom:        r.space.crowded(),
		Lost:          r.counts.lost.Load(),
		LostRecords:   r.counts.lostRecords.Load(),
		Received:      r.counts.received.Load(),
		Written:       r.counts.written.Load(),
		InFlight:      r.short.used(),
		Long:          r.long.used(),
		Waiting:       r.writer.behind.Load(),
		WaitingOctets: r.writer.octets.Load(),
		SpoolMemory:   r.space.memory.Load() + r.space.heads.Load(),
		SpoolDisk:     r.space.disk.Load(),
		Free:          free,
		Files:         r.writer.files.Load(),
		Damaged:       r.counts.damaged.Load(),
		File:          r.writer.currentName(),
		Pauses:        r.counts.pauses.Load(),
		Unavailable:   r.Err(),
		Stopped:       r.hasStopped(),
	}
}

func (r *Recorder) hasStopped() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.still.stopped != nil
}
