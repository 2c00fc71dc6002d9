package prompts

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/kernels/cpu"
	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/loadtest/record"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/recording"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/pkg/policy/predict/sps"
)

func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func story(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "Once upon a time there were %d little dogs. They ran to the park number %d.\n<|endoftext|>\n", i, i)
	}
	return b.String()
}

// No document is in both parts of a set, files of a name share it, and prompts are as long as asked.
func TestSets(t *testing.T) {
	a, b := file(t, "a.txt", story(9)), file(t, "b.txt", "= Heading =\nfirst line of it\n\nsecond line of it\n= Other =\nthird line\n")
	texts := Texts{Files: []string{"x=" + a, "x=" + a, a}, Chars: 20, Past: 6, Test: 4, Seed: 1}
	sets, err := texts.Sets()
	if err != nil || len(sets) != 2 || sets[0].Name != "x" || sets[1].Name != "a" {
		t.Fatalf("%+v, %v", sets, err)
	}
	for _, s := range sets {
		if len(s.Past) != 6 && s.Name == "x" || len(s.Test) != 4 {
			t.Errorf("%+v", s)
		}
		for _, p := range slices.Concat(s.Past, s.Test) {
			if n := len([]rune(p)); n == 0 || n > 20 {
				t.Errorf("%q", p)
			}
		}
	}
	texts = Texts{Files: []string{b}, Lines: true, Chars: 100, Past: 2, Test: 1, Seed: 1}
	if sets, err = texts.Sets(); err != nil || len(sets[0].Past) != 2 || len(sets[0].Test) != 1 {
		t.Fatalf("%+v, %v", sets, err)
	}
	all := slices.Sorted(slices.Values(slices.Concat(sets[0].Past, sets[0].Test)))
	if !slices.Equal(all, []string{"first line of it", "second line of it", "third line"}) {
		t.Errorf("%q", all)
	}
	one := file(t, "c", "one line")
	for want, spoil := range map[string]func(*Texts){
		"no prompts are named":  func(t *Texts) { t.Files = nil },
		"have 0 characters":     func(t *Texts) { t.Chars = 0 },
		"0 prompts of the past": func(t *Texts) { t.Past = 0 },
		"no such file":          func(t *Texts) { t.Files = []string{"none"} },
		"name longer texts":     func(t *Texts) { t.Files, t.Past, t.Test = []string{one}, 1, 1 },
	} {
		bad := texts
		spoil(&bad)
		if _, err := bad.Sets(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestPieces(t *testing.T) {
	for _, tc := range []struct {
		text  string
		chars int
		n     int
		want  []string
	}{
		{"abc", 5, 3, []string{"abc"}}, {"abcdef", 2, 3, []string{"ab", "cd", "ef"}}, {"aa bb cc dd ee", 5, 2, []string{"aa bb", "dd ee"}}, {"äöüß", 2, 1, []string{"äö"}},
	} {
		if got := pieces(tc.text, tc.chars, tc.n); !slices.Equal(got, tc.want) {
			t.Errorf("%q: %q, want %q", tc.text, got, tc.want)
		}
	}
}

func reader(t *testing.T) *Reader {
	t.Helper()
	if err := cpu.Check(); err != nil {
		t.Skip(err)
	}
	m, err := model.Demo()
	if err != nil {
		t.Fatal(err)
	}
	p := pool.New(1)
	t.Cleanup(func() {
		p.Close()
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	r, err := Open(m, p)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func quiet(string, ...any) {}

// Running the model and reading a recording of it give the same prompts: vectors and what rows chose.
func TestSee(t *testing.T) {
	r := reader(t)
	text := file(t, "a.txt", story(10))
	path := filepath.Join(t.TempDir(), "r")
	if _, err := record.Run(t.Context(), record.Settings{
		Model: r.Model, Pool: r.Pool, Texts: []string{text}, Tokens: 1 << 20, PromptTokens: 100, AnswerTokens: 2, Wire: tensor.BF16, Seed: 1, Progress: quiet,
	}, path); err != nil {
		t.Fatal(err)
	}
	from, err := recording.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = from.Close() }()
	recorded, err := r.Recorded(from)
	if err != nil || len(recorded) != 10 {
		t.Fatalf("%d prompts, %v", len(recorded), err)
	}
	var prompts [][]uint32
	first := from.Sequences()
	for i, at := range first[:len(first)-1] {
		var ids []uint32
		for row := at; row < first[i+1] && !from.Row(row).Answer; row++ {
			ids = append(ids, from.Row(row).Token)
		}
		prompts = append(prompts, ids)
	}
	seen, err := r.See(t.Context(), prompts, true, quiet)
	if err != nil {
		t.Fatal(err)
	}
	off := 0.0
	for i := range seen {
		if !slices.Equal(seen[i].Vector, recorded[i].Vector) || seen[i].Tokens != recorded[i].Tokens || len(seen[i].Fate) != len(seen[i].Activation) {
			t.Fatalf("prompt %d is another one", i)
		}
		off += sps.Divergence(seen[i].Activation, recorded[i].Activation, 16)
	}
	if off > 0.01 { // wire types may differ
		t.Errorf("activations are %v bits apart", off)
	}
	lines, err := Evaluate(t.Context(), "a", small(r), seen[:7], seen[7:])
	if err != nil || len(lines) < 9 {
		t.Fatalf("%v, %v", lines, err)
	}
	for _, l := range lines {
		if !(l.JS > 0 && l.JS < 1) || l.Of <= 0 || math.IsNaN(l.High) || l.String() == "" || l.Past != 7 || l.Test != 3 {
			t.Errorf("%+v", l)
		}
	}
	if p := Compare("a", small(r), seen[:7], seen[7:]); p.Pairs != 21 || len(p.Bins) != 20 || p.String() == "" || p.Bins[19].Similarity < p.Bins[0].Similarity {
		t.Errorf("%+v", p)
	}
	store, err := Build(small(r), seen, true)
	if err != nil || store.Fits(r.Model.Hash, 8, 16) != nil || store.Len() != 10 {
		t.Errorf("%v", err)
	}
}

func small(r *Reader) sps.Settings {
	s := r.Settings()
	s.Alpha, s.Beta, s.Branch = 2, 4, 2
	return s
}

func TestRefused(t *testing.T) {
	r := reader(t)
	if _, err := r.IDs(""); err == nil || !strings.Contains(err.Error(), "has no tokens") {
		t.Errorf("%v", err)
	}
	if ids, err := r.IDs(strings.Repeat("many words ", 2000)); err != nil || len(ids) != 511 {
		t.Errorf("%d, %v", len(ids), err)
	}
	if _, err := Build(small(r), nil, false); !errors.Is(err, sps.ErrPrompt) {
		t.Errorf("%v", err)
	}
	from := &recording.Recording{Header: recording.Header{Model: "other"}}
	if _, err := r.Recorded(from); err == nil || !strings.Contains(err.Error(), "record this model") {
		t.Errorf("%v", err)
	}
	from.Model = r.Model.Hash
	if _, err := r.Recorded(from); err == nil || !strings.Contains(err.Error(), "record it anew") {
		t.Errorf("%v", err)
	}
}
