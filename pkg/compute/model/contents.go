package model

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/switchyard/switchyard/pkg/compute/digest"
	"github.com/switchyard/switchyard/pkg/compute/safetensors"
)

// Content is an object that a model's folder makes: a piece, or a file.
type Content struct {
	Name  string
	Key   string // see digest.Object
	Bytes int64
	// Open returns the bytes, which are read from the files as they are needed.
	Open func() (io.ReadCloser, error)
}

// Digests returns those of the model's tensors, in the order of the files.
func (m *Model) Digests() []digest.Tensor { return m.digests }

// Contents returns all objects of a model in a folder: the files beside the weights
// first, then the pieces in the order of the layers.
func (m *Model) Contents() ([]Content, error) {
	c, ok := m.source.(*checkpoint)
	if !ok || m.Hash == "" {
		return nil, fmt.Errorf("model %s is in no folder, or was not hashed", m.Name)
	}
	if err := m.listable(); err != nil {
		return nil, err
	}
	list, err := c.sideContents()
	if err != nil {
		return nil, err
	}
	sums := map[string]digest.Sum{}
	for _, t := range m.digests {
		sums[t.Name] = t.Sum
	}
	pieces, of := m.contents()
	for _, p := range pieces {
		content, err := c.pieceContent(p, of[p], sums)
		if err != nil {
			return nil, err
		}
		list = append(list, content)
	}
	return list, nil
}

// listable refuses a model that no manifest could list, before anything is sent.
func (m *Model) listable() error {
	for _, t := range m.digests {
		if err := digest.CheckTensor(t); err != nil {
			return fmt.Errorf("model %s cannot be in an object store: tensor: %w", m.Name, err)
		}
	}
	return nil
}

// sideEnds are what files beside the weights end with that services may need.
var sideEnds = []string{".json", ".jinja", ".model", ".tiktoken", ".txt"}

func (c *checkpoint) sideContents() ([]Content, error) {
	names, err := c.sideNames()
	if err != nil {
		return nil, err
	}
	var list []Content
	for _, name := range names {
		if data, ok := c.file(name); ok {
			list = append(list, sideContent(name, data))
		}
	}
	return list, nil
}

// sideNames returns the files beside the weights that services may need, those in
// chat_templates with the folder's name before theirs.
func (c *checkpoint) sideNames() ([]string, error) {
	root, err := c.list("", sideEnds)
	if err != nil {
		return nil, err
	}
	info, err := fs.Stat(c.side, path.Clean(templates))
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.IsDir() {
		return root, nil
	}
	if err != nil {
		return nil, err
	}
	more, err := c.list(templates, []string{".jinja"})
	return append(root, more...), err
}

// list names the files of a folder with such ends. It leaves out those whose names
// no manifest could list: no service reads one.
func (c *checkpoint) list(folder string, ends []string) (names []string, err error) {
	entries, err := fs.ReadDir(c.side, path.Clean(folder))
	if err != nil {
		return nil, fmt.Errorf("listing the files beside the weights: %w", err)
	}
	for _, e := range entries {
		wanted := slices.Contains(ends, path.Ext(e.Name())) && e.Name() != indexFile && !strings.HasPrefix(e.Name(), ".")
		if name := folder + e.Name(); wanted && digest.CheckName(digest.FilePrefix+name) == nil {
			names = append(names, name)
		}
	}
	return names, nil
}

func sideContent(name string, data []byte) Content {
	name = digest.FilePrefix + name
	key := sha256.New()
	keyPart(key, "file", name)
	key.Write(data)
	return Content{
		Name: name, Key: digest.KeyOf(digest.Sum(key.Sum(nil))), Bytes: int64(len(data)),
		Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil },
	}
}

func keyPart(w io.Writer, parts ...string) {
	for _, p := range parts {
		_, _ = w.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(p)))) // a hash takes everything
		_, _ = io.WriteString(w, p)
	}
}

// pieceContent returns a safetensors file of the piece's slices.
func (c *checkpoint) pieceContent(p Piece, slices []slice, sums map[string]digest.Sum) (Content, error) {
	key := sha256.New()
	keyPart(key, "piece", p.String())
	var parts []part
	var tensors []Tensor
	body := int64(0)
	for _, s := range slices {
		t, err := c.cut(s)
		if err != nil {
			return Content{}, err
		}
		sum := sums[s.name]
		keyPart(key, s.name, string(t.DType), fmt.Sprint(t.Shape, s.expert), string(sum[:]))
		body += int64(len(t.Data))
		tensors = append(tensors, t)
		parts = append(parts, part{t, sum, s.expert < 0})
	}
	var header bytes.Buffer
	if err := safetensors.WriteHeader(&header, tensors, nil); err != nil {
		return Content{}, fmt.Errorf("%v: %w", p, err)
	}
	return Content{
		Name: p.String(), Key: digest.KeyOf(digest.Sum(key.Sum(nil))), Bytes: int64(header.Len()) + body,
		Open: func() (io.ReadCloser, error) { return c.read(header.Bytes(), parts) },
	}, nil
}

// cut returns a stored tensor, or the part of a stacked one that is one expert's, with
// a first dimension of 1.
func (c *checkpoint) cut(s slice) (Tensor, error) {
	t, ok := c.tensor(s.name)
	if !ok {
		return t, fmt.Errorf("tensor %q is missing", s.name)
	}
	if s.expert < 0 {
		return t, nil
	}
	size := len(t.Data) / t.Shape[0]
	t.Data = t.Data[s.expert*size:][:size]
	t.Offset += int64(s.expert * size)
	t.Shape = append([]int{1}, t.Shape[1:]...)
	return t, nil
}

// part is a tensor to read, or an expert's part of one, which has no digest of its own.
type part struct {
	Tensor
	sum   digest.Sum
	whole bool
}

// read joins a header and tensors. Those of a folder are read from the files, as
// pages that are mapped would count as memory of this process.
func (c *checkpoint) read(header []byte, from []part) (io.ReadCloser, error) {
	parts := []io.Reader{bytes.NewReader(header)}
	files := openFiles{}
	for _, p := range from {
		if c.dir == "" || c.home[p.Name].Packed() {
			parts = append(parts, bytes.NewReader(p.Data))
			continue
		}
		f, err := files.open(filepath.Join(c.dir, c.fileOf(p.Name)))
		if err != nil {
			return nil, errors.Join(err, files.Close())
		}
		parts = append(parts, p.checked(io.NewSectionReader(f, p.Offset, int64(len(p.Data)))))
	}
	return struct {
		io.Reader
		io.Closer
	}{io.MultiReader(parts...), files}, nil
}

func (c *checkpoint) fileOf(tensor string) string {
	i := slices.IndexFunc(c.files, func(f namedFile) bool { return f.weightFile == c.home[tensor] })
	return c.files[i].name
}

// openFiles are files by their paths, each opened once.
type openFiles map[string]*os.File

func (o openFiles) open(path string) (*os.File, error) {
	if f, ok := o[path]; ok {
		return f, nil
	}
	f, err := os.Open(path)
	if err == nil {
		o[path] = f
	}
	return f, err
}

func (o openFiles) Close() error {
	var err error
	for _, f := range o {
		err = cmp.Or(err, f.Close())
	}
	return err
}
