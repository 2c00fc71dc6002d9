package safetensors

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
)

// Tensor is a view of one tensor. Data stays valid until its File is closed
// and must not be written to: it may lie in read-only pages.
type Tensor struct {
	Name   string
	DType  DType
	Shape  []int  // row-major
	Data   []byte // little endian
	Offset int64  // of Data in its file, in bytes
}

// Len returns the number of elements.
func (t Tensor) Len() int {
	n := 1
	for _, d := range t.Shape {
		n *= d
	}
	return n
}

// File is a parsed safetensors file. It is safe for concurrent use, but no
// view may be used once Close has been called.
type File struct {
	header     []byte
	body       []byte
	size       int64
	bodyOffset int64
	tensors    map[string]Tensor
	names      []string
	metadata   map[string]string
	packed     bool

	once     sync.Once
	unmap    func() error
	closeErr error
}

// Open maps the file at path and checks its header. If there is none, but a packed one
// beside it, it unpacks that into memory. The error names the path.
func Open(path string) (*File, error) {
	data, unmap, err := mapFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if packed, release, errPacked := mapFile(path + PackedSuffix); !errors.Is(errPacked, fs.ErrNotExist) {
			path, data, unmap, err = path+PackedSuffix, packed, release, errPacked
		}
	}
	if err != nil {
		return nil, fmt.Errorf("opening safetensors file: %w", err)
	}
	f, err := parseMapped(data, unmap)
	if err != nil {
		return nil, fmt.Errorf("reading safetensors file %s: %w", path, err)
	}
	return f, nil
}

// parseMapped is Parse of a mapped file, which the result unmaps.
func parseMapped(data []byte, unmap func() error) (*File, error) {
	packed := IsPacked(data)
	if packed {
		plain, release, err := UnpackOutside(data)
		if err = errors.Join(err, unmap()); err != nil {
			return nil, err
		}
		data, unmap = plain, release
	}
	f, err := parsePlain(data)
	if err != nil {
		_ = unmap() // the parse error is the one that matters
		return nil, err
	}
	f.unmap, f.packed = unmap, packed
	return f, nil
}

// Parse reads a whole file, plain or packed, from memory. The tensors of a plain one are
// views of data, which must not change while they are used.
func Parse(data []byte) (*File, error) {
	if !IsPacked(data) {
		return parsePlain(data)
	}
	plain, err := Unpack(data)
	if err != nil {
		return nil, err
	}
	f, err := parsePlain(plain)
	if err == nil {
		f.packed = true
	}
	return f, err
}

func parsePlain(data []byte) (*File, error) {
	header, body, err := splitHeader(data)
	if err != nil {
		return nil, err
	}
	f := &File{
		header:     header,
		body:       body,
		size:       int64(len(data)),
		bodyOffset: int64(prefixBytes + len(header)),
		tensors:    map[string]Tensor{},
	}
	if err := f.parseHeader(); err != nil {
		return nil, err
	}
	return f, nil
}

// Packed says that the file was packed: offsets are those in the plain file, and its
// bytes are in memory alone.
func (f *File) Packed() bool { return f.packed }

// Tensor returns the tensor of that name.
func (f *File) Tensor(name string) (Tensor, bool) {
	t, ok := f.tensors[name]
	return t, ok
}

// Names lists the tensors in the order of their bytes.
func (f *File) Names() []string { return slices.Clone(f.names) }

// Metadata returns the header's __metadata__, nil if it has none.
func (f *File) Metadata() map[string]string { return f.metadata }

// Header returns the raw JSON header, valid until Close.
func (f *File) Header() []byte { return f.header }

// Body returns the bytes of all tensors, valid until Close.
func (f *File) Body() []byte { return f.body }

// Size returns the length of the whole file in bytes.
func (f *File) Size() int64 { return f.size }

// Close gives the mapping back; views are invalid from then on. Further calls
// do nothing and return the first call's error.
func (f *File) Close() error {
	f.once.Do(func() {
		if f.unmap != nil {
			f.closeErr = f.unmap()
		}
	})
	return f.closeErr
}

// Map maps a file's bytes, whatever they are, read-only. The returned function gives
// them back.
func Map(path string) ([]byte, func() error, error) { return mapFile(path) }
