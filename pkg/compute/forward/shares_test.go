package forward

import (
	"slices"
	"testing"

	"github.com/switchyard/switchyard/pkg/compute/model/modeltest"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
)

// A step whose rows are shared out among threads gives each sequence the bits that it has alone.
func TestSharesKeepBits(t *testing.T) {
	for _, name := range decoders(t) {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, modeltest.Golden(t, name))
			step, beside := r.step(tensor.BF16), r.step(tensor.BF16)
			l := r.lane(t)
			l.always = true
			beside.lane = l
			first := r.m.Spec.EncoderLayers
			rows, want := company(t, r, step, slices.Repeat([]int{1, 2, 3}, shareRows)...)
			got, err := logitsOf(beside, rows)
			if err != nil {
				t.Fatal(err)
			}
			if !same(got, want) {
				t.Error("logits beside others differ from those alone")
			}
			if l.count < 2 || l.layers[first].attentionBytes() > shareBytes {
				t.Errorf("%d shares, of weights of %d bytes: nothing was shared out", l.count, l.layers[first].attentionBytes())
			}
		})
	}
}

// Rows of a sequence stay together, every row is in one share, and shares cost about as much as each other.
func TestShareOut(t *testing.T) {
	r := newRig(t, modeltest.Tiny(t))
	l := r.lane(t)
	for _, c := range []struct {
		name   string
		rows   []int // of each sequence
		shares []int // rows of each
	}{
		{"too few rows", []int{1, 1, 1, 1, 1}, nil},
		{"one each", slices.Repeat([]int{1}, 32), []int{16, 16}},
		{"some have more", append([]int{5}, slices.Repeat([]int{1}, 15)...), []int{10, 10}},
		{"one has most", append([]int{40}, slices.Repeat([]int{1}, 8)...), nil},
		{"one has all", []int{64}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			var rows []Row
			for _, n := range c.rows {
				table := r.table(t, n)
				table.Span(0, n)
				for pos := range n {
					rows = append(rows, Row{Table: table, Position: pos})
				}
			}
			if err := l.Begin(rows); err != nil {
				t.Fatal(err)
			}
			if l.count != len(c.shares) {
				t.Fatalf("%d shares, want %d", l.count, len(c.shares))
			}
			at := 0
			for i, want := range c.shares {
				if got := len(l.shares[i].rows); got != want || &l.shares[i].rows[0] != &l.rows[at] || len(l.shares[i].x) != want*r.m.Spec.Hidden {
					t.Errorf("share %d has %d rows, want %d from row %d on", i, got, want, at)
				}
				at += want
			}
		})
	}
}
