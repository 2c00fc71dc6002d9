package checkpoint

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/switchyard/switchyard/kernels/cpu"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/safetensors"
)

type file interface {
	io.WriterAt
	io.Closer
	Sync() error
}

// writer writes a checkpoint's files into a folder.
type writer struct {
	m        *model.Model
	dir      string
	format   cpu.Format
	settings Settings

	mu          sync.Mutex // of done, and calls of Progress
	done, total int64
}

func newWriter(m *model.Model, dir string, s Settings, total int64) *writer {
	if s.create == nil {
		s.create = func(path string) (file, error) { return os.Create(path) }
	}
	s.Threads = max(1, s.Threads)
	return &writer{m: m, dir: dir, format: formats[s.Precision], settings: s, total: total}
}

// write writes the weights, and an index if they are several files. It returns how many.
func (w *writer) write(ctx context.Context, units []unit) (int, error) {
	home, files := map[string]string{}, Shards(units, w.settings.ShardBytes, (*unit).bytes)
	for i, units := range files {
		name := FileName(i, len(files))
		if err := w.shard(ctx, name, units); err != nil {
			return 0, fmt.Errorf("writing %s: %w", name, err)
		}
		for _, u := range units {
			for _, t := range u.tensors {
				home[t.Name] = name
			}
		}
	}
	if len(files) == 1 {
		return 1, nil
	}
	return len(files), WriteIndex(w.dir, home, w.total)
}

// Shards cuts units, in order, into files of at most limit bytes, or one unit.
func Shards[T any](units []T, limit int64, bytes func(*T) int64) (files [][]T) {
	size, from := int64(0), 0
	for i := range units {
		n := bytes(&units[i])
		if i > from && size+n > limit {
			files, from, size = append(files, units[from:i]), i, 0
		}
		size += n
	}
	return append(files, units[from:])
}

func (w *writer) shard(ctx context.Context, name string, units []unit) (err error) {
	tensors := ordered(units)
	var header bytes.Buffer
	if err := safetensors.WriteHeader(&header, tensors, map[string]string{"format": "pt"}); err != nil {
		return err
	}
	f, err := w.settings.create(filepath.Join(w.dir, name))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := f.WriteAt(header.Bytes(), 0); err != nil {
		return err
	}
	at, places := int64(header.Len()), map[string]int64{}
	for _, t := range tensors {
		places[t.Name] = at
		at += t.DType.Bytes(int64(t.Len()))
	}
	for _, u := range units {
		if err := w.unit(ctx, f, u, places); err != nil {
			return fmt.Errorf("tensor %q: %w", u.From.Name, err)
		}
	}
	return f.Sync() // some file systems say only now that they are full
}

// ordered are the tensors of a file in their order, so that each begins at a multiple of its elements' size, which some
// programs want: as they come, or else the largest elements first.
func ordered(units []unit) (all []safetensors.Tensor) {
	at, fits := int64(0), true
	for _, u := range units {
		for _, t := range u.tensors {
			fits = fits && at%int64(t.DType.Size()) == 0
			at += t.DType.Bytes(int64(t.Len()))
			all = append(all, t)
		}
	}
	if !fits {
		slices.SortStableFunc(all, func(a, b safetensors.Tensor) int { return cmp.Compare(b.DType.Size(), a.DType.Size()) })
	}
	return all
}

func (w *writer) put(f file, data []byte, at int64) error {
	if _, err := f.WriteAt(data, at); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.done += int64(len(data)); w.settings.Progress != nil {
		w.settings.Progress(w.done, w.total)
	}
	return nil
}
