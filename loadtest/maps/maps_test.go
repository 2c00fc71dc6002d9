package maps

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/loadtest/record"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/recording"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/pkg/policy/expertmap"
)

// recorded are settings with a small recording of the demo model, of which every text is
// there five times.
func recorded(t *testing.T) Settings {
	t.Helper()
	m, err := model.Demo()
	if err != nil {
		t.Fatal(err)
	}
	p := pool.New(1)
	text, path := filepath.Join(t.TempDir(), "story.txt"), filepath.Join(t.TempDir(), "r")
	stories := strings.Repeat("Once upon a time there was a cat.\n<|endoftext|>\nLily had a red ball.\n<|endoftext|>\n", 5)
	if err := os.WriteFile(text, []byte(stories), 0o600); err != nil {
		t.Fatal(err)
	}
	quiet := func(string, ...any) {}
	if _, err := record.Run(t.Context(), record.Settings{
		Model: m, Pool: p, Texts: []string{text}, Tokens: 1000, PromptTokens: 12, AnswerTokens: 3, Wire: tensor.BF16, Seed: 1, Inputs: true, Progress: quiet,
	}, path); err != nil {
		t.Fatal(err)
	}
	r, err := recording.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Close()
		if err := errors.Join(r.Close(), m.Close()); err != nil {
			t.Error(err)
		}
	})
	return Settings{
		Model: m, Pool: p, Recording: r, Store: expertmap.Settings{Capacity: 500, Distance: 3}, Prefill: Last, Embedding: Rows,
		Train: 0.7, Tenant: "a", Progress: quiet,
	}
}

// What gates chose are the experts of the highest probabilities, and those of texts that
// the store knows are foretold.
func TestRun(t *testing.T) {
	s := recorded(t)
	for _, tt := range []struct {
		name               string
		prefill, embedding Of
		online             bool
	}{
		{"last", Last, Rows, false}, {"mean", Mean, Mean, false}, {"rows", Rows, Last, false}, {"online", Last, Mean, true}, {"pair", Last, Pair, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s.Prefill, s.Embedding, s.Online = tt.prefill, tt.embedding, tt.online
			store, r, err := Run(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			if r.Train != 7 || r.Test != 3 || r.Maps != store.Len("a") || r.Maps == 0 || r.Decode.Steps == 0 || r.Prefill.Steps != 3 {
				t.Fatalf("%+v", r)
			}
			for _, f := range []Figures{r.Prefill, r.Decode} {
				if !(f.Recall > 0 && f.Recall <= 1) || f.Hinted < float64(store.TopK) || f.Trajectory < 0.5 || math.IsNaN(f.PearsonSemantic) {
					t.Errorf("%+v", f)
				}
			}
			if tt.prefill == Rows && r.Prefill.Recall < 0.99 {
				t.Errorf("prompts that were there before are foretold by %v", r.Prefill.Recall)
			}
			if tt.prefill == Mean && r.Prefill.Hinted < 2*float64(store.TopK) {
				t.Errorf("of prompts of several rows %v experts a layer are foretold", r.Prefill.Hinted)
			}
			if text := r.String(); !strings.Contains(text, "decode") {
				t.Error(text)
			}
		})
	}
}

// The experts that a recording says were chosen have the highest of the probabilities
// that are made of its inputs.
func TestProbabilitiesAreTheGates(t *testing.T) {
	s := recorded(t)
	s.Train = 1
	store, r, err := Run(t.Context(), s)
	if err != nil || r.Test != 0 {
		t.Fatal(err, r)
	}
	again := s
	again.Train = 0
	b := builder{Settings: again, store: store}
	if b.router, b.embeddings, err = gates(&again); err != nil {
		t.Fatal(err)
	}
	_, test := split(s.Recording, 0)
	if err := b.each(t.Context(), test[0], func(st *step) error {
		if !st.decode {
			return nil
		}
		for l, needed := range st.needed {
			row := st.maps[0].Probabilities[l*store.Experts : (l+1)*store.Experts]
			for _, h := range expertmap.Select(row, 1, store.TopK, nil) {
				if !needed[h.Expert] {
					t.Errorf("layer %d: expert %d is probable and was not chosen", l, h.Expert)
				}
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// With a least threshold of 1 all experts are foretold.
func TestLeast(t *testing.T) {
	s := recorded(t)
	s.Least = 1
	_, r, err := Run(t.Context(), s)
	if err != nil || r.Decode.Recall != 1 || r.Decode.Hinted < 15 {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestCheck(t *testing.T) {
	s := recorded(t)
	for _, tt := range []struct {
		name, want string
		spoil      func(s *Settings)
	}{
		{"ok", "", func(*Settings) {}},
		{"share", "must be 0 to 1", func(s *Settings) { s.Train = math.NaN() }},
		{"threshold", "the least threshold is 2", func(s *Settings) { s.Least = 2 }},
		{"prompts", "maps of a prompt", func(s *Settings) { s.Prefill = "first" }},
		{"embeddings", "embeddings are to be", func(s *Settings) { s.Embedding = "" }},
		{"distance", "set it to 1 to 7", func(s *Settings) { s.Store.Distance = 8 }},
		{"capacity", "the capacity is 0", func(s *Settings) { s.Store.Capacity = 0 }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bad := s
			tt.spoil(&bad)
			if err := bad.Check(); (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func TestInterrupted(t *testing.T) {
	s := recorded(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := Run(ctx, s); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
