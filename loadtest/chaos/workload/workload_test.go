package workload

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

func TestSameSeedSameRequests(t *testing.T) {
	a, b, other := New(1, 16), New(1, 16), New(2, 16)
	if !reflect.DeepEqual(a, b) || reflect.DeepEqual(a.variants, other.variants) {
		t.Error("prompts do not follow from the seed")
	}
	if a.Of(3, 9) != b.Of(3, 9) || a.Of(3, 9) == a.Of(9, 3) {
		t.Error("requests do not follow from seed, worker and number")
	}
}

func TestRequests(t *testing.T) {
	w, acts, shared := New(5, 32), map[Act]int{}, 0
	for n := range 2000 {
		r := w.Of(n%20, n)
		acts[r.Act]++
		if p := w.variants[r.Variant]; r.At < 0 || r.At >= p.MaxTokens || r.From > r.At {
			t.Fatalf("%+v of %d tokens", r, p.MaxTokens)
		}
	}
	for _, a := range []Act{Read, Cancel, Hurry, Repeat, Replay} {
		if acts[a] < 100 {
			t.Errorf("%d of 2000 requests are for %s", acts[a], a)
		}
	}
	for _, p := range w.variants {
		if strings.HasPrefix(p.Text, sentences[0]+sentences[1]) {
			shared++
		}
	}
	if shared < len(w.variants)/4 || shared == len(w.variants) {
		t.Errorf("%d of %d prompts begin alike", shared, len(w.variants))
	}
}

// A body begins with a brace, which is how it is told from a text.
func TestBody(t *testing.T) {
	body, err := json.Marshal(New(1, 1).variants[0])
	if err != nil || body[0] != '{' || strings.Contains(string(body), "deadline") {
		t.Errorf("%s: %v", body, err)
	}
}
