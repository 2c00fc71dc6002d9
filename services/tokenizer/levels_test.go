package tokenizer

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/schemas"
	"github.com/switchyard/switchyard/services/tokenizer/probe"
)

// A stream's warning comes from four fifths on, once a minute; from nine tenths on
// what needs room there is refused with what to do.
func TestLevels(t *testing.T) {
	t.Parallel()
	spec, begin := schemas.StreamSpec{Name: "S", Kind: "sequence"}, time.Unix(1000, 0)
	full := func(bytes, messages uint64) bus.StreamState {
		return bus.StreamState{Bytes: bytes, MaxBytes: 1000, Messages: messages, MaxMessages: 100}
	}
	var l probe.Levels
	for i, tc := range []struct {
		state   bus.StreamState
		after   time.Duration
		warned  bool
		refused string
	}{
		{full(790, 79), 0, false, ""},
		{bus.StreamState{Bytes: 1 << 40, MaxBytes: -1, MaxMessages: -1}, 0, false, ""},
		{full(800, 0), 0, true, ""},
		{full(950, 0), 59 * time.Second, false, "950 of its 1000 bytes"},
		{full(10, 90), time.Minute, true, "90 of its 100 messages"},
		{full(10, 89), 3 * time.Minute, true, ""},
		{full(10, 10), 5 * time.Minute, false, ""},
	} {
		_, warned := l.Set("S", spec.Kind, tc.state, begin.Add(tc.after))
		if warned != tc.warned {
			t.Errorf("%d: warned %v, want %v", i, warned, tc.warned)
		}
		err := checkStreams(&l, spec)
		if (err != nil) != (tc.refused != "") || err != nil && (!strings.Contains(err.Error(), tc.refused) || !strings.Contains(err.Error(), probe.Cure("sequence"))) {
			t.Errorf("%d: refused with %v, want %q", i, err, tc.refused)
		}
	}
}

// Every durable stream and bucket has a bound, is looked at, and says what to do when
// it is nearly full.
func TestStreamsAreWatched(t *testing.T) {
	t.Parallel()
	r := newRig(t, 0)
	d := r.deployment()
	var said bytes.Buffer
	d.Logger = slog.New(slog.NewTextHandler(&said, nil))
	s := New(d, Config{})
	r.alter(schemas.BucketStream(d.Streams.Bucket("functions")), func(c *jetstream.StreamConfig) { c.MaxMsgs = 5 })
	for i := range 4 {
		if _, err := d.Functions.Put(r.ctx(), fmt.Sprint("key-", i), nil); err != nil {
			t.Fatal(err)
		}
	}
	s.probe.Streams.LookAtBuckets(r.ctx())
	for _, spec := range d.Streams.Durable() {
		s.probe.Streams.Look(r.ctx(), spec)
		if probe.Cure(spec.Kind) == "" {
			t.Errorf("nothing says what to do when %s is full", spec.Name)
		}
	}
	list, shares := d.Conn.JetStream().ListStreams(r.ctx()), s.probe.Streams.Levels.Shares()
	for info := range list.Info() {
		if info.Config.MaxBytes <= 0 || s.probe.Streams.Levels.Of(info.Config.Name).At.IsZero() {
			t.Errorf("%s has a bound of %d bytes; nobody looks at it", info.Config.Name, info.Config.MaxBytes)
		}
	}
	if shares["functions"] != 0.8 || shares["token"] >= 0.01 || len(shares) != len(d.Streams.Durable())+len(deployment.BucketKinds()) {
		t.Errorf("shares %v", shares)
	}
	for _, want := range []string{"4 of its 5 messages", probe.Cure("bucket")} {
		if n := strings.Count(said.String(), want); n != 1 {
			t.Errorf("%q is said %d times:\n%s", want, n, said.String())
		}
	}
}
