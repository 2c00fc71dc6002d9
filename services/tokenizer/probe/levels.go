package probe

import (
	"sync"
	"time"

	"github.com/switchyard/switchyard/pkg/transport/bus"
)

const (
	// warnShare of a stream's bound is worth a line in the log, at most one in warnEvery.
	warnShare = 0.8
	warnEvery = time.Minute
)

// cures say what to do about a stream that is nearly full, by its kind.
var cures = map[string]string{
	"prompt":   "prompts come faster than they are taken: start more tokenizers, or attention replicas",
	"sequence": "many requests wait, or long ones: start more attention replicas, or lower --max-queued",
	"token":    "records leave it with their age: raise --log-bytes, shorten --log-age, or ask for fewer scores and logprobs",
	"dlq":      "the oldest go for new ones: switchyard dlq shows why there are so many, and drops them",
	"bucket":   "services write few keys there and renew them: see whose the others are (nats kv ls)",
}

// Cure is what to do about a stream of a kind that is nearly full.
func Cure(kind string) string { return cures[kind] }

// Levels say how full the durable streams are.
type Levels struct {
	mu     sync.Mutex
	seen   map[string]Level // by stream
	warned map[string]time.Time
}

// Level is how full a stream was seen to be.
type Level struct {
	Stream, Kind string
	Bytes, Bound int64 // Bound 0: none, or it is not known
	Share        float64
	How          string // how full, in words
	At           time.Time
}

// Set takes in what a stream holds, and reports whether that is worth a warning.
func (l *Levels) Set(stream, kind string, s bus.StreamState, now time.Time) (seen Level, warn bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.seen == nil {
		l.seen, l.warned = map[string]Level{}, map[string]time.Time{}
	}
	seen = Level{Stream: stream, Kind: kind, Bytes: int64(s.Bytes), Bound: max(0, s.MaxBytes), At: now}
	seen.Share, seen.How = s.Fill()
	l.seen[stream] = seen
	warn = seen.Share >= warnShare && now.Sub(l.warned[stream]) >= warnEvery
	if warn {
		l.warned[stream] = now
	}
	return seen, warn
}

// Shares are the shares of their bounds that streams hold, unless the last look
// at one is too old to tell.
func (l *Levels) Shares() map[string]float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := map[string]float64{}
	for _, seen := range l.seen {
		if time.Since(seen.At) < 3*lookEvery {
			out[seen.Kind] = seen.Share
		}
	}
	return out
}

// Of is a stream's level at the last look.
func (l *Levels) Of(stream string) Level {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seen[stream]
}
