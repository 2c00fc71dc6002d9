package bus

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard/switchyard/schemas"
)

// create makes a stream that was missing, and notes that this connection has made it.
func (c *Conn) create(ctx context.Context, cfg jetstream.StreamConfig) (jetstream.Stream, error) {
	stream, err := c.js.CreateStream(ctx, cfg)
	if err == nil {
		c.mu.Lock()
		c.made = append(c.made, cfg.Name)
		c.mu.Unlock()
	}
	return stream, err
}

// unmake deletes the streams that this connection has made, and names those that are still
// there. One that somebody uses stays: a sibling that makes the same stream at the same
// moment takes it for its own.
func (c *Conn) unmake(ctx context.Context) (left []string) {
	c.mu.Lock()
	names := c.made
	c.made = nil
	c.mu.Unlock()
	for _, name := range slices.Backward(names) {
		if err := c.deleteUnused(ctx, name); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
			left = append(left, name)
		}
	}
	return left
}

var errUsed = errors.New("somebody uses it")

func (c *Conn) deleteUnused(ctx context.Context, name string) error {
	stream, err := c.js.Stream(ctx, name)
	if err != nil {
		return err
	}
	if state := stream.CachedInfo().State; state.LastSeq > 0 || state.Consumers > 0 {
		return errUsed
	}
	return c.js.DeleteStream(ctx, name)
}

// Model is whose streams somebody makes.
type Model struct {
	Streams   schemas.Streams
	MoELayers []int
}

// explainWithin bounds the removal of what was made for models that do not fit, and the
// search for how much room there is.
const explainWithin = 20 * time.Second

// NoRoom makes of a server's refusal to make one of the streams of models a *RoomError, and
// removes those of them that this connection has made: all of a model's are there, or none
// is left behind. Other errors stay as they are.
func (c *Conn) NoRoom(ctx context.Context, err error, models ...Model) error {
	refusal, memory := noStorage(err)
	if refusal == nil || len(models) == 0 {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, explainWithin)
	defer cancel()
	if refusal.ErrorCode == codeNoPeers { // which does not say of what: files are made first
		memory = c.hasFiles(ctx, models)
	}
	e := &RoomError{Memory: memory, Left: c.unmake(ctx), Err: refusal}
	for _, m := range models {
		room := m.Streams.Room(m.MoELayers)
		e.Models = append(e.Models, m.Streams.Subjects.Model)
		e.Needs += pick(memory, room.Memory, room.File)
		e.LogBytes += m.Streams.Tokens().MaxBytes
		e.There += c.taken(ctx, m, memory)
	}
	trial := models[0].Streams.Trial()
	trial.Memory = memory
	c.measure(ctx, trial, e)
	return e
}

// hasFiles reports whether all file streams of models are there.
func (c *Conn) hasFiles(ctx context.Context, models []Model) bool {
	return !slices.ContainsFunc(models, func(m Model) bool {
		return c.taken(ctx, m, false) < m.Streams.Room(m.MoELayers).File
	})
}

// taken is what those streams of a model take that are there already.
func (c *Conn) taken(ctx context.Context, m Model, memory bool) (bytes int64) {
	for _, name := range m.Streams.All(m.MoELayers) {
		stream, err := c.js.Stream(ctx, name)
		if err != nil {
			continue // it is not there, or not to be seen
		}
		if cfg := stream.CachedInfo().Config; (cfg.Storage == jetstream.MemoryStorage) == memory {
			bytes += max(0, cfg.MaxBytes)
		}
	}
	return bytes
}

func pick(memory bool, ofMemory, ofFile int64) int64 {
	if memory {
		return ofMemory
	}
	return ofFile
}

// measure finds how much room there is. A server does not say what its limit is but to its
// own operators: so what is free is found with a stream that takes it and is deleted at once.
func (c *Conn) measure(ctx context.Context, trial schemas.StreamSpec, e *RoomError) {
	e.Limit, e.Free, e.Held = -1, -1, -1
	info, err := c.js.AccountInfo(ctx)
	if err != nil {
		return
	}
	e.Limit = pick(e.Memory, info.Limits.MaxMemory, info.Limits.MaxStore)
	if c.Clustered() { // each server has room of its own, for one copy
		e.Held = c.held(ctx, e.Memory) - e.There
		return
	}
	e.Held = pick(e.Memory, int64(info.ReservedMemory), int64(info.ReservedStore)) - e.There //nolint:gosec // sums of bounds that are int64
	free, err := largest(e.Needs-e.There, func(bytes int64) (bool, error) { return c.fits(ctx, trial, bytes) })
	if err == nil {
		e.Free = free
	}
}

// held is what one copy of all streams of the account takes.
func (c *Conn) held(ctx context.Context, memory bool) (bytes int64) {
	for info := range c.js.ListStreams(ctx).Info() {
		if (info.Config.Storage == jetstream.MemoryStorage) == memory {
			bytes += max(0, info.Config.MaxBytes)
		}
	}
	return bytes
}

// A server may still be busy with the trial before, whose name is the same.
const (
	mostTrials = 3
	trialPause = 100 * time.Millisecond
)

// fits reports whether a server makes a stream of so many bytes.
func (c *Conn) fits(ctx context.Context, trial schemas.StreamSpec, bytes int64) (ok bool, err error) {
	trial.MaxBytes = bytes
	for range mostTrials {
		if ok, err = c.try(ctx, trial); err == nil {
			return ok, nil
		}
		select {
		case <-ctx.Done():
			return false, err
		case <-time.After(trialPause):
		}
		_ = c.js.DeleteStream(ctx, trial.Name) // it may be there, or not
	}
	return false, err
}

func (c *Conn) try(ctx context.Context, trial schemas.StreamSpec) (bool, error) {
	_, err := c.js.CreateStream(ctx, streamConfig(trial, 1))
	if refusal, _ := noStorage(err); refusal != nil {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, c.js.DeleteStream(ctx, trial.Name)
}

// roomStep is how exactly free room is found.
const roomStep = 1 << 20

// largest is the most of a need, in steps, that fits.
func largest(need int64, fits func(bytes int64) (bool, error)) (int64, error) {
	low, high := int64(0), need/roomStep+1 // low fits, high does not
	for high-low > 1 {
		middle := low + (high-low)/2
		ok, err := fits(middle * roomStep)
		if err != nil {
			return 0, err
		}
		if ok {
			low = middle
		} else {
			high = middle
		}
	}
	return low * roomStep, nil
}

// noStorage is a server's refusal for lack of storage, and of which; nil if it is none.
func noStorage(err error) (refusal *jetstream.APIError, memory bool) {
	if !errors.As(err, &refusal) || refusal.ErrorCode != codeNoStorage && refusal.ErrorCode != codeNoMemory && !littleOnAll(refusal) {
		return nil, false
	}
	return refusal, refusal.ErrorCode == codeNoMemory
}

// littleOnAll reports whether no server of a cluster that is whole has enough storage for a
// stream, as far as the others know: a server that has just come has not told them yet.
func littleOnAll(e *jetstream.APIError) bool {
	return e.ErrorCode == codeNoPeers && strings.Contains(e.Description, "insufficient storage") && !strings.Contains(e.Description, "offline")
}
