package bus

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrReplaced says that a stream is not the one that a Place belongs to: it was
// deleted and made again, or it is a LostEndError.
var ErrReplaced = errors.New("the stream was made anew")

// LostEndError says that a stream has lost what was read of it last, as when a disk spoils what a
// server had acknowledged. Numbers of lost messages are given again, to others.
type LostEndError struct {
	Stream string
	Read   Place // of the last message that was read
	// Left is where to go on from: nothing behind it was read before. It is the stream's beginning
	// where nobody knows better.
	Left Place
}

// Error says what is gone.
func (e *LostEndError) Error() string {
	return fmt.Sprintf("stream %s has lost its end: message %d of it was read, and it goes on behind %d", e.Stream, e.Read.Sequence, e.Left.Sequence)
}

// Is has who begins again in a stream that was made anew do so in this one, too.
func (e *LostEndError) Is(target error) bool { return target == ErrReplaced }

// Place is where somebody stopped reading a stream.
type Place struct {
	// Incarnation tells a stream from one of the same name that was there
	// before; 0: whichever there is.
	Incarnation uint64
	// Sequence is that of the last message read; 0: none.
	Sequence uint64
	// Time is the latest at which a message up to there was stored, for who knows it: those of a stream that
	// has lost its end have the same numbers and are later.
	Time time.Time
}

// in reports whether a stream has a place, and behind which its first message that is later comes as number next; 0: there
// is none, or it was not looked for.
func (p Place) in(s StreamState, stream string, next uint64) error {
	switch {
	case p.Incarnation != 0 && p.Incarnation != s.Incarnation:
		return ErrReplaced
	case !s.Holds(p) || next != 0 && next <= p.Sequence:
		return p.lost(s, stream, next)
	}
	return nil
}

// Missing says why a stream does not have a place, by its state alone; nil: it has.
func (p Place) Missing(s StreamState, stream string) error { return p.in(s, stream, 0) }

// lost is a LostEndError for a place of a stream whose first message behind the place's time is number next;
// 0: there is none, or it is not known.
func (p Place) lost(s StreamState, stream string, next uint64) *LostEndError {
	e := &LostEndError{Stream: stream, Read: p, Left: Place{Incarnation: s.Incarnation, Time: p.Time}}
	switch {
	case next > 0:
		e.Left.Sequence = next - 1
	case !p.Time.IsZero():
		e.Left.Sequence = s.Last
	}
	return e
}

// Overtaken is a LostEndError for a message that came in place of one which was read at this place, or before;
// nil: it is an older one.
func (p Place) Overtaken(stream string, m Stored) error {
	if p.Time.IsZero() || m.Sequence > p.Sequence || !m.Time.After(p.Time) {
		return nil
	}
	return p.lost(StreamState{Incarnation: m.Incarnation}, stream, m.Sequence)
}

// Behind is a place behind a message that came next.
func (p Place) Behind(m Stored) Place {
	if m.Time.Before(p.Time) { // clocks of a cluster's servers differ
		m.Time = p.Time
	}
	return Place{Incarnation: m.Incarnation, Sequence: m.Sequence, Time: m.Time}
}

// StreamState is what a stream's leader says of it.
type StreamState struct {
	Incarnation uint64
	First, Last uint64 // sequences
	Bytes       uint64
	MaxBytes    int64 // -1: no bound
	Messages    uint64
	MaxMessages int64 // -1: no bound
	// Time is what the leader's clock showed.
	Time time.Time
}

// Fill is the larger share of a stream's bounds, in bytes and in messages, that it
// holds, and says so in words; 0 without a bound.
func (s StreamState) Fill() (share float64, how string) {
	if s.MaxBytes > 0 {
		share, how = float64(s.Bytes)/float64(s.MaxBytes), fmt.Sprintf("%d of its %d bytes", s.Bytes, s.MaxBytes)
	}
	if s.MaxMessages > 0 && float64(s.Messages)/float64(s.MaxMessages) > share {
		return float64(s.Messages) / float64(s.MaxMessages), fmt.Sprintf("%d of its %d messages", s.Messages, s.MaxMessages)
	}
	return share, how
}

// stateWithin bounds one question for a stream's state.
const stateWithin = 2 * time.Second

// State asks for a stream's state once; a stream that is not there is
// jetstream.ErrStreamNotFound.
func (c *Conn) State(ctx context.Context, stream string) (StreamState, error) {
	ctx, cancel := context.WithTimeout(ctx, stateWithin)
	defer cancel()
	s, err := c.js.Stream(ctx, stream)
	if err != nil {
		return StreamState{}, fmt.Errorf("looking at stream %s: %w", stream, err)
	}
	info := s.CachedInfo()
	return StreamState{
		Incarnation: uint64(info.Created.UnixNano()), First: info.State.FirstSeq, Last: info.State.LastSeq,
		Bytes: info.State.Bytes, MaxBytes: info.Config.MaxBytes,
		Messages: info.State.Msgs, MaxMessages: info.Config.MaxMsgs, Time: info.TimeStamp,
	}, nil
}

// SettlesWithin bounds how long a server of a cluster may take itself for a
// stream's leader without the others, or have a message on its way to them: ten
// seconds, and a little more. What such a server does not have may be there.
const SettlesWithin = 15 * time.Second

// Holds reports whether a place is one of this stream.
func (s StreamState) Holds(p Place) bool {
	return (p.Incarnation == 0 || p.Incarnation == s.Incarnation) && p.Sequence <= s.Last
}
