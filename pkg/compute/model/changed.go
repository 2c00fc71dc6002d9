package model

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/switchyard/switchyard/pkg/compute/digest"
)

// checked reads a tensor's bytes, and ends with an error if they are no longer those
// that its digest was made of: the model would be served under a hash that is not its.
func (p part) checked(r io.Reader) io.Reader {
	if !p.whole {
		return r
	}
	return &checkedReader{r: r, part: p, seen: sha256.New()}
}

type checkedReader struct {
	r    io.Reader
	part part
	seen hash.Hash
}

func (c *checkedReader) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.seen.Write(b[:n])
	if errors.Is(err, io.EOF) && digest.Sum(c.seen.Sum(nil)) != c.part.sum {
		return n, fmt.Errorf("tensor %q: %w", c.part.Name, digest.ErrChanged)
	}
	return n, err
}
