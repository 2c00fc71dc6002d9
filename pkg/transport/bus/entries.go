package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard/switchyard/internal/pause"
)

// Entries reads the newest entry of each key that a bucket has, by key. A watcher's first
// round leaves out keys that are written while it reads, so Entries reads on until it has as
// many as the server counts, or ctx ends.
func Entries(ctx context.Context, kv jetstream.KeyValue) (map[string]jetstream.KeyValueEntry, error) {
	seen := map[string]jetstream.KeyValueEntry{}
	for {
		if err := readRound(ctx, kv, seen); err != nil {
			return nil, fmt.Errorf("reading bucket %s: %w", kv.Bucket(), err)
		}
		state, err := stateOf(ctx, kv)
		if err != nil {
			return nil, err
		}
		if uint64(len(seen)) >= state.NumSubjects {
			break
		}
		if err := pause.For(ctx, betweenRounds); err != nil {
			return nil, fmt.Errorf("reading bucket %s: it has %d keys, of which %d came: %w", kv.Bucket(), state.NumSubjects, len(seen), err)
		}
	}
	for key, e := range seen {
		if e.Operation() != jetstream.KeyValuePut {
			delete(seen, key)
		}
	}
	return seen, nil
}

// betweenRounds keeps a bucket whose keys are written all the time from being asked without a pause.
const betweenRounds = 5 * time.Millisecond

// readRound adds to seen what one watcher tells of the bucket, deletions too.
func readRound(ctx context.Context, kv jetstream.KeyValue, seen map[string]jetstream.KeyValueEntry) error {
	watcher, err := kv.WatchAll(ctx)
	if err != nil {
		return err
	}
	defer func() {
		if watcher.Stop() == nil { // its connection lives
			for range watcher.Updates() { // until it is closed: else a full channel holds its goroutine for good
			}
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case entry, open := <-watcher.Updates():
			switch {
			case !open:
				return errors.New("the server ended the watch")
			case entry == nil:
				return nil
			}
			seen[entry.Key()] = entry
		}
	}
}
