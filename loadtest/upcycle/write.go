package upcycle

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/switchyard/switchyard/loadtest/checkpoint"
	"github.com/switchyard/switchyard/pkg/compute/safetensors"
)

// writer writes a checkpoint's files into a folder.
type writer struct {
	dir         string
	seed        uint64
	done, total int64
	progress    func(done, total int64)
}

func (o *output) bytes() int64 { return o.DType.Bytes(int64(o.Len())) }

// write writes the weights, and an index if they are several files.
func (w *writer) write(ctx context.Context, files [][]output) error {
	index := map[string]string{}
	for i, outputs := range files {
		name := checkpoint.FileName(i, len(files))
		if err := w.file(ctx, name, outputs); err != nil {
			return fmt.Errorf("writing %s: %w", name, err)
		}
		for _, o := range outputs {
			index[o.Name] = name
		}
	}
	if len(files) == 1 {
		return nil
	}
	return checkpoint.WriteIndex(w.dir, index, w.total)
}

func (w *writer) file(ctx context.Context, name string, outputs []output) (err error) {
	f, err := os.Create(filepath.Join(w.dir, name))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	buffered := bufio.NewWriterSize(f, 1<<20)
	tensors := make([]safetensors.Tensor, len(outputs))
	for i, o := range outputs {
		tensors[i] = o.Tensor
	}
	if err := safetensors.WriteHeader(buffered, tensors, map[string]string{"format": "pt"}); err != nil {
		return err
	}
	for i := range outputs {
		if err := w.tensor(ctx, buffered, &outputs[i]); err != nil {
			return fmt.Errorf("tensor %q: %w", outputs[i].Name, err)
		}
	}
	return buffered.Flush()
}

func (w *writer) tensor(ctx context.Context, to io.Writer, o *output) error {
	if o.noise == 0 {
		return w.copy(ctx, to, o.from)
	}
	for at := 0; at < o.Len(); at += piece {
		data, err := o.make(at, w.seed)
		if err != nil {
			return err
		}
		if err := w.put(ctx, to, data); err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) copy(ctx context.Context, to io.Writer, data []byte) error {
	for len(data) > 0 {
		n := min(len(data), 4*piece)
		if err := w.put(ctx, to, data[:n]); err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}

func (w *writer) put(ctx context.Context, to io.Writer, data []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if _, err := to.Write(data); err != nil {
		return err
	}
	w.done += int64(len(data))
	if w.progress != nil {
		w.progress(w.done, w.total)
	}
	return nil
}
