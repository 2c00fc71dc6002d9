package record

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/pkg/compute/direct"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/goldens"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/recording"
	"github.com/switchyard/switchyard/pkg/compute/sampling"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
)

// write makes a file of a test and returns its path.
func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	data := []byte(text)
	if strings.HasSuffix(name, ".gz") {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		if _, err := z.Write(data); err != nil || z.Close() != nil {
			t.Fatal(err)
		}
		data = b.Bytes()
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// demo are settings that record two small domains with the demo model.
func demo(t *testing.T) Settings {
	t.Helper()
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
	story := write(t, "story.txt", "Once upon a time there was a cat.\n<|endoftext|>\nLily had a red ball.")
	code := write(t, "code.jsonl", `{"text":"func main() {\n\tfmt.Println(1)\n}"}`)
	return Settings{
		Model: m, Pool: p, Texts: []string{story, "go=" + code}, Tokens: 40, PromptTokens: 8, AnswerTokens: 6, Wire: tensor.BF16, Seed: 1, Inputs: true,
		Progress: func(string, ...any) {},
	}
}

// What is recorded is what gates see and choose in a decode, step by step.
func TestRecordingIsTheDecode(t *testing.T) {
	s := demo(t)
	path := filepath.Join(t.TempDir(), "r")
	sum, err := Run(t.Context(), s, path)
	if err != nil {
		t.Fatal(err)
	}
	r, err := recording.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }() // it is only read
	if sum.Sequences != 3 || sum.Rows != r.Rows || !slices.Equal(r.Domains, []string{"story", "go"}) {
		t.Fatalf("%+v of domains %v", sum, r.Domains)
	}
	first := r.Sequences()
	for i := range sum.Sequences {
		compare(t, s, r, first[i], first[i+1])
	}
}

// compare decodes the rows [from, to), which are a sequence, one at a time.
func compare(t *testing.T, s Settings, r *recording.Recording, from, to int) {
	t.Helper()
	row, x, ids := from, make([]float32, r.Hidden), make([]int, r.TopK)
	runner, err := direct.New(s.Model, s.Pool, direct.Settings{
		Wire: s.Wire, MaxPositions: 64, KVBytes: 1 << 24, Routed: func(layer int, seen []float32, routes *forward.Routes) error {
			r.Inputs(layer, row, x)
			r.Chosen(layer, row, ids)
			if !slices.Equal(x, seen) || int32(ids[0]) != routes.Expert[0] || int32(ids[1]) != routes.Expert[1] {
				t.Errorf("row %d, layer %d: chosen %v, want %v; inputs equal: %v", row, layer, ids, routes.Expert, slices.Equal(x, seen))
			}
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	sequence, err := runner.Add([]uint32{r.Row(from).Token}, to-from, sampling.Params{TopP: 1, Logprobs: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer sequence.Close()
	for ; row < to; row++ {
		if err := runner.Step(t.Context(), []*direct.Sequence{sequence}); err != nil {
			t.Fatal(err)
		}
		if row+1 < to {
			sequence.IDs[len(sequence.IDs)-1] = r.Row(row + 1).Token
		}
	}
}

func TestSameSeedSameFile(t *testing.T) {
	s := demo(t)
	s.Inputs = false
	var files [][]byte
	for _, seed := range []uint64{1, 1, 2} {
		s.Seed = seed
		path := filepath.Join(t.TempDir(), "r")
		if _, err := Run(t.Context(), s, path); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, data)
	}
	if !bytes.Equal(files[0], files[1]) || bytes.Equal(files[0], files[2]) {
		t.Error("the file does not follow from the seed")
	}
}

func TestInterruptedLeavesNothing(t *testing.T) {
	for _, at := range []string{"answering", "recording"} {
		t.Run(at, func(t *testing.T) {
			s := demo(t)
			dir := t.TempDir()
			ctx, cancel := context.WithCancel(t.Context())
			s.Progress = func(format string, _ ...any) {
				if strings.HasPrefix(format, at) {
					cancel()
				}
			}
			if _, err := Run(ctx, s, filepath.Join(dir, "r")); !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
				t.Errorf("left: %v, %v", left, err)
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	for _, tt := range []struct {
		name, want string
		spoil      func(s *Settings)
	}{
		{"no texts", "no texts", func(s *Settings) { s.Texts = nil }},
		{"no prompts", "at least one", func(s *Settings) { s.PromptTokens = 0 }},
		{"too long", "at most 512 positions", func(s *Settings) { s.AnswerTokens = 510 }},
		{"one name", "two files", func(s *Settings) { s.Texts[1] = "story" + s.Texts[1][2:] }},
		{"no file", "no such file", func(s *Settings) { s.Texts[0] = "/nonexistent" }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := demo(t)
			tt.spoil(&s)
			if _, err := Run(t.Context(), s, filepath.Join(t.TempDir(), "r")); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

// recorded is what Run writes, until the test ends.
func recorded(t *testing.T, s Settings, path string) *recording.Recording {
	t.Helper()
	if _, err := Run(t.Context(), s, path); err != nil {
		t.Fatal(err)
	}
	r, err := recording.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() }) // it is only read
	return r
}

// Features add the keys that counted most, none of which comes after its row, and change nothing else.
func TestFeatures(t *testing.T) {
	s := demo(t)
	paths := []string{filepath.Join(t.TempDir(), "plain"), filepath.Join(t.TempDir(), "keys")}
	var both []*recording.Recording
	for i, path := range paths {
		s.Features = i == 1
		r := recorded(t, s, path)
		both = append(both, r)
	}
	plain, keys := both[0], both[1]
	if plain.Keys || !keys.Keys || plain.Rows != keys.Rows {
		t.Fatalf("%+v and %+v", plain.Header, keys.Header)
	}
	want, got, earlier := make([]int, plain.TopK), make([]int, plain.TopK), 0
	for l := range plain.Layers {
		for i := range plain.Rows {
			plain.Chosen(l, i, want)
			keys.Chosen(l, i, got)
			at, ok := keys.Key(l, i)
			if position := keys.Row(i).Position; !slices.Equal(want, got) || !ok || at > position {
				t.Fatalf("row %d at %d of layer %d: key %d, experts %v and %v", i, position, l, at, want, got)
			} else if at < position {
				earlier++
			}
		}
	}
	if earlier == 0 {
		t.Error("each row is its own strongest key")
	}
}

// bytewise is a copy of a golden model with a tokenizer that has a token for each byte.
func bytewise(t *testing.T, name string) *model.Model {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(goldens.Dir(name))); err != nil {
		t.Fatal(err)
	}
	vocab, id := map[string]int{}, 0
	for r := rune(0); r < 256; r++ { // as GPT-2 writes bytes
		if c := r; r >= '!' && r <= '~' || r >= '¡' && r <= '¬' || r >= '®' {
			vocab[string(c)] = int(r)
		} else {
			vocab[string(256+rune(id))] = int(r)
			id++
		}
	}
	text, err := json.Marshal(vocab)
	if err != nil {
		t.Fatal(err)
	}
	for file, body := range map[string]string{"vocab.json": string(text), "merges.txt": "#version: 0.2\n"} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(body), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	m, err := model.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() }) // it is only read
	return m
}

// Encoders are recorded, too: their rows look at later keys, those of a decoder behind one never do, and each row has all layers.
func TestEncoders(t *testing.T) {
	for name, decoders := range map[string]int{"bert_moe": 0, "bert2bert_moe": 3, "gpt2_moe": 3} {
		t.Run(name, func(t *testing.T) {
			s := demo(t)
			s.Model, s.Features, s.Inputs, s.AnswerTokens, s.PromptTokens, s.Tokens = bytewise(t, name), true, false, 0, 24, 60
			path := filepath.Join(t.TempDir(), "r")
			r := recorded(t, s, path)
			for l := range r.Layers {
				later := 0
				for i := range r.Rows {
					if at, ok := r.Key(l, i); !ok {
						t.Fatalf("row %d of layer %d has no key", i, l)
					} else if at > r.Row(i).Position {
						later++
					}
				}
				if reads := l < len(r.Layers)-decoders; (later > 0) != reads {
					t.Errorf("layer %d: %d of %d rows look at later keys", l, later, r.Rows)
				}
			}
			s.AnswerTokens = 1
			if err := s.Check(); (err == nil) != (name == "gpt2_moe") {
				t.Errorf("with answers: %v", err)
			}
		})
	}
}

// What is asked for has its own lengths, and the rows that a recording of the same texts has.
func TestAsked(t *testing.T) {
	s := demo(t)
	story := []uint32{0, 301, 77, 512, 9}
	s.Texts, s.Asked = nil, []Asked{{Domain: "a", IDs: story, Answer: 4}, {Domain: "b", IDs: story[:1]}, {Domain: "a", IDs: story[1:], Answer: 1}}
	path := filepath.Join(t.TempDir(), "r")
	if _, err := Run(t.Context(), s, path); err != nil {
		t.Fatal(err)
	}
	r, err := recording.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}()
	if first := r.Sequences(); !slices.Equal(first, []int{0, 9, 10, 15}) || !slices.Equal(r.Domains, []string{"a", "b"}) {
		t.Errorf("sequences begin at %v; domains %v", first, r.Domains)
	}
	for row, want := range map[int]bool{4: false, 5: true, 8: true, 9: false, 13: false, 14: true} {
		if got := r.Row(row); got.Answer != want {
			t.Errorf("row %d: %+v", row, got)
		}
	}
	for want, asked := range map[string]Asked{"needs a prompt": {}, "at most 512 positions": {IDs: make([]uint32, 500), Answer: 12}} {
		s.Asked = []Asked{asked}
		if _, err := Run(t.Context(), s, path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
