package delivery

import (
	"testing"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// What fills masks shows the prompt around it: the chunks' texts together are the
// filled prompt.
func TestAnswerFills(t *testing.T) {
	prompt := []uint32{0, 25, 1, 25, 25, 2} // az b zz c
	for _, tt := range []struct {
		name, tokens, reason string
		fill                 []uint32
		max                  int32
		want                 []string
	}{
		{"all", "xyw", "stop", []uint32{1, 3, 4}, 3, []string{"ax", "by", "wc"}},
		{"first and last", "xy", "stop", []uint32{0, 5}, 2, []string{"x", "zbzzy"}},
		{"some", "x", "length", []uint32{1, 3, 4}, 1, []string{"axbzzc"}},
		{"cancelled", "x", "cancelled", []uint32{1, 3, 4}, 3, []string{"ax", ""}},
	} {
		accept := &pb.Accept{FilledIds: prompt, Fill: tt.fill, MaxTokens: tt.max, PromptTokens: int32(len(prompt))}
		chunks := collect(accept, append(tokens(tt.tokens), terminal(tt.reason)))
		if len(chunks) != len(tt.want) {
			t.Errorf("%s: %v", tt.name, chunks)
			continue
		}
		for i, c := range chunks {
			if c.Text != tt.want[i] {
				t.Errorf("%s: chunk %d is %q, want %q", tt.name, i, c.Text, tt.want[i])
			}
		}
	}
}
