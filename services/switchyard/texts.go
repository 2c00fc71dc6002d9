package main

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// mostText is how much is read of a file of text, in bytes.
const mostText = 1 << 20

// readText reads the beginning of a file of text, plain or packed.
func readText(path string) (text string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("reading text: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	var from io.Reader = bufio.NewReader(f)
	if strings.HasSuffix(path, ".gz") {
		if from, err = gzip.NewReader(from); err != nil {
			return "", fmt.Errorf("unpacking %s: %w", path, err)
		}
	}
	body, err := io.ReadAll(io.LimitReader(from, mostText))
	if err != nil {
		return "", fmt.Errorf("reading %s: %w", path, err)
	}
	return strings.ToValidUTF8(string(body), ""), nil
}
