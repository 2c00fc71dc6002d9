//go:build unix

package tokenlog

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/schemas"
)

// BenchmarkFollowed is the processor time of a token's way from its writer to the
// follower of its shard, all shards followed: a step of 16 tokens at a time.
func BenchmarkFollowed(b *testing.B) {
	r := newRig(b)
	ctx, stop := context.WithCancel(r.ctx())
	var followed atomic.Int64
	var all sync.WaitGroup
	for shard := range schemas.LogShards {
		all.Go(func() {
			_ = r.log.FollowShard(ctx, shard, bus.Place{}, func(string, Entry, error) { followed.Add(1) })
		})
	}
	defer func() { stop(); all.Wait() }()
	owner := New(r.connect(r.addr), names, r.as("b"))
	writers := make([]*Writer, 16)
	for i := range writers {
		request := fmt.Sprint("r", i)
		r.accept(request)
		writers[i], _ = r.claim(owner, request, WriterSettings{})
	}
	want := int64(2 * len(writers)) // acceptances and claims
	r.eventually("all are followed", func() bool { return followed.Load() == want })
	before, n := processorTime(b), 0
	for b.Loop() {
		for _, w := range writers {
			appendAll(b, w, token(n))
		}
		for want += int64(len(writers)); followed.Load() < want; {
			time.Sleep(100 * time.Microsecond)
		}
		n++
	}
	b.ReportMetric(float64((processorTime(b)-before).Microseconds())/float64(n*len(writers)), "cpu-us/token")
}

func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
