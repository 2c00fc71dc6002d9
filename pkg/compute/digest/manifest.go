package digest

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/bits"
	"strings"
)

const (
	// ManifestFormat is what a manifest calls itself.
	ManifestFormat = "switchyard-weights-1"
	// FilePrefix begins the names of objects that are files beside the weights.
	FilePrefix = "file."
	// MaxManifest bounds a manifest.
	MaxManifest = 256 << 20

	maxName   = 200
	maxObject = 1 << 42 // bytes
	keyBytes  = 16
)

// Manifest says what a model in an object store consists of: the digest
// of each tensor, from which the model's identity follows, and the objects that
// hold them. It is written last, so what it names is there.
//
// An object is a safetensors file of what is loaded together (see package
// model's Piece), or a file beside the weights, whose name begins with FilePrefix.
type Manifest struct {
	Format string `json:"format"`
	// Model is the identity that follows from config.json and the tensors.
	Model   string   `json:"model"`
	Tensors []Tensor `json:"tensors"`
	Objects []Object `json:"objects"`
}

// Object is one object.
type Object struct {
	Name string `json:"name"`
	// Key is what its chunks are stored under. It follows from what the object
	// holds, so that an upload that was interrupted knows what is there already.
	Key    string `json:"key"`
	Bytes  int64  `json:"bytes"`
	Chunks int    `json:"chunks"`
	Sum    Sum    `json:"sha256"`
}

// KeyOf makes a key from a digest of what an object holds.
func KeyOf(s Sum) string { return hex.EncodeToString(s[:keyBytes]) }

var (
	// ErrBadManifest says that something is no manifest that this version reads.
	ErrBadManifest = errors.New("the manifest cannot be read; push the model again")
	// ErrBadName says that a manifest cannot list something of that name.
	ErrBadName = errors.New("no manifest can list that; rename it")
)

// Encode writes a manifest that Parse reads.
func (m *Manifest) Encode() ([]byte, error) {
	if err := m.check(); err != nil {
		return nil, fmt.Errorf("writing a manifest: %w", err)
	}
	return json.Marshal(m)
}

// ParseManifest reads a manifest and checks all that can be without the objects. Its
// errors are ErrBad.
func ParseManifest(data []byte) (*Manifest, error) {
	m := &Manifest{}
	if len(data) > MaxManifest {
		return nil, fmt.Errorf("%w: it has %d bytes, more than %d", ErrBadManifest, len(data), MaxManifest)
	}
	if err := json.Unmarshal(data, m); err != nil {
		return nil, fmt.Errorf("%w: reading JSON: %w", ErrBadManifest, err)
	}
	if err := m.check(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBadManifest, err)
	}
	return m, nil
}

func (m *Manifest) check() error {
	if m.Format != ManifestFormat {
		return fmt.Errorf("format is %.40q, not %s", m.Format, ManifestFormat)
	}
	if !isHex(m.Model, 32) {
		return fmt.Errorf("model is %.80q, not a SHA-256 in hex", m.Model)
	}
	seen := map[string]bool{}
	for i, t := range m.Tensors {
		if err := CheckTensor(t); err != nil {
			return fmt.Errorf("tensor %d: %w", i, err)
		}
		if seen[t.Name] {
			return fmt.Errorf("tensor %q is listed twice", t.Name)
		}
		seen[t.Name] = true
	}
	return m.checkObjects()
}

func (m *Manifest) checkObjects() error {
	names, keys := map[string]bool{}, map[string]bool{}
	for i, o := range m.Objects {
		if err := o.Check(); err != nil {
			return fmt.Errorf("object %d: %w", i, err)
		}
		if names[o.Name] || keys[o.Key] {
			return fmt.Errorf("object %q or its key is listed twice", o.Name)
		}
		names[o.Name], keys[o.Key] = true, true
	}
	return nil
}

// CheckTensor refuses a tensor that a manifest may not list.
func CheckTensor(t Tensor) error {
	switch {
	case t.Name == "" || len(t.Name) > maxName:
		return fmt.Errorf("name %.80q does not have 1 to %d bytes: %w", t.Name, maxName, ErrBadName)
	case !t.DType.Known():
		return fmt.Errorf("dtype %.20q of %q is unknown", string(t.DType), t.Name)
	}
	n := uint64(t.DType.Bytes(256)) // no type stores more elements together
	for _, dim := range t.Shape {
		hi, lo := bits.Mul64(n, uint64(max(dim, 0)))
		if n = lo; dim < 0 || hi != 0 || n > maxObject*256 {
			return fmt.Errorf("shape %v of %q is negative or too large", t.Shape, t.Name)
		}
	}
	return nil
}

// CheckName refuses a name that no object may have.
func CheckName(object string) error {
	if object == "" || len(object) > maxName || strings.IndexFunc(object, unprintable) >= 0 {
		return fmt.Errorf("name %.80q does not have 1 to %d printable ASCII characters: %w", object, maxName, ErrBadName)
	}
	return nil
}

// Check refuses what a manifest may not say.
func (o Object) Check() error {
	if err := CheckName(o.Name); err != nil {
		return err
	}
	switch {
	case !isHex(o.Key, keyBytes):
		return fmt.Errorf("key %.80q of %q is not %d bytes in hex", o.Key, o.Name, keyBytes)
	case o.Bytes < 0 || o.Bytes > maxObject:
		return fmt.Errorf("%q has %d bytes, which is outside 0..%d", o.Name, o.Bytes, int64(maxObject))
	case o.Chunks < 0 || int64(o.Chunks) > o.Bytes || (o.Chunks == 0) != (o.Bytes == 0):
		return fmt.Errorf("%q has %d chunks for %d bytes", o.Name, o.Chunks, o.Bytes)
	}
	return nil
}

func unprintable(r rune) bool { return r <= ' ' || r > '~' }

func isHex(s string, size int) bool {
	_, err := hex.DecodeString(s)
	return err == nil && len(s) == 2*size && s == strings.ToLower(s)
}

// ErrNoObject says that a manifest does not list an object.
var ErrNoObject = errors.New("the manifest lists no such object; push the model anew")

// Bytes returns what all objects take.
func (m *Manifest) Bytes() (n int64) {
	for _, o := range m.Objects {
		n += o.Bytes
	}
	return n
}
