package safetensors

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
)

// Pack writes plain, a whole safetensors file, as a packed one.
func Pack(w io.Writer, plain []byte) error {
	f, err := parsePlain(plain)
	if err != nil {
		return err
	}
	if _, err := w.Write(binary.LittleEndian.AppendUint64([]byte(packedMagic), uint64(len(plain)))); err != nil {
		return fmt.Errorf("writing the packed file's beginning: %w", err)
	}
	at := 0
	for _, run := range f.runs() {
		for end := at + run.bytes; at < end; {
			n := min(end-at, chunkElements*run.width)
			if err := packChunk(w, plain[at:][:n], run.width); err != nil {
				return fmt.Errorf("packing bytes %d to %d: %w", at, at+n, err)
			}
			at += n
		}
	}
	return nil
}

// run is a stretch of a file with elements of one width.
type run struct{ width, bytes int }

// runs returns the stretches of the whole file, its header first.
func (f *File) runs() []run {
	runs := []run{{1, int(f.bodyOffset)}}
	for _, name := range f.names {
		t := f.tensors[name]
		width := max(1, t.DType.Size())
		if last := &runs[len(runs)-1]; last.width == width {
			last.bytes += len(t.Data)
			continue
		}
		runs = append(runs, run{width, len(t.Data)})
	}
	return runs
}

func packChunk(w io.Writer, plain []byte, width int) error {
	planes, err := planesOf(plain, width)
	if err != nil {
		return err
	}
	head := binary.LittleEndian.AppendUint32([]byte{byte(width)}, uint32(len(plain)/width))
	head = binary.LittleEndian.AppendUint32(head, crc32.Checksum(plain, castagnoli))
	for _, p := range planes {
		head = binary.LittleEndian.AppendUint32(head, uint32(len(p)))
	}
	for _, part := range append([][]byte{head}, planes...) {
		if _, err := w.Write(part); err != nil {
			return err
		}
	}
	return nil
}
