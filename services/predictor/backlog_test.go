package predictor

import (
	"testing"

	"github.com/nats-io/nats.go"
)

// What is too much goes, the oldest first; the newest stays, however large.
func TestBacklog(t *testing.T) {
	for _, tc := range []struct {
		name           string
		messages, size int
		left           int
	}{
		{"none", 0, 0, 0},
		{"all", 10, 10, 10},
		{"many", backlogMessages + 5, 1, backlogMessages},
		{"large", 10, backlogBytes / 4, 4},
		{"larger than all", 2, backlogBytes + 1, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b, dropped, body := newBacklog[*nats.Msg](), 0, make([]byte, tc.size)
			var sent []*nats.Msg
			for range tc.messages {
				sent = append(sent, &nats.Msg{Data: body})
				dropped += b.put(sent[len(sent)-1], tc.size)
			}
			for i, want := range sent[tc.messages-tc.left:] {
				if got, _ := b.take(); got != want {
					t.Fatalf("message %d of those left is another one", i)
				}
			}
			if m, ok := b.take(); ok || b.bytes != 0 || dropped != tc.messages-tc.left {
				t.Errorf("%v and %d bytes are left, %d were dropped, want %d", m, b.bytes, dropped, tc.messages-tc.left)
			}
		})
	}
}
