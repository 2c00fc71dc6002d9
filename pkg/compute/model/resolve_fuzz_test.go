package model

import (
	"encoding/binary"
	"testing"

	"github.com/switchyard/switchyard/pkg/compute/safetensors"
)

// container is a safetensors file of a header and so many bytes of data.
func container(header string, size int) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(b, header...), make([]byte, size)...)
}

// Whatever a file says, a reference gives the elements that the config wants, from
// within the file, or an error.
func FuzzResolve(f *testing.F) {
	f.Add(container(`{"w":{"dtype":"BF16","shape":[2,4,6],"data_offsets":[0,96]}}`, 96), uint8(0b0111), uint8(1), uint8(3), uint8(4), uint8(1))
	f.Add(container(`{"w_blocks":{"dtype":"U8","shape":[2,2,1,16],"data_offsets":[0,64]},"w_scales":{"dtype":"U8","shape":[2,2,1],"data_offsets":[64,68]}}`, 68),
		uint8(0b10101), uint8(1), uint8(1), uint8(32), uint8(1))
	f.Add(container(`{"w":{"dtype":"F8_E4M3","shape":[3,4],"data_offsets":[0,12]},"w_scale_inv":{"dtype":"F32","shape":[1,1],"data_offsets":[12,16]}}`, 16),
		uint8(0b100000), uint8(0), uint8(3), uint8(4), uint8(0))
	f.Add(container(`{"w":{"dtype":"BF16","shape":[0,9223372036854775807],"data_offsets":[0,0]}}`, 0), uint8(1), uint8(0), uint8(1), uint8(1), uint8(0))
	f.Add(container(`{"w":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}}`, 0), uint8(0), uint8(0), uint8(1), uint8(1), uint8(0))
	f.Add(container(`{"w":{"dtype":"F4","shape":[2,3],"data_offsets":[0,3]}}`, 3), uint8(0), uint8(0), uint8(2), uint8(3), uint8(0))
	f.Fuzz(func(t *testing.T, data []byte, kind, index, n, k, expert uint8) {
		file, err := safetensors.Parse(data)
		if err != nil || n == 0 || k == 0 {
			return
		}
		at := TensorRef{
			Name: "w", Stacked: kind&1 != 0, Transposed: kind&2 != 0,
			Part: Part{Count: int(kind&4) / 2, Interleaved: kind&8 != 0}, Dequant: Dequant(kind >> 4 & 7 % 3),
		}
		if at.Part.Count > 0 {
			at.Part.Index = int(index % 2)
		}
		want := []int{int(n), int(k)}
		if kind&128 != 0 {
			want = want[:1]
		}
		r, err := resolve(at, Ref{Expert: int(expert % 2)}, want, 2, file.Tensor)
		if err != nil {
			return
		}
		if x := r.tensor(); len(x.Data) != int(x.DType.Bytes(int64(x.Len()))) || r.bytes() > int64(len(data)) {
			t.Fatalf("%d bytes of %s%v, %d in a file of %d", len(x.Data), x.DType, x.Shape, r.bytes(), len(data))
		}
		if p, err := r.pack(); err == nil {
			p.floatsTo(make([]float32, p.Len())) // panics where codes or scales are missing
		}
	})
}
