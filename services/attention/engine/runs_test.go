package engine

import (
	"fmt"
	"strings"
	"testing"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// partOf is rows of a sequence: so many of its tokens are the prompt's, and so many done.
func partOf(prompt, generated, done, rows int) part {
	s := newSequence(&pb.Sequence{RequestId: "r", PromptIds: make([]uint32, prompt)})
	for i := range prompt + generated {
		s.ids = append(s.ids[:i], uint32(10+i))
	}
	s.done = done
	return part{s: s, rows: rows, tokens: s.ids}
}

// Runs have a phase each, and together the rows of the microbatch in their order.
func TestRuns(t *testing.T) {
	for _, tc := range []struct {
		name  string
		parts []part
		runs  string
	}{
		{"prompt", []part{partOf(3, 0, 0, 3)}, "prefill 0 [10 11 12]"},
		{"chunk", []part{partOf(9, 0, 4, 2)}, "prefill 4 [14 15]"},
		{"decode", []part{partOf(3, 2, 4, 1)}, "decode 4 [14]"},
		{"taken over", []part{partOf(2, 3, 0, 5)}, "prefill 0 [10 11], decode 2 [12 13 14]"},
		{"taken over, behind the prompt", []part{partOf(2, 3, 3, 2)}, "decode 3 [13 14]"},
		{"batch", []part{partOf(1, 1, 1, 1), partOf(2, 1, 2, 1), partOf(4, 0, 1, 2)},
			"decode 1 [11], decode 2 [12], prefill 1 [11 12]"},
	} {
		runs := runsOf(&microbatch{parts: tc.parts})
		var said []string
		for _, r := range runs {
			said = append(said, fmt.Sprintf("%s %d %v", phase(r.Phase), r.FirstPosition, r.Tokens))
		}
		if got := strings.Join(said, ", "); got != tc.runs {
			t.Errorf("%s: runs %s, want %s", tc.name, got, tc.runs)
		}
	}
}

func phase(p pb.Phase) string { return strings.ToLower(strings.TrimPrefix(p.String(), "PHASE_")) }
