package transfer

import (
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/switchyard/switchyard/pkg/compute/tensor"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// The parts of a cut partial hold its rows once, in order, none too many.
func TestCut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows, limit := rapid.IntRange(1, 30).Draw(t, "rows"), rapid.IntRange(1, 30).Draw(t, "limit")
		whole := &pb.Partial{Key: &pb.Key{Owner: "a"}, Awaits: []byte{5}, Tensor: tensor.Encode(tensor.BF16, make([]float32, rows*3), 3, nil)}
		for i := range rows {
			whole.Place = append(whole.Place, uint32(i))
			whole.Tensor.Data[i*6] = byte(i + 1)
		}
		got := &pb.Partial{Key: whole.Key, Awaits: whole.Awaits, Tensor: &pb.Tensor{Dtype: whole.Tensor.Dtype, Cols: 3}}
		for _, p := range cut(whole, limit) {
			n, err := tensor.Rows(p.Tensor, 3)
			if err != nil || n != len(p.Place) || n > limit || n == 0 {
				t.Fatalf("a part of %d rows, %v", n, err)
			}
			if p.Key != whole.Key || !slices.Equal(p.Awaits, whole.Awaits) {
				t.Fatalf("%v", p)
			}
			got.Place = append(got.Place, p.Place...)
			got.Tensor.Rows += p.Tensor.Rows
			got.Tensor.Data = append(got.Tensor.Data, p.Tensor.Data...)
		}
		if !proto.Equal(got, whole) {
			t.Fatalf("%v, want %v", got, whole)
		}
	})
}

// What is cut has all of it, once.
func TestCutShares(t *testing.T) {
	p := &pb.Partial{Place: []uint32{0, 1, 2}, ByteSeconds: []float32{1, 2, 4}, Tensor: &pb.Tensor{Data: make([]byte, 6)}}
	sum := float32(0)
	for _, part := range cut(p, 2) {
		if len(part.ByteSeconds) != len(part.Place) {
			t.Errorf("%v", part)
		}
		for _, x := range part.ByteSeconds {
			sum += x
		}
	}
	if sum != 7 {
		t.Errorf("%v", sum)
	}
}
