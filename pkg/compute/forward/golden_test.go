package forward

import (
	"encoding/binary"
	"math"
	"path/filepath"
	"testing"

	"github.com/switchyard/switchyard/pkg/compute/goldens"
	"github.com/switchyard/switchyard/pkg/compute/kvcache"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/model/modeltest"
	"github.com/switchyard/switchyard/pkg/compute/safetensors"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
)

// decoders are the committed checkpoints of decoders: those with a prefix's logits.
func decoders(t testing.TB) (names []string) {
	t.Helper()
	for _, name := range goldens.Names() {
		f, err := safetensors.Open(filepath.Join(goldens.Dir(name), "golden.safetensors"))
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := f.Tensor("prefix_logits"); ok {
			names = append(names, name)
		}
		_ = f.Close()
	}
	return names
}

// goldenTensor reads one of a checkpoint's reference outputs.
func goldenTensor(t testing.TB, name, tensor string) safetensors.Tensor {
	t.Helper()
	f, err := safetensors.Open(filepath.Join(goldens.Dir(name), "golden.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	x, ok := f.Tensor(tensor)
	if !ok {
		t.Fatalf("%s has no %s", name, tensor)
	}
	return x
}

// goldenPositions are the first n that a checkpoint's outputs are of.
func goldenPositions(t testing.TB, name string, n int) []int {
	t.Helper()
	f, err := safetensors.Open(filepath.Join(goldens.Dir(name), "golden.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	at, err := goldens.Positions(f, n)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// Each layer gives what transformers computes, so that a mistake shows where it is.
func TestHiddenStates(t *testing.T) {
	for _, name := range append(decoders(t), "bert_moe") {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, modeltest.Golden(t, name))
			s := r.step(tensor.F32)
			x := goldenTensor(t, name, "hidden_states")
			want, err := x.Floats()
			if err != nil {
				t.Fatal(err)
			}
			at := goldenPositions(t, name, x.Shape[1])
			s.rows = goldenRows(t, r, name, at[len(at)-1]+1)
			l := r.lane(t)
			s.lane = l
			s.eachSequence((*kvcache.Table).Span)
			if err := l.Begin(s.rows); err != nil {
				t.Fatal(err)
			}
			size := len(at) * x.Shape[2]
			if d := farthest(goldens.Rows(l.x, x.Shape[2], at), want[:size]); !(d < 5e-4) {
				t.Fatalf("the embedding differs by %v", d)
			}
			for i := range r.m.Spec.Layers {
				if err := s.layer(t.Context(), i); err != nil {
					t.Fatal(err)
				}
				l.settle()
				got := l.x
				if i == r.m.Spec.Layers-1 {
					l.head.norm.apply(l.workers(), l.norm, l.x, len(s.rows))
					got = l.norm
				}
				if d := farthest(goldens.Rows(got, x.Shape[2], at), want[(i+1)*size:(i+2)*size]); !(d < 5e-4) {
					t.Fatalf("layer %d differs by %v", i, d)
				}
			}
		})
	}
}

// goldenRows are those of the first n ids.
func goldenRows(t testing.TB, r *rig, name string, n int) []Row {
	ids := goldenTensor(t, name, "input_ids")
	table := r.table(t, n)
	rows := make([]Row, n)
	for i := range rows {
		rows[i] = Row{Table: table, ID: binary.LittleEndian.Uint32(ids.Data[4*i:]), Position: i}
	}
	if r.m.Spec.Task() == model.Fill {
		types := goldenTensor(t, name, "token_type_ids")
		for i := range rows {
			rows[i].Source, rows[i].Type = n, binary.LittleEndian.Uint32(types.Data[4*i:])
		}
	}
	return rows
}

// farthest is the largest difference in relation to the numbers' size.
func farthest(a, b []float32) float64 {
	d, size := 0.0, 1.0
	for i := range a {
		d, size = max(d, math.Abs(float64(a[i]-b[i]))), max(size, math.Abs(float64(b[i])))
	}
	return d / size
}
