package kafka

import (
	"log/slog"
	"sync"
	"time"
)

// refusals tells of samples that are refused: of the first one, and then now and
// then of one for all of them, which may be many.
type refusals struct {
	log   *slog.Logger
	topic string

	mu    sync.Mutex
	last  time.Time
	since int // then
}

// tellEvery is the least time between two lines in the log.
const tellEvery = time.Minute

func (r *refusals) add(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.since++
	now := time.Now()
	if !r.last.IsZero() && now.Sub(r.last) < tellEvery {
		return
	}
	r.log.Warn("Kafka: a load sample was refused; others count as before", "error", err, "refused", r.since, "topic", r.topic,
		"cure", "look who writes to the topic: another release, another model, or a client that should not (kafka-acls --list)")
	r.last, r.since = now, 0
}
