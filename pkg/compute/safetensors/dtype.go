package safetensors

// DType is an element type by its name in the header.
type DType string

// The element types that this package can convert; the others of the format
// are opaque: known by name and size only.
const (
	F64  DType = "F64"
	F32  DType = "F32"
	F16  DType = "F16"
	BF16 DType = "BF16"
	I64  DType = "I64"
	I32  DType = "I32"
	U8   DType = "U8"
	// Codes of quantised tensors, which need scales to be numbers.
	E4M3 DType = "F8_E4M3"
	E8M0 DType = "F8_E8M0" // scales: powers of two
	F4   DType = "F4"      // e2m1
)

// elementBits is the size of one element in bits; types below a byte are packed.
var elementBits = map[DType]int{
	F64: 64, I64: 64, "U64": 64, "C64": 64,
	F32: 32, I32: 32, "U32": 32,
	F16: 16, BF16: 16, "I16": 16, "U16": 16,
	U8: 8, "I8": 8, "BOOL": 8, E4M3: 8, "F8_E5M2": 8, E8M0: 8,
	"F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8,
	"F6_E2M3": 6, "F6_E3M2": 6, F4: 4,
}

// Known reports whether the name is one of the format's, or of blocks.
func (d DType) Known() bool { return elementBits[d] > 0 || blocks[d].elements > 0 }

// Bytes returns the size of so many elements, which fill whole bytes and blocks.
func (d DType) Bytes(elements int64) int64 {
	if b, ok := blocks[d]; ok {
		return elements / int64(b.elements) * int64(b.bytes)
	}
	return elements * int64(elementBits[d]) / 8
}

// Size returns the size of one element in bytes, 0 for types smaller than a byte,
// for those of blocks and for unknown names.
func (d DType) Size() int { return elementBits[d] / 8 }
