package cuda

import (
	"math"
	"slices"
	"testing"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/kernels/cuda"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/goldens"
	"github.com/switchyard/switchyard/pkg/compute/kvcache"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/model/modeltest"
)

// encoders are the committed checkpoints that read prompts whole, alone or for a decoder.
var encoders = []string{"bert_moe", "bert2bert_moe"}

// read is a sequence of which an encoder reads the first ids.
type read struct {
	ids    []uint32
	source int
	table  *kvcache.Table
}

// reading is a sequence of so many ids for the encoder, and for a decoder if there is one.
func (y *spine) reading(t testing.TB, source, answer int) *read {
	t.Helper()
	if y.m.Spec.Task() == model.Fill {
		answer = 0
	}
	table, err := y.kv.Reserve(max(source, answer))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(table.Release)
	return &read{idsFor(y.m, source+answer), source, table}
}

func (y *spine) rowsOf(r *read, from, to int) (rows []forward.Row) {
	for i := from; i < to; i++ {
		row := y.backbone.Row(r.table, r.ids, i, r.source, []uint32{0, 1, 1})
		row.Logits = !row.Encode
		rows = append(rows, row)
	}
	return rows
}

// encode takes what is read of all sequences through one step, and returns what comes of
// each: logits, or where a decoder follows, what that attends to.
func (y *spine) encode(t testing.TB, all ...*read) (out [][]float32) {
	t.Helper()
	var rows []forward.Row
	for _, r := range all {
		rows = append(rows, y.rowsOf(r, 0, r.source)...)
	}
	flat, err := logits(t.Context(), y.step, rows)
	if err != nil {
		t.Fatal(err)
	}
	if forward.Encodes(rows) {
		for i := range rows {
			flat = append(flat, y.step.Hidden(i)...)
		}
	}
	width := len(flat) / len(rows)
	for _, r := range all {
		out, flat = append(out, flat[:r.source*width]), flat[r.source*width:]
	}
	return out
}

// answer is the decoder's logits, in pieces of so many rows.
func (y *spine) answer(t testing.TB, r *read, pieces ...int) (out []float32) {
	t.Helper()
	from := r.source
	for _, n := range pieces {
		some, err := logits(t.Context(), y.step, y.rowsOf(r, from, from+n))
		if err != nil {
			t.Fatal(err)
		}
		out, from = append(out, some...), from+n
	}
	return out
}

// withoutPositions is a checkpoint whose sequences may be of any length.
func withoutPositions(t testing.TB, name string) *model.Model {
	t.Helper()
	m := modeltest.Golden(t, name)
	m.Spec.Embedding.Positions, m.Spec.Encoder.Positions = 0, 0
	return m
}

// encoderAgrees wants what an encoder makes of so many ids, and what a decoder goes on with,
// to be the CPU's.
func encoderAgrees(t *testing.T, m *model.Model, driver cuda.Driver, source, answer int) {
	t.Helper()
	s := backboneSettings(2)
	var all [2][]float32
	for i, on := range []cuda.Driver{driver, nil} {
		y := spineOn(t, m, on, s)
		r := y.reading(t, source, answer)
		all[i] = y.encode(t, r)[0]
		if n := len(r.ids) - source; n > 0 {
			all[i] = append(all[i], y.answer(t, r, n-1, 1)...)
		}
	}
	if d := farthest(all[0], all[1]); !(d < 2e-3) || len(all[0]) != len(all[1]) {
		t.Errorf("%d numbers, %d on the CPU, which differ by %v", len(all[0]), len(all[1]), d)
	}
}

// What encoders make of prompts, longer ones than a step has rows else too, is the CPU's, and
// so is what their decoders go on with, further than what was read and less far.
func TestEncoderAgreesWithCPU(t *testing.T) {
	for _, name := range testkit.Some(encoders) {
		t.Run(name, func(t *testing.T) { encoderAgrees(t, modeltest.Golden(t, name), newAttentionGPU(t), 41, 5) })
		t.Run(name+", long", func(t *testing.T) { encoderAgrees(t, withoutPositions(t, name), newAttentionGPU(t), 300, 5) })
		t.Run(name+", short", func(t *testing.T) { encoderAgrees(t, withoutPositions(t, name), newAttentionGPU(t), 3, 40) })
	}
}

// encoderInvariant wants a sequence to have the same bits beside others, in tiles and in
// splits.
func encoderInvariant(t *testing.T, m *model.Model, driver cuda.Driver, parts int) {
	t.Helper()
	s := backboneSettings(parts)
	y := spineOn(t, m, driver, s)
	of := y.reading(t, 19, 18)
	want := y.encode(t, of)[0]
	tiled := y.on.kernels.tiled
	y.on.kernels.tiled = false
	if got := y.encode(t, of)[0]; !slices.Equal(got, want) {
		t.Error("other bits in splits")
	}
	y.on.kernels.tiled = tiled
	all := []*read{y.reading(t, 1, 0), of, y.reading(t, 2, 0)}
	if got := y.encode(t, all...)[1]; !slices.Equal(got, want) {
		t.Error("other bits beside others")
	}
	n := len(of.ids) - of.source
	if n == 0 {
		return
	}
	want = y.answer(t, of, n)
	for _, pieces := range [][]int{slices.Repeat([]int{1}, n), {17, 1}} {
		if got := y.answer(t, of, pieces...); !slices.Equal(got, want) {
			t.Errorf("pieces %v: other bits", pieces)
		}
	}
}

func TestEncoderBatchInvariant(t *testing.T) {
	for _, name := range encoders {
		t.Run(name, func(t *testing.T) { encoderInvariant(t, modeltest.Golden(t, name), newAttentionGPU(t), 2) })
	}
}

// A decoder sees nothing of what an encoder has read for others, and all of its own.
func TestDecoderSeesItsOwn(t *testing.T) {
	y := spineOn(t, modeltest.Golden(t, "bert2bert_moe"), newAttentionGPU(t), backboneSettings(2))
	a, b := y.reading(t, 20, 2), y.reading(t, 20, 2)
	b.ids[19]++
	y.encode(t, a, b)
	rows := append(y.rowsOf(a, 20, 22), y.rowsOf(b, 20, 22)...)
	got, err := logits(t.Context(), y.step, rows)
	if err != nil {
		t.Fatal(err)
	}
	half := len(got) / 2
	if want := y.answer(t, a, 2); !slices.Equal(got[:half], want) {
		t.Error("beside another sequence: other bits")
	}
	if d := farthest(got[half:], got[:half]); d == 0 || math.IsNaN(d) {
		t.Errorf("another prompt differs by %v", d)
	}
}

// The golden folders whose attention, experts and gates a GPU computes are all of them.
func TestAllGoldenFolders(t *testing.T) {
	for _, name := range goldens.Names() {
		m := modeltest.Golden(t, name)
		for _, check := range []func(*model.Model) error{CheckBackbone, Check, CheckGates} {
			if err := check(m); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if !slices.Contains(decoders, name) && !slices.Contains(encoders, name) {
			t.Errorf("no test compares %s with the CPU", name)
		}
	}
}
