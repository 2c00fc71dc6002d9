package bus

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrReplaced says that a stream is not the one that a Place belongs to: it was
// deleted and made again, or it has lost its end.
var ErrReplaced = errors.New("the stream was made anew")

// Place is where somebody stopped reading a stream.
type Place struct {
	// Incarnation tells a stream from one of the same name that was there
	// before; 0: whichever there is.
	Incarnation uint64
	// Sequence is that of the last message read; 0: none.
	Sequence uint64
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

// Holds says whether a place is one of this stream.
func (s StreamState) Holds(p Place) bool {
	return (p.Incarnation == 0 || p.Incarnation == s.Incarnation) && p.Sequence <= s.Last
}
