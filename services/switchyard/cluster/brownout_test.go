package cluster_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/pkg/control/directives"
	"github.com/switchyard/switchyard/pkg/policy/brownout"
	"github.com/switchyard/switchyard/pkg/request/client"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/attention"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
)

// dimmed is a cluster whose attention obeys directives: experts are left out, which needs no
// united ones.
type dimmed struct {
	t      *testing.T
	bucket *bus.Bucket
	client *client.Client
}

func startDimmed(t *testing.T) *dimmed {
	t.Helper()
	s := settings(t)
	s.Services.Attention.Brownout = attention.Brownout{Strategy: brownout.Full, Prefill: time.Hour, Decode: time.Hour, MaxLoss: 1}
	y := ready(t, s)
	c, stop, err := y.Client(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return &dimmed{t, openBrownout(t, y), c}
}

func openBrownout(t *testing.T, y *cluster.Cluster) *bus.Bucket {
	t.Helper()
	conn, err := y.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	names := schemas.Streams{Subjects: schemas.NewSubjects(schemas.DefaultPrefix, "tiny")}
	kv, err := conn.EnsureBucket(t.Context(), 1, names.Bucket("brownout"), 0, directives.Keys()...)
	if err != nil {
		t.Fatal(err)
	}
	b, err := bus.AsBucket(kv)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// set has the cluster obey other settings.
func (d *dimmed) set(s *pb.BrownoutSettings) {
	d.t.Helper()
	revision, err := directives.Change(d.t.Context(), d.bucket, func(*pb.BrownoutSettings) *pb.BrownoutSettings { return s })
	if err != nil {
		d.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(d.t.Context(), testkit.Patience)
	defer cancel()
	if _, err := directives.Await(ctx, d.bucket, revision); err != nil {
		d.t.Fatal(err)
	}
}

// ask is an answer with the log-probabilities of its tokens, and what a brownout changed of it.
func (d *dimmed) ask(consent string) (string, *pb.Usage) {
	d.t.Helper()
	answer, usage, err := d.try(consent)
	if err != nil {
		d.t.Fatal(err)
	}
	return answer, usage
}

func (d *dimmed) try(consent string) (answer string, u *pb.Usage, err error) {
	n, best := int32(6), int32(2)
	stream, err := d.client.Prompt(d.t.Context(), &pb.Prompt{InputIds: []uint32{1, 2, 3, 4}, MaxTokens: &n, IgnoreEos: true, Logprobs: &best, Brownout: consent})
	if err != nil {
		return "", nil, err
	}
	for chunk, err := range stream.Chunks() {
		if err != nil {
			return "", nil, err
		}
		answer += fmt.Sprint(chunk.TokenIds, chunk.Logprobs)
		u = chunk.Usage
	}
	return answer, u, nil
}

// What is set is stamped, changes answers, and is told in the last chunk; what is off leaves the
// bits that there were. A request that accepts no stand-in has them amid others that do.
func TestBrownout(t *testing.T) {
	d := startDimmed(t)
	plain, usage := d.ask("")
	if usage.DegradedRows != nil || usage.LowestThreshold != nil {
		t.Errorf("before anything is set: %v", usage)
	}
	d.set(&pb.BrownoutSettings{Mode: pb.BrownoutMode_BROWNOUT_MODE_SET, PrefillMillionths: 300_000, DecodeMillionths: 200_000})
	testkit.Eventually(t, "rows are degraded", func() bool {
		_, usage = d.ask("allow")
		return usage.GetDegradedRows() > 0
	})
	browned, usage := d.ask("allow")
	if usage.GetLowestThreshold() != 0.2 || usage.GetUnitedWay() != 0 || usage.GetDegradedTokens() == 0 || usage.GetDegradedTokens() > 9 || browned == plain {
		t.Errorf("browned out: %v", usage)
	}
	var amid sync.WaitGroup
	for range 3 {
		amid.Go(func() {
			if _, _, err := d.try("allow"); err != nil {
				t.Error(err)
			}
		})
	}
	if got, usage := d.ask("never"); got != plain || usage.DegradedRows != nil {
		t.Errorf("%v, %v of a request that accepts no stand-in; it was %v", got, usage, plain)
	}
	amid.Wait()
	d.set(&pb.BrownoutSettings{Mode: pb.BrownoutMode_BROWNOUT_MODE_OFF})
	testkit.Eventually(t, "no row is degraded", func() bool {
		got, usage := d.ask("allow")
		return got == plain && usage.DegradedRows == nil
	})
}
