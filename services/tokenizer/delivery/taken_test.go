package delivery

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/switchyard/switchyard/pkg/transport/bus"
)

func TestThrough(t *testing.T) {
	then := bus.StreamState{Incarnation: 1, First: 5, Last: 7}
	for _, tc := range []struct {
		name string
		now  bus.StreamState
		want bool
	}{
		{"as it was", then, false},
		{"all but the last", bus.StreamState{Incarnation: 1, First: 7, Last: 20}, false},
		{"younger ones only", bus.StreamState{Incarnation: 1, First: 8, Last: 20}, true},
		{"empty", bus.StreamState{Incarnation: 1, First: 8, Last: 7}, true},
		{"made anew", bus.StreamState{Incarnation: 2, First: 1, Last: 3}, true},
	} {
		if got := through(then, tc.now); got != tc.want {
			t.Errorf("%s: %v", tc.name, got)
		}
	}
	if none := (bus.StreamState{Incarnation: 1}); !through(none, none) {
		t.Error("who has none waits for some")
	}
}

// All who ask while a look is under way share the next one, and its error.
func TestSight(t *testing.T) {
	var s sight
	var looks atomic.Int32
	begun, release := make(chan struct{}), make(chan struct{})
	look := func() (bus.StreamState, error) {
		if looks.Add(1) == 1 {
			close(begun)
			<-release
		}
		return bus.StreamState{Last: uint64(looks.Load())}, errors.New("none")
	}
	var asking sync.WaitGroup
	ask := func(asked time.Time, want uint64) {
		if state, err := s.since(asked, look); err == nil || state.Last != want {
			t.Errorf("look %d, %v; want %d", state.Last, err, want)
		}
	}
	first := time.Now()
	asking.Go(func() { ask(first, 1) })
	<-begun
	for range 99 {
		asked := time.Now()
		asking.Go(func() { ask(asked, 2) })
	}
	close(release)
	asking.Wait()
	if n := looks.Load(); n != 2 {
		t.Errorf("%d looks", n)
	}
}
