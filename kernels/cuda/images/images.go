//go:build cuda

package images

import (
	"compress/gzip"
	"embed"
	"fmt"
	"io"
	"strings"

	"github.com/switchyard/switchyard/kernels/cuda"
)

// built is made by make build-cuda; it is not committed.
//
//go:embed built
var built embed.FS

// All returns the kernels in this binary.
func All() (cuda.Images, error) {
	files, err := built.ReadDir("built")
	if err != nil {
		return nil, fmt.Errorf("listing the kernels in this binary: %w", err)
	}
	all := cuda.Images{}
	for _, f := range files {
		name, _ := strings.CutSuffix(f.Name(), ".gz")
		if all[name], err = unpack(f.Name()); err != nil {
			return nil, fmt.Errorf("unpacking %s of this binary: %w", f.Name(), err)
		}
	}
	return all, nil
}

func unpack(name string) ([]byte, error) {
	f, err := built.Open("built/" + name)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // memory
	r, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}
