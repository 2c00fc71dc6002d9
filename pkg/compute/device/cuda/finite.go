package cuda

import (
	"encoding/binary"
	"fmt"
	"math"
	"unsafe"

	"github.com/switchyard/switchyard/pkg/compute/model"
)

// NumberError says that a weight is no finite number.
type NumberError struct {
	Ref model.Ref
	At  int // of the tensor's elements
}

func (e *NumberError) Error() string {
	return fmt.Sprintf("element %d of %v is not a finite number: the checkpoint is damaged; fetch it again", e.At, e.Ref)
}

// exponents and signs of four bf16 numbers; an exponent of all ones is infinity or NaN.
const (
	exponents = 0x7f80_7f80_7f80_7f80
	signs     = 0x8000_8000_8000_8000
)

// notFinite returns the first of bf16 numbers that is not finite, or -1. It looks at sixteen
// at a time.
func notFinite(data []byte) int {
	i := 0
	for ; i+32 <= len(data); i += 32 {
		d := (*[32]byte)(data[i:])
		if (carried(d[:])|carried(d[8:])|carried(d[16:])|carried(d[24:]))&signs != 0 {
			break
		}
	}
	for ; i+2 <= len(data); i += 2 {
		if binary.LittleEndian.Uint16(data[i:])&0x7f80 == 0x7f80 {
			return i / 2
		}
	}
	return -1
}

// carried adds one to the exponents of four numbers: that of all ones carries into its sign's place.
func carried(data []byte) uint64 {
	return binary.LittleEndian.Uint64(data)&exponents + 0x0080_0080_0080_0080
}

// notFiniteFloat returns the first of numbers that is not finite, or -1.
func notFiniteFloat(f []float32) int {
	for i, v := range f {
		if math.Float32bits(v)&0x7f800000 == 0x7f800000 {
			return i
		}
	}
	return -1
}

func floatBytes(f []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(f))), 4*len(f))
}

func entryBytes(e []uint64) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(e))), 8*len(e))
}
