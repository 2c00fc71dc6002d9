package direct

import (
	"math"
	"testing"

	"github.com/switchyard/switchyard/pkg/compute/goldens"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
)

// BERT's logits at all positions, with segments, are those of transformers.
func TestGoldenBERT(t *testing.T) {
	dir := goldens.Dir("bert_moe")
	r, m := load(t, dir, tensor.F32)
	shape, _, ids := golden(t, dir, "input_ids")
	_, _, types := golden(t, dir, "token_type_ids")
	kept, want, _ := golden(t, dir, "logits")
	n, vocab, at := shape[1], m.Spec.Vocab, positions(t, dir, kept[1])
	for row := range shape[0] {
		s, err := r.AddPrompt(Prompt{IDs: ids[row*n : (row+1)*n], Source: n, Types: types[row*n : (row+1)*n]}, 0, greedy)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		got, err := r.Logits(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		compareRows(t, "logits", got, vocab, at, want[row*len(at)*vocab:(row+1)*len(at)*vocab], n)
	}
}

// BERT2BERT's encoder, its decoder's logits and what it answers are those of
// transformers.
func TestGoldenBERT2BERT(t *testing.T) {
	dir := goldens.Dir("bert2bert_moe")
	r, m := load(t, dir, tensor.F32)
	shape, _, ids := golden(t, dir, "input_ids")
	inner, _, decoder := golden(t, dir, "decoder_input_ids")
	_, encoded, _ := golden(t, dir, "encoder_output")
	kept, want, _ := golden(t, dir, "logits")
	n, k, d, vocab, at := shape[1], inner[1], m.Spec.Hidden, m.Spec.Vocab, positions(t, dir, kept[1])
	for row := range shape[0] {
		prompt := append(append([]uint32{}, ids[row*n:(row+1)*n]...), decoder[row*k:(row+1)*k]...)
		s, err := r.AddPrompt(Prompt{IDs: prompt, Source: n}, 0, greedy)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		hidden, err := r.Encode(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		compare(t, "encoder output", hidden, encoded[row*n*d:(row+1)*n*d])
		got, err := r.Logits(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		compareRows(t, "logits", got, vocab, at, want[row*len(at)*vocab:(row+1)*len(at)*vocab], k)
	}
}

// compareRows compares the rows at some positions of the n that were computed.
func compareRows(t *testing.T, what string, got []float32, width int, at []int, want []float32, n int) {
	t.Helper()
	if len(got) != n*width {
		t.Fatalf("%s: %d numbers, want %d", what, len(got), n*width)
	}
	compare(t, what, goldens.Rows(got, width, at), want)
}

func compare(t *testing.T, what string, got, want []float32) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d numbers, want %d", what, len(got), len(want))
	}
	tolerance := 2e-4 * max(1, deviation(want))
	if d := maxDiff(got, want); d > tolerance || math.IsNaN(d) {
		t.Errorf("%s differ by %g, tolerance %g", what, d, tolerance)
	}
}

// What an answer begins with follows from source and start, one token at a time.
func TestGoldenAnswer(t *testing.T) {
	dir := goldens.Dir("bert2bert_moe")
	r, m := load(t, dir, tensor.F32)
	shape, _, ids := golden(t, dir, "input_ids")
	_, _, want := golden(t, dir, "greedy_ids")
	n := shape[1]
	prompt := append(append([]uint32{}, ids[:n]...), uint32(m.Spec.DecoderStart))
	s, err := r.AddPrompt(Prompt{IDs: prompt, Source: n}, len(want)-1, greedy)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for i, id := range want[1:] {
		if err := r.Step(t.Context(), []*Sequence{s}); err != nil {
			t.Fatal(err)
		}
		if got := s.Generated()[i]; got != id {
			t.Fatalf("token %d is %d, want %d", i, got, id)
		}
	}
}

// An encoder's layers share one place in the cache: sequences in one step must
// not see each other there.
func TestEncodedTogether(t *testing.T) {
	r, m := load(t, goldens.Dir("bert_moe"), tensor.BF16)
	lengths := []int{40, 1, 33, 64}
	var want, got []float32
	var all []*Sequence
	for i, n := range lengths {
		ids := make([]uint32, n)
		for k := range ids {
			ids[k] = uint32((17*k*k + 5*k + i) % m.Spec.Vocab)
		}
		for together := range 2 {
			s, err := r.AddPrompt(Prompt{IDs: ids, Source: n}, 0, greedy)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if together == 1 {
				all = append(all, s)
				continue
			}
			logits, err := r.Logits(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, logits...)
		}
	}
	if err := r.forward(t.Context(), all, true, func(_ []int, logits []float32) { got = append(got, logits...) }); err != nil {
		t.Fatal(err)
	}
	if d := maxDiff(got, want); d != 0 || len(got) != len(want) {
		t.Errorf("logits of %d rows differ by %g from those alone", len(got)/m.Spec.Vocab, d)
	}
}
