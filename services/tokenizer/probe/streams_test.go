package probe_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/schemas"
	"github.com/switchyard/switchyard/services/tokenizer/internal/rig"
	"github.com/switchyard/switchyard/services/tokenizer/probe"
)

// Every durable stream and bucket has a bound, is looked at, and says what to do when
// it is nearly full.
func TestStreamsAreWatched(t *testing.T) {
	t.Parallel()
	r := rig.New(t, 0)
	d := r.Deployment()
	var said bytes.Buffer
	d.Logger = slog.New(slog.NewTextHandler(&said, nil))
	s := r.Unstarted(d)
	r.Alter(schemas.BucketStream(d.Streams.Bucket("functions")), func(c *jetstream.StreamConfig) { c.MaxMsgs = 5 })
	for i := range 4 {
		if _, err := d.Functions.Put(r.Ctx(), fmt.Sprint("key-", i), nil); err != nil {
			t.Fatal(err)
		}
	}
	s.Probe.Streams.LookAtBuckets(r.Ctx())
	for _, spec := range d.Streams.Durable() {
		s.Probe.Streams.Look(r.Ctx(), spec)
		if probe.Cure(spec.Kind) == "" {
			t.Errorf("nothing says what to do when %s is full", spec.Name)
		}
	}
	list, shares := d.Conn.JetStream().ListStreams(r.Ctx()), s.Probe.Streams.Levels.Shares()
	for info := range list.Info() {
		if info.Config.MaxBytes <= 0 || s.Probe.Streams.Levels.Of(info.Config.Name).At.IsZero() {
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
