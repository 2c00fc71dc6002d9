package model

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unsafe"

	"github.com/switchyard/switchyard/pkg/compute/digest"
	"github.com/switchyard/switchyard/pkg/compute/safetensors"
)

// Tensor is a view of one tensor; see safetensors.Tensor. Data is aligned to
// the size of its elements and must not be written to.
type Tensor = safetensors.Tensor

// Model is an open checkpoint. It is safe for concurrent use until Close.
type Model struct {
	Name       string // fit for a subject: letters, digits, _ and -
	Spec       Spec
	Hash       string // of config.json and of each tensor, wherever they lie; see package digest
	Generation Generation
	Bytes      int64    // of all weights that the spec needs
	Unused     []string // tensors in the files that the family has no role for
	Precision  Precision
	KVCache    KVCache  // as KeepIn has set it
	Unknown    []string // keys of config.json that nothing here knows, without a name that sounds of numbers

	family *family
	source source
	// digests are of the stored tensors; nil where Hash is empty or made up.
	digests []digest.Tensor
}

// source is where tensors and the files beside them come from.
type source interface {
	// tensor finds a tensor by the family's name for it.
	tensor(name string) (Tensor, bool)
	// stat is tensor, perhaps without Data.
	stat(name string) (Tensor, bool)
	file(name string) ([]byte, bool)
	close() error
}

// Tensor returns one tensor, its shape as Spec.Shape says: a view where the files
// have it so, else a copy of its elements. A tied head is the embedding. Of a quantised
// tensor these are the codes (see Packed), but numbers of one in int4 or in groups. It fails for a ref
// that the spec does not have, and for scales that are not numbers.
func (m *Model) Tensor(ref Ref) (Tensor, error) {
	r, err := m.load(ref)
	if err != nil {
		return Tensor{}, err
	}
	if !r.at.Dequant.Int4() && !r.at.Dequant.Grouped() {
		return r.tensor(), nil
	}
	t := r.describe()
	numbers := make([]float32, t.Len())
	if err := m.floatsTo(r, ref, numbers); err != nil {
		return Tensor{}, err
	}
	t.Data, err = safetensors.Encode(numbers, safetensors.F32)
	return t, err
}

// Stat describes a tensor as Tensor does, without making its Data.
func (m *Model) Stat(ref Ref) (Tensor, error) {
	r, err := m.find(ref, m.source.stat)
	if err != nil {
		return Tensor{}, err
	}
	return r.describe(), nil
}

func (m *Model) find(ref Ref, in lookUp) (*resolved, error) {
	want := m.Spec.Shape(ref)
	if want == nil {
		return nil, fmt.Errorf("model %s has no tensor %v", m.Name, ref)
	}
	r, err := resolve(m.stored(ref), ref, want, m.Spec.Experts, in)
	if err != nil {
		return nil, fmt.Errorf("model %s: %w (%v)", m.Name, err, ref)
	}
	return r, nil
}

// Floats returns one tensor converted to float32, as a copy.
func (m *Model) Floats(ref Ref) ([]float32, error) {
	r, err := m.load(ref)
	if err != nil {
		return nil, err
	}
	out := make([]float32, r.describe().Len())
	if err := m.floatsTo(r, ref, out); err != nil {
		return nil, err
	}
	return out, nil
}

// FloatsTo is Floats into memory that is there, of as many elements as Stat says.
func (m *Model) FloatsTo(ref Ref, out []float32) error {
	r, err := m.load(ref)
	if err != nil {
		return err
	}
	return m.floatsTo(r, ref, out)
}

func (m *Model) floatsTo(r *resolved, ref Ref, out []float32) error {
	switch {
	case r.at.Dequant.Int4():
		return m.int4(r, ref, out)
	case r.at.Dequant.Grouped():
		return m.groupedTo(r, ref, out)
	case r.at.Dequant != Plain:
		p, err := m.pack(r, ref)
		if err != nil {
			return err
		}
		p.floatsTo(out)
		return nil
	}
	return r.tensor().FloatsTo(out)
}

// int4 fills out with the numbers of a matrix in int4.
func (m *Model) int4(r *resolved, ref Ref, out []float32) error {
	matrix, err := r.int4()
	if err != nil {
		return fmt.Errorf("model %s: %w (%v)", m.Name, err, ref)
	}
	matrix.numbersTo(out)
	return nil
}

// Dequant returns how the files keep a tensor.
func (m *Model) Dequant(ref Ref) Dequant { return m.stored(ref).Dequant }

// File returns a file beside the weights, such as tokenizer.json. Only plain
// names are looked up, and those in chat_templates.
func (m *Model) File(name string) ([]byte, bool) { return m.source.file(name) }

// Close gives the mappings back; tensors are invalid from then on. It may be
// called again.
func (m *Model) Close() error { return m.source.close() }

func (m *Model) stored(ref Ref) TensorRef {
	if ref.Role == Head && m.Spec.TiedEmbeddings {
		ref.Role = Embed
	}
	return m.quantised(m.family.tensor(&m.Spec, ref), ref)
}

// names returns those of the stored tensors that the spec needs.
func (m *Model) names() map[string]bool {
	names := map[string]bool{}
	for ref := range m.Spec.Refs() {
		for _, name := range m.stored(ref).names() {
			names[name] = true
		}
	}
	return names
}

// leavesOut reports whether a tensor is known to be no part of what is computed.
func (m *Model) leavesOut(name string) bool {
	for _, prefix := range m.family.beside {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	for i := range m.Spec.NextLayers {
		if strings.HasPrefix(name, fmt.Sprintf("%smodel.layers.%d.", m.family.prefix, m.Spec.Layers+i)) {
			return true
		}
	}
	return false
}

// validate checks that every tensor that the spec needs is there, in the right
// shape and in a dtype that kernels take.
func (m *Model) validate() error {
	m.Bytes = 0
	for ref := range m.Spec.Refs() {
		r, err := resolve(m.stored(ref), ref, m.Spec.Shape(ref), m.Spec.Experts, m.source.stat)
		if err == nil {
			err = r.strays(m.source.tensor)
		}
		if err != nil {
			return fmt.Errorf("%w (%v)", err, ref)
		}
		m.Bytes += r.bytes()
	}
	return nil
}

// aligned copies a view that does not begin on a multiple of its element size,
// which the format permits, so that kernels may read whole elements.
func aligned(t Tensor) Tensor {
	size := uintptr(max(1, t.DType.Size()))
	if len(t.Data) > 0 && uintptr(unsafe.Pointer(unsafe.SliceData(t.Data)))%size != 0 {
		t.Data = slices.Clone(t.Data) // the allocator aligns to eight bytes and more
	}
	return t
}

var unfit = regexp.MustCompile(`[^A-Za-z0-9_-]`)

// CleanName makes a model's name fit for a subject: other characters than
// letters, digits, _ and - become _.
func CleanName(name string) string { return unfit.ReplaceAllString(name, "_") }

// NameOf returns the name of the model in a folder: the folder's.
func NameOf(dir string) string {
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	return CleanName(filepath.Base(dir))
}
