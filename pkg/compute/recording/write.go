package recording

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/switchyard/switchyard/kernels/cpu"
	"github.com/switchyard/switchyard/pkg/compute/safetensors"
)

// Writer fills a recording. Every row must be written; those that are not are
// prompts' tokens 0 of domain 0 with expert 0 in every slot, which a reader refuses.
type Writer struct {
	Header
	columns []column
	begin   int64 // of the data
	file    *os.File
	path    string
	buf     []byte
}

// Create makes a file for so many rows. It stands under path when Close has
// succeeded, and under a name of its own until then.
func Create(path string, h Header) (*Writer, error) {
	if err := h.check(); err != nil {
		return nil, fmt.Errorf("making a recording: %w", err)
	}
	file, err := os.Create(path + ".partial")
	if err != nil {
		return nil, fmt.Errorf("making a recording: %w", err)
	}
	w := &Writer{Header: h, columns: h.columns(), file: file, path: path}
	if err := w.reserve(); err != nil {
		return nil, errors.Join(fmt.Errorf("making recording %s: %w", path, err), w.Abort())
	}
	return w, nil
}

// reserve writes the header and gives the file its size.
func (w *Writer) reserve() error {
	meta, err := w.metadata()
	if err != nil {
		return err
	}
	tensors := make([]safetensors.Tensor, len(w.columns))
	for i, c := range w.columns {
		tensors[i] = safetensors.Tensor{Name: c.name, DType: c.dtype, Shape: c.shape}
	}
	if err := safetensors.WriteHeader(w.file, tensors, meta); err != nil {
		return err
	}
	if w.begin, err = w.file.Seek(0, io.SeekCurrent); err != nil {
		return err
	}
	last := w.columns[len(w.columns)-1]
	return w.file.Truncate(w.begin + last.at + int64(last.width)*int64(w.Rows))
}

// Describe writes what rows are, from row at on.
func (w *Writer) Describe(at int, rows []Row) error {
	fields := []func(Row) uint32{
		func(r Row) uint32 { return uint32(r.Domain) },
		func(r Row) uint32 {
			if r.Answer {
				return 1
			}
			return 0
		},
		func(r Row) uint32 { return uint32(r.Sequence) },
		func(r Row) uint32 { return uint32(r.Position) },
		func(r Row) uint32 { return r.Token },
	}
	for i, field := range fields {
		w.buf = w.buf[:0]
		for _, r := range rows {
			w.buf = binary.LittleEndian.AppendUint32(w.buf, field(r))[:len(w.buf)+w.columns[i].width]
		}
		if err := w.put(i, at, len(rows)); err != nil {
			return err
		}
	}
	return nil
}

// Layer writes what the gate of w.Layers[i] saw and chose for rows from at on:
// experts (rows, k), inputs (rows, D), the latter nil if there are none.
func (w *Writer) Layer(i, at int, experts []int32, inputs []float32) error {
	rows := len(experts) / w.TopK
	w.buf = w.buf[:0]
	for _, e := range experts {
		w.buf = binary.LittleEndian.AppendUint16(w.buf, uint16(e))
	}
	first, wide := rowFields+i, w.Hidden > 0
	if wide {
		first += i
	}
	if err := w.put(first, at, rows); err != nil || !wide {
		return err
	}
	w.buf = append(w.buf[:0], make([]byte, 2*len(inputs))...)
	cpu.ToBF16(w.buf, inputs)
	return w.put(first+1, at, rows)
}

// Key writes the keys of w.Layers[i] for rows from at on.
func (w *Writer) Key(i, at int, keys []int32) error {
	w.buf = w.buf[:0]
	for _, k := range keys {
		w.buf = binary.LittleEndian.AppendUint32(w.buf, uint32(k))
	}
	return w.put(w.firstKeys()+i, at, len(keys))
}

func (w *Writer) put(column, at, rows int) error {
	c := w.columns[column]
	if at < 0 || at+rows > w.Rows || len(w.buf) != rows*c.width {
		return fmt.Errorf("writing recording %s: rows %d to %d of %s with %d bytes do not fit", w.path, at, at+rows, c.name, len(w.buf))
	}
	if _, err := w.file.WriteAt(w.buf, w.begin+c.at+int64(at)*int64(c.width)); err != nil {
		return fmt.Errorf("writing recording: %w", err)
	}
	return nil
}

// Close gives the file its name.
func (w *Writer) Close() error {
	if err := w.file.Close(); err != nil {
		return errors.Join(fmt.Errorf("writing recording: %w", err), os.Remove(w.file.Name()))
	}
	if err := os.Rename(w.file.Name(), w.path); err != nil {
		return fmt.Errorf("writing recording: %w", err)
	}
	return nil
}

// Abort removes what was written.
func (w *Writer) Abort() error { return errors.Join(w.file.Close(), os.Remove(w.file.Name())) }
