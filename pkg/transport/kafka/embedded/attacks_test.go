package embedded

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/pkg/transport/kafka/wire"
)

// Attacks that once took gigabytes, or the process, take little. What they may store is
// bounded, and so is what is in flight.
func TestAttacks(t *testing.T) {
	noise := make([]byte, wire.MaxBatch-1000)
	for i := range noise {
		noise[i] = byte(rand.Uint32())
	}
	large := batchOf(t, 0, noise)
	small := batchOf(t, 0, nil)
	for _, tt := range []struct {
		name   string
		attack func(t *testing.T, b *Broker)
	}{
		{"announced bytes", func(t *testing.T, b *Broker) {
			for range maxConns {
				c := connect(t, b)
				if _, err := c.Write(ints(maxFrame)); err != nil {
					t.Fatal(err)
				}
			}
		}},
		{"full partitions", func(t *testing.T, b *Broker) {
			c := connect(t, b)
			for i := range int32(1200) {
				if _, err := c.ask(request(wire.Produce, 3, produce(topic, i%defaultPartitions, 1, large))); err != nil {
					t.Fatal(err)
				}
			}
		}},
		{"small batches", func(t *testing.T, b *Broker) {
			c := connect(t, b)
			for range 3000 {
				body := slices.Concat([]byte{0xff, 0xff, 0, 1}, ints(1000, 1), text(topic), ints(defaultPartitions))
				for p := range int32(defaultPartitions) {
					body = slices.Concat(body, ints(p, int32(len(small))), small)
				}
				if _, err := c.ask(request(wire.Produce, 3, body)); err != nil {
					t.Fatal(err)
				}
			}
		}},
		{"answers that nobody reads", func(t *testing.T, b *Broker) {
			c := connect(t, b)
			if _, err := c.ask(request(wire.Produce, 3, produce(topic, 0, 1, large))); err != nil {
				t.Fatal(err)
			}
			fetch := request(wire.Fetch, 4, slices.Concat(ints(-1, 0x7fffffff, 1, 0x7fffffff), []byte{0}, ints(1), text(topic), ints(1, 0, 0, 0, 0x7fffffff)))
			for range maxConns - 4 {
				c := connect(t, b)
				for range 100 {
					if _, err := c.Write(wire.Frame(fetch)); err != nil {
						t.Fatal(err)
					}
				}
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := start(t, Settings{})
			before := testkit.Memory()
			tt.attack(t, b)
			testkit.Eventually(t, "another client is served", func() bool {
				c := connect(t, b)
				defer func() { _ = c.Close() }()
				_, err := c.ask(request(wire.APIVersions, 0, nil))
				return err == nil || tt.name == "announced bytes"
			})
			const most = 140 << 20
			if grown := testkit.Memory() - before; grown > most {
				t.Errorf("memory has grown by %d MiB", grown>>20)
			} else {
				t.Logf("memory has grown by %d MiB", grown>>20)
			}
		})
	}
}

// FuzzGuard wants the broker behind the guard to survive any two requests on each of two
// connections.
func FuzzGuard(f *testing.F) {
	seed := func(messages ...[]byte) {
		for len(messages) < 4 {
			messages = append(messages, nil)
		}
		f.Add(messages[0], messages[1], messages[2], messages[3])
	}
	good := batchOf(f, 0, []byte("sample"))
	seed(request(wire.Produce, 3, produce(topic, 0, 1, good)), request(wire.Produce, 8, produce(topic, 0, -1, good)),
		request(wire.Fetch, 4, slices.Concat(ints(-1, 1, 1, 1<<20), []byte{0}, ints(1), text(topic), ints(1, 0, 0, 0, 1<<20))))
	seed(request(wire.Fetch, 7, slices.Concat(ints(-1, 1, 0, 1<<20), []byte{0}, ints(0, 0, 1), text(topic), ints(1, 0, 0, 0, 0, 0, 1<<20, 0))),
		request(wire.Fetch, 11, slices.Concat(ints(-1, 1, 0, 1<<20), []byte{1}, ints(1, 1, 1), text(topic), ints(1, 0, -1, 0, 0, 0, 0, 1<<20, 1), text(topic), ints(1, 0), text(""))))
	seed(request(wire.ListOffsets, 1, slices.Concat(ints(-1, 1), text(topic), ints(1, 0, -1, -1))), request(wire.ListOffsets, 5, slices.Concat(ints(-1), []byte{1}, ints(1), text(topic), ints(1, 0, -1, -1, -2))))
	seed(request(wire.Metadata, 1, ints(-1)), request(wire.Metadata, 8, slices.Concat(ints(1), text(topic), []byte{1, 1, 1})), request(wire.APIVersions, 3, []byte{0}))
	seed(request(wire.JoinGroup, 2, joining("g", "consumer", "range", "roundrobin")), request(wire.SyncGroup, 1, slices.Concat(text("g"), ints(1), text("m"), ints(1), text("m"), ints(0))))
	seed(request(wire.JoinGroup, 2, joining("g", "consumer", "range", "roundrobin")), request(wire.JoinGroup, 1, joining("g", "consumer", "range")), request(wire.JoinGroup, 2, joining("g", "consumer", "roundrobin")))
	seed(request(wire.JoinGroup, 4, joining("g", "consumer", "range")), request(wire.Heartbeat, 2, slices.Concat(text("g"), ints(1), text("m"))), request(wire.LeaveGroup, 2, slices.Concat(text("g"), text("m"))))
	seed(request(wire.OffsetCommit, 2, slices.Concat(text("g"), ints(-1), text(""), ints(0, 0, 1), text(topic), ints(1, 0, 0, 5), text(""))),
		request(wire.OffsetFetch, 5, slices.Concat(text("g"), ints(1), text(topic), ints(1, 0))), request(wire.OffsetFetch, 2, slices.Concat(text("g"), ints(-1))))
	seed(request(wire.CreateTopics, 1, slices.Concat(ints(1), text(topic), ints(1), []byte{0, 1}, ints(0, 0, 1000), []byte{0})), request(wire.FindCoordinator, 1, append(text("g"), 0)),
		request(wire.SASLHandshake, 1, text("PLAIN")))
	f.Fuzz(func(t *testing.T, first, second, third, fourth []byte) {
		b, err := Start(Settings{Listen: "127.0.0.1:0", Topics: []string{topic}, Partitions: 2})
		if err != nil {
			t.Skip(err)
		}
		defer b.Close()
		conns := []*raw{connect(t, b), connect(t, b)}
		for i, message := range [][]byte{first, second, third, fourth} {
			if len(message) < 4 || len(message) > maxFrame {
				continue
			}
			c := conns[i%len(conns)]
			_ = c.SetDeadline(time.Now().Add(5 * time.Millisecond)) // some wait for others
			_, _ = c.ask(message)                                   // whatever it is
		}
		c, err := b.Dial(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }() // it has answered
		if _, err := (&raw{c, t}).ask(request(wire.Metadata, 1, ints(0))); err != nil {
			t.Fatal(err)
		}
	})
}
