package schemas

import (
	"strings"
	"testing"
)

func TestStreams(t *testing.T) {
	for _, tc := range []struct {
		hops      Hops
		tensors   int
		retention Retention
		unused    int
	}{
		{HopsAcked, 7, WorkQueue, 0},
		{HopsUnacked, 3, Interest, 4},
		{HopsCore, 0, 0, 7},
		{"", 7, Interest, 0},
	} {
		s := Streams{Subjects: subjects, Hops: tc.hops}
		specs := s.Tensors([]int{1, 3})
		if len(specs) != tc.tensors {
			t.Errorf("%s: %d tensor streams, want %d", tc.hops, len(specs), tc.tensors)
		}
		if unused := s.Unused([]int{1, 3}); len(unused) != tc.unused {
			t.Errorf("%s: %v are unused, want %d", tc.hops, unused, tc.unused)
		}
		for _, spec := range specs {
			if !spec.Memory || spec.Retention != tc.retention || spec.MaxAge != TensorAge || spec.MaxBytes == 0 {
				t.Errorf("%s: %+v", tc.hops, spec)
			}
		}
		for _, spec := range s.Durable() {
			if spec.Memory || spec.MaxBytes == 0 || spec.Kind == "" {
				t.Errorf("%s: what must survive is in %+v", tc.hops, spec)
			}
		}
	}
}

// No two streams of a model share a name or a subject: a server refuses that.
func TestStreamsApart(t *testing.T) {
	s := Streams{Subjects: subjects, Hops: HopsAcked}
	names, filters := map[string]bool{}, map[string]bool{}
	for _, spec := range append(s.Durable(), s.Tensors([]int{0, 1, 10})...) {
		if names[spec.Name] || strings.ContainsAny(spec.Name, ". *>") {
			t.Errorf("stream name %q", spec.Name)
		}
		names[spec.Name] = true
		for _, f := range spec.Subjects {
			if filters[f] {
				t.Errorf("subject %q is in two streams", f)
			}
			filters[f] = true
		}
	}
}

// The log outlives the time in which its request can be asked for again.
func TestAges(t *testing.T) {
	if DefaultLogAge < MaxDeadline+RepeatWindow {
		t.Errorf("log age %v, longest deadline %v, repeats for %v", DefaultLogAge, MaxDeadline, RepeatWindow)
	}
}

// The stream of prompts takes none that is longer than those that fit the context, headers
// beside it, and has no bound of its own where the server's is lower in any case.
func TestLongestPrompt(t *testing.T) {
	for positions, want := range map[int]int32{0: 0, 512: 64<<10 + 64<<10 + 384*512, 1 << 20: 64<<10 + 64<<10 + 384<<20, 1 << 30: 0} {
		s := Streams{}
		if positions > 0 {
			s.PromptBytes = MaxPrompt(positions)
		}
		if got := s.Prompts().MaxMessage; got != want {
			t.Errorf("%d positions: %d bytes, want %d", positions, got, want)
		}
	}
}
