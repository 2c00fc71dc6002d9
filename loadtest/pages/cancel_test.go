package pages

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/switchyard/switchyard/loadtest/fleet"
)

const (
	cancels = 1008
	atOnce  = 16
	// paced is how often so many begin: a thousand cancellations a minute.
	paced = 950 * time.Millisecond
	// freed is how soon the pages must be free, of 99 in 100.
	freed = time.Second
)

// TestCancel cancels sixteen requests at a time, some of which wait for pages, and
// times how long any of them has pages. At the end nothing is left.
func TestCancel(t *testing.T) {
	s := start(t)
	s.cancelled(-1)
	s.eventually("no request is left", s.idle)
	before := s.left()
	var took []time.Duration
	began := time.Now()
	for tick, n := time.NewTicker(paced), 0; n < cancels/atOnce; n++ {
		took = append(took, s.cancelled(n))
		<-tick.C
	}
	t.Logf("%d cancellations in %v", cancels, time.Since(began).Round(time.Second))
	slices.Sort(took)
	p99 := took[len(took)*99/100]
	t.Logf("pages of the last of %d are free after %v (p50), %v (p99), %v at most", atOnce, took[len(took)/2], p99, took[len(took)-1])
	if p99 > freed {
		t.Errorf("p99 is %v, want at most %v", p99, freed)
	}
	s.eventually("no request is left", s.idle)
	s.eventually("nothing is left behind", func() bool { return !more(s.left(), before) })
	t.Logf("left: %v, before: %v", s.left(), before)
}

// cancelled starts a batch of requests, cancels all of them on their way, and says how
// long it took until none has pages.
func (s *services) cancelled(batch int) time.Duration {
	s.Helper()
	var streaming atomic.Int32
	var ended sync.WaitGroup
	for i := range atOnce {
		id := name("cancel", batch*atOnce+i)
		ended.Go(func() {
			if err := s.untilCancelled(id, i, &streaming); err != nil {
				s.Errorf("%s: %v", id, err)
			}
		})
	}
	s.eventually("requests stream", func() bool { return streaming.Load() >= atOnce/4 })
	time.Sleep(time.Duration(rand.IntN(200)) * time.Millisecond)
	began := time.Now()
	for i := range atOnce {
		if err := s.client.Cancel(name("cancel", batch*atOnce+i)); err != nil {
			s.Error(err)
		}
	}
	s.eventually("pages are free", func() bool { return s.pages() == 0 && s.sequences() == 0 })
	took := time.Since(began)
	ended.Wait()
	return took
}

// untilCancelled reads a request's answer to its end.
func (s *services) untilCancelled(id string, n int, streaming *atomic.Int32) error {
	ctx, stop := context.WithTimeout(s.Context(), settled)
	defer stop()
	stream, err := s.client.Prompt(ctx, prompt(id, n))
	if err != nil {
		return err
	}
	first, reason := true, ""
	for c, err := range stream.Chunks() {
		if err != nil {
			return err
		}
		if first {
			streaming.Add(1)
		}
		first, reason = false, c.FinishReason
	}
	if reason != "cancelled" {
		return fmt.Errorf("the answer ended with %q", reason)
	}
	return nil
}

// idle reports whether no request is under way.
func (s *services) idle() bool {
	for _, info := range s.streams() {
		if n := info.messages; n > 0 && !strings.Contains(info.name, "_TOKENS_") && !strings.HasPrefix(info.name, "KV_") {
			return false
		}
	}
	return s.pages() == 0 && s.sequences() == 0
}

type stream struct {
	name                string
	messages, consumers int
}

func (s *services) streams() (all []stream) {
	list := s.js.ListStreams(s.Context())
	for info := range list.Info() {
		all = append(all, stream{info.Config.Name, int(info.State.Msgs), info.State.Consumers})
	}
	if list.Err() != nil {
		s.Fatal(list.Err())
	}
	return all
}

// left is what requests could leave behind: goroutines of each service, and consumers.
func (s *services) left() map[string]int {
	out := map[string]int{}
	for kind, addr := range s.metrics {
		m, err := fleet.Metrics(s.Context(), addr)
		if err != nil {
			s.Fatal(err)
		}
		out[kind+" goroutines"] = int(m["go_goroutines"])
	}
	for _, info := range s.streams() {
		out["consumers"] += info.consumers
	}
	return out
}

// more reports whether there is more of something; a few goroutines serve the metrics.
func more(now, before map[string]int) bool {
	const few = 4
	for what, n := range now {
		if n > before[what]+few {
			return true
		}
	}
	return false
}
