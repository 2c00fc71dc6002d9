package safetensors

import (
	"math"
	"testing"

	"github.com/switchyard/switchyard/kernels/cpu"
)

// Every half comes back, and what lies between two goes to the nearer one, or
// to the even one.
func TestFloatToHalf(t *testing.T) {
	for h := range uint32(0x7c00) {
		low, high := cpu.HalfToFloat(uint16(h)), cpu.HalfToFloat(uint16(h+1))
		if h == 0x7bff {
			high = 65536
		}
		middle := (low + high) / 2
		even := uint16(h + h&1)
		for _, c := range []struct {
			in   float32
			want uint16
		}{
			{low, uint16(h)}, {middle, even},
			{math.Nextafter32(middle, 0), uint16(h)}, {math.Nextafter32(middle, 1e6), uint16(h + 1)},
		} {
			if got := FloatToHalf(c.in); got != c.want {
				t.Fatalf("%v becomes %#x, want %#x", c.in, got, c.want)
			}
			if got := FloatToHalf(-c.in); got != c.want|0x8000 {
				t.Fatalf("%v becomes %#x", -c.in, got)
			}
		}
	}
	if h := FloatToHalf(float32(math.NaN())); cpu.HalfToFloat(h) == cpu.HalfToFloat(h) {
		t.Error("a NaN becomes a number")
	}
}

func TestEncode(t *testing.T) {
	want := []float32{0, -1.5, 0.25, 1024}
	for _, d := range []DType{F64, F32, F16, BF16} {
		data, err := Encode(want, d)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Tensor{DType: d, Shape: []int{len(want)}, Data: data}.Floats()
		if err != nil {
			t.Fatal(err)
		}
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("%s: %v, want %v", d, got, want)
			}
		}
	}
	if _, err := Encode(want, I32); err == nil {
		t.Error("floats became I32")
	}
	if data, _ := Encode([]float32{math.Float32frombits(0x3f808000), math.Float32frombits(0x3f818000)}, BF16); data[0] != 0x80 || data[2] != 0x82 {
		t.Errorf("ties become % x", data)
	}
}
