package bus

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/switchyard/switchyard/pkg/transport/natsserver"
	"github.com/switchyard/switchyard/schemas"
)

// BenchmarkHop measures one message at a time from before Send to the
// handler's entry, in process.
func BenchmarkHop(b *testing.B) {
	for _, mode := range allHops {
		for _, kb := range []int{1, 16, 128} {
			b.Run(fmt.Sprintf("%s/%dKB", mode, kb), func(b *testing.B) {
				srv, err := natsserver.Start(natsserver.Settings{StoreDir: b.TempDir()})
				if err != nil {
					b.Fatal(err)
				}
				defer srv.Shutdown()
				ctx := context.Background()
				var conns [2]*Conn
				for i := range conns {
					if conns[i], err = Connect(ctx, Config{}, Settings{InProcess: srv, Logger: quiet()}); err != nil {
						b.Fatal(err)
					}
					defer conns[i].Close()
				}
				s := names(mode)
				arrived := make(chan time.Time, 1)
				running, err := NewHop(conns[1], mode).Receive(ctx, receiver(s), func(context.Context, *Msg) error {
					arrived <- time.Now()
					return nil
				})
				if err != nil {
					b.Fatal(err)
				}
				defer func() { running.Stop(); <-running.Closed() }()
				h, msg, subject := NewHop(conns[0], mode), hidden(kb<<10), s.Subjects.Hidden(0)
				took := make([]time.Duration, 0, b.N)
				b.SetBytes(int64(kb << 10))
				b.ReportAllocs()
				for b.Loop() {
					start := time.Now()
					if err := h.Send(ctx, subject, msg); err != nil {
						b.Fatal(err)
					}
					took = append(took, (<-arrived).Sub(start))
				}
				slices.Sort(took)
				b.ReportMetric(float64(took[len(took)/2].Nanoseconds())/1e3, "p50-us")
				b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds())/1e3, "p99-us")
			})
		}
	}
}

// BenchmarkQueue is what a durable queue takes of a request, which passes two: its
// message is stored and acknowledged, pulled, and settled.
func BenchmarkQueue(b *testing.B) {
	srv, err := natsserver.Start(natsserver.Settings{StoreDir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	defer srv.Shutdown()
	ctx := context.Background()
	conn, err := Connect(ctx, Config{}, Settings{InProcess: srv, Logger: quiet()})
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	s, body := names(schemas.HopsCore), make([]byte, 1<<10)
	q, err := conn.Queue(ctx, QueueSettings{Stream: s.Sequences(), Name: "attention"})
	if err != nil {
		b.Fatal(err)
	}
	defer q.Stop()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := conn.StoreBytes(ctx, s.Subjects.Sequence(), body, nil); err != nil {
			b.Fatal(err)
		}
		got, err := q.Pull(ctx, 1)
		if err != nil {
			b.Fatal(err)
		}
		if err := got[0].Ack(); err != nil {
			b.Fatal(err)
		}
	}
}
