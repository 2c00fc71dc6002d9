package goldens

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/switchyard/switchyard/pkg/compute/safetensors"
)

// weights is what weights.json.gz says.
type weights struct {
	Seed    uint32   `json:"seed"`
	SHA256  string   `json:"sha256"` // of all tensors' bytes
	Tensors []tensor `json:"tensors"`
}

// tensor is one of three: numbers as they are, integers, or, mostly, normal numbers.
type tensor struct {
	Name  string            `json:"name"`
	DType safetensors.DType `json:"dtype"` // empty: bf16
	Shape []int             `json:"shape"`
	Data  []byte            `json:"data"`
	At    int               `json:"at"` // its first draw
	// Integers are a modulus, and what is added to the rest.
	Integers []uint32 `json:"integers"`
	// Normal numbers are multiplied by Scale, one after the other, Plus is added, and they
	// are rounded to bf16. Bits are the few that torch's own functions round otherwise.
	Scale []float32      `json:"scale"`
	Plus  float32        `json:"plus"`
	Bits  map[int]uint16 `json:"bits"`
}

// draw makes the tensors of a weights.json.gz, and checks that they are the right ones.
func draw(data []byte) ([]safetensors.Tensor, error) {
	var w weights
	if err := json.Unmarshal(data, &w); err != nil {
		return nil, fmt.Errorf("reading %s: %w", recipeFile, err)
	}
	from := &draws{from: newTwister(w.Seed)}
	sum := sha256.New()
	var list []safetensors.Tensor
	for _, t := range w.Tensors {
		made := safetensors.Tensor{Name: t.Name, DType: t.DType, Shape: t.Shape}
		if made.DType == "" {
			made.DType = safetensors.BF16
		}
		made.Data = t.bytes(from, made.Len())
		sum.Write(made.Data)
		list = append(list, made)
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != w.SHA256 {
		return nil, fmt.Errorf("the weights drawn have the SHA-256 %s, not %s", got, w.SHA256)
	}
	return list, nil
}

func (t *tensor) bytes(from *draws, n int) []byte {
	if t.Data != nil {
		return t.Data
	}
	if t.Integers != nil {
		out := make([]byte, n)
		for i, raw := range from.slice(t.At, n) {
			out[i] = byte(raw%t.Integers[0] + t.Integers[1])
		}
		return out
	}
	out := make([]byte, 0, 2*n)
	for _, v := range from.normals(t.At, n) {
		for _, s := range t.Scale {
			v *= s
		}
		out = half(out, t.Plus+v)
	}
	for i, bits := range t.Bits {
		binary.LittleEndian.PutUint16(out[2*i:], bits)
	}
	return out
}
