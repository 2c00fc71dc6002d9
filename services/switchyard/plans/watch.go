package plans

import (
	"context"
	"io"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard/switchyard/internal/pause"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/schemas"
	"github.com/switchyard/switchyard/services/switchyard/terminal"
)

// Watch is what `plan watch` does.
type Watch struct {
	Conn  *bus.Conn
	KV    jetstream.KeyValue
	Model string
	// Names are of the model's buckets.
	Names schemas.Streams
	// Patience is how long reading may fail.
	Patience time.Duration
	JSON     bool
}

const (
	// lookAgain is how often a watch looks though it has heard of nothing: what
	// is written while the connection is away is not heard.
	lookAgain = 5 * time.Second
	// gather lets what is written together be read together.
	gather = 50 * time.Millisecond
	// readWithin bounds one look.
	readWithin = 5 * time.Second
	// retry is the pause after a look that failed.
	retry = 500 * time.Millisecond
)

// change is a line of `plan watch --json`: settings, who plans, or a layer, that are new.
type change struct {
	Time     time.Time `json:"time"`
	Settings *Settings `json:"settings,omitempty"`
	Here     *Here     `json:"here,omitempty"`
	Layer    *Layer    `json:"layer,omitempty"`
}

// Run writes what there is, and then each change as it comes, until ctx ends.
func (w Watch) Run(ctx context.Context, out io.Writer) error {
	heard := make(chan struct{}, 1)
	stop, err := w.Conn.FollowKeys(w.KV.Bucket(), ">", func(string, []byte, bool) {
		pause.Wake(heard)
	})
	if err != nil {
		return err
	}
	defer stop()
	p := printer{out, w.JSON}
	var before *State
	for worked := time.Now(); ; {
		now, err := w.read(ctx)
		wait := lookAgain
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			if err := p.changes(before, now); err != nil {
				return err
			}
			before, worked = now, time.Now()
		case time.Since(worked) >= w.Patience:
			return err
		default:
			wait = retry
		}
		if !await(ctx, heard, wait) {
			return nil
		}
	}
}

func (w Watch) read(ctx context.Context) (*State, error) {
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	return ReadAll(ctx, w.Conn.JetStream(), w.KV, w.Names)
}

// await waits until something is heard, or for so long; false: ctx has ended.
func await(ctx context.Context, heard <-chan struct{}, wait time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-heard:
		return pause.For(ctx, gather) == nil
	case <-time.After(wait):
		return true
	}
}

// changes writes what is new.
func (p printer) changes(before, now *State) error {
	at := time.Now()
	clock := at.Format(time.TimeOnly) + "  "
	if before == nil || before.Settings != now.Settings {
		if err := p.write(change{Time: at.UTC(), Settings: &now.Settings}, clock+"settings: "+now.Settings.Text()+"\n"); err != nil {
			return err
		}
	}
	if before == nil || !reflect.DeepEqual(before.Here, now.Here) {
		if err := p.write(change{Time: at.UTC(), Here: &now.Here}, clock+terminal.Clean(now.Here.Text())+"\n"); err != nil {
			return err
		}
	}
	old := map[int]Layer{}
	if before != nil {
		for _, l := range before.Layers {
			old[l.Layer] = l
		}
	}
	for _, l := range now.Layers {
		there, was := old[l.Layer]
		delete(old, l.Layer)
		if was && reflect.DeepEqual(there, l) {
			continue
		}
		if err := p.write(change{Time: at.UTC(), Layer: &l}, clock+l.Text()+"\n"); err != nil {
			return err
		}
	}
	return p.gone(at, old)
}

// gone writes which layers have no plan any more.
func (p printer) gone(at time.Time, layers map[int]Layer) error {
	for _, number := range slices.Sorted(maps.Keys(layers)) {
		l := Layer{Layer: number, Error: "deleted"}
		if err := p.write(change{Time: at.UTC(), Layer: &l}, at.Format(time.TimeOnly)+"  "+l.Text()+"\n"); err != nil {
			return err
		}
	}
	return nil
}
