package arena

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/switchyard/switchyard/loadtest/sim/trace"
)

// A trace has lines of each policy, with ours at each price of kept memory, and comparisons of
// plans that follow with all others.
func TestRemoeStream(t *testing.T) {
	s := remoeSettings()
	s.Variants, s.Prices = false, []float64{3}
	s.Stream = RemoeStream{Source: "made-up", Thin: 2, KeepAlive: 30 * time.Second, Cycle: time.Hour}
	for i := range 60 {
		s.Stream.Trace = append(s.Stream.Trace, trace.Request{At: time.Duration(i) * 20 * time.Second, Context: 50 + i%9, Generated: 8})
	}
	if n := len(s.variants()); n != 1 {
		t.Errorf("%d runs without variants", n)
	}
	r, err := RunRemoe(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if want := 2 * (len(streamPolicies) + 3*2); len(r.Streamed) != want {
		t.Errorf("%d lines, want %d", len(r.Streamed), want)
	}
	for _, l := range r.Streamed {
		if l.Requests == 0 || l.Unfinished > 0 || l.Main <= 0 || !strings.Contains(l.String(), l.Policy) || l.Cost(1) < l.Cost(0) {
			t.Errorf("%+v", l)
		}
	}
	if want := 3 * 2 * (len(streamPolicies) - 1); len(r.StreamChanges) != want {
		t.Errorf("%d comparisons, want %d", len(r.StreamChanges), want)
	}
	for _, c := range r.StreamChanges {
		if c.Seeds != 2 || c.Low > c.Change || c.High < c.Change || !strings.Contains(c.String(), c.Against) {
			t.Errorf("%+v", c)
		}
	}
	dir := t.TempDir()
	if err := r.Write(dir); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(dir, "report.html"))
	if err != nil || !strings.Contains(string(page), "follow a trace, made-up") {
		t.Errorf("the page lacks the trace: %v", err)
	}
	s.Variants, s.Prices = true, []float64{3, 1, 6}
	if n := len(s.variants()); n != 9 {
		t.Errorf("%d runs", n)
	}
	for want, spoil := range map[string]func(*RemoeStream){
		"one in 0 requests": func(s *RemoeStream) { s.Thin = 0 }, "stays for 0s": func(s *RemoeStream) { s.KeepAlive = 0 },
		"behind, of one in 2": func(s *RemoeStream) { s.Trace = s.Trace[:20] },
	} {
		bad := s
		spoil(&bad.Stream)
		if _, err := RunRemoe(t.Context(), bad); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
