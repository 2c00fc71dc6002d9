package bench

import (
	"io"
	"os"
)

// eachMiB reads so many bytes of a file, or all of it, a MiB at a time into memory that was written before.
func eachMiB(file string, from, bytes int64, into []byte) (err error) {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // only read
	if bytes < 0 {
		info, err := f.Stat()
		if err != nil {
			return err
		}
		bytes = info.Size() - from
	}
	into = into[:min(len(into), 1<<20)]
	for bytes > 0 {
		n, err := f.ReadAt(into[:min(int64(len(into)), bytes)], from)
		if err == io.EOF && n > 0 {
			err = nil
		}
		if err != nil {
			return err
		}
		from, bytes = from+int64(n), bytes-int64(n)
	}
	return nil
}
