package edge

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// A prompt reports whether other experts may stand in; where it does not, the deployment does. Another
// word is refused by name, and each is another request.
func TestConsent(t *testing.T) {
	for _, tc := range []struct {
		word      string
		ownExpert bool // of the deployment
		want      bool
	}{{"", false, false}, {"", true, true}, {"allow", true, false}, {"never", false, true}} {
		m := Model{Vocab: 9, MaxLen: 8, OwnExperts: tc.ownExpert}
		r, err := m.Resolve(&pb.Prompt{InputIds: []uint32{1}, Brownout: tc.word}, time.Now(), 1)
		if err != nil || r.Sequence.OwnExperts != tc.want {
			t.Errorf("%q: %v, %v", tc.word, r, err)
		}
	}
	p, _, err := DecodePrompt(nats.Header{}, []byte(`{"input_ids":[1],"brownout":"sometimes"}`), false)
	if err != nil {
		t.Fatal(err)
	}
	if err := (Model{Vocab: 9, MaxLen: 8}).Check(p); err == nil || !strings.Contains(err.Error(), `brownout is "sometimes"`) || !strings.Contains(err.Error(), `"never"`) {
		t.Errorf("%v", err)
	}
	seen := map[string]bool{}
	for _, word := range []string{"", "allow", "never"} {
		hash, err := BodyHash(&pb.Prompt{InputIds: []uint32{1}, Brownout: word})
		if err != nil {
			t.Fatal(err)
		}
		seen[string(bytes.Clone(hash))] = true
	}
	if len(seen) != 3 {
		t.Errorf("%d requests of three", len(seen))
	}
}
