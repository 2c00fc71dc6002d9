package gguf

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/switchyard/switchyard/pkg/compute/safetensors"
)

// Suffix is what names of files end with.
const Suffix = ".gguf"

// File is a parsed file. It is safe for concurrent use, but no view may be used once Close
// has been called.
type File struct {
	header  []byte
	values  map[string]any
	tensors map[string]safetensors.Tensor
	names   []string // in the order of their bytes

	once     sync.Once
	unmap    func() error
	closeErr error
}

// Open maps the file at path and checks its header. The error names the path.
func Open(path string) (*File, error) {
	data, unmap, err := safetensors.Map(path)
	if err != nil {
		return nil, fmt.Errorf("opening GGUF file: %w", err)
	}
	f, err := Parse(data)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("reading GGUF file %s: %w", path, err), unmap())
	}
	f.unmap = unmap
	return f, nil
}

// Parse reads a whole file from memory. Tensors are views of data, which must not change
// while they are used.
func Parse(data []byte) (*File, error) {
	f := &File{values: map[string]any{}, tensors: map[string]safetensors.Tensor{}}
	r := &reader{data: data}
	if err := f.parse(r); err != nil {
		return nil, err
	}
	return f, nil
}

// Tensor returns the tensor of that name.
func (f *File) Tensor(name string) (safetensors.Tensor, bool) {
	t, ok := f.tensors[name]
	return t, ok
}

// Names lists the tensors in the order of their bytes.
func (f *File) Names() []string { return slices.Clone(f.names) }

// Architecture is llama.cpp's name of what computes with the tensors, empty where the header
// has none: parts of a model but the first need none.
func (f *File) Architecture() string {
	s, _ := f.values[architectureKey].(string)
	return s
}

// Split returns which part of a model the file is, from 0, of how many, and how many tensors all of
// them have. It is false if the header does not say all three.
func (f *File) Split() (s Split, ok bool) {
	part, is := f.values[splitNoKey].(uint64)
	parts, are := f.values[splitCountKey].(uint64)
	tensors, have := f.values[splitTensorsKey].(uint64)
	return Split{part, parts, tensors}, is && are && have
}

// Split is what the header of a part of a model says of all parts.
type Split struct{ Part, Parts, Tensors uint64 }

// Header returns the bytes before the tensors', valid until Close.
func (f *File) Header() []byte { return f.header }

// Packed says that the file is not packed as safetensors may be.
func (f *File) Packed() bool { return false }

// Close gives the mapping back; views are invalid from then on. Further calls do nothing
// and return the first call's error.
func (f *File) Close() error {
	f.once.Do(func() {
		if f.unmap != nil {
			f.closeErr = f.unmap()
		}
	})
	return f.closeErr
}
