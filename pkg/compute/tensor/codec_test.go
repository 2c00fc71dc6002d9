package tensor

import (
	"errors"
	"math"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

func bits(x []float32) []uint32 {
	out := make([]uint32, len(x))
	for i, v := range x {
		out[i] = math.Float32bits(v)
	}
	return out
}

// What comes out is what the wire lets through of what went in, bit for bit.
func TestRoundTrip(t *testing.T) {
	for _, w := range []Wire{F32, BF16} {
		t.Run(string(w), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				cols := rapid.IntRange(1, 40).Draw(t, "cols")
				rows := rapid.IntRange(0, 5).Draw(t, "rows")
				x := rapid.SliceOfN(rapid.Float32(), rows*cols, rows*cols).Draw(t, "x")
				buf := make([]byte, rapid.IntRange(0, 300).Draw(t, "buf"))
				enc := Encode(w, x, cols, buf)
				if n, err := Rows(enc, cols); n != rows || err != nil {
					t.Fatalf("%d rows, %v; want %d", n, err, rows)
				}
				got := make([]float32, len(x))
				if err := Decode(got, enc, cols); err != nil {
					t.Fatal(err)
				}
				w.Round(x)
				if !slices.Equal(bits(got), bits(x)) {
					t.Fatalf("%v, want %v", got, x)
				}
			})
		})
	}
}

func TestEncodeUsesTheBuffer(t *testing.T) {
	x, buf := []float32{1, 2, 3, 4}, make([]byte, 16)
	if got := Encode(F32, x, 2, buf); &got.Data[0] != &buf[0] {
		t.Error("a buffer that suffices was not used")
	}
	if got := Encode(F32, x, 2, buf[:3:3]); len(got.Data) != 16 || got.Rows != 2 || got.Cols != 2 {
		t.Errorf("%v", got)
	}
}

func TestSpecialValues(t *testing.T) {
	x := []float32{float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()), float32(math.Copysign(0, -1))}
	for _, w := range []Wire{F32, BF16} {
		got := make([]float32, 4)
		if err := Decode(got, Encode(w, x, 4, nil), 4); err != nil {
			t.Fatal(err)
		}
		if got[0] != x[0] || got[1] != x[1] || got[2] == got[2] || !math.Signbit(float64(got[3])) {
			t.Errorf("%s: %v", w, got)
		}
	}
}

func TestMalformedTensors(t *testing.T) {
	good := func() *pb.Tensor { return Encode(F32, make([]float32, 6), 3, nil) }
	for name, change := range map[string]func(*pb.Tensor) *pb.Tensor{
		"none":           func(*pb.Tensor) *pb.Tensor { return nil },
		"no type":        func(x *pb.Tensor) *pb.Tensor { x.Dtype = 0; return x },
		"unknown type":   func(x *pb.Tensor) *pb.Tensor { x.Dtype = 77; return x },
		"other type":     func(x *pb.Tensor) *pb.Tensor { x.Dtype = pb.Dtype_DTYPE_BF16; return x },
		"other width":    func(x *pb.Tensor) *pb.Tensor { x.Cols, x.Rows = 2, 3; return x },
		"more rows":      func(x *pb.Tensor) *pb.Tensor { x.Rows = 3; return x },
		"a byte more":    func(x *pb.Tensor) *pb.Tensor { x.Data = append(x.Data, 0); return x },
		"no data":        func(x *pb.Tensor) *pb.Tensor { x.Data = nil; return x },
		"too many rows":  func(x *pb.Tensor) *pb.Tensor { x.Rows = MaxRows + 1; return x },
		"overflow bait":  func(x *pb.Tensor) *pb.Tensor { x.Rows = math.MaxUint32; x.Data = nil; return x },
		"a row too many": func(x *pb.Tensor) *pb.Tensor { x.Data = append(x.Data, make([]byte, 12)...); x.Rows = 3; return x },
	} {
		t.Run(name, func(t *testing.T) {
			if err := Decode(make([]float32, 6), change(good()), 3); !errors.Is(err, ErrMalformed) {
				t.Errorf("%v, want ErrMalformed", err)
			}
		})
	}
}

// Bytes from outside are a tensor that decodes, or an error; a tensor that
// decodes encodes to the same bytes.
func FuzzDecode(f *testing.F) {
	for _, w := range []Wire{F32, BF16} {
		body, err := proto.Marshal(Encode(w, []float32{1, -2, 0.5, 3e20}, 2, nil))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(body)
	}
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, body []byte) {
		x := &pb.Tensor{}
		if proto.Unmarshal(body, x) != nil {
			return
		}
		rows, err := Rows(x, 2)
		if err != nil {
			if !errors.Is(err, ErrMalformed) {
				t.Errorf("%v is not ErrMalformed", err)
			}
			return
		}
		dst := make([]float32, rows*2)
		if err := Decode(dst, x, 2); err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(dst, func(v float32) bool { return v != v }) {
			return // a NaN's other bits may change
		}
		w := F32
		if x.Dtype == pb.Dtype_DTYPE_BF16 {
			w = BF16
		}
		if again := Encode(w, dst, 2, nil); !slices.Equal(again.Data, x.Data) {
			t.Errorf("%v became %v", x.Data, again.Data)
		}
	})
}
