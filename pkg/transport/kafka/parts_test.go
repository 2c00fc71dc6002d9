package kafka

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// A ring keeps the newest, in order, and tells what it dropped.
func TestRing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(1, 5).Draw(t, "size")
		r, want := newRing[int](size), []int{}
		for i := range rapid.IntRange(0, 30).Draw(t, "pushes") {
			if dropped := r.push(i); dropped != (len(want) == size) {
				t.Fatalf("push %d of %d: dropped %v", i, size, dropped)
			}
			if want = append(want, i); len(want) > size {
				want = want[1:]
			}
			if n := rapid.IntRange(0, 2).Draw(t, "take"); n > 0 {
				got := r.take(nil, n)
				if have := min(n, len(want)); !slices.Equal(got, want[:have]) {
					t.Fatalf("took %v of %v", got, want)
				}
				want = want[min(n, len(want)):]
			}
		}
	})
}

func TestSequence(t *testing.T) {
	q := newSequence()
	for i, tt := range []struct {
		replica string
		number  uint64
		missed  uint64
		fresh   bool
	}{
		{"a", 5, 0, true}, {"a", 6, 0, true}, {"a", 6, 0, false}, {"a", 1, 0, false}, {"a", 10, 3, true}, {"b", 10, 0, true}, {"a", 0, 0, true}, {"a", 0, 0, true},
	} {
		missed, fresh := q.next(&pb.LoadSample{Host: tt.replica, Number: tt.number})
		if missed != tt.missed || fresh != tt.fresh {
			t.Errorf("%d: %s %d: %d missed, fresh %v", i, tt.replica, tt.number, missed, fresh)
		}
	}
}

func TestBeginAt(t *testing.T) {
	young := func(at int64) map[int64]time.Time { return map[int64]time.Time{at: {}} }
	for _, tt := range []struct {
		name       string
		given, end int64
		young      map[int64]time.Time
		want       int64
	}{
		{"new group", -1, 90, young(50), 90},
		{"where it was", 70, 90, young(50), 70},
		{"what is left of it is old", 20, 90, young(50), 50},
		{"all is old", 20, 90, nil, 90},
		{"nothing young", 20, 90, young(-1), 90},
		{"made anew", 70, 10, young(0), 10},
	} {
		if got := beginAt(tt.given, tt.end, tt.young); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
}

// What is wrong is said when it begins and when it changes, and so is its end.
// What passes by itself is not said at once.
func TestCondition(t *testing.T) {
	var log strings.Builder
	c := &condition{log: slog.New(slog.NewTextHandler(&log, nil)), what: "x", config: Config{Brokers: []string{"a:1"}}}
	said := func(n int, why string) {
		t.Helper()
		if got := strings.Count(log.String(), "msg="); got != n {
			t.Errorf("%s: %d lines, want %d:\n%s", why, got, n, log.String())
		}
	}
	up := func(is, known bool) {
		t.Helper()
		if i, k := c.up(); i != is || k != known {
			t.Errorf("up: %v, known: %v", i, k)
		}
	}
	if _, known := c.up(); known {
		t.Error("it is known before anything was asked")
	}
	c.good()
	up(true, true)
	said(0, "good from the start")
	for i := range 3 {
		c.bad(fmt.Errorf("try %d: %w", i, kafkago.TopicAuthorizationFailed))
	}
	said(1, "the same three times")
	c.bad(errors.New("connection refused"))
	said(2, "another one")
	up(false, true)
	c.good()
	up(true, true)
	c.good()
	said(3, "good again")
	c.bad(kafkago.NotLeaderForPartition)
	said(3, "passing")
	c.since = c.since.Add(-2 * grace)
	c.bad(kafkago.NotLeaderForPartition)
	said(4, "not passing")
	for _, want := range []string{"kafka-acls --add", "start Kafka", "topic=" + DefaultTopic} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("%q is not in\n%s", want, log.String())
		}
	}
}

// FuzzDecode wants whatever lies in a topic to be a sample or an error.
func FuzzDecode(f *testing.F) {
	good, err := proto.Marshal(&pb.LoadSample{Version: 1, Model: 7, Host: "gate-1", Steps: []*pb.StepLoad{{Owner: "a", Rows: 1}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte("{"))
	r, err := NewReader(ReaderSettings{Config: Config{Brokers: []string{"127.0.0.1:1"}}, Group: "g", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		if s, err := r.decode(value); (s == nil) == (err == nil) {
			t.Errorf("%v, %v", s, err)
		}
	})
}
