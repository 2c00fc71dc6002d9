package direct

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/switchyard/switchyard/pkg/compute/goldens"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
)

// shortened is phimoe with another length up to which the short factors hold.
func shortened(t *testing.T, original int) string {
	t.Helper()
	dir, from := t.TempDir(), goldens.Dir("phimoe")
	var config map[string]any
	raw, err := os.ReadFile(filepath.Join(from, "config.json"))
	if err != nil || json.Unmarshal(raw, &config) != nil {
		t.Fatal("reading the config", err)
	}
	scaling, ok := config["rope_scaling"].(map[string]any)
	if !ok {
		t.Fatal("no rope_scaling")
	}
	scaling["original_max_position_embeddings"] = original
	weights, err := filepath.Abs(filepath.Join(from, "model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	put(t, dir, "config.json", mustJSON(t, config))
	if err := os.Symlink(weights, filepath.Join(dir, "model.safetensors")); err != nil {
		t.Fatal(err)
	}
	return dir
}

// A sequence that grows past the length for which it has short factors goes on as
// one that came so long: all of its positions have the long ones.
func TestBecomesLong(t *testing.T) {
	const original, prompt, tokens = 20, 12, 16
	r, m := load(t, shortened(t, original), tensor.F32)
	before, _ := load(t, goldens.Dir("phimoe"), tensor.F32)
	ids := make([]uint32, prompt)
	for i := range ids {
		ids[i] = uint32(7*i + 3)
	}
	grown, short := add(t, r, ids, tokens), add(t, before, ids, tokens)
	differs := false
	for len(grown.Generated()) < tokens {
		all := grown.IDs
		step(t, r, grown)
		fresh := add(t, r, all, 1)
		step(t, r, fresh)
		if got, want := grown.IDs[len(all)], fresh.IDs[len(all)]; got != want {
			t.Fatalf("token %d is %d, and %d for a prompt of all before it", len(all), got, want)
		}
		step(t, before, short)
		same := short.IDs[len(all)] == grown.IDs[len(all)]
		if !same && len(all) <= original {
			t.Fatalf("token %d is not the short factors'", len(all))
		}
		differs = differs || !same
	}
	if !differs {
		t.Errorf("%s: the long factors change nothing", m.Name)
	}
}

func add(t *testing.T, r *Runner, ids []uint32, tokens int) *Sequence {
	t.Helper()
	s, err := r.Add(ids, tokens, greedy)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func step(t *testing.T, r *Runner, s *Sequence) {
	t.Helper()
	if err := r.Step(t.Context(), []*Sequence{s}); err != nil {
		t.Fatal(err)
	}
}

// Layers with a window hold no more pages than it needs, and a sequence goes on as
// if they held all.
func TestWindowFreesPages(t *testing.T) {
	const prompt, tokens = 30, 120
	r, _ := load(t, goldens.Dir("mixtral-window"), tensor.F32)
	s := add(t, r, make([]uint32, prompt), tokens)
	for len(s.Generated()) < tokens {
		step(t, r, s)
	}
	if n := s.table.Pages(0); n > 2 {
		t.Errorf("a window of 16 holds %d pages after %d positions", n, len(s.IDs))
	}
	fresh := add(t, r, s.IDs[:prompt+tokens-1], 1)
	if step(t, r, fresh); fresh.IDs[prompt+tokens-1] != s.IDs[prompt+tokens-1] {
		t.Error("the last token differs from that of a prompt of all before it")
	}
}
